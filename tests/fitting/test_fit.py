"""`fit`: what it chooses, what it leaves, and how it is resumed; on a small table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.metrics import f1_score

import tailmask
from tailmask._util.messages import UserError
from tailmask.cli import main
from tailmask.data import DataOptions
from tailmask.fitting import fit, load_model
from tailmask.learners.time_limit import OutOfTimeError
from tailmask.runs import Run

METHODS = ["linear:C=1", "trees:trees=10"]


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(5)
    size, weight = rng.normal(size=(2, 150))
    colour = rng.choice(["red", "green", "blue"], 150)
    return pl.DataFrame(
        {
            "size": size,
            "weight": np.where(rng.random(150) < 0.1, np.nan, weight),
            "colour": colour,
            "big": (size + 0.3 * rng.normal(size=150) > 0).astype(int),
            "red": ((colour == "red") & (weight > -1)).astype(int),
        }
    ).with_columns(pl.col("weight").fill_nan(None))


@pytest.fixture(scope="module")
def result(frame, tmp_path_factory):
    out = tmp_path_factory.mktemp("fit") / "model"
    return fit(frame, labels=["big", "red"], methods=METHODS, out=out, folds=3)


def test_the_leaderboard_has_every_arm_and_the_best_comes_first(result) -> None:
    names = [arm.method for arm in result.leaderboard]
    assert sorted(names) == sorted([*METHODS, "ensemble"])
    totals = [arm.out_of_fold.f1 + arm.out_of_fold.map for arm in result.leaderboard]
    assert totals == sorted(totals, reverse=True)
    assert result.best is result.leaderboard[0]
    assert result.best.test.f1 > 0.8
    page = result.report.read_text()
    assert f"Use <code>{result.best.method}</code> with tuned thresholds" in page
    assert f"tailmask predict {result.folder.name} new.csv" in page


def test_the_model_predicts_frames_files_and_after_loading(result, frame, tmp_path: Path) -> None:
    features = frame.drop("big", "red")
    probabilities = result.predict_proba(features)
    assert probabilities.shape == (150, 2)
    assert result.classes == ("big", "red")
    assert probabilities.columns == ["big", "red"]
    assert (result.predict(features)["big"] == (frame["big"] == 1)).mean() > 0.8
    loaded = load_model(result.folder)
    same = pd.DataFrame(features.to_dict(as_series=False), index=range(1000, 1150))
    found = loaded.predict_proba(same)
    assert isinstance(found, pd.DataFrame)
    assert found.index.equals(same.index)
    assert np.array_equal(found, probabilities.to_numpy())
    assert "Chosen by out-of-fold scores" in repr(loaded)
    assert len(repr(loaded)) < 300
    assert loaded.leaderboard == result.leaderboard
    features.write_csv(tmp_path / "new.csv")
    out = tmp_path / "predictions.csv"
    assert main(["predict", str(result.folder), str(tmp_path / "new.csv"), "--out", str(out)]) == 0
    written = pl.read_csv(out).select("big", "red").to_numpy()
    np.testing.assert_allclose(written, probabilities.to_numpy(), atol=1e-9)


def test_the_test_scores_of_the_best_are_those_of_the_model_that_is_kept(result, frame) -> None:
    assert result.best.method != "ensemble"  # else it was calibrated anyway
    rows = frame[Run(result.folder / "best").predictions()["test_rows"] - 1]
    targets = rows.select("big", "red").to_numpy()
    brier = np.mean((result.predict_proba(rows).to_numpy() - targets) ** 2)
    assert result.best.test.brier == pytest.approx(brier)
    f1 = f1_score(targets, result.predict(rows).to_numpy(), average="macro")
    assert result.best.test.f1 == pytest.approx(f1)


def test_a_resumed_fit_keeps_its_precision_on_another_machine(frame, tmp_path) -> None:
    asked = {"labels": ["big", "red"], "methods": ["linear"], "out": tmp_path / "m", "folds": 3}
    fit(frame, **asked, precision="bf16")  # as "auto" on a machine that is fast at it
    path = tmp_path / "m" / "asked.json"
    assert json.loads(path.read_bytes())["setting"]["precision"] == "bf16"
    fit(frame, **asked)
    with pytest.raises(UserError, match="precision"):
        fit(frame, **asked, precision="32")
    path.write_text("{}")
    with pytest.raises(UserError, match="damaged"):
        fit(frame, **asked)


def test_a_second_call_resumes_and_another_fit_is_refused(result, frame) -> None:
    before = {run: (run / "metrics.json").stat().st_mtime_ns for run in (result.folder / "runs").iterdir()}
    again = fit(frame, labels=["big", "red"], methods=METHODS, out=result.folder, folds=3)
    assert again.leaderboard == result.leaderboard
    assert before == {run: (run / "metrics.json").stat().st_mtime_ns for run in before}
    with pytest.raises(UserError, match="another fit"):
        fit(frame, labels=["big"], methods=METHODS, out=result.folder, folds=3)


def test_without_a_folder_the_model_lives_as_long_as_the_result(frame, tmp_path: Path) -> None:
    result = tailmask.fit(frame, labels=["big", "red"], methods=["linear:C=1"], folds=2)
    result.save(tmp_path / "kept")
    folder = result.folder
    probabilities = result.predict_proba(frame)
    del result
    assert not folder.exists()
    assert tailmask.load_model(tmp_path / "kept").predict_proba(frame).equals(probabilities)


def test_the_next_command_names_a_file_of_the_same_kind(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(120, 3))
    np.savez(tmp_path / "data.npz", X=x, Y=x[:, :1] > 0)
    result = fit(tmp_path / "data.npz", methods=["linear:C=1"], folds=2, out=tmp_path / "model")
    assert result.next_command == f"tailmask predict {tmp_path / 'model'} new.npz"


def test_a_short_time_leaves_out_what_would_not_end(frame, tmp_path: Path) -> None:
    methods = ["linear:C=1", "bce"]
    result = fit(
        frame, labels=["big", "red"], methods=methods, folds=2, out=tmp_path / "a", minutes=0.5, epochs=10**6
    )
    assert [arm.method for arm in result.leaderboard if arm.method == "bce"] == []
    assert len(result.skipped) == 1
    assert "bce" in result.skipped[0]
    with pytest.raises(UserError, match="--minutes"):
        fit(frame, labels=["big", "red"], methods=["bce"], folds=2, minutes=0.01, epochs=10**6)


def test_the_command_prints_one_object(frame, tmp_path: Path, capsys) -> None:
    frame.write_csv(tmp_path / "a.csv")
    arguments = ["fit", str(tmp_path / "a.csv"), "--labels", "big,red", "--methods", *METHODS]
    arguments += ["--folds", "2", "--out", str(tmp_path / "model")]
    assert main([*arguments, "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["best"] in {arm["method"] for arm in printed["arms"]}
    assert {"method", "f1", "f1_tail", "map", "seconds"} <= printed["arms"][0].keys()
    assert {"f1", "f1_tail", "map"} <= printed["test"].keys()
    assert printed["folder"] == str(tmp_path / "model")
    assert main(arguments) == 0
    assert "tailmask predict" in capsys.readouterr().out


def test_images_without_validation_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--validation"):
        fit("digits", methods=["bce"], out=tmp_path / "a", options=DataOptions(validation=0.0))
    assert not (tmp_path / "a").exists()


def test_images_train_networks(tmp_path: Path) -> None:
    result = fit("digits", methods=["bce", "plm"], epochs=1, out=tmp_path / "a", options=DataOptions())
    assert {arm.method for arm in result.leaderboard} == {"bce", "plm"}
    assert Run(result.folder / "best").is_complete


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"minutes": 0}, "minutes"),
        ({"labels": ["big", "nothing"]}, "nothing"),
        ({"methods": ["linaer"]}, "linear"),
        ({"methods": ["ensemble"]}, "other methods"),
    ],
)
def test_mistakes_get_a_sentence_and_leave_nothing(frame, tmp_path: Path, change, fact) -> None:
    asked = {"labels": ["big", "red"], "methods": METHODS, "out": tmp_path / "a"} | change
    with pytest.raises(UserError, match=fact):
        fit(frame, **asked)
    assert not (tmp_path / "a").exists()


def test_a_damaged_model_is_refused(result, tmp_path: Path) -> None:
    result.save(tmp_path / "copy")
    arrays = next((tmp_path / "copy" / "best" / "model").rglob("arrays.safetensors"))
    content = bytearray(arrays.read_bytes())
    content[-1] ^= 1
    arrays.write_bytes(bytes(content))
    with pytest.raises(UserError, match="damaged"):
        load_model(tmp_path / "copy")


def test_arrays_and_frames_of_labels_are_taken(frame, tmp_path: Path) -> None:
    features, labels = frame.select("size", "weight"), frame.select("big", "red")
    by_frame = fit(features, labels, methods=["linear:C=1"], folds=2, out=tmp_path / "frame")
    assert by_frame.classes == ("big", "red")
    arrays = features.fill_null(0).to_numpy(), labels.to_numpy()
    by_array = fit(*arrays, methods=["linear:C=1"], folds=2, out=tmp_path / "arrays")
    assert by_array.predict(arrays[0]).shape == (150, 2)
    again = fit(*arrays, methods=["linear:C=1"], folds=2, out=tmp_path / "arrays")
    assert again.leaderboard == by_array.leaderboard
    with pytest.raises(UserError, match="other data"):
        fit(arrays[0] + 1, arrays[1], methods=["linear:C=1"], folds=2, out=tmp_path / "arrays")
    mixed = fit(arrays[0], labels, methods=["linear:C=1"], folds=2, out=tmp_path / "mixed")
    assert mixed.classes == ("big", "red")
    assert torch.equal(mixed.predict_proba(arrays[0]), by_array.predict_proba(arrays[0]))
    for data, given in ((arrays[0], ["big"]), (features, arrays[1]), (tmp_path / "a.csv", labels)):
        with pytest.raises(UserError, match="labels must be"):
            fit(data, given, methods=["linear:C=1"])


def test_labels_are_decided_by_the_rule_that_was_asked_for(frame, tmp_path: Path) -> None:
    asked = {"labels": ["big", "red"], "methods": ["linear:C=1"], "folds": 2}
    plain = fit(frame, out=tmp_path / "plain", **asked)
    careful = fit(frame, out=tmp_path / "careful", decide="recall=0.99", **asked)
    assert plain.predict_proba(frame).equals(careful.predict_proba(frame))
    assert careful.predict(frame).to_numpy().sum() > plain.predict(frame).to_numpy().sum()
    assert "with thresholds for recall=0.99" in careful.report.read_text()
    assert load_model(tmp_path / "careful").predict(frame).equals(careful.predict(frame))
    with pytest.raises(ValueError, match="recall"):
        fit(frame, decide="recal=1", **asked)


def test_learners_that_fit_into_any_time_share_it_equally(frame, tmp_path: Path, monkeypatch) -> None:
    seen = {}

    def remember(config, folder, *, deadline, **others):
        seen[config.name] = deadline.left
        raise OutOfTimeError("enough seen")

    monkeypatch.setattr("tailmask.fitting.best_model.make_run", remember)
    with pytest.raises(UserError, match="enough seen"):
        fit(frame, labels=["big", "red"], methods=["linear", "trees", "bce"], folds=2, minutes=10)
    assert seen["linear"] == pytest.approx(200, abs=10)
    assert seen["trees"] == pytest.approx(300, abs=10)
    assert seen["bce"] == pytest.approx(600, abs=10)
