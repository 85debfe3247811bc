"""The protocol of a backbone: samples in, features out, and a digest that identifies it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args

from tailmask._util.messages import UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PREFIXES", "Backbone", "BackboneChoice", "Kind", "Pooling", "is_backbone", "open_backbone"]

Kind: TypeAlias = Literal["images", "texts"]
Pooling: TypeAlias = Literal["cls", "mean", "pooler"]

PREFIXES = ("hf:", "timm:")


class Backbone(Protocol):
    """A frozen model. It is loaded when its first features are computed."""

    @property
    def digest(self) -> str:
        """SHA-256 of the weights, the preprocessing and the options: all that determines its features."""
        ...

    def features(self, samples: Sequence[Any]) -> NDArray[np.float32]:
        """Features (N, D) of texts (`str`) or of images (Pillow, RGB)."""
        ...


@dataclass(frozen=True)
class BackboneChoice:
    """A backbone and the way to get its features.

    `name` is `hf:NAME_OR_FOLDER`, `timm:NAME`, or the import path `module:function` of the user's own
    encoder.

    >>> BackboneChoice("hf:models/vit", "images").short_name
    'hf:vit'
    """

    name: str
    kind: Kind
    pooling: Pooling | None = None
    flips: bool = False  # use the mean of the features of an image and of its mirror image

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind) or self.pooling not in (None, *get_args(Pooling)):
            raise ValueError(f"a backbone cannot have the kind {self.kind!r} and pooling {self.pooling!r}")
        if self.flips and self.kind == "texts":
            raise UserError("--flips is for images: texts have no mirror image")
        if self.pooling is not None and not self.name.startswith("hf:"):
            raise UserError(f"--pooling is for hf: models, not for {self.name}: leave it out")

    @property
    def is_code(self) -> bool:
        """True if it is the user's own function. Only the user may name it, never a file."""
        return not is_backbone(self.name)

    @property
    def short_name(self) -> str:
        """The name without its parent folder."""
        prefix, _, rest = self.name.partition(":")
        return self.name if self.is_code else f"{prefix}:{rest.rstrip('/').rpartition('/')[2]}"

    def named(self, name: str) -> BackboneChoice:
        """The same choice with another name, such as the folder that the model is in now."""
        return replace(self, name=name)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> BackboneChoice:
        """The choice that `to_json` wrote."""
        return cls(str(value["name"]), value["kind"], value["pooling"], bool(value["flips"]))


def is_backbone(name: str) -> bool:
    """True if a name is that of a pretrained model.

    >>> is_backbone("hf:facebook/dinov2-small"), is_backbone("package.module:factory")
    (True, False)
    """
    return name.startswith(PREFIXES)


def open_backbone(choice: BackboneChoice) -> Backbone:
    """The chosen backbone; raises a `UserError` if the model is not found."""
    if choice.name.startswith("hf:"):
        from tailmask.backbones.hugging_face import HuggingFaceBackbone

        return HuggingFaceBackbone.open(choice)
    if choice.name.startswith("timm:"):
        from tailmask.backbones.timm_models import TimmBackbone

        return TimmBackbone.open(choice)
    from tailmask.backbones.own_encoder import OwnEncoder

    return OwnEncoder.open(choice)
