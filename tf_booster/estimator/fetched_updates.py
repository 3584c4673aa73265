"""Fetching an update, or what it gives, in a run of the fused op that does it.

TensorFlow's own updates stay in a rewritten graph for who fetches one alone. `session.run([train_op, update_ops])`, with the updates of batch
normalization under the train op as well, asks for both: the update would be done twice. There the fused op stands for those that are fetched,
and what an update gave is read behind it.
"""

from __future__ import annotations

import functools
import threading
import weakref
from typing import Any, Dict, List, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.living_graphs import LivingGraphs
from tf_booster.passes import graph_view
from tf_booster.passes.fetches import UPDATE
from tf_booster.passes.formula_matching import FORMULA
from tf_booster.passes.graph_index import GraphIndex
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.variable_update_edit import FUSED_PREFIX

_REMEDY = (
    "Fetch it in a run of its own, or leave out the pass that joins updates: "
    'tf.enable_gpu_booster(disable_passes=["variable_updates"])'
)
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
    """Of a rewritten graph: its fused updates, and what of TensorFlow's own is left beside them. All by name: it must not keep the graph."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # Threads of queues and of the pipeline run beside the program's.
        self._version = -1
        self._fused: Dict[str, str] = {}  # By the updates that they stand for.
        self._inner: Dict[str, str] = {}  # By what led to these alone: the fused ones.
        self._behind: Dict[str, str] = {}  # By reads of what an update gives: those behind the fused one.
        self._left: Set[str] = set()  # The updates and what they lead to.
        self._answers: Dict[Tuple[str, ...], Dict[str, str]] = {}  # By what is fetched: what is in place of what.

    def once(
        self, graph: tf.Graph, targets: Sequence[tf.Operation], tensors: Sequence[tf.Tensor]
    ) -> Tuple[List[tf.Operation], List[tf.Tensor]]:
        """What is to be run in place of these. Raises ValueError where an update would be done twice."""
        names = (*(op.name for op in targets), *(tensor.op.name for tensor in tensors))
        with self._lock:
            if graph.version != self._version:
                self._look(graph)
            if self._left.isdisjoint(names):
                return list(targets), list(tensors)
            key = (*(op.name for op in targets), *(tensor.name for tensor in tensors))
            if key not in self._answers:
                self._answers[key] = self._answer(graph, targets, tensors)
            instead = self._answers[key]
        return (
            [graph.get_operation_by_name(instead.get(op.name, op.name)) for op in targets],
            [graph.get_tensor_by_name(instead.get(tensor.name, tensor.name)) for tensor in tensors],
        )

    def _look(self, graph: tf.Graph) -> None:
        self._version = graph.version
        self._answers.clear()
        self._fused, self._behind, self._inner = {}, {}, {}
        named = {op.name: op for op in graph.get_operations()}
        for op in named.values():
            if not op.type.startswith((FUSED_PREFIX, "ReadVariableOp")):
                continue
            for old in (named[name] for name in graph_view.originals(op) if name in named):
                if op.type == "ReadVariableOp":
                    self._behind[old.outputs[0].name] = op.outputs[0].name
                elif UPDATE.fullmatch(old.type):
                    self._fused[old.name] = op.name
                elif op.type == FORMULA:
                    self._inner[old.name] = op.name
        self._left = {op.name for op in GraphView.downstream(named[name] for name in (*self._fused, *self._inner))}

    def _answer(self, graph: tf.Graph, targets: Sequence[tf.Operation], tensors: Sequence[tf.Tensor]) -> Dict[str, str]:
        index = GraphIndex(graph).refresh()

        def run_by(ops: Sequence[tf.Operation]) -> Set[str]:
            return {index.ops[number].name for number in index.upstream(ops)}

        running = run_by([*targets, *(tensor.op for tensor in tensors)]).intersection(self._fused.values())
        instead: Dict[str, str] = {}
        for item, op in [*((op, op) for op in targets), *((tensor, tensor.op) for tensor in tensors)]:
            names = run_by([op]) if op.name in self._left else ()
            twice = sorted(name for name in names if self._fused.get(name) in running)
            inner = sorted(name for name in names if self._inner.get(name) in running)
            if inner and not twice:
                raise ValueError(
                    f"'{item.name}' is fetched in a run of '{self._inner[inner[0]]}', which stands for '{inner[0]}' as well and may have written what "
                    f"that reads. {_REMEDY}"
                )
            if not twice:
                continue
            stands = self._fused if item is op else self._behind
            if item.name not in stands:
                raise ValueError(
                    f"'{item.name}' is fetched in a run of '{self._fused[twice[0]]}', which does the update '{twice[0]}' that it waits for: it would be "
                    f"done twice. {_REMEDY}"
                )
            instead[item.name] = stands[item.name]
        return instead
