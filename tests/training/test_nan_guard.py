"""An epoch's loss and its faults: on a device that is not to be waited for as on one that may be."""

from __future__ import annotations

import pytest
import torch
from remote import Remote, remote

from tailmask.training.nan_guard import Fault, Watch

NUMBERS = torch.randn(60, generator=torch.Generator().manual_seed(0)).tolist()
FINE = torch.ones(3, 2)
BAD = torch.tensor([[1.0, torch.inf]])


def test_the_sum_is_the_same_to_the_last_bit_wherever_it_is_taken() -> None:
    here, there, by_hand = Watch(), Watch(), 0.0
    for number in NUMBERS:
        loss, scale = torch.tensor(number), 32 / 31
        assert here.add(loss, logits=FINE, inputs=FINE, num_rows=31, scale=scale) is None
        arguments = {"logits": remote(FINE), "inputs": remote(FINE)}
        assert there.add(remote(loss), **arguments, num_rows=31, scale=scale) is None
        by_hand += loss.item() * 31 / scale
    assert there.look() is None
    assert here.total == there.total == by_hand


def test_a_device_is_waited_for_every_few_steps_only() -> None:
    watch, Remote.waits = Watch(), 0
    for number in NUMBERS[:59]:
        watch.add(remote(torch.tensor(number)), logits=remote(FINE), inputs=remote(FINE), num_rows=3)
    assert Remote.waits == 59 // Watch.STEPS_BETWEEN_LOOKS
    watch.look()
    assert Remote.waits == 59 // Watch.STEPS_BETWEEN_LOOKS + 1
    assert watch.look() is None
    assert Remote.waits == 59 // Watch.STEPS_BETWEEN_LOOKS + 1


@pytest.mark.parametrize("place", [remote, torch.clone])
@pytest.mark.parametrize(
    ("loss", "logits", "inputs", "what"),
    [
        (torch.nan, FINE, FINE, "loss"),
        (1.0, BAD, FINE, "outputs"),  # what PLM sets aside leaves its loss finite
        (torch.inf, BAD, FINE, "outputs"),
        (torch.nan, BAD, BAD, "inputs"),
    ],
)
def test_the_first_fault_is_named_with_its_step(place, loss, logits, inputs, what) -> None:
    watch = Watch()
    found = []
    for step in range(Watch.STEPS_BETWEEN_LOOKS * 2 - 1):
        bad = step >= 24
        fault = watch.add(
            place(torch.tensor(loss if bad else 1.0)),
            logits=place(logits if bad else FINE),
            inputs=place(inputs if bad else FINE),
            num_rows=1,
        )
        found += [fault] if fault else []
    found += [fault] if (fault := watch.look()) else []
    assert found[0] == Fault(25, what)
    assert watch.total == 24
