"""Cross-fitting: nothing leaks, killed fits resume to the same bytes, shifts come before pooling."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch

from tailmask._util.messages import UserError
from tailmask.data.rows import Rows
from tailmask.learners.cross_fitting import FoldModels, crossfit
from tailmask.learners.folds import make_folds
from tailmask.learners.matrix.forest import ForestLearner
from tailmask.learners.matrix.linear import LinearLearner
from tailmask.learners.protocol import Deadline
from tailmask.learners.stored_models import load_fitted


@dataclass(frozen=True)
class Recorder:
    """Records the rows of each fit, and can be killed in the middle of one."""

    inner: LinearLearner = field(default_factory=lambda: LinearLearner(C=1.0))
    seen: list = field(default_factory=list, repr=False)
    killed_in: int = field(default=-1, repr=False)
    shift: bool = False

    def fit(self, rows, *, seed, workdir, deadline, progress):
        self.seen.append((rows, seed, deadline))
        progress(0.5, "half")
        if len(self.seen) - 1 == self.killed_in:
            workdir.mkdir(parents=True)
            (workdir / "checkpoint").write_text("half")
            raise KeyboardInterrupt
        fitted = self.inner.fit(rows, seed=seed)
        if self.shift:
            fitted = dataclasses.replace(fitted, prior_shift=np.full(4, len(self.seen), np.float32))
        return fitted


@pytest.fixture
def rows(problem):
    matrix, targets = problem
    return Rows(np.c_[np.arange(len(matrix)), matrix], targets)  # the first feature names the row


@pytest.fixture
def folds(rows):
    return make_folds(rows, 5, seed=0)


def names(rows):
    return rows.features[:, 0].astype(int).tolist()


def test_a_fold_sees_its_training_rows_alone(rows, folds, tmp_path):
    learner = Recorder()
    result = crossfit(learner, rows, folds, seed=3, workdir=tmp_path)
    for fold, (seen, _, _) in enumerate(learner.seen):
        assert names(seen) == folds.train(fold).tolist()
        assert (seen.targets == rows.targets[folds.train(fold)]).all()
        expected = LinearLearner(C=1.0).fit(seen, seed=0).logits(rows)
        assert torch.equal(result.logits[folds.held_out(fold)], expected[folds.held_out(fold)])
    assert len({seed for _, seed, _ in learner.seen}) == 5


def test_held_out_features_and_targets_steer_nothing(rows, folds, tmp_path):
    """Changed rows of fold 2 change no parameter of its model: not its encoder, not its weights."""
    held_out = folds.held_out(2)
    features, targets = rows.features.copy(), rows.targets.copy()
    features[held_out] *= 100
    targets[held_out] = 1 - targets[held_out]
    changed = Rows(features, targets)
    for learner in (LinearLearner(), ForestLearner(trees=5)):
        first = crossfit(learner, rows, folds, seed=0, workdir=tmp_path / f"{learner}-a").fitted.parts
        second = crossfit(learner, changed, folds, seed=0, workdir=tmp_path / f"{learner}-b").fitted.parts
        assert torch.equal(first[2].logits(rows), second[2].logits(rows))
        assert not torch.equal(first[1].logits(rows), second[1].logits(rows))


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "checkpoint"
    }


def test_resumes_after_a_kill_in_fold_3_to_the_same_bytes(rows, folds, tmp_path):
    whole = crossfit(Recorder(), rows, folds, seed=0, workdir=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        crossfit(Recorder(killed_in=2), rows, folds, seed=0, workdir=tmp_path / "killed")
    again = Recorder()
    resumed = crossfit(again, rows, folds, seed=0, workdir=tmp_path / "killed")
    assert [names(seen) for seen, _, _ in again.seen] == [folds.train(fold).tolist() for fold in (2, 3, 4)]
    assert files(tmp_path / "killed") == files(tmp_path / "whole")
    assert torch.equal(resumed.logits, whole.logits)
    assert torch.equal(resumed.fitted.logits(rows), whole.fitted.logits(rows))


@pytest.mark.parametrize("left", ["logits.safetensors", "model/arrays.safetensors"])
def test_a_kill_while_a_fold_is_saved_is_resumed(rows, folds, tmp_path, left):
    whole = crossfit(Recorder(), rows, folds, seed=0, workdir=tmp_path / "whole")
    crossfit(Recorder(), rows, folds, seed=0, workdir=tmp_path / "killed")
    folder = tmp_path / "killed" / "fold-3"
    for path in list(folder.rglob("*")):
        if path.is_file() and path.relative_to(folder).as_posix() != left:
            path.unlink()
    resumed = crossfit(Recorder(), rows, folds, seed=0, workdir=tmp_path / "killed")
    assert torch.equal(resumed.logits, whole.logits)
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


def test_a_folder_of_another_fit_is_refused(rows, folds, tmp_path):
    crossfit(Recorder(), rows, folds, seed=0, workdir=tmp_path)
    other_targets = replace(rows, targets=1 - rows.targets)
    other_features = replace(rows, features=rows.features + 1)
    for learner, data, seed, cut in [
        (Recorder(LinearLearner(C=2.0)), rows, 0, folds),
        (Recorder(), other_targets, 0, folds),
        (Recorder(), other_features, 0, folds),
        (Recorder(), rows, 1, folds),
        (Recorder(), rows, 0, make_folds(rows, 5, seed=1)),
    ]:
        with pytest.raises(UserError):
            crossfit(learner, data, cut, seed=seed, workdir=tmp_path)


def test_damaged_logits_are_refused(rows, folds, tmp_path):
    crossfit(Recorder(), rows, folds, seed=0, workdir=tmp_path)
    path = tmp_path / "fold-1" / "logits.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(UserError):
        crossfit(Recorder(), rows, folds, seed=0, workdir=tmp_path)


def test_prior_shifts_are_applied_before_pooling(rows, folds, tmp_path):
    plain = crossfit(Recorder(), rows, folds, seed=0, workdir=tmp_path / "plain")
    shifted = crossfit(Recorder(shift=True), rows, folds, seed=0, workdir=tmp_path / "shifted")
    expected = plain.logits + torch.from_numpy(folds.number + 1)[:, None]
    torch.testing.assert_close(shifted.logits, expected.float())
    torch.testing.assert_close(shifted.fitted.logits(rows), plain.fitted.logits(rows) + 3)


def test_new_rows_get_the_mean_of_the_fold_models(rows, folds, tmp_path):
    result = crossfit(Recorder(), rows, folds, seed=0, workdir=tmp_path / "work")
    expected = np.mean([part.logits(rows).numpy() for part in result.fitted.parts], axis=0)
    np.testing.assert_allclose(result.fitted.logits(rows), expected, rtol=1e-5, atol=1e-6)
    result.fitted.save(tmp_path / "model")
    assert torch.equal(load_fitted(tmp_path / "model").logits(rows), result.fitted.logits(rows))


def test_fold_models_of_different_classes_are_refused(rows):
    narrow = replace(rows, targets=rows.targets[:, :2])
    parts = tuple(LinearLearner(C=1.0).fit(each, seed=0) for each in (rows, narrow))
    with pytest.raises(UserError):
        FoldModels(parts).logits(rows)
    with pytest.raises(UserError):
        FoldModels(())


def test_forward_folds_end_with_a_fit_on_all_rows(rows, tmp_path):
    timed = replace(rows, times=np.arange(len(rows)))
    folds = make_folds(timed, 3, seed=0)
    learner = Recorder()
    result = crossfit(learner, timed, folds, seed=0, workdir=tmp_path)
    assert [len(seen) for seen, _, _ in learner.seen] == [40, 80, 120, 160]
    assert result.logits[:40].isnan().all()
    assert result.logits[40:].isfinite().all()
    assert torch.equal(result.fitted.logits(rows), LinearLearner(C=1.0).fit(rows, seed=0).logits(rows))


def test_folds_share_the_time_and_report_progress(rows, folds, tmp_path):
    learner, shares = Recorder(), []
    crossfit(
        learner,
        rows,
        folds,
        seed=0,
        workdir=tmp_path,
        deadline=Deadline.after(1000),
        progress=lambda share, text: shares.append(share),
    )
    assert shares == sorted(shares)
    assert shares[1] == 0.1
    assert shares[-1] == 1.0
    ends = [deadline.end for _, _, deadline in learner.seen]
    assert ends == sorted(ends)
    assert ends[-1] - ends[0] == pytest.approx(800, abs=100)
    assert math.isinf(Deadline().part(0.5).end)


def test_folds_of_other_rows_are_refused(rows, folds, tmp_path):
    with pytest.raises(ValueError, match="rows"):
        crossfit(Recorder(), rows.take(np.arange(10)), folds, seed=0, workdir=tmp_path)


def test_parts_of_an_interrupted_save_are_not_mixed_with_a_new_fit(rows, folds, tmp_path):
    """A killed save leaves a whole part of the model, but not the model."""

    @dataclass(frozen=True)
    class Pair:
        strength: float = field(repr=False)  # changes the fit, as a deadline does

        def fit(self, rows, *, seed, **others):
            return FoldModels(tuple(LinearLearner(C=self.strength).fit(rows, seed=seed) for _ in range(2)))

    crossfit(Pair(1.0), rows, folds, seed=0, workdir=tmp_path)
    (tmp_path / "fold-2" / "model" / "fitted.json").unlink()
    again = crossfit(Pair(0.01), rows, folds, seed=0, workdir=tmp_path)
    held_out = folds.held_out(2)
    assert torch.equal(again.fitted.parts[2].logits(rows.take(held_out)), again.logits[held_out])
