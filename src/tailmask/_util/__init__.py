"""Small helpers that every package may use: messages, files, serialization, seeds, provenance."""
