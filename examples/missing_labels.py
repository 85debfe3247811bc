"""A label that nobody has checked is unknown, not absent: mark it with -1, and PLM ignores it.

    python examples/missing_labels.py

Half of the positive labels and a third of the negative ones are lost before training.
"""

import torch
from torch import Tensor, nn

from tailmask import PartialLabelMasking
from tailmask.data import load
from tailmask.metrics import evaluate

digits = load("digits")
inputs, targets = digits.train.batch(torch.arange(len(digits.train)))
test_inputs, test_targets = digits.test.batch(torch.arange(len(digits.test)))

torch.manual_seed(0)
lost = torch.rand(targets.shape) < torch.where(targets == 1, 1 / 2, 1 / 3)


def train(targets: Tensor) -> dict[str, float]:
    """Metrics on the test set after training on the targets."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(144, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    # The paper's update needs no held-out data. The form that we recommend does: see plain_loop.py.
    criterion = PartialLabelMasking.from_targets(targets, rate=0.03)  # ratios of the known labels
    for _ in range(20):
        for index in torch.randperm(len(inputs)).split(64):
            criterion(model(inputs[index]), targets[index]).backward()
            optimizer.step()
            optimizer.zero_grad()
        criterion.step()
    with torch.no_grad():
        return evaluate(model(test_inputs), test_targets).summary


print(f"{'training labels':<24} mean F1  mean recall")
for name, labels in {
    "all of them": targets,
    "lost ones as absent": targets.masked_fill(lost, 0),
    "lost ones as unknown": targets.masked_fill(lost, -1),
}.items():
    result = train(labels)
    print(f"{name:<24} {result['f1']:>7.3f} {result['recall']:>12.3f}")
