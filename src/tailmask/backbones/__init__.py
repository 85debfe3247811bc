"""Pretrained models: found, loaded, and their features computed once. No file of samples is read here."""
