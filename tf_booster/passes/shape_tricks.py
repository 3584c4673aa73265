"""Reshapes that change nothing, and other ops that only pass a tensor on."""

from __future__ import annotations

from typing import List

import tensorflow as tf

from tf_booster.passes.matching import skip_identity


def keeps_shape(reshape: tf.Operation) -> bool:
    """Whether a Reshape gives back the shape that it gets, or fails.

    So it is if ranks are equal and at most one dimension is unknown, in the same place of both: a Reshape keeps the number
    of elements, so that dimension cannot change either. A dimension of 0 would leave it open.
    """
    if reshape.type != "Reshape":
        return False
    before, after = reshape.inputs[0].shape, reshape.outputs[0].shape
    if before.rank is None or before.rank != after.rank:
        return False
    unknown = 0
    for old, new in zip(before.as_list(), after.as_list()):
        if old is None or new is None:
            unknown += 1
        elif old != new or old == 0:
            return False
    return unknown <= 1


def source_of(tensor: tf.Tensor) -> tf.Tensor:
    """The tensor that a chain of Identities and of reshapes that change nothing passes on."""
    while True:
        tensor = skip_identity(tensor)
        if not keeps_shape(tensor.op):
            return tensor
        tensor = tensor.op.inputs[0]


def copies_of(tensor: tf.Tensor) -> List[tf.Tensor]:
    """`tensor` and all that Identities without control inputs and reshapes that change nothing make of it."""
    found, work = [], [tensor]
    while work:
        tensor = work.pop()
        found.append(tensor)
        for op in dict.fromkeys(tensor.consumers()):
            # The type first: to list the inputs of an op of a thousand lookups takes milliseconds.
            if op.type in ("Identity", "Reshape") and op.inputs[0] is tensor and not op.control_inputs:
                if op.type == "Identity" or keeps_shape(op):
                    work.append(op.outputs[0])
    return found
