"""Recognises crosses of features (SparseCross into buckets), what their keys are, and which have one result for each row."""

from __future__ import annotations

import dataclasses
from typing import List, Optional, Sequence

import tensorflow as tf

from tf_booster.passes.bucketized import buckets_of
from tf_booster.passes.matching import same, skip_identity, skip_widening


@dataclasses.dataclass(frozen=True)
class CrossInput:
    """One feature of a cross as TensorFlow takes it: values [entries] at indices of a shape, or dense [rows, values of a row]."""

    values: tf.Tensor
    indices: Optional[tf.Tensor] = None
    shape: Optional[tf.Tensor] = None


def is_into_buckets(op: tf.Operation) -> bool:
    """Whether `op` is a cross that gives int64."""
    return op.type == "SparseCross" and op.outputs[1].dtype == tf.int64


def cross_inputs(cross: tf.Operation) -> List[CrossInput]:
    """The features of a cross in the order in which they are hashed."""
    count = int(cross.get_attr("N"))
    given: Sequence[tf.Tensor] = list(cross.inputs)
    dense = len(given) - len(cross.get_attr("dense_types"))
    of_sparse = zip(given[count : 2 * count], given[:count], given[2 * count : dense])
    return [*(CrossInput(*parts) for parts in of_sparse), *(CrossInput(tensor) for tensor in given[dense:])]


def crosses_of(values: tf.Tensor, indices: tf.Tensor, shape: tf.Tensor) -> Optional[tf.Tensor]:
    """The values [rows] of a cross, if these are its three results and each row has one of each feature; else None."""
    cross = skip_identity(values).op
    if not is_into_buckets(cross):
        return None
    if not all(same(skip_identity(t), made) for t, made in zip((indices, values, shape), cross.outputs)):
        return None
    return cross.outputs[1] if all(map(_is_one_each, cross_inputs(cross))) else None


def _is_one_each(key: CrossInput) -> bool:
    if key.indices is not None:
        return buckets_of(skip_widening(skip_identity(key.values)), key.indices, key.shape) is not None
    return key.values.shape.rank == 2 and key.values.shape.as_list()[1] == 1
