"""The parts of ONNX programs on raw rows: trees, encoded tables, dates, and what ONNX cannot do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnxruntime
import polars as pl
import pytest
import torch
from finished_runs import describe
from torch import nn

from tailmask._util.messages import UserError
from tailmask.data.encoders.categories import CategoryColumn
from tailmask.data.encoders.table import TableEncoder, fit_table_encoder
from tailmask.data.encoders.text import TextColumn
from tailmask.data.row_formats import ArrayFormat, table_format
from tailmask.inference.label_decision import LabelDecision
from tailmask.inference.onnx.calendar_parts import calendar_part
from tailmask.inference.onnx.graph import Graph
from tailmask.inference.onnx.model_graphs import logits_of
from tailmask.inference.onnx.row_program import build_row_program
from tailmask.inference.onnx.table_inputs import TableInputs
from tailmask.inference.onnx.tree_ensembles import boosters_logits, forest_logits
from tailmask.inference.row_predictor import RowPredictor
from tailmask.learners.matrix.boosters import Boosters, fit_boosters
from tailmask.learners.matrix.flat_trees import FlatTrees
from tailmask.learners.matrix.forest import fit_forest
from tailmask.learners.matrix.matrix_learner import FittedModel
from tailmask.learners.matrix.row_encoders import EncodedTable, RawArrays
from tailmask.learners.network_learner import FittedNetwork
from tailmask.learners.trained_model import ModelFacts, TrainedModel


def outputs(
    graph: Graph, value: str, width: int, feed: dict[str, np.ndarray], dtype=np.float32
) -> np.ndarray:
    """What ONNX Runtime computes for a value of a graph."""
    model = graph.model({"y": (value, dtype)}, width=width, about={})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feed)[0]


def of_matrix(logits, model, matrix: np.ndarray) -> np.ndarray:
    graph = Graph()
    x = graph.input("x", np.float32, matrix.shape[1])
    return outputs(graph, logits(graph, model, x), model.size[1], {"x": matrix})


def random_trees(rng: np.random.Generator, *, trees: int, features: int, categories: int) -> FlatTrees:
    """Trees of all shapes, single leaves too; odd features are categories, with sets of all sizes."""
    parts = []
    for _ in range(trees):
        nodes = int(rng.integers(0, 12))
        children, open_ends, leaf = np.zeros((nodes, 2), dtype=np.int64), [], 0
        for node in range(nodes):
            if node:
                children[open_ends.pop(rng.integers(len(open_ends)))] = node
            open_ends += [(node, 0), (node, 1)]
        for end in open_ends:
            children[end], leaf = ~leaf, leaf + 1
        feature = rng.integers(0, features, nodes)
        is_set = feature % 2 == 1
        words = -(-categories // 32)
        sizes = rng.choice([1, 2, 9, categories // 2, categories], is_set.sum())
        sets = [rng.choice(categories, size, replace=False) for size in sizes]
        bits = np.zeros((len(sets), words * 32), dtype=np.uint8)
        for row, members in zip(bits, sets, strict=True):
            row[members] = 1
        parts.append(
            FlatTrees.of(
                features=features,
                leaves=max(leaf, 1),
                roots=[0 if nodes else ~0],
                feature=feature,
                threshold=np.where(is_set, 0, rng.choice([-1.5, 0.0, 0.1, 2.0], nodes)),
                children=children,
                missing_left=rng.integers(0, 2, nodes),
                category_set=np.where(is_set, np.cumsum(is_set) - 1, -1),
                set_starts=np.arange(len(sets) + 1) * words,
                set_words=np.packbits(bits, axis=1, bitorder="little").reshape(-1).view("<u4"),
            )
        )
    return FlatTrees.join(parts)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("labels", [1, 4])
def test_trees_find_the_same_leaves(seed, labels):
    rng = np.random.default_rng(seed)
    trees = random_trees(rng, trees=24, features=4, categories=90)
    starts = np.sort(rng.integers(0, 25, labels + 1)) if labels > 1 else np.array([0, 24])
    starts[[0, -1]] = 0, 24
    model = Boosters(trees, rng.normal(size=trees.leaves), starts.astype(np.int32), np.zeros(labels))
    near = np.concatenate(
        [[v, np.nextafter(v, 9), np.nextafter(v, -9)] for v in np.float32([-1.5, 0, 0.1, 2])]
    )
    matrix = np.empty((500, 4), dtype=np.float32)
    for column in range(4):
        pool = np.arange(95) if column % 2 else np.append(near, 5)
        matrix[:, column] = rng.choice(pool, 500)
    matrix[rng.random(matrix.shape) < 0.1] = np.nan
    expected = model.logits(matrix).numpy()
    assert len(np.unique(expected[:, 0])) > 20
    np.testing.assert_allclose(of_matrix(boosters_logits, model, matrix), expected, atol=1e-6)


def test_boosters_of_constant_labels_and_lightgbms_categories():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(3000, 3)).astype(np.float32)
    matrix[:, 1] = rng.integers(0, 12, 3000)
    matrix[rng.random(matrix.shape) < 0.1] = np.nan
    targets = np.zeros((3000, 3), dtype=np.int8)
    targets[:, 1] = np.nan_to_num(matrix[:, 1]) % 3 == 0
    targets[:, 2] = -1
    model = fit_boosters(matrix, targets, seed=0, categorical=[1], rounds=10)
    assert (model.trees.category_set >= 0).any()
    new = matrix[:100].copy()
    new[:60, 1] = np.arange(60)  # also categories that training did not have
    found = of_matrix(boosters_logits, model, new)
    np.testing.assert_allclose(found, model.logits(new).numpy(), atol=1e-6)
    constant = fit_boosters(matrix, targets[:, ::2], seed=0)
    found = of_matrix(boosters_logits, constant, new)
    np.testing.assert_allclose(found, np.tile(constant.bias, (100, 1)), rtol=1e-6)


def test_a_forest_is_precise_for_labels_that_nearly_all_rows_have():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(300, 4)).astype(np.float32)
    matrix[rng.random(matrix.shape) < 0.1] = np.nan
    rare = np.nan_to_num(matrix[:, :1]) > 2.2
    targets = np.concatenate([rare, ~rare, rare & False, ~(rare & False)], axis=1).astype(np.int8)
    model = fit_forest(matrix, targets, seed=0, trees=300, min_samples_leaf=7)
    found = of_matrix(forest_logits, model, matrix)
    np.testing.assert_allclose(found, model.logits(matrix).numpy(), rtol=2e-6, atol=1e-6)


def test_days_become_years_months_and_weekdays():
    days = np.concatenate([np.arange(-250_000, 250_000, 7), np.arange(10_950, 12_500)]).astype(np.float64)
    dates = days.astype("datetime64[D]")
    expected = {
        "days": days,
        "year": dates.astype("datetime64[Y]").astype(int) + 1970,
        "month": dates.astype("datetime64[M]").astype(int) % 12 + 1,
        "weekday": (days + 3) % 7 + 1,  # 1970-01-01 was a Thursday
    }
    for part, numbers in expected.items():
        graph = Graph()
        value = calendar_part(graph, graph.input("x", np.float64, 1), part)
        found = outputs(graph, value, 1, {"x": np.append(days + 0.5, np.nan)[:, None]}, np.float64)
        np.testing.assert_array_equal(found[:, 0], np.append(numbers, np.nan))


def frame_of(rows: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    number = rng.lognormal(size=rows).round(2) * 1e6 + 1e9
    frame = pl.DataFrame(
        {
            "income": number,
            "rooms": rng.integers(1, 5, rows).astype(float),
            "is new": rng.integers(0, 2, rows).astype(float),
            "logits": [
                value if rng.random() > 0.03 else f"only in row {row}"
                for row, value in enumerate(rng.choice(["a", "b", "ä"], rows))
            ],
            "": rng.choice(["x", "y"], rows),
            "day": [f"20{year}-03-{day:02d}" for year, day in rng.integers(10, 29, (rows, 2)).tolist()],
            "opens": [f"{hour:02d}:30" for hour in rng.integers(0, 24, rows).tolist()],
        }
    )
    empty = [pl.Series(rng.random(rows) < 0.1) for _ in frame.columns]
    return frame.select(
        pl.when(hide).then(None).otherwise(pl.col(name)).alias(name)
        for hide, name in zip(empty, frame.columns, strict=True)
    )


@pytest.mark.parametrize("form", ["scaled", "raw"])
def test_an_encoded_table_is_the_same_to_the_last_bit(form):
    frame, other = frame_of(400, 0), frame_of(300, 1)
    encoder = fit_table_encoder(frame, form=form)
    assert form == "raw" or {"logits is rare", "logits is empty", "day is empty"} <= set(encoder.outputs)
    knots = [knot for column in encoder.columns if column.name == "income" for knot in column.scale.knots]
    at_knots = [*knots, *np.nextafter(knots, np.inf).tolist(), -np.inf, np.inf, 1e300]
    at_knots = pl.Series("income", (at_knots * 3)[: other.height])
    new = pl.concat([other, other.with_columns(at_knots, logits=pl.lit("unseen"))])
    kinds = table_format(frame)
    inputs = TableInputs.of([encoder], replace(kinds, kinds=(*kinds.kinds[:2], "boolean", *kinds.kinds[3:])))
    names = [each.name for each in inputs.inputs]
    assert set(names) == {"income", "rooms", "is new", "logits_", "_", "day (days)", "opens (hours)"}
    graph = Graph()
    matrix = inputs.declare(graph)(EncodedTable(encoder))
    rows = kinds.rows(new)
    feed = inputs.feed(rows)
    assert set(np.unique(feed["is new"])) == {"", "true", "false"}
    found = outputs(graph, matrix, encoder.shape[0], feed)
    expected = encoder.encode(rows.features)
    expected = expected if isinstance(expected, np.ndarray) else expected.toarray()
    np.testing.assert_allclose(found, expected, rtol=2e-7, atol=1e-9)
    assert (found == expected)[~np.isnan(expected)].mean() > 0.99


UNMARKED = {"marks_rare": False, "marks_empty": False}


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (TextColumn("note", "word", ("a",), (1.0,)), "'note' is text"),
        (CategoryColumn("note", ("a",), 3, **UNMARKED), "'note' has so many values"),
        (CategoryColumn("note", ("", "a"), 0, **UNMARKED), "'note' had empty texts"),
    ],
)
def test_columns_that_onnx_cannot_encode_are_named(column, reason):
    encoder = TableEncoder("scaled", (column,), left_out={})
    with pytest.raises(UserError, match=reason):
        TableInputs.of([encoder], table_format(pl.DataFrame({"note": ["a"]})))


def test_a_column_that_is_dates_for_one_model_and_a_category_for_another_is_named():
    frame = pl.DataFrame({"seen": [f"2024-01-{day:02d}" for day in range(1, 29)]})
    dates = fit_table_encoder(frame)
    category = CategoryColumn("seen", ("2024-01-01",), buckets=0, marks_rare=False, marks_empty=False)
    with pytest.raises(UserError, match="'seen' is read as dates by a part of the models"):
        TableInputs.of([dates, replace(dates, columns=(category,))], table_format(frame))


def predictor(fitted) -> RowPredictor:
    facts = ModelFacts("x", ("a",), single_label=False)
    return RowPredictor(TrainedModel(fitted, ArrayFormat("X", 1), facts), LabelDecision(None))


class Unknown:
    size = (1, 1)


def test_models_without_a_form_in_onnx_and_too_large_ones_are_refused():
    encoder = RawArrays(1, sparse=False)
    with pytest.raises(UserError, match="'mine' has no form in ONNX"):
        build_row_program(predictor(FittedModel("mine", encoder, Unknown())))
    stump = {"feature": (), "threshold": (), "children": (), "missing_left": ()}
    trees = FlatTrees.of(features=1, leaves=2**26, roots=[~0], **stump)
    large = Boosters(trees, np.zeros(1), np.array([0, 1], dtype=np.int32), np.zeros(1))
    with pytest.raises(UserError, match=r"5\.\d GB .* 2 GB"):
        logits_of(Graph(), FittedModel("boost", encoder, large), lambda encoder: "x")


class OtherWhenExported(nn.Module):
    """Gives a probability of 0.51 in an exported program, else of 0.5."""

    def forward(self, inputs):
        return 0 * inputs + 0.04 * torch.compiler.is_compiling()


@pytest.mark.filterwarnings("ignore:.*LeafSpec")  # torch's exporter
def test_the_check_sees_that_a_program_differs():
    description = describe(shape=(1,), classes=("a",), prior_shift=None, thresholds=None)
    network = FittedNetwork(RawArrays(1, sparse=True), OtherWhenExported(), description)
    _, difference = build_row_program(predictor(network))
    assert difference == pytest.approx(0.01, rel=0.01)
