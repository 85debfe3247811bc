"""The rows of the paper's tables, by name."""

PAPER_METHODS = (
    "bce",
    "focal",
    "bce+cb",
    "bce+undersample",
    "plm",
    "plm+focal",
    "plm+bce+cb",
    "plm+bce+undersample",
    "ldam+drw",
)
