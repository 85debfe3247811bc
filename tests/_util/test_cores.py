"""The number of threads follows the cores and OMP_NUM_THREADS."""

import pytest

from tailmask._util.cores import num_cores, num_threads


@pytest.mark.parametrize(("asked", "threads"), [("1", 1), ("3", 3), ("64", 8), ("0", 1), ("", 8), ("4,2", 8)])
def test_the_variable_lowers_the_number_of_threads(monkeypatch, asked, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert num_threads(8) == threads


def test_without_the_variable_all_cores_are_used(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert num_threads() == num_cores() >= 1
    assert num_threads(0) == 1
