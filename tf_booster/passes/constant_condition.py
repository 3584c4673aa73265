"""Conditions that follow from constants: `tf.cast(train, tf.bool)` and `tf.equal(mode, "train")` of what Python knows."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow as tf


class Condition(NamedTuple):
    """tensors: the constants, and what is computed of them. waits: the ops that these wait for."""

    value: bool
    tensors: Tuple[tf.Tensor, ...]
    waits: Tuple[tf.Operation, ...]


def constant_condition(tensor: tf.Tensor) -> Optional[Condition]:
    """What the scalar `tensor` of bool is at every run; None where that is not known."""
    tensors: List[tf.Tensor] = []
    value = _value(tensor, tensors) if tensor.dtype == tf.bool else None
    if value is None:
        return None
    waits = dict.fromkeys(before for each in tensors for before in each.op.control_inputs)
    return Condition(bool(value), tuple(tensors), tuple(waits))


def _value(tensor: tf.Tensor, tensors: List[tf.Tensor]) -> Optional[np.ndarray]:
    """Of a scalar of any type. tensors: gets it, and what it is computed of."""
    op = tensor.op
    compute = _COMPUTED.get(op.type)
    if compute is None or tensor.shape.rank != 0:
        return None
    given = [_value(t, tensors) for t in op.inputs]
    if any(each is None for each in given):
        return None
    tensors.append(tensor)
    return np.asarray(compute(op, *given))


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda op, *given: function(*given)


_COMPUTED: Dict[str, Callable[..., Any]] = {
    # tf.get_static_value would have the tensor refuse to be fed.
    "Const": lambda op: tf.make_ndarray(op.get_attr("value")),
    "Cast": lambda op, x: x.astype(op.outputs[0].dtype.as_numpy_dtype),
    "Identity": _elementwise(lambda x: x),
    "LogicalNot": _elementwise(np.logical_not),
    "LogicalAnd": _elementwise(np.logical_and),
    "LogicalOr": _elementwise(np.logical_or),
    "Equal": _elementwise(lambda x, y: x == y),
    "NotEqual": _elementwise(lambda x, y: x != y),
    "Less": _elementwise(lambda x, y: x < y),
    "LessEqual": _elementwise(lambda x, y: x <= y),
    "Greater": _elementwise(lambda x, y: x > y),
    "GreaterEqual": _elementwise(lambda x, y: x >= y),
}
