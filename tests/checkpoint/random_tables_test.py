"""Some of the lives that random_tables.py puts together.

`pytest tests/checkpoint/random_tables_test.py --seeds 1000:1500` tries others.
"""

import pytest
from random_tables import check, draw


@pytest.mark.seeds(0, 1, 2, 3, 4, 5, 6, 7)
def test_equal(seed):
    print(draw(seed))  # Shown if it fails.
    check(seed)
