"""Recognises where the ids of a sparse lookup come from: flattened sparse tensors, hashes, dense features made sparse."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional, Tuple

import tensorflow as tf

from tf_booster.passes.bucketized import buckets_of
from tf_booster.passes.crossed import crosses_of
from tf_booster.passes.matching import (
    integer_value,
    is_shape_of,
    same,
    skip_casts,
    skip_identity,
    skip_widening,
    uniform_value,
)

_FIRST_IDS = {"TfBoosterTableProbe": 1, "TfBoosterTableRoute": 0}  # Which input of a probe is the first of ids.


class NotUnderstood(Exception):
    """The ops around a lookup are not the ones that a pass knows; the message says which."""


@dataclasses.dataclass(frozen=True)
class Sparse:
    """The three tensors of a tf.SparseTensor."""

    indices: tf.Tensor
    values: tf.Tensor
    shape: tf.Tensor


def undo_flattening(sparse: Sparse) -> Tuple[Sparse, int]:
    """The ids before they were given two dimensions, and how many leading dimensions became rows.

    A reshape that is another, as of lists of documents to documents, stays in the graph, and the ids are what it gives.
    """
    leading = 1
    for _ in range(2):
        indices = skip_identity(sparse.indices)
        reshape = indices.op
        if reshape.type != "SparseReshape" or indices.value_index != 0:
            break
        shape = skip_identity(sparse.shape)
        if shape.op is not reshape or shape.value_index != 1 or leading != 1:
            break
        rank = reshape.inputs[1].shape.as_list()[0] if reshape.inputs[1].shape.rank == 1 else None
        if rank is None:
            rank = reshape.inputs[0].shape.as_list()[1] if reshape.inputs[0].shape.rank == 2 else None
        rows = _rows_kept(reshape, rank)
        if rows is None:
            break  # The program's own: what it gives are ids like others.
        leading = rows
        sparse = Sparse(reshape.inputs[0], sparse.values, reshape.inputs[1])
        if rank != 2:
            break
    return sparse, leading


def _rows_kept(reshape: tf.Operation, rank: Optional[int]) -> Optional[int]:
    """How many of the dimensions become the first of two: all but the last, or the first alone; None for anything else."""
    shape = skip_casts(reshape.inputs[2])
    if rank is None or rank < 1 or shape.op.type != "Pack" or len(shape.op.inputs) != 2:
        return None
    first, second = (skip_casts(t) for t in shape.op.inputs)
    whole = skip_casts(reshape.inputs[1])
    if integer_value(second) == -1:
        return 1 if _is_slice_of(first, whole, 0, 1) else None
    last = second.op
    if rank < 2 or last.type != "GatherV2" or integer_value(last.inputs[1]) != rank - 1:
        return None
    if not same(skip_casts(last.inputs[0]), whole):
        return None
    if first.op.type != "Prod" or not _is_slice_of(skip_casts(first.op.inputs[0]), whole, 0, rank - 1):
        return None
    return rank - 1


def _is_slice_of(tensor: tf.Tensor, whole: tf.Tensor, begin: int, end: int) -> bool:
    op = tensor.op
    if op.type == "Slice":
        bounds = [integer_value(op.inputs[1]), integer_value(op.inputs[2])]
        return same(skip_casts(op.inputs[0]), whole) and bounds == [begin, end - begin]
    if op.type == "StridedSlice":
        bounds = [integer_value(t) for t in op.inputs[1:]]
        plain = not any(op.get_attr(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis"))
        return plain and same(skip_casts(op.inputs[0]), whole) and bounds == [begin, end, 1]
    return False


@dataclasses.dataclass(frozen=True)
class PickedIds:
    """int64 ids that were picked from a dense feature whose −1 stand for none.

    dense: the feature, int32 or int64. gather: the op that picked them, at the places `where`.
    """

    dense: tf.Tensor
    where: tf.Tensor
    gather: tf.Operation

    @property
    def ops(self) -> Tuple[tf.Operation, ...]:
        """The ops that made them sparse."""
        return self.gather, self.where.op, self.where.op.inputs[0].op

    def ids(self) -> tf.Tensor:
        """The feature as int64."""
        return self.dense if self.dense.dtype == tf.int64 else tf.cast(self.dense, tf.int64)

    def pick(self, view: Any, codes: tf.Tensor) -> tf.Tensor:
        """Of codes for the whole feature, −1 for none, those that are there."""
        with view.inserting(self.gather.device):
            return tf.gather_nd(codes, self.where)


def picked_ids(ids: tf.Tensor) -> Optional[PickedIds]:
    """How `ids` were picked from a dense feature; None if they were not."""
    ids = skip_widening(skip_identity(ids))
    dense = None if ids.op.type != "GatherNd" else ids.op.inputs[0]
    if dense is None or dense.dtype not in (tf.int32, tf.int64) or dense.shape.rank == 0:
        return None
    where = skip_identity(ids.op.inputs[1])
    return PickedIds(dense, where, ids.op) if _are_places_of(where, dense) else None


def picked_from(values: tf.Tensor, indices: tf.Tensor, shape: tf.Tensor) -> Optional[tf.Tensor]:
    """The dense tensor whose entries other than −1 or '' are `values`: a feature, buckets, crosses, or the codes that a probe has for it."""
    for whole in (buckets_of, crosses_of):
        dense = whole(values, indices, shape)
        if dense is not None:
            return dense
    indices = skip_identity(indices)
    gather = values.op
    if gather.type != "GatherNd" or not same(gather.inputs[1], indices):
        return None
    dense = gather.inputs[0]
    feature = _probed(dense)
    return dense if _are_places_of(indices, feature) and is_shape_of(shape, feature) else None


def _are_places_of(where: tf.Tensor, dense: tf.Tensor) -> bool:
    """Whether `where` are the places of `dense` that are not none."""
    if where.op.type != "Where":
        return False
    differs = where.op.inputs[0].op
    return differs.type == "NotEqual" and same(differs.inputs[0], dense) and stands_for_none(dense, differs.inputs[1])


def _probed(dense: tf.Tensor) -> tf.Tensor:
    """The feature that `dense` has the codes of, −1 for none; `dense` itself if it is no such codes."""
    op, place = dense.op, dense.value_index
    first = _FIRST_IDS.get(op.type)
    if first is None or place >= op.get_attr("N") or not op.get_attr("skip_missing")[place]:
        return dense
    return skip_widening(op.inputs[first + place])


def stands_for_none(dense: tf.Tensor, value: tf.Tensor) -> bool:
    """Whether `value` stands for no entry in the feature `dense`: −1, or ''."""
    value = skip_identity(value)
    if dense.dtype == tf.string:
        return _string(value) == b""
    return dense.dtype in (tf.int32, tf.int64) and uniform_value(value) == -1.0


def undo_hash(values: tf.Tensor) -> Tuple[tf.Tensor, int, Optional[tf.Operation]]:
    values = skip_identity(values)
    if values.op.type != "StringToHashBucketFast":
        return values, 0, None
    return hash_input(values.op), int(values.op.get_attr("num_buckets")), values.op


def hash_input(hash_op: tf.Operation) -> tf.Tensor:
    text = skip_identity(hash_op.inputs[0])
    plain = {"precision": -1, "scientific": False, "shortest": False, "width": -1, "fill": b""}
    if text.op.type == "AsString" and text.op.inputs[0].dtype in (tf.int32, tf.int64):
        if all(text.op.get_attr(name) == value for name, value in plain.items()):
            return skip_identity(text.op.inputs[0])
    return text


def _string(tensor: tf.Tensor) -> Optional[bytes]:
    value = tf.get_static_value(tensor)
    if value is None:
        return None
    found = list(getattr(value, "flat", [value]))
    return found[0] if len(found) == 1 else None


def first_column(segment_ids: tf.Tensor) -> Optional[tf.Tensor]:
    """x of x[:, 0]; None for anything else."""
    op = segment_ids.op
    if op.type != "StridedSlice" or op.inputs[0].shape.rank != 2:
        return None
    masks = {name: op.get_attr(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    if (
        masks["ellipsis"]
        or masks["new_axis"]
        or masks["shrink_axis"] != 2
        or not masks["begin"] & 1
        or not masks["end"] & 1
    ):
        return None
    begin, stride = (tf.get_static_value(op.inputs[i]) for i in (1, 3))
    if begin is None or stride is None or len(begin) != 2 or begin[1] != 0 or list(stride) != [1, 1]:
        return None
    return skip_identity(op.inputs[0])
