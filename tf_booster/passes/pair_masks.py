"""Pairs that are picked by a mask: boolean_mask of a triangle, as TensorFlow Recommenders' DotInteraction and others write a DLRM's."""

from __future__ import annotations

import dataclasses
from typing import Callable, Dict, Optional, Tuple

import numpy as np
import tensorflow as tf

from tf_booster.passes.matching import integer_value, readers, same, skip_identity
from tf_booster.passes.static_integers import static_integers


@dataclasses.dataclass(frozen=True)
class MaskedPairs:
    """reshape(boolean_mask(product, mask), [-1, pairs]), where the mask is the same for each example.

    product: [batch, fields, fields]. places: where the pairs stand in the whole of it. end: the reshape. pairs: where in an example's product.
    """

    product: tf.Tensor
    places: tf.Tensor
    end: tf.Operation
    pairs: Tuple[int, ...]


def masked_pairs(gather: tf.Operation) -> Optional[MaskedPairs]:
    """What `gather` picks, if that is pairs by a mask."""
    if integer_value(gather.inputs[2]) != 0:
        return None
    flat, places = skip_identity(gather.inputs[0]).op, skip_identity(gather.inputs[1])
    where = skip_identity(places.op.inputs[0]).op if places.op.type == "Squeeze" else None
    if flat.type != "Reshape" or where is None or where.type != "Where" or gather.inputs[0].shape.rank != 1:
        return None
    product = skip_identity(flat.inputs[0])
    fields = product.shape.as_list()[-1] if product.shape.rank == 3 else None
    if not fields or product.shape.as_list()[1] != fields:
        return None
    row = skip_identity(where.inputs[0]).op
    if row.type != "Reshape" or static_integers(row.inputs[1]) != [-1]:
        return None
    mask = _mask(skip_identity(row.inputs[0]), product, fields)
    if mask is None or mask.shape != (fields, fields):
        return None
    pairs = tuple(np.flatnonzero(mask).tolist())
    ends = [op for op in readers(gather.outputs[0]) if op.type == "Reshape" and same(op.inputs[0], gather.outputs[0])]
    if len(ends) != 1 or not pairs or ends[0].outputs[0].shape.rank != 2 or ends[0].outputs[0].shape[1] != len(pairs):
        return None
    return MaskedPairs(product, places, ends[0], pairs)


def _band(matrix: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    row, column = np.indices(matrix.shape[-2:])
    return np.where(((lower < 0) | (row - column <= lower)) & ((upper < 0) | (column - row <= upper)), matrix, 0)


# Of an example's matrix, or of one number for all.
_OPS: Dict[str, Callable[..., np.ndarray]] = {
    "Add": np.add,
    "AddV2": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "LogicalNot": np.logical_not,
    "LogicalAnd": np.logical_and,
    "Equal": np.equal,
    "NotEqual": np.not_equal,
    "Greater": np.greater,
    "Less": np.less,
    "MatrixBandPart": _band,
}


def _mask(tensor: tf.Tensor, product: tf.Tensor, fields: int) -> Optional[np.ndarray]:
    """What `tensor` is for each example, where it is made of the product's shape alone; a number where it is the same everywhere."""
    op = skip_identity(tensor).op
    if op.type == "Const":
        value = tf.get_static_value(op.outputs[0])
        if value.ndim == 0:
            return value
        return value[0] if value.ndim == 3 and len(value) and np.all(value == value[0]) else None
    if op.type in ("OnesLike", "ZerosLike"):
        dtype = op.outputs[0].dtype.as_numpy_dtype
        return np.full([fields, fields], op.type == "OnesLike", dtype) if same(op.inputs[0], product) else None
    if op.type == "Fill":
        shape, value = skip_identity(op.inputs[0]).op, tf.get_static_value(op.inputs[1])
        known = shape.type == "Shape" and same(shape.inputs[0], product)
        known = known or static_integers(op.inputs[0]) == product.shape.as_list()
        return np.full([fields, fields], value) if known and value is not None else None
    if op.type != "Cast" and op.type not in _OPS:
        return None
    values = [_mask(given, product, fields) for given in op.inputs]
    if any(value is None for value in values):
        return None
    return values[0].astype(op.outputs[0].dtype.as_numpy_dtype) if op.type == "Cast" else _OPS[op.type](*values)
