"""Which processes train together: read from what torchrun and Slurm say."""

from __future__ import annotations

import pytest

from tailmask._util.messages import UserError
from tailmask.training.with_lightning.devices import Placement

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}
STEP = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_JOB_NAME": "plm", "SLURM_STEP_ID": "0"}
SRUN = STEP | {"SLURM_NTASKS_PER_NODE": "2"}
EIGHT = STEP | {"SLURM_NTASKS": "8"}


def without(environment: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in names}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Placement()),
        (TORCHRUN, Placement(4, 2, 5, "torchrun")),
        (SRUN, Placement(2, 2, 3, "slurm")),
        (SRUN | TORCHRUN, Placement(4, 2, 5, "torchrun")),  # torchrun within a Slurm job
        (SRUN | {"SLURM_JOB_NAME": "bash"}, Placement()),  # a shell in a Slurm job
        (SRUN | {"SLURM_PTY_PORT": "40123"}, Placement()),  # srun --pty zsh
        (SRUN | {"SLURM_STEP_ID": "4294967290"}, Placement()),  # the shell of salloc
        (without(SRUN, "SLURM_STEP_ID"), Placement()),  # a batch script
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_STEP_ID": "0"}, Placement()),  # an array's task
        (SRUN | {"SLURM_NTASKS": "1", "SLURM_PROCID": "0"}, Placement()),  # srun -n 1 within a larger job
        (EIGHT | {"SLURM_NTASKS_PER_NODE": "4(x2)"}, Placement(4, 2, 3, "slurm")),
        (EIGHT | {"SLURM_TASKS_PER_NODE": "4(x2)"}, Placement(4, 2, 3, "slurm")),
        (EIGHT | {"SLURM_STEP_TASKS_PER_NODE": "8"}, Placement(8, 1, 3, "slurm")),
        (EIGHT | {"SLURM_STEP_TASKS_PER_NODE": "4,4"}, Placement(4, 2, 3, "slurm")),
        (EIGHT | {"SLURM_STEP_TASKS_PER_NODE": "2(x2),2(x2)"}, Placement(2, 4, 3, "slurm")),
        # A step of fewer tasks than the job was given.
        (
            STEP | {"SLURM_STEP_TASKS_PER_NODE": "4", "SLURM_TASKS_PER_NODE": "8(x2)"},
            Placement(4, 1, 3, "slurm"),
        ),
        (
            SRUN | {"SLURM_STEP_TASKS_PER_NODE": "4", "SLURM_NTASKS_PER_NODE": "8"},
            Placement(4, 1, 3, "slurm"),
        ),
    ],
)
def test_placement_is_read_from_the_launcher(environment: dict[str, str], expected: Placement) -> None:
    assert Placement.from_environment(environment) == expected
    assert expected.is_first == (expected.rank == 0)


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        (
            {"RANK": "0", "WORLD_SIZE": "5", "LOCAL_WORLD_SIZE": "2"},
            "WORLD_SIZE=5 must be a multiple of LOCAL_WORLD_SIZE=2",
        ),
        (EIGHT, r"srun has started 8 tasks, .* how many .*: add --ntasks-per-node"),
        (EIGHT | {"SLURM_NTASKS_PER_NODE": "many"}, "how many .*: add --ntasks-per-node"),
        (EIGHT | {"SLURM_STEP_TASKS_PER_NODE": "5,3"}, r"8 tasks, 5,3 on its machines, .* --ntasks-per-node"),
        (EIGHT | {"SLURM_STEP_TASKS_PER_NODE": "3(x2),2"}, r"8 tasks, 3\(x2\),2 on its machines"),
        (
            EIGHT | {"SLURM_NTASKS_PER_NODE": "3"},
            "SLURM_NTASKS=8 must be a multiple of SLURM_NTASKS_PER_NODE=3",
        ),
    ],
)
def test_an_impossible_placement_is_refused(environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Placement.from_environment(environment)
