"""Some of the Estimators that random_estimators.py puts together.

`pytest tests/same_training/random_estimators_test.py --seeds 1000:1200` tries others.
"""

import pytest
from random_estimators import check, draw


@pytest.mark.seeds(2, 5, 13, 28, 1011)
def test_equal(seed):
    print(draw(seed))  # Shown if it fails.
    check(seed)
