"""Partial Label Masking in several processes: every rank steps, and all get the same ratios as one process.

    torchrun --nproc-per-node=2 examples/ddp_torchrun.py

PLM has the form that we recommend: held-out data move the ratios.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from tailmask import PartialLabelMasking
from tailmask.data import load
from tailmask.metrics import evaluate

dist.init_process_group("gloo")  # "nccl" on GPUs
rank, world_size = dist.get_rank(), dist.get_world_size()

digits = load("digits")
inputs, targets = digits.train.batch(torch.arange(len(digits.train)))
share = torch.arange(rank, len(digits.validation), world_size)  # each rank's part of the held-out data
held_out_inputs, held_out_targets = digits.validation.batch(share)
test_inputs, test_targets = digits.test.batch(torch.arange(len(digits.test)))

dataset = TensorDataset(inputs, targets)
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=32, sampler=sampler)  # 64 over both processes

torch.manual_seed(rank)  # different masks on each rank; DDP makes the weights equal
network = nn.Sequential(nn.Flatten(), nn.Linear(144, 256), nn.ReLU(), nn.Linear(256, 10))
model = DistributedDataParallel(network)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
epochs = 12
criterion = PartialLabelMasking.from_targets(targets, adapt="prevalence", epochs=epochs)

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for batch, labels in loader:
        criterion(model(batch), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        criterion.update(network(held_out_inputs), held_out_targets)
    criterion.step()  # on all ranks: it sums their statistics

ratios = [torch.empty(10) for _ in range(world_size)]
dist.all_gather(ratios, criterion.target_ratio)
if rank == 0:
    with torch.no_grad():
        f1 = evaluate(network(test_inputs), test_targets).summary["f1"]
    same = all(ratio.equal(ratios[0]) for ratio in ratios)
    print(f"{len(ratios)} processes, the same ratios on each: {same}")
    print("data's ratios ", " ".join(f"{ratio:.3f}" for ratio in criterion.class_ratio))
    print("PLM's ratios  ", " ".join(f"{ratio:.3f}" for ratio in criterion.target_ratio))
    print(f"mean F1 {f1:.3f}")
dist.destroy_process_group()
