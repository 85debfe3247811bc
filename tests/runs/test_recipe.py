"""Recipes: the values of the paper, typed reading, overriding, and the course of the learning rate."""

from __future__ import annotations

import dataclasses
import math
import re
import tomllib
from importlib import resources
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailmask._util.messages import UserError
from tailmask._util.serialization import from_mapping, to_mapping
from tailmask.data.facts import DataFacts
from tailmask.runs.config import determined_by, differences
from tailmask.runs.recipe import Recipe, ScheduleRecipe, load_recipe, recipe_names
from tailmask.runs.setting import Setting, configure, default_recipe

# model, epochs, batch, lr, weight decay, milestones, factors, λ, focal γ, CB β, S, rarest
RECIPES = resources.files("tailmask") / "recipes"
PAPER = {
    "multimnist": ("resnet12", 90, 128, 0.1, 1e-3, (60, 80), (0.1, 0.01), 0.01, 2, 0.9999, 500, (5, 3)),
    "cifar10-lt": ("resnet32", 200, 128, 0.1, 2e-4, (160, 180), (1e-2, 1e-4), 1.0, 1, 0.9999, None, (5,)),
    "cifar100-lt": ("resnet32", 200, 128, 0.1, 2e-4, (160, 180), (1e-2, 1e-4), 0.01, 1, 0.9, None, (50,)),
    "coco": (
        "resnet50",
        90,
        200,
        0.4,
        1e-4,
        (30, 60, 80),
        (0.1, 0.01, 1e-3),
        0.01,
        2,
        0.9999,
        1000,
        (20, 10),
    ),
}


@pytest.mark.parametrize("name", PAPER)
def test_recipes_hold_the_papers_values(name: str) -> None:
    recipe = load_recipe(name)
    schedule, optimizer, method = recipe.schedule, recipe.optimizer, recipe.method
    assert PAPER[name] == (
        recipe.model.name,
        schedule.epochs,
        schedule.batch_size,
        optimizer.lr,
        optimizer.weight_decay,
        schedule.milestones,
        schedule.factors,
        method["plm"]["rate"],
        method["focal"]["gamma"],
        method["cb"]["beta"],
        method.get("undersample", {}).get("samples_per_class"),
        recipe.evaluation.rarest,
    )
    assert (optimizer.name, optimizer.momentum, schedule.warmup) == ("sgd", 0.9, 5)
    assert recipe.evaluation.threshold == 0.5
    is_cifar = name.startswith("cifar")
    assert recipe.model.bias == ("uniform" if is_cifar else "default")
    assert optimizer.decay_last_bias != is_cifar
    assert method["plm"].get("ratio_range") == ([0.0, 1.0] if name == "coco" else None)


def test_there_is_a_recipe_for_every_kind_of_data() -> None:
    own = {"tables", "table-members", "wide-tables", "images", "finetune", "finetune-texts", "digits"}
    assert {*own, *PAPER} == set(recipe_names())
    assert default_recipe("cifar100-lt") == "cifar100-lt"
    assert default_recipe("voc-mlt") == "coco"
    assert default_recipe("some/table.parquet") == "tables"
    assert default_recipe("some/folder") == "tables"


def test_own_images_get_the_recipe_for_images_once_their_shape_is_known() -> None:
    def network(data: str, *shape: int, **choices: Any) -> str:
        facts = DataFacts({}, ("a", "b"), shape, single_label=False, has_validation=True)
        return configure(data, facts=facts, **choices).recipe.model.name

    assert network("mine.npz", 20) == "mlp"
    assert network("mine.npz", 3, 32, 32) == "resnet32"
    assert network("mine.npz", 3, 32, 32, recipe="tables") == "mlp"
    assert network("digits", 1, 12, 12) == "cnn"


def test_learning_rate_warms_up_by_step_and_falls_at_the_milestones() -> None:
    schedule = load_recipe("cifar10-lt").schedule
    steps = 100

    def factor(epoch: int, step: int) -> float:
        return schedule.factor(epoch + step / steps, 1 / steps)

    assert factor(0, 0) == pytest.approx(1 / 500)
    assert factor(2, 49) == pytest.approx(0.5)
    assert factor(4, 99) == pytest.approx(1.0)
    assert factor(5, 0) == factor(159, 99) == 1.0
    assert factor(160, 0) == factor(179, 99) == 0.01
    assert factor(180, 0) == factor(199, 99) == 0.0001


@given(st.floats(0, 300), st.floats(1e-6, 1))
def test_learning_rate_never_exceeds_its_base(epoch: float, step: float) -> None:
    assert 0 < load_recipe("multimnist").schedule.factor(epoch, step) <= 1


def test_schedule_stretches_as_a_whole() -> None:
    schedule = ScheduleRecipe(90, 128, warmup=5.0, milestones=(60.0, 80.0), factors=(0.1, 0.01)).stretched(18)
    assert (schedule.epochs, schedule.warmup, schedule.milestones) == (18, 1.0, (12.0, 16.0))
    assert (schedule.batch_size, schedule.factors) == (128, (0.1, 0.01))


def test_the_update_by_prevalence_begins_halfway_and_has_time_to_settle() -> None:
    def masking(method: str, **length: float) -> tuple[float | None, int | None]:
        found = configure("yeast.arff", method, recipe="tables", **length).method.masking
        return found.get("rate"), found.get("warmup")

    assert masking("plm:adapt=prevalence") == masking("plm:adapt=prevalence+asl") == (0.3, 30)
    assert (
        masking("plm:adapt=prevalence", budget=0.25) == masking("plm:adapt=prevalence", epochs=15) == (0.5, 7)
    )
    assert masking("plm:adapt=prevalence", epochs=120) == (0.15, 60)
    assert masking("plm:adapt=prevalence", epochs=8) == (0.875, 4)
    assert masking("plm:adapt=prevalence", epochs=1) == (1.0, 1)
    assert masking("plm:adapt=prevalence,rate=0.02", epochs=15) == (0.02, 7), "what is named stays"
    assert masking("plm:adapt=prevalence,warmup=0", epochs=15) == (0.5, 0)
    recorded = configure("yeast.arff", "plm:adapt=prevalence", recipe="tables").to_json()["method"]
    assert recorded == "plm:rate=0.3,adapt=prevalence,warmup=30"


@pytest.mark.parametrize(
    ("method", "length", "is_noted"),
    [
        ("plm", {"budget": 0.15}, True),
        ("plm+focal", {"epochs": 30}, True),
        ("plm:rate=0.5", {"budget": 0.49}, True),
        ("plm", {"budget": 0.5}, False),
        ("plm", {}, False),
        ("plm:rate=0.4", {"budget": 0.15}, False),
        ("plm:adapt=prevalence,rate=1", {"budget": 0.15}, False),
        ("bce", {"budget": 0.15}, False),
    ],
)
def test_short_trainings_with_a_large_lambda_are_noted(method: str, length: dict, is_noted: bool) -> None:
    config = configure("cifar10-lt", method, **length)
    assert [("40.6" in note, "25.0" in note) for note in config.notes] == [(True, True)] * is_noted
    assert determined_by(config) == determined_by(dataclasses.replace(config, notes=()))


def test_budget_keeps_lambda_times_epochs_where_lambda_is_small(tmp_path) -> None:
    short = configure("multimnist", "plm", budget=0.2)
    assert short.recipe.schedule.epochs == 18
    assert short.method.masking.get("rate") == pytest.approx(0.05)
    assert short.name == "plm"
    assert short.to_json()["method"] == "plm:rate=0.05"
    slow = configure("multimnist", "plm:rate=0.002", budget=0.1)
    assert slow.method.masking.get("rate") == pytest.approx(0.02)
    assert configure("cifar10-lt", "plm", budget=0.15).method.masking.get("rate") == 1.0
    assert configure("multimnist", "plm:rate=0", budget=0.2).method.masking.get("rate") == 0
    unnamed = tmp_path / "unnamed.toml"
    unnamed.write_text(re.sub("plm = .*", "", RECIPES.joinpath("multimnist.toml").read_text()))
    by_default = configure("multimnist", "plm", recipe=str(unnamed), budget=0.1)
    assert by_default.method.masking.get("rate") == pytest.approx(0.1), "raised as one that is named"
    assert configure("multimnist", "plm", epochs=18).method.masking.get("rate") == 0.01
    assert configure("multimnist", "plm", epochs=18).recipe == short.recipe


def test_every_field_can_be_set_by_name() -> None:
    recipe = load_recipe("multimnist").with_fields(
        [
            "optimizer.lr=0.05",
            "schedule.milestones=[10, 20.5]",
            "model.name=mlp",
            "model.hidden=[8, 4]",
            "optimizer.decay_last_bias=false",
            "method.plm.rate=1",
            "method.asl.clip=0.1",
            "evaluation.rarest=[2]",
        ]
    )
    assert recipe.optimizer.lr == 0.05
    assert recipe.schedule.milestones == (10.0, 20.5)
    assert (recipe.model.name, recipe.model.hidden) == ("mlp", (8, 4))
    assert recipe.optimizer.decay_last_bias is False
    assert recipe.method["plm"] == {"rate": 1}
    assert recipe.method["asl"] == {"clip": 0.1}
    assert recipe.evaluation.rarest == (2,)


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("optimizer.lrr=0.1", "unknown field 'optimizer.lrr': did you mean 'optimizer.lr'?"),
        ("optimiser.lr=0.1", "did you mean 'optimizer.lr'?"),
        ("lr=0.1", "unknown field 'lr'"),
        ("optimizer.lr.x=0.1", "unknown field 'optimizer.lr.x'"),
        ("optimizer=3", "must be a table of fields, got 3"),
        ("optimizer.lr", "as in optimizer.lr=0.05, got 'optimizer.lr'"),
        ("optimizer.lr=fast", "the field 'optimizer.lr' must be a number, got 'fast'"),
        ("optimizer.lr=nan", "the values of 'optimizer.lr' must be finite numbers, got nan"),
        ("optimizer.lr=inf", "the values of 'optimizer.lr' must be finite numbers, got inf"),
        ("optimizer.lr=1" + "0" * 400, "the values of 'optimizer.lr' must be finite numbers, got inf"),
        ("optimizer.lr=-1", "optimizer.lr must be above 0"),
        ("schedule.warmup=inf", "the values of 'schedule.warmup' must be finite numbers, got inf"),
        ("schedule.factors=[0.1, -inf]", "the values of 'schedule.factors' must be finite numbers, got -inf"),
        ("optimizer.lr=true", "the field 'optimizer.lr' must be a number, got True"),
        ("optimizer.name=sdg", "optimizer.name cannot be 'sdg': did you mean 'sgd'?"),
        ("schedule.epochs=1.5", "the field 'schedule.epochs' must be a whole number, got 1.5"),
        ("schedule.epochs=0", "schedule.epochs must be 1 or more, got 0"),
        ("schedule.batch_size=0", "schedule.batch_size must be 1 or more, got 0"),
        ("schedule.milestones=5", "the field 'schedule.milestones' must be a list"),
        ("schedule.milestones=[5]", "schedule.factors must have one value per milestone, 1 in all, got 2"),
        ("schedule.milestones=[9, 5]", "rising order"),
        ("model.dropout=1", "model.dropout must be from 0 to below 1"),
        ("model.hidden=[0]", "model.hidden must be widths of 1 or more"),
        ("method.plm.rat=1", "'plm' has no option 'rat': did you mean 'rate'?"),
        ("method.plm.rate=big", "plm:rate must be a number, got 'big'"),
        ("method.plmm.rate=1", "unknown field 'method.plmm'"),
        ("evaluation.threshold=1", "evaluation.threshold must be between 0 and 1"),
    ],
)
def test_bad_fields_get_a_sentence(assignment: str, sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        load_recipe("multimnist").with_fields([assignment])
    assert sentence in str(caught.value)


@pytest.mark.parametrize("name", ["linear", "resnet12", "my.package:network"])
def test_another_model_drops_the_fields_of_the_recipes_own(name: str) -> None:
    tables = load_recipe("tables")
    assert tables.model.hidden
    assert tables.model.dropout
    assert to_mapping(tables.with_fields([f"model.name={name}"]).model) == {
        "name": name,
        "hidden": [],
        "dropout": 0.0,
        "bias": "default",
        "input_dropout": 0.0,
        "members": 1,
        "freeze": 0.0,
        "fixed_norm": False,
    }
    asked = tables.with_fields([f"model.name={name}", "model.hidden=[9]"]).model
    assert (asked.hidden, asked.dropout) == ((9,), 0.0), "what is asked for is kept, and refused later"
    assert tables.with_fields(["model.name=mlp"]) == tables


def test_own_recipes_are_read_from_a_file(tmp_path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[model]\nname = 'linear'\n[optimizer]\nlr = 1\n[schedule]\nepochs = 3\nbatch_size = 8\n")
    recipe = load_recipe(str(path))
    assert (recipe.model.name, recipe.optimizer.lr, recipe.schedule.epochs) == ("linear", 1.0, 3)
    for text, sentence in [
        ("[model", "is not valid TOML"),
        ("[model]\nname = 'linear'", "the field 'optimizer' is missing"),
        ("[modle]\nname = 'x'", "unknown field 'modle': did you mean 'model'?"),
        ("model = 3", "the field 'model' must be a table of fields"),
        ("x = " + "[" * 9999, "is not valid TOML"),
    ]:
        path.write_text(text)
        with pytest.raises(UserError, match=sentence.replace("?", r"\?")):
            load_recipe(str(path))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="cannot be read"):
        load_recipe(str(path))
    with pytest.raises(UserError, match="cannot be read"):
        load_recipe(str(tmp_path / "nowhere.toml"))
    with pytest.raises(UserError, match="unknown recipe 'digit': did you mean 'digits'"):
        load_recipe("digit")


@pytest.mark.parametrize("name", recipe_names())
def test_recipes_survive_a_round_trip(name: str) -> None:
    recipe = load_recipe(name)
    assert from_mapping(Recipe, to_mapping(recipe)) == recipe


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_hostile_recipes_raise_nothing_but_user_errors(tmp_path_factory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("recipe") / "r.toml"
    path.write_bytes(content)
    with pytest.raises(UserError):
        load_recipe(str(path))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"budget": 20.0}, "above 0 and at most 10, such as 0.2, got 20"),
        ({"budget": 0.0}, "the budget must be a share"),
        ({"budget": math.nan}, "the budget must be a share"),
        ({"epochs": 0}, "epochs must be 1 or more"),
        ({"epochs": 3, "budget": 0.5}, "choose either epochs or a budget"),
        ({"seed": -1}, "the seed must be 0 or more"),
    ],
)
def test_bad_configurations_get_a_sentence(arguments: dict, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        configure("digits", "plm", **arguments)


def test_differences_name_every_field_that_differs() -> None:
    first = configure("digits", "plm", seed=1).to_json()
    second = configure("digits", "plm", seed=2, fields=["optimizer.lr=0.5"]).to_json()
    assert differences(first, first) == []
    assert differences(first, second) == [
        "recipe.optimizer.lr (0.1 there, 0.5 asked for)",
        "seed (1 there, 2 asked for)",
    ]
    assert differences({}, {"seed": 1}) == ["seed (none there, 1 asked for)"]
    assert differences({"a": True, "b": ["x=1"]}, {"a": False, "b": []}) == [
        "a (true there, false asked for)",
        "b (x=1 there, none asked for)",
    ]


def test_recipes_are_valid_toml_that_states_its_sources() -> None:
    from importlib import resources

    for name in recipe_names():
        text = (resources.files("tailmask") / "recipes" / f"{name}.toml").read_text()
        assert text.startswith("# ")
        assert tomllib.loads(text)


@pytest.mark.parametrize(
    ("is_sparse", "fields", "epochs"),
    [
        (True, (), 100),
        (False, (), 30),
        (True, ("schedule.epochs=5",), 5),
        (True, ("schedule.sparse_steps=0",), 30),
    ],
)
def test_few_sparse_rows_get_more_epochs(is_sparse, fields, epochs):
    facts = DataFacts(
        {}, ("a",), (1449,), single_label=False, has_validation=True, raw_rows=333, is_sparse=is_sparse
    )
    setting = Setting("rows.csv", recipe="table-members", fields=fields)
    assert setting.resolve(facts).recipe.schedule.epochs == epochs


@pytest.mark.parametrize(
    ("rows", "epochs"), [(1_000, 38), (3_000, 13), (10_000, 10), (48_836, 5), (10**7, 1)]
)
def test_wide_tables_get_epochs_by_their_number_of_rows(rows: int, epochs: int) -> None:
    facts = DataFacts(
        {}, ("a",), (20_000,), single_label=False, has_validation=True, raw_rows=rows, is_sparse=True
    )
    assert Setting("texts.csv").resolve(facts).recipe.schedule.epochs == epochs
    assert Setting("texts.csv", epochs=7).resolve(facts).recipe.schedule.epochs == 7


def test_limits_of_batches_do_not_determine_a_result_beside_its_epochs() -> None:
    first, second = (
        configure("yeast.arff", "bce", recipe="table-members", epochs=4, fields=[field])
        for field in ("schedule.max_steps=0", "schedule.max_steps=9")
    )
    assert determined_by(first) == determined_by(second)
