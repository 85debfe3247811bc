"""Numbers that go wrong in training: the run stops with a sentence, and nothing that is kept is spoilt."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tailmask._util.messages import UserError
from tailmask.data.dataset import Split
from tailmask.runs import Run
from tailmask.training import train
from tailmask.training.checkpoint_file import find_checkpoint
from training.remote import make_steps_remote
from training.tiny import Interrupter, replaced, same_bytes, tiny_config, tiny_dataset, without_times


class Poison:
    """Inputs that turn bad in a batch of an epoch, as a source that makes its batches itself."""

    on_disk = False
    shape = (6,)

    def __init__(self, inputs: Tensor, value: float, *, call: int) -> None:
        self.inputs, self.value, self.call, self.calls = inputs, value, call, 0

    def __len__(self) -> int:
        return len(self.inputs)

    def batch(self, index: Tensor, generator: torch.Generator | None = None) -> Tensor:
        self.calls += 1
        rows = self.inputs[index]
        return rows.fill_(self.value) if self.calls == self.call else rows


def state_of(folder: Path) -> dict[str, Any]:
    """All that the checkpoint in a folder says of the objective and the network."""
    _, content = find_checkpoint(folder) or (None, {})
    return content["state_dict"]


@pytest.mark.parametrize("place", ["cpu", "gpu"])
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (float("nan"), "the inputs hold NaN or infinite values in epoch 3, step 4 of 7: "),
        # Finite, but not what the network makes of it.
        (3e38, "outputs became NaN or infinite in epoch 3, step 4 of 7.*learning rate.*--set"),
    ],
)
def test_a_bad_batch_in_the_middle_of_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float, sentence: str, place: str
) -> None:
    """On a GPU it is seen some steps later, when the network is spoilt already."""
    dataset, good = tiny_dataset(), tmp_path / "good"
    whole = train(tiny_config(), tmp_path / "whole", dataset=dataset)
    if place == "gpu":
        make_steps_remote(monkeypatch)
    stop = Interrupter(2, error=RuntimeError("stop"), after_record=True)
    with pytest.raises(RuntimeError, match="stop"):
        train(tiny_config(), good, dataset=dataset, progress=stop)
    poison = Poison(dataset.train.inputs, value, call=2 * 7 + 4)
    spoilt = replaced(dataset, train=Split(poison, dataset.train.targets))
    with pytest.raises(UserError, match=sentence):
        train(tiny_config(), tmp_path / "run", dataset=spoilt)
    kept, expected = state_of(tmp_path / "run"), state_of(good)
    assert kept.keys() == expected.keys()
    assert any("target_ratio" in name for name in kept)
    assert all(torch.equal(kept[name], expected[name]) for name in kept)
    assert len(Run(tmp_path / "run").history) == 2
    resumed = train(tiny_config(), tmp_path / "run", dataset=spoilt)  # the batch is well again
    assert same_bytes(whole.folder, resumed.folder)
    assert without_times(resumed.history) == without_times(whole.history)


def test_a_class_that_is_hardly_kept_is_told_once_in_a_whole_run(tmp_path: Path) -> None:
    dataset = tiny_dataset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(tiny_config("plm:rate=20", epochs=6), tmp_path / "run", dataset=dataset)
    told = [str(warning.message) for warning in caught if "are kept" in str(warning.message)]
    named = [re.split(", | and ", text.split("for class ")[1].split(":")[0]) for text in told]
    classes = [name for names in named for name in names]
    assert classes
    assert set(classes) <= set(dataset.classes)
    assert len(classes) == len(set(classes))
    assert all("lower the rate" in text for text in told)
