"""Constants of functions: what slices of known bounds take, and ops of constants."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np
import tensorflow as tf

MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
_FEW = 1 << 16  # Elements.


def zero(dtype: tf.DType) -> np.ndarray:
    """What tensors of that type are padded with: a zero, or no text."""
    return np.asarray(b"" if dtype == tf.string else 0, dtype.as_numpy_dtype)


def constant_node(name: str, value: np.ndarray) -> Any:
    """The NodeDef of a constant; of texts if `value` is of objects."""
    dtype = tf.string if value.dtype == object else tf.as_dtype(value.dtype)
    node = tf.compat.v1.NodeDef(name=name, op="Const")
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype))
    node.attr["dtype"].type = dtype.as_datatype_enum
    return node


def index_of(node: Any, bounds: Sequence[np.ndarray]) -> List[Any]:
    """What a StridedSlice takes, as Python would have it between brackets. bounds: where its slices begin, end, and their strides."""
    found: List[Any] = []
    for i, (begin, end, stride) in enumerate(zip(*(bound.tolist() for bound in bounds))):
        is_set = {name: bool(node.attr[name].i >> i & 1) for name in MASKS}
        if is_set["ellipsis_mask"]:
            found.append(Ellipsis)
        elif is_set["new_axis_mask"]:
            found.append(None)
        elif is_set["shrink_axis_mask"]:
            found.append(begin)
        else:
            bounds_of_one = [None if is_set[f"{name}_mask"] else at for name, at in (("begin", begin), ("end", end))]
            found.append(slice(*bounds_of_one, None if stride == 1 else stride))
    return found


def folded(node: Any, inputs: Sequence[Optional[np.ndarray]]) -> Optional[np.ndarray]:
    """The value of an op of constants; None where it is not known."""
    if any(value is None for value in inputs):
        return None
    if node.op == "Cast":
        return inputs[0].astype(tf.as_dtype(node.attr["DstT"].type).as_numpy_dtype)
    if node.op == "Pack":
        return np.stack(inputs, node.attr["axis"].i)
    if node.op == "Range":
        start, limit, delta = inputs
        small = start.dtype.kind == "i" and delta != 0 and (int(limit) - int(start)) // int(delta) < _FEW
        return np.arange(start, limit, delta) if small else None
    return np.asarray(inputs[0][tuple(index_of(node, inputs[1:]))]) if node.op == "StridedSlice" else None
