"""Partial Label Masking in your own training loop, compared with tuned thresholds alone.

    python examples/plain_loop.py

Trains the same network twice on images of two digits: zeros are frequent, nines are rare.
PLM has the form that we recommend: held-out data move the ratios. They also tune the thresholds.
"""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from tailmask import PartialLabelMasking
from tailmask.calibration import fit_thresholds
from tailmask.data import load
from tailmask.metrics import evaluate

digits = load("digits")
inputs, targets = digits.train.batch(torch.arange(len(digits.train)))  # (3216, 1, 12, 12), (3216, 10)
held_out_inputs, held_out_targets = digits.validation.batch(torch.arange(len(digits.validation)))
test_inputs, test_targets = digits.test.batch(torch.arange(len(digits.test)))

EPOCHS = 30


def train(criterion: nn.Module) -> list[Tensor]:
    """F1 of each class on the test set after training with the criterion: at 0.5, and at tuned thresholds."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(144, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=64, shuffle=True)
    for _ in range(EPOCHS):
        model.train()
        for batch, labels in loader:
            loss = criterion(model(batch), labels)  # masks
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            held_out, test = model(held_out_inputs), model(test_inputs)
        if isinstance(criterion, PartialLabelMasking):
            criterion.update(held_out, held_out_targets)
            criterion.step()  # once per epoch, like a scheduler: moves each class's ratio
    tuned = fit_thresholds(held_out.sigmoid(), held_out_targets)
    return [evaluate(test, test_targets, thresholds=cuts).per_class["f1"] for cuts in (0.5, tuned)]


bce = train(nn.BCEWithLogitsLoss())
plm = train(PartialLabelMasking.from_targets(targets, adapt="prevalence", epochs=EPOCHS))

print("F1 on the test set            BCE     BCE, tuned            PLM     PLM, tuned")
print("digit  training images     at 0.5     thresholds         at 0.5     thresholds")
for digit, (number, *f1) in enumerate(zip(targets.sum(dim=0), *bce, *plm, strict=True)):
    print(f"{digit:>5} {number:>16.0f} {f1[0]:>10.2f} {f1[1]:>14.2f} {f1[2]:>14.2f} {f1[3]:>14.2f}")
print(f" mean {'':>16} {'':>5}{'          '.join(f'{f1.mean():.3f}' for f1 in (*bce, *plm))}")
