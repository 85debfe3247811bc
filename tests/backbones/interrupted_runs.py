"""Runs that are interrupted and go on."""

from __future__ import annotations

import pytest
import torch

from tailmask.inference import Predictor
from tailmask.runs import RunConfig
from tailmask.training import train
from tailmask.training.progress import Progress, StepReports


def resumes_to_the_same_weights(config: RunConfig) -> bool:
    """Whether a run that is interrupted in its second epoch ends with the weights of a run in one go."""

    class Interrupting(Progress):
        def step(self, *, epoch: int, **_: object) -> None:
            if epoch == 2:
                raise KeyboardInterrupt

    train(config, "whole")
    with pytest.MonkeyPatch.context() as every_step:
        every_step.setattr(StepReports, "SECONDS_BETWEEN_STEPS", 0.0)
        with pytest.raises(KeyboardInterrupt):
            train(config, "parts", progress=Interrupting())
    train(config, "parts")
    whole, parts = (Predictor.load(name).classifier.state_dict() for name in ("whole", "parts"))
    return all(torch.equal(value, parts[name]) for name, value in whole.items())
