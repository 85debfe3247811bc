"""Networks with members: each is a network of its own, and the output is their mean."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tailmask._util.messages import UserError
from tailmask.inference.exported_files import export_model
from tailmask.models import build_model
from tailmask.models.last_layer import last_bias
from tailmask.models.member_networks import MemberNetworks
from tailmask.models.small_networks import mlp
from tailmask.runs import Run
from tailmask.runs.model_file import read_model
from tailmask.training import train
from tailmask.training.tables.optimizers import Optimizer
from tailmask.training.tables.table_loop import TableLoop
from training.tiny import Interrupter, same_bytes, tiny_config, tiny_dataset

FIELDS = ["model.members=3", "model.input_dropout=0.1"]


def networks(number: int, *, dropout: float = 0.0, width: int = 6) -> list[nn.Sequential]:
    torch.manual_seed(0)
    return [mlp(width, 4, hidden=[8], dropout=dropout, input_dropout=dropout) for _ in range(number)]


def batch_list(number: int = 5, width: int = 6) -> list[tuple[torch.Tensor, torch.Tensor]]:
    source = torch.Generator().manual_seed(1)
    return [
        (torch.randn(16, width, generator=source), (torch.rand(16, 4, generator=source) < 0.3).float())
        for _ in range(number)
    ]


def trained(network: nn.Module, batches, *, name: str = "sgd") -> nn.Module:
    optimizer = Optimizer([(list(network.parameters()), 0.01)], name=name)
    TableLoop(network, nn.BCEWithLogitsLoss(), optimizer).run(batches, lr=lambda step: 0.1)
    return network


def test_one_member_is_the_network_itself() -> None:
    (alone,) = networks(1)
    inputs = batch_list()[0][0]
    torch.testing.assert_close(MemberNetworks([alone]).eval()(inputs), alone(inputs))
    assert not isinstance(
        build_model("mlp", shape=(6,), num_classes=4, hidden=[8], members=1), MemberNetworks
    )


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_each_member_trains_as_it_would_alone(name: str) -> None:
    alone = networks(3)
    together = trained(MemberNetworks(alone), batch_list(), name=name)
    inputs = batch_list()[0][0]
    expected = torch.stack([trained(network, batch_list(), name=name)(inputs) for network in alone])
    torch.testing.assert_close(together(inputs), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(together.eval()(inputs), expected.mean(dim=0), rtol=1e-4, atol=1e-5)


def test_members_drop_values_of_their_own() -> None:
    network = networks(1, dropout=0.5)[0]
    first, second = MemberNetworks([network, network])(torch.ones(4, 6))
    assert not first.equal(second)


def test_wide_and_mostly_empty_inputs_give_the_same_outputs_and_gradients() -> None:
    alone = networks(2, width=5000)
    network, inputs = MemberNetworks(alone), torch.zeros(3, 5000)
    inputs[:, [1, 7, 4999]] = torch.randn(3, 3)
    outputs = network(inputs)
    torch.testing.assert_close(outputs, torch.stack([each(inputs) for each in alone]))
    outputs.square().sum().backward()
    alone[1](inputs).square().sum().backward()
    torch.testing.assert_close(network.layers[0].weight.grad[1].T, alone[1][1].weight.grad)


def test_weight_decay_finds_the_last_bias() -> None:
    network = MemberNetworks(networks(2))
    assert last_bias(network) is network.layers[-1].bias
    assert last_bias(network).shape == (2, 1, 4)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    config = tiny_config(epochs=3, fields=[*FIELDS, "model.bias=prior"])
    return train(config, tmp_path_factory.mktemp("members") / "run", dataset=tiny_dataset())


def test_a_run_with_members_is_loaded_and_exported(run: Run, tmp_path) -> None:
    network, description = read_model(run.folder / "model.safetensors")
    dataset = tiny_dataset()
    logits = run.predictions()["test_logits"]
    np.testing.assert_allclose(network(dataset.test.inputs).detach(), logits, rtol=1e-5, atol=1e-5)
    assert description.model["members"] == network.num_members == 3
    assert export_model(run.folder, tmp_path / "model.pt2").difference <= 1e-5


def test_a_run_with_members_is_exported_to_onnx(run: Run, tmp_path) -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    assert export_model(run.folder, tmp_path / "model.onnx").difference <= 1e-5


@pytest.mark.parametrize("method", ["plm:rate=0.5", "ldam+drw"])
def test_a_run_with_members_resumes_to_the_same_bytes(tmp_path, method: str) -> None:
    dataset = tiny_dataset(single_label=True)
    config = tiny_config(method, epochs=3, fields=FIELDS)
    whole = train(config, tmp_path / "whole", dataset=dataset)
    with pytest.raises(RuntimeError, match="stop"):
        train(config, tmp_path / "run", dataset=dataset, progress=Interrupter(3, error=RuntimeError("stop")))
    assert same_bytes(whole.folder, train(config, tmp_path / "run", dataset=dataset).folder)


def test_the_bias_starts_at_the_log_odds_of_the_classes() -> None:
    from tailmask.training.run_parts import build_parts

    dataset = tiny_dataset()
    parts = build_parts(tiny_config(fields=["model.bias=prior", "model.members=2"]), dataset)
    negatives, positives = dataset.train.counts().double()
    expected = (positives / negatives).log().float()
    torch.testing.assert_close(last_bias(parts.network).detach(), expected.expand(2, 1, 4))


@pytest.mark.parametrize("members", [0, 10**9])
def test_a_number_of_members_beyond_reason_is_refused_at_once(members: int) -> None:
    with pytest.raises(UserError, match="members"):
        build_model("mlp", shape=(3,), num_classes=2, hidden=[4], members=members)
