"""The pass that makes one op of a DLRM's interaction, and one of its gradient.

Dot products of all pairs of an example's vectors are written as a batched product of the vectors with themselves, a reshape and a gather of
the pairs that count, or a mask of them. Its gradient is two transposes around a segment sum, two batched products and their sum. That was two fifths of a
step. The new ops read the vectors where they lie before tf.stack or tf.concat puts them together. Sums come in another order.
"""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

import numpy as np
import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import integer_value, readers, same, skip_identity
from tf_booster.passes.pair_masks import masked_pairs
from tf_booster.passes.shape_tricks import without_reduction
from tf_booster.passes.static_integers import static_integers
from tf_booster.passes.swallowed import swallowed

_MOST_FIELDS = 256  # The kernel keeps [fields, fields] floats of an example, which must stay in a cache.
_PRODUCTS = ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
_MADE = ("TfBoosterPairDots", "TfBoosterPairDotsGrad")


@dataclasses.dataclass(frozen=True)
class _Dots:
    """gather(reshape(matmul(x, x, transpose_b=True), [-1, fields * fields]), pairs, axis=1), or what pair_masks knows.

    flat: the product as it is gathered from. end: what gives [batch, pairs]. places: of a mask, where in `flat` the pairs stand.
    """

    x: tf.Tensor
    matmul: tf.Operation
    flat: tf.Tensor
    gather: tf.Operation
    end: tf.Operation
    pairs: Tuple[int, ...]
    places: Optional[tf.Tensor] = None

    @property
    def dim(self) -> int:
        return self.x.shape.as_list()[2]


@dataclasses.dataclass(frozen=True)
class _Gradient:
    """What is computed of the gradient of the pairs: two addends of the gradient of x, and the AddN they come together in."""

    upstream: tf.Tensor
    ends: Tuple[tf.Tensor, tf.Tensor]
    total: tf.Operation


class PairDots(Pass):
    """Replaces products of vectors with each other of which pairs are picked, and their gradients."""

    name = "pair_dots"
    seeks = "dot products of pairs of vectors, as DLRM picks them"

    def requires(self, view: GraphView) -> bool:
        """Whether there is one."""
        return any(_match(view, op) for op in view.ops("GatherV2"))

    def run(self, view: GraphView) -> PassResult:
        """Leaves alone what has other dtypes than float32, shapes that are not known, what is on a GPU where the library has no kernels for it, marked for XLA or inside of control flow."""
        result = PassResult(self.name)
        found = [dots for dots in (_match(view, op) for op in view.ops("GatherV2")) if dots is not None]
        for dots in found:
            gradient = _match_gradient(view, dots)
            _replace(view, dots)
            if gradient is not None:
                _replace_gradient(view, dots, gradient)
            result.changes.append(
                f"'{dots.end.name}': {len(dots.pairs)} pairs of {dots.x.shape[1]} vectors "
                f"by one op{', their gradient by one' if gradient else ''}"
            )
        result.modified = result.other_bits = bool(found)
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, *_MADE)


def _match(view: GraphView, gather: tf.Operation) -> Optional[_Dots]:
    if not _is_ours(view, gather) or gather.get_attr("batch_dims") != 0:
        return None
    masked = masked_pairs(gather)
    if masked is not None:
        product, end, pairs, places = masked.product, masked.end, masked.pairs, masked.places
    else:
        found = _gathered_pairs(gather)
        if found is None:
            return None
        (product, pairs), end, places = found, gather, None
    matmul = skip_identity(product).op
    if matmul.type not in _PRODUCTS or not _is_ours(view, matmul) or not same(*matmul.inputs):
        return None
    x = skip_identity(matmul.inputs[0])
    shape = x.shape.as_list() if x.shape.rank == 3 else [None] * 3
    if None in shape[1:] or 0 in shape[1:] or shape[1] > _MOST_FIELDS or _turned(matmul) != (False, True):
        return None
    if not end.outputs[0].consumers() or not _is_ours(view, end):
        return None
    if places is None and gather.inputs[0].shape[1] != shape[1] ** 2:
        return None
    if min(pairs) < 0 or max(pairs) >= shape[1] ** 2:
        return None  # TensorFlow's gather says what is wrong.
    return _Dots(x, matmul, gather.inputs[0], gather, end, pairs, places)


def _gathered_pairs(gather: tf.Operation) -> Optional[Tuple[tf.Tensor, Tuple[int, ...]]]:
    """The product whose columns `gather` picks, before its reshape, and which."""
    flat = gather.inputs[0]
    indices = tf.get_static_value(gather.inputs[1])
    if indices is None or indices.ndim != 1 or integer_value(gather.inputs[2]) not in (1, -1) or flat.shape.rank != 2:
        return None
    if not indices.size or len(set(indices.tolist())) != indices.size:
        return None
    reshape = skip_identity(flat).op
    return (reshape.inputs[0], tuple(indices.tolist())) if reshape.type == "Reshape" else None


def _match_gradient(view: GraphView, dots: _Dots) -> Optional[_Gradient]:
    """The two products whose sum is the gradient of x, as tf.gradients builds it; None if anything about it is not understood."""
    products = [op for op in readers(dots.x) if op.type in _PRODUCTS and op is not dots.matmul]
    products = [op for op in products if same(op.inputs[1], dots.x)]
    for left in products:
        for right in products:
            if _turned(left) != (False, False) or _turned(right) != (True, False):
                continue
            if not same(left.inputs[0], right.inputs[0]) or not all(_is_ours(view, op) for op in (left, right)):
                continue
            upstream = _scattered(left.inputs[0], dots)
            ends = [without_reduction(op.outputs[0], dots.x) for op in (left, right)]
            totals = [op for op in readers(ends[0]) if op.type == "AddN" and op in readers(ends[1])]
            if upstream is not None and len(totals) == 1 and _is_ours(view, totals[0]):
                return _Gradient(upstream, (ends[0], ends[1]), totals[0])
    return None


def _scattered(tensor: tf.Tensor, dots: _Dots) -> Optional[tf.Tensor]:
    """The gradient of the pairs, of which `tensor` is the gradient of the product: zeros, but at the pairs."""
    fields = dots.x.shape.as_list()[1]
    turned_back = skip_identity(tensor).op
    if turned_back.type != "Reshape" or tensor.shape.as_list()[1:] != [fields, fields]:
        return None
    of_pairs = _summed(skip_identity(turned_back.inputs[0]).op, dots)
    if of_pairs is None:
        return None
    # Its rows are as many as the pairs, or the segment sum fails: [pairs, batch], so that a reshape before it changed nothing.
    upstream = skip_identity(of_pairs)
    while upstream.op.type == "Reshape":
        upstream = skip_identity(upstream.op.inputs[0])
        if upstream.shape.rank == 2 and upstream.shape[1] == len(dots.pairs):
            break
    return upstream if upstream.shape.rank == 2 and upstream.shape[1] == len(dots.pairs) else None


def _summed(op: tf.Operation, dots: _Dots) -> Optional[tf.Tensor]:
    """What `op`, the gradient of what is gathered from, puts at the places of the pairs."""
    if dots.places is not None:
        ids = skip_identity(op.inputs[1]) if op.type == "UnsortedSegmentSum" else None
        if ids is not None and ids.op.type == "Reshape":
            ids = ids.op.inputs[0]
        return op.inputs[0] if ids is not None and same(ids, dots.places) else None
    sums = skip_identity(op.inputs[0]).op if _swaps(op) else None
    if sums is None or sums.type != "UnsortedSegmentSum" or not np.array_equal(_places(sums.inputs[1]), dots.pairs):
        return None
    turned = skip_identity(sums.inputs[0]).op
    return turned.inputs[0] if _swaps(turned) else None


def _places(ids: tf.Tensor) -> Optional[np.ndarray]:
    """The constant that segment ids are, looking through a reshape to one dimension."""
    ids = skip_identity(ids)
    if ids.op.type == "Reshape" and ids.shape.rank == 1:
        ids = ids.op.inputs[0]
    value = tf.get_static_value(ids)
    return value.reshape(-1) if value is not None else None


def _swaps(op: tf.Operation) -> bool:
    """Whether `op` transposes a matrix."""
    return op.type == "Transpose" and static_integers(op.inputs[1]) == [1, 0]


def _turned(matmul: tf.Operation) -> Tuple[bool, bool]:
    return matmul.get_attr("adj_x"), matmul.get_attr("adj_y")


def _is_ours(view: GraphView, op: tf.Operation) -> bool:
    return view.is_plain(op, *_MADE) and op.outputs[0].dtype == tf.float32


def _replace(view: GraphView, dots: _Dots) -> None:
    joined = dots.x.op
    parts = list(joined.inputs) if _stacks_fields(joined) else [dots.x]
    with view.inserting(dots.end.device, swallowed([dots.end], parts).control_inputs):
        new = _native.ops().tf_booster_pair_dots(
            parts=parts, dim=dots.dim, pairs=dots.pairs, name="tf_booster/pair_dots"
        )
    view.redirect(dots.end.outputs[0], new)
    view.redirect_control([dots.end], new.op)
    view.note_originals(new.op, [dots.matmul, dots.end])


def _replace_gradient(view: GraphView, dots: _Dots, gradient: _Gradient) -> None:
    total = gradient.total
    others = [t for t in total.inputs if not any(same(t, end) for end in gradient.ends)]
    read_by = readers(total.outputs[0])
    # The gradient of tf.stack takes apart again what need not be put together.
    apart = len(read_by) == 1 and _is_unstack(view, read_by[0]) and _stacks_fields(dots.x.op) and not others
    end = read_by[0] if apart else total
    parts = list(dots.x.op.inputs) if apart else [dots.x]
    forward = [
        dots.matmul.outputs[0],
        dots.flat,
        dots.gather.outputs[0],
        *([] if dots.places is None else [dots.places]),
    ]
    given = [gradient.upstream, dots.x, *parts, *others, *forward]
    with view.inserting(end.device, swallowed([end], given).control_inputs):
        made = _native.ops().tf_booster_pair_dots_grad(
            gradient=gradient.upstream, parts=parts, dim=dots.dim, pairs=dots.pairs, name="tf_booster/pair_dots_grad"
        )
        sums = made if not others else [tf.add_n([*others, made[0]], name="tf_booster/pair_dots_grad/sum")]
    view.redirect_all(list(zip(end.outputs, sums)))
    view.redirect_control([end], sums[0].op)
    view.note_originals(made[0].op, [*(skip_identity(t).op for t in gradient.ends), total])


def _stacks_fields(op: tf.Operation) -> bool:
    return op.type == "Pack" and op.get_attr("axis") in (1, -2)


def _is_unstack(view: GraphView, op: tf.Operation) -> bool:
    return op.type == "Unpack" and op.get_attr("axis") in (1, -2) and _is_ours(view, op)
