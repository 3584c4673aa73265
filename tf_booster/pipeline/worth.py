"""Whether the halves of a step are worth two runs."""

from __future__ import annotations

import statistics
from typing import List, Optional

# Handing the embedding graph to a thread costs 0.04 to 0.1 ms a step, and most of what a run of less than this takes is
# the run itself.
WORTH_SECONDS = 0.25e-3
# Steps of one measurement, and of what comes between two.
_MEASURED, _BETWEEN = 20, 1000


class Worth:
    """Looks at some steps in a thousand, and says whether the others overlap. `always`: they do, whatever it takes."""

    def __init__(self, always: bool = False):
        self._always = always
        self._seconds: List[float] = []
        self._steps_in_one = 0

    def overlap(self) -> bool:
        """Whether the next step is to begin the embedding graph of the one after it."""
        return self._always or self._steps_in_one == 0

    def note(self, seconds: Optional[float]) -> None:
        """Takes in how long the embedding graph of a step took; None: it was not measured."""
        if self._always:
            return
        if seconds is None:
            self._steps_in_one = max(0, self._steps_in_one - 1)
            return
        self._seconds.append(seconds)
        if len(self._seconds) == _MEASURED:
            # The first ones make executors.
            small = statistics.median(self._seconds[_MEASURED // 2 :]) < WORTH_SECONDS
            self._steps_in_one = _BETWEEN if small else 0
            self._seconds.clear()
