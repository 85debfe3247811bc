"""Models, checkpoints and states that are not what they claim: refused, and nothing is spoilt."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from claims import ROWS, peak
from safetensors.torch import load_file, save, save_file

from tailmask import PartialLabelMasking
from tailmask._util.messages import UserError
from tailmask.calibration import Calibration
from tailmask.data.encoders.encoder import Encoder
from tailmask.inference import Predictor
from tailmask.models import build_model
from tailmask.runs.model_file import ModelDescription, read_model, save_model
from tailmask.training.checkpoint_file import read_checkpoint


def test_a_damaged_checkpoint_is_not_gone_on_with(tmp_path: Path) -> None:
    """One bit of a weight: torch would load it without a word."""
    path = tmp_path / "checkpoint.ckpt"
    torch.save({"epochs_done": 1, "history": ["{}"], "state_dict": {"weight": torch.ones(1000)}}, path)
    assert read_checkpoint(path)["epochs_done"] == 1
    content = bytearray(path.read_bytes())
    content[content.find(torch.ones(4).numpy().tobytes()) + 2] ^= 1
    path.write_bytes(content)
    assert torch.load(path, weights_only=True)["epochs_done"] == 1
    with pytest.raises(UserError, match="cannot be read, so this run cannot be resumed: remove its folder"):
        read_checkpoint(path)


TABLE = {"kind": "table", "columns": [], "text": ["note"], "text_buckets": 8, "header": True}
IMAGES = {"kind": "images", "channels": 3, "mean": [0] * 3, "std": [1] * 3, "key": "X"}


def describe(**changes: Any) -> ModelDescription:
    fields: dict[str, Any] = {
        "method": "plm",
        "classes": ("a", "b"),
        "shape": (8,),
        "model": {"name": "mlp", "hidden": [4], "dropout": 0.0, "normalized": False},
        "encoder": TABLE,
        "single_label": False,
        "activation": "sigmoid",
        "logit_scale": 1.0,
        "threshold": 0.5,
        "thresholds": (0.5, 0.5),
        "prior_shift": None,
    }
    return ModelDescription(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model": {"name": "mlp", "hidden": [30_000, 30_000]}}, "must have shape"),
        ({"model": {"name": "mlp", "hidden": [10**12]}}, "do not fit its description"),
        ({"model": {"name": "mlp", "hidden": [4], "dropout": float("nan")}}, "dropout must be from 0"),
        ({"model": {"name": "os:system", "hidden": []}}, "a network of your own"),
        ({"shape": (10**9,)}, "must have shape"),
        ({"classes": ("a",)}, "must .* 1 values"),
        ({"thresholds": ()}, "must .* 2 values"),
        ({"thresholds": (0.5, float("nan"))}, "must be finite numbers"),
        ({"thresholds": ("0.5", {})}, "must be a number"),
        ({"activation": "exec"}, "cannot be 'exec'"),
    ],
)
def test_models_that_claim_what_they_are_not(tmp_path: Path, changes: dict, sentence: str) -> None:
    path = tmp_path / "model.safetensors"
    save_model(path, build_model("mlp", shape=(8,), num_classes=2, hidden=[4]), describe(**changes))
    before = peak()
    with pytest.raises(UserError, match=sentence):
        read_model(path)
    assert peak() - before < 2**28


@pytest.mark.parametrize(
    "changes",
    [
        {"text_buckets": 0},  # the hashing of words divides by it
        {"text_buckets": 10**12},
        {"text_buckets": "8"},
        {"text_buckets": None},
        {"columns": [{"name": "age", "kind": "number"}]},
        {"surprise": 1},
        IMAGES | {"height": 10**6, "width": 10**6},
        {"kind": []},
        {"kind": "os:system"},
    ],
)
def test_encoders_that_do_not_fit_their_model(tmp_path: Path, changes: dict) -> None:
    """In a process of its own, which a division by zero in C would end."""
    path = tmp_path / "model.safetensors"
    network = build_model("mlp", shape=(8,), num_classes=2, hidden=[4])
    save_model(path, network, describe(encoder=TABLE | changes))
    predictor = Predictor.load(path)
    with pytest.raises(UserError, match="encoder"):
        predictor.batches(tmp_path / "model.safetensors")


def test_a_column_without_a_scale_is_refused() -> None:
    column = {"name": "age", "kind": "number", "mean": 0.0, "scale": 0.0, "values": []}
    with pytest.raises(UserError):
        Encoder.from_json(TABLE | {"columns": [column]})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("target_ratio", torch.tensor([1.0, float("nan")])),
        ("target_ratio", torch.tensor([1.0, -1.0])),
        ("target_ratio", torch.tensor([1, 2])),
        ("class_counts", torch.tensor([[1, 1], [-1, 1]])),
        ("histograms.counts", torch.full((2, 2, 10), -1)),
        ("histograms.counts", torch.zeros(2, 2, 10)),
        ("histograms.counts", torch.zeros(3, dtype=torch.int64)),
    ],
)
def test_a_spoilt_state_is_refused_and_spoils_nothing(tmp_path: Path, name: str, value: torch.Tensor) -> None:
    criterion = PartialLabelMasking.from_counts([5, 1], [5, 9])
    state = {key: tensor.clone() for key, tensor in criterion.state_dict().items()}
    save_file(state | {name: value}, tmp_path / "state.safetensors")
    with pytest.raises(ValueError, match=f"the state('s {name.rpartition('.')[2]})? must") as error:
        criterion.load_state_dict(load_file(tmp_path / "state.safetensors"))
    assert "\n" not in str(error.value)
    assert all(torch.equal(tensor, state[key]) for key, tensor in criterion.state_dict().items())
    criterion.load_state_dict(state)


@pytest.mark.parametrize("value", [None, [], {"thresholds": [0.5]}, {"thresholds": "x", "prior_shift": {}}])
def test_a_calibration_that_is_none(value: Any) -> None:
    with pytest.raises(ValueError, match="prior_shift"):
        Calibration.from_json(value)


def test_safetensors_that_claim_a_trillion_bytes(tmp_path: Path) -> None:
    content = save({"weight": torch.zeros(2)})
    header = json.dumps({"weight": {"dtype": "F32", "shape": [ROWS], "data_offsets": [0, 4 * ROWS]}}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + content[-8:])
    with pytest.raises(UserError, match="is not a model file"):
        read_model(path)
