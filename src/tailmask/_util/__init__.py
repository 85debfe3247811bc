"""Small things that every room may use: messages, files, serialization, seeds, provenance."""
