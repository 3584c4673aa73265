"""How the halves of a step are run, decided by measuring: what overlaps on one machine only costs on another."""

from __future__ import annotations

import statistics
from typing import Any, Callable, Dict, List, Optional

# The embedding graph of the next step beside the main graph; each half for itself, one after the other; both in one run.
AHEAD, APART, IN_ONE = "ahead", "apart", "in one"

# Steps before anything is measured: the first ones make executors and grow tables.
_WARM = 10
# Steps of a measurement, and how many of them are forgotten: a pipeline fills, or an executor is made.
_MEASURED, _FORGOTTEN = 14, 4
# What a measurement holds for. A measurement costs at most a hundredth of that many steps.
_HOLDS = 2000
# Overlap that wins less than this against two runs in turn is compared with one run, too, which saves 0.1 ms of two. Not before:
# to make its executor takes as long as to make the step's own, seconds where graphs are large.
_CLEAR = 0.85
# Seconds that two runs in turn take longer than one: of short steps that alone would look like a clear win (0.16 ms ahead, 0.27 in turn, 0.11 in one).
_SECOND_RUN = 0.15e-3


class Worth:
    """Says before each step how to run it. `always`: the manner of all steps, whatever it takes. `agreed`: is given each decision, a dict,
    and returns that which holds: where ranks wait for each other's halves, all run them in the same manner at the same step.

    What counts is the time from the begin of a step to that of the next one, so that what a program does between its steps, and
    the wait for its input, weigh as much as they do.
    """

    def __init__(
        self, always: Optional[str] = None, agreed: Callable[[Dict[str, Any]], Dict[str, Any]] = lambda mine: mine
    ):
        self._always, self._agreed = always, agreed
        self._manner, self._steps_left = AHEAD, _WARM
        self._open: List[str] = [AHEAD, APART]  # To be measured, in this order.
        self._measuring = False
        self._periods: List[float] = []
        self._found: Dict[str, float] = {}
        self._last_began: Optional[float] = None

    def manner(self, now: float) -> str:
        """How to run the step that begins at `now`, in seconds of any clock."""
        if self._always:
            return self._always
        if self._last_began is not None:
            self._note(now - self._last_began)
        self._last_began = now
        return self._manner

    def _note(self, period: float) -> None:
        self._steps_left -= 1
        if self._measuring:
            self._periods.append(period)
        if self._steps_left:
            return
        if self._measuring:
            self._found[self._manner] = statistics.median(self._periods[_FORGOTTEN:])
            self._periods.clear()
            if not self._open and self._manner is APART:
                if self._found[AHEAD] > _CLEAR * (self._found[APART] - _SECOND_RUN):
                    self._open.append(IN_ONE)
        elif not self._open:
            self._open = [AHEAD, APART] if IN_ONE not in self._found else [AHEAD, IN_ONE]
        self._measuring = bool(self._open)
        if self._measuring:
            self._manner, self._steps_left = self._open.pop(0), _MEASURED
        else:
            candidates = [manner for manner in (AHEAD, IN_ONE) if manner in self._found]
            self._manner, self._steps_left = min(candidates, key=self._found.__getitem__), _HOLDS
        said = self._agreed(
            {"manner": self._manner, "steps": self._steps_left, "measuring": self._measuring, "open": self._open}
        )
        # The manners themselves, which are compared by identity.
        ours = {manner: manner for manner in (AHEAD, APART, IN_ONE)}
        self._manner, self._steps_left = ours[said["manner"]], said["steps"]
        self._measuring, self._open = said["measuring"], [ours[manner] for manner in said["open"]]
