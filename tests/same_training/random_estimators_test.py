"""Some of the Estimators that random_estimators.py puts together.

`pytest tests/same_training/random_estimators_test.py --seeds 1000:1200` tries others.
"""

import pytest
from random_estimators import check, check_repeated, draw


@pytest.mark.seeds(2, 5, 13, 28, 1011)
def test_equal(seed):
    print(draw(seed))  # Shown if it fails.
    check(seed)


@pytest.mark.seeds(1, 9, 11)
def test_predictions_with_repeated_features(seed):
    """In the first one an op of the rest waits for what is expanded, and an op of the region for that."""
    print(draw(seed))
    check_repeated(seed)
