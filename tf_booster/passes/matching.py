"""A small pattern language over graph tensors.

    found = match(Op("Mul", Op("Neg", Bind("grad")), Bind("lr")), tensor)

gives the bound tensors by name, or None. A name that is bound twice must be the same tensor both times.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Optional, Union

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Bind:
    """Any tensor, remembered under `name`."""

    name: str


class Op:
    """The first output of an op of the given type whose leading inputs match `inputs`; Identity in front is looked through.

    name: under which that output is remembered; "": under none.
    """

    def __init__(self, op_type: str, *inputs: Pattern, name: str = ""):
        self.op_type = op_type
        self.inputs = inputs
        self.name = name


Pattern = Union[Bind, Op]


def match(pattern: Pattern, tensor: tf.Tensor) -> Optional[Dict[str, tf.Tensor]]:
    """Binds the names of `pattern` to the tensors that make up `tensor`, or returns None."""
    bound: Dict[str, tf.Tensor] = {}
    return bound if _match(pattern, tensor, bound) else None


def _match(pattern: Pattern, tensor: tf.Tensor, bound: Dict[str, tf.Tensor]) -> bool:
    if isinstance(pattern, Bind):
        known = bound.setdefault(pattern.name, tensor)
        return known is tensor or known.ref() == tensor.ref()
    if pattern.op_type != "Identity":
        tensor = skip_identity(tensor)
    op = tensor.op
    if op.type != pattern.op_type or tensor.value_index != 0 or len(op.inputs) < len(pattern.inputs):
        return False
    if pattern.name and not _match(Bind(pattern.name), tensor, bound):
        return False
    return all(_match(p, t, bound) for p, t in zip(pattern.inputs, op.inputs))


def skip_identity(tensor: tf.Tensor) -> tf.Tensor:
    """The tensor that a chain of Identity ops passes on."""
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def skip_casts(tensor: tf.Tensor) -> tf.Tensor:
    """Past Identities, and past casts between integers, which shapes go through."""
    tensor = skip_identity(tensor)
    while tensor.op.type == "Cast" and tensor.dtype.is_integer and tensor.op.inputs[0].dtype.is_integer:
        tensor = skip_identity(tensor.op.inputs[0])
    return tensor


def readers(tensor: tf.Tensor) -> List[tf.Operation]:
    """What reads `tensor` or an Identity of it, such as those that tf.gradients puts behind several gradients of one op."""
    found: Dict[tf.Operation, None] = {}
    work = [tensor]
    while work:
        for op in dict.fromkeys(work.pop().consumers()):
            if op.type == "Identity":
                work.append(op.outputs[0])
            else:
                found[op] = None
    return list(found)


def skip_widening(ids: tf.Tensor) -> tf.Tensor:
    """Past a cast from int32 to int64."""
    if ids.op.type == "Cast" and ids.dtype == tf.int64 and ids.op.inputs[0].dtype == tf.int32:
        return skip_identity(ids.op.inputs[0])
    return ids


def same(a: tf.Tensor, b: tf.Tensor) -> bool:
    """Whether both are one tensor, perhaps passed on by Identities."""
    return skip_identity(a) is skip_identity(b)


def is_shape_of(shape: tf.Tensor, tensor: tf.Tensor) -> bool:
    """Whether `shape` is tf.shape(tensor), which is a constant where the static shape is known."""
    op = skip_identity(shape).op
    if op.type == "Shape":
        return same(op.inputs[0], tensor)
    known = tf.get_static_value(shape) if tensor.shape.is_fully_defined() else None
    return known is not None and list(known) == tensor.shape.as_list()


def is_rows_of(size: tf.Tensor, tensor: tf.Tensor) -> bool:
    """Whether `size` is tf.shape(tensor)[0]."""
    op = skip_casts(size).op
    if op.type != "StridedSlice" or not is_shape_of(op.inputs[0], tensor):
        return False
    masks = [op.get_attr(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")]
    return masks == [0, 0, 0, 0, 1] and [integer_value(bound) for bound in op.inputs[1:]] == [0, 1, 1]


def is_of_reference_variable(tensor: tf.Tensor) -> bool:
    """Whether `tensor` is the value of a reference Variable, as use_resource=False makes them."""
    return skip_identity(tensor).op.type in ("VariableV2", "Variable")


RESOURCE_VARIABLES = (
    "resource Variables (tf.compat.v1.enable_resource_variables() at the program's start, or use_resource=True)"
)
REFERENCE_VARIABLE = f"it reads a reference Variable; lookups of {RESOURCE_VARIABLES} can be fused"


def integer_value(tensor: tf.Tensor) -> Optional[int]:
    """The one element of a tensor that follows from constants; None for any other tensor."""
    value = tf.get_static_value(tensor) if tensor.dtype.is_integer else None
    return int(value.reshape(-1)[0]) if value is not None and value.size == 1 else None


def uniform_value(tensor: tf.Tensor) -> Optional[float]:
    """The value that every element of `tensor` has, where that follows from constants; None where it does not.

    TensorFlow's optimizers make the initial values of their slots of these few ops.
    """
    op = tensor.op
    if op.type == "Const":
        values = tf.make_ndarray(op.get_attr("value"))
        return float(values.flat[0]) if values.size and np.all(values == values.flat[0]) else None
    if op.type == "Fill":
        return uniform_value(op.inputs[1])
    if op.type in ("Identity", "Cast", "Reshape", "BroadcastTo", "Tile"):
        return uniform_value(op.inputs[0])
    if op.type in ("ZerosLike", "OnesLike"):
        return 0.0 if op.type == "ZerosLike" else 1.0
    if op.type in ("Add", "AddV2", "Mul"):
        left, right = (uniform_value(t) for t in op.inputs)
        if left is None or right is None:
            return None
        return float(np.float32(left) * np.float32(right) if op.type == "Mul" else np.float32(left) + np.float32(right))
    return None
