"""Reshapes that change nothing, and other ops that only pass a tensor on."""

from __future__ import annotations

from typing import Callable, Container, Dict, Iterable, List

import numpy as np
import tensorflow as tf

from tf_booster.passes.matching import same, skip_identity
from tf_booster.passes.static_integers import static_integers
from tf_booster.passes.swallowed import waits_of

# What shapes are made of. Of the ends nothing before is looked at.
_ENDS = ("Const", "Shape", "ShapeN", "Size")
SHAPE_OPS = (
    "Cast",
    "ConcatV2",
    "GatherV2",
    "Identity",
    "Maximum",
    "Mul",
    "Pack",
    "Prod",
    "Slice",
    "StridedSlice",
    "Unpack",
)
_OF_SIZES = ("ConcatOffset", "FloorMod", "Squeeze")  # What gradients of joins make of axes and shapes beside.


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


def waits(shape: tf.Tensor) -> bool:
    """Whether a shape waits for something beside what it is the shape of, or may: under tf.control_dependencies the constants in it do."""
    computing = made_by([shape], lambda op: op.type in SHAPE_OPS)
    return any(op.control_inputs or op.type not in (*_ENDS, *SHAPE_OPS) for op in computing)


def made_by(sizes: Iterable[tf.Tensor], goes_on: Callable[[tf.Operation], bool]) -> Dict[tf.Operation, None]:
    """The ops that make these sizes, shapes and axes: what is read by one of them is another, where one `goes_on`."""
    work = [tensor.op for tensor in sizes]
    found = dict.fromkeys(work)
    while work:
        op = work.pop()
        before = {tensor.op: None for tensor in op.inputs if tensor.op not in found} if goes_on(op) else {}
        found.update(before)
        work += before
    return found


def first_input(op: tf.Operation, gone: Container[tf.Operation]) -> tf.Tensor:
    """What `op`, one of `gone`, gets first; where that is by another of them, what that gets."""
    while op in gone:
        tensor = op.inputs[0]
        op = tensor.op
    return tensor


def waited_for(sizes: Iterable[tf.Tensor]) -> List[tf.Operation]:
    """What these sizes, shapes and axes wait for beside what they are made of: under tf.control_dependencies their constants may be all that does."""
    made = made_by(sizes, lambda op: op.type in (*SHAPE_OPS, *_OF_SIZES))
    return list(dict.fromkeys(other for op in made for other in waits_of(op)))


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


def without_reduction(tensor: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """What the gradient of a product makes of `tensor`, which has the shape of `x`: a sum over no dimension, where the batch is not known.

    `tensor` itself where tf.gradients made no such sum.
    """
    readers = [op for op in tensor.consumers() if op.type == "Sum"]
    if len(readers) != 1 or len(tensor.consumers()) != 1:
        return tensor
    axes = skip_identity(readers[0].inputs[1]).op
    if axes.type != "BroadcastGradientArgs" or not all(_is_shape_of(shape, x) for shape in axes.inputs):
        return tensor
    if not np.array_equal(*(_slice_of(shape) for shape in axes.inputs)):
        return tensor
    reshapes = [op for op in readers[0].outputs[0].consumers() if op.type == "Reshape" and _is_shape(op.inputs[1], x)]
    if len(reshapes) != 1 or len(readers[0].outputs[0].consumers()) != 1:
        return tensor
    return reshapes[0].outputs[0]


def _is_shape(tensor: tf.Tensor, x: tf.Tensor) -> bool:
    return tensor.op.type == "Shape" and same(tensor.op.inputs[0], x)


def _is_shape_of(shape: tf.Tensor, x: tf.Tensor) -> bool:
    """Whether `shape` is that of `x` or a part of it, as a batched product has it."""
    return _is_shape(shape.op.inputs[0] if shape.op.type == "StridedSlice" else shape, x)


def _slice_of(shape: tf.Tensor) -> List:
    """Which part of a shape a StridedSlice takes; [] for the whole."""
    op = shape.op
    if op.type != "StridedSlice":
        return []
    masks = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    return [static_integers(t) for t in op.inputs[1:]] + [[op.get_attr(mask)] for mask in masks]
