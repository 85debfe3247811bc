"""Run as two ranks by test_streaming.py: each has half of the samples, both get the values of all."""

from __future__ import annotations

import torch.distributed as dist
from metric_cases import random_case

from tailmask.metrics import StreamingMetrics, evaluate

if __name__ == "__main__":
    dist.init_process_group("gloo")
    scores, targets = random_case(2, num_samples=41)
    metric = StreamingMetrics(7)
    metric.update(scores[dist.get_rank() :: 2], targets[dist.get_rank() :: 2])
    found, expected = metric.compute(), evaluate(scores, targets).summary
    assert all(abs(float(value) - expected[name]) < 1e-6 for name, value in found.items()), found
    dist.barrier()  # a rank that leaves while the other still connects would fail it
    dist.destroy_process_group()
