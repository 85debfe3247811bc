"""The method grammar: names read, print back, and are refused with a sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paper_methods import PAPER_METHODS

from tailmask.errors import UserError
from tailmask.method import WORDS, Method, parse
from tailmask.method.parts import (
    ASL,
    BCE,
    DB,
    LDAM,
    ClassAware,
    ClassBalance,
    Deferral,
    Focal,
    Hill,
    Masking,
    Undersample,
)

numbers = st.floats(0, 1e300, allow_nan=False)
shares = st.floats(0, 1, exclude_max=True)


def options(**fields):
    return {name: st.none() | values for name, values in fields.items()}


maskings = st.builds(
    Masking,
    **options(
        rate=numbers,
        init=st.sampled_from(["class", "mean", "min", "max"]),
        bins=st.integers(1, 30).map(lambda half: 2 * half),
        range=st.tuples(shares, st.floats(1, 9)),
        expected=st.booleans(),
        adapt=st.sampled_from(["divergence", "rate"]),
        warmup=st.integers(0, 9),
        statistics=st.sampled_from(["training", "validation"]),
    ),
)
elementwise = st.one_of(
    st.just(BCE()),
    st.just(BCE(pos_power=0.0)),
    st.builds(Focal, **options(gamma=numbers, alpha=shares)),
    st.builds(ASL, **options(gamma_neg=numbers, gamma_pos=numbers, clip=shares)),
    st.builds(Hill, **options(gamma=numbers, margin=numbers)),
    st.builds(DB, **options(alpha=numbers, beta=numbers, mu=numbers, gamma=numbers)),
)
unmasked = st.one_of(
    st.builds(LDAM, **options(max_margin=numbers)), st.builds(BCE, **options(pos_power=numbers))
)


@st.composite
def methods(draw) -> Method:
    masking = draw(st.none() | maskings)
    deferral = draw(st.none() | st.builds(Deferral, **options(start=shares)))
    balance = draw(st.none() | st.builds(ClassBalance, **options(beta=shares)))
    return Method(
        loss=draw(elementwise if masking is not None else elementwise | unmasked),
        masking=masking,
        balance=ClassBalance() if balance is None and deferral is not None else balance,
        sampling=draw(
            st.none() | st.builds(Undersample, **options(samples=st.integers(1, 999))) | st.just(ClassAware())
        ),
        deferral=deferral,
    )


@given(methods())
def test_every_method_prints_as_a_name_that_reads_back(method: Method) -> None:
    assert parse(str(method)) == method


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
        ("plm:range=0..1", "plm:range=0..1"),
        ("plm:rate=0,init=mean", "plm:rate=0,init=mean"),
    ],
)
def test_equal_methods_have_one_name(name: str, canonical: str) -> None:
    assert str(parse(name)) == canonical


def test_all_options_arrive_typed() -> None:
    method = parse("plm:rate=0.05,expected=true,init=mean,bins=20,range=0..1,adapt=rate+asl:clip=0.1")
    assert method.masking == Masking(
        rate=0.05, expected=True, init="mean", bins=20, range=(0.0, 1.0), adapt="rate"
    )
    assert method.loss == ASL(clip=0.1)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("focl", "unknown word 'focl' in the method 'focl': did you mean 'focal'?"),
        ("qqq", "choose from plm, bce, focal, asl, hill, db, ldam, cb, undersample, classaware, drw"),
        ("", "unknown word ''"),
        ("plm++bce", "unknown word ''"),
        ("plm+ldam", "plm masks single labels, but ldam is a softmax over all of them"),
        ("bce+focal", "has both 'bce' and 'focal': choose one"),
        ("plm+plm", "has both 'plm' and 'plm'"),
        ("bce+undersample+classaware", "has both 'undersample' and 'classaware'"),
        ("cb", "has no loss: begin with one of bce, focal, asl, hill, db, ldam, or plm"),
        ("plm:rat=0.1", "'plm' has no option 'rat': did you mean 'rate'?"),
        ("bce+classaware:gamma=2", "'classaware' has no option 'gamma': it has none"),
        ("bce:pos_power=-1", "the option pos_power must be 0 or more"),
        ("plm+bce:pos_power=1", "plm and bce:pos_power both set the ratio"),
        ("ldam+cb:per=sample", "ldam has one weight a sample in any case: leave out cb:per"),
        ("plm:rate", "the option 'rate' of 'plm' needs a value, as in plm:rate=0.5"),
        ("plm:init", "needs a value, as in plm:init=class"),
        ("plm:rate=much", "plm:rate must be a number, got 'much'"),
        ("plm:rate=nan", "plm:rate must be a number, got 'nan'"),
        ("plm:rate=inf", "plm:rate must be a number, got 'inf'"),
        ("plm:rate=-1", "the option rate must be 0 or more, got -1.0"),
        ("plm:bins=1", "the option bins must be 2 or more"),
        ("plm:bins=5,adapt=rate", "even with adapt=rate"),
        ("plm:bins=2.5", "plm:bins must be a whole number, got '2.5'"),
        ("plm:expected=maybe", "plm:expected must be true or false, got 'maybe'"),
        ("plm:init=zero", "plm:init cannot be 'zero': choose from class, mean, min, max"),
        ("plm:range=1", "plm:range must be two numbers, as in 0..1, got '1'"),
        ("plm:range=1..0", "the option range must be low..high with 0 <= low < high"),
        ("plm:rate=1,rate=2", "names the option 'rate' of 'plm' twice"),
        ("focal:gamma=-1", "the option gamma must be 0 or more"),
        ("hill:gamma=-1", "the option gamma must be 0 or more"),
        ("bce+cb:beta=1", "the option beta must be from 0 to below 1"),
        ("bce+undersample:samples=0", "the option samples must be 1 or more"),
        ("bce+drw:start=1", "the option start must be from 0 to below 1"),
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


def test_recipe_defaults_fill_what_is_not_named() -> None:
    defaults = {"plm": {"rate": 0.01, "range": [0, 1]}, "focal": {"gamma": 1}, "cb": {"beta": 0.9}}
    assert str(parse("plm+focal").with_defaults(defaults)) == "plm:rate=0.01,range=0..1+focal:gamma=1"
    assert str(parse("plm:rate=1").with_defaults(defaults)) == "plm:rate=1,range=0..1"
    assert str(parse("bce").with_defaults(defaults)) == "bce"
    assert str(parse("ldam+drw").with_defaults(defaults)) == "ldam+cb:beta=0.9+drw"


def test_a_rate_for_one_update_is_no_default_for_another() -> None:
    defaults = {"plm": {"rate": 0.05, "bins": 20}}
    assert str(parse("plm:adapt=rate").with_defaults(defaults)) == "plm:bins=20,adapt=rate"
    assert (
        str(parse("plm:adapt=divergence").with_defaults(defaults)) == "plm:rate=0.05,bins=20,adapt=divergence"
    )


def test_ldam_is_refused_on_multi_label_data() -> None:
    with pytest.raises(UserError, match=r"exactly one label a sample.*choose from bce, focal, asl, hill, db"):
        parse("ldam+drw").require_fit(single_label=False)
    for name in PAPER_METHODS:
        parse(name).require_fit(single_label=True)


def test_every_word_has_a_docstring_that_begins_with_it() -> None:
    for word, part in WORDS.items():
        assert (part.__doc__ or "").startswith(f"`{word}`: ")
