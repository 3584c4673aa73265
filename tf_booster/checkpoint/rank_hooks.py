"""CheckpointSaverHook on several ranks: all ranks save after the same step, and rank 0 alone writes the graph.

Saving every n steps needs no agreement: all ranks count the same steps. Saving every n seconds does (parallel/agreed_time.py).
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from tf_booster import _compat
from tf_booster.parallel import agreement, own_folders, ranks, shared_graphs
from tf_booster.parallel.agreed_time import Agreement


def wrap_begin(original: Any) -> Any:
    """Wraps CheckpointSaverHook.begin."""

    @functools.wraps(original)
    def begin(self: Any) -> None:
        # The graph is rewritten after all hooks have begun.
        tables = any(op.type.startswith("TfBoosterStandIn") for op in tf.compat.v1.get_default_graph().get_operations())
        if ranks.current().size > 1 and tables:
            agreement.check_folder(_compat.saver_hook_folder(self))
        if ranks.current().rank > 0 and not own_folders.has(f"{_compat.saver_hook_folder(self).rstrip('/')}/"):
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
            self._tf_booster_agreement = Agreement(place.rank, "save a checkpoint", run_context.session.graph)
        agreement_of_ranks = self._tf_booster_agreement
        # Where rank 0 saves when it likes, this rank has nothing to save.
        if agreement_of_ranks.is_due(lambda: _compat.is_time_to_save(self)) and agreement_of_ranks.kept:
            _compat.save_now(self, run_context)

    return after_run
