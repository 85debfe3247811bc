"""Where a run is computed: devices, machines, and this process's place among all of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tailmask.errors import UserError

__all__ = ["Placement"]

_VARIABLES: dict[Literal["torchrun", "slurm"], tuple[str, str, str]] = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    "slurm": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"),
}


@dataclass(frozen=True)
class Placement:
    """Processes that train together, `devices` on each of `num_nodes` machines, and which one this is.

    >>> Placement.from_environment({}).world_size
    1
    >>> torchrun = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
    >>> Placement.from_environment(torchrun)
    Placement(devices=2, num_nodes=2, rank=3, launcher='torchrun')
    """

    devices: int = 1
    num_nodes: int = 1
    rank: int = 0
    launcher: Literal["torchrun", "slurm"] | None = None

    @property
    def world_size(self) -> int:
        """Number of processes."""
        return self.devices * self.num_nodes

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Placement:
        """The placement that torchrun or Slurm has set up; one process where neither has."""
        for launcher, names in _VARIABLES.items():
            if launcher == "slurm" and not _started_by_srun(environment):
                continue
            if all(environment.get(name, "").isdigit() for name in names):
                rank, world_size, devices = (int(environment[name]) for name in names)
                if devices < 1 or world_size % devices:
                    raise UserError(f"{names[1]}={world_size} is not a multiple of {names[2]}={devices}")
                return cls(devices, world_size // devices, rank, launcher)
        return cls()


def _started_by_srun(environment: Mapping[str, str]) -> bool:
    """Neither the batch script itself, nor a shell that srun has opened to type commands for one process."""
    in_shell = environment.get("SLURM_JOB_NAME") in ("bash", "interactive")
    return "SLURM_STEP_ID" in environment and not in_shell
