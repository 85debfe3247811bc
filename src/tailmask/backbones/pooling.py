"""One vector per sample from a model's outputs, depending on the model's family.

Defaults for images:

| family | features |
|---|---|
| ViT, DeiT, ViT-MAE, ViT-MSN | the CLS token after the last layer norm (their pooler is often untrained) |
| DINOv2, DINOv3, CLIP's image tower | `pooler_output`: the normalised CLS token |
| ConvNeXt, ResNet, RegNet, EfficientNet, Swin, BEiT | `pooler_output`: the mean over the image |
| SigLIP's image tower | `pooler_output`: its attention head |
| any other | `pooler_output` if there is one, else the mean over the image |

Texts: a folder of sentence-transformers names its pooling (`1_Pooling/config.json`), and whether vectors are
scaled to norm 1. All other models (BERT, RoBERTa, ModernBERT, DeBERTa, MiniLM, encoders of T5) give the
mean over the tokens without padding.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from tailmask._util.messages import UserError
from tailmask.backbones.backbone import Pooling

__all__ = ["TextPooling", "pool_image", "pool_text", "read_text_pooling"]

# Families with a CLS token, and those among them whose pooler may be untrained.
_CLS = ("vit", "deit", "vit_mae", "vit_msn", "beit", "dinov2", "dinov2_with_registers", "dinov3_vit")
_CLS_CLIP = ("clip_vision_model", "metaclip_2_vision_model")
_OWN_POOLER = ("vit", "deit", "vit_mae", "vit_msn")


def pool_image(outputs: Any, config: Any, pooling: Pooling | None) -> Tensor:
    """Features (N, D) from the outputs of a model for images."""
    family: str = config.model_type
    hidden: Tensor = outputs.last_hidden_state  # (N, T, D) or (N, D, H, W)
    pooled: Tensor | None = getattr(outputs, "pooler_output", None)
    has_cls = family in (*_CLS, *_CLS_CLIP)
    if pooling is None:
        pooling = "cls" if family in _OWN_POOLER else "mean" if pooled is None else "pooler"
    if pooling == "pooler":
        if pooled is None:
            raise UserError(f"a {family} model has no pooler_output: choose --pooling mean")
        return pooled.flatten(1)  # a ResNet gives (N, D, 1, 1)
    if pooling == "cls":
        if not has_cls:
            raise UserError(f"a {family} model has no CLS token: leave out --pooling")
        return hidden[:, 0]
    if hidden.ndim == 4:
        return hidden.mean(dim=(2, 3))
    first = (1 + getattr(config, "num_register_tokens", 0)) if has_cls else 0
    return hidden[:, first:].mean(dim=1)


@dataclass(frozen=True)
class TextPooling:
    """How texts are pooled, and the longest text in tokens; None if the tokenizer sets it."""

    pooling: Pooling = "mean"
    normalize: bool = False
    max_length: int | None = None


def read_text_pooling(folder: Path, asked: Pooling | None) -> TextPooling:
    """The pooling that a folder of sentence-transformers names, else the mean over the tokens."""
    modules = _json(folder / "modules.json", [])
    names = [str(module.get("type", "")).rpartition(".")[2] for module in modules]
    unknown = set(names) - {"Transformer", "Pooling", "Normalize"}
    if unknown and asked is None:
        raise UserError(
            f"{folder} is a model of sentence-transformers with the layer {min(unknown)}, which tailmask "
            "does not know: name its encode function with --encoder, or choose --pooling mean"
        )
    limit = _json(folder / "sentence_bert_config.json", {}).get("max_seq_length")
    if asked is not None or "Pooling" not in names:
        return TextPooling(asked or "mean", max_length=limit)
    config = _json(folder / modules[names.index("Pooling")]["path"] / "config.json", {})
    return TextPooling(_sentence_pooling(config, folder), "Normalize" in names, limit)


def _sentence_pooling(config: dict[str, Any], folder: Path) -> Pooling:
    modes = [name for name, on in config.items() if name.startswith("pooling_mode_") and on is True]
    modes += [f"pooling_mode_{config['pooling_mode']}"] if isinstance(config.get("pooling_mode"), str) else []
    known: dict[str, Pooling] = {
        "pooling_mode_mean_tokens": "mean",
        "pooling_mode_mean": "mean",
        "pooling_mode_cls_token": "cls",
        "pooling_mode_cls": "cls",
    }
    if len(modes) != 1 or modes[0] not in known:
        raise UserError(
            f"{folder} pools its tokens by {', '.join(modes) or 'an unnamed method'}, which tailmask "
            "does not know: choose --pooling mean or cls"
        )
    return known[modes[0]]


def pool_text(outputs: Any, mask: Tensor, how: TextPooling) -> Tensor:
    """Features (N, D) from the outputs of a model for texts; `mask` (N, T) is 0 for padding."""
    hidden: Tensor = outputs.last_hidden_state
    pooled: Tensor | None
    if how.pooling == "pooler":
        pooled = getattr(outputs, "pooler_output", None)
        if pooled is None:
            raise UserError("this model has no pooler_output: choose --pooling mean or cls")
    elif how.pooling == "cls":
        pooled = hidden[:, 0]
    else:
        weight = mask[:, :, None].to(hidden.dtype)
        pooled = (hidden * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)
    return F.normalize(pooled, dim=1) if how.normalize else pooled


def _json(path: Path, default: Any) -> Any:
    if not path.is_file():
        return default
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}") from error
