"""Samples for pretrained models: frozen features, and images or tokens for fine-tuning.

The models themselves are in `backbones`.
"""
