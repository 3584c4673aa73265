"""Input of a program's own training loop: iterators in the graph of a MonitoredSession give each rank its part, as input functions do.

Only where gradients are taken: a loop that trains nothing may collect what it reads, and batches that come again would be counted twice.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Optional, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.parallel import end_together, graph_iterators, graph_sources, rank_input, ranks, row_weights
from tf_booster.parallel.raw_gradients import raw_gradients
from tf_booster.passes.graph_view import GraphView

_CALLED = "MonitoredSession"


def with_divided_input(original: Any) -> Any:
    """The constructor of MonitoredSession; of a graph that trains, and whose input nobody has divided, it is divided first."""

    @functools.wraps(original)
    def __init__(self: Any, session_creator: Any, hooks: Any, *args: Any, **kwargs: Any) -> None:
        graph = tf.compat.v1.get_default_graph()
        known = row_weights.row_weights(graph) is not None or graph.get_collection(rank_input.NOTES)
        if ranks.current().size > 1 and not known and not _compat.is_finalized(graph):
            _divide(graph, _compat.config_of_creator(session_creator))
        original(self, session_creator, hooks, *args, **kwargs)

    return __init__


def _divide(graph: tf.Graph, config: Optional[tf.compat.v1.ConfigProto]) -> None:
    view = GraphView(graph)
    losses = dict.fromkeys(mark.losses for mark in raw_gradients(graph))
    if not losses:
        note_undivided(view)
        return
    if rank_input.sums_gradients_itself(view):
        rank_input.note(graph, f"{_CALLED}: {rank_input.left_alone(view)}")
        return
    try:
        sources = _of_all(view, list(losses))
    except graph_iterators.NotDivisible as why:
        rank_input.note(
            graph, f"{_CALLED}: each rank reads what its own program gives: {why}; or read a tf.data.Dataset"
        )
        return
    flags = rank_input.divide_sources(view, sources, tf.estimator.ModeKeys.TRAIN, _CALLED, config)
    with view.inserting("/cpu:0"), tf.name_scope("tf_booster/rank_input/"):
        live, has_next = rank_input.all_flags(flags)
        rows = live * _rows(flags[0].element)
        rank_input.register_flags(graph, rows, has_next, trains=True)
    end_together.note_programs_loop(graph, [flag.element for flag in flags])


def note_undivided(view: GraphView) -> None:
    """Notes of a graph that trains nothing that its input is left as it is."""
    if view.ops("IteratorGetNext"):
        said = f"{_CALLED}: nothing is trained, so each rank reads all; dataset.shard(N, rank) divides it"
        rank_input.note(view.graph, said)


def _of_all(view: GraphView, losses: List[Tuple[tf.Tensor, ...]]) -> List[graph_iterators.Source]:
    """The iterators of what is differentiated, which must be the same for each that has some."""
    found: Dict[Tuple[graph_iterators.Source, ...], None] = {}
    refusals: List[graph_iterators.NotDivisible] = []
    for each in losses:
        try:
            found[tuple(graph_sources.sources_of(view, each))] = None
        except graph_iterators.NoSource as none:  # A penalty on Variables alone, for one.
            refusals.append(none)
    if not found:
        raise refusals[0]
    if len(found) > 1:
        names = " and ".join(sorted(", ".join(f"'{s.iterator.name}'" for s in sources) for sources in found))
        raise graph_iterators.NotDivisible(
            f"what is trained reads different iterators: {names}", "divide each by dataset.shard(N, rank)"
        )
    return list(next(iter(found)))


def _rows(element: tf.Operation) -> tf.Tensor:
    """The number of rows of a batch, a float32 scalar: the first dimension of the first component that has one; 1 if none has."""
    for component in element.outputs[:-2]:
        if component.dtype == tf.variant:
            for reader in component.consumers():
                if reader.type == "DeserializeSparse":
                    return tf.cast(reader.outputs[2][0], tf.float32)
        elif component.shape.rank != 0:
            sizes = tf.concat(
                [tf.shape(component), [1]], 0
            )  # One for a scalar of which only the run knows that it is one.
            return tf.cast(sizes[0], tf.float32)
    return tf.ones([])
