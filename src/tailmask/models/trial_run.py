"""Trial runs of networks before training; the network is unchanged afterwards."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy

from tailmask._util.messages import UserError

__all__ = ["check_outputs", "evaluation_mode", "needs_two_rows", "reason"]


@contextlib.contextmanager
def evaluation_mode(network: nn.Module) -> Iterator[None]:
    """Put the network in evaluation mode; afterwards each module returns to its own mode.

    A user's network may have frozen modules that stay in evaluation mode while the others train.

    >>> network = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2).eval())
    >>> with evaluation_mode(network):
    ...     [module.training for module in network]
    [False, False]
    >>> [module.training for module in network]
    [True, False]
    """
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def check_outputs(network: nn.Module, shape: Sequence[int], num_classes: int, *, name: str) -> None:
    """Refuse a network that does not turn inputs (N, *shape) into logits (N, num_classes).

    >>> check_outputs(nn.Linear(4, 3), (4,), 3, name="mine:factory")
    """
    inputs = _zeros(network, 2, shape)
    with evaluation_mode(network), _untouched(network):
        try:
            outputs = network(inputs)
        except Exception as error:  # a user's own code may raise anything
            raise UserError(
                f"the network of {name} cannot take inputs of shape {tuple(inputs.shape)}: {reason(error)}"
            ) from error
    expected = (2, num_classes)
    if isinstance(outputs, Tensor):
        if outputs.shape == expected and outputs.is_floating_point():
            return
        kind = str(outputs.dtype).removeprefix("torch.")
        got = f"a tensor of shape {tuple(outputs.shape)} and type {kind}"
    else:
        got = f"a {type(outputs).__name__}"
    raise UserError(
        f"the network of {name} must turn inputs of shape {tuple(inputs.shape)} into logits of shape "
        f"{expected}, got {got}"
    )


def needs_two_rows(network: nn.Module, shape: Sequence[int]) -> bool:
    """True if batch normalisation prevents training on a batch of one row.

    It needs a variance over rows and pixels, so at least two values per channel.

    >>> needs_two_rows(nn.BatchNorm1d(4), (4,)), needs_two_rows(nn.BatchNorm2d(1), (1, 2, 2))
    (True, False)
    """
    if not any(isinstance(module, _BatchNorm) and module.training for module in network.modules()):
        return False
    with _untouched(network):
        try:
            network(_zeros(network, 1, shape))
        except Exception as error:  # training reports other errors
            return "more than 1 value per channel" in str(error)
    return False


def reason(error: Exception) -> str:
    """An error in a user's own code as one line, with its file and line if known.

    >>> reason(KeyError("width"))
    "KeyError: 'width'"
    """
    text = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in ("tailmask", "torch"):
            return f"{text} ({Path(frame.f_code.co_filename).name}, line {line})"
    return text


def _zeros(network: nn.Module, number: int, shape: Sequence[int]) -> Tensor:
    first = next(network.parameters(), None)
    return torch.zeros(number, *shape, device=None if first is None else first.device)


@contextlib.contextmanager
def _untouched(network: nn.Module) -> Iterator[None]:
    """Run without gradients; afterwards restore the buffers and torch's random state.

    A buffer that a lazy layer creates in the trial is kept.
    """
    buffers = [
        (module, name, buffer, buffer.clone())
        for module in network.modules()
        for name, buffer in module.named_buffers(recurse=False)
        if not is_lazy(buffer)
    ]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        try:
            yield
        finally:
            for module, name, buffer, content in buffers:
                # An expanded buffer cannot be written to, so the trial did not change it.
                setattr(module, name, buffer if buffer.equal(content) else buffer.copy_(content))
