"""Recognises how a sparse lookup sums its rows up, and the gradient of that.

SparseSegmentSum / Mean / SqrtN                                         without weights
GatherV2, Mul, SegmentSum [, SegmentSum of weights, Sqrt], DivNoNan     with weights
Tile, ZerosLike, Select                                                 behind either: rows without ids become zeros
"""

from __future__ import annotations

import dataclasses
from typing import Iterable, List, Optional, Tuple

import tensorflow as tf

from tf_booster.passes.matching import skip_identity, uniform_value
from tf_booster.passes.shape_tricks import keeps_shape, source_of

COMBINERS = {"SparseSegmentSum": "sum", "SparseSegmentMean": "mean", "SparseSegmentSqrtN": "sqrtn"}
GRADIENTS = {f"{name}Grad": combiner for name, combiner in COMBINERS.items()}
_SELECTS = ("Select", "SelectV2")


@dataclasses.dataclass(frozen=True)
class Pooling:
    """The end of a lookup.

    op: sums up. unique: made idx. rows: embeddings of the distinct ids. result: what others read.
    weights: [m, 1] or [m]; None without. zeroed_by: the Tile that marks rows to be zeros; None where none are.
    """

    op: tf.Operation
    unique: tf.Operation
    rows: tf.Tensor
    segment_ids: tf.Tensor
    combiner: str
    result: tf.Tensor
    weights: Optional[tf.Tensor] = None
    zeroed_by: Optional[tf.Operation] = None


@dataclasses.dataclass(frozen=True)
class PoolingGradient:
    """The gradient of a Pooling's rows, `op`'s first output, from that of its result, `grad`."""

    op: tf.Operation
    pooling: Pooling
    grad: tf.Tensor
    zeroed: bool


def match_poolings(ops: Iterable[tf.Operation]) -> List[Pooling]:
    """The poolings among `ops`, which are SparseSegment… and SegmentSum ops."""
    found = []
    for op in ops:
        pooling = _unweighted(op) if op.type in COMBINERS else _weighted(op)
        if pooling is not None:
            found.append(_with_zeroed_rows(pooling))
    return found


def match_gradients(pooling: Pooling) -> List[PoolingGradient]:
    """The gradients of `pooling` in the graph: one for each tf.gradients that went through it."""
    idx = pooling.unique.outputs[1]
    found = []
    if pooling.weights is None:
        for op in dict.fromkeys(idx.consumers()):
            if op.type in GRADIENTS and _is_gradient_of(op, pooling):
                found.append(_gradient(op, pooling, op.inputs[0]))
        return found
    for places in [idx, *(op.outputs[0] for op in idx.consumers() if keeps_shape(op))]:
        for op in dict.fromkeys(places.consumers()):
            if op.type == "UnsortedSegmentSum" and op.inputs[1] is places and _is_number_of(op.inputs[2], pooling.rows):
                grad = _weighted_gradient(op.inputs[0], pooling)
                if grad is not None:
                    found.append(_gradient(op, pooling, grad))
    return found


def _unweighted(op: tf.Operation) -> Optional[Pooling]:
    idx = skip_identity(op.inputs[1])
    # TensorFlow 2.12 does not have the attribute yet.
    sparse_gradient = any(attr.name == "sparse_gradient" for attr in op.op_def.attr) and op.get_attr("sparse_gradient")
    if idx.value_index != 1 or sparse_gradient:
        return None
    return Pooling(op, idx.op, op.inputs[0], op.inputs[2], COMBINERS[op.type], op.outputs[0])


def _weighted(total: tf.Operation) -> Optional[Pooling]:
    """From SegmentSum(rows[idx] * weights): the sum is the result, or is divided by a sum of weights."""
    product = skip_identity(total.inputs[0]).op
    if product.type != "Mul":
        return None
    gather, weights = skip_identity(product.inputs[0]).op, skip_identity(product.inputs[1])
    if gather.type != "GatherV2" or uniform_value(gather.inputs[2]) != 0.0 or gather.get_attr("batch_dims") != 0:
        return None
    idx = skip_identity(gather.inputs[1])
    if idx.value_index != 1 or weights.op.type != "Reshape" or weights.op.inputs[0].shape.rank != 1:
        return None
    if weights.shape.rank != 2 or weights.shape.as_list()[1] != 1:
        return None
    combiner, op = "sum", total
    for consumer in total.outputs[0].consumers():
        if consumer.type == "DivNoNan" and consumer.inputs[0] is total.outputs[0]:
            divisor = _divided_by(consumer.inputs[1], weights, total.inputs[1])
            if divisor is not None:
                combiner, op = divisor, consumer
                break
    return Pooling(op, idx.op, gather.inputs[0], total.inputs[1], combiner, op.outputs[0], weights)


def _divided_by(divisor: tf.Tensor, weights: tf.Tensor, segment_ids: tf.Tensor) -> Optional[str]:
    """The combiner whose divisor this is."""
    op = skip_identity(divisor).op
    root = op.type == "Sqrt"
    total = skip_identity(op.inputs[0]).op if root else op
    if total.type != "SegmentSum" or total.inputs[1] is not segment_ids:
        return None
    term = skip_identity(total.inputs[0])
    if not root:
        return "mean" if term is weights else None
    squared = term.op.type == "Square" or (term.op.type == "Pow" and uniform_value(term.op.inputs[1]) == 2.0)
    return "sqrtn" if squared and skip_identity(term.op.inputs[0]) is weights else None


def _with_zeroed_rows(pooling: Pooling) -> Pooling:
    pooled = pooling.result
    for op in pooled.consumers():
        if op.type in _SELECTS and op.inputs[2] is pooled:
            zeros, tile = skip_identity(op.inputs[1]).op, skip_identity(op.inputs[0]).op
            if zeros.type == "ZerosLike" and zeros.inputs[0] is pooled and tile.type == "Tile":
                return dataclasses.replace(pooling, result=op.outputs[0], zeroed_by=tile)
    return pooling


def zeroed_rows(pooling: Pooling) -> Optional[tf.Tensor]:
    """The [rows] flags that the Tile of `pooling` spreads over the columns; None if it is made otherwise."""
    column = skip_identity(pooling.zeroed_by.inputs[0])
    if column.op.type != "Reshape" or column.shape.rank != 2 or column.shape.as_list()[1] != 1:
        return None
    flags = skip_identity(column.op.inputs[0])
    times = pooling.zeroed_by.outputs[0].shape
    whole_rows = times.rank == 2 and times.as_list()[1] == pooling.result.shape.as_list()[1]
    return flags if flags.shape.rank == 1 and whole_rows else None


def _is_gradient_of(op: tf.Operation, pooling: Pooling) -> bool:
    return (
        GRADIENTS[op.type] == pooling.combiner
        and skip_identity(op.inputs[1]) is pooling.unique.outputs[1]
        and skip_identity(op.inputs[2]) is skip_identity(pooling.segment_ids)
        and _is_number_of(op.inputs[3], pooling.rows)
    )


def _is_number_of(count: tf.Tensor, rows: tf.Tensor) -> bool:
    """Whether `count` is the first dimension of `rows`."""
    op = skip_identity(count).op
    if op.type != "StridedSlice":
        return False
    bounds = [tf.get_static_value(t) for t in op.inputs[1:]]
    if any(b is None or b.size != 1 for b in bounds) or [int(b[0]) for b in bounds] != [0, 1, 1]:
        return False
    if op.get_attr("shrink_axis_mask") != 1:
        return False
    return _counts(op.inputs[0], rows)


def _counts(shape: tf.Tensor, rows: tf.Tensor) -> bool:
    """Whether shape[0] is rows' first dimension: Shape(rows), or the dense shape of an IndexedSlices of its gradient."""
    op = skip_identity(shape).op
    if op.type == "Cast":
        op = skip_identity(op.inputs[0]).op
    return op.type == "Shape" and skip_identity(op.inputs[0]) is skip_identity(rows)


def _gradient(op: tf.Operation, pooling: Pooling, grad: tf.Tensor) -> PoolingGradient:
    """Looks behind the Select that zeroes the gradients of rows without ids."""
    select = source_of(grad).op
    zeroed = (
        pooling.zeroed_by is not None
        and select.type in _SELECTS
        and skip_identity(select.inputs[0]).op is pooling.zeroed_by
        and uniform_value(select.inputs[1]) == 0.0
    )
    return PoolingGradient(op, pooling, source_of(select.inputs[2] if zeroed else grad), zeroed)


def _weighted_gradient(values: tf.Tensor, pooling: Pooling) -> Optional[tf.Tensor]:
    """The gradient of the result that UnsortedSegmentSum's `values` are made from."""
    product = _before_broadcast_sum(values).op
    if product.type != "Mul":
        return None
    sides = [_before_broadcast_sum(t) for t in product.inputs]
    spread = next((t.op for t in sides if t.op.type == "GatherV2"), None)
    if spread is None or not any(skip_identity(t) is pooling.weights for t in product.inputs):
        return None
    if _integral(spread.inputs[1]) is not _integral(pooling.segment_ids) or uniform_value(spread.inputs[2]) != 0.0:
        return None
    grad = _before_broadcast_sum(spread.inputs[0])
    if pooling.combiner == "sum":
        return grad
    if grad.op.type != "DivNoNan" or skip_identity(grad.op.inputs[1]) is not skip_identity(pooling.op.inputs[1]):
        return None
    return grad.op.inputs[0]


def _before_broadcast_sum(tensor: tf.Tensor) -> tf.Tensor:
    """Past the sums that gradients of broadcasting ops have, where there was nothing to broadcast over rows."""
    tensor = source_of(tensor)
    if tensor.op.type == "Reshape":
        total = skip_identity(tensor.op.inputs[0]).op
        if total.type == "Sum" and total.inputs[1].op.type == "BroadcastGradientArgs":
            inner = total.inputs[0]
            if inner.shape.rank == tensor.shape.rank == 2 and inner.shape.as_list()[1] == tensor.shape.as_list()[1]:
                return source_of(inner)
    return tensor


def _integral(tensor: tf.Tensor) -> tf.Tensor:
    tensor = skip_identity(tensor)
    return skip_identity(tensor.op.inputs[0]) if tensor.op.type == "Cast" else tensor


def pooling_anchors() -> Tuple[str, ...]:
    """The op types that match_poolings takes."""
    return (*COMBINERS, "SegmentSum")
