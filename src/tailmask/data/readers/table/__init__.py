"""Tables (CSV, Parquet, JSON lines): columns, labels, numbers, tags. Other formats live one folder up."""
