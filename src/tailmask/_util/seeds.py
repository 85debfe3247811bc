"""Seeds for everything random in a run, each from the run's seed and what it is for."""

from __future__ import annotations

import hashlib

import torch

__all__ = ["derive", "generator"]


def derive(seed: int, *purpose: str | int) -> int:
    """A seed of 63 bits for one purpose, such as `derive(seed, "order", epoch)`.

    Streams for different purposes or epochs have nothing to do with each other, and none depends on what was
    drawn before: so an epoch that is repeated after a restart is the same epoch.

    >>> derive(0, "order", 1) == derive(0, "order", 1) != derive(0, "order", 2)
    True
    """
    digest = hashlib.blake2b(repr((seed, *purpose)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator(seed: int, *purpose: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator seeded by `derive`.

    >>> torch.rand(1, generator=generator(0, "order", 1)) == torch.rand(1, generator=generator(0, "order", 1))
    tensor([True])
    """
    return torch.Generator(device).manual_seed(derive(seed, *purpose))
