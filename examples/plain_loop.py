"""Partial Label Masking in a training loop of your own: one line changed, one line added.

    python examples/plain_loop.py

Trains the same network twice on images of two digits, of which zeros are frequent and nines are rare.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tailmask import PartialLabelMasking
from tailmask.data import load
from tailmask.metrics import evaluate

digits = load("digits")
inputs, targets = digits.train.batch(torch.arange(len(digits.train)))  # (3216, 1, 12, 12), (3216, 10)
test_inputs, test_targets = digits.test.batch(torch.arange(len(digits.test)))


def train(criterion: nn.Module) -> torch.Tensor:
    """F1 of each class on the test set, after training with the criterion."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(144, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=64, shuffle=True)
    for _ in range(30):
        for batch, labels in loader:
            loss = criterion(model(batch), labels)  # masks, and records what it saw
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if isinstance(criterion, PartialLabelMasking):
            criterion.step()  # once an epoch, like a scheduler: moves each class's ratio
    with torch.no_grad():
        return evaluate(model(test_inputs), test_targets).per_class["f1"]


plain = train(nn.BCEWithLogitsLoss())
masked = train(PartialLabelMasking.from_targets(targets, rate=0.03))

print("digit  training images   F1 with BCE   F1 with PLM")
for digit, (number, before, after) in enumerate(zip(targets.sum(dim=0), plain, masked, strict=True)):
    print(f"{digit:>5} {number:>16.0f} {before:>13.2f} {after:>13.2f}")
print(f" mean {'':>16} {plain.mean():>13.3f} {masked.mean():>13.3f}")
