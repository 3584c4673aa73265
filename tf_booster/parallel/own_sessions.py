"""Sessions of a program's own loops on several ranks: which all ranks make together, and which are each rank's own.

What trains is of all ranks, as an Estimator's train is. What only evaluates, with metrics at most, programs often do `if hvd.rank() == 0`.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, ContextManager, Sequence

import tensorflow as tf

from tf_booster import _compat
from tf_booster.embedding import registry
from tf_booster.parallel import calls, collectives, program_input, progress, rank_input, ranks
from tf_booster.parallel.raw_gradients import raw_gradients
from tf_booster.passes import fetches
from tf_booster.passes.graph_view import GraphView, variable_handle_op


def with_agreement(original: Any) -> Any:
    """The constructor of MonitoredSession."""

    @functools.wraps(original)
    def __init__(self: Any, session_creator: Any, hooks: Any, *args: Any, **kwargs: Any) -> None:
        graph = tf.compat.v1.get_default_graph()
        decided = ranks.current().size == 1 or fetches.fetches_are_estimators(graph) or _compat.is_finalized(graph)
        with contextlib.nullcontext() if decided else _made(graph, hooks or ()):
            original(self, session_creator, hooks, *args, **kwargs)

    return __init__


def _made(graph: tf.Graph, hooks: Sequence[Any]) -> ContextManager[None]:
    """In which a session of `graph` is made: by all ranks, or by this one alone."""
    view = GraphView(graph)
    has_tables = registry.has_tables(graph)
    if not has_tables and rank_input.sums_gradients_itself(view):
        # Which ranks make it, the program knows; the library has ranks meet nowhere in it.
        return contextlib.nullcontext()
    if not _only_evaluates(view):
        return calls.training_of_all() if raw_gradients(graph) else contextlib.nullcontext()
    if any(isinstance(hook, tf.compat.v1.train.CheckpointSaverHook) for hook in hooks):
        return contextlib.nullcontext()
    program_input.note_undivided(view)
    return contextlib.nullcontext() if has_tables and not calls.is_alone(calls.SESSION) else ranks.alone()


def _only_evaluates(view: GraphView) -> bool:
    """Whether nothing but metrics writes to Variables, once these are initialized and restored, and no rank meets others there."""
    in_functions = (node.op for body in _compat.function_definitions(view.graph) for node in body.node_def)
    if progress.collectives(view.graph) or any(map(collectives.is_horovods, in_functions)):
        return False
    metrics = {variable_handle_op(variable) for variable in tf.compat.v1.local_variables()}
    updates = [
        op
        for op in fetches.updates(view, view.upstream_of_initializers())
        if not (op.inputs and op.inputs[0].op in metrics)
    ]
    return not updates and not fetches.updating_calls(view)
