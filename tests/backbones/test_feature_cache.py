"""Features are computed once per sample, survive a kill, and never come from a damaged file."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from tailmask._util.messages import UserError
from tailmask.backbones import feature_cache
from tailmask.backbones.feature_cache import cached_features
from tailmask.data.pretrained.backbone_features import TextSamples


class Lengths:
    """A backbone that counts what it is asked for, and may be stopped."""

    digest = hashlib.sha256(b"lengths").hexdigest()

    def __init__(self, stop_after=None):
        self.asked = []
        self.stop_after = stop_after

    def features(self, samples):
        if self.stop_after is not None and len(self.asked) >= self.stop_after:
            raise KeyboardInterrupt
        self.asked += samples
        return np.array([[len(text), hash(text) % 7] for text in samples], dtype=np.float32)


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch):
    monkeypatch.setattr(feature_cache, "SHARD", 4)


TEXTS = [f"text {number:02}" + "!" * number for number in range(10)]


def test_samples_are_computed_once_by_their_content(tmp_path):
    backbone = Lengths()
    first = cached_features(backbone, TextSamples([*TEXTS, TEXTS[0]]), tmp_path)
    assert backbone.asked == TEXTS
    assert first[:, 0].tolist() == [len(text) for text in [*TEXTS, TEXTS[0]]]
    again = cached_features(backbone, TextSamples(["new", *reversed(TEXTS)]), tmp_path)
    assert backbone.asked == [*TEXTS, "new"]
    assert (again[1:] == first[:10][::-1]).all()


def test_a_kill_costs_one_shard_at_most(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        cached_features(Lengths(stop_after=8), TextSamples(TEXTS), tmp_path)
    backbone = Lengths()
    features = cached_features(backbone, TextSamples(TEXTS), tmp_path)
    assert backbone.asked == TEXTS[8:]
    assert features[:, 0].tolist() == [len(text) for text in TEXTS]


def test_damaged_shards_are_computed_again(tmp_path):
    expected = cached_features(Lengths(), TextSamples(TEXTS), tmp_path)
    shards = sorted(tmp_path.glob("*/*.npz"))
    assert len(shards) == 3
    shards[0].write_bytes(shards[0].read_bytes()[:50])
    shards[1].write_bytes(b"")
    backbone = Lengths()
    assert (cached_features(backbone, TextSamples(TEXTS), tmp_path) == expected).all()
    assert 0 < len(backbone.asked) < 10
    assert len(list(tmp_path.glob("*/*.npz"))) <= 5


def test_another_backbone_has_features_of_its_own(tmp_path):
    cached_features(Lengths(), TextSamples(TEXTS), tmp_path)
    other = Lengths()
    other.digest = hashlib.sha256(b"other").hexdigest()
    cached_features(other, TextSamples(TEXTS), tmp_path)
    assert other.asked == TEXTS


def test_features_that_are_no_numbers_are_not_kept(tmp_path):
    backbone = Lengths()
    backbone.features = lambda samples: np.full((len(samples), 2), np.nan, dtype=np.float32)
    with pytest.raises(UserError, match="NaN"):
        cached_features(backbone, TextSamples(TEXTS), tmp_path)
    assert not list(tmp_path.glob("*/*.npz"))
