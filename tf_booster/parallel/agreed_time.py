"""What hooks do every n seconds, all ranks do after the same step: clocks and speeds differ, and what a hook fetches may wait for the others.

About once a second all ranks look into the store after the same run of the session, where rank 0 says whether it is time, and after how many
runs to look again. A look costs a millisecond. Where ranks meet in the program's own collectives alone, rank 0 may have other hooks, and say nothing.
"""

from __future__ import annotations

import functools
import time
from typing import Any, Callable, Iterable, Optional, Tuple

import tensorflow as tf

from tf_booster import _compat, log
from tf_booster.embedding import registry
from tf_booster.parallel import meetings, ranks, shared_graphs, watchdog
from tf_booster.parallel.raw_gradients import raw_gradients
from tf_booster.parallel.row_weights import row_weights
from tf_booster.parallel.store import store

_LOOK_SECONDS = 1.0


class Agreement:
    """Of all ranks, on whether to do something after this run of the session; rank 0 decides.

    kept: False on a rank that has learnt that rank 0 does not take part.
    """

    def __init__(self, rank: int, what: str, graph: Optional[tf.Graph] = None):
        """`what`: "save a checkpoint": it is what others wait for rank 0 to say. `graph`: the session's."""
        self._rank, self._key, self._what = rank, meetings.next_of("due"), what
        self._apart = graph is not None and shared_graphs.are_apart(graph)
        self.kept = True
        self._runs, self._next, self._interval = 0, 1, 1
        self._since = time.monotonic()

    def is_due(self, rank_0_wants: Callable[[], bool]) -> bool:
        """To be called after every run. `rank_0_wants()` is asked on rank 0, about once a second; on another one where rank 0 does not take part."""
        if not self.kept:
            return rank_0_wants()
        self._runs += 1
        if self._runs < self._next:
            return False
        key = f"{self._key}-{self._runs}"
        if self._rank == 0:
            now = time.monotonic()
            in_a_look = self._interval * _LOOK_SECONDS / max(now - self._since, 1e-6)
            # At most doubled: the first runs may be faster than those that follow.
            self._interval = max(1, min(int(in_a_look), 2 * self._interval))
            self._since = now
            answer = {"now": bool(rank_0_wants()), "next": self._runs + self._interval}
            store().put(key, answer)
        else:
            what = f"rank 0 to say whether to {self._what}"
            answer = store().wait(key, what, in_vain=lambda: self._apart and watchdog.waits_ahead(0))
        if answer is None:
            self.kept = False
            log.once(
                f"rank 0 waits for rank {self._rank}, which waits for {what}; it goes on, and does so without rank 0"
            )
            return rank_0_wants()
        self._next = answer["next"]
        return answer["now"]


class AgreedTimer(tf.compat.v1.train.SecondOrStepTimer):
    """One that triggers by seconds after the same step on all ranks. For loops whose hooks ask it once a run, as TensorFlow's do."""

    graph: Optional[tf.Graph] = None
    _agreement: Optional[Agreement] = None
    _is_due = False

    def reset(self) -> None:
        """See SecondOrStepTimer."""
        super().reset()
        self._is_due = False

    def should_trigger_for_step(self, step: int) -> bool:
        """See SecondOrStepTimer. The first is due at once, as there."""
        last = self.last_triggered_step()
        if ranks.current().size == 1 or last is None or last == step:
            return super().should_trigger_for_step(step)
        # Some hooks ask once more, with the step as it is by now.
        if not self._is_due:
            if self._agreement is None:
                what = "run what a hook does every few seconds"
                self._agreement = Agreement(ranks.current().rank, what, self.graph)
            mine = functools.partial(super().should_trigger_for_step, step)
            self._is_due = self._agreement.is_due(mine)
        return self._is_due

    def update_last_triggered_step(self, step: int) -> Tuple[Any, Any]:
        """See SecondOrStepTimer."""
        self._is_due = False
        return super().update_last_triggered_step(step)


def with_agreed_timers(original: Any) -> Any:
    """The constructor of MonitoredSession; timers that its hooks hold become agreed ones, but for those of checkpoints."""

    @functools.wraps(original)
    def __init__(self: Any, session_creator: Any, hooks: Any, *args: Any, **kwargs: Any) -> None:
        hooks = list(hooks or [])
        graph = tf.compat.v1.get_default_graph()
        # Else no other rank may be in it.
        if ranks.current().size > 1 and (
            raw_gradients(graph) or row_weights(graph) is not None or registry.has_tables(graph)
        ):
            agree(hooks, graph)
        original(self, session_creator, hooks, *args, **kwargs)

    return __init__


def agree(hooks: Iterable[Any], graph: tf.Graph) -> None:
    """Makes agreed ones of the timers by seconds among the attributes of `hooks`, of a session of `graph`."""
    for hook in hooks:
        if isinstance(hook, tf.compat.v1.train.CheckpointSaverHook):  # checkpoint/rank_hooks.py
            continue
        for value in list(getattr(hook, "__dict__", {}).values()):
            # A program's own class may be of other numbers of calls.
            if type(value) is tf.compat.v1.train.SecondOrStepTimer and _compat.triggers_by_seconds(value):
                value.__class__, value.graph = AgreedTimer, graph
