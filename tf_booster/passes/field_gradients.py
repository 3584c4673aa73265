"""The gradient of the vectors of a factorization machine, as tf.gradients builds it, recognized: the addends, and where they come from.

Of v, [batch, fields, columns], it is the sum of: the gradient of the vectors' sum, given to each field; that of the sum of squares, given to each field and
multiplied by 2 * v, or twice by v where squares are written v * v; and what comes from elsewhere, mostly columns of a tower's gradient.
"""

from __future__ import annotations

import dataclasses
from typing import List, Optional, Set

import tensorflow as tf

from tf_booster.passes.columns import part_of_join
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import integer_value, readers, same, skip_identity, uniform_value
from tf_booster.passes.shape_tricks import without_reduction
from tf_booster.passes.static_integers import static_integers

MADE = ("TfBoosterFieldSums", "TfBoosterFieldSumsGrad")
_MOST_TERMS = 8  # TensorFlow's AddN adds more in another order.


@dataclasses.dataclass(frozen=True)
class Term:
    """An addend: `tensor`, read from the element `first` of each row on; kind: as of TfBoosterFieldSumsGrad."""

    kind: str
    tensor: tf.Tensor
    first: int = 0


@dataclasses.dataclass(frozen=True)
class FieldGradient:
    """total: the AddN of the vectors' gradient. end: what the new op takes the place of. whole: whether that is the gradient of all that a split took
    apart, of which each part has its terms in `ranges`; otherwise of the vectors alone."""

    total: tf.Operation
    end: tf.Operation
    whole: bool
    ranges: List[List[Term]]


def is_ours(view: GraphView, op: tf.Operation) -> bool:
    """Whether `op` runs as it stands, where the new ops can run, too."""
    return view.is_plain(op, *MADE)


def squared(tensor: tf.Tensor) -> Optional[tf.Tensor]:
    """v where `tensor` is Square(v) or v * v."""
    op = skip_identity(tensor).op
    if op.type == "Square" or (op.type == "Mul" and same(*op.inputs)):
        return skip_identity(op.inputs[0])
    return None


def gradient_of(view: GraphView, vectors: tf.Tensor, is_part: bool, live: Set[int]) -> Optional[FieldGradient]:
    """The gradient of `vectors`, which may be what a split took out of wider ones; None if anything about it is not understood."""
    number = view.index().number
    totals = {
        op
        for end in _ends_of_squares(view, vectors)
        for op in readers(end)
        if op.type == "AddN" and number[op] in live and is_ours(view, op)
    }
    if len(totals) != 1:
        return None
    total = totals.pop()
    if len(total.inputs) > _MOST_TERMS or any(not _is_like(t, vectors) for t in total.inputs):
        return None
    terms = [_term(t, vectors) for t in total.inputs]
    around = _join_of_gradients(view, total, vectors, live) if is_part else None
    if around is None:
        return FieldGradient(total, total, False, [terms])
    parts = [skip_identity(part) for part in around.inputs[:-1]]
    ranges = [terms if part.op is total else [_term(part, part)] for part in parts]
    return FieldGradient(total, around, True, ranges)


def _ends_of_squares(view: GraphView, vectors: tf.Tensor) -> List[tf.Tensor]:
    """What the gradients of the sums of squares add to that of `vectors`."""
    found = []
    for op in readers(vectors):
        if op.type != "Mul" or not is_ours(view, op):
            continue
        products = readers(op.outputs[0]) if _doubles(op, vectors) else [op]
        for product in products:
            end = without_reduction(product.outputs[0], vectors)
            if product.type == "Mul" and _term(end, vectors).kind != "whole" and is_ours(view, product):
                found.append(end)
    return found


def _doubles(op: tf.Operation, vectors: tf.Tensor) -> bool:
    """Whether `op` is vectors * 2."""
    return op.type == "Mul" and any(
        same(value, vectors) and uniform_value(factor) == 2.0 and factor.shape.rank == 0
        for value, factor in (op.inputs, reversed(op.inputs))
    )


def _is_like(tensor: tf.Tensor, vectors: tf.Tensor) -> bool:
    return tensor.shape.rank == 3 and tensor.shape.as_list()[1:] == vectors.shape.as_list()[1:]


def _term(tensor: tf.Tensor, vectors: tf.Tensor) -> Term:
    """`tensor`, of the shape of `vectors`, as an addend of their gradient."""
    tensor = skip_identity(tensor)
    given = _given_to_fields(tensor)
    if given is not None:
        return Term("sum", given)
    product = _product(tensor)
    for left, right in (product.inputs, reversed(product.inputs)) if product is not None else ():
        given = _given_to_fields(skip_identity(left))
        if given is not None and same(right, vectors):
            return Term("product_sum", given)
        if given is not None and _doubles(skip_identity(right).op, vectors):
            return Term("square_sum", given)
    if tensor.op.type == "Reshape":
        flat = skip_identity(tensor.op.inputs[0])
        columns = tensor.shape.as_list()[1:]
        if None not in columns and flat.shape.rank == 2 and flat.shape[1] == columns[0] * columns[1]:
            return Term("whole", *(part_of_join(flat) or (flat, 0)))
    return Term("whole", tensor)


def _product(tensor: tf.Tensor) -> Optional[tf.Operation]:
    """The Mul that `tensor` is the result of, where tf.gradients sums it over no dimension, too."""
    op = tensor.op
    if op.type == "Mul":
        return op
    sums = skip_identity(op.inputs[0]).op if op.type == "Reshape" else op
    product = skip_identity(sums.inputs[0]).op if sums.type == "Sum" else op
    if product.type != "Mul":
        return None
    ends = [without_reduction(product.outputs[0], skip_identity(factor)) for factor in product.inputs]
    return product if any(end is tensor for end in ends) else None


def _given_to_fields(tensor: tf.Tensor) -> Optional[tf.Tensor]:
    """What `tensor`, [batch, fields, columns], has in each field: a tensor with the elements [batch, columns]. None if fields differ."""
    op = tensor.op
    if op.type == "Tile":
        copies = static_integers(op.inputs[1])
        if copies is None or copies != [1, tensor.shape[1], 1]:
            return None
    elif op.type != "BroadcastTo" or tensor.shape.rank != 3:
        return None
    row = skip_identity(op.inputs[0])
    columns = tensor.shape[2]
    if columns is None:
        return None
    if row.op.type == "Reshape" and _keeps_row(row.op, columns):
        row = skip_identity(row.op.inputs[0])
    shape = row.shape.as_list() if row.shape.rank is not None else []
    return row if shape[1:] in ([columns], [1, columns]) else None


def _keeps_row(reshape: tf.Operation, columns: int) -> bool:
    """Whether `reshape` makes [batch, 1, columns] of [batch, columns], as the gradient of a sum over the fields does first."""
    before, after = reshape.inputs[0].shape, reshape.outputs[0].shape
    if before.rank not in (2, 3) or before[-1] != columns or (before.rank == 3 and before[1] != 1):
        return False
    if after.rank == 3 and after.as_list()[1:] == [1, columns]:
        return True
    # The shape of the vectors with a 1 in the place of the fields, where the batch is not known.
    stitch = skip_identity(reshape.inputs[1]).op
    if stitch.type != "DynamicStitch" or len(stitch.inputs) != 4 or stitch.inputs[2].op.type != "Shape":
        return False
    places = [static_integers(tensor) for tensor in stitch.inputs[:2]]
    shape = stitch.inputs[2].op.inputs[0].shape
    known = shape.rank == 3 and shape[2] == columns
    return known and places == [[0, 1, 2], [1]] and uniform_value(stitch.inputs[3]) == 1.0


def _join_of_gradients(
    view: GraphView, total: tf.Operation, vectors: tf.Tensor, live: Set[int]
) -> Optional[tf.Operation]:
    """The ConcatV2 that puts the gradients of all parts of a split together, of which `vectors` is one, if a step reads `total` there alone."""
    split = vectors.op
    number = view.index().number
    read = [op for op in readers(total.outputs[0]) if number[op] in live]
    if len(read) != 1 or read[0].type != "ConcatV2" or not is_ours(view, read[0]):
        return None
    join = read[0]
    parts = list(join.inputs[:-1])
    if len(parts) != len(split.outputs) or integer_value(join.inputs[-1]) not in (2, -1):
        return None
    alike = all(_is_like(part, of) for part, of in zip(parts, split.outputs))
    own = [i for i, part in enumerate(parts) if skip_identity(part).op is total]
    return join if alike and own == [vectors.value_index] else None
