"""Encoders: rows become numbers, in training and in `predict` alike. No file is read here."""
