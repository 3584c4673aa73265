"""What is the same for all records, once for each record of a batch."""

from __future__ import annotations

from typing import Any, List, Sequence

import numpy as np
import tensorflow as tf

from tf_booster.passes.function_constants import constant_node

_INT32 = tf.int32.as_datatype_enum


def repeated(name: str, tensor: str, dtype: int, shape: Sequence[int], rows: Any) -> List[Any]:
    """NodeDefs of a function that give `tensor`, of static `shape`, for each row of its argument `rows`; the last one is `name`."""
    sizes = _node(f"{name}/sizes", "Shape", [rows.name], T=rows.type, out_type=_INT32)
    zero, one, row_shape = (
        constant_node(f"{name}/{what}", np.asarray(value, np.int32))
        for what, value in (("zero", [0]), ("one", [1]), ("row_shape", shape))
    )
    first = [f"{sizes.name}:output:0", *(f"{node.name}:output:0" for node in (zero, one))]
    size = _node(f"{name}/size", "Slice", first, T=_INT32, Index=_INT32)
    axis = constant_node(f"{name}/axis", np.asarray(0, np.int32))
    parts = [f"{node.name}:output:0" for node in (size, row_shape, axis)]
    whole = _node(f"{name}/shape", "ConcatV2", parts, T=_INT32, Tidx=_INT32)
    whole.attr["N"].i = 2
    result = _node(name, "BroadcastTo", [tensor, f"{whole.name}:output:0"], T=dtype, Tidx=_INT32)
    return [sizes, zero, one, row_shape, size, axis, whole, result]


def _node(name: str, op_type: str, inputs: Sequence[str], **types: int) -> Any:
    node = tf.compat.v1.NodeDef(name=name, op=op_type, input=inputs)
    for attr, dtype in types.items():
        node.attr[attr].type = dtype
    return node
