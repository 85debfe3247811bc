"""Small models, each built once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a small model by the name of its architecture."""
    pytest.importorskip("transformers")
    from backbones.tiny_models import save_model

    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = save_model(name, tmp_path_factory.mktemp(name))
        return made[name]

    return folder
