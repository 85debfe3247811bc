"""Several networks of one architecture in one: their layers are batched matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tailmask.models.last_layer import NormalizedLinear
from tailmask.models.small_networks import used_columns

__all__ = ["MemberNetworks"]


class MemberNetworks(nn.Module):
    """M networks for tables that train together, each with its own weights and its own dropout.

    In training it returns the logits of each member, (M, B, C); in evaluation their mean, (B, C).

    >>> from tailmask.models.small_networks import mlp
    >>> network = MemberNetworks([mlp(4, 3, hidden=[8], dropout=0.5) for _ in range(2)])
    >>> network(torch.zeros(5, 4)).shape, network.eval()(torch.zeros(5, 4)).shape
    (torch.Size([2, 5, 3]), torch.Size([5, 3]))

    Args:
        networks: The members, as `tailmask.models.mlp` makes them; their weights are copied.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for layers in zip(*(network.children() for network in networks), strict=True):
            layer = layers[0]
            if isinstance(layer, nn.Linear | NormalizedLinear):
                self.layers.append(_Layer(layers))
            elif isinstance(layer, nn.Dropout):
                self.layers.append(FastDropout(layer.p))
            elif isinstance(layer, nn.ReLU):
                self.layers.append(nn.ReLU(inplace=True))

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits of each member (M, B, C) in training, else their mean (B, C)."""
        inputs = inputs.flatten(1)
        used = used_columns(inputs) if self.training else None
        if used is not None:  # no copies of wide and mostly empty rows
            inputs = inputs.index_select(1, used)
        values = inputs.expand(self.num_members, -1, -1)  # (M, B, F), a view
        for layer in self.layers:
            if isinstance(layer, _Layer):
                values, used = layer(values, used), None
            else:
                values = layer(values)
        return values if self.training else values.mean(dim=0)

    @property
    def last_bias(self) -> nn.Parameter | None:
        """The last layer's bias, (M, 1, C); None if it has none."""
        return self._last.bias

    @property
    def num_members(self) -> int:
        """M."""
        return len(self._last.weight)

    @property
    def _last(self) -> _Layer:
        last = self.layers[-1]
        assert isinstance(last, _Layer)
        return last


class FastDropout(nn.Module):
    """Dropout that draws 16 random bits for each value: several times as fast as torch's on a CPU.

    The share is rounded to a multiple of 1/65536.

    >>> values = FastDropout(0.25)(torch.ones(1000))
    >>> values.unique(), 700 < int(values.count_nonzero()) < 800
    (tensor([0.0000, 1.3333]), True)
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, values: Tensor) -> Tensor:
        """The values; in training, some are set to zero and the others are scaled up."""
        if not self.training:
            return values
        number = values.numel()
        words = torch.empty(-(-number // 4), dtype=torch.int64, device=values.device)
        bits = words.random_(-(2**63), None).view(torch.int16)[:number].view(values.shape)
        dropped = round(self.share * 2**16)
        kept = (bits >= dropped - 2**15).to(values.dtype)
        return values * kept.mul_(2**16 / (2**16 - dropped))


class _Layer(nn.Module):
    """Linear layers of the members, (M, B, I) → (M, B, O)."""

    bias: nn.Parameter | None

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        self.is_normalized = isinstance(layers[0], NormalizedLinear)
        # Rows are inputs: then the gradient has the layout of the weights.
        self.weight = nn.Parameter(torch.stack([layer.weight.detach().T for layer in layers]).contiguous())
        biases = [layer.bias.detach() for layer in layers if isinstance(layer, nn.Linear)]
        self.bias = nn.Parameter(torch.stack(biases).unsqueeze(1)) if biases else None  # (M, 1, O)

    def forward(self, inputs: Tensor, columns: Tensor | None = None) -> Tensor:
        """Outputs (M, B, O); with `columns`, the inputs are these columns, and all others are zero."""
        if self.bias is None:
            return torch.bmm(F.normalize(inputs, dim=2), F.normalize(self.weight, dim=1))
        weight = self.weight if columns is None else self.weight.index_select(1, columns)
        return torch.baddbmm(self.bias, inputs, weight)
