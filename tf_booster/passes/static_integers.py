"""Integers that follow from constants: a little further than tf.get_static_value looks."""

from __future__ import annotations

from typing import List, Optional

import tensorflow as tf

from tf_booster.passes.matching import skip_identity


def static_integers(tensor: tf.Tensor) -> Optional[List[int]]:
    """The elements of an integer tensor of rank 0 or 1 that is made of constants; None for any other tensor.

    TensorFlow's gradients compute axes and permutations by such ops, sums among them, which tf.get_static_value does not follow.
    """
    tensor = skip_identity(tensor)
    if not tensor.dtype.is_integer or tensor.shape.rank not in (0, 1):
        return None
    value = tf.get_static_value(tensor)
    if value is not None:
        return [int(element) for element in value.reshape(-1)]
    op = tensor.op
    if op.type not in _FOLDED:
        return None
    inputs = [static_integers(t) for t in op.inputs]
    return None if any(known is None for known in inputs) else _FOLDED[op.type](*inputs)


def _sum(left: List[int], right: List[int]) -> Optional[List[int]]:
    if len(left) != len(right) and 1 not in (len(left), len(right)):
        return None
    size = max(len(left), len(right)) if left and right else 0
    return [left[i % len(left)] + right[i % len(right)] for i in range(size)]


_FOLDED = {
    "Add": _sum,
    "AddV2": _sum,
    "FloorDiv": lambda left, right: [a // right[0] for a in left] if len(right) == 1 and right[0] else None,
    "FloorMod": lambda left, right: [a % right[0] for a in left] if len(right) == 1 and right[0] else None,
    "ConcatV2": lambda *parts: [element for part in parts[:-1] for element in part],
    "Pack": lambda *parts: [element for part in parts for element in part],
    "Range": lambda start, limit, delta: list(range(start[0], limit[0], delta[0])),
}
