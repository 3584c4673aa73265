"""Recognises what stands in front of a sparse lookup's gather: ids made sparse, hashed, flattened, pruned, filled, distinct.

    dense feature   NotEqual, Where, GatherNd, Shape                              categorical columns of dense tensors
    hash            [AsString,] StringToHashBucketFast                            categorical_column_with_hash_bucket
    flatten         SparseReshape to two dimensions, once or twice                safe_embedding_lookup_sparse, linear_model
    prune           GreaterEqual 0, Where, Reshape, GatherV2 of indices, ids      … and again for weights, Greater 0
    fill            SparseFillEmptyRows of ids, and of weights
    distinct        Unique

Each stage but the last may be missing, so a program's own chain of these ops is understood as well.
"""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

import tensorflow as tf

from tf_booster.passes.matching import integer_value, same, skip_identity, skip_widening, uniform_value
from tf_booster.passes.sparse_source import (
    NotUnderstood,
    Sparse,
    first_column,
    picked_from,
    undo_flattening,
    undo_hash,
)

UNIQUES = ("Unique", "TfBoosterUnique")


@dataclasses.dataclass(frozen=True)
class LookupFront:
    """The ids of a lookup as TfBoosterPrepareLookups takes them.

    unique: the op that makes them distinct, which is last.
    fill, fill_weights: the SparseFillEmptyRows ops; None without.
    values: the ids, sparse [n] (with indices, dense_shape) or dense of any rank; int32, int64 or, with a hash, string.
    picked: what TensorFlow picked from dense `values`; None for sparse ones.
    """

    unique: tf.Operation
    values: tf.Tensor
    indices: Optional[tf.Tensor] = None
    dense_shape: Optional[tf.Tensor] = None
    weights: Optional[tf.Tensor] = None
    segment_op: Optional[tf.Operation] = None
    fill: Optional[tf.Operation] = None
    fill_weights: Optional[tf.Operation] = None
    prune_ids: bool = False
    prune_weights: bool = False
    default_id: int = 0
    leading_dims: int = 1
    hash_buckets: int = 0
    hash_op: Optional[tf.Operation] = None
    picked: Optional[Sparse] = None

    @property
    def dense(self) -> bool:
        """Whether `values` is a dense feature in which −1 (or '') stands for no id."""
        return self.indices is None


def match_front(unique: tf.Operation, segment_ids: tf.Tensor, weights: Optional[tf.Tensor]) -> LookupFront:
    """The front of the lookup whose pooling has these segment ids and, unless None, weights [m].

    Raises NotUnderstood.
    """
    if unique.type not in UNIQUES or unique.outputs[1].dtype != tf.int32 or unique.inputs[0].shape.rank != 1:
        raise NotUnderstood(
            f"its ids come from op '{unique.name}' ({unique.type}), not from tf.unique with int32 places"
        )
    segment_ids = skip_identity(segment_ids)
    if segment_ids.op.type == "Cast" and segment_ids.op.inputs[0].dtype == tf.int64:
        segment_ids = skip_identity(segment_ids.op.inputs[0])
    values = skip_identity(unique.inputs[0])
    fill = values.op
    if fill.type != "SparseFillEmptyRows" or values.value_index != 1:
        return _without_fill(unique, values, segment_ids)
    column = first_column(segment_ids)
    if column is None or column.op is not fill or column.value_index != 0:
        raise NotUnderstood(f"op '{fill.name}' fills ids, but the rows '{segment_ids.name}' are not its rows")
    return _with_fill(unique, fill, weights)


def without_hash(front: LookupFront) -> LookupFront:
    """The same lookup, with the hash left to TensorFlow."""
    if front.hash_op is None:
        return front
    plain = dataclasses.replace(front, values=front.hash_op.outputs[0], hash_buckets=0, hash_op=None)
    if front.picked is None:
        return plain
    return dataclasses.replace(plain, indices=front.picked.indices, dense_shape=front.picked.shape, picked=None)


def _without_fill(unique: tf.Operation, values: tf.Tensor, segment_ids: tf.Tensor) -> LookupFront:
    column = first_column(segment_ids)
    indices = segment_ids if column is None else column
    if indices.dtype != tf.int64:
        raise NotUnderstood(f"its rows '{segment_ids.name}' are {segment_ids.dtype.name}, not int64")
    if not segment_ids.op.inputs or segment_ids.op.op_def.is_stateful:
        raise NotUnderstood(f"its rows come straight from op '{segment_ids.op.name}' ({segment_ids.op.type})")
    values, buckets, hash_op = undo_hash(values)
    return LookupFront(
        unique, values, indices, segment_op=segment_ids.op, hash_buckets=buckets, hash_op=hash_op
    )  # fmt: skip


def _with_fill(unique: tf.Operation, fill: tf.Operation, weights: Optional[tf.Tensor]) -> LookupFront:
    default = integer_value(fill.inputs[3])
    if default is None:
        raise NotUnderstood(f"the default id of op '{fill.name}' is not a constant")
    fill_weights = None
    state = Sparse(fill.inputs[0], fill.inputs[1], fill.inputs[2])
    other = None
    if weights is not None:
        fill_weights = skip_identity(weights).op
        if fill_weights.type != "SparseFillEmptyRows" or uniform_value(fill_weights.inputs[3]) != 1.0:
            raise NotUnderstood(f"its weights come from op '{fill_weights.name}' ({fill_weights.type})")
        other = Sparse(fill_weights.inputs[0], fill_weights.inputs[1], fill_weights.inputs[2])
    state, other, prune_ids, prune_weights = _undo_pruning(state, other)
    if other is not None and (not same(state.indices, other.indices) or not same(state.shape, other.shape)):
        raise NotUnderstood(f"ops '{fill.name}' and '{fill_weights.name}' fill ids and weights of different places")
    state, leading_dims = undo_flattening(state)
    known = LookupFront(
        unique, state.values, state.indices, state.shape, None if other is None else skip_identity(other.values), None, fill,
        fill_weights, prune_ids, prune_weights, default, leading_dims,
    )  # fmt: skip
    return _undo_sparse(known)


def _undo_sparse(front: LookupFront) -> LookupFront:
    """Takes in the hash, and the dense feature that the ids were picked from."""
    values, buckets, hash_op = undo_hash(skip_identity(front.values))
    found = dataclasses.replace(front, values=values, hash_buckets=buckets, hash_op=hash_op)
    if front.weights is None:
        picked = skip_widening(values)
        dense = picked_from(picked, front.indices, front.dense_shape)
        if dense is not None:
            sparse = Sparse(front.indices, picked, front.dense_shape)
            return dataclasses.replace(found, values=dense, indices=None, dense_shape=None, picked=sparse)
    if found.values.dtype not in (tf.int32, tf.int64, tf.string):
        raise NotUnderstood(f"its ids are {found.values.dtype.name}")
    return found


def _undo_pruning(ids: Sparse, weights: Optional[Sparse]) -> Tuple[Sparse, Optional[Sparse], bool, bool]:
    """The ids and weights before sparse_retain dropped some, and by which rules it did."""
    pruned = {"weights": False, "ids": False}
    for rule in ("weights", "ids"):
        found = _retained(ids)
        if found is None or (rule == "weights" and weights is None):
            continue
        mask, before = found
        weights_before = None
        if weights is not None:
            other = _retained(weights)
            if other is None or not same(other[0], mask):
                raise NotUnderstood(f"the weights are not dropped together with the ids by mask '{mask.name}'")
            weights_before = other[1]
        if _is_mask(mask, rule, before, weights_before):
            pruned[rule] = True
            ids, weights = before, weights_before
    return ids, weights, pruned["ids"], pruned["weights"]


def _retained(sparse: Sparse) -> Optional[Tuple[tf.Tensor, Sparse]]:
    """The mask of a sparse_retain and what went in; None if `sparse` is not the result of one."""
    indices, values = skip_identity(sparse.indices).op, skip_identity(sparse.values).op
    if indices.type != "GatherV2" or values.type != "GatherV2" or not same(indices.inputs[1], values.inputs[1]):
        return None
    if any(integer_value(op.inputs[2]) != 0 or op.get_attr("batch_dims") != 0 for op in (indices, values)):
        return None
    places = skip_identity(indices.inputs[1]).op
    if places.type != "Reshape" or places.inputs[0].op.type != "Where":
        return None
    return places.inputs[0].op.inputs[0], Sparse(indices.inputs[0], values.inputs[0], sparse.shape)


def _is_mask(mask: tf.Tensor, rule: str, ids: Sparse, weights: Optional[Sparse]) -> bool:
    mask = skip_identity(mask)
    if rule == "weights":
        return (
            mask.op.type == "Greater"
            and same(mask.op.inputs[0], weights.values)
            and uniform_value(mask.op.inputs[1]) == 0.0
        )
    if mask.op.type == "LogicalAnd" and uniform_value(mask.op.inputs[1]) == 1.0:
        mask = skip_identity(mask.op.inputs[0])
    return (
        mask.op.type == "GreaterEqual"
        and same(mask.op.inputs[0], ids.values)
        and uniform_value(mask.op.inputs[1]) == 0.0
    )
