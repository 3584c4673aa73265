"""Rules for ops that only move numbers: what keeps rows apart, and what changes how many there are for each example."""

from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster.passes.matching import integer_value
from tf_booster.passes.row_kinds import NotByRow, Rows, Size, Sizes
from tf_booster.passes.row_rules import Given, axis_of, check_same, items_of, rank_of, rows_of, rule
from tf_booster.passes.static_integers import static_integers


@rule("Cast", "Identity")
def _pass_on(op: tf.Operation, given: Given) -> List[Any]:
    return [rows_of(op, given)]


@rule("ConcatV2")
def _concat(op: tf.Operation, given: Given) -> List[Any]:
    check_same(given, -1)
    axis_of(op, integer_value(op.inputs[-1]), rank_of(op.inputs[0]))
    return [rows_of(op, given, *range(len(given) - 1))]


@rule("Pack")
def _pack(op: tf.Operation, given: Given) -> List[Any]:
    axis_of(op, op.get_attr("axis"), rank_of(op.inputs[0]) + 1)
    if rank_of(op.inputs[0]) == 0:
        raise NotByRow("it is of scalars")
    return [rows_of(op, given)]


@rule("Unpack")
def _unpack(op: tf.Operation, given: Given) -> List[Any]:
    axis_of(op, op.get_attr("axis"), rank_of(op.inputs[0]))
    return [rows_of(op, given)] * len(op.outputs)


@rule("Split")
def _split(op: tf.Operation, given: Given) -> List[Any]:
    check_same(given, 0)
    axis_of(op, integer_value(op.inputs[0]), rank_of(op.inputs[1]))
    return [rows_of(op, given, 1)] * len(op.outputs)


@rule("SplitV")
def _split_by_sizes(op: tf.Operation, given: Given) -> List[Any]:
    check_same(given, 1, 2)
    axis_of(op, integer_value(op.inputs[2]), rank_of(op.inputs[0]))
    return [rows_of(op, given, 0)] * len(op.outputs)


@rule("ExpandDims")
def _expand(op: tf.Operation, given: Given) -> List[Any]:
    check_same(given, 1)
    axis_of(op, integer_value(op.inputs[1]), rank_of(op.inputs[0]) + 1)
    return [rows_of(op, given, 0)]


@rule("Squeeze")
def _squeeze(op: tf.Operation, given: Given) -> List[Any]:
    axes = list(op.get_attr("squeeze_dims"))
    if not axes:
        raise NotByRow("it takes every dimension of 1, the batch's of a single row too")
    for axis in axes:
        axis_of(op, axis, rank_of(op.inputs[0]))
    return [rows_of(op, given)]


@rule("Transpose")
def _transpose(op: tf.Operation, given: Given) -> List[Any]:
    check_same(given, 1)
    permutation = static_integers(op.inputs[1])
    if not permutation or permutation[0] != 0:
        raise NotByRow("it moves the dimension of the rows")
    return [rows_of(op, given, 0)]


@rule("Tile")
def _tile(op: tf.Operation, given: Given) -> List[Any]:
    times = sizes_of(op.inputs[1], given[1])
    if not times or times[0] != Size(None, 1) or any(size.base is not None for size in times):
        raise NotByRow("it repeats along the rows")
    return [rows_of(op, given, 0)]


@rule("GatherV2")
def _gather(op: tf.Operation, given: Given) -> List[Any]:
    check_same(given, 2)
    axis = integer_value(op.inputs[2])
    if op.get_attr("batch_dims") != 0:
        raise NotByRow("its batch_dims is not 0")
    if given[0] is None:
        if axis != 0 or rank_of(op.inputs[1]) == 0:
            raise NotByRow("it does not gather along the first axis, or one row for all")
        return [rows_of(op, given, 1)]
    check_same(given, 1)
    axis_of(op, axis, rank_of(op.inputs[0]))
    return [rows_of(op, given, 0)]


@rule("Slice")
def _slice(op: tf.Operation, given: Given) -> List[Any]:
    check_same(given, 1, 2)
    begin, size = (static_integers(op.inputs[place]) for place in (1, 2))
    if not begin or not size or begin[0] != 0 or size[0] != -1:
        raise NotByRow("it is not known to take all rows")
    return [rows_of(op, given, 0)]


@rule("StridedSlice")
def _strided_slice(op: tf.Operation, given: Given) -> List[Any]:
    check_same(given, 1, 2, 3)
    strides = static_integers(op.inputs[3])
    masks = {name: op.get_attr(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    if not strides:
        raise NotByRow("its strides are not static")
    if masks["ellipsis"] & 1:
        taken = len(strides) - 1 - bin(masks["new_axis"]).count("1")
        whole = rank_of(op.inputs[0]) > taken
    else:
        whole = bool(masks["begin"] & masks["end"] & 1) and strides[0] == 1
        whole = whole and not (masks["new_axis"] | masks["shrink_axis"]) & 1
    if not whole:
        raise NotByRow("it is not known to take all rows")
    return [rows_of(op, given, 0)]


@rule("Shape")
def _shape(op: tf.Operation, given: Given) -> List[Any]:
    rows = rows_of(op, given)
    rank_of(op.inputs[0])
    dims = op.inputs[0].shape.as_list()
    if not dims:
        raise NotByRow("it is of a scalar")
    return [Sizes((Size(rows.base, rows.times), *(Size(None, dim) for dim in dims[1:])))]


@rule("Size")
def _size(op: tf.Operation, given: Given) -> List[Any]:
    rows = rows_of(op, given)
    items = items_of(op.inputs[0])
    return [Sizes((Size(rows.base, None if None in (items, rows.times) else items * rows.times),))]


@rule("Reshape")
def _reshape(op: tf.Operation, given: Given) -> List[Any]:
    rows, shape = rows_of(op, given, 0), sizes_of(op.inputs[1], given[1])
    if not shape:
        raise NotByRow("its shape is not understood")
    first, rest = shape[0], shape[1:]
    if any(size.base is not None for size in rest):
        raise NotByRow("its shape has the number of rows elsewhere than at first")
    if first.base == rows.base:
        # Elements are as many as before, so each of these rows is of one example, whatever the other sizes are.
        return [Rows(rows.base, first.times, rows.coded)]
    if first == Size(None, -1) or fixes_batch(op, given):
        return [Rows(rows.base, _times_of_rest(op.inputs[0], rows, [size.times for size in rest]), rows.coded)]
    raise NotByRow("its shape does not begin with the number of rows")


def fixes_batch(op: tf.Operation, given: Given) -> bool:
    """Whether the Reshape `op` has a constant for the number of rows, which a static batch let TensorFlow compute."""
    if op.type != "Reshape" or given[1] is not None or op.inputs[0].shape.rank is None:
        return False
    shape = static_integers(op.inputs[1])
    return bool(shape) and shape[0] > 0 and bool(op.inputs[0].shape.rank) and op.inputs[0].shape[0] is not None


def _times_of_rest(tensor: tf.Tensor, rows: Rows, rest: Sequence[Optional[int]]) -> Optional[int]:
    """How many rows of the shape `rest` each of `rows` becomes; NotByRow where some might be of two."""
    if any(size is None or size <= 0 for size in rest):
        raise NotByRow("the sizes of its rows are not static")
    wanted = math.prod(rest)
    items = items_of(tensor)
    if items is not None and rows.times is not None:
        if items == 0 or items * rows.times % wanted:
            raise NotByRow("its rows are of more than one example")
        return items * rows.times // wanted
    known = 1
    for dim in reversed(tensor.shape.as_list()[1:]):
        if known == wanted or dim is None:
            break
        known *= dim
    if known == 0 or known % wanted:
        raise NotByRow("its rows may be of more than one example")
    return None


def sizes_of(tensor: tf.Tensor, kind: Any) -> Tuple[Size, ...]:
    """The elements of a scalar or vector of sizes; () where they are not understood."""
    if isinstance(kind, Sizes):
        return kind.elements
    if kind is not None:
        return ()
    known = static_integers(tensor)
    if known is not None:
        return tuple(Size(None, value) for value in known)
    if tensor.shape.rank in (0, 1) and tensor.shape.is_fully_defined():
        return (Size(None, None),) * math.prod(tensor.shape.as_list())
    return ()
