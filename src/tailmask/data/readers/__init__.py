"""Readers: files become rows and labels. How rows become numbers is up to the encoders."""
