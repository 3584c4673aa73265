"""Feeding a tensor that the program computes, in a graph that was rewritten: refused where the value would be lost.

`session.run(..., feed_dict={t: value})` takes any tensor, not placeholders alone: vectors of embeddings, to see what each contributes; gradients.
What read `t` in the program's graph may read a fused op in the rewritten one, which computes all by itself. TensorFlow would
take the value and answer as if it were not there.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Set

import tensorflow as tf

from tf_booster.passes import graph_view
from tf_booster.passes.fetches import UPDATE
from tf_booster.pipeline.split import split_of

# Fused ops read what is meant to be fed, or wait for it; a save is fed the last in place of tables.
_MEANT_TO_BE_FED = ("Placeholder", "PlaceholderWithDefault", "TfBoosterTableExport")
_Inputs = Dict[str, List[str]]  # By the name of an op, as a NodeDef writes them.


def watch(graph: tf.Graph) -> None:
    """Has sessions refuse to be fed a tensor of the rewritten `graph` whose value would be lost."""
    if not isinstance(getattr(graph.is_feedable, "__self__", None), _Feeds):
        graph.is_feedable = _Feeds(graph).is_feedable


class _Feeds:
    """Stands for tf.Graph.is_feedable, which sessions ask of each tensor that they are fed."""

    def __init__(self, graph: tf.Graph):
        self._graph = weakref.ref(graph)
        self._known: Dict[Any, str] = {}
        self._state = (-1, -1)

    def is_feedable(self, tensor: tf.Tensor) -> bool:
        """As the method that it stands for. Raises ValueError, with the remedy, for a tensor whose value would be lost."""
        graph = self._graph()
        if graph is None or not type(graph).is_feedable(graph, tensor):
            return False
        if tensor.op.type in _MEANT_TO_BE_FED:
            return True
        state = graph.version, graph_view.num_edited(graph)
        if state != self._state:
            self._state = state
            self._known.clear()
        if tensor.ref() not in self._known:
            self._known[tensor.ref()] = _loses(graph, tensor)
        if self._known[tensor.ref()]:
            raise ValueError(self._known[tensor.ref()])
        return True


def _loses(graph: tf.Graph, tensor: tf.Tensor) -> str:
    """Why a value of `tensor` would not reach all that it did before the rewrite; "" if it does."""
    split = split_of(graph)
    if split is not None and (tensor.name in split.ahead or tensor.name in split.crossing):
        return ""  # The pipeline serves such runs by hand.
    now = {op.name: graph_view.named_inputs(op) for op in graph.get_operations()}
    edited = graph_view.inputs_before(graph)
    name = tensor.op.name + (f":{tensor.value_index}" if tensor.value_index else "")
    led = _follows(name, {**now, **edited})
    leads = _follows(name, now)
    for reader, before in edited.items():
        data = [(old, new) for old, new in zip(before, now[reader]) if old != new and not old.startswith("^")]
        for old, new in data:
            lost = old == name or _op_of(old) in led
            if lost and new != name and _op_of(new) not in leads and not graph_view.is_undone(_op_of(new)):
                return _said(graph, tensor, _op_of(new))
        waited = [o[1:] for o in before if o.startswith("^") and o not in now[reader] and o[1:] in led]
        if any(UPDATE.fullmatch(graph.get_operation_by_name(update).type) for update in waited):
            new = [n[1:] for n in now[reader] if n.startswith("^") and n not in before]
            if new and not leads.intersection(new):
                return _said(graph, tensor, new[0])
    return ""


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
    return (
        f"Tensor '{tensor.name}' is fed, but what it led to is computed by '{fused}' ({op_type}) now, which does not read it: the value would be lost. Feed it "
        "in a graph that tf_booster has not rewritten, or leave out the pass that made this op (tf_booster.report() lists them): "
        "tf.enable_gpu_booster(disable_passes=[...])"
    )
