"""Settings, planned runs and the commands that make them one by one."""

from __future__ import annotations

import json
import shlex
import typing
from pathlib import Path

import pytest

from tailmask._util.files import slug
from tailmask._util.messages import UserError
from tailmask.cli import main
from tailmask.data import DataOptions, load
from tailmask.data.facts import DataFacts
from tailmask.data.options import PLACES
from tailmask.paper import Request, plan_reproduction
from tailmask.runs import RunConfig, Setting
from tailmask.runs.config import determined_by
from tailmask.studies.planned_runs import PlannedRun, plan_runs
from tailmask.studies.study_folder import begin_study, check_study

SETTINGS = [
    Setting("digits"),
    Setting("cifar10-lt", DataOptions(rho=50.0, data_dir=Path("/data"), download=False), budget=0.2),
    Setting("my data.csv", DataOptions(labels="tag_*", test=0.25), recipe="tables", epochs=3),
    Setting("multimnist", DataOptions(fresh_shifts=True), fields=("evaluation.rarest=[2, 1]",)),
    Setting("digits", precision="bf16"),
]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_configurations_survive_json(setting):
    config = setting.resolve().config("plm:rate=0.3+focal:gamma=2", 3)
    assert RunConfig.from_task(json.loads(json.dumps(config.to_task()))) == config


def test_the_precision_is_part_of_a_setting_where_it_is_not_the_usual_one():
    # Studies that were begun without the choice do not name it.
    assert "precision" not in Setting("digits").identity()
    assert Setting("digits", precision="bf16").identity()["precision"] == "bf16"
    (run, *_) = plan_reproduction("table1", Request(precision="bf16"))
    assert run.config.precision == "bf16"
    assert run.command.startswith("tailmask train multimnist --precision bf16 --method bce")


@pytest.mark.parametrize(("is_fast", "precision"), [(True, "bf16"), (False, "32")])
def test_an_open_precision_is_resolved_before_anything_is_named_or_recorded(is_fast, precision):
    resolved = Setting("digits", precision="auto").resolve(has_fast_bf16=lambda: is_fast)
    named = Setting("digits", precision=precision)
    assert resolved.asked == named
    assert resolved.name == named.name
    (run,) = plan_runs(resolved, ["bce"], [0], folder=Path("runs"))
    assert (run.config.precision, "auto" in run.command) == (precision, False)
    assert determined_by(run.config) == determined_by(named.resolve().config("bce"))


@pytest.mark.parametrize("precision", ["32", "bf16"])
def test_a_named_precision_asks_no_processor(precision):
    def query():
        raise AssertionError("nobody needs to know")

    resolved = Setting("digits", precision=precision).resolve(has_fast_bf16=query)
    assert resolved.config("bce").precision == precision


@pytest.mark.parametrize("precision", ["32", "bf16"])
def test_a_study_keeps_its_precision_where_that_is_left_open(tmp_path, precision):
    facts = DataFacts.of(load("digits"))
    resolved = Setting("digits", precision="auto").resolve(facts, has_fast_bf16=lambda: precision == "bf16")
    begin_study(tmp_path, resolved, facts)
    again = check_study(tmp_path, Setting("digits", precision="auto"))
    assert again.resolve(facts, has_fast_bf16=lambda: precision != "bf16").asked.precision == precision
    other = "32" if precision == "bf16" else "bf16"
    with pytest.raises(UserError, match="differs in precision"):
        check_study(tmp_path, Setting("digits", precision=other))


def test_where_the_data_lie_is_no_part_of_a_setting():
    moved = Setting("cifar10-lt", DataOptions(data_dir=Path("/elsewhere"), download=False))
    assert moved.name == Setting("cifar10-lt").name
    assert moved.identity() == Setting("cifar10-lt").identity()
    assert Setting("cifar10-lt", DataOptions(rho=10)).identity() != Setting("cifar10-lt").identity()
    assert Setting("a.csv").identity() != Setting("b.csv").identity()


def at(folder: str) -> Setting:
    """The same files in a folder of choice."""
    root = Path(folder)
    places = {name: root / name for name in ("classes", "images", "test_file", "validation_file", "data_dir")}
    return Setting(f"{folder}/a.csv", DataOptions(labels="tag_*", **places), recipe=f"{folder}/own.toml")


@pytest.mark.parametrize("folder", [".", "deep/secret", "/secret"])
def test_files_may_be_named_in_any_way(folder):
    there, here = at(folder), at("here")
    assert there.name == here.name
    assert there.published() == here.published()
    assert "secret" not in f"{there.name} {there.published()} {there.identity()}"
    assert there.published()["data"] == "a.csv"
    assert there.published()["recipe"] == "own.toml"
    assert there.published()["options"] == {
        "labels": "tag_*",
        **{name: name for name in ("classes", "images", "test_file", "validation_file")},
    }
    plain = Setting("a.csv", DataOptions(labels="tag_*"), recipe="own.toml")
    assert there.identity() == plain.identity(), "what these files hold is compared by digests"


def test_every_choice_of_a_file_is_known_as_a_place():
    hints = typing.get_type_hints(DataOptions)
    assert {name for name, hint in hints.items() if Path in typing.get_args(hint)} < set(PLACES)


def test_a_request_is_the_same_from_anywhere():
    one, other = (
        Request(data=f"{folder}/a.csv", options=DataOptions(test_file=Path(folder, "b.csv")))
        for folder in (".", "/elsewhere")
    )
    assert one.identity() == other.identity()
    assert Request(data="a.csv", options=DataOptions(test_file=Path("c.csv"))).identity() != one.identity()
    assert Request().identity()["data"] is None


def test_names_tell_settings_apart_and_are_safe_file_names():
    names = [setting.name for setting in SETTINGS]
    assert len(set(names)) == len(names)
    assert all(slug(name) == name and "/" not in name for name in names)
    assert Setting("/tmp/a/../b.csv").name == "b"


def test_names_are_short_enough_for_any_file_system():
    names = [Setting("mine.csv", DataOptions(labels=f"{'Zähler,' * 60}{end}")).name for end in "ab"]
    assert all(len(name.encode()) <= 200 for name in names)
    assert names[0] != names[1]
    assert names[0].startswith("mine_labels=Zähler_")


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
@pytest.mark.parametrize("method", ["bce", "plm:rate=0.05,expected=true+focal:gamma=2"])
def test_the_command_of_a_run_gives_the_configuration_of_the_run(setting, method, capsys):
    resolved = setting.resolve()
    run = PlannedRun(resolved, resolved.config(method, 3), Path("out dir/run"))
    words = shlex.split(run.command)
    assert words[0] == "tailmask"
    assert main([*words[1:], "--print-config"]) == 0
    printed = capsys.readouterr().out
    from tailmask.runs.recipe_text import to_toml

    assert printed.strip() == to_toml(run.config).strip()
    assert words[words.index("--out") + 1] == "out dir/run"


def test_all_methods_of_a_seed_come_before_the_next_seed():
    runs = plan_runs(Setting("digits").resolve(), ["bce", "plm"], [0, 1], folder=Path("x"))
    assert [(run.config.name, run.config.seed) for run in runs] == [
        ("bce", 0),
        ("plm", 0),
        ("bce", 1),
        ("plm", 1),
    ]
    assert len({run.folder for run in runs}) == 4


@pytest.mark.parametrize(
    ("target", "number"),
    [
        ("table1", 8),
        ("table2", 8),
        ("table3", 30),
        ("table4", 30),
        ("table5", 8),
        ("table6", 8),
        ("table7", 0),
        ("figure1", 2),
        ("figure2", 1),
        ("figure3", 6),
        ("figure4", 2),
        ("figure5", 0),
        ("figure6", 0),
        ("figure7", 1),
        ("figure8", 2),
        ("discussion-precision", 2),
        ("discussion-imbalance", 1),
    ],
)
def test_every_target_plans_its_runs_without_data(target, number):
    runs = plan_reproduction(target, seeds=2)
    assert len(runs) == 2 * number
    assert len({run.folder for run in runs}) == len(runs)
    assert len({run.command for run in runs}) == len(runs)


def test_targets_share_runs():
    folders = {run.folder for run in plan_reproduction("table1")}
    for target in ("figure2", "discussion-imbalance"):
        assert {run.folder for run in plan_reproduction(target)} <= folders
    assert {run.folder for run in plan_reproduction("figure3")} <= {
        run.folder for run in plan_reproduction("table3")
    }


def test_figure_7_is_the_first_ten_epochs_of_the_full_schedule():
    (run,) = plan_reproduction("figure7")
    schedule, full = run.config.recipe.schedule, Setting("multimnist").resolve().recipe.schedule
    assert schedule.epochs == 10
    for epoch in range(10):
        assert schedule.factor(epoch, 0.1) == full.factor(epoch, 0.1)


def test_cui_weights_on_cifar_100_follow_the_imbalance():
    methods = {
        run.setting.options.rho: run.config.name
        for run in plan_reproduction("table4")
        if run.config.name.startswith("bce+cb")
    }
    assert methods == {
        200.0: "bce+cb",
        100.0: "bce+cb",
        50.0: "bce+cb:beta=0.99",
        20.0: "bce+cb:beta=0.99",
        10.0: "bce+cb:beta=0.999",
    }


def test_rows_and_imbalances_can_be_chosen():
    request = Request(methods=("plm+bce", "asl"), imbalances=(100.0,))
    runs = plan_reproduction("table3", request)
    assert [run.config.name for run in runs] == ["plm", "asl"]
    assert {run.setting.options.rho for run in runs} == {100.0}


def test_own_data_get_the_papers_shares_of_rarest_classes_and_their_own_rate():
    rates = [run.config.name for run in plan_reproduction("table5", Request(data="digits"))]
    assert rates == ["plm:rate=1", "plm:rate=0.1", "plm:rate=0.05", "plm:rate=0.01", "bce"]


@pytest.mark.parametrize(
    ("target", "request_", "sentence"),
    [
        ("tabel1", Request(), "did you mean 'table1'"),
        ("table1", Request(methods=("focl",)), "did you mean 'focal'"),
        ("figure2", Request(methods=("bce",)), "leave --methods out"),
        ("table1", Request(imbalances=(10.0,)), "--imbalance is for table3, table4, figure3"),
        ("table3", Request(imbalances=(7.0,)), "no ρ = 7: choose from"),
        ("table3", Request(options=DataOptions(rho=20.0)), "--imbalance"),
        ("table1", Request(budget=0.0), "the budget must be"),
        ("table1", Request(fields=("optimizer.lrr=1",)), "did you mean 'optimizer.lr'"),
        ("table1", Request(data="digtis"), "did you mean 'digits'"),
        ("figure5", Request(data="digits"), "leave --data out"),
    ],
)
def test_what_cannot_be_planned_is_told_in_a_sentence(target, request_, sentence):
    with pytest.raises(UserError, match=sentence):
        plan_reproduction(target, request_)


def test_no_seeds_are_refused():
    with pytest.raises(UserError, match="--seeds must be 1 or more, got 0"):
        plan_reproduction("table1", seeds=0)
