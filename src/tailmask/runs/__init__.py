"""A run on disk: recipe, configuration, folder, history, model file, reader. Training lives in `training`.

`configure` builds the configuration of a run, and `Run` reads a run folder. Nothing here imports Lightning.
"""

from __future__ import annotations

from tailmask.runs.config import RunConfig
from tailmask.runs.reader import Run
from tailmask.runs.recipe import Recipe, load_recipe
from tailmask.runs.setting import ResolvedSetting, Setting, configure

__all__ = ["Recipe", "ResolvedSetting", "Run", "RunConfig", "Setting", "configure", "load_recipe"]
