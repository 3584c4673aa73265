"""The pass that makes one op of an expansion to all rows and the batched product behind it, as attention over a user's history is.

Keys of one user, [users, history, dim], are expanded to [batch, history, dim] for a product with a query of each candidate, and again for the sum of
values by the scores. Those are the largest tensors of such a model, and one op that picks matrices by row does not write them.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.expanded_rows import Expanded, drop_what_nothing_reads, expanded
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.row_kinds import NotByRow
from tf_booster.passes.row_rules import einsum_labels
from tf_booster.passes.static_integers import static_integers

_MADE = "TfBoosterGatherBatchMatMul"


class _Product(NamedTuple):
    """ops: what becomes one op, the first gives the result. x, y: a side that is expanded is Expanded. widen_x, widen_y: where a side gets a
    dimension of 1. squeeze: dimensions of 1 to drop."""

    ops: List[tf.Operation]
    x: Any
    y: Any
    adj_x: bool = False
    adj_y: bool = False
    widen_x: Optional[int] = None
    widen_y: Optional[int] = None
    squeeze: Optional[List[int]] = None


class GatherMatMul(Pass):
    """Products of matrices that are expanded by row read the few of them: BatchMatMul, Einsum, and Sum behind Mul where these are one."""

    name = "gather_matmul"
    seeks = "batched product of what is expanded to all rows"

    def requires(self, view: GraphView) -> bool:
        """Whether anything is expanded, and multiplied."""
        return bool(view.ops("TfBoosterRepeatedRows")) and bool(view.ops(*_FORMS))

    def run(self, view: GraphView) -> PassResult:
        """Leaves products of other dtypes and ranks, those inside of control flow or marked for XLA, and those without a reader."""
        result = PassResult(self.name)
        for op in view.ops(*_FORMS):
            if not op.outputs[0].consumers() or op.outputs[0].dtype != tf.float32 or not _can_run(view, op):
                continue
            product = _FORMS[op.type](view, op)
            if product is not None:
                _replace(view, product)
                result.changes.append(f"'{op.name}' reads few rows of '{_few(product).op.name}'")
        if result.changes:
            drop_what_nothing_reads(view)
            result.modified = result.other_bits = True
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, _MADE)


def _can_run(view: GraphView, op: tf.Operation) -> bool:
    return view.is_plain(op) and view.can_stand_for(op, _MADE, Trows=tf.int32)


def _batched(view: GraphView, op: tf.Operation) -> Optional[_Product]:
    """The BatchMatMul `op`, if one side is expanded, and both have one rank of at least 3."""
    del view
    x, y = op.inputs
    if x.dtype != tf.float32 or y.dtype != tf.float32 or x.shape.rank != y.shape.rank or (x.shape.rank or 0) < 3:
        return None
    few_x, few_y = _one_of(x, y)
    if few_x is x and few_y is y:
        return None
    return _Product([op], few_x, few_y, op.get_attr("adj_x"), op.get_attr("adj_y"))


def _one_of(x: tf.Tensor, y: tf.Tensor) -> Tuple[Any, Any]:
    """Both, one of them as what it is expanded from if it is. If both were, they would have been multiplied before."""
    few_x, few_y = expanded(x), expanded(y)
    return (x, few_y) if few_y is not None else (few_x or x, y)


def _einsum(view: GraphView, op: tf.Operation) -> Optional[_Product]:
    """The Einsum `op` of two operands, one of which is expanded, if it is a product of matrices as they lie."""
    del view
    if len(op.inputs) != 2:
        return None
    try:
        (x, y), result = einsum_labels(op)
    except NotByRow:
        return None
    few_x, few_y = _one_of(*op.inputs)
    if few_x is op.inputs[0] and few_y is op.inputs[1]:
        return None
    return _of_labels(op, x, y, result, few_x, few_y) or _of_labels(op, y, x, result, few_y, few_x)


def _of_labels(op: tf.Operation, x: str, y: str, result: str, few_x: Any, few_y: Any) -> Optional[_Product]:
    """x: batch and inner labels, then a free and a summed one in either order; of the free ones, either may be missing."""
    summed = [label for label in x if label in y and label not in result]
    inner = "".join(label for label in x if label in y and label in result)
    free_x, free_y = ("".join(label for label in one if label not in other) for one, other in ((x, y), (y, x)))
    if len(summed) != 1 or not inner or len(free_x) > 1 or len(free_y) > 1 or result != inner + free_x + free_y:
        return None
    adj_x, adj_y = x == inner + summed[0] + free_x, y == inner + free_y + summed[0]
    if not adj_x and x != inner + free_x + summed[0] or not adj_y and y != inner + summed[0] + free_y:
        return None
    rank = len(inner) + 2
    squeeze = [rank - 2] * (not free_x) + [rank - 1] * (not free_y)
    return _Product(
        [op],
        few_x,
        few_y,
        adj_x and bool(free_x),
        adj_y and bool(free_y),
        None if free_x else rank - 2,
        None if free_y else rank - 1,
        squeeze or None,
    )


def _sum_of_products(view: GraphView, op: tf.Operation) -> Optional[_Product]:
    """The Sum `op` over a Mul of [batch, history, dim], which is expanded, with [batch, 1, dim] over dim, or with [batch, history, 1] over history."""
    mul = op.inputs[0].op
    axes = static_integers(op.inputs[1])
    if mul.type != "Mul" or axes is None or len(axes) != 1 or mul.outputs[0].consumers() != [op]:
        return None
    if not _can_run(view, mul) or any(tensor.shape.rank != 3 for tensor in mul.inputs):
        return None
    axis = axes[0] % 3
    squeeze = None if op.get_attr("keep_dims") else [axis]
    for few, other in (mul.inputs, list(mul.inputs)[::-1]):
        matrices = expanded(few)
        if matrices is None or axis == 0:
            continue
        # Where the few have a 1 themselves, they are the ones that are broadcast.
        if axis == 2 and other.shape[1] == 1 and other.shape[2] == few.shape[2] and (few.shape[2] or 0) > 1:
            return _Product([op, mul], matrices, other, adj_y=True, squeeze=squeeze)
        if axis == 1 and other.shape[2] == 1 and _same_history(few, other) and (few.shape[2] or 0) > 1:
            return _Product([op, mul], other, matrices, adj_x=True, squeeze=squeeze)
    return None


def _same_history(few: tf.Tensor, other: tf.Tensor) -> bool:
    """Whether dimension 1 of both is known to be the same: of unknown sizes, one may be 1 at run time and be broadcast."""
    sizes = few.shape[1], other.shape[1]
    return None not in sizes and sizes[0] == sizes[1]


def _few(product: _Product) -> tf.Tensor:
    return (product.x if isinstance(product.x, Expanded) else product.y).few


def _operand(side: Any, widen: Optional[int]) -> tf.Tensor:
    tensor = side.few if isinstance(side, Expanded) else side
    return tensor if widen is None else tf.expand_dims(tensor, widen, name="tf_booster/repeated/widened")


def _replace(view: GraphView, product: _Product) -> None:
    last = product.ops[0]  # Of Mul and Sum, the Sum.
    waits = [op for old in product.ops for op in old.control_inputs if op not in product.ops]
    gathered = "x" if isinstance(product.x, Expanded) else "y"
    rows = getattr(product, gathered).rows
    with view.inserting(last.device, list(dict.fromkeys(waits))):
        made = _native.ops().tf_booster_gather_batch_mat_mul(
            x=_operand(product.x, product.widen_x),
            y=_operand(product.y, product.widen_y),
            rows=rows,
            gathered=gathered,
            adj_x=product.adj_x,
            adj_y=product.adj_y,
            name="tf_booster/repeated/product",
        )
        new = made if product.squeeze is None else tf.squeeze(made, product.squeeze, name="tf_booster/repeated/squeeze")
        new.set_shape(last.outputs[0].shape)
    view.redirect_all([(last.outputs[0], new)])
    view.redirect_control(product.ops, new.op)
    view.note_originals(made.op, product.ops)
    view.supersede(product.ops)


_FORMS: Dict[str, Callable[[GraphView, tf.Operation], Optional[_Product]]] = {
    "BatchMatMul": _batched,
    "BatchMatMulV2": _batched,
    "BatchMatMulV3": _batched,
    "Einsum": _einsum,
    "Sum": _sum_of_products,
}
