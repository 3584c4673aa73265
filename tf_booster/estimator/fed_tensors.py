"""Feeding a tensor that the program computes, in a graph that was rewritten.

`session.run(..., feed_dict={t: value})` takes any tensor, not placeholders alone: vectors of embeddings, to see what each contributes; gradients.
What read `t` in the program's graph may read another tensor in the rewritten one: an output of a fused op that stands for `t` whole, which is
fed the value then, too. Or it may be swallowed by a fused op, which computes all by itself. TensorFlow would take the value and
answer as if it were not there; that is refused.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set

import tensorflow as tf

from tf_booster import _compat
from tf_booster.living_graphs import LivingGraphs
from tf_booster.passes import graph_view
from tf_booster.passes.fetches import UPDATE
from tf_booster.passes.known_shapes import CONSTANT_SHAPE
from tf_booster.pipeline.split import split_of

# Fused ops read what is meant to be fed, or wait for it; a save is fed the last in place of tables.
_MEANT_TO_BE_FED = ("Placeholder", "PlaceholderWithDefault", "TfBoosterTableExport")
_REMEDY = (
    "Feed it in a graph that tf_booster has not rewritten, or leave out the pass that did this (tf_booster.report() lists them): "
    "tf.enable_gpu_booster(disable_passes=[...])"
)
_RUN = "_run"  # The method behind a session's run() and partial_run().
_Inputs = Dict[str, List[str]]  # By the name of an op, as a NodeDef writes them.
_originals: List[Any] = []


def watch(graph: tf.Graph) -> None:
    """Has sessions feed what stands for a tensor of the rewritten `graph`, and refuse one whose value would be lost."""
    if _feeds_of(graph) is None:
        graph.is_feedable = _Feeds(graph).is_feedable
    _watched_graphs.watch(graph)


def _put() -> None:
    session = _compat.base_session_class()
    _originals.append(session.__dict__[_RUN])
    setattr(session, _RUN, _wrap_run(_originals[0]))


def _take_away() -> None:
    setattr(_compat.base_session_class(), _RUN, _originals.pop())


_watched_graphs = LivingGraphs(_put, _take_away)


def _wrap_run(original: Any) -> Any:
    @functools.wraps(original)
    def _run(self: Any, handle: Any, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Any:
        feeds = _feeds_of(self.graph) if feed_dict and handle is None else None
        if feeds is None:
            return original(self, handle, fetches, feed_dict, options, run_metadata)
        with feeds.completed(feed_dict) as fed:
            return original(self, handle, fetches, fed, options, run_metadata)

    return _run


class _Fate(NamedTuple):
    """What becomes of a value that a tensor is fed. lost: why it is, or "". stand_in: what else must be fed it."""

    lost: str = ""
    stand_in: Optional[tf.Tensor] = None


class _Feeds:
    """Stands for tf.Graph.is_feedable, which sessions ask of each tensor that they are fed."""

    def __init__(self, graph: tf.Graph):
        self._graph = weakref.ref(graph)
        self._known: Dict[Any, _Fate] = {}
        self._state = (-1, -1)
        self._run = threading.local()  # completed: the tensors whose stand-ins a run is fed.

    def is_feedable(self, tensor: tf.Tensor) -> bool:
        """As the method that it stands for. Raises ValueError, with the remedy, for a tensor whose value would be lost."""
        graph = self._graph()
        if graph is None or not type(graph).is_feedable(graph, tensor):
            return False
        fate = self._fate(graph, tensor)
        if fate.stand_in is not None and tensor.ref() not in getattr(self._run, "completed", ()):
            raise ValueError(_said(graph, tensor, fate.stand_in.op.name))
        if fate.lost:
            raise ValueError(fate.lost)
        return True

    @contextlib.contextmanager
    def completed(self, feed_dict: Dict[Any, Any]) -> Iterator[Dict[Any, Any]]:
        """`feed_dict` with the stand-ins of its tensors, while a run of this thread is under way."""
        graph, more, before = self._graph(), {}, getattr(self._run, "completed", ())
        names = graph_view.names_with_stand_in(graph) if graph is not None else ()
        completed = set()
        for key, value in feed_dict.items() if names else ():
            name = key if isinstance(key, str) else key.name if isinstance(key, tf.Tensor) else None
            if name in names:
                tensor = graph.get_tensor_by_name(name)
                stand_in = self._fate(graph, tensor).stand_in
                if stand_in is not None:
                    completed.add(tensor.ref())
                    more[stand_in] = value
        self._run.completed = completed
        try:
            yield {**feed_dict, **more} if more else feed_dict
        finally:
            self._run.completed = before

    def _fate(self, graph: tf.Graph, tensor: tf.Tensor) -> _Fate:
        if tensor.op.type in _MEANT_TO_BE_FED:
            return _Fate()
        state = graph.version, graph_view.num_edited(graph)
        if state != self._state:
            self._state = state
            self._known.clear()
        if tensor.ref() not in self._known:
            self._known[tensor.ref()] = _fate_of(graph, tensor)
        return self._known[tensor.ref()]


def _feeds_of(graph: tf.Graph) -> Optional[_Feeds]:
    stands = getattr(graph.is_feedable, "__self__", None)
    return stands if isinstance(stands, _Feeds) else None


def _fate_of(graph: tf.Graph, tensor: tf.Tensor) -> _Fate:
    """Whether a value of `tensor` reaches all that it did before the rewrite."""
    if graph_view.is_relied_on(tensor):
        return _Fate(
            f"Tensor '{tensor.name}' is fed, which is a constant, and the branches of tf.conds that it chose are there for good now. {_REMEDY}"
        )
    split, stand_in = split_of(graph), graph_view.stand_in_of(tensor)
    if split is not None:  # The pipeline serves such runs by hand.
        by_hand = {*split.ahead, *split.crossing}
        if tensor.name in by_hand:
            return _Fate()
        if stand_in is not None and stand_in.name in by_hand:
            return _Fate(stand_in=stand_in)
    now = {op.name: graph_view.named_inputs(op) for op in graph.get_operations()}
    edited = graph_view.inputs_before(graph)
    name = graph_view.name_of(tensor)
    lost = _losing(graph, name, now, edited, name)
    if not lost:
        return _Fate()
    if stand_in is not None:
        other = graph_view.name_of(stand_in)
        moved = {old for reader, before in edited.items() for old, new in zip(before, now[reader]) if new == other}
        if moved <= {name, other} and not _losing(graph, name, now, edited, other):
            return _Fate(stand_in=stand_in)
    return _Fate(_said(graph, tensor, lost))


def _losing(graph: tf.Graph, name: str, now: _Inputs, edited: _Inputs, stand_in: str) -> str:
    """The op that does not get a value which the tensors `name` and `stand_in` are fed, and whose like did before the rewrite; or ""."""
    led = _follows(name, {**now, **edited})
    leads = _follows(name, now) | _follows(stand_in, now)
    for reader, before in edited.items():
        data = [(old, new) for old, new in zip(before, now[reader]) if old != new and not old.startswith("^")]
        data = [(old, new) for old, new in data if not _differ_by_shapes(graph, old, new)]
        for old, new in data:
            lost = old == name or _op_of(old) in led
            if (
                lost
                and new not in (name, stand_in)
                and _op_of(new) not in leads
                and not graph_view.is_undone(_op_of(new))
            ):
                return _op_of(new)
        waited = [o[1:] for o in before if o.startswith("^") and o not in now[reader] and o[1:] in led]
        if any(UPDATE.fullmatch(graph.get_operation_by_name(update).type) for update in waited):
            new = [n[1:] for n in now[reader] if n.startswith("^") and n not in before]
            if new and not leads.intersection(new):
                return new[0]
    return ""


def _differ_by_shapes(graph: tf.Graph, old: str, new: str) -> bool:
    """Whether `new` is a shape that is constant now, or what `old` passed on in its own shape. No value is lost so: what is reshaped has that size."""
    if _op_of(new).startswith(CONSTANT_SHAPE):
        return True
    op = graph.get_operation_by_name(_op_of(old))
    while op.type == "Reshape" or (op.type == "Sum" and op.inputs[1].op.type == "BroadcastGradientArgs"):
        if graph_view.name_of(op.inputs[0]) == new:
            return True
        op = op.inputs[0].op
    return False


def _follows(name: str, inputs: _Inputs) -> Set[str]:
    """Names of the ops into whose values that of a tensor goes."""
    readers: Dict[str, List[str]] = {}
    for op, names in inputs.items():
        for read in names:
            if not read.startswith("^"):
                readers.setdefault(_op_of(read), []).append(op)
    found: Set[str] = set()
    stack = [op for op in readers.get(_op_of(name), ()) if name in inputs[op]]
    while stack:
        op = stack.pop()
        if op not in found:
            found.add(op)
            stack.extend(readers.get(op, ()))
    return found


def _op_of(name: str) -> str:
    return name.lstrip("^").split(":")[0]


def _said(graph: tf.Graph, tensor: tf.Tensor, fused: str) -> str:
    op_type = graph.get_operation_by_name(fused).type
    return f"Tensor '{tensor.name}' is fed, but what it led to is computed by '{fused}' ({op_type}) now, which does not read it: the value would be lost. {_REMEDY}"
