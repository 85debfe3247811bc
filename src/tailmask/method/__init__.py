"""The method grammar, and the objective that a method makes of a data set."""

from tailmask.method.grammar import PAPER_METHODS, Method, parse

__all__ = ["PAPER_METHODS", "Method", "parse"]
