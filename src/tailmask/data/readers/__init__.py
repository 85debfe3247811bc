"""Readers: they turn files into rows and labels. Encoders turn rows into numbers."""
