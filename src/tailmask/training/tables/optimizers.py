"""SGD, Adam and AdamW as torch computes them, fused, without the overhead of its optimiser classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

__all__ = ["Optimizer"]


class Optimizer:
    """Optimiser with the same results as the class of this name in `torch.optim`.

    Creating an optimiser of `torch.optim` imports the compiler, and this takes longer than many fits.

    >>> parameter = torch.ones(2)
    >>> Optimizer([([parameter], 0.0)], name="adamw").step([torch.tensor([1.0, -1.0])], 0.1)
    >>> parameter
    tensor([0.9000, 1.1000])

    Args:
        groups: Parameters and the weight decay of each group.
        name: "adam" and "sgd" add the weight decay to the gradient, "adamw" shrinks the parameters.
        momentum: Momentum of SGD, β₁ of Adam.
    """

    def __init__(
        self,
        groups: Sequence[tuple[Sequence[Tensor], float]],
        *,
        name: Literal["sgd", "adam", "adamw"] = "adamw",
        momentum: float = 0.9,
    ) -> None:
        self.parameters = [parameter for parameters, _ in groups for parameter in parameters]
        self.name = name
        self.momentum = momentum
        self._groups: list[tuple[slice, float]] = []
        for parameters, decay in groups:
            start = self._groups[-1][0].stop if self._groups else 0
            self._groups.append((slice(start, start + len(parameters)), decay))
        self.num_steps = torch.zeros((), device=self.parameters[0].device)  # in float32, for the kernels
        self.means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.squares = [torch.zeros_like(p) for p in self.parameters] if name != "sgd" else []

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], lr: float) -> None:
        """Move the parameters, in place, at a learning rate."""
        dense = [gradient.contiguous() for gradient in gradients]  # the kernels ignore strides
        self.num_steps += 1
        for group, decay in self._groups:
            if self.name == "sgd":
                self._step_sgd(group, dense[group], lr, decay)
            else:
                self._step_adam(group, dense[group], lr, decay)

    def _step_sgd(self, group: slice, gradients: list[Tensor], lr: float, decay: float) -> None:
        torch._fused_sgd_(
            self.parameters[group],
            gradients,
            self.means[group] if self.momentum else [],
            weight_decay=decay,
            momentum=self.momentum,
            lr=lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=int(self.num_steps) == 1,
        )

    def _step_adam(self, group: slice, gradients: list[Tensor], lr: float, decay: float) -> None:
        fused = torch._fused_adam_ if self.name == "adam" else torch._fused_adamw_
        fused(
            self.parameters[group],
            gradients,
            self.means[group],
            self.squares[group],
            [],
            [self.num_steps] * len(gradients),
            amsgrad=False,
            lr=lr,
            beta1=self.momentum,
            beta2=0.999,
            weight_decay=decay,
            eps=1e-8,
            maximize=False,
        )

    def state(self) -> dict[str, Any]:
        """The state as copies, laid out as `torch.optim` does it."""
        if self.name == "sgd":
            has_momentum = bool(self.momentum) and bool(self.num_steps)
            states = [{"momentum_buffer": mean.clone()} for mean in self.means if has_momentum]
        else:
            states = [
                {"step": self.num_steps.clone(), "exp_avg": mean.clone(), "exp_avg_sq": square.clone()}
                for mean, square in zip(self.means, self.squares, strict=True)
            ]
        return {"state": dict(enumerate(states))}

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state` or an optimiser of `torch.optim` returned."""
        for index, values in state["state"].items():
            if self.name != "sgd":
                self.num_steps.copy_(values["step"])  # the same for all parameters
                self.means[index].copy_(values["exp_avg"])
                self.squares[index].copy_(values["exp_avg_sq"])
            elif values.get("momentum_buffer") is not None:
                self.num_steps.fill_(1)  # only the first step differs from the others
                self.means[index].copy_(values["momentum_buffer"])
