"""Freezing a rewritten graph: tf.compat.v1.graph_util.convert_variables_to_constants, and the tools that call it.

It knows TensorFlow's ops that read a Variable, and none of the library's: of a merged gather it would make a graph that cannot be imported.
A table is no Variable at all: its rows would be missing, and the frozen graph would answer with first values. So what is frozen
is the graph as it was before the rewrite, whose ops are all still there, and a table is refused.
"""

from __future__ import annotations

import functools
from typing import Any, List, Sequence, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.living_graphs import LivingGraphs
from tf_booster.passes import graph_view

_TABLE_OPS = ("TfBoosterTable", "TfBoosterStandIn")
_originals: List[Any] = []


def _put() -> None:
    converter = _compat.session_converter_class()
    _originals.append(converter.__dict__["__init__"])
    converter.__init__ = _wrap(_originals[0])


def _take_away() -> None:
    _compat.session_converter_class().__init__ = _originals.pop()


rewritten_graphs = LivingGraphs(_put, _take_away)


def _wrap(original: Any) -> Any:
    @functools.wraps(original)
    def __init__(
        self: Any, session: Any, graph_def: Any, output_node_names: Sequence[str], *args: Any, **kw: Any
    ) -> None:
        original(self, session, _as_it_was(graph_def, session.graph, output_node_names), output_node_names, *args, **kw)

    return __init__


def _as_it_was(graph_def: Any, graph: tf.Graph, outputs: Sequence[str]) -> Any:
    """`graph_def`, taken from `graph`, with the inputs that its ops had before the rewrite.

    Raises:
      ValueError: `outputs` need a table, or the graph was rewritten elsewhere.
    """
    if not any(node.op.startswith("TfBooster") for node in graph_def.node):
        return graph_def
    before = graph_view.inputs_before(graph)
    plain = tf.compat.v1.GraphDef()
    plain.CopyFrom(graph_def)
    nodes = {node.name: node for node in plain.node}
    # What was cut down to the outputs before has lost the ops that the library's ops stand for.
    whole = {node.name: node for node in graph.as_graph_def().node} if before else {}
    stack = list(nodes)
    while stack:
        node = nodes[stack.pop()]
        if node.name in before:
            node.input[:] = before[node.name]
        for name in map(_op_name, node.input):
            if name not in nodes and name in whole:
                nodes[name] = plain.node.add()
                nodes[name].CopyFrom(whole[name])
                stack.append(name)
    _check(tf.compat.v1.graph_util.extract_sub_graph(plain, outputs), outputs)
    return plain


def _check(needed: Any, outputs: Sequence[str]) -> None:
    handles = {node.name for node in needed.node if node.op == "VarHandleOp"}
    for node in needed.node:
        what, remedy = _obstacle(node, handles)
        if what:
            raise ValueError(
                f"convert_variables_to_constants: {', '.join(outputs)} needs op '{node.name}', {what}; {remedy}"
            )


def _obstacle(node: Any, handles: Any) -> Tuple[str, str]:
    if node.op.startswith(_TABLE_OPS):
        return (
            "which reads a hash table, and rows of a table are no constants",
            "write a SavedModel (export_saved_model)",
        )
    if node.op.startswith("TfBooster") and not handles.isdisjoint(_op_name(name) for name in node.input):
        remedy = (
            "freeze the program's own graph, or one that it builds without tf_booster and restores the checkpoint into"
        )
        return f"a {node.op} of a graph that another process rewrote", remedy
    return "", ""


def _op_name(name: str) -> str:
    return name.lstrip("^").split(":")[0]
