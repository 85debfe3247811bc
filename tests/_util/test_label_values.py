"""One rule for labels from every source: the values that they may have, in any dtype."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
import torch
from torch.utils.data import DataLoader

from tailmask import PartialLabelMasking, losses, metrics
from tailmask.calibration import fit_thresholds
from tailmask.functional import histogram
from tailmask.masking import count_classes
from tailmask.metrics import StreamingMetrics, evaluate
from tailmask.sampling import ClassAwareSampler, UndersamplingSampler

TARGETS = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 1]])
CLASSES = torch.tensor([2, 0, 1, 0, 2])
SCORES = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
PREDICTIONS = SCORES > 0

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
DTYPES += [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def streamed(targets):
    metric = StreamingMetrics(3)
    metric.update(SCORES, targets)
    return torch.stack(list(metric.compute().values()))


def summary(targets, **options):
    return torch.tensor(list(evaluate(SCORES, targets, **options).summary.values()))


# Whatever takes labels (N, C), and gives tensors that say how it has read them.
READERS = {
    "count_classes": count_classes,
    "a DataLoader": lambda targets: count_classes(DataLoader(list(targets), batch_size=2)),
    "from_targets": lambda targets: PartialLabelMasking.from_targets(targets).target_ratio,
    "forward": lambda targets: PartialLabelMasking.from_targets(TARGETS)(SCORES, targets),
    "UndersamplingSampler": lambda targets: UndersamplingSampler(targets, 2).class_counts(),
    "ClassAwareSampler": lambda targets: ClassAwareSampler(targets).class_counts(),
    "BinaryCrossEntropy": lambda targets: losses.BinaryCrossEntropy()(SCORES, targets),
    "DistributionBalancedLoss": lambda targets: losses.DistributionBalancedLoss([1, 2, 3], [4, 3, 2])(
        SCORES, targets
    ),
    "sample_weights": lambda targets: losses.sample_weights(targets, torch.tensor([0.5, 1.0, 4.0])),
    "average_precision": lambda targets: metrics.average_precision(SCORES, targets),
    "ranking_loss": lambda targets: metrics.ranking_loss(SCORES, targets),
    "confusion": lambda targets: metrics.confusion(PREDICTIONS, targets).f1,
    "exact_match": lambda targets: metrics.exact_match(PREDICTIONS, targets),
    "calibration_error": lambda targets: metrics.calibration_error(SCORES.sigmoid(), targets)[0],
    "evaluate": summary,
    "StreamingMetrics": streamed,
    "fit_thresholds": lambda targets: fit_thresholds(SCORES.sigmoid(), targets),
    "histogram": lambda targets: histogram(SCORES.sigmoid(), targets),
}

# Those that take class indices (N,).
INDEX_READERS = {
    "count_classes": lambda classes: count_classes(classes, num_classes=3),
    "forward": lambda classes: PartialLabelMasking.from_targets(CLASSES, validate=True)(SCORES, classes),
    "UndersamplingSampler": lambda classes: UndersamplingSampler(classes, 2, num_classes=3).class_counts(),
    "sample_weights": lambda classes: losses.sample_weights(classes, torch.tensor([0.5, 1.0, 4.0])),
    "LDAMLoss": lambda classes: losses.LDAMLoss([2, 1, 2])(SCORES, classes),
    "evaluate": lambda classes: summary(classes, single_label=True),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_every_dtype_is_read_alike(read, dtype):
    torch.testing.assert_close(read(TARGETS.to(dtype)), read(TARGETS), equal_nan=True)


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64])
def test_arrays_of_unsigned_numbers_are_read_alike(dtype):
    array = TARGETS.numpy().astype(dtype)
    for read in (count_classes, lambda targets: UndersamplingSampler(targets, 2).class_counts()):
        assert torch.equal(read(array), read(TARGETS))
        assert torch.equal(read(CLASSES.numpy().astype(dtype)), read(CLASSES))


def test_arrays_in_another_order_are_read_alike():
    for array in (
        TARGETS.numpy()[::-1],
        np.asfortranarray(TARGETS.numpy()),
        TARGETS.numpy().repeat(2, 0)[::2],
        TARGETS.numpy().astype(">f4"),
        np.frombuffer(TARGETS.numpy().tobytes(), TARGETS.numpy().dtype).reshape(TARGETS.shape),  # read-only
    ):
        with warnings.catch_warnings(action="error"):
            assert torch.equal(count_classes(array), count_classes(TARGETS))
            ClassAwareSampler(array)


@pytest.mark.parametrize("array", [lambda tensor: tensor.numpy(), lambda tensor: tensor.tolist()])
@pytest.mark.parametrize(
    "name", ["evaluate", "average_precision", "ranking_loss", "calibration_error", "exact_match"]
)
def test_measures_take_arrays_and_lists(name, array):
    torch.testing.assert_close(READERS[name](array(TARGETS)), READERS[name](TARGETS), equal_nan=True)


def test_outputs_and_counts_may_be_arrays_as_estimators_give_them():
    counts = TARGETS.sum(dim=0)
    expected = evaluate(SCORES, TARGETS, train_positives=counts).summary
    assert evaluate(SCORES.numpy(), TARGETS.numpy(), train_positives=counts.tolist()).summary == expected
    single = evaluate(SCORES, CLASSES, single_label=True).summary
    assert evaluate(SCORES.numpy(), CLASSES.numpy(), single_label=True).summary == single


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32], ids=str)
@pytest.mark.parametrize("read", INDEX_READERS.values(), ids=INDEX_READERS)
def test_every_dtype_of_class_indices_is_read_alike(read, dtype):
    torch.testing.assert_close(read(CLASSES.to(dtype)), read(CLASSES), equal_nan=True)


# The others leave bad values to `step` to report, or are for labels that were read already.
CHECKED = {
    name: read for name, read in READERS.items() if name not in ("forward", "sample_weights", "histogram")
}


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (torch.uint8, 255),  # which to torch equals −1
        (torch.int8, -2),
        (torch.int64, 2),
        (torch.int64, -100),
        (torch.float32, -0.5),
        (torch.float32, 1.5),
        (torch.float64, torch.inf),
        (torch.bfloat16, -torch.inf),
    ],
)
@pytest.mark.parametrize("read", CHECKED.values(), ids=CHECKED)
def test_every_reader_refuses_the_same(read, dtype, value):
    targets = TARGETS.to(dtype, copy=True)
    targets[3, 1] = value
    message = rf"targets must be 0, 1, soft labels between, or unknown \(-1 or NaN\), got {value:g}: "
    with pytest.raises(ValueError, match=message):
        read(targets)


@pytest.mark.parametrize("name", ["count_classes", "UndersamplingSampler"])
def test_the_mark_of_other_losses_is_to_be_replaced(name):
    targets = TARGETS.to(torch.int64, copy=True)
    targets[3, 1] = -100
    read = READERS[name]
    for labels in (targets, torch.tensor([0, 1, -100])):
        with pytest.raises(ValueError, match=r"got -100.*: mark unknown labels with -1"):
            read(labels)


@pytest.mark.parametrize("unknown", [-1.0, torch.nan])
@pytest.mark.parametrize("read", CHECKED.values(), ids=CHECKED)
def test_unknown_labels_are_refused_by_none(read, unknown):
    targets = TARGETS.to(torch.float32)
    targets[3, 1] = unknown
    read(targets)


@pytest.mark.parametrize(
    ("dtype", "value"), [(torch.int64, 3), (torch.int64, -2), (torch.int8, -100), (torch.uint8, 255)]
)
@pytest.mark.parametrize("read", INDEX_READERS.values(), ids=INDEX_READERS)
def test_every_reader_of_class_indices_refuses_the_same(read, dtype, value):
    classes = CLASSES.to(dtype, copy=True)
    classes[1] = value
    with pytest.raises(ValueError, match=r"class indices must be from 0 to 2, or -1 if unknown|in range"):
        read(classes)


@pytest.mark.parametrize("read", INDEX_READERS.values(), ids=INDEX_READERS)
def test_class_indices_are_unknown_as_minus_one_and_integers(read):
    classes = CLASSES.clone()
    classes[1] = -1
    read(classes)
    for dtype in (torch.float32, torch.bool):
        with pytest.raises(ValueError, match=rf"class indices and must be integers, got {dtype}"):
            read(CLASSES.to(dtype))


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (np.array(["cat", "dog"]), "targets must be numbers, got an array of <U3: encode"),
        ([["cat"], ["dog"]], "targets must be numbers, got an array of <U3"),
        (np.array([[1, None]], dtype=object), "targets must be numbers, got an array of object"),
        ([[1, 0], [1]], "targets must be numbers, got rows of different lengths"),
        (torch.ones(2, 3, dtype=torch.complex64), "targets must be numbers, got torch.complex64"),
        (np.array([[1 + 2j]]), "targets must be numbers, got torch.complex128"),
    ],
)
def test_what_are_no_numbers(targets, message):
    for read in (count_classes, PartialLabelMasking.from_targets, ClassAwareSampler):
        with pytest.raises(ValueError, match=message):
            read(targets)


@pytest.mark.parametrize(
    "targets",
    [TARGETS, scipy.sparse.csr_array(TARGETS.numpy()), DataLoader(list(TARGETS), batch_size=2)],
    ids=["dense", "sparse", "loader"],
)
def test_another_number_of_classes_than_the_targets_have(targets):
    message = r"num_classes .* 3, got 5: leave it out"
    with pytest.raises(ValueError, match=message):
        PartialLabelMasking.from_targets(targets, num_classes=5)
    assert count_classes(targets, num_classes=3).shape == (2, 3)
    if not isinstance(targets, DataLoader):
        with pytest.raises(ValueError, match=message):
            UndersamplingSampler(targets, 2, num_classes=5)


@pytest.mark.parametrize("number", [0, -1, 2.5, "3"])
def test_a_number_of_classes_that_is_none(number):
    for read in (count_classes, ClassAwareSampler):
        with pytest.raises(ValueError, match=f"num_classes must be a whole number above 0, got {number!r}"):
            read(CLASSES, num_classes=number)
