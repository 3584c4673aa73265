"""CheckpointSaverHook on several ranks: all ranks save after the same step, and rank 0 alone writes the graph.

Saving every n steps needs no agreement: all ranks count the same steps. Saving every n seconds does, since clocks and speeds differ. About
once a second all ranks look into the store after the same step, where rank 0 says whether to save now, and after which step to look
again. A look costs a millisecond.
"""

from __future__ import annotations

import functools
import time
from typing import Any, List

import tensorflow as tf

from tf_booster import _compat
from tf_booster.parallel import agreement, ranks, shared_graphs
from tf_booster.parallel.store import store

_LOOK_SECONDS = 1.0

_hooks: List[int] = [0]  # Hooks so far, the same on all ranks.


def wrap_begin(original: Any) -> Any:
    """Wraps CheckpointSaverHook.begin."""

    @functools.wraps(original)
    def begin(self: Any) -> None:
        # The graph is rewritten after all hooks have begun.
        tables = any(op.type.startswith("TfBoosterStandIn") for op in tf.compat.v1.get_default_graph().get_operations())
        if ranks.current().size > 1 and tables:
            agreement.check_folder(_compat.saver_hook_folder(self))
        if ranks.current().rank > 0:
            _compat.leave_graph_unwritten(self)
        original(self)

    return begin


def wrap_after_run(original: Any) -> Any:
    """Wraps CheckpointSaverHook.after_run."""

    @functools.wraps(original)
    def after_run(self: Any, run_context: Any, run_values: Any) -> None:
        place = shared_graphs.place(run_context.session.graph)
        if place.size == 1 or not _compat.saves_by_seconds(self):
            original(self, run_context, run_values)
            return
        if not hasattr(self, "_tf_booster_agreement"):
            self._tf_booster_agreement = Agreement(place.rank)
        if self._tf_booster_agreement.is_due(lambda: _compat.is_time_to_save(self)):
            _compat.save_now(self, run_context)

    return after_run


class Agreement:
    """Of all ranks, on whether to do something after this run of the session; rank 0 decides."""

    def __init__(self, rank: int):
        _hooks[0] += 1
        self._rank, self._key = rank, f"due-{_hooks[0]}"
        self._runs, self._next, self._interval = 0, 1, 1
        self._since = time.monotonic()

    def is_due(self, rank_0_wants: Any) -> bool:
        """To be called after every run. `rank_0_wants()` is asked on rank 0, about once a second."""
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
            answer = store().wait(key, "rank 0 to say whether to save")
        self._next = answer["next"]
        return answer["now"]
