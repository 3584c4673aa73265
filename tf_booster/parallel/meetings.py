"""Numbers of what all ranks do together, for the store's keys, and what is said of a training that one rank has left with an error.

Counts begin anew with every training, and behind it: in one that only some ranks have left early, ranks have counted differently.
"""

from __future__ import annotations

import collections
from typing import Counter

_trainings = [0]  # So far, the same on all ranks.
_counts: Counter[str] = collections.Counter()  # In this training, or since.
_trains = [False]


def begin_training() -> None:
    """To be called by all ranks, once they know of each other that they train."""
    _trainings[0] += 1
    _trains[0] = True
    _counts.clear()


def end_training() -> None:
    """This rank has left it, in whatever way."""
    _trains[0] = False
    _counts.clear()


def next_of(what: str) -> str:
    """The key of the next meeting of that kind. To be called in the same order on all ranks."""
    _counts[what] += 1
    return f"{what}-{'in' if _trains[0] else 'behind'}-{_trainings[0]}-{_counts[what]}"


def failure_key() -> str:
    """Where a rank puts the error with which it has left this training; "" outside of trainings."""
    return f"failed-in-{_trainings[0]}" if _trains[0] else ""
