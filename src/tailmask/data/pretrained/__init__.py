"""Samples as the inputs of a pretrained model: frozen features, raw rows of them, images for fine-tuning.

The models themselves are in `backbones`.
"""
