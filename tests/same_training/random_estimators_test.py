"""Some of the Estimators that random_estimators.py puts together."""

import pytest
from random_estimators import check


@pytest.mark.parametrize("seed", [2, 5, 13])
def test_equal(seed):
    check(seed)
