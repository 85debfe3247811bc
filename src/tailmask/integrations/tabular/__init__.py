"""The inside of the scikit-learn estimators: a small network for tables, its labels, options and training."""

from tailmask._util.messages import require

require("sklearn", extra="sklearn")  # before a file here or an estimator imports it
