"""Your own loss inside Partial Label Masking: any function that returns one value per label.

    python examples/custom_loss.py

Here it is Poly-1 (Leng et al. 2022): cross-entropy plus ε (1 − p), where p is the label's probability.
PLM has the form that we recommend: held-out data move the ratios.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tailmask import PartialLabelMasking
from tailmask.data import load
from tailmask.metrics import evaluate

digits = load("digits")
inputs, targets = digits.train.batch(torch.arange(len(digits.train)))
held_out_inputs, held_out_targets = digits.validation.batch(torch.arange(len(digits.validation)))
test_inputs, test_targets = digits.test.batch(torch.arange(len(digits.test)))

EPOCHS = 20


def poly1(logits: Tensor, targets: Tensor, epsilon: float = 1.0) -> Tensor:
    cross_entropy = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return cross_entropy + epsilon * (1 - torch.exp(-cross_entropy))  # (N, C): no mean, no sum


def train(criterion: PartialLabelMasking) -> float:
    """Mean F1 on the test set, after training with the criterion."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(144, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(EPOCHS):
        for index in torch.randperm(len(inputs)).split(64):
            criterion(model(inputs[index]), targets[index]).backward()
            optimizer.step()
            optimizer.zero_grad()
        with torch.no_grad():
            criterion.update(model(held_out_inputs), held_out_targets)
        criterion.step()
    with torch.no_grad():
        return evaluate(model(test_inputs), test_targets).summary["f1"]


options = {"loss": poly1, "adapt": "prevalence", "epochs": EPOCHS}
alone = train(PartialLabelMasking.from_targets(targets, rate=0.0, **options))  # masks nothing
inside = train(PartialLabelMasking.from_targets(targets, **options))
print(f"mean F1 with Poly-1 alone {alone:.3f}, inside PLM {inside:.3f}")
