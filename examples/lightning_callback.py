"""Partial Label Masking in Lightning: the module calls its criterion, the callback does the rest.

    python examples/lightning_callback.py

The ratios here follow the validation pass: each class is predicted as often as it is present.
"""

import pytorch_lightning as pl  # or: import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tailmask import PartialLabelMasking
from tailmask.data import load
from tailmask.integrations.lightning import PLMCallback
from tailmask.metrics import StreamingMetrics

digits = load("digits")
train, validation, test = (
    TensorDataset(*split.batch(torch.arange(len(split))))
    for split in (digits.train, digits.validation, digits.test)
)


class Classifier(pl.LightningModule):
    def __init__(self, criterion: nn.Module) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Flatten(), nn.Linear(144, 256), nn.ReLU(), nn.Linear(256, 10))
        self.criterion = criterion
        self.metrics = StreamingMetrics(10)

    def training_step(self, batch, batch_idx):
        return self.criterion(self.network(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.criterion(self.network(batch[0]), batch[1]))

    def test_step(self, batch, batch_idx):
        self.metrics.update(self.network(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-3)


EPOCHS = 20
for name in ("BCE", "PLM"):
    pl.seed_everything(0)
    masking = PartialLabelMasking.from_targets(train.tensors[1], adapt="prevalence", epochs=EPOCHS)
    callbacks = [PLMCallback(statistics="validation")] if name == "PLM" else []
    module = Classifier(masking if name == "PLM" else nn.BCEWithLogitsLoss())
    quiet = dict.fromkeys(
        ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
    )
    trainer = pl.Trainer(max_epochs=EPOCHS, callbacks=callbacks, accelerator="cpu", **quiet)
    trainer.fit(module, DataLoader(train, 64, shuffle=True), DataLoader(validation, 603))
    trainer.test(module, DataLoader(test, 1000), verbose=False)
    print(f"{name}: mean F1 {module.metrics.compute()['f1']:.3f}")
