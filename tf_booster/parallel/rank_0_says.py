"""What each rank measures for itself, and all must do alike: rank 0's answer holds, and goes through the store."""

from __future__ import annotations

from typing import Any, Dict

from tf_booster.parallel import meetings, ranks
from tf_booster.parallel.store import store


class Rank0Says:
    """To be made, and called, in the same order on all ranks. A call costs a millisecond."""

    def __init__(self, what: str):
        """`what`: "how to run": it is what others wait for rank 0 to say."""
        self._rank, self._key, self._what, self._calls = ranks.current().rank, meetings.next_of("says"), what, 0

    def __call__(self, mine: Dict[str, Any]) -> Dict[str, Any]:
        """`mine` of rank 0; of what JSON has."""
        self._calls += 1
        key = f"{self._key}-{self._calls}"
        if self._rank == 0:
            store().put(key, mine)
            return mine
        return store().wait(key, f"rank 0 to say {self._what}")
