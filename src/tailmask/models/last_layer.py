"""The last layer of a network: find, initialise and replace it, in our networks and users' networks."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = [
    "NormalizedLinear",
    "last_bias",
    "last_linear",
    "last_parameters",
    "normalize_head",
    "start_bias",
    "start_uniform",
]


class NormalizedLinear(nn.Module):
    """Linear layer whose outputs are cosines: features and weights have norm one, and there is no bias.

    LDAM (Cao et al. 2019) needs such a last layer.

    >>> NormalizedLinear(4, 2)(torch.ones(1, 4)).abs().le(1).all()
    tensor(True)
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        weight = torch.randn(out_features, in_features)
        # Torch normalises a meta tensor through its compiler, whose import takes seconds and writes files.
        self.weight = nn.Parameter(weight if weight.is_meta else F.normalize(weight))

    def forward(self, features: Tensor) -> Tensor:
        """Cosines (B, out_features) of features (B, in_features) with each class's weights."""
        return F.linear(F.normalize(features), F.normalize(self.weight))


def last_linear(network: nn.Module, *, num_classes: int) -> tuple[str, nn.Linear]:
    """Name and module of the last `nn.Linear`, which must have one output per class.

    >>> last_linear(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), num_classes=3)
    ('2', Linear(in_features=8, out_features=3, bias=True))
    """
    linear = [(name, module) for name, module in network.named_modules() if isinstance(module, nn.Linear)]
    if not linear or linear[-1][1].out_features != num_classes:
        raise ValueError(
            f"the network's last nn.Linear must have {num_classes} outputs, one per class, "
            f"got {linear[-1][1] if linear else 'a network without one'}"
        )
    return linear[-1]


def normalize_head(network: nn.Module, *, num_classes: int) -> nn.Module:
    """The network with a `NormalizedLinear` instead of its last linear layer; it may have no other layer.

    >>> network = normalize_head(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), num_classes=3)
    >>> network[2]
    NormalizedLinear()
    """
    name, linear = last_linear(network, num_classes=num_classes)
    head = NormalizedLinear(linear.in_features, num_classes)
    if linear is network:
        return head
    parent, _, attribute = name.rpartition(".")
    setattr(network.get_submodule(parent), attribute, head)
    return network


def start_uniform(network: nn.Module, *, num_classes: int) -> None:
    """Set the last bias to −log(C − 1): each of C sigmoids begins near 1 / C (Cui et al. 2019).

    >>> network = nn.Linear(4, 10)
    >>> start_uniform(network, num_classes=10)
    >>> network.bias.detach()[0].sigmoid()
    tensor(0.1000)
    """
    start_bias(network, torch.full((num_classes,), -math.log(max(num_classes - 1, 1))))


def start_bias(network: nn.Module, values: Tensor) -> None:
    """Set the last bias to values (C,), such as the log odds of the classes.

    >>> network = nn.Linear(4, 2)
    >>> start_bias(network, torch.tensor([-1.0, 0.5]))
    >>> network.bias.detach()
    tensor([-1.0000,  0.5000])
    """
    _, linear = last_linear(network, num_classes=len(values))
    if linear.bias is None:
        raise ValueError("the network's last nn.Linear has no bias to set: set model.bias to 'default'")
    with torch.no_grad():
        linear.bias.copy_(values)


def last_parameters(network: nn.Module) -> list[nn.Parameter]:
    """The weights and the bias of the network's last linear layer; empty if it has no such layer.

    >>> [parameter.shape for parameter in last_parameters(nn.Sequential(nn.Linear(4, 3), nn.ReLU()))]
    [torch.Size([3, 4]), torch.Size([3])]
    """
    linear = [module for module in network.modules() if isinstance(module, nn.Linear | NormalizedLinear)]
    return list(linear[-1].parameters()) if linear else []


def last_bias(network: nn.Module) -> nn.Parameter | None:
    """The bias of the network's last linear layer; None if there is none.

    >>> last_bias(nn.Sequential(nn.Linear(4, 3), nn.ReLU())).shape
    torch.Size([3])
    """
    own = getattr(network, "last_bias", None)
    if isinstance(own, nn.Parameter):
        return own
    linear = [module for module in network.modules() if isinstance(module, nn.Linear | NormalizedLinear)]
    return getattr(linear[-1], "bias", None) if linear else None
