"""How the halves of a step are run, decided by measuring: what overlaps on one machine only costs on another."""

from __future__ import annotations

import collections
import os
import statistics
from typing import Any, Callable, Deque, Dict, List, Optional

# The embedding graph of the next step beside the main graph; each half for itself, one after the other; both in one run.
AHEAD, APART, IN_ONE = "ahead", "apart", "in one"

# Steps before anything is measured: the first ones make executors and grow tables.
_WARM = 10
# Manners take turns of so many steps, of which the first are forgotten: a pipeline fills or runs dry, or an executor is made.
_TURN, _FORGOTTEN = 12, 4
# Short steps take longer turns, of so many seconds or steps: where a system puts two threads it leaves them for milliseconds, on one core, too.
_TURN_SECONDS, _TURN_AT_MOST = 0.02, 96
# First whether overlap wins clearly over two runs in turn. Where it wins less than _CLEAR, one run is tried, too, which saves what a second
# run costs. Not before: to make its executor takes as long as to make the step's own, seconds where graphs are large.
_IS_IT_CLEAR = 2 * [AHEAD, APART]
_CLEAR = 0.85
# Seconds that two runs in turn take longer than one: of short steps that alone would look like a clear win.
_SECOND_RUN = 0.15e-3
# Turns take turns, so that what changes meanwhile (tables grow, another program starts) weighs on both alike.
_WHICH = 5 * [IN_ONE, AHEAD]
# Overlap needs a second thread: it has to win so much. On one core it wins only where a half waits, and then much; what else is measured there is
# chance. To change the manner again it takes so much, and that in each turn.
_WINS, _WINS_ON_ONE_CORE, _CHANGES = 0.96, 0.9, 0.96
# How many turns a choice holds; twice as many each time that it is found to be right. Of 140 turns five are run in the other manner.
_HOLDS, _HOLDS_AT_MOST = 140, 1120


class Worth:
    """Says before each step how to run it. `always`: the manner of all steps, whatever it takes. `agreed`: is given each decision, a dict,
    and returns that which holds: where ranks wait for each other's halves, all run them in the same manner at the same step.

    What counts is the time from the begin of a step to that of the next one, so that what a program does between its steps, and
    the wait for its input, weigh as much as they do; of all of a manner's, the median.
    """

    def __init__(
        self, always: Optional[str] = None, agreed: Callable[[Dict[str, Any]], Dict[str, Any]] = lambda mine: mine
    ):
        self._always, self._agreed = always, agreed
        self._manner, self._steps_left = AHEAD, _WARM
        self._turns: List[str] = []  # To come, in this order.
        self._measuring = False
        self._turn = _TURN
        self._recent: Deque[float] = collections.deque(maxlen=_WARM)
        self._wins = _WINS if num_cores() > 1 else _WINS_ON_ONE_CORE
        self._chosen: Optional[str] = None
        self._holds = _HOLDS
        self._periods: Dict[str, List[List[float]]] = {}  # Of each manner's turns.
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

    def to_dict(self) -> Dict[str, Any]:
        """What was chosen, "ahead" or "in one" (None: it is not known yet), and the milliseconds of a step that were measured for it last."""
        return {
            "manner": self._always or self._chosen,
            "measured_ms": {manner: round(1e3 * found, 4) for manner, found in self._found.items()},
        }

    def _note(self, period: float) -> None:
        self._steps_left -= 1
        self._recent.append(period)
        if self._measuring and self._steps_left < self._turn - _FORGOTTEN:
            self._periods[self._manner][-1].append(period)
        if self._steps_left:
            return
        if not self._turns:
            self._go_on()
        if self._turns:
            self._manner, self._steps_left = self._turns.pop(0), self._turn
            self._periods.setdefault(self._manner, []).append([])

    def _go_on(self) -> None:
        """After the first steps, after all turns, or when a choice has held long enough."""
        if self._measuring:
            self._found.update({manner: statistics.median(sum(turns, [])) for manner, turns in self._periods.items()})
        said = self._agreed(self._next())
        self._periods.clear()
        # The manners themselves, which are compared by identity.
        ours = {manner: manner for manner in (AHEAD, APART, IN_ONE)}
        self._turns, self._turn = [ours[manner] for manner in said["turns"]], said["turn"]
        self._measuring = bool(self._turns)
        if not self._turns:
            self._chosen = self._manner = ours[said["manner"]]
            self._steps_left = said["holds"] * self._turn

    def _next(self) -> Dict[str, Any]:
        """Turns to measure, of how many steps; without any: in which manner to run for how many turns."""
        if not self._measuring:
            usual = statistics.median(self._recent)
            turn = min(max(int(_TURN_SECONDS / usual) if usual > 0 else 0, _TURN), _TURN_AT_MOST)
            return {"turns": _WHICH if IN_ONE in self._found else _IS_IT_CLEAR, "turn": turn}
        if IN_ONE not in self._found:
            clear = _CLEAR * (self._found[APART] - _SECOND_RUN)
            if self._found[AHEAD] > clear or not self._in_each_turn_less(AHEAD, APART):
                return {"turns": _WHICH, "turn": self._turn}
            best = AHEAD
        else:
            best = self._best()
        self._holds = min(2 * self._holds, _HOLDS_AT_MOST) if best is self._chosen else _HOLDS
        return {"turns": [], "turn": self._turn, "manner": best, "holds": self._holds}

    def _best(self) -> str:
        if self._chosen is None:
            return AHEAD if self._found[AHEAD] < self._wins * self._found[IN_ONE] else IN_ONE
        other = IN_ONE if self._chosen is AHEAD else AHEAD
        less = self._found[other] < _CHANGES * self._found[self._chosen]
        return other if less and self._in_each_turn_less(other, self._chosen) else self._chosen

    def _in_each_turn_less(self, one: str, other: str) -> bool:
        pairs = zip(self._periods[one], self._periods[other])
        return all(statistics.median(a) < statistics.median(b) for a, b in pairs)


def num_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))
