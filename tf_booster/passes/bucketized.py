"""Recognises the sparse ids that a bucketized column makes of its buckets: every one of [batch, 1], in order, by fourteen ops."""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from tf_booster.passes.matching import integer_value, is_rows_of, same, skip_casts, skip_identity
from tf_booster.passes.static_integers import static_integers


def buckets_of(values: tf.Tensor, indices: tf.Tensor, shape: tf.Tensor) -> Optional[tf.Tensor]:
    """The buckets [batch, 1], none of which is −1, that are `values` at `indices` of a sparse tensor of this shape; None if there are none.

    The values are Reshape(buckets, [-1]) + num_buckets * column and the places Transpose(Pack(row, column)); of one column all columns are 0.
    """
    values, places = skip_identity(values).op, skip_casts(indices).op
    if values.type != "AddV2" or places.type != "Transpose" or static_integers(places.inputs[1]) != [1, 0]:
        return None
    flat, offset = (skip_identity(tensor).op for tensor in values.inputs)
    pack = skip_identity(places.inputs[0]).op
    if flat.type != "Reshape" or offset.type != "Mul" or pack.type != "Pack" or len(pack.inputs) != 2:
        return None
    buckets = skip_identity(flat.inputs[0])
    if buckets.op.type != "Bucketize" or buckets.shape.rank != 2 or buckets.shape.as_list()[1] != 1:
        return None
    row, column = pack.inputs
    if pack.get_attr("axis") != 0 or static_integers(flat.inputs[1]) != [-1] or not same(offset.inputs[1], column):
        return None
    if not (_are_columns(column, buckets) and _are_rows(row, buckets) and _is_shape(shape, buckets)):
        return None
    return buckets


def _are_columns(column: tf.Tensor, buckets: tf.Tensor) -> bool:
    """A 0 for each row."""
    tile = skip_identity(column).op
    if tile.type != "Tile" or not _is_range(tile.inputs[0]) or integer_value(tile.inputs[0].op.inputs[1]) != 1:
        return False
    times = skip_identity(tile.inputs[1]).op
    return times.type == "Pack" and len(times.inputs) == 1 and is_rows_of(times.inputs[0], buckets)


def _are_rows(row: tf.Tensor, buckets: tf.Tensor) -> bool:
    """0, 1, …, batch - 1."""
    reshape = skip_identity(row).op
    if reshape.type != "Reshape" or static_integers(reshape.inputs[1]) != [-1]:
        return False
    tile = skip_identity(reshape.inputs[0]).op
    if tile.type != "Tile" or static_integers(tile.inputs[1]) != [1, 1]:
        return False
    expand = skip_identity(tile.inputs[0]).op
    if expand.type != "ExpandDims" or not _is_range(expand.inputs[0]):
        return False
    return is_rows_of(skip_identity(expand.inputs[0]).op.inputs[1], buckets)


def _is_range(tensor: tf.Tensor) -> bool:
    op = skip_identity(tensor).op
    return op.type == "Range" and integer_value(op.inputs[0]) == 0 and integer_value(op.inputs[2]) == 1


def _is_shape(shape: tf.Tensor, buckets: tf.Tensor) -> bool:
    pack = skip_casts(shape).op
    if pack.type != "Pack" or len(pack.inputs) != 2:
        return False
    return is_rows_of(pack.inputs[0], buckets) and integer_value(pack.inputs[1]) == 1
