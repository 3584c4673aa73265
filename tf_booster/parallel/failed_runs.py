"""Which run of a session, or which call that all ranks make together, failed last, for the watchdog: where the error is caught and the rank goes on, the other ranks wait in vain.

The program catches it, or TensorFlow: a MonitoredTrainingSession meets an UnavailableError or AbortedError with a new session.
Horovod has no way out of a collective, so they cannot be given the error.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Dict

from tf_booster import log
from tf_booster.parallel import progress

_IS_NOTED = "_tf_booster_noted"


@dataclasses.dataclass
class FailedRuns:
    """number: how many have failed. error: the last one's. entered: collective -> how often the rank had entered it then."""

    number: int = 0
    error: str = ""
    entered: Dict[str, int] = dataclasses.field(default_factory=dict)


_noted = FailedRuns()


def noted() -> FailedRuns:
    """Those of this process; from any thread."""
    return _noted


def note(error: Exception) -> None:
    """This rank has met it, and goes on if it is caught; noted once."""
    global _noted
    if not getattr(error, _IS_NOTED, False):
        setattr(error, _IS_NOTED, True)
        entered = {name: count for name, (count, _) in progress.counts().items()}
        _noted = FailedRuns(_noted.number + 1, log.brief(error), entered)


def forget() -> None:
    """All ranks have come to the same call: nobody waits in an earlier one."""
    global _noted
    _noted = FailedRuns()


def note_failure(original: Any) -> Any:
    """Wraps the run below a MonitoredSession's, through which hooks' errors come, too, and those that TensorFlow catches.

    What a rank does by itself, in graphs without collectives, nobody waits for.
    """

    @functools.wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        graph = self.graph
        try:
            return original(self, *args, **kwargs)
        except Exception as error:
            if progress.collectives(graph):
                note(error)
            raise

    return run
