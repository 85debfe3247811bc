"""The command line as a whole: help without torch, suggestions, one sentence and exit code 2."""

from __future__ import annotations

import resource
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tailmask import __version__
from tailmask._util.messages import UserError
from tailmask.cli import main
from tailmask.cli.app import COMMANDS


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch):
    """Replaces what a command does, so that what becomes of its errors can be seen."""

    def replace(function) -> int:
        monkeypatch.setattr("tailmask.cli.app.app", lambda arguments: function())
        return main(["data"])

    return replace


def raising(error: BaseException):
    def function() -> None:
        raise error

    return function


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_help_lists_every_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    out = capsys.readouterr().out
    assert [name for name in COMMANDS if f" {name} " not in out] == []


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tailmask {__version__}\n"


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)], ids=" ".join)
def test_help_is_fast_and_imports_no_torch(command: list[str]) -> None:
    heavy = "{'torch', 'polars', 'numpy', 'sklearn', 'matplotlib'}"
    code = (
        "import sys; from tailmask.cli import main; main([*sys.argv[1:], '--help']); "
        f"sys.exit(len({heavy} & set(sys.modules)))"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (
        subprocess.run([sys.executable, "-c", code, *command], capture_output=True, check=False).returncode
        == 0
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5


def test_unknown_commands_get_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dta"]) == 2
    captured = capsys.readouterr()
    assert '"dta"' in captured.err
    assert 'Did you mean "data"?' in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["data", "--rhoo", "3"], "Unknown option: --rhoo. Did you mean --rho?"),
        (["data", "digits", "--rho", "many"], "--rho takes a number, got 'many'"),
        (["data", "digits", "--rho", "0.1"], "--rho must be 1 or more, got 0.1"),
        (["data", "digits", "--format", "xml"], "--format takes one of"),
        (["data", "digitz"], "there is no data set and no file called 'digitz': did you mean 'digits'?"),
        (["data", "my  file.csv"], "there is no file 'my  file.csv'"),
    ],
)
def test_mistakes_get_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"tailmask: {sentence}")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_interrupted(command) -> None:
    assert command(raising(KeyboardInterrupt())) == 130


def test_users_errors(command, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(raising(UserError("do this instead"))) == 2
    assert capsys.readouterr().err == "tailmask: do this instead\n"
    command(raising(UserError("a class called \x1b[2J\r\nroot:")))
    assert capsys.readouterr().err == "tailmask: a class called �[2J root:\n"


def test_our_own_value_errors_are_sentences_and_others_are_not(
    command, capsys: pytest.CaptureFixture[str]
) -> None:
    from tailmask.data.public.longtail import long_tail_counts

    assert command(lambda: long_tail_counts(5, 3, 0.0)) == 2
    assert capsys.readouterr().err.startswith("tailmask: rho must be 1 or more")
    with pytest.raises(ValueError, match="invalid literal"):  # a bug, which needs its traceback
        command(lambda: int("x"))


def test_what_the_system_refuses(command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(lambda: (tmp_path / "gone" / "a").write_text("x")) == 2
    assert capsys.readouterr().err == f"tailmask: No such file or directory: {tmp_path / 'gone' / 'a'}\n"
    assert command(raising(OSError(28, "No space left on device"))) == 2
    assert capsys.readouterr().err == "tailmask: No space left on device\n"


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried …")]
)
def test_memory_that_runs_out_is_a_sentence(error, command, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(raising(error)) == 2
    assert capsys.readouterr().err.startswith("tailmask: memory ran out: ")
    with pytest.raises(RuntimeError, match="ours"):
        command(raising(RuntimeError("a defect of ours")))


def test_warnings_are_one_line(command, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert command(lambda: warnings.warn("be careful", stacklevel=1)) == 0
    assert capsys.readouterr().err == "tailmask: warning: be careful\n"


def test_a_reader_that_leaves_early() -> None:
    code = "import sys; from tailmask.cli import main; sys.exit(main(['data']))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait()
