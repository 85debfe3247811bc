"""`--model`: a network of the recipe, or a pretrained model whose features become the inputs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from tailmask._util.messages import UserError
from tailmask.backbones.backbone import is_backbone
from tailmask.data import DataOptions

__all__ = ["apply_model"]


def apply_model(
    model: str | None, options: DataOptions, fields: Sequence[str]
) -> tuple[DataOptions, tuple[str, ...]]:
    """The options about the data and the fields of the recipe, with a model's name in one of them.

    >>> options, fields = apply_model("hf:facebook/dinov2-small", DataOptions(), ())
    >>> options.backbone, fields
    ('hf:facebook/dinov2-small', ())
    >>> apply_model("resnet12", DataOptions(), ["optimizer.lr=0.1"])[1]
    ('model.name=resnet12', 'optimizer.lr=0.1')
    """
    if model is None:
        return options, tuple(fields)
    if is_backbone(model):
        if options.backbone is not None and options.backbone != model:
            raise UserError(
                f"--model {model} and --backbone {options.backbone} name two pretrained models: leave one out"
            )
        return dataclasses.replace(options, backbone=model), tuple(fields)
    if re.search(r"\.py(:|$)", model) or "/" in model:
        raise UserError(_hint(model))
    return options, (f"model.name={model}", *fields)


def _hint(model: str) -> str:
    """The right way to write a model that was named by a file or by its name on the hub."""
    file, _, function = model.partition(":")
    if file.endswith(".py"):
        module = ".".join(part for part in file.removesuffix(".py").split("/") if part not in ("", ".", ".."))
        return (
            f"--model takes the import path of a network of your own, not a file: write --model "
            f"{module}:{function or 'FUNCTION'} in the folder of {file.partition('/')[0]}, where "
            f"{function or 'FUNCTION'}(shape=..., num_classes=...) returns an nn.Module"
        )
    return f"there is no network {model!r}: for a model of Hugging Face write --model hf:{model}"
