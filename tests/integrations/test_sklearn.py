"""The scikit-learn estimator: the gate of `check_estimator`, and oracles in plain torch and NumPy."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from small_estimator import make_data, quick
from torch import nn

from second_device import second_device
from tailmask import PartialLabelMasking
from tailmask.calibration import fit_thresholds
from tailmask.integrations.sklearn import PLMClassifier
from tailmask.integrations.tabular.held_out_samples import hold_out
from tailmask.losses import AsymmetricLoss, DistributionBalancedLoss, FocalLoss
from tailmask.masking.schedule import Schedule
from tailmask.methods import find_words

OTHER_LOSSES = [
    name
    for name, word in find_words().items()
    if word.kind == "loss" and not word.single_label and name != "bce"
]
NO_EQUIVALENCE = "a repeated sample and one of weight 2 come in other batches and meet other masks"


@pytest.mark.filterwarnings("ignore:.*classes have no:UserWarning")
def test_passes_scikit_learns_checks():
    results = check_estimator(
        PLMClassifier(max_epochs=20, learning_rate=0.01),
        expected_failed_checks={
            "check_sample_weight_equivalence_on_dense_data": NO_EQUIVALENCE,
            "check_sample_weight_equivalence_on_sparse_data": NO_EQUIVALENCE,
        },
        on_skip=None,
    )
    assert sum(result["status"] == "passed" for result in results) > 55


@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_equals_a_loop_in_torch(rate):
    X, Y = make_data(50)
    model = quick(rate=rate, expected=True, batch_size=50, hidden_layer_sizes=(7, 5), weight_decay=0.1).fit(
        X, Y
    )
    start = quick(rate=rate, hidden_layer_sizes=(7, 5), learning_rate=1e-12, max_epochs=1).fit(X, Y)

    network = nn.Sequential(nn.Linear(12, 7), nn.ReLU(), nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 4))
    with torch.no_grad():
        for parameter, initial in zip(
            network.parameters(), start._training.network.parameters(), strict=True
        ):
            parameter.copy_(initial)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01, weight_decay=0.1)
    inputs, targets = torch.from_numpy(X).float(), torch.from_numpy(Y).float()
    criterion = PartialLabelMasking.from_targets(targets, rate=rate, expected=True)
    losses = []
    for _ in range(5):
        loss = criterion(network(inputs), targets)
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
        criterion.step()
    np.testing.assert_allclose(model.decision_function(X), network(inputs).detach(), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(model.criterion_.target_ratio, criterion.target_ratio, rtol=1e-4)
    np.testing.assert_allclose(model.loss_curve_, losses, rtol=1e-4)
    assert model.ratio_curve_.shape == (5, 4)
    assert model.n_iter_ == 5


def test_results_depend_on_the_seed_alone():
    X, Y = make_data()
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = quick(early_stopping=True).fit(X, Y)
    assert torch.get_rng_state().equal(state)
    torch.manual_seed(2)
    second = quick(early_stopping=True).fit(X, Y)
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    other = quick(early_stopping=True, random_state=1).fit(X, Y)
    assert not np.array_equal(first.predict_proba(X), other.predict_proba(X))


def test_sparse_features_and_labels_are_the_same_as_dense():
    X, Y = make_data()
    X[np.abs(X) < 0.5] = 0
    dense = quick(early_stopping=True).fit(X, Y)
    for kind in (sparse.csr_array, sparse.csc_matrix):
        model = quick(early_stopping=True).fit(kind(X), kind(Y))
        np.testing.assert_array_equal(model.predict_proba(kind(X)), dense.predict_proba(X))


def test_thin_features_are_the_same_as_dense_but_for_rounding():
    X, Y = make_data()
    X = np.concatenate([X, np.zeros((len(X), 200))], axis=1)
    X[np.abs(X) < 0.5] = 0
    dense, thin = quick().fit(X, Y), quick().fit(sparse.csr_array(X), Y)
    np.testing.assert_allclose(thin.predict_proba(X), dense.predict_proba(X), rtol=1e-4)
    with pytest.raises(ValueError, match="infinite"):
        quick(learning_rate=1e30).fit(sparse.csr_array(X), Y)


def test_one_of_several_classes():
    X, _ = make_data()
    names = np.array(["ant", "bee", "cat"])
    y = names[np.digitize(X[:, 0], [-0.3, 1.0])]
    model = quick(max_epochs=30).fit(X, y)
    assert model.classes_.tolist() == names.tolist()
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (300, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X), names[probabilities.argmax(axis=1)])
    outputs = 1 / (1 + np.exp(-model.decision_function(X)))
    np.testing.assert_allclose(probabilities, outputs / outputs.sum(axis=1, keepdims=True))
    assert model.score(X, y) > 0.9
    np.testing.assert_array_equal(model.criterion_.class_counts[1], [(y == name).sum() for name in names])


def test_one_of_two_classes():
    X, _ = make_data()
    y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0.9, "yes", "no")
    model = quick(max_epochs=30, thresholds=0.3).fit(X, y)
    second = model.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(model.predict(X), np.where(second >= 0.3, "yes", "no"))
    scores = model.decision_function(X)
    np.testing.assert_allclose(second, 1 / (1 + np.exp(-scores)))
    assert model.ratio_curve_[-1, 0] != model.ratio_curve_[0, 0]  # two outputs, so that ratios can move
    tuned = quick(max_epochs=30, thresholds="tuned").fit(X, y)
    assert tuned.thresholds_[1] != 0.5
    np.testing.assert_array_equal(
        tuned.predict(X) == "yes", tuned.predict_proba(X)[:, 1] >= tuned.thresholds_[1]
    )


def held_out(model: PLMClassifier, Y: np.ndarray) -> np.ndarray:
    """Which rows a fit has held out, drawn once more from its seed."""
    seed = np.random.RandomState(model.random_state).randint(np.iinfo(np.int32).max)
    generator = torch.Generator().manual_seed(seed)
    return hold_out(torch.from_numpy(Y).float(), model.validation_fraction, generator)[1].numpy()


@pytest.mark.parametrize(
    "options", [{"early_stopping": True}, {"thresholds": "tuned"}, {"adapt": "prevalence", "rate": 0.1}]
)
def test_class_ratios_are_those_of_the_training_part(options):
    X, Y = make_data()
    model = quick(validation_fraction=0.25, **options).fit(X, Y)
    held = held_out(model, Y)
    assert 60 <= len(held) <= 90
    kept = np.delete(Y, held, axis=0)
    np.testing.assert_array_equal(model.criterion_.class_counts[1], kept.sum(axis=0))
    np.testing.assert_array_equal(model.criterion_.class_counts[0], (1 - kept).sum(axis=0))


def test_class_ratios_are_those_of_the_fold():
    X, Y = make_data()
    folds = list(KFold(3).split(X))
    results = cross_validate(quick(), X, Y, cv=folds, return_estimator=True)
    for (train, _), model in zip(folds, results["estimator"], strict=True):
        np.testing.assert_array_equal(model.criterion_.class_counts[1], Y[train].sum(axis=0))


def test_tuned_thresholds_are_those_of_the_held_out_rows():
    X, Y = make_data()
    model = quick(thresholds="tuned", validation_fraction=0.3).fit(X, Y)
    held = held_out(model, Y)
    probabilities = torch.from_numpy(model.predict_proba(X[held]))
    expected = fit_thresholds(probabilities, torch.from_numpy(Y[held]))
    np.testing.assert_allclose(model.thresholds_, expected, rtol=1e-6)
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X) >= model.thresholds_)
    plain = quick(thresholds=0.25).fit(X, Y)
    np.testing.assert_array_equal(plain.predict(X), plain.predict_proba(X) >= 0.25)


def test_stops_early_and_keeps_the_best_epoch():
    X, Y = make_data()
    options = {"max_epochs": 200, "learning_rate": 0.05, "validation_fraction": 0.3, "n_iter_no_change": 4}
    model = quick(early_stopping=True, **options).fit(X, Y)
    assert 4 < model.n_iter_ < 200
    assert len(model.validation_scores_) == model.n_iter_
    best = int(np.argmax(model.validation_scores_))
    assert model.n_iter_ == best + 1 + 4
    held = held_out(model, Y)
    score = f1_score(Y[held], model.predict(X[held]), average="macro", zero_division=0)
    assert score == pytest.approx(model.validation_scores_[best])
    y = Y.argmax(axis=1)
    assert len(quick(early_stopping=True).fit(X, y).validation_scores_) == 5


@pytest.mark.parametrize("options", [{}, {"adapt": "prevalence", "rate": 0.1}])
def test_the_ratios_are_those_of_the_best_epoch_too(options, monkeypatch):
    if options:  # whatever the length
        monkeypatch.setattr(Schedule, "of", lambda *_, **options: Schedule(options["rate"], warmup=5))
    X, Y = make_data()
    shared = {"early_stopping": True, "learning_rate": 0.05, "validation_fraction": 0.3} | options
    model = quick(max_epochs=200, n_iter_no_change=8, **shared).fit(X, Y)
    best = int(np.argmax(model.validation_scores_))
    assert model.n_iter_ > best + 1
    other = quick(max_epochs=best + 1, **shared).fit(X, Y)
    np.testing.assert_array_equal(model.predict_proba(X), other.predict_proba(X))
    found, expected = model.criterion_.state_dict(), other.criterion_.state_dict()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=0)
    torch.testing.assert_close(model.criterion_.prior_shift(), other.criterion_.prior_shift())
    after = model.ratio_curve_[best + 1]  # what the next epoch was trained at
    np.testing.assert_array_equal(model.criterion_.target_ratio, after)
    np.testing.assert_array_equal(model.ratio_curve_[-1] == after, [False] * 4)


def test_rate_adaptation_follows_the_held_out_rows():
    X, Y = make_data()
    model = quick(adapt="prevalence", rate=0.1, max_epochs=60, validation_fraction=0.3).fit(X, Y)
    assert model.criterion_.statistics == "validation"
    moved = np.abs(np.diff(np.log(model.ratio_curve_), axis=0)).max(axis=1) > 0
    assert not moved[:30].any()
    assert moved[30:].all()


def test_early_stopping_waits_for_the_ratios_to_move():
    X, Y = make_data()
    options = {"early_stopping": True, "n_iter_no_change": 2, "max_epochs": 100, "learning_rate": 0.05}
    assert quick(**options).fit(X, Y).n_iter_ < 30
    waiting = quick(adapt="prevalence", rate=None, **options).fit(X, Y)
    assert (waiting.criterion_.rate, waiting.criterion_.warmup) == (0.3, 30), "it may end long before 100"
    assert waiting.n_iter_ > 32
    assert quick(adapt="prevalence", rate=0.0, **options).fit(X, Y).n_iter_ < 30, "no ratio to wait for"


@pytest.mark.parametrize(
    ("max_epochs", "rate", "expected"),
    [(100, None, (0.18, 50)), (30, None, (0.5, 15)), (4, None, (1.0, 2)), (4, 0.3, (0.3, 2))],
)
def test_rate_adaptation_fits_itself_to_the_length_of_training(max_epochs, rate, expected):
    X, Y = make_data(60)
    model = quick(adapt="prevalence", rate=rate, max_epochs=max_epochs).fit(X, Y)
    assert (model.criterion_.rate, model.criterion_.warmup) == expected
    assert (model.ratio_curve_[-1] != model.ratio_curve_[0]).any()


@pytest.mark.parametrize("seed", range(4))
def test_few_labelled_rows_among_many(seed):
    X, Y = make_data(200)
    Y = np.where(np.arange(200)[:, None] < 12, Y, -1)
    model = quick(adapt="prevalence", thresholds="tuned", random_state=seed).fit(X, Y)
    assert (model.criterion_.class_counts.sum(dim=0) < 12).all()
    with pytest.raises(ValueError, match=r"^1 labelled samples are too few to hold some out"):
        quick(adapt="prevalence").fit(X, np.where(np.arange(200)[:, None] < 1, Y, -1))


def test_the_default_dtype_has_no_say():
    X, Y = make_data(60)
    expected = quick().fit(X, Y).predict_proba(X)
    torch.set_default_dtype(torch.float64)
    try:
        found = quick().fit(X, Y).predict_proba(X)
    finally:
        torch.set_default_dtype(torch.float32)
    np.testing.assert_array_equal(found, expected)


def test_an_estimator_whose_fit_failed_is_not_fitted():
    X, Y = make_data(60)
    model = quick(early_stopping=True)
    for _ in range(2):  # the first time, and after another fit
        model.set_params(validation_fraction=0.001)
        with pytest.raises(ValueError, match="too few to hold some out"):
            model.fit(X[:, :3], Y)
        with pytest.raises(NotFittedError):
            model.predict(X)
        model.set_params(validation_fraction=0.3).fit(X, Y)
        assert model.predict(X).shape == Y.shape


@pytest.mark.parametrize(
    ("rate", "max_epochs", "what"), [(1e30, 5, "logits were"), (1e38, 1, "the network's weights became")]
)
@pytest.mark.parametrize(
    "options", [{}, {"thresholds": "tuned"}, {"early_stopping": True}, {"adapt": "prevalence", "rate": None}]
)
def test_nor_is_one_that_has_diverged(options, rate, max_epochs, what):
    X, Y = make_data(60)
    model = quick(learning_rate=rate, weight_decay=0, max_epochs=max_epochs, batch_size=60, **options)
    with pytest.raises(ValueError, match=f"{what} NaN or infinite: lower "):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_rows_may_be_read_only():
    X, Y = make_data(60)
    X = X.astype(np.float32)
    for array in (X, Y):
        array.setflags(write=False)
    with warnings.catch_warnings(action="error"):
        quick(thresholds="tuned").fit(X, Y).predict(X)


def test_the_default_device_has_no_say():
    X, Y = make_data(60)
    options = {"adapt": "prevalence", "rate": None, "thresholds": "tuned"}
    expected = quick(**options).fit(X, Y, np.ones(60)).predict_proba(X)
    with second_device():
        found = quick(**options).fit(X, Y, np.ones(60)).predict_proba(X)
    np.testing.assert_array_equal(found, expected)


def test_unknown_labels_count_nowhere():
    X, Y = make_data()
    unknown = np.random.default_rng(0).random(Y.shape) < 0.3
    unknown[:20] = True  # samples without any known label
    marked = np.where(unknown, -1, Y)
    model = quick().fit(X, marked)
    np.testing.assert_array_equal(model.criterion_.class_counts[1], (marked == 1).sum(axis=0))
    np.testing.assert_array_equal(model.criterion_.class_counts[0], (marked == 0).sum(axis=0))
    other = quick().fit(X, np.where(unknown, np.nan, Y))
    np.testing.assert_array_equal(model.predict_proba(X), other.predict_proba(X))
    quick(thresholds="tuned", early_stopping=True).fit(X, marked)


def test_works_in_pipelines_and_searches():
    X, Y = make_data()
    rates = (0.0, 0.2)

    def score_of_fold(rate, train, test):
        scaler = StandardScaler().fit(X[train])
        model = quick(rate=rate).fit(scaler.transform(X[train]), Y[train])
        return f1_score(Y[test], model.predict(scaler.transform(X[test])), average="macro")

    expected = [np.mean([score_of_fold(rate, *fold) for fold in KFold(3).split(X)]) for rate in rates]
    assert abs(expected[0] - expected[1]) > 0.01, "there is something to choose"
    pipeline = make_pipeline(StandardScaler(), quick())
    search = GridSearchCV(pipeline, {"plmclassifier__rate": rates}, scoring="f1_macro", cv=3)
    search.fit(10 * X + 3, Y)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected, atol=0.005)
    best = rates[int(np.argmax(expected))]
    assert search.best_params_ == {"plmclassifier__rate": best}
    assert (search.predict(10 * X + 3) == quick(rate=best).fit(X, Y).predict(X)).mean() > 0.99
    assert cross_val_score(quick(), X, Y, scoring="average_precision", cv=2).shape == (2,)
    loss = nn.BCEWithLogitsLoss(reduction="none")
    copy = clone(quick(loss=loss))
    assert copy.get_params()["loss"] is not loss
    copy.fit(X, Y)


@pytest.mark.parametrize("loss", [*OTHER_LOSSES, nn.BCEWithLogitsLoss(reduction="none")])
def test_other_losses(loss):
    X, Y = make_data()
    model = quick(loss=loss).fit(X, Y)
    plain = quick().fit(X, Y)
    same = isinstance(loss, nn.Module)
    assert np.allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-4) == same


def test_losses_take_the_options_of_the_method_grammar():
    X, Y = make_data()
    for name, loss in {
        "asl:detach=false": AsymmetricLoss(detach=False, reduction="none"),
        "asl:detach=true": "asl",
        "focal:gamma=1,alpha=0.3": FocalLoss(1.0, alpha=0.3, reduction="none"),
        "bce:pos_power=0": "bce",
    }.items():
        found, expected = (quick(loss=each).fit(X, Y).predict_proba(X) for each in (name, loss))
        np.testing.assert_array_equal(found, expected, err_msg=name)
    detached, attached = (quick(loss=each).fit(X, Y).predict_proba(X) for each in ("asl", "asl:detach=false"))
    assert not np.allclose(detached, attached, atol=1e-3)


def test_masking_shows_in_a_short_fit_with_the_rate_by_default():
    """A grid over `rate` of 0 and None has something to choose from; 0.05 would hardly move a ratio."""
    X, Y = make_data()
    moved = {}
    for rate in (0.0, 0.05, None):
        criterion = quick(adapt="prevalence", rate=rate, max_epochs=10).fit(X, Y).criterion_
        moved[rate] = float((criterion.target_ratio / criterion.class_ratio).log().abs().max())
    assert moved[0.0] == pytest.approx(0, abs=1e-6)
    assert moved[0.05] < 0.3 < 1 < moved[None]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "focl"}, "did you mean 'focal'"),
        ({"loss": "asl:detatch=false"}, "did you mean 'detach'"),
        ({"loss": "asl+cb"}, "did you mean 'asl'"),
        ({"loss": "asl:detach=false+cb"}, "loss alone, such as 'asl', got 'asl:detach=false\\+cb'"),
        ({"loss": "bce:pos_power=1"}, "plm does not go with bce:pos_power: both set the ratio"),
        ({"max_epochs": 0}, "max_epochs must be an integer of 1 or more, got 0"),
        ({"batch_size": 2.5}, "batch_size must be an integer"),
        ({"validation_fraction": 1.0}, "validation_fraction must lie between 0 and 1, got 1.0"),
        (
            {"validation_fraction": "tuned", "early_stopping": True},
            "validation_fraction must lie between 0 and 1",
        ),
        ({"learning_rate": -1.0}, "learning_rate must be a number above 0, got -1.0"),
        ({"learning_rate": 0}, "learning_rate must be a number above 0, got 0"),
        ({"learning_rate": np.inf}, "learning_rate must be a number above 0, got inf"),
        ({"learning_rate": "fast"}, "learning_rate must be a number above 0, got 'fast'"),
        ({"weight_decay": -1e-4}, "weight_decay must be a number of 0 or more, got -0.0001"),
        ({"weight_decay": np.nan}, "weight_decay must be a number of 0 or more, got nan"),
        ({"thresholds": "tunde"}, "thresholds must lie between 0 and 1 or be 'tuned', got 'tunde'"),
        ({"thresholds": np.full(4, 0.3)}, r"thresholds must lie between 0 and 1 or be 'tuned', got array"),
        ({"hidden_layer_sizes": (-3,)}, r"hidden_layer_sizes must be integers of 1 or more, got \(-3,\)"),
        ({"hidden_layer_sizes": (0,)}, r"hidden_layer_sizes must be integers of 1 or more, got \(0,\)"),
        ({"hidden_layer_sizes": 0}, "hidden_layer_sizes must be integers of 1 or more, got 0"),
        ({"hidden_layer_sizes": "100"}, "hidden_layer_sizes must be integers of 1 or more, got '100'"),
        ({"hidden_layer_sizes": ("100",)}, "hidden_layer_sizes must be integers of 1 or more"),
        ({"hidden_layer_sizes": (8, 2.5)}, "hidden_layer_sizes must be integers of 1 or more"),
        ({"hidden_layer_sizes": ((8, 4),)}, "hidden_layer_sizes must be integers of 1 or more"),
        ({"hidden_layer_sizes": None}, "hidden_layer_sizes must be integers of 1 or more, got None"),
        ({"adapt": "prevalenc"}, "did you mean 'prevalence'"),
        ({"rate": -1.0}, "rate must be 0 or more"),
        ({"validation_fraction": 0.001, "early_stopping": True}, "too few to hold some out"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(*make_data())


@pytest.mark.parametrize("sizes", [7, (7,), [7], np.array([7]), np.int64(7), range(7, 8)])
def test_one_hidden_layer_may_be_a_number(sizes):
    X, Y = make_data(50)
    layers = quick(hidden_layer_sizes=sizes, max_epochs=1).fit(X, Y)._training.network.layers
    assert [layer.out_features for layer in layers] == [7, 4]


def test_the_distribution_balanced_loss_has_the_class_counts_of_the_training_part():
    X, Y = make_data()
    model = quick(loss="db", early_stopping=True).fit(X, Y)
    expected = DistributionBalancedLoss(*reversed(model.criterion_.class_counts), reduction="none")
    logits, targets = torch.zeros(5, 4), torch.from_numpy(Y[:5]).float()
    torch.testing.assert_close(model.criterion_.loss(logits, targets), expected(logits, targets))
    with pytest.raises(ValueError, match=r'^loss="db" weighs by the class counts of all data: call fit$'):
        quick(loss="db").partial_fit(X, Y)


@pytest.mark.parametrize("module", ["sklearn", "tail_classifier"])
def test_the_extra_that_is_missing_is_named(module):
    code = f"import sys; sys.modules['sklearn'] = None; import tailmask.integrations.{module}"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'tailmask[sklearn]'" in ended.stderr


def test_targets_that_make_no_sense():
    X, Y = make_data()
    with pytest.raises(ValueError, match=r"must hold 0, 1, or -1 or NaN .*, got 2\.0"):
        quick().fit(X, 2 * Y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        quick().fit(X, Y[:-1])
    with pytest.raises(ValueError, match="got one class: 1"):
        quick().fit(X, np.ones(300))
    with pytest.raises(ValueError, match="got 4 classes, of which the one with the highest output"):
        quick(thresholds="tuned").fit(X, Y.argmax(axis=1))
    with pytest.raises(ValueError, match="hold rows out: call fit"):
        quick(early_stopping=True).partial_fit(X, Y)
    model = quick().partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"must have 4 columns.*, got 3"):
        model.partial_fit(X, Y[:, :3])


@pytest.mark.parametrize("unknown", [-1, np.nan])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_one_column_holds_classes_and_no_unknown_labels(unknown, method):
    X, Y = make_data(60)
    column = np.where(np.arange(60) < 5, unknown, Y[:, 0])[:, None]
    with pytest.raises(ValueError, match=r"^y with one column must hold classes, got 0, 1 and -1 or NaN"):
        getattr(quick(), method)(X, column)
    if unknown == -1:
        assert getattr(quick(), method)(X, column[:, 0]).classes_.tolist() == [-1, 0, 1]


@pytest.mark.parametrize("decide", ["f1", "precision=0.8", "recall=0.9", "cost=4"])
def test_thresholds_are_fitted_for_what_is_asked(decide):
    X, Y = _decided_data()
    model = PLMClassifier(max_epochs=20, decide=decide, random_state=0).fit(X, Y)
    assert not np.allclose(model.thresholds_, 0.5)
    if decide == "f1":
        tuned = PLMClassifier(max_epochs=20, thresholds="tuned", random_state=0).fit(X, Y)
        assert np.array_equal(model.thresholds_, tuned.thresholds_)


def test_a_number_of_labels_for_each_sample():
    X, Y = _decided_data()
    model = PLMClassifier(max_epochs=3, decide="top=2", random_state=0).fit(X, Y)
    assert model.predict(X).sum(axis=1).tolist() == [2] * len(X)
    with pytest.raises(ValueError, match=r"leave thresholds at 0\.5"):
        PLMClassifier(decide="f1", thresholds=0.3).fit(X, Y)
    with pytest.raises(ValueError, match="a decision rule is f1"):
        PLMClassifier(decide="best").fit(X, Y)
    with pytest.raises(ValueError, match="is for multi-label targets"):
        PLMClassifier(decide="top=2").fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="is for multi-label targets"):
        PLMClassifier(decide="recall=0.9").fit(X, Y.sum(axis=1))


def _decided_data():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, 5)).astype(np.float32)
    return X, (X[:, :3] + generator.normal(size=(300, 3)) > 0.8).astype(int)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_yes_and_no_come_back_as_frames(library: str) -> None:
    frame_of = pytest.importorskip(library).DataFrame
    rng = np.random.default_rng(0)
    features = rng.normal(size=(80, 2))
    X = frame_of({"a": features[:, 0], "b": features[:, 1]})
    words = {
        "hot": np.where(features[:, 0] > 0, "yes", "no"),
        "cold": np.where(features[:, 1] > 0, "Yes", "No"),
    }
    options = {"max_epochs": 3, "random_state": 0}
    model = PLMClassifier(**options).fit(X, frame_of(words))
    numbers = np.column_stack([features[:, 0] > 0, features[:, 1] > 0]).astype(int)
    plain = PLMClassifier(**options).fit(features, numbers)
    assert model.classes_.tolist() == ["hot", "cold"]
    for name in ("predict", "predict_proba"):
        found = getattr(model, name)(X)
        assert isinstance(found, frame_of)
        assert list(found.columns) == ["hot", "cold"]
        assert np.array_equal(np.asarray(found), getattr(plain, name)(features))
    with pytest.raises(ValueError, match="maybe"):
        model.fit(X, frame_of({"hot": ["maybe"] * 80, "cold": ["no"] * 80}))
