"""Fetching an update, or what it gives, in a run of the fused op that does it.

TensorFlow's own updates stay in a rewritten graph for who fetches one alone. `session.run([train_op, update_ops])`, with the updates of batch
normalization under the train op as well, asks for both: the update would be done twice. There the fused op stands for those that are fetched,
and what an update gave is read behind it.
"""

from __future__ import annotations

import functools
import threading
import weakref
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.living_graphs import LivingGraphs
from tf_booster.passes import graph_view
from tf_booster.passes.fetches import UPDATE
from tf_booster.passes.graph_index import GraphIndex
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.variable_update_edit import FUSED_PREFIX

_LISTS = ("targets", "fetches")
_known: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph -> _Updates.
_originals: Dict[str, Any] = {}


def watch(graph: tf.Graph) -> None:
    """Has sessions do no update of the rewritten `graph` twice in a run."""
    _known.setdefault(graph, _Updates())
    _watched_graphs.watch(graph)


def _put() -> None:
    handler = _compat.fetch_handler_class()
    for number, name in enumerate(_LISTS):
        _originals[name] = handler.__dict__[name]
        setattr(handler, name, _wrap(_originals[name], number))


def _take_away() -> None:
    for name in _LISTS:
        setattr(_compat.fetch_handler_class(), name, _originals.pop(name))


_watched_graphs = LivingGraphs(_put, _take_away)


def _wrap(original: Any, number: int) -> Any:
    @functools.wraps(original)
    def wrapped(self: Any) -> Any:
        wanted = original(self)
        updates = _known.get(wanted[0].graph) if wanted else None
        if updates is None:
            return wanted
        return updates.once(wanted[0].graph, *(_originals[name](self) for name in _LISTS))[number]

    return wrapped


class _Updates:
    """Of a rewritten graph: its fused updates, and what of TensorFlow's own is left beside them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # Threads of queues and of the pipeline run beside the program's.
        self._version = -1
        self._fused: Dict[tf.Operation, tf.Operation] = {}  # By the updates that they stand for.
        self._behind: Dict[Any, tf.Tensor] = {}  # By what an update gives: the same behind the fused one.
        self._left: Set[tf.Operation] = set()  # The updates and what they lead to.
        self._answers: Dict[Any, Tuple[List[tf.Operation], List[tf.Tensor]]] = {}

    def once(
        self, graph: tf.Graph, targets: Sequence[tf.Operation], tensors: Sequence[tf.Tensor]
    ) -> Tuple[List[tf.Operation], List[tf.Tensor]]:
        """What is to be run in place of these. Raises ValueError where an update would be done twice."""
        with self._lock:
            if graph.version != self._version:
                self._look(graph)
            if not self._left.intersection((*targets, *(tensor.op for tensor in tensors))):
                return list(targets), list(tensors)
            key = (*targets, None, *(tensor.ref() for tensor in tensors))
            if key not in self._answers:
                self._answers[key] = self._answer(graph, targets, tensors)
            return self._answers[key]

    def _answer(
        self, graph: tf.Graph, targets: Sequence[tf.Operation], tensors: Sequence[tf.Tensor]
    ) -> Tuple[List[tf.Operation], List[tf.Tensor]]:
        index = GraphIndex(graph).refresh()
        running = self._run_by(index, [*targets, *(tensor.op for tensor in tensors)]).intersection(self._fused.values())
        return (
            [self._instead(index, running, op, op) for op in targets],
            [self._instead(index, running, tensor.op, tensor) for tensor in tensors],
        )

    def _look(self, graph: tf.Graph) -> None:
        self._version = graph.version
        self._answers.clear()
        self._fused, self._behind = {}, {}
        named = {op.name: op for op in graph.get_operations()}
        for op in named.values():
            if not op.type.startswith((FUSED_PREFIX, "ReadVariableOp")):
                continue
            for old in (named[name] for name in graph_view.originals(op) if name in named):
                if op.type == "ReadVariableOp":
                    self._behind[old.outputs[0].ref()] = op.outputs[0]
                elif UPDATE.fullmatch(old.type):
                    self._fused[old] = op
        self._left = GraphView.downstream(self._fused)

    def _run_by(self, index: GraphIndex, ops: Sequence[tf.Operation]) -> Set[tf.Operation]:
        return {index.ops[number] for number in index.upstream(ops)}

    def _instead(self, index: GraphIndex, running: Set[tf.Operation], op: tf.Operation, item: Any) -> Any:
        """What is fetched in place of `item`, which `op` is or gives, in a run of the fused updates `running`."""
        if op not in self._left:
            return item
        twice = [update for update in self._run_by(index, [op]) if self._fused.get(update) in running]
        if not twice:
            return item
        if item is op and op in self._fused:
            return self._fused[op]
        behind: Optional[tf.Tensor] = None if item is op else self._behind.get(item.ref())
        if behind is None:
            raise ValueError(
                f"'{item.name}' is fetched in a run of '{self._fused[twice[0]].name}', which does the update '{twice[0].name}' that it waits for: it would "
                "be done twice. Fetch it in a run of its own, or leave out the pass that joins updates: "
                'tf.enable_gpu_booster(disable_passes=["variable_updates"])'
            )
        return behind
