"""Checks of what public functions are given: errors name function, argument, what was found and what is wanted."""

from __future__ import annotations

import math
import numbers
import os
from typing import Any

import numpy as np

INT64_MAX = 2**63 - 1


def plain(value: Any) -> Any:
    """A number, truth or string of numpy as Python's own; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def is_int(value: Any) -> bool:
    """Whether it is an integer, numpy's among them; truths are none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether it is a real number, numpy's among them; truths are none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def checked_int(what: str, argument: str, value: Any, minimum: int, maximum: int = INT64_MAX) -> int:
    """`value` as Python's int. Raises TypeError, ValueError."""
    if not is_int(value):
        raise TypeError(f"{what}: {argument} is {value!r}, wanted an integer")
    if not minimum <= value <= maximum:
        raise ValueError(f"{what}: {argument} is {value}, wanted an integer from {minimum} to {maximum}")
    return int(value)


def check_finite(what: str, argument: str, value: Any, minimum: float = -math.inf) -> None:
    """Raises TypeError, ValueError unless `value` is a finite number of at least `minimum`."""
    if not is_number(value):
        raise TypeError(f"{what}: {argument} is {value!r}, wanted a number")
    if not math.isfinite(value) or value < minimum:
        least = "" if minimum == -math.inf else f" of at least {minimum:g}"
        raise ValueError(f"{what}: {argument} is {value}, wanted a finite number{least}")


def checked_path(what: str, argument: str, value: Any) -> str:
    """The name of a file or folder, a string or os.PathLike, as a string. Raises TypeError, ValueError."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{what}: {argument} is {value!r}, wanted a path")
    if not os.fspath(value):
        raise ValueError(f"{what}: {argument} is empty, wanted a path")
    return os.fspath(value)
