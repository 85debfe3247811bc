"""The numbers that are logged of a step."""

from __future__ import annotations

import pytest

from tailmask import PartialLabelMasking
from tailmask.integrations.logged_values import curves


@pytest.mark.parametrize(
    ("positives", "extremes"),
    [([10, 3], (3 / 47, 10 / 40)), ([10, 3, 0, 50], (3 / 47, 10 / 40)), ([0, 0], (9.36e-14, 9.36e-14))],
)
@pytest.mark.filterwarnings("ignore:.*classes have no|.*compares classes")
def test_extremes_are_of_the_classes_that_are_adapted(positives, extremes):
    criterion = PartialLabelMasking.from_counts(positives, [50 - number for number in positives], rate=0.0)
    criterion.counts.add_(1)
    values = curves(criterion.step())
    assert (values["plm/ratio_min"], values["plm/ratio_max"]) == pytest.approx(extremes, rel=1e-3)
