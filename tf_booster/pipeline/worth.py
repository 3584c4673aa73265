"""How the halves of a step are run, decided by measuring: what overlaps on one machine only costs on another."""

from __future__ import annotations

import collections
import math
import os
import statistics
from typing import Any, Callable, Deque, Dict, List, Optional

# The embedding graph of the next step beside the main graph; both halves in one run.
AHEAD, IN_ONE = "ahead", "in one"
# One run costs next to nothing where overlap loses. Tests begin otherwise: their programs end before anything is chosen.
BEGINS = IN_ONE

# Manners take turns of so many steps, of which the first are forgotten: a pipeline fills or runs dry, or an executor is made. The first turn lasts
# as long as steps become so much shorter: executors are made, tables grow.
_TURN, _FORGOTTEN, _STILL_FALLING = 8, 3, 0.75
# Later turns of short steps are longer, of so many seconds or steps: where a system puts two threads it leaves them for milliseconds, on one core,
# too. But of this part of all steps so far: a turn in the wrong manner costs.
_TURN_SECONDS, _TURN_AT_MOST, _PART_OF_ALL = 0.02, 96, 0.01
# Turns take turns, so that what changes meanwhile (tables grow, another program starts) weighs on both alike: so many of each, fewer where the first n
# differ by more than chance does (this over the root of n).
_PAIRS, _CHANCE = 5, 0.2
# Overlap needs a second thread: it has to win so much. On one core it wins only where a half waits, and then much; what else is measured there is
# chance. To change a manner that is found to be right it takes so much, and that in each turn.
_WINS, _WINS_ON_ONE_CORE, _CHANGES = 0.96, 0.9, 0.96
# How many steps a choice holds; twice as many each time that it is found to be right. And so many times what it cost to look, in steps, where a step
# of the other manner is thought to cost two at most: a turn may have met another program's burst.
_HOLDS, _HOLDS_AT_MOST, _TIMES_COST = 140, 8960, 100


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
        self._standing = self._manner = BEGINS  # The manner that another has to beat; that of this step.
        self._steps = 0
        self._steps_left = self._turn = _TURN
        self._turns: List[str] = []  # To come, in this order.
        self._measuring = False
        self._recent: Deque[float] = collections.deque(maxlen=_TURN_AT_MOST)
        self._wins = _WINS if num_cores() > 1 else _WINS_ON_ONE_CORE
        self._chosen: Optional[str] = None
        self._sure = False  # All turns were taken, or two looks have found the same.
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
        self._steps += 1
        self._steps_left -= 1
        self._recent.append(period)
        if self._steps_left:
            return
        if self._measuring:
            self._periods[self._manner].append(self._last_turn())
        if not self._turns:
            self._go_on()
        if self._turns:
            self._manner, self._steps_left = self._turns.pop(0), self._turn

    def _last_turn(self) -> List[float]:
        return list(self._recent)[_FORGOTTEN - self._turn :]

    def _go_on(self) -> None:
        """After the first turn, after the turns that were to be taken, or when a choice has held long enough."""
        if self._measuring:
            self._found.update({manner: statistics.median(sum(turns, [])) for manner, turns in self._periods.items()})
        said = self._agreed(self._next())
        # The manners themselves, which are compared by identity.
        ours = {manner: manner for manner in (AHEAD, IN_ONE)}
        self._turns, self._turn = [ours[manner] for manner in said["turns"]], said["turn"]
        if not self._turns:
            self._standing = self._manner = ours[said["manner"]]
            self._chosen = self._standing if said["is_chosen"] else None
            self._steps_left = said["steps"]
        elif not self._measuring:  # The steps until now were the other manner's turn.
            self._periods = {self._standing: [self._last_turn()], _other(self._standing): []}
        self._measuring = bool(self._turns)

    def _next(self) -> Dict[str, Any]:
        """Turns to take, of how many steps; without any: in which manner to run for how many steps."""
        standing, other = self._standing, _other(self._standing)
        if not self._measuring:
            if self._chosen is None and self._is_falling():
                return {"turns": [], "turn": _TURN, "manner": standing, "is_chosen": False, "steps": _TURN}
            usual = statistics.median(self._recent)
            turn = min(int(_TURN_SECONDS / usual) if usual > 0 else 0, _TURN_AT_MOST, int(_PART_OF_ALL * self._steps))
            return {"turns": [other], "turn": max(turn, _TURN)}
        best = self._best(other)
        if best is None:
            return {"turns": [standing, other], "turn": self._turn}
        num_turns = len(self._periods[other])
        self._sure = self._sure or num_turns == _PAIRS or best is self._chosen
        self._holds = min(2 * self._holds, _HOLDS_AT_MOST) if best is self._chosen else _HOLDS
        slower = min(self._found[_other(best)] / max(self._found[best], 1e-9) - 1.0, 1.0)
        holds = max(self._holds, int(_TIMES_COST * slower * num_turns * self._turn))
        steps = min(holds, _HOLDS_AT_MOST)
        return {"turns": [], "turn": self._turn, "manner": best, "is_chosen": True, "steps": steps}

    def _is_falling(self) -> bool:
        last = list(self._recent)[-6:]
        return min(last[3:]) < _STILL_FALLING * min(last[:3])

    def _best(self, other: str) -> Optional[str]:
        """The manner to go on with; None as long as that is not known."""
        num_turns = len(self._periods[other])
        ratio = self._found[other] / max(self._found[self._standing], 1e-9)
        if self._sure:
            if not self._in_each_turn_less(other):
                return self._standing
            bound, chance = min(_CHANGES, self._wins) if other is AHEAD else _CHANGES, math.inf
        else:
            bound = self._wins if other is AHEAD else 1.0 / self._wins
            chance = _CHANCE / math.sqrt(num_turns)
        if num_turns == _PAIRS or abs(ratio / bound - 1.0) > chance:
            return other if ratio < bound else self._standing
        return None

    def _in_each_turn_less(self, other: str) -> bool:
        pairs = zip(self._periods[other], self._periods[self._standing])
        return all(statistics.median(a) < statistics.median(b) for a, b in pairs)


def _other(manner: str) -> str:
    return IN_ONE if manner is AHEAD else AHEAD


def num_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))
