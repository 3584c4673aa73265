"""The rows that numpy_input_fn and pandas_input_fn put into their queue next, by an array of numbers in place of a list.

Of a list numpy makes an array for each column anew: of 40 columns that is most of what a row costs.
"""

from __future__ import annotations

import functools
from typing import Any, Tuple

import numpy as np


def wrap(original: Any) -> Any:
    """Wraps the function of their feeds that gives the next rows and the epoch."""

    @functools.wraps(original)
    def _get_integer_indices_for_next_batch(*args: Any, **kwargs: Any) -> Tuple[np.ndarray, int]:
        rows, epoch = original(*args, **kwargs)
        return np.asarray(rows, np.int64), epoch

    return _get_integer_indices_for_next_batch
