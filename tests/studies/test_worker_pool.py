"""Workers: every run is made, one that fails does not cost the others, and an interrupt leaves nobody."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from tailmask._util.messages import UserError
from tailmask.runs import Setting
from tailmask.studies import worker_process
from tailmask.studies.planned_runs import plan_runs
from tailmask.studies.worker_pool import Pool, choose_jobs

FAIL, BREAK, DIE, WAIT = (f"focal:gamma={number}" for number in (91, 92, 93, 94))


class Heard:
    """A listener that remembers."""

    def __init__(self):
        self.finished_runs, self.notes, self.steps, self.began, self.ended = {}, [], [], None, 0

    def prepare(self):
        pass

    def begin(self, runs, *, complete):
        self.began = (len(runs), complete)

    def step(self, run, *, epochs, total, loss):
        self.steps.append((run, epochs, total))

    def note(self, run, text):
        self.notes.append(text)

    def finished(self, run, *, sentence):
        self.finished_runs[run] = sentence

    def end(self):
        self.ended += 1

    def analysed(self, done, total):
        pass


@pytest.fixture(autouse=True)
def fake_worker(monkeypatch, tmp_path_factory):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("logs")))
    monkeypatch.setattr(
        worker_process, "COMMAND", (sys.executable, str(Path(__file__).parent / "fake_worker.py"))
    )


def on_cores(number, monkeypatch):
    """A machine with so many cores, on which the user limits no threads."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(number)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def planned(folder, *methods, seeds=1):
    return plan_runs(Setting("digits").resolve(), methods, range(seeds), folder=folder)


def test_all_runs_are_made_and_heard_of(tmp_path):
    runs, heard = planned(tmp_path, "bce", "plm", seeds=3), Heard()
    with Pool(2) as pool:
        assert pool.make(runs, heard) == []
    assert all((run.folder / "metrics.json").exists() for run in runs)
    assert heard.finished_runs == dict.fromkeys(runs)
    assert heard.began == (6, 0)
    assert heard.ended == 1
    assert {run for run, *_ in heard.steps} == set(runs)


def test_workers_are_kept_between_runs_and_share_the_cores(tmp_path, monkeypatch):
    on_cores(8, monkeypatch)
    runs = planned(tmp_path, "bce", "plm", seeds=4)
    with Pool(2) as pool:
        pool.make(runs[:4])
        pool.make(runs[4:])
    records = [json.loads((run.folder / "run.json").read_text()) for run in runs]
    assert {(record["threads"], record["omp"]) for record in records} == {(4, "4")}
    assert len({record["pid"] for record in records}) == 2


def test_threads_do_not_depend_on_how_many_runs_are_left(tmp_path, monkeypatch):
    on_cores(8, monkeypatch)
    runs = planned(tmp_path, "bce")
    with Pool(4) as pool:
        pool.make(runs)
    assert json.loads((runs[0].folder / "run.json").read_text())["threads"] == 2


def test_complete_runs_are_not_made_again(tmp_path):
    runs, heard = planned(tmp_path, "bce", "plm"), Heard()
    with Pool(1) as pool:
        pool.make(runs[:1])
        before = (runs[0].folder / "run.json").stat().st_mtime_ns
        pool.make(runs, heard)
    assert (runs[0].folder / "run.json").stat().st_mtime_ns == before
    assert heard.began == (2, 1)
    assert list(heard.finished_runs) == runs[1:]


@pytest.mark.parametrize("jobs", [1, 2])
def test_runs_that_fail_do_not_cost_the_others(tmp_path, jobs):
    methods = ["bce", FAIL, BREAK, "plm", DIE, "asl"]
    runs, heard = planned(tmp_path, *methods), Heard()
    with Pool(jobs) as pool:
        failures = {failure.run.config.name: failure.sentence for failure in pool.make(runs, heard)}
    assert failures.keys() == {FAIL, BREAK, DIE}
    assert failures[FAIL] == "the loss became NaN"
    assert failures[BREAK].startswith("TypeError: no (a defect of tailmask; ")
    assert "was killed" in failures[DIE]
    assert "fewer --jobs" in failures[DIE]
    done = {run.config.name for run in runs if (run.folder / "metrics.json").exists()}
    assert done == {"bce", "plm", "asl"}
    assert {run.config.name for run, sentence in heard.finished_runs.items() if sentence} == failures.keys()
    log = Path(failures[BREAK].partition("; ")[2].partition(" has the details")[0])
    assert "a traceback" in log.read_text()


def test_no_log_is_left_where_nothing_broke(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Pool(1) as pool:
        pool.make(planned(tmp_path / "runs", "bce", FAIL))
    assert [entry.name for entry in tmp_path.iterdir()] == ["runs"]


def test_data_that_cannot_be_loaded_are_the_users_error(tmp_path):
    runs = plan_runs(Setting("missing", recipe="tables").resolve(), ["bce"], [0], folder=tmp_path)
    with Pool(1) as pool, pytest.raises(UserError, match="no data set called 'missing'"):
        pool.check(runs)
    assert not list(tmp_path.iterdir())


def test_facts_of_every_setting():
    settings = [Setting("digits"), Setting("yeast")]
    heard = Heard()
    with Pool(2) as pool:
        facts = pool.facts(settings)
        pool.make([], heard)
    assert heard.notes[0] == "no training sample has the label b", "told once there is somebody to hear it"
    assert list(facts) == settings
    assert facts[settings[0]].classes == ("a", "b")


def test_an_interrupt_stops_the_workers(tmp_path):
    runs = planned(tmp_path, WAIT, "bce", "plm")
    waiting = []

    class Interrupting(Heard):
        def note(self, run, text):
            if text.startswith("waiting"):
                waiting.append(int(text.split()[-1]))
                raise KeyboardInterrupt

    heard = Interrupting()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), Pool(1) as pool:
        pool.make(runs, heard)
    assert time.monotonic() - began < 10
    assert runs[0].folder.with_suffix(".interrupted").exists(), "the worker was asked to stop, not killed"
    with pytest.raises(ProcessLookupError):
        os.kill(waiting[0], 0)
    assert heard.ended == 1


def test_jobs(monkeypatch):
    on_cores(64, monkeypatch)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert [choose_jobs(None, num_runs=number) for number in (1, 6, 100)] == [1, 6, 8]
    assert [choose_jobs(20, num_runs=number) for number in (1, 100)] == [1, 20]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    assert choose_jobs(None, num_runs=100) == 3
    with pytest.raises(UserError, match="--jobs must be 1 or more, got 0"):
        choose_jobs(0, num_runs=3)


def test_each_worker_gets_a_gpu_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    runs = planned(tmp_path, "bce", seeds=3)
    with Pool(3) as pool:
        pool.make(runs)
    records = [json.loads((run.folder / "run.json").read_text()) for run in runs]
    assert sorted(record["gpus"] for record in records) == ["2", "2", "5"]


def test_workers_use_no_more_threads_than_the_variable_allows(tmp_path, monkeypatch):
    on_cores(8, monkeypatch)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    runs = planned(tmp_path, "bce")
    with Pool(1) as pool:
        pool.make(runs)
    record = json.loads((runs[0].folder / "run.json").read_text())
    assert (record["threads"], record["omp"]) == (3, "3")
