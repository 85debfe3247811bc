"""Use of finished runs: predictions for new inputs, and export of models to other formats."""

from __future__ import annotations

from tailmask.inference.exported_files import FORMATS, export_model
from tailmask.inference.prediction_table import write_predictions
from tailmask.inference.predictor import Predictor
from tailmask.inference.row_predictor import RowPredictor, load_predictor
from tailmask.inference.study_choice import choose_run

__all__ = [
    "FORMATS",
    "Predictor",
    "RowPredictor",
    "choose_run",
    "export_model",
    "load_predictor",
    "write_predictions",
]
