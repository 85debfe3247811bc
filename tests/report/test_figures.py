"""Figures: what they show, and SVG that is small, the same each time, and safe inside a page."""

from __future__ import annotations

import dataclasses
import re
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

from synthetic_runs import draw_logits, draw_targets, write_run
from tailmask.comparison import compare_runs
from tailmask.comparison.chosen_classes import difficult_classes, representative_classes
from tailmask.report import charts
from tailmask.report.charts import style

HOSTILE = "<script>alert('$x^2$')</script>"


def long_tail(number: int) -> list[int]:
    return [int(1000 * 50 ** (-c / max(1, number - 1))) for c in range(number)]


def by_class(number: int, **options: object) -> Figure:
    values = np.linspace(0.9, 0.2, number)
    names = [f"class {c}" for c in range(number)]
    return charts.by_class(
        {"F1": values}, {"F1": values / 2}, classes=names, train_positives=long_tail(number), **options
    )


def drawn_texts(svg: str) -> list[str]:
    return [
        "".join(element.itertext()) for element in ET.fromstring(svg).iter() if element.tag.endswith("text")
    ]


@pytest.mark.parametrize("number", [1, 2, 10, 80, 100])
def test_each_class_is_named_where_there_is_room(number: int) -> None:
    texts = drawn_texts(charts.to_svg(by_class(number), label="", prefix="a"))
    assert [text for text in texts if text.startswith("class")] == [f"class {c}" for c in range(number)]


def test_hundreds_of_classes_have_places_and_counts_and_stay_small() -> None:
    svg = charts.to_svg(by_class(400), label="", prefix="a")
    texts = " ".join(drawn_texts(svg))
    assert "class, from the most to the least frequent" in texts
    assert "(1,000)" in texts
    assert "400" in texts
    assert len(svg) < 120_000


def test_classes_stand_by_frequency_with_bars_for_the_method_and_points_for_the_baseline() -> None:
    figure = charts.by_class(
        {"F1": [0.1, 0.2, 0.3]},
        {"F1": [0.9, 0.8, 0.7]},
        classes=["a", "b", "c"],
        train_positives=[5, 50, 500],
        marked=[1],
    )
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["c", "b", "a"]
    points, marks = axes.lines
    assert points.get_ydata().tolist() == pytest.approx([70, 80, 90])
    tops = axes.patches[0].get_path().vertices[:, 1].reshape(3, -1).max(axis=1)
    assert tops.tolist() == pytest.approx([30, 20, 10])
    assert marks.get_xdata().tolist() == [1]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["plm", "bce", "difficult"]
    assert axes.get_xticklabels()[1].get_fontweight() == "bold"


def test_difficult_classes_have_many_samples_and_a_low_f1() -> None:
    assert difficult_classes([0.1, 0.19, 0.2, 0.0], [10, 900, 800, 700]) == [1]
    assert difficult_classes([0.1, 0.1], [5, 5]) == [0, 1]


def test_representatives_go_from_the_most_frequent_to_the_rarest() -> None:
    assert representative_classes(long_tail(100), 4) == [0, 33, 66, 99]
    assert representative_classes([3, 9], 4) == [1, 0]


def test_distributions_are_shares_by_label() -> None:
    counts = np.zeros((2, 2, 4))
    counts[1, 1] = [1, 0, 0, 3]
    counts[0, 1] = [8, 2, 0, 0]
    figure = charts.output_distributions(
        {"bce": counts}, classes=["a", "b"], train_positives=[9, 4], chosen=[1], truth=True
    )
    truth, present, _, absent = figure.axes
    assert truth.get_title(loc="left") == "truth"
    assert present.get_title(loc="left") == "b\n4 training samples"
    assert present.patches[0].get_data().values.tolist() == [0.25, 0, 0, 0.75]
    assert absent.patches[0].get_data().values.tolist() == [0.8, 0.2, 0, 0]
    assert truth.patches[0].get_data().values.tolist() == [0, 0, 0, 1]


def test_toy_example_is_the_appendix() -> None:
    heights = [[patch.get_height() for patch in axes.patches] for axes in charts.toy_example().axes]
    assert heights == [[0, 0, 0, 5], [1, 1, 1, 2], [5, 0, 0, 0], [2, 2, 0, 1]]
    shares = [
        [patch.get_height() for patch in axes.patches] for axes in charts.toy_example(normalized=True).axes
    ]
    assert shares[1] == pytest.approx([0.2, 0.2, 0.2, 0.4])


@pytest.mark.parametrize("number", [3, 80])
def test_trajectories_label_lines_and_stand_for_all_classes_by_a_band(number: int) -> None:
    ratios = np.exp(np.linspace(-1, 1, number) * np.linspace(0, 1, 20)[:, None])
    names = [f"class {c}" for c in range(number)]
    figure = charts.ratio_trajectories(ratios, classes=names, train_positives=long_tail(number))
    (axes,) = figure.axes
    assert len(axes.lines) == len(axes.texts) == min(number, 10)
    assert len(axes.collections) == (number > 10)
    heights = sorted(text.xyann[1] for text in axes.texts)
    assert min(np.diff(heights)) > 0.03
    assert heights[0] >= 0
    assert heights[-1] <= 1 + 1e-9


def test_labels_of_crowded_lines_stay_beside_the_panel() -> None:
    ends = [0.0] * 9 + [0.95]  # nine lines at the bottom, one near the top
    figure = charts.divergence_trajectories(
        np.tile(ends, (3, 2, 1)), classes=list("abcdefghij"), train_positives=range(10, 0, -1)
    )
    for axes in figure.axes:
        heights = sorted(text.xyann[1] for text in axes.texts)
        assert -1e-9 < heights[0] < heights[-1] <= 1
        assert min(np.diff(heights)) > 0.03


def test_ratios_of_classes_without_positives_are_left_out() -> None:
    figure = charts.ratio_trajectories([[0.5, 1e-13]] * 3, classes=["a", "b"], train_positives=[5, 0])
    assert [text.get_text() for text in figure.axes[0].texts] == ["a"]
    assert figure.axes[0].get_ylim()[0] > 1e-3


def test_undefined_divergences_are_left_out() -> None:
    values = np.full((5, 2, 2), 3.0)
    values[:, :, 1] = np.nan  # a class that was never seen with both labels
    figure = charts.divergence_trajectories(values, classes=["a", "b"], train_positives=[5, 0])
    assert [text.get_text() for text in figure.axes[0].texts] == ["a"]
    charts.to_svg(figure, label="", prefix="a")


@pytest.mark.parametrize("number", [2, 80])
@pytest.mark.filterwarnings("error")
def test_divergences_that_are_never_defined_have_no_panel(number: int) -> None:
    values = np.full((5, 2, number), 3.0)
    values[:, 1] = np.nan  # as where no sample that ratios are adapted by has a label
    values[0] = np.nan
    names = [f"class {c}" for c in range(number)]
    figure = charts.divergence_trajectories(values, classes=names, train_positives=long_tail(number))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["where it is absent, D⁻"]
    charts.to_svg(figure, label="", prefix="a")


def tick_labels(figure: Figure) -> list[list[str]]:
    """The labels of each axis that has a scale of numbers, as they are drawn."""
    charts.to_svg(figure, label="", prefix="a")
    found = []
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=True)
            found.append([text.get_text() for place, text in ticks if low <= place <= high])
    return found


TINY = [1e-4, 3e-4, 1e-3, 3e-3]


@pytest.mark.parametrize("scale", [1e-4, 1e-2, 1.0])
def test_no_two_ticks_have_the_same_label(scale: float) -> None:
    values = scale * np.array(TINY)
    both = np.stack([values, values[::-1]], axis=1)  # (T, 2)
    classes = {"classes": ["a", "b"], "train_positives": [3, 1]}
    figures = [
        charts.ratio_trajectories(both, **classes),
        charts.divergence_trajectories(both[:, :, None] * [1.0, 0.5], **classes),
        charts.loss_curves({"bce": [values]}, {"bce": [values]}),
        charts.loss_curves({"bce": [values[2:]]}, {"bce": [0.5 + values]}),
        charts.grouped_bars({"x": {"bce": values[0], "plm": values[1]}}, label=""),
        charts.class_curves({"x": {"bce": values[:2]}}, **classes),
    ]
    for figure in figures:
        for texts in tick_labels(figure):
            assert len(set(texts)) == len(texts)


def test_ticks_of_a_difference_of_a_hundredth_of_a_point_differ(tmp_path: Path) -> None:
    targets = draw_targets(60, 10)
    runs = [
        write_run(tmp_path / name, name, 0, logits=draw_logits(targets, seed=place), targets=targets)
        for place, name in enumerate(("bce", "plm"))
    ]
    comparison = compare_runs(runs, resamples=100)
    small = dataclasses.replace(
        comparison,
        differences=tuple(
            dataclasses.replace(each, mean=2e-5, low=1e-5, high=3e-5) for each in comparison.differences
        ),
    )
    below, beside = tick_labels(charts.differences(small))
    assert len(set(below)) == len(below) > 2
    assert beside


@pytest.mark.parametrize(("low", "high"), [(1e-3, 2e-3), (1e-2, 10.0), (1e-14, 1e13), (0.0, 1.0)])
@pytest.mark.filterwarnings("error")
def test_ratios_have_two_to_twelve_ticks_over_any_range(low: float, high: float) -> None:
    ratios = [[1.0, 1.0], [low, high]] if high > 1 else [[low, high], [high, high]]
    figure = charts.ratio_trajectories(ratios, classes=["a", "b"], train_positives=[3, 1])
    assert 2 <= len(tick_labels(figure)[1]) <= 12


def test_svg_is_the_same_each_time() -> None:
    one, two = (charts.to_svg(by_class(10), label="x", prefix="a") for _ in range(2))
    assert one == two


def test_svg_takes_its_colours_from_the_page_and_shares_no_id() -> None:
    svgs = [charts.to_svg(by_class(10, marked=[2]), label="x", prefix=prefix) for prefix in ("a", "b")]
    for svg in svgs:
        assert "var(--series-1)" in svg
        assert "currentColor" in svg
        assert not re.findall(r"#(?!ffffff)[0-9a-f]{6}", svg)
    ids = [set(re.findall(r'id="([^"]+)"', svg)) for svg in svgs]
    assert ids[0]
    assert not ids[0] & ids[1]
    for svg, prefix in zip(svgs, "ab", strict=True):
        assert all(name.startswith(f"{prefix}-") for name in re.findall(r'(?:href="|url\()#([^")]+)', svg))


def test_names_are_text_in_svg_and_label() -> None:
    figure = charts.by_class({"F1": [0.5]}, classes=[HOSTILE], train_positives=[3])
    svg = charts.to_svg(figure, label=HOSTILE, prefix="a")
    assert "<script" not in svg
    root = ET.fromstring(svg)
    assert root.get("aria-label") == HOSTILE
    assert HOSTILE[:17] in " ".join(drawn_texts(svg))


def test_drawing_leaves_pyplot_and_settings_alone() -> None:
    before = dict(matplotlib.rcParams)
    charts.to_svg(charts.toy_example(), label="", prefix="a")
    assert pyplot.get_fignums() == []
    assert dict(matplotlib.rcParams) == before


def test_letters_that_the_font_lacks_are_no_warning() -> None:
    figure = charts.by_class({"F1": [0.5]}, classes=["🐈 猫"], train_positives=[3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "🐈 猫" in drawn_texts(charts.to_svg(figure, label="", prefix="a"))


def test_curves_and_bars_show_all_that_they_are_given() -> None:
    curves = charts.class_curves(
        {"ρ = 100": {"bce": [0.1, 0.9], "plm": [0.2, 0.8]}, "ρ = 10": {"bce": [0.3, 0.9]}},
        classes=["rare", "frequent"],
        train_positives=[1, 9],
    )
    assert [axes.get_title(loc="left") for axes in curves.axes] == ["ρ = 100", "ρ = 10"]
    assert curves.axes[0].lines[1].get_ydata().tolist() == pytest.approx([80, 20])
    bars = charts.grouped_bars({"a": {"x": 1.0, "y": 2.0}, "b": {"y": 3.0}}, label="", logarithmic=True)
    heights = [patch.get_height() for patch in bars.axes[0].patches]
    assert heights[0] == 1.0
    assert heights[2:] == [2.0, 3.0]
    assert bars.axes[0].get_yscale() == "log"
    assert bars.axes[0].get_ylim()[0] == 1.0, "bars that stand on nothing in particular have no length"


def test_a_class_whose_name_looks_like_style_keeps_its_name():
    figure, axes = style.new_figure()
    axes[0, 0].set_title("#d55e00 at 3.14159 px")
    svg = charts.to_svg(figure, label="", prefix="a")
    assert "#d55e00 at 3.14159 px" in drawn_texts(svg)
    assert "font-family" not in svg
