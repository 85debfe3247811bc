"""The page as text: what it says, that it loads nothing, and that names stay names."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix

from synthetic_runs import draw_logits, draw_targets, write_run
from tailmask.calibration import DecisionRule
from tailmask.comparison import arrange, compare_runs
from tailmask.comparison.run_outputs import read_outputs
from tailmask.comparison.verdict_sentences import verdict
from tailmask.report import page_tables, run_curves, write_report
from tailmask.report.html_page import GENERATOR, render_report
from tailmask.report.page_figures import plan_figures
from tailmask.runs.decision_file import fit_decisions, write_decisions
from tailmask.runs.reader import Run

HOSTILE = "<script>alert(1)</script>"
VOID = {"meta", "input", "br", "link", "img", "hr"}


class Outline(HTMLParser):
    """Elements, ids and references of a page; raises on tags that do not match."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self.counts: dict[str, int] = {}
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        values = dict(attributes)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values[name] or "" for name in ("href", "src", "xlink:href") if name in values]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def write_runs(folder: Path, methods: tuple[str, ...], *, single_label: bool = False) -> list[Run]:
    targets = draw_targets(150, 5)
    if single_label:
        targets = torch.nn.functional.one_hot(torch.arange(150) % 5, 5).to(torch.int8)
    return [
        write_run(
            folder / f"{method}-{seed}",
            method,
            seed,
            logits=draw_logits(targets, seed=10 * place + seed, bias=-0.5 * (place == 0)),
            targets=targets,
            validation=None if single_label else (draw_logits(targets, seed=77), targets),
            classes=[HOSTILE, "a & b", '"quoted"', "{{ 7 * 7 }}", "Ünïcødé 🐈"],
            single_label=single_label,
            fields=["evaluation.rarest=[2]", "evaluation.frequent=[2]"],
        )
        for place, method in enumerate(methods)
        for seed in range(2)
    ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    return write_runs(tmp_path_factory.mktemp("runs"), ("bce", "plm", "focal"))


@pytest.fixture(scope="module")
def page(runs: list[Run]) -> str:
    comparison = compare_runs(runs, resamples=100)
    return render_report(runs, comparison=comparison, command="tailmask predict study new.csv")


def test_all_parts_are_there(page: str) -> None:
    outline = Outline(page)
    assert {"summary", "comparison", "classes", "figures", "making"} <= set(outline.ids)
    figures = {"differences", "by-class", "precision-recall", "calibration", "outputs", "losses"}
    assert figures <= set(outline.ids)
    assert outline.counts["svg"] == len(figures | ({"ratios", "divergences"} & set(outline.ids)))
    text = " ".join(outline.texts)
    for part in ("Ranking loss ↓", "↓: lower is better", "use this", "tailmask predict study new.csv"):
        assert part in text
    for part in ("plm, tuned thresholds", "Recall, 2 rarest", "Gained most with", "momentum", "torch"):
        assert part in text
    assert "<h1>digits</h1>" in page, "the title is the data, not the methods"
    assert "plm:rate=0.05" in text  # the method with all its options


def test_folders_have_no_more_of_their_names_than_tells_them_apart(
    page: str, runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever gets the page learns nothing of the machine's folders."""
    assert str(runs[0].folder.parent) not in page
    assert "<td>plm-1</td>" in page
    monkeypatch.setattr("tailmask.report.html_page.draw_pictures", lambda *_: [])
    monkeypatch.chdir(runs[0].folder)
    assert "<td>bce-0</td>" in render_report([Run(Path())])
    apart = [
        Run(shutil.copytree(run.folder, tmp_path / "secret" / f"{place}" / "same"))
        for place, run in enumerate(runs[:3])
    ]
    html = render_report(apart)
    assert re.findall("<td>([^<]*/same)</td>", html) == ["0/same", "1/same", "2/same"]
    assert "secret" not in html


def test_captions_speak_of_a_band_where_there_is_one(runs: list[Run]) -> None:
    comparison = compare_runs(runs, resamples=100)
    experiment = arrange(runs, baseline=comparison.baseline)
    many = dataclasses.replace(
        comparison,
        classes=tuple("abcdefghijk"),
        train_positives=(9,) * 11,
        test_positives=(9,) * 5 + (0,) * 6,
        class_values={
            name: dict.fromkeys(each, (0.5,) * 11) for name, each in comparison.class_values.items()
        },
    )
    for compared, expected in ((comparison, False), (many, True)):
        plans = {plan.name: plan.caption for plan in plan_figures(experiment, compared, "plm")}
        assert ("grey band" in plans["ratios"]) == expected
        assert ("grey band" in plans["divergences"]) == expected


def test_verdict_comes_first(page: str, runs: list[Run]) -> None:
    texts = " ".join("".join(Outline(page).texts).split())
    first = verdict(compare_runs(runs, resamples=100)).sentences[0].replace("`", "")
    assert first.startswith("Use ")
    assert texts.index(first) < texts.index("on the test set, in %") < texts.index("Mean ± deviation")


def test_all_rows_are_ranked_with_intervals_and_the_choice_is_marked(runs: list[Run]) -> None:
    comparison = compare_runs(runs, resamples=100)
    ranks = page_tables.ranking(comparison)
    assert len(ranks) == len(comparison.row_keys)
    values = [float(rank.value) for rank in ranks]
    assert values == sorted(values, reverse=True)
    assert all(rank.low <= rank.width <= rank.high <= 100 for rank in ranks)
    assert [rank.is_chosen for rank in ranks].count(True) == 1
    assert all(rank.change is None for rank in ranks if rank.is_baseline)


def test_cross_fitted_runs_without_a_history_have_a_page(runs: list[Run], tmp_path: Path) -> None:
    copies = [Run(shutil.copytree(run.folder, tmp_path / run.folder.name)) for run in runs]
    for run in copies:
        (run.folder / "history.jsonl").unlink()
        record = json.loads((run.folder / "run.json").read_text()) | {"folds": 5}
        (run.folder / "run.json").write_text(json.dumps(record))
        (run.folder / "model.safetensors").unlink()
        (run.folder / "model").mkdir()
        logits, targets = (run.predictions()[f"validation_{name}"] for name in ("logits", "targets"))
        decisions = fit_decisions(
            DecisionRule(),
            torch.from_numpy(logits).sigmoid(),
            torch.from_numpy(targets),
            classes=run.config["classes"],
        )
        write_decisions(run.folder, decisions)
    comparison = compare_runs(copies, resamples=100)
    assert {decision for _, decision in comparison.row_keys} == {"default", "tuned thresholds"}
    outline = Outline(render_report(copies, comparison=comparison))
    assert {"precision-recall", "calibration"} <= set(outline.ids)
    assert not {"losses", "ratios", "divergences"} & set(outline.ids)


def test_confused_classes_are_shown_where_there_is_one_label_a_sample(tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs", ("bce", "plm"), single_label=True)
    comparison = compare_runs(runs, resamples=100)
    (first, *others) = page_tables.confusion_table(runs[:2], comparison)
    assert (first.number, len(others)) == (30, 4)
    arrays = [run.predictions() for run in runs[:2]]
    true = np.concatenate([each["test_targets"].argmax(1) for each in arrays])
    predicted = np.concatenate([each["test_logits"].argmax(1) for each in arrays])
    expected = 100 * confusion_matrix(true, predicted, normalize="true")[0]
    assert first.shares == pytest.approx(expected.tolist(), abs=0.051)
    page = render_report(runs, comparison=comparison)
    assert "Confused classes" in page
    several = dataclasses.replace(comparison, single_label=False)
    assert page_tables.confusion_table(runs, several) == []


def test_page_is_one_file_that_loads_nothing(page: str) -> None:
    outline = Outline(page)
    assert all(link.startswith("#") for link in outline.links)
    assert {link.removeprefix("#") for link in outline.links} <= set(outline.ids)
    assert not outline.counts.keys() & {"img", "link", "iframe", "object"}
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert "default-src 'none'" in page


def test_ids_are_unique(page: str) -> None:
    ids = Outline(page).ids
    assert len(ids) == len(set(ids))


def test_names_of_classes_are_text(page: str) -> None:
    assert HOSTILE not in page
    outline = Outline(page)
    assert outline.counts["script"] == 2  # the data and ours
    assert outline.texts.count(HOSTILE) >= 1
    assert "{{ 7 * 7 }}" in outline.texts
    data = re.search(r'<script type="application/json" id="class-data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["names"][0] == HOSTILE


def test_same_runs_give_the_same_page(page: str, runs: list[Run]) -> None:
    comparison = compare_runs(runs, resamples=100)
    assert render_report(runs, comparison=comparison, command="tailmask predict study new.csv") == page


def test_one_method_has_a_page_too(tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs", ("bce",))
    page = render_report(runs, comparison=compare_runs(runs, resamples=100), title="One <b>method</b>")
    outline = Outline(page)
    assert "Only bce was run: there is nothing to compare it with." in " ".join(outline.texts)
    assert "One <b>method</b>" in outline.texts
    assert "Use " in " ".join(outline.texts)
    assert "differences" not in outline.ids
    assert "ratios" not in outline.ids


def test_methods_without_a_common_seed_have_a_page(tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs", ("bce", "plm"))
    page = render_report([runs[0], runs[3]], comparison=compare_runs([runs[0], runs[3]], resamples=100))
    assert "no seed in common" in page
    Outline(page)


def test_single_labels(tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs", ("bce", "plm", "ldam"), single_label=True)
    page = render_report(runs, comparison=compare_runs(runs, resamples=100))
    text = " ".join(Outline(page).texts)
    assert "Error, mean over classes" in text
    assert "one label per sample" in text
    assert "Change in recall" in text


def test_page_is_written_whole(runs: list[Run], tmp_path: Path) -> None:
    target = tmp_path / "new" / "report.html"
    write_report(runs, target, comparison=compare_runs(runs, resamples=100))
    assert GENERATOR in target.read_text(encoding="utf-8")[:1000]
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]


def test_very_many_classes_are_cut_to_those_that_changed_most(
    runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_tables, "MOST_CLASSES", 2)
    comparison = compare_runs(runs, resamples=100)
    data = page_tables.class_data(comparison, "plm")
    most = sorted(
        (gain for gain in comparison.class_gains if gain.method == "plm"),
        key=lambda gain: -abs(gain.difference),
    )[:2]
    assert set(data["names"]) == {gain.name for gain in most}
    assert len(data["methods"]["plm"]["low"]) == 2
    assert page_tables.class_data(comparison, None)["names"] == list(comparison.classes[:2])


@pytest.mark.parametrize(("num_classes", "num_epochs", "share"), [(1, 1, 0.3), (2, 1, 0.0), (3, 2, 1.0)])
@pytest.mark.filterwarnings("error")
def test_hardly_any_data(tmp_path: Path, num_classes: int, num_epochs: int, share: float) -> None:
    targets = draw_targets(20, num_classes, share=share)  # also no class that is ever present, or absent
    runs = [
        write_run(
            tmp_path / method,
            method,
            0,
            logits=draw_logits(targets, seed=place),
            targets=targets,
            num_epochs=num_epochs,
            fields=["evaluation.rarest=[]", "evaluation.frequent=[]"],
        )
        for place, method in enumerate(("bce", "plm"))
    ]
    page = render_report(runs, comparison=compare_runs(runs, resamples=100))
    Outline(page)
    assert "nan" not in page.partition("<main")[2].partition("<footer")[0].lower()


def test_divergences_that_are_never_defined_have_no_figure(tmp_path: Path) -> None:
    runs = write_runs(tmp_path, ("bce", "plm"))
    for run in runs:
        lines = [json.loads(line) for line in (run.folder / "history.jsonl").read_text().splitlines()]
        lines = [line | {"divergence": [[None] * 5] * 2} for line in lines]
        (run.folder / "history.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    names = [plan.name for plan in plan_figures(arrange(runs), compare_runs(runs, resamples=100), "plm")]
    assert "ratios" in names
    assert "divergences" not in names


GARBAGE = (None, [], {}, "x", -1, 0.5, True, [[1]], {"a": {"b": []}})


def is_refused(run: Run) -> bool:
    """Whether reading the run's folder raises a `ValueError`, which users are shown; others pass."""
    try:
        arrange([run])
        read_outputs(run).evaluation()
        run_curves.losses([run])
        _ = run.seconds
        run_curves.ratios([run])
        run_curves.divergences([run])
    except ValueError:
        return True
    return False


@pytest.mark.parametrize("name", ["run.json", "history.jsonl"])
def test_broken_fields_are_told_in_a_sentence(tmp_path: Path, name: str) -> None:
    run = write_runs(tmp_path, ("plm",))[0]
    path = run.folder / name
    lines = path.read_text(encoding="utf-8").splitlines()
    record = json.loads(lines[0] if name == "history.jsonl" else "\n".join(lines))
    rest = lines[1:] if name == "history.jsonl" else []
    assert not is_refused(Run(run.folder))
    refused = set()
    for field in record:
        for garbage in GARBAGE:
            path.write_text("\n".join([json.dumps(record | {field: garbage}), *rest]), encoding="utf-8")
            if is_refused(Run(run.folder)):
                refused.add(field)
    read = {"run.json": {"method", "recipe", "classes", "train_counts"}, "history.jsonl": {"loss", "ratio"}}
    assert read[name] <= refused
