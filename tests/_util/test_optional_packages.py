"""Packages that are missing, or that miss a library of the system, are named in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailmask._util.messages import UserError, require


def test_a_library_of_the_system_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "linked.py").write_text(
        "import ctypes\nctypes.CDLL('libthere_is_none.so.1')\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"'linked' cannot be loaded \(libthere_is_none\.so\.1"):
        require("linked", extra="cli")


def test_a_package_that_is_missing() -> None:
    with pytest.raises(UserError, match=r"pip install 'tailmask\[cli\]'"):
        require("there_is_none", extra="cli")


def test_a_package_that_misses_another_is_an_error_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needy.py").write_text("import there_is_none\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="there_is_none"):
        require("needy", extra="cli")
