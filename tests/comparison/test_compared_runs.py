"""Run folders to a comparison: numbers against NumPy, pairing, decisions, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from synthetic_runs import draw_logits, draw_targets, long_tail, write_run
from tailmask._util.messages import UserError
from tailmask.calibration import DecisionRule, fit_thresholds
from tailmask.comparison import Comparison, compare_runs
from tailmask.comparison.comparison_result import Choice, ClassGain
from tailmask.comparison.run_outputs import read_outputs
from tailmask.report.comparison_text import footnote, to_markdown
from tailmask.runs.array_file import write_arrays
from tailmask.runs.decision_file import validation_folds
from tailmask.runs.reader import Run

CLASSES = 6
TARGETS = draw_targets(300, CLASSES)
SHY = torch.linspace(0.0, -2.0, CLASSES)  # a network that says no the more, the rarer a class


def runs_of(
    folder: Path, method: str, seeds: range, *, bias: torch.Tensor | float = 0.0, **options
) -> list[Run]:
    validation = draw_targets(300, CLASSES, seed=9)
    return [
        write_run(
            folder / f"{method}-{seed}",
            method,
            seed,
            logits=draw_logits(TARGETS, seed=sum(map(ord, method)) + seed, bias=bias),
            targets=TARGETS,
            validation=(draw_logits(validation, seed=50 + seed, bias=bias), validation),
            **options,
        )
        for seed in seeds
    ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder = tmp_path_factory.mktemp("runs")
    masked = runs_of(folder, "plm", range(3), bias=0.3 * SHY, prior_shift=(0.7 * SHY).tolist())
    return [*masked, *runs_of(folder, "bce", range(3), bias=SHY), *runs_of(folder, "focal", range(1, 3))]


@pytest.fixture(scope="module")
def comparison(runs: list[Run]) -> Comparison:
    return compare_runs(runs, resamples=400)


def test_means_and_deviations_are_numpys(runs: list[Run], comparison: Comparison) -> None:
    assert [method.name for method in comparison.methods] == ["bce", "plm", "focal"]
    for method in ("bce", "plm", "focal"):
        own = [run.metrics["test"]["summary"] for run in runs if run.config["name"] == method]
        for metric in ("precision", "f1_tail", "recall_rarest_3", "ap", "exact_match", "ndcg_at_3", "ece"):
            values = [summary[metric] for summary in own]
            row = comparison.row(method, metric)
            assert row is not None
            assert row.n == len(own)
            assert row.mean == pytest.approx(np.mean(values))
            assert row.std == pytest.approx(np.std(values, ddof=1))


def test_differences_are_of_runs_with_the_same_seed(runs: list[Run], comparison: Comparison) -> None:
    def f1(method: str, seed: int) -> float:
        (run,) = (r for r in runs if (r.config["name"], r.config["seed"]) == (method, seed))
        return run.metrics["test"]["summary"]["f1"]

    plm, focal = comparison.difference("plm", "f1"), comparison.difference("focal", "f1")
    assert plm is not None
    assert focal is not None
    assert plm.n == 3
    assert focal.n == 2
    assert plm.mean == pytest.approx(np.mean([f1("plm", s) - f1("bce", s) for s in range(3)]))
    assert focal.mean == pytest.approx(np.mean([f1("focal", s) - f1("bce", s) for s in (1, 2)]))
    assert plm.low < plm.mean < plm.high
    assert plm.effect == 1


def test_intervals_do_not_depend_on_what_else_is_compared(runs: list[Run], comparison: Comparison) -> None:
    alone = compare_runs([run for run in runs if run.config["name"] != "focal"], resamples=400)
    assert alone.differences == tuple(d for d in comparison.differences if d.method != "focal")
    assert alone.class_gains == tuple(gain for gain in comparison.class_gains if gain.method != "focal")


def test_every_resampled_measure_has_an_interval(comparison: Comparison) -> None:
    without = {row.metric for row in comparison.rows} - {d.metric for d in comparison.differences}
    assert without == {"ece", "ece_pooled", "brier"}
    assert all(difference.low <= difference.mean <= difference.high for difference in comparison.differences)


def test_thresholds_tell_what_masking_did_not(comparison: Comparison) -> None:
    plain = comparison.difference("plm", "f1")
    tuned = comparison.difference("plm", "f1", decision="tuned thresholds", reference="tuned thresholds")
    assert plain is not None
    assert tuned is not None
    assert plain.mean > 0.05
    assert abs(tuned.mean) < 0.02
    baseline = comparison.difference("bce", "f1", decision="tuned thresholds")
    assert baseline is not None
    assert baseline.effect == 1
    assert "Thresholds alone lift bce" in comparison.verdict
    assert comparison.difference("plm", "f1", decision="tuned thresholds") is None, "a mixed reference"


def test_the_choice_is_by_validation_scores_alone(runs: list[Run], comparison: Comparison) -> None:
    """The best mean over the seeds of F1 with cross-fitted thresholds; of its runs the best one."""
    scores = {(each.method, each.decision): each for each in comparison.validation}
    assert {decision for _, decision in scores} == {"default", "tuned thresholds", "prior shift"}
    best = max(scores, key=lambda key: scores[key].mean)
    assert comparison.chosen is not None
    assert (comparison.chosen.method, comparison.chosen.decision) == best
    assert comparison.class_decision == best[1]
    own = {
        run.config["seed"]: read_outputs(run).validation_score(best[1])
        for run in runs
        if run.config["name"] == best[0]
    }
    assert scores[best].mean == pytest.approx(np.mean(list(own.values())))
    assert comparison.chosen.seed == max(own, key=own.get)
    assert comparison.chosen.run == f"{best[0]}-{comparison.chosen.seed}"


def test_a_choice_that_was_made_before_stays(runs: list[Run]) -> None:
    made = Choice("plm", "default", seed=1, run="plm-1")
    found = compare_runs(runs, resamples=100, chosen=made)
    assert found.chosen == made
    assert found.class_decision == "default"
    assert found.verdict.startswith("Use `plm` at the default threshold")


def test_other_test_labels_change_no_choice(runs: list[Run], tmp_path: Path) -> None:
    copies = [Run(shutil.copytree(run.folder, tmp_path / run.folder.name)) for run in runs]
    for run in copies:
        arrays = {name: array.copy() for name, array in run.predictions().items()}
        arrays["test_logits"][:] = -arrays["test_logits"]
        write_arrays(run.folder / "predictions.npz", arrays)
    one, other = (compare_runs(each, resamples=100) for each in (runs, copies))
    assert one.chosen == other.chosen
    assert one.validation == other.validation
    assert one.row("plm", "f1").mean != other.row("plm", "f1").mean


def test_cross_fitted_scores_are_of_rows_that_fitted_no_threshold(runs: list[Run]) -> None:
    """By hand: five folds, thresholds from four, and the mean F1 of scikit-learn."""
    outputs = read_outputs(runs[0])
    logits, targets = outputs.validation
    folds = validation_folds(targets)
    labels = np.zeros(targets.shape, dtype=int)
    for fold in range(5):
        rows = torch.from_numpy(folds == fold)
        thresholds = fit_thresholds(logits[~rows].sigmoid(), targets[~rows])
        labels[rows] = (logits[rows].sigmoid() >= thresholds).int().numpy()
    expected = f1_score(targets.numpy(), labels, average="macro")
    assert outputs.validation_score("tuned thresholds") == pytest.approx(expected)
    plain = f1_score(targets.numpy(), (logits >= 0).int().numpy(), average="macro")
    assert outputs.validation_score("default") == pytest.approx(plain)


@pytest.mark.parametrize("rule", ["precision=0.9", "recall=0.8", "cost=5", "top=2"])
def test_other_rules_take_the_place_of_tuned_thresholds(runs: list[Run], rule: str) -> None:
    found = compare_runs(runs, resamples=100, rule=rule)
    assert {decision for _, decision in found.row_keys} == {"default", rule, "prior shift"}
    assert found.chosen is not None
    assert found.chosen.decision == rule
    reached = found.row("bce", "precision" if rule.startswith("precision") else "recall", rule)
    assert reached.mean > 0.7
    assert found.like_for_like("plm", "f1", rule).reference == rule
    if rule == "top=2":
        outputs = read_outputs(runs[0], DecisionRule("top", 2))
        assert outputs.evaluation(rule).predictions.sum(dim=1).unique().tolist() == [2]


def test_decisions_change_just_what_they_can(comparison: Comparison) -> None:
    shifted, plain = comparison.row("plm", "f1", "prior shift"), comparison.row("bce", "f1")
    assert shifted is not None
    assert plain is not None
    assert shifted.mean == pytest.approx(plain.mean, abs=0.03)  # the shift undoes the other bias
    assert comparison.row("bce", "f1", "prior shift") is None
    for metric in ("ap", "ranking_loss"):
        default, tuned = comparison.row("plm", metric), comparison.row("plm", metric, "tuned thresholds")
        assert default is not None
        assert tuned is not None
        assert default.mean == pytest.approx(tuned.mean)


def test_a_baseline_that_masks_has_the_prior_shift_as_well(runs: list[Run], tmp_path: Path) -> None:
    masked = [run for run in runs if run.config["name"] == "plm"]
    others = runs_of(tmp_path, "plm+focal", range(3), bias=0.3 * SHY, prior_shift=(0.5 * SHY).tolist())
    found = compare_runs([*masked, *others], baseline="plm", resamples=100)
    shifted = found.like_for_like("plm+focal", "f1", "prior shift")
    own, base = (found.row(name, "f1", "prior shift") for name in ("plm+focal", "plm"))
    assert shifted is not None
    assert shifted.mean == pytest.approx(own.mean - base.mean)
    assert "## Difference to plm, both with the prior shift" in to_markdown(found)
    assert found.like_for_like("plm", "f1", "prior shift") is None, "the baseline has no difference to itself"


def test_a_baseline_without_a_prior_shift_is_compared_as_it_is(comparison: Comparison) -> None:
    shifted = comparison.like_for_like("plm", "f1", "prior shift")
    assert shifted.reference == "default"
    assert "## Difference to bce, with the prior shift, to bce without" in to_markdown(comparison)
    assert "bce has no prior shift: rows with it are compared with plain bce." in footnote(comparison)


def test_decisions_can_be_left_out(runs: list[Run]) -> None:
    comparison = compare_runs(runs[:6], resamples=100, decisions=("default",))
    assert comparison.row_keys == [("bce", "default"), ("plm", "default")]


def test_class_gains_have_counts_and_intervals(runs: list[Run]) -> None:
    comparison = compare_runs(runs, resamples=400, decisions=("default",))
    gained, lost = comparison.gains("plm", number=2)
    assert [gain.name for gain in gained] == ["class 5", "class 4"]
    assert gained[0].train_positives == long_tail(CLASSES)[5] == 20
    assert gained[0].low > 0
    assert all(gain.difference < 0 for gain in lost)
    f1 = np.array([run.metrics["test"]["per_class"]["f1"] for run in runs[:6]])
    assert gained[0].difference == pytest.approx((f1[:3] - f1[3:])[:, 5].mean(), abs=1e-6)
    assert gained[0].value - gained[0].baseline == pytest.approx(gained[0].difference, abs=2e-6)


def test_a_change_that_would_be_shown_as_zero_is_neither_gain_nor_loss(comparison: Comparison) -> None:
    changes = (0.0004, -0.0004, 0.0, 0.0006, -0.0006)
    gains = tuple(ClassGain("plm", i, f"{i}", 9, 0.5, 0.5, change, -1, 1) for i, change in enumerate(changes))
    gained, lost = dataclasses.replace(comparison, class_gains=gains).gains("plm")
    assert [gain.index for gain in gained] == [3]
    assert [gain.index for gain in lost] == [4]


def test_same_seed_gives_the_same_comparison(runs: list[Run], comparison: Comparison) -> None:
    assert compare_runs(runs, resamples=400).to_json() == comparison.to_json()


def test_json_comes_back(comparison: Comparison) -> None:
    text = json.dumps(comparison.to_json(), allow_nan=False)
    back = Comparison.from_json(json.loads(text))
    assert back.to_json() == comparison.to_json()
    assert back.verdict == comparison.verdict
    with pytest.raises(UserError, match="must have the format"):
        Comparison.from_json({"format": "another"})


def test_baseline_by_name(runs: list[Run]) -> None:
    comparison = compare_runs(runs, baseline="plm", resamples=100, decisions=())
    assert comparison.baseline == "plm"
    assert comparison.difference("bce", "f1").effect == -1
    with pytest.raises(UserError, match=r"no run of the baseline 'plmm': did you mean 'plm'\?"):
        compare_runs(runs, baseline="plmm")


def test_single_labels_are_compared_by_errors(tmp_path: Path) -> None:
    targets = torch.nn.functional.one_hot(torch.arange(300) % 5, 5).to(torch.int8)
    bias = torch.linspace(0.0, -2.0, 5)
    runs = [
        write_run(
            tmp_path / f"{method}-{seed}",
            method,
            seed,
            logits=draw_logits(targets, seed=seed + sum(map(ord, method)), bias=share * bias),
            targets=targets,
            single_label=True,
            fields=["evaluation.rarest=[2]"],
        )
        for method, share in (("bce", 1.0), ("plm", 0.0))
        for seed in range(3)
    ]
    comparison = compare_runs(runs, resamples=200)
    errors = [run.metrics["test"]["summary"]["error_balanced"] for run in runs]
    row = comparison.row("plm", "error_balanced")
    assert row is not None
    assert row.mean == pytest.approx(np.mean(errors[3:]))
    assert comparison.difference("plm", "error_rarest_2").effect == 1
    assert "plm reaches error" in comparison.verdict
    assert comparison.chosen is None, "there are no validation data"


def test_unknown_labels_are_left_out(tmp_path: Path) -> None:
    targets = TARGETS.clone()
    targets[::7, 0] = -1
    runs = [
        write_run(tmp_path / method, method, 0, logits=draw_logits(targets, seed=1), targets=targets)
        for method in ("bce", "plm")
    ]
    comparison = compare_runs(runs, resamples=100)
    assert comparison.test_positives[0] == int((targets[:, 0] == 1).sum())
    same = comparison.difference("plm", "f1")
    assert (same.mean, same.low, same.high) == (0.0, 0.0, 0.0)  # the same test sets for both methods
    assert "no clear difference" in comparison.verdict


def test_names_that_stand_for_several_options_are_told_apart(tmp_path: Path) -> None:
    runs = [
        *runs_of(tmp_path / "a", "plm", range(1), fields=["method.plm.rate=0.1"]),
        *runs_of(tmp_path / "b", "plm", range(1), fields=["method.plm.rate=0.2"]),
        *runs_of(tmp_path / "c", "bce", range(1)),
    ]
    names = [method.name for method in compare_runs(runs, resamples=100).methods]
    assert names == ["bce", "plm:rate=0.1", "plm:rate=0.2"]


def test_a_comparison_does_not_tell_in_which_folder_the_data_lay(tmp_path: Path) -> None:
    (run,) = runs_of(tmp_path, "bce", range(1), data="/home/somebody/secret/mine.csv")
    assert compare_runs([run], resamples=100).data == "mine.csv"


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"budget": 0.5}, r"they differ in budget \(1\.0 and 0\.5\); report"),
        ({"data_seed": 3}, r"they differ in data\.data_seed \(0 and 3\)"),
        ({"data": "mine.csv"}, r"they differ in the data \(digits and mine\.csv\)"),
        ({"fields": ["optimizer.lr=0.05"]}, r"they differ in recipe\.optimizer\.lr \(0\.1 and 0\.05\)"),
        ({"classes": list("abcdef")}, r"they differ in classes"),
    ],
)
def test_runs_of_another_setting_are_refused(
    runs: list[Run], tmp_path: Path, options: dict, what: str
) -> None:
    (other,) = runs_of(tmp_path, "plm", range(7, 8), **options)
    with pytest.raises(UserError, match=what) as caught:
        compare_runs([*runs, other])
    assert str(other.folder) in str(caught.value)


def test_incomplete_run_is_refused_with_the_way_on(runs: list[Run], tmp_path: Path) -> None:
    (other,) = runs_of(tmp_path, "plm", range(7, 8), complete=False)
    with pytest.raises(UserError, match=re.escape(f"{other.folder} is not complete")):
        compare_runs([*runs, other])


def test_two_runs_of_one_seed_are_refused(runs: list[Run], tmp_path: Path) -> None:
    (other,) = runs_of(tmp_path, "plm", range(1))
    with pytest.raises(UserError, match="are both plm with seed 0: name one of them"):
        compare_runs([*runs, other])


def test_other_test_labels_are_refused(runs: list[Run], tmp_path: Path) -> None:
    logits = draw_logits(TARGETS, seed=0)
    other = write_run(tmp_path / "x", "plm", 7, logits=logits, targets=1 - TARGETS)
    with pytest.raises(UserError, match=r"test labels in .* the other runs"):
        compare_runs([*runs, other], resamples=100)


def test_folders_that_are_no_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no run to compare"):
        compare_runs([])
    with pytest.raises(UserError, match=r"is not a run: it has no run\.json"):
        compare_runs([Run(tmp_path)])
    (tmp_path / "run.json").write_text('{"name": 3}')
    with pytest.raises(UserError, match=r"run\.json has no valid 'name'"):
        compare_runs([Run(tmp_path)])


def test_predictions_of_another_shape_are_refused(tmp_path: Path) -> None:
    (run,) = runs_of(tmp_path, "bce", range(1))
    config = json.loads((run.folder / "run.json").read_text())
    config["classes"] = config["classes"][:-1]
    config["train_counts"] = [row[:-1] for row in config["train_counts"]]
    (run.folder / "run.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"predictions\.npz must have test_logits for 5 classes"):
        compare_runs([Run(run.folder)])


@pytest.mark.parametrize("count", [-1, 2**63, 1.5, None])
def test_counts_that_are_none_are_refused(tmp_path: Path, count: object) -> None:
    (run,) = runs_of(tmp_path, "bce", range(1))
    config = json.loads((run.folder / "run.json").read_text())
    config["train_counts"][1][0] = count
    (run.folder / "run.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"run\.json has no valid 'train_counts'"):
        compare_runs([Run(run.folder)])


def test_weights_may_be_removed_to_save_space(tmp_path: Path) -> None:
    (run,) = runs_of(tmp_path, "bce", range(1))
    (run.folder / "model.safetensors").unlink()
    assert compare_runs([run], resamples=100).row_keys == [("bce", "default")]


def test_too_few_resamples_are_refused(runs: list[Run]) -> None:
    with pytest.raises(UserError, match="resamples must be 100 or more"):
        compare_runs(runs, resamples=10)


def clustered(
    folder: Path, *, times: int, members: torch.Tensor | None, unit: str | None = None
) -> Comparison:
    """Two methods on test samples that occur so many times each, side by side."""
    targets = TARGETS.repeat_interleave(times, dim=0)
    runs = [
        write_run(
            folder / method,
            method,
            0,
            logits=draw_logits(TARGETS, seed=seed, bias=SHY).repeat_interleave(times, dim=0),
            targets=targets,
            members=members,
            unit=unit,
        )
        for seed, method in enumerate(("bce", "plm"))
    ]
    return compare_runs(runs, resamples=200)


def test_copies_of_a_sample_in_one_cluster_count_once(tmp_path: Path) -> None:
    single = clustered(tmp_path / "single", times=1, members=None)
    copies = torch.arange(len(TARGETS)).repeat_interleave(3)[:, None]
    grouped = clustered(tmp_path / "grouped", times=3, members=copies, unit="patient")
    assert (single.unit, grouped.unit) == (None, "patient")
    assert len(single.differences) == len(grouped.differences) > 10
    for one, other in zip(single.differences, grouped.differences, strict=True):
        if not one.metric.startswith("ap"):  # three copies of a score are ties
            assert [other.mean, other.low, other.high] == pytest.approx(
                [one.mean, one.low, one.high], abs=1e-5
            )
    for gain, same in zip(single.class_gains, grouped.class_gains, strict=True):
        assert [same.low, same.high] == pytest.approx([gain.low, gain.high], abs=1e-5)


def test_documents_name_what_was_resampled(tmp_path: Path) -> None:
    members = torch.arange(len(TARGETS)) // 2
    found = clustered(tmp_path, times=1, members=members[:, None], unit="patient")
    assert "resampled by patient" in footnote(found)
    assert "resampled by patient" in to_markdown(found)
    assert Comparison.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_one_cluster_alone_is_not_resampled(tmp_path: Path) -> None:
    alone = torch.zeros(len(TARGETS), 1, dtype=torch.int64)
    found = clustered(tmp_path, times=1, members=alone, unit="patient").difference("plm", "f1")
    assert found is not None
    assert found.high - found.low > 0.01


def test_pairs_whose_members_occur_once_are_single_samples(tmp_path: Path) -> None:
    single = clustered(tmp_path / "single", times=1, members=None)
    pairs = clustered(tmp_path / "pairs", times=1, members=torch.arange(2 * len(TARGETS)).view(-1, 2))
    assert pairs.unit == "group"
    for one, other in zip(single.differences, pairs.differences, strict=True):
        width, wider = one.high - one.low, other.high - other.low
        assert width - 1e-9 <= wider <= 1.25 * width + 1e-9


@pytest.mark.parametrize("shape", [(300,), (299, 1), (300, 3)])
def test_members_of_another_shape_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="test_members"):
        clustered(tmp_path, times=1, members=torch.zeros(shape, dtype=torch.int64))
