"""The method grammar: names read, print back, and are refused with a sentence."""

from __future__ import annotations

import inspect
import subprocess
import sys
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paper_methods import PAPER_METHODS

from tailmask import PartialLabelMasking
from tailmask._util.messages import UserError
from tailmask._util.registry import KINDS
from tailmask.methods import Method, MethodPart, find_words, parse

LOSSES = [word for word in find_words().values() if word.kind == "loss"]


def values(option):
    """Values that an option takes, by its type and bounds."""
    kind, bounds = option.kind, option.option
    if typing.get_origin(kind) is typing.Literal:
        return st.sampled_from(typing.get_args(kind))
    if option.name == "num_bins":
        return st.integers(1, 30).map(lambda half: 2 * half)
    if typing.get_origin(kind) is tuple:
        return st.tuples(st.floats(0, 1, exclude_max=True), st.floats(1, 9))
    if kind is bool:
        return st.booleans()
    low = bounds.minimum if bounds.minimum is not None else bounds.above
    high = bounds.maximum if bounds.maximum is not None else bounds.below
    if kind is int:
        return st.integers(int(low or 0), 999)
    return st.floats(
        0 if low is None else low,
        1e300 if high is None else high,
        exclude_min=bounds.above is not None,
        exclude_max=bounds.below is not None,
    )


@st.composite
def parts(draw, word) -> MethodPart:
    chosen = {name: draw(st.none() | values(option)) for name, option in word.options.items()}
    return MethodPart(word).with_options(**chosen)


@st.composite
def methods(draw) -> Method:
    words = {kind: [word for word in find_words().values() if word.kind == kind] for kind in KINDS}
    names = {kind: draw(st.sampled_from([None, *found])) for kind, found in words.items()}
    masking, learner = names["masking"], names["learner"]
    if learner is not None:
        kept = {} if masking is None or "plm" in learner.not_with else {"masking": draw(parts(masking))}
        if kept:  # options for networks alone
            kept["masking"] = kept["masking"].with_options(
                **dict.fromkeys(["expected", "statistics", "hold", "damp"])
            )
        return Method(loss=MethodPart(find_words()["bce"]), learner=draw(parts(learner)), **kept)
    names["loss"] = draw(
        st.sampled_from([word for word in LOSSES if not (masking and masking.name in word.not_with)])
    )
    chosen = {kind: draw(parts(word)) for kind, word in names.items() if word is not None}
    if masking and chosen["loss"].get("pos_power"):
        chosen["loss"] = MethodPart(names["loss"])
    if chosen["loss"].word.single_label and "weighting" in chosen:
        chosen["weighting"] = chosen["weighting"].with_options(per_sample=None)
    if "deferral" in chosen:
        chosen.setdefault("weighting", MethodPart(find_words()["cb"]))
    return Method(**chosen)


@given(methods())
def test_every_method_prints_as_a_name_that_reads_back(method: Method) -> None:
    assert parse(str(method)) == method
    assert hash(parse(str(method))) == hash(method)  # planned runs are keys


@pytest.mark.parametrize("name", PAPER_METHODS)
def test_the_papers_rows_are_canonical_names(name: str) -> None:
    assert str(parse(name)) == name


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("plm+bce", "plm"),
        (" PLM + focal ", "plm+focal"),
        ("plm:rate=0.050,expected=True", "plm:rate=0.05,expected=true"),
        ("plm:expected=true,rate=5e-2", "plm:rate=0.05,expected=true"),
        ("plm+undersample", "plm+bce+undersample"),
        ("focal+plm", "plm+focal"),
        ("bce+cb+drw", "bce+drw"),
        ("ldam+drw:start=0.5+cb:beta=0.99", "ldam+cb:beta=0.99+drw:start=0.5"),
        ("plm:ratio_range=0..1", "plm:ratio_range=0..1"),
        ("plm:rate=0,initial_ratio=mean", "plm:rate=0,initial_ratio=mean"),
    ],
)
def test_equal_methods_have_one_name(name: str, canonical: str) -> None:
    assert str(parse(name)) == canonical


def test_all_options_arrive_typed() -> None:
    method = parse(
        "plm:rate=0.05,expected=true,initial_ratio=mean,num_bins=20,ratio_range=0..1,adapt=prevalence+asl:clip=0.1"
    )
    assert method.masking is not None
    assert method.masking.options == {
        "rate": 0.05,
        "initial_ratio": "mean",
        "num_bins": 20,
        "ratio_range": (0.0, 1.0),
        "expected": True,
        "adapt": "prevalence",
    }
    assert method.loss.options == {"clip": 0.1}


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("focl", "unknown word 'focl' in the method 'focl': did you mean 'focal'?"),
        ("qqq", f"choose from {', '.join(find_words())}"),
        ("", "unknown word ''"),
        ("plm++bce", "unknown word ''"),
        ("plm+ldam", "plm does not go with ldam: plm masks single labels"),
        ("bce+focal", "has both 'bce' and 'focal': choose one"),
        ("plm+plm", "has both 'plm' and 'plm'"),
        ("bce+undersample+classaware", "has both 'undersample' and 'classaware'"),
        ("cb", f"has no loss: begin with one of {', '.join(word.name for word in LOSSES)}, or plm"),
        ("plm:rat=0.1", "'plm' has no option 'rat': did you mean 'rate'?"),
        ("bce+classaware:gamma=2", "'classaware' has no option 'gamma': it has none"),
        ("bce:pos_power=-1", "bce:pos_power must be 0 or more, got -1"),
        ("plm+bce:pos_power=1", "plm does not go with bce:pos_power: both set the ratio"),
        ("ldam+cb:per_sample=true", "cb:per_sample does not go with ldam: ldam has one weight per sample"),
        ("plm:rate", "the option 'rate' of 'plm' needs a value, as in plm:rate=0.5"),
        ("plm:initial_ratio", "needs a value, as in plm:initial_ratio=class"),
        ("plm:rate=much", "plm:rate must be a number, got 'much'"),
        ("plm:rate=nan", "plm:rate must be a number, got 'nan'"),
        ("plm:rate=inf", "plm:rate must be a number, got 'inf'"),
        ("plm:rate=-1", "plm:rate must be 0 or more, got -1"),
        ("plm:num_bins=1", "plm:num_bins must be 2 or more, got 1"),
        ("plm:num_bins=5,adapt=prevalence", "num_bins must be a whole number of 2 or more, and even"),
        ("plm:num_bins=2.5", "plm:num_bins must be a whole number, got '2.5'"),
        ("plm:expected=maybe", "plm:expected must be true or false, got 'maybe'"),
        ("plm:initial_ratio=zero", "plm:initial_ratio cannot be 'zero': choose from class, mean, min, max"),
        ("plm:ratio_range=1", "plm:ratio_range must be two numbers, as in 0..1, got '1'"),
        ("plm:ratio_range=1..0", "ratio_range must be (low, high) with 0 <= low < high"),
        ("plm:rate=1,rate=2", "names the option 'rate' of 'plm' twice"),
        ("focal:gamma=-1", "focal:gamma must be 0 or more, got -1"),
        ("db:neg_scale=0", "db:neg_scale must be above 0, got 0"),
        ("bce+cb:beta=1", "cb:beta must be from 0 to below 1, got 1"),
        ("bce+undersample:samples_per_class=0", "undersample:samples_per_class must be 1 or more, got 0"),
        ("bce+drw:start=1", "drw:start must be from 0 to below 1, got 1"),
    ],
)
def test_bad_names_get_a_sentence(name: str, sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(name)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(alphabet="plmbcefocal:=,.+01 ", max_size=20) | st.text(max_size=20))
def test_any_text_is_a_method_or_a_user_error(text: str) -> None:
    try:
        method = parse(text)
    except UserError:
        return
    assert parse(str(method)) == method
    assert hash(parse(str(method))) == hash(method)  # planned runs are keys


def test_recipe_defaults_fill_what_is_not_named() -> None:
    defaults = {"plm": {"rate": 0.01, "ratio_range": [0, 1]}, "focal": {"gamma": 1}, "cb": {"beta": 0.9}}
    assert str(parse("plm+focal").with_defaults(defaults)) == "plm:rate=0.01,ratio_range=0..1+focal:gamma=1"
    assert str(parse("plm:rate=1").with_defaults(defaults)) == "plm:rate=1,ratio_range=0..1"
    assert str(parse("bce").with_defaults(defaults)) == "bce"
    assert str(parse("ldam+drw").with_defaults(defaults)) == "ldam+cb:beta=0.9+drw"


def test_a_rate_for_one_update_is_no_default_for_another() -> None:
    defaults = {"plm": {"rate": 0.05, "num_bins": 20}}
    assert str(parse("plm:adapt=prevalence").with_defaults(defaults)) == "plm:num_bins=20,adapt=prevalence"
    assert (
        str(parse("plm:adapt=divergence").with_defaults(defaults))
        == "plm:rate=0.05,num_bins=20,adapt=divergence"
    )


def test_ldam_is_refused_on_multi_label_data() -> None:
    with pytest.raises(UserError, match=r"exactly one label per sample.*choose from (?!.*ldam).*bce"):
        parse("ldam+drw").require_fit(single_label=False)
    for name in PAPER_METHODS:
        parse(name).require_fit(single_label=True)


@pytest.mark.parametrize("word", find_words().values(), ids=lambda word: word.name)
def test_every_word_is_documented(word) -> None:
    """Its card is made from this: a first line, and a text for each option."""
    assert word.summary
    assert word.summary[-1] != "."
    documented = word.builder.__doc__.partition("Args:")[2]
    for name in word.options:
        assert f"\n        {name}: " in documented


def test_options_of_plm_are_arguments_of_the_criterion() -> None:
    own = find_words()["plm"].options.keys()
    assert own <= inspect.signature(PartialLabelMasking).parameters.keys()


def test_words_and_help_need_no_torch() -> None:
    code = (
        "import sys\n"
        "from tailmask.methods import method_help, parse\n"
        "assert 'hill' in method_help()\n"
        "parse('plm+hill+cb')\n"
        "print('torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


@pytest.mark.parametrize("name", ["linear", "plm:rate=0.05+linear:C=2", "trees:trees=50", "plm+boost"])
def test_a_learner_stands_in_the_place_of_the_loss(name: str) -> None:
    method = parse(name)
    assert str(method) == name
    assert method.learner is not None
    assert str(method.loss) == "bce"


@pytest.mark.parametrize("name", ["focal+linear", "linear+cb", "plm+trees", "trees+boost"])
def test_a_learner_goes_with_masking_alone(name: str) -> None:
    with pytest.raises(UserError):
        parse(name)
