"""Models of timm, with a stand-in for the package: the published package needs torchvision."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from tailmask._util.messages import UserError
from tailmask.backbones.backbone import BackboneChoice, open_backbone

CHOICE = BackboneChoice("timm:tiny.made_up", "images")


class Tiny(nn.Module):
    """The means of the channels, weighted."""

    pretrained_cfg = {"hf_hub_id": "timm/tiny.made_up"}  # noqa: RUF012  as timm has it

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))

    def forward(self, pixels):
        return pixels.mean(dim=(2, 3)) * self.weight


@pytest.fixture
def timm(tmp_path, monkeypatch):
    save_file = pytest.importorskip("safetensors.torch").save_file
    hub = pytest.importorskip("huggingface_hub")
    save_file(
        {"weight": torch.tensor([1.0, 2.0, 3.0]), "head.bias": torch.zeros(5)}, tmp_path / "w.safetensors"
    )
    monkeypatch.setattr(hub, "hf_hub_download", lambda *_, **__: str(tmp_path / "w.safetensors"))
    data = SimpleNamespace(
        resolve_model_data_config=lambda network: {"mean": (0.5,)},
        create_transform=lambda **_: (
            lambda image: torch.from_numpy(np.asarray(image) / 255.0).permute(2, 0, 1)
        ),
    )
    module = SimpleNamespace(
        is_model=lambda name: name == "tiny", create_model=lambda *_, **__: Tiny().double(), data=data
    )
    monkeypatch.setitem(sys.modules, "timm", module)
    return tmp_path


def test_features_come_with_the_weights_of_the_hub(timm):
    images = [Image.new("RGB", (4, 4), (51, 102, 255)) for _ in range(40)]
    backbone = open_backbone(CHOICE)
    np.testing.assert_allclose(backbone.features(images), [[0.2, 0.8, 3.0]] * 40, rtol=1e-6)
    assert len(backbone.digest) == 64


def test_mistakes_get_one_sentence(timm, monkeypatch):
    with pytest.raises(UserError, match="has no model 'huge'"):
        open_backbone(BackboneChoice("timm:huge", "images"))
    with pytest.raises(UserError, match="is a model for images, but the data are texts"):
        open_backbone(BackboneChoice("timm:tiny", "texts"))
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(UserError, match=r"pip install 'tailmask\[timm\]'"):
        open_backbone(CHOICE)
