"""Models of the real architectures with random weights, small enough for tests."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertModel,
    ConvNextConfig,
    ConvNextModel,
    DebertaV2Config,
    DebertaV2Model,
    Dinov2Config,
    Dinov2Model,
    ModernBertConfig,
    ModernBertModel,
    PreTrainedTokenizerFast,
    ResNetConfig,
    ResNetModel,
    RobertaConfig,
    RobertaModel,
    SiglipConfig,
    SiglipModel,
    SwinConfig,
    SwinModel,
    T5Config,
    T5Model,
    ViTConfig,
    ViTModel,
)

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    *["the", "cat", "sat", "on", "a", "mat", "and", "dog", "ran", "far", "red", "blue", "green"],
]

IMAGES = ("vit", "dinov2", "convnext", "resnet", "swin", "siglip")
TEXTS = ("bert", "roberta", "modernbert", "deberta")

_SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
_VISION = {**_SMALL, "image_size": 32, "patch_size": 8}
_TEXT = {**_SMALL, "vocab_size": len(WORDS), "pad_token_id": 0, "max_position_embeddings": 40}


def _network(name: str) -> transformers.PreTrainedModel:
    match name:
        case "vit":
            return ViTModel(ViTConfig(**_VISION))
        case "dinov2":
            return Dinov2Model(Dinov2Config(**_VISION))
        case "convnext":
            return ConvNextModel(ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2))
        case "resnet":
            return ResNetModel(ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1]))
        case "swin":
            return SwinModel(
                SwinConfig(
                    image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[1, 2], window_size=4
                )
            )
        case "siglip":
            text = {**_SMALL, "vocab_size": len(WORDS), "max_position_embeddings": 8}
            return SiglipModel(SiglipConfig(vision_config=_VISION, text_config=text))
        case "bert":
            return BertModel(BertConfig(**_TEXT))
        case "roberta":
            return RobertaModel(RobertaConfig(**_TEXT))
        case "modernbert":
            own = {"cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
            return ModernBertModel(ModernBertConfig(**_TEXT, **own))
        case "t5":
            t5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
            return T5Model(T5Config(vocab_size=len(WORDS), pad_token_id=0, **t5))
    return DebertaV2Model(DebertaV2Config(**_TEXT))


def save_model(name: str, folder: Path) -> Path:
    """A model with its processor or tokenizer, as the hub has them."""
    torch.manual_seed(0)
    network = _network(name).eval()
    with torch.no_grad():
        for parameter in network.parameters():  # what starts at zero would hide a mistake
            parameter.add_(0.1 * torch.randn_like(parameter))
    network.save_pretrained(folder)
    if name in IMAGES:
        processor(name).save_pretrained(folder)
    else:
        tokenizer().save_pretrained(folder)
    return folder


def processor(name: str) -> transformers.BaseImageProcessor:
    """The processor of the model's family, for 32 pixels, with other moments than the usual ones."""
    moments = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.25]}
    square = {"height": 32, "width": 32}
    match name:
        case "dinov2":
            size = {"size": {"shortest_edge": 36}, "crop_size": square}
            return transformers.BitImageProcessorPil(**size, **moments)
        case "convnext" | "resnet":
            size = {"size": {"shortest_edge": 32}, "crop_pct": 0.875}
            return transformers.ConvNextImageProcessorPil(**size, **moments)
        case "siglip":
            return transformers.SiglipImageProcessorPil(size=square, **moments)
    return transformers.ViTImageProcessorPil(size=square, **moments)


def tokenizer(**options: str) -> PreTrainedTokenizerFast:
    """A tokenizer of a dozen words, with the marks of BERT."""
    own = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, "[UNK]"))
    own.pre_tokenizer = pre_tokenizers.Whitespace()
    own.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    marks = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=own, model_max_length=10**30, **(marks | options))
