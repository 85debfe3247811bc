"""The loop for tables: against plain PyTorch, against Lightning, and after interrupts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from scipy import sparse
from tiny import Interrupter, replaced, same_bytes, tiny_config, tiny_dataset, without_times
from torch import nn

from tailmask._util.messages import UserError
from tailmask._util.seeds import derive, generator
from tailmask.data.dataset import Split
from tailmask.models import build_model
from tailmask.runs import Run
from tailmask.runs.model_file import read_model
from tailmask.training import train
from tailmask.training.checkpoint_file import find_checkpoint
from tailmask.training.tables import table_run
from tailmask.training.tables.optimizers import Optimizer
from tailmask.training.tables.table_loop import TableLoop, batch_loss, batches
from tailmask.training.tables.table_run import Checkpoints

KINDS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.8, weight_decay=0.1),
    "adam": lambda parameters: torch.optim.Adam(parameters, 0.1, betas=(0.8, 0.999), weight_decay=0.1),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, 0.1, betas=(0.8, 0.999), weight_decay=0.1),
}


def start(seed: int = 0) -> list[torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    return [torch.randn(3, 2, generator=source), torch.randn(3, generator=source)]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("restored", ["never", "own", "torch"])
def test_optimisers_are_torchs_also_after_a_restart(name: str, restored: str) -> None:
    ours, theirs = start(), [each.requires_grad_() for each in start()]
    optimizer, reference = Optimizer([(ours, 0.1)], name=name, momentum=0.8), KINDS[name](theirs)
    source = torch.Generator().manual_seed(1)
    for step in range(10):
        if step == 5 and restored != "never":
            state = optimizer.state() if restored == "own" else reference.state_dict()
            optimizer = Optimizer([(ours, 0.1)], name=name, momentum=0.8)
            optimizer.load_state(state)
        gradients = [torch.randn(each.shape, generator=source) for each in ours]
        optimizer.step(gradients, 0.1)
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient
        reference.step()
    torch.testing.assert_close(ours, [each.detach() for each in theirs])


def test_gradients_in_another_layout_are_read_by_their_values() -> None:
    gradient = torch.arange(6.0).view(2, 3)
    first, second = torch.zeros(3, 2), torch.zeros(3, 2)
    Optimizer([([first], 0.0)], name="sgd", momentum=0.0).step([gradient.T], 1.0)
    Optimizer([([second], 0.0)], name="sgd", momentum=0.0).step([gradient.T.contiguous()], 1.0)
    assert first.equal(second)
    assert first.equal(-gradient.T)


@pytest.mark.parametrize("block", [1, 2**10, 2**24])
def test_batches_are_the_rows_in_order_however_they_are_gathered(monkeypatch, block: int) -> None:
    monkeypatch.setattr("tailmask.training.tables.table_loop.BLOCK_BYTES", block)
    split = Split(torch.arange(46.0).view(23, 2), torch.ones(23, 1, dtype=torch.int8))
    order = torch.randperm(23, generator=torch.Generator().manual_seed(0))
    made = [inputs for inputs, _ in batches(table_run._Rows(split), order, 5)]
    assert [len(each) for each in made] == [5, 5, 5, 5, 3]
    assert torch.cat(made).equal(split.inputs[order])


def test_a_run_has_the_weights_of_a_plain_loop(dataset, tmp_path) -> None:
    config = tiny_config("bce", epochs=3, seed=5)
    run = train(config, tmp_path / "run", dataset=dataset)
    torch.manual_seed(derive(5, "weights"))
    network = build_model("mlp", shape=(6,), num_classes=4, hidden=[16], dropout=0.3)
    recipe = config.recipe
    optimizer = torch.optim.SGD(
        network.parameters(), recipe.optimizer.lr, momentum=0.9, weight_decay=recipe.optimizer.weight_decay
    )
    for epoch in range(3):
        torch.manual_seed(derive(5, "network", epoch, 0))
        order = torch.randperm(203, generator=generator(5, "order", epoch))
        for number, index in enumerate(order.split(32)):
            optimizer.param_groups[0]["lr"] = 0.1 * recipe.schedule.factor(epoch + number / 7, 1 / 7)
            logits = network(dataset.train.inputs[index])
            loss = nn.functional.binary_cross_entropy_with_logits(
                logits, dataset.train.targets[index].float(), reduction="sum"
            )
            optimizer.zero_grad()
            (loss / len(index)).backward()
            optimizer.step()
    trained, _ = read_model(run.folder / "model.safetensors")
    for ours, plain in zip(trained.parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("method", "name"), [("plm:rate=0.5", "sgd"), ("bce", "adam"), ("ldam+drw", "adamw"), ("focal", "sgd")]
)
def test_lightning_trains_to_the_same_bytes(tmp_path, method: str, name: str) -> None:
    """Only Lightning limits gradients, so it trains the second run, where the limit is never reached."""
    dataset, fields = tiny_dataset(single_label=True), [f"optimizer.name={name}"]
    ours = train(tiny_config(method, epochs=2, fields=fields), tmp_path / "ours", dataset=dataset)
    limited = tiny_config(method, epochs=2, fields=[*fields, "optimizer.clip=1e9"])
    theirs = train(limited, tmp_path / "theirs", dataset=dataset)
    assert same_bytes(ours.folder, theirs.folder)
    assert without_times(ours.history) == without_times(theirs.history)


def test_sparse_rows_train_as_dense_ones(dataset, tmp_path) -> None:
    thin = [Split(split.inputs.clamp(min=0), split.targets) for split in dataset.splits.values()]
    splits = [dict(zip(dataset.splits, thin, strict=True))]
    splits.append({name: Split(sparse.csr_array(s.inputs), s.targets) for name, s in splits[0].items()})
    runs = [
        train(tiny_config(epochs=2), tmp_path / str(number), dataset=replaced(dataset, **each))
        for number, each in enumerate(splits)
    ]
    assert same_bytes(*(run.folder for run in runs))


def test_bf16_computes_in_bf16(dataset) -> None:
    seen = []

    class Spy(nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            result = super().forward(inputs)
            seen.append(result.dtype)
            return result

    network = Spy(6, 4)
    loop = TableLoop(
        network, nn.BCEWithLogitsLoss(), Optimizer([(list(network.parameters()), 0.0)]), bf16=True
    )
    loop.run([(dataset.train.inputs, dataset.train.targets.float())], lr=lambda step: 0.1)
    assert seen == [torch.bfloat16]


def test_members_have_a_loss_of_their_own_and_their_own_masks() -> None:
    targets = torch.tensor([[1.0, 0.0]])
    calls = []

    def criterion(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        calls.append((logits.shape, labels.tolist()))
        return logits.mean()

    assert batch_loss(criterion, torch.tensor([[[1.0, 1.0]], [[3.0, 3.0]]]), targets) == 2
    assert calls == [((2, 2), [[1.0, 0.0], [1.0, 0.0]])]


def stop(dataset, folder: Path, epoch: int) -> None:
    with pytest.raises(RuntimeError, match="stop"):
        train(
            tiny_config(),
            folder,
            dataset=dataset,
            progress=Interrupter(epoch, error=RuntimeError("stop")),
        )


@pytest.mark.parametrize(("seconds", "done"), [(0.0, 3), (1000.0, 0)])
def test_a_large_state_is_not_copied_and_resumes_from_its_checkpoint(
    finished: Run, dataset, tmp_path, monkeypatch, seconds: float, done: int
) -> None:
    monkeypatch.setattr(table_run, "KEPT_BYTES", 0)
    monkeypatch.setattr(Checkpoints, "SECONDS_BETWEEN", seconds)
    stop(dataset, tmp_path / "run", epoch=4)
    found = find_checkpoint(tmp_path / "run")
    assert (found[1]["epochs_done"] if found else 0) == done
    assert len(Run(tmp_path / "run").history) == 3
    run = train(tiny_config(), tmp_path / "run", dataset=dataset)
    assert run.config["sessions"][1]["resumed_after_epoch"] == done
    assert same_bytes(finished.folder, run.folder)
    assert without_times(run.history) == without_times(finished.history)


@pytest.mark.parametrize("lacking", ["state_dict", "optimizer_states"])
def test_a_checkpoint_that_does_not_fit_is_refused(dataset, tmp_path, lacking: str) -> None:
    stop(dataset, tmp_path / "run", epoch=3)
    found = find_checkpoint(tmp_path / "run")
    assert found is not None
    path, content = found
    del content[lacking]
    torch.save(content, path)
    with pytest.raises(UserError, match="does not fit this run"):
        train(tiny_config(), tmp_path / "run", dataset=dataset)


def test_a_short_run_writes_no_checkpoint(dataset, tmp_path) -> None:
    class Watcher(Interrupter):
        def record(self, record):
            super().record(record)
            assert find_checkpoint(tmp_path / "run") is None

    watcher = Watcher()
    train(tiny_config(), tmp_path / "run", dataset=dataset, progress=watcher)
    assert watcher.records


@pytest.mark.parametrize(
    "code",
    [
        "from tailmask.cli import main; main(['train', 'table.csv', '--labels', 'y*', '--epochs', '1'])",
        "from tailmask.integrations.sklearn import PLMClassifier\n"
        "PLMClassifier(max_epochs=1).fit([[0.0], [1.0], [2.0], [3.0]], [[0, 1], [1, 0], [1, 1], [0, 0]])",
    ],
    ids=["command", "estimator"],
)
def test_tables_train_without_lightning(tmp_path, code: str) -> None:
    rows = "".join(f"{n},{n % 7},{int(n % 3 == 0)},{int(n % 4 == 0)}\n" for n in range(80))
    (tmp_path / "table.csv").write_text("a,b,y1,y2\n" + rows)
    names = ["pytorch_lightning", *(["polars", "jsonargparse"] if "sklearn" in code else [])]
    check = f"{code}\nimport sys; print([name for name in {names} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", check], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"
