"""What a worker makes of errors: the user's in a sentence, the system's by name, ours with a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tailmask._util.messages import UserError
from tailmask.data import DataOptions
from tailmask.data.facts import DataError, load_data
from tailmask.runs import Setting
from tailmask.studies.planned_runs import plan_runs
from tailmask.studies.worker import Tasks, explained


def caught(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_users_errors_are_their_own_sentence():
    assert explained(caught(load_data, "no-such.csv", DataOptions())) == {
        "event": "failed",
        "text": str(caught(load_data, "no-such.csv", DataOptions())),
        "of_data": True,
    }
    assert explained(UserError("do this"))["event"] == "failed"


def test_errors_of_the_system_name_the_file(tmp_path):
    error = caught((tmp_path / "gone").read_text)
    text = f"No such file or directory: {tmp_path / 'gone'}"
    assert explained(error) == {"event": "failed", "text": text, "of_data": False}


def test_values_that_tailmask_refuses_are_the_users(capsys):
    from tailmask.data.public.longtail import long_tail_counts

    assert explained(caught(long_tail_counts, 10, 10, 0.5))["event"] == "failed"
    assert explained(caught(int, "x"))["event"] == "broken"
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory"
        ),
        MemoryError(),
    ],
)
def test_memory_that_ran_out_is_no_defect(error):
    event = explained(error)
    text = event.pop("text")
    assert event == {"event": "failed", "of_data": False}
    assert text.startswith("memory ran out: ")
    assert "--jobs" in text


def check(setting, method, folder):
    (run,) = plan_runs(setting.resolve(), [method], [0], folder=folder)
    runs = [{"config": run.config.to_task(), "folder": str(run.folder)}]
    task = {"kind": "check", "data": setting.data, "options": setting.options.to_json(), "runs": runs}
    return Tasks().do(task, emit=lambda event: None)


def test_a_check_gives_the_facts_and_leaves_nothing(tmp_path):
    facts = check(Setting("digits"), "plm+focal", tmp_path)
    assert facts["classes"] == list("0123456789")
    assert facts["has_validation"]
    assert not facts["single_label"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("setting", "method", "sentence"),
    [
        (Setting("digits"), "ldam", "ldam needs data with exactly one label"),
        (Setting("digits", fields=("model.name=mlpp",)), "bce", "mlp"),
        (Setting("digits", recipe="coco"), "bce", "evaluation.rarest must be numbers of classes"),
        (Setting("digits"), "plm:num_bins=1", "num_bins"),
        (
            Setting("digits", fields=("model.name=training.factories:paired",)),
            "bce",
            r"training.factories:paired",
        ),
    ],
)
def test_what_cannot_be_trained_is_seen_before_it_is_tried(setting, method, sentence, tmp_path):
    with pytest.raises(UserError, match=sentence):
        check(setting, method, tmp_path)


def test_a_folder_with_another_run_is_refused(tmp_path):
    (tmp_path / "bce_seed=0").mkdir()
    (tmp_path / "bce_seed=0" / "run.json").write_text('{"determines": {"seed": 5}}')
    with pytest.raises(UserError, match="holds another run"):
        check(Setting("digits"), "bce", tmp_path)


def test_data_are_kept_until_others_are_asked_for(tmp_path):
    tasks = Tasks()
    first = tasks._load("digits", DataOptions())
    assert tasks._load("digits", DataOptions()) is first
    assert tasks._load("digits", DataOptions(data_seed=1)) is not first
    with pytest.raises(DataError):
        tasks._load(str(Path(tmp_path) / "none.csv"), DataOptions())
    assert tasks.dataset is None
