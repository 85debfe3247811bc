"""The format names in the JSON files of results."""

from __future__ import annotations

__all__ = ["COMPARISON", "RESULT", "STUDY"]

RESULT = "tailmask.result/1"  # of reproduce
COMPARISON = "tailmask.compare/1"  # of compare
STUDY = "tailmask.study/1"  # of the folder that compare works in
