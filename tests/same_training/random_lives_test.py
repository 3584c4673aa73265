"""Some of the lives that random_lives.py puts together.

`pytest tests/same_training/random_lives_test.py --seeds 1000:1050` tries others.
"""

import pytest
from random_lives import check, draw


@pytest.mark.seeds(3, 7, 9)
def test_equal(seed):
    print(draw(seed))  # Shown if it fails.
    check(seed)
