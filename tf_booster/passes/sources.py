"""Ops that a run must not start without need: what is fed, what moves on, what writes, what draws random numbers."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional

import tensorflow as tf

from tf_booster import _compat

# Wants a feed, takes from a stream that the next run continues, writes a reference Variable, waits for other ranks; some of
# these TensorFlow does not call stateful. PlaceholderWithDefault needs no feed, and is none of them.
_SOURCES = re.compile(
    r"Placeholder(V2)?|\w*GetNext\w*|\w*(De|En)queue\w*|(Eager)?PyFunc\w*|Reader(Read|Restore|Reset)\w*|\w*Unstage\w*"
    r"|Assign(Add|Sub)?|Scatter(Nd)?(Add|Sub|Mul|Div|Min|Max|Update)|(Sparse)?Apply[A-Z]\w*|CountUpTo|Horovod\w*|TfBoosterHost\w*|_?Recv|_Arg"
)

# TensorFlow calls these stateful, so that it neither folds nor shares them, but running one once more changes nothing that a later
# run could see. Assert and CheckNumerics may raise; they then do for values from the same sources.
_HARMLESS = re.compile(
    r"Variable(V2)?|VarHandleOp|ReadVariableOp|ResourceGather(Nd)?|VariableShape|Is\w*Initialized|Var\w*IsInitialized\w*|DisableCopyOnRead"
    r"|\w*HashTable\w*|LookupTable(Find|Size|Export)(V2)?|\w*Iterator(V2|V3)?|\w*Dataset\w*|\w*Queue(V2)?|TensorArray\w*|Stack\w*"
    r"|Assert|CheckNumerics(V2)?|GuaranteeConst|TfBooster(?!\w*(Apply|Insert|Erase|Clear|Restore))\w*"
)


class Sources:
    """Knows which ops of a graph are sources; looks into the functions that they call."""

    def __init__(self, graph: tf.Graph):
        self._graph = graph
        self._by_type: Dict[str, Optional[bool]] = {}
        self._bodies: Dict[str, tf.compat.v1.GraphDef] = {}
        self._of_function: Dict[str, bool] = {}

    def told_by_type(self, op_type: str) -> Optional[bool]:
        """Whether all ops of this type are sources, or none; None where it depends on the functions that an op calls."""
        if op_type not in self._by_type:
            certain = bool(_SOURCES.fullmatch(op_type)) or not _compat.calls_functions(op_type)
            self._by_type[op_type] = (True if certain else None) if _is_source(op_type) else False
        return self._by_type[op_type]

    def is_source(self, op: tf.Operation) -> bool:
        """Whether a run that did not need `op` must not be made to need it."""
        told_by_type = self.told_by_type(op.type)
        if told_by_type is not None:
            return told_by_type
        called = called_functions(op)
        return not called or any(self._runs_source(name) for name in called)

    def _runs_source(self, function: str) -> bool:
        if not self._bodies:
            self._bodies = _compat.functions_by_name(self._graph)
        if function not in self._of_function:
            self._of_function[function] = False  # Of a function that calls itself the other ops decide.
            body = self._bodies.get(function)
            self._of_function[function] = body is None or any(self._node_is_source(node) for node in body.node_def)
        return self._of_function[function]

    def _node_is_source(self, node: tf.compat.v1.NodeDef) -> bool:
        if not _is_source(node.op) or _SOURCES.fullmatch(node.op):
            return _is_source(node.op)
        called = [name for attr in node.attr.values() for name in functions_in(attr)]
        return not called or any(self._runs_source(name) for name in called)


def called_functions(op: tf.Operation) -> List[str]:
    """Names of the functions that `op` is given to call, in the order of its attributes' names: a map's own is another in each process."""
    if not _compat.calls_functions(op.type):
        return []
    return [name for _, attr in sorted(op.node_def.attr.items()) for name in functions_in(attr)]


def all_called(op: tf.Operation, bodies: Mapping[str, Any]) -> List[Any]:
    """The functions, out of `bodies` by their names, that `op` calls, and those that these call."""
    names = [name for name in called_functions(op) if name in bodies]
    for name in names:  # Grows.
        nodes = (node for node in bodies[name].node_def if _compat.calls_functions(node.op))
        called = (f for node in nodes for _, attr in sorted(node.attr.items()) for f in functions_in(attr))
        names += [f for f in dict.fromkeys(called) if f in bodies and f not in names]
    return [bodies[name] for name in names]


def _is_source(op_type: str) -> bool:
    if _SOURCES.fullmatch(op_type):
        return True
    return _compat.is_stateful(op_type) and not _HARMLESS.fullmatch(op_type)


def functions_in(attr: tf.compat.v1.AttrValue) -> List[str]:
    """Names of the functions that an attribute gives its op to call."""
    return [function.name for function in _compat.functions_of(attr)]
