"""The inside of the scikit-learn estimators: a small network for tables, its labels, options and training."""
