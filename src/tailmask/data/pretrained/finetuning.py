"""Data sets for fine-tuning a pretrained model: images in its size, or tokens of texts."""

from __future__ import annotations

import dataclasses
from typing import Any

from tailmask._util.messages import UserError
from tailmask.backbones.backbone import BackboneChoice, Kind
from tailmask.backbones.hugging_face import (
    HuggingFaceBackbone,
    check_kind,
    load_image_processor,
    stored_tokenizer,
)
from tailmask.data.dataset import Dataset, Inputs
from tailmask.data.encoders.image import ImageEncoder, resize
from tailmask.data.encoders.token_encoder import TokenEncoder, TokenizedTexts
from tailmask.data.images.in_memory import Images
from tailmask.data.images.on_disk import ImageFiles
from tailmask.data.options import DataOptions
from tailmask.data.pretrained.backbone_format import TextEncoder, Texts
from tailmask.data.pretrained.changed_inputs import with_inputs

__all__ = ["with_preprocessing"]

# The largest size of scaled images in memory.
MOST_BYTES = 4 * 2**30


def with_preprocessing(dataset: Dataset, options: DataOptions) -> Dataset:
    """The data set with inputs for the model: images in its size, or tokens of texts.

    Images are cropped and augmented as for other networks, not by the model's processor. `--image-size` sets
    another size.
    """
    if options.backbone is None or not options.backbone.startswith("hf:"):
        raise UserError("--finetune trains a model of Hugging Face: name it with --model hf:NAME_OR_FOLDER")
    source = dataset.encoder
    if not isinstance(source, TextEncoder | ImageEncoder):
        raise UserError(
            f"--finetune is for images and texts, but {dataset.name} has neither: leave it out, or name the "
            "column of texts with --text"
        )
    kind: Kind = "texts" if isinstance(source, TextEncoder) else "images"
    backbone = HuggingFaceBackbone.open(BackboneChoice(options.backbone, kind, options.pooling))
    encoder: ImageEncoder | TokenEncoder
    if isinstance(source, TextEncoder):
        encoder = TokenEncoder(source, *stored_tokenizer(backbone.folder))
        what = f"texts of at most {encoder.length} tokens"
    else:
        check_kind(backbone.folder, "images")
        encoder = _image_encoder(load_image_processor(backbone.folder), options, source.key)
        what = f"images of {encoder.height}×{encoder.width} pixels"
    name = backbone.choice.short_name
    return with_inputs(
        dataset,
        {name: _prepared(split.inputs, encoder, dataset.name) for name, split in dataset.splits.items()},
        encoder,
        backbone={"name": name, "digest": backbone.digest},
        note=f"{name} is trained as a whole, on {what}",
    )


def _image_encoder(processor: Any, options: DataOptions, key: str) -> ImageEncoder:
    """An encoder with the processor's size, mean and deviation; by default 224 pixels, values from 0 to 1."""
    size = dict(getattr(processor, "size", None) or {})
    if getattr(processor, "do_center_crop", False) and getattr(processor, "crop_size", None):
        size = dict(processor.crop_size)
    side = size.get("shortest_edge") or size.get("longest_edge") or 224
    height, width = size.get("height") or side, size.get("width") or side
    if options.image_size is not None:
        height = width = options.image_size
    mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    if getattr(processor, "do_normalize", True) and getattr(processor, "image_mean", None) is not None:
        mean, std = tuple(processor.image_mean), tuple(processor.image_std)
    return ImageEncoder(3, int(height), int(width), mean, std, key=key)


def _prepared(inputs: Inputs, encoder: ImageEncoder | TokenEncoder, name: str) -> Inputs:
    if isinstance(encoder, TokenEncoder):
        assert isinstance(inputs, Texts)
        return TokenizedTexts(encoder.tokens(inputs.values), encoder)
    own: dict[str, Any] = {"mean": encoder.mean, "std": encoder.std}
    if isinstance(inputs, ImageFiles):
        return dataclasses.replace(inputs, shape=encoder.shape, **own)
    if not isinstance(inputs, Images) or inputs.shape[0] != 3:
        raise UserError(f"--finetune takes images with three channels, but {name} has others: leave it out")
    if len(inputs) * 3 * encoder.height * encoder.width > MOST_BYTES:
        raise UserError(
            f"the {len(inputs)} images of {name} at {encoder.height}×{encoder.width} pixels do not fit into "
            "memory: name a smaller --image-size, or save them as files"
        )
    return dataclasses.replace(inputs, pixels=resize(inputs.pixels, encoder.height, encoder.width), **own)
