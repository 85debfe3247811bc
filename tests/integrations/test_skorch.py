"""`PartialLabelMasking` as skorch's criterion, the way the docs show it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNet
from skorch.callbacks import Callback
from skorch.dataset import Dataset
from skorch.helper import predefined_split
from torch import nn

from tailmask import PartialLabelMasking
from tailmask.masking import count_classes


class StepRatios(Callback):
    def on_epoch_end(self, net, **kwargs):
        net.criterion_.step()


def make_data() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    inputs = random.normal(size=(96, 6)).astype(np.float32)
    targets = (inputs[:, :3] + 0.5 * random.normal(size=(96, 3)) > [0.0, 0.7, 1.3]).astype(np.float32)
    return inputs, targets


def make_net(**options) -> NeuralNet:
    _, targets = make_data()
    return NeuralNet(
        nn.Linear,
        criterion=PartialLabelMasking,
        criterion__class_counts=count_classes(targets),
        module__in_features=6,
        module__out_features=3,
        verbose=0,
        **{
            "callbacks": [StepRatios],
            "criterion__rate": 0.3,
            "criterion__expected": True,
            "lr": 0.5,
            "batch_size": 32,
            "train_split": None,
            "max_epochs": 4,
        }
        | options,
    )


def test_trains_as_a_loop_would():
    inputs, targets = make_data()
    torch.manual_seed(1)
    net = make_net().fit(inputs, targets)

    torch.manual_seed(1)
    model = nn.Linear(6, 3)
    criterion = PartialLabelMasking.from_targets(targets, rate=0.3, expected=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(4):
        for rows in np.split(np.arange(96), 3):
            loss = criterion(model(torch.from_numpy(inputs[rows])), torch.from_numpy(targets[rows]))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        criterion.step()
    assert net.criterion_.num_steps == 4
    torch.testing.assert_close(net.criterion_.target_ratio, criterion.target_ratio)
    torch.testing.assert_close(net.module_.weight, model.weight)


def test_validation_is_neither_masked_nor_recorded():
    inputs, targets = make_data()
    recorded = []

    class Spy(Callback):
        def on_epoch_end(self, net, **kwargs):
            recorded.append(int(net.criterion_.counts.sum()))

    net = make_net(
        criterion__initial_ratio=torch.full((3,), 5.0),
        train_split=predefined_split(Dataset(inputs[64:], targets[64:])),
        max_epochs=1,
        lr=0.0,
    )
    net.set_params(callbacks=[Spy, StepRatios])
    net.fit(inputs[:64], targets[:64])
    assert recorded == [64 * 3]
    logits = net.module_(torch.from_numpy(inputs[64:]))
    expected = nn.BCEWithLogitsLoss()(logits, torch.from_numpy(targets[64:]))
    assert net.history[-1]["valid_loss"] == pytest.approx(expected.item(), rel=1e-5)


def test_parameters_and_ratios_are_saved_together(tmp_path):
    inputs, targets = make_data()
    net = make_net().fit(inputs, targets)
    files = {"f_params": tmp_path / "module.pt", "f_criterion": tmp_path / "criterion.pt"}
    net.save_params(**files)
    other = make_net().initialize()
    other.load_params(**files)
    assert other.criterion_.target_ratio.equal(net.criterion_.target_ratio)


def test_the_rate_can_be_searched():
    inputs, targets = make_data()

    def score(net: NeuralNet, X: np.ndarray, Y: np.ndarray) -> float:
        return float(((net.predict(X) > 0) == Y).mean())

    search = GridSearchCV(make_net(), {"criterion__rate": [0.0, 0.3]}, scoring=score, cv=2, refit=False)
    search.fit(inputs, targets)
    assert search.best_score_ > 0.7


class StepByHeldOut(StepRatios):
    def on_batch_end(self, net, batch, training, y_pred, **kwargs):
        if not training:
            net.criterion_.update(y_pred, batch[1])


def test_what_skorch_holds_out_moves_the_ratios():
    inputs, targets = make_data()
    held_out = Dataset(inputs[64:], 1 - targets[64:])
    options = {"adapt": "prevalence", "warmup": 0}
    net = make_net(
        callbacks=[StepByHeldOut],
        train_split=predefined_split(held_out),
        lr=0.0,
        **{f"criterion__{name}": value for name, value in options.items()},
    ).fit(inputs[:64], targets[:64])

    criterion = PartialLabelMasking.from_targets(targets, rate=0.3, expected=True, **options)
    for _ in range(4):
        with torch.no_grad():
            criterion.update(net.module_(torch.from_numpy(inputs[64:])), torch.from_numpy(1 - targets[64:]))
        criterion.step()
    torch.testing.assert_close(net.criterion_.target_ratio, criterion.target_ratio)


def test_the_criterion_is_told_the_epochs():
    net = make_net(criterion__rate=0.05, criterion__statistics="training")
    net.set_params(criterion__adapt="prevalence", criterion__epochs=8, criterion__rate=None, max_epochs=8)
    net.fit(*make_data())
    assert (net.criterion_.rate, net.criterion_.warmup) == (0.875, 4)
