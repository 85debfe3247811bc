"""Finished runs put to use: predictions for new inputs, and models in the formats that others read."""

from __future__ import annotations

from tailmask.inference.export import FORMATS, export_model
from tailmask.inference.predictor import Predictor
from tailmask.inference.table import write_predictions

__all__ = ["FORMATS", "Predictor", "export_model", "write_predictions"]
