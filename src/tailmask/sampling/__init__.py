"""Samplers that draw each epoch's samples by their classes: undersampling and class-aware sampling.

Both are `torch.utils.data.Sampler`s. An epoch's draw is determined by the seed and the epoch alone (call
`set_epoch`), on every machine and with every release of NumPy. It uses only the raw output of PCG64: NumPy
promises not to change that, but may change the methods of its `Generator`. In a process group all ranks share
the draw and split it. So Lightning must not split it again: pass `Trainer(use_distributed_sampler=False)`.
Accelerate and the Trainer of Hugging Face always split it: for them pass `num_replicas=1, rank=0`.

A sample without any positive label belongs to no class and is never drawn; a class without positives is
skipped.
"""

from tailmask.sampling.samplers import ClassAwareSampler, EpochSampler, UndersamplingSampler

__all__ = ["ClassAwareSampler", "EpochSampler", "UndersamplingSampler"]
