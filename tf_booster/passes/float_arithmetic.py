"""Arithmetic of fractions that Grappler puts together anew, or leaves, by what it knows of shapes.

A function of records has static shapes and one of a batch has none, so the same lines may be computed in another order in the two:
`(x * a) * b` as `x * (a * b)`, sums of three in another order, `x / sqrt(y)` as `x * rsqrt(y)`, `log(x + 1)` as `log1p(x)`. All that it changes are ops of one kind
behind one another, sums of products, and a few pairs.
"""

from __future__ import annotations

from typing import Any, Collection, Optional, Sequence

import numpy as np
import tensorflow as tf

from tf_booster.passes.dataset_functions import DatasetFunction, data_inputs, dtype_of

_SUMS = ("Add", "AddV2", "Sub", "Neg", "AddN")
_PRODUCTS = ("Mul", "RealDiv", "Div", "Square", "Sqrt", "Reciprocal", "Inv", "Rsqrt", "Pow")
# Left out where Grappler sees that they change nothing.
_MOVES = ("Identity", "Reshape", "ExpandDims", "Squeeze", "Snapshot", "StopGradient")


def changed_by_grappler(definition: Any, known: Collection[str] = ()) -> Optional[str]:
    """Which op of a FunctionDef may be computed in another way where shapes are known than where they are not; None for none.

    known: arguments whose shapes are told. What is made of one of them and of constants is computed alike; of two nobody tells that their
    rows are as many.
    """
    function = DatasetFunction(definition)
    for node in definition.node_def:
        sources = [_source(function, name) for name in data_inputs(node)]
        why = _why(function, node, sources) if _is_of_fractions(node) else None
        if why is not None and not _is_changed_alike(function, [node, *sources], known):
            return f"its {node.op} ('{node.name}') is of {why}"
    return None


def _is_of_fractions(node: Any) -> bool:
    dtype = dtype_of(node)
    return dtype is not None and dtype.is_floating


def _why(function: DatasetFunction, node: Any, sources: Sequence[Any]) -> Optional[str]:
    """What `node`, of fractions, is of that Grappler changes. sources: the nodes of its inputs; None for arguments."""
    ops = [source.op if source is not None else "" for source in sources]
    sums, products = (sum(op in kind for op in ops) for kind in (_SUMS, _PRODUCTS))
    if node.op in _SUMS and (sums or products > 1) or node.op in _PRODUCTS and products:
        return "what other arithmetic gives, which TensorFlow may compute in another order"
    if node.op in ("RealDiv", "Div") and _is_one(function, data_inputs(node)[0]):
        return "1 / x, which TensorFlow may compute as a reciprocal"
    if node.op == "Log" and ops[0] in ("Add", "AddV2") and any(_is_one(function, n) for n in data_inputs(sources[0])):
        return "x + 1, which TensorFlow may compute as log1p(x); write log1p"
    return None


def _is_changed_alike(function: DatasetFunction, nodes: Sequence[Any], known: Collection[str]) -> bool:
    """Whether shapes are told of all that `nodes`, an op and those that it is of, are made of."""
    arguments = function.arguments_of(nodes[0].name)
    return len(arguments) < 2 and arguments <= set(known) and all(_of_one(function, node) for node in nodes)


def _source(function: DatasetFunction, tensor: str) -> Optional[Any]:
    node = function.producer(tensor)
    while node is not None and node.op in _MOVES:
        node = function.producer(data_inputs(node)[0])
    return node


def _of_one(function: DatasetFunction, node: Optional[Any]) -> bool:
    """Whether arithmetic has constants for all inputs but one."""
    if node is None or node.op not in (*_SUMS, *_PRODUCTS):
        return True
    return sum(function.constant(name) is None for name in data_inputs(node)) < 2


def _is_one(function: DatasetFunction, tensor: str) -> bool:
    """Whether `tensor` is a constant of ones."""
    node = _source(function, tensor)
    return node is not None and node.op == "Const" and bool(np.all(tf.make_ndarray(node.attr["value"].tensor) == 1))
