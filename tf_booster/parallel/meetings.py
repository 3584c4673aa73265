"""Numbers of what all ranks do together, for the store's keys, and what is said of a call that one rank has left with an error.

Counts begin anew with every training, evaluation or prediction of all ranks: in one that only some ranks have left early, ranks have
counted differently.
"""

from __future__ import annotations

import collections
from typing import Counter, List


class Call:
    """A training, or another call to which all ranks have come, and what they do together in it; or all that is outside of one."""

    def __init__(self, name: str):
        self.name = name
        self.counts: Counter[str] = collections.Counter()

    @property
    def failure_key(self) -> str:
        """Where a rank puts the error with which it has left the call."""
        return f"failed-{self.name}"


_trainings = [0]  # So far, the same on all ranks.
_open = [Call("behind-0")]  # Each within the one before; the first is none.


def begin_training() -> Call:
    """To be called by all ranks, once they know of each other that they train."""
    _trainings[0] += 1
    _open[0] = Call(f"behind-{_trainings[0]}")
    _open.append(Call(f"in-{_trainings[0]}"))
    return _open[-1]


def begin_call() -> Call:
    """To be called by all ranks, once they know of each other that they have come to it."""
    _open.append(Call(next_of("call")))
    return _open[-1]


def end(call: Call) -> None:
    """This rank has left it, in whatever way, or will meet the others in it no more; again, if it likes."""
    if call in _open:
        del _open[_open.index(call) :]


def next_of(what: str) -> str:
    """The key of the next meeting of that kind. To be called in the same order on all ranks."""
    call = _open[-1]
    call.counts[what] += 1
    return f"{what}-{call.name}-{call.counts[what]}"


def failure_keys() -> List[str]:
    """Where ranks put the errors with which they leave the calls that this one is in."""
    return [call.failure_key for call in _open[1:]]
