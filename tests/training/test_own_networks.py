"""Networks of the user's own in training: misfits are named, and frozen weights stay frozen."""

from __future__ import annotations

import pytest
from tiny import Interrupter, tiny_config, tiny_dataset

from tailmask._util.messages import UserError
from tailmask.runs.model_file import read_model
from tailmask.training import train
from tailmask.training.run_parts import build_parts
from training.factories import TRAINED_MODES


def own(name: str) -> list[str]:
    """Fields of the recipe for a network of the user's own."""
    return [f"model.name=training.factories:{name}", "model.hidden=[]", "model.dropout=0"]


def test_frozen_layers_stay_frozen_through_a_run_and_a_restart(dataset, tmp_path) -> None:
    TRAINED_MODES.clear()
    config = tiny_config(epochs=3, fields=own("frozen"))
    with pytest.raises(RuntimeError, match="stop"):
        train(config, tmp_path / "run", dataset=dataset, progress=Interrupter(2, error=RuntimeError("stop")))
    run = train(config, tmp_path / "run", dataset=dataset)
    assert set(TRAINED_MODES) == {(True, False, True, True, True)}
    network, _ = read_model(run.folder / "model.safetensors", model="training.factories:frozen")
    assert network[1].num_batches_tracked == 0
    assert network[1].running_mean.eq(0).all()


@pytest.mark.parametrize("name", ["positional", "broken", "narrow", "fewer", "paired"])
def test_a_network_that_does_not_fit_is_refused_before_anything_is_written(
    dataset, tmp_path, name: str
) -> None:
    with pytest.raises(UserError, match=f"training.factories:{name}"):
        train(tiny_config(fields=own(name)), tmp_path / "run", dataset=dataset)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("paired_in_training", r"paired_in_training must .* logits .* got a tuple"),
        ("failing_in_training", r"failed in training: KeyError: 'columns' \(factories\.py, line \d+\)"),
    ],
)
def test_what_is_wrong_in_training_alone_is_told_as_well(dataset, tmp_path, name: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        train(tiny_config(fields=own(name)), tmp_path / "run", dataset=dataset)


def test_a_last_row_joins_another_batch_where_batch_normalisation_cannot_take_it(tmp_path) -> None:
    """203 samples in batches of 101 leave one; a network without such layers takes it as it is."""
    dataset = tiny_dataset()
    for name, steps in (("normed", 2), ("frozen", 3)):
        progress = Interrupter()
        config = tiny_config(epochs=1, fields=[*own(name), "schedule.batch_size=101"])
        run = train(config, tmp_path / name, dataset=dataset, progress=progress)
        assert progress.calls.count("step") == steps
        assert run.history[0]["samples"] == 203


def test_batches_of_a_single_row_are_refused_where_they_cannot_be_normalised(dataset, tmp_path) -> None:
    config = tiny_config(fields=[*own("normed"), "schedule.batch_size=1"])
    with pytest.raises(UserError, match=r"batches of 1 .* set schedule.batch_size to 2 or more"):
        train(config, tmp_path / "run", dataset=dataset)
    with pytest.raises(UserError, match=r"batches of 4 .* 4 processes .* to 8 or more"):
        build_parts(tiny_config(fields=[*own("normed"), "schedule.batch_size=4"]), dataset, world_size=4)
    assert not (tmp_path / "run").exists()
