"""A model on raw rows as one ONNX program, and the comparison of the two."""

from __future__ import annotations

import numpy as np

from tailmask._util.messages import require
from tailmask.data.row_formats import TableFormat
from tailmask.inference.export_metadata import as_texts, row_metadata
from tailmask.inference.onnx.array_inputs import ArrayInputs
from tailmask.inference.onnx.graph import Graph
from tailmask.inference.onnx.model_graphs import landmarks_of, logits_of, single_models
from tailmask.inference.onnx.row_inputs import RowInputs
from tailmask.inference.onnx.table_inputs import TableInputs
from tailmask.inference.row_predictor import RowPredictor
from tailmask.learners.matrix.row_encoders import EncodedTable
from tailmask.learners.trained_model import TrainedModel

__all__ = ["build_row_program"]

# The rows that are drawn to compare the program with the model.
CHECKED_ROWS = 300


def build_row_program(predictor: RowPredictor) -> tuple[bytes, float]:
    """The ONNX file of a model on raw rows, and the largest difference of its probabilities."""
    model = predictor.model
    inputs, graph = _inputs(model), Graph()
    logits = logits_of(graph, model.fitted, inputs.declare(graph))
    wide = graph.cast(logits, np.float64)
    activation = {"sigmoid": "Sigmoid", "softmax": "Softmax"}[model.facts.activation]
    outputs = {"probabilities": (graph.op(activation, wide), np.float64), "logits": (logits, np.float32)}
    program = graph.model(
        outputs, width=len(model.classes), about=as_texts(row_metadata(predictor, inputs.about))
    )
    content: bytes = program.SerializeToString()
    return content, _difference(content, model, inputs)


def _inputs(model: TrainedModel) -> RowInputs:
    encoders = [single.encoder for single in single_models(model.fitted)]
    if isinstance(model.row_format, TableFormat):
        tables = [encoder.encoder for encoder in encoders if isinstance(encoder, EncodedTable)]
        return TableInputs.of(tables, model.row_format)
    names = getattr(model.row_format, "names", None)
    return ArrayInputs(tuple(encoders), model.row_format.num_features, names)


def _difference(content: bytes, model: TrainedModel, inputs: RowInputs) -> float:
    """The largest difference of the probabilities, for one row and for many rows together."""
    runtime = require("onnxruntime", extra="export")
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # its errors are raised, too
    session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    landmarks = [each for single in single_models(model.fitted) for each in landmarks_of(single)]
    drawn = model.row_format.rows(inputs.drawn(CHECKED_ROWS, landmarks, np.random.default_rng(0)))
    expected = model.outputs(drawn)[0].numpy()
    differences = []
    for rows in (drawn, drawn.take(np.arange(1))):
        (probabilities,) = session.run(["probabilities"], inputs.feed(rows))
        differences.append(float(abs(probabilities - expected[: len(rows)]).max()))
    return max(differences)
