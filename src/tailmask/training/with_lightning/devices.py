"""Devices and machines of a run, and the rank of this process."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tailmask._util.messages import UserError

__all__ = ["Placement"]

# Slurm's numbers of tasks per machine: of this step, of the option, of the whole job.
_TASKS_PER_NODE = ("SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE")

# Steps with this number or a higher one are Slurm's own, such as the shell that salloc opens.
_OWN_STEPS = 0xFFFFFFF0


@dataclass(frozen=True)
class Placement:
    """Processes that train together, `devices` on each of `num_nodes` machines, and the rank of this one.

    >>> Placement.from_environment({}).world_size
    1
    >>> torchrun = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
    >>> Placement.from_environment(torchrun)
    Placement(devices=2, num_nodes=2, rank=3, launcher='torchrun')
    >>> step = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "5", "SLURM_NTASKS": "8"}
    >>> Placement.from_environment(step | {"SLURM_STEP_TASKS_PER_NODE": "4(x2)"})
    Placement(devices=4, num_nodes=2, rank=5, launcher='slurm')
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
        """True for the process that writes and prints."""
        return self.rank == 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Placement:
        """The placement that torchrun or Slurm has set up; a single process without either."""
        names = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
        if all(environment.get(name, "").isdigit() for name in names):
            rank, world_size, devices = (int(environment[name]) for name in names)
            return cls(devices, _num_nodes(world_size, devices, names[1:]), rank, "torchrun")
        rank, world_size = (_number(environment, name) for name in ("SLURM_PROCID", "SLURM_NTASKS"))
        if world_size < 2 or not _started_by_srun(environment):
            return cls()
        devices, name = _tasks_per_node(environment, world_size)
        return cls(devices, _num_nodes(world_size, devices, ("SLURM_NTASKS", name)), rank, "slurm")


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    return int(text) if text.isdigit() else 0


def _num_nodes(world_size: int, devices: int, names: tuple[str, ...]) -> int:
    if devices < 1 or world_size % devices:
        raise UserError(
            f"{names[0]}={world_size} must be a multiple of {names[1]}={devices}: start the same number of "
            "processes on each machine"
        )
    return world_size // devices


def _tasks_per_node(environment: Mapping[str, str], world_size: int) -> tuple[int, str]:
    """Number of tasks per machine, written as in 4, 4(x2) or 4,4, and the name of its variable."""
    advice = "add --ntasks-per-node to the options of sbatch or srun"
    for name in _TASKS_PER_NODE:
        numbers = [re.fullmatch(r"(\d+)(?:\(x\d+\))?", part) for part in environment.get(name, "").split(",")]
        distinct = {int(number[1]) for number in numbers if number}
        if not all(numbers):
            continue
        if len(distinct) > 1:
            raise UserError(
                f"srun has started {world_size} tasks, {environment[name]} on its machines, but a run needs "
                f"the same number on each: {advice}"
            )
        return distinct.pop(), name
    raise UserError(f"srun has started {world_size} tasks, but did not say how many per machine: {advice}")


def _started_by_srun(environment: Mapping[str, str]) -> bool:
    """True in a step of srun; false in the batch script itself and in an interactive shell."""
    in_shell = environment.get("SLURM_JOB_NAME") in ("bash", "interactive") or "SLURM_PTY_PORT" in environment
    return (
        "SLURM_STEP_ID" in environment and _number(environment, "SLURM_STEP_ID") < _OWN_STEPS and not in_shell
    )
