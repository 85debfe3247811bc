"""Images as a pretrained model wants them that is trained itself: of its size, with its moments."""

from __future__ import annotations

import dataclasses
from typing import Any

from tailmask._util.messages import UserError
from tailmask.backbones.backbone import BackboneChoice
from tailmask.backbones.hugging_face import HuggingFaceBackbone, load_image_processor
from tailmask.data.dataset import Dataset, Inputs
from tailmask.data.encoders.image import ImageEncoder, resize
from tailmask.data.images.in_memory import Images
from tailmask.data.images.on_disk import ImageFiles
from tailmask.data.options import DataOptions

__all__ = ["with_preprocessing"]

# Bytes of images that are scaled in memory.
MOST_BYTES = 4 * 2**30


def with_preprocessing(dataset: Dataset, options: DataOptions) -> Dataset:
    """The data set with its images in the size and with the mean and deviation of the model's processor.

    Images are cut out and varied as those of other networks are, not by the processor itself: training varies
    them. `--image-size` asks for another size than the model's.
    """
    if options.backbone is None or not options.backbone.startswith("hf:"):
        raise UserError("--finetune trains a model of Hugging Face: name it with --model hf:NAME_OR_FOLDER")
    if not isinstance(dataset.encoder, ImageEncoder):
        raise UserError(
            f"--finetune is for images, and {dataset.name} has none: leave it out to learn from the model's "
            "features, or see the Trainer of Hugging Face in the documents"
        )
    backbone = HuggingFaceBackbone.open(BackboneChoice(options.backbone, "images", options.pooling))
    encoder = _encoder(load_image_processor(backbone.folder), options, dataset.encoder.key)
    splits = {
        name: dataclasses.replace(split, inputs=_prepared(split.inputs, encoder, dataset.name))
        for name, split in dataset.splits.items()
    }
    name = backbone.choice.short_name
    note = f"{name} is trained as a whole, on images of {encoder.height}×{encoder.width} pixels"
    return dataclasses.replace(
        dataset,
        train=splits["train"],
        validation=splits.get("validation"),
        test=splits["test"],
        encoder=encoder,
        source={**dataset.source, "backbone": {"name": name, "digest": backbone.digest}},
        notes=(note, *dataset.notes),
        raw=None,
    )


def _encoder(processor: Any, options: DataOptions, key: str) -> ImageEncoder:
    """The size and the moments of a processor; a model without them takes 224 pixels, from 0 to 1."""
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


def _prepared(inputs: Inputs, encoder: ImageEncoder, name: str) -> ImageFiles | Images:
    own: dict[str, Any] = {"mean": encoder.mean, "std": encoder.std}
    if isinstance(inputs, ImageFiles):
        return dataclasses.replace(inputs, shape=encoder.shape, **own)
    if not isinstance(inputs, Images) or inputs.shape[0] != 3:
        raise UserError(f"--finetune takes images of three channels, which {name} does not have")
    if len(inputs) * 3 * encoder.height * encoder.width > MOST_BYTES:
        raise UserError(
            f"the {len(inputs)} images of {name} at {encoder.height}×{encoder.width} pixels do not fit into "
            "memory: name a smaller --image-size, or save them as files"
        )
    return dataclasses.replace(inputs, pixels=resize(inputs.pixels, encoder.height, encoder.width), **own)
