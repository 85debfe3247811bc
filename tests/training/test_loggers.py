"""Loggers of other tools: both engines, failures, and packages that are not installed."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tiny import Interrupter, lightning_config, tiny_config

from tailmask._util.messages import UserError
from tailmask.training import Execution, train


class StandIn:
    """A logger with the methods of Lightning's that keeps what it gets."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        self.metrics: list[tuple[int, dict[str, float]]] = []
        self.status = "open"

    def log_hyperparams(self, settings: dict[str, Any]) -> None:
        self.settings = settings

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self.metrics.append((step, metrics))

    def finalize(self, status: str) -> None:
        self.status = status


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    logger = StandIn()
    monkeypatch.setattr("pytorch_lightning.loggers.TensorBoardLogger", lambda *_, **__: logger)
    return logger


@pytest.mark.parametrize("configuration", [tiny_config, lightning_config])
def test_settings_epochs_and_results_are_logged(stand_in: StandIn, dataset, tmp_path, configuration) -> None:
    execution = Execution(logger="tensorboard")
    run = train(configuration(epochs=2), tmp_path / "run", dataset=dataset, execution=execution)
    assert stand_in.settings["method"] == "plm:rate=0.5"
    assert [step for step, _ in stand_in.metrics] == [1, 2, 2]
    for (_, logged), record in zip(stand_in.metrics, run.history, strict=False):
        assert logged["loss"] == record["loss"]
        assert logged["validation/f1"] == record["validation"]["f1"]
    assert stand_in.metrics[-1][1]["test/f1"] == run.metrics["test"]["summary"]["f1"]
    assert stand_in.metrics[-1][1]["test_tuned/f1"] == run.metrics["test_tuned"]["summary"]["f1"]
    assert stand_in.status == "success"


def test_an_interrupted_run_is_logged_as_failed(stand_in: StandIn, dataset, tmp_path) -> None:
    execution = Execution(logger="tensorboard")
    interrupter = Interrupter(2, error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        train(tiny_config(), tmp_path / "run", dataset=dataset, execution=execution, progress=interrupter)
    assert [step for step, _ in stand_in.metrics] == [1]
    assert stand_in.status == "failed"


def test_tensorboard_files_are_in_the_folder_of_the_run(dataset, tmp_path) -> None:
    pytest.importorskip("tensorboardX")
    execution = Execution(logger="tensorboard")
    train(tiny_config(epochs=1), tmp_path / "run", dataset=dataset, execution=execution)
    assert list((tmp_path / "run" / "tensorboard").glob("events*"))


def test_a_tool_that_cannot_log_is_named(dataset, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ConnectionError("no server")

    monkeypatch.setattr("pytorch_lightning.loggers.TensorBoardLogger", fail)
    with pytest.raises(UserError, match=r"tensorboard cannot log .*no server"):
        train(tiny_config(), tmp_path / "run", dataset=dataset, execution=Execution(logger="tensorboard"))


@pytest.mark.parametrize(
    ("name", "package"), [("tensorboard", "tensorboardX"), ("mlflow", "mlflow"), ("wandb", "wandb")]
)
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, name: Any, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"{package}.*tailmask\[{name}\]"):
        Execution(logger=name)
