"""The pass that makes one op of many small layers: MatMul, BiasAdd and Relu, and their gradients.

A product of a batch with a few columns is less work than its op: 142 of them took 40 % of a step's time. Products of one rank and kind
become one loop; so do ReluGrad with BiasAddGrad. Sums come in another order than from TensorFlow's kernels, whose own order changes with
the processor and the number of threads.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Tuple

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.layers import adds_bias, is_by_column, next_reader
from tf_booster.passes.merging import Unit, merge_groups
from tf_booster.passes.swallowed import swallowed

FEWEST = 4  # What three save is not worth other bits.
# Elements of the smallest of the three matrices. Larger ones keep TensorFlow's kernels, which use wider vectors.
LARGEST = 1024
_MOST_COLUMNS = 256  # Of a bias.
_MADE = ("TfBoosterMultiMatMul", "TfBoosterMultiBiasGrad")


class SmallMatMuls(Pass):
    """Merges products of small matrices, with the biases and Relus behind them, and the gradients of these."""

    name = "small_matmuls"
    seeks = "group of layers that are small and alike"

    def requires(self, view: GraphView) -> bool:
        """Whether there are enough products to merge."""
        return sum(1 for op in view.ops("MatMul") if op.outputs[0].consumers()) >= FEWEST

    def run(self, view: GraphView) -> PassResult:
        """Leaves alone what is large, not float32, on a GPU, marked for XLA or inside of control flow, and groups of less than four."""
        result = PassResult(self.name)
        units = [unit for op in view.ops("MatMul") for unit in _product(view, op)]
        units += [unit for op in view.ops("BiasAddGrad") for unit in _bias_gradient(view, op)]
        groups, refused = merge_groups(view, units)
        merged: Dict[str, List[int]] = {}
        for group in groups:
            if len(group) >= FEWEST:
                merged.setdefault(group[0].key[0], []).append(len(group))
                _MERGE[group[0].key[0]](view, group)
        for kind, sizes in merged.items():
            result.changes.append(f"{sum(sizes)} {kind} by {len(sizes)} op{'' if len(sizes) == 1 else 's'}")
        left = len(refused) + sum(len(group) for group in groups if len(group) < FEWEST)
        if left and merged:
            reason = f"they are inside of control flow, or less than {FEWEST} of a kind do not depend on each other"
            result.skipped.append((f"{left} others", reason))
        result.modified = result.other_bits = bool(merged)
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, *_MADE)


def _product(view: GraphView, op: tf.Operation) -> List[Unit]:
    """The layer that begins with the MatMul `op`, as a unit; none where it is left."""
    if not _is_ours(view, op) or not _is_small(op):
        return []
    turned = op.get_attr("transpose_a"), op.get_attr("transpose_b")
    bias = next_reader(op, lambda after: adds_bias(after, op))
    relu = next_reader(bias, lambda after: after.type == "Relu") if bias is not None else None
    ops = tuple(o for o in (op, bias, relu) if o is not None)
    if not ops[-1].outputs[0].consumers():
        return []
    kind = "layers" if bias is not None else "products"
    return [Unit(ops, (kind, op.device, turned, bias is not None, relu is not None))]


def _bias_gradient(view: GraphView, op: tf.Operation) -> List[Unit]:
    """The BiasAddGrad `op` with the ReluGrad before it, as a unit; none where it is left."""
    upstream = op.inputs[0]
    columns = upstream.shape.as_list()[1] if upstream.shape.rank == 2 else None
    if not _is_ours(view, op) or columns is None or columns > _MOST_COLUMNS or not is_by_column(op):
        return []
    if not op.outputs[0].consumers():
        return []
    relu = upstream.op
    sums = [other for other in upstream.consumers() if other.type == "BiasAddGrad"]
    with_relu = relu.type == "ReluGrad" and len(sums) == 1 and _is_ours(view, relu) and relu.inputs[1].shape.rank == 2
    return [Unit((op, relu) if with_relu else (op,), ("gradients of biases", op.device, with_relu))]


def _is_ours(view: GraphView, op: tf.Operation) -> bool:
    return view.is_plain_on_cpu(op) and op.outputs[0].dtype == tf.float32


def _is_small(op: tf.Operation) -> bool:
    """Whether one of the three matrices is known to be small, and the second is if it is transposed."""
    shapes = [op.inputs[0].shape, op.inputs[1].shape, op.outputs[0].shape]
    if any(shape.rank != 2 for shape in shapes):
        return False
    sizes = [math.prod(shape.as_list()) if shape.is_fully_defined() else math.inf for shape in shapes]
    return min(sizes) <= LARGEST and (not op.get_attr("transpose_b") or sizes[1] <= LARGEST)


def _merge_products(view: GraphView, group: List[Unit]) -> None:
    _, device, (transpose_a, transpose_b), with_bias, with_relu = group[0].key
    first = [unit.ops[0] for unit in group]
    biases = [unit.ops[1].inputs[1] for unit in group] if with_bias else []
    inputs = [op.inputs[0] for op in first], [op.inputs[1] for op in first], biases
    with _inserting(view, device, group, inputs):
        made = _native.ops().tf_booster_multi_mat_mul(
            a=inputs[0],
            b=inputs[1],
            bias=biases,
            transpose_a=transpose_a,
            transpose_b=transpose_b,
            relu=with_relu,
            name="tf_booster/layers" if with_bias else "tf_booster/products",
        )
    for unit, new in zip(group, made):
        for op in unit.ops[:-1]:
            view.redirect(op.outputs[0], new, lambda reader: reader.type == "Shape")  # It is the same for all.
    _replace(view, group, made[0].op, list(zip([unit.ops[-1].outputs[0] for unit in group], made)))


def _merge_bias_gradients(view: GraphView, group: List[Unit]) -> None:
    _, device, with_relu = group[0].key
    relus = [unit.ops[1] for unit in group] if with_relu else []
    upstream = [op.inputs[0] for op in relus] or [unit.ops[0].inputs[0] for unit in group]
    features = [op.inputs[1] for op in relus]
    with _inserting(view, device, group, (upstream, features)):
        biases, gradients = _native.ops().tf_booster_multi_bias_grad(
            upstream=upstream, relu=features, name="tf_booster/bias_gradients"
        )
    moves = list(zip([unit.ops[0].outputs[0] for unit in group], biases))
    moves += zip([op.outputs[0] for op in relus], gradients)
    _replace(view, group, biases[0].op, moves)


def _inserting(view: GraphView, device: str, group: List[Unit], inputs: Tuple[List[tf.Tensor], ...]) -> Any:
    ends = [op for unit in group for op in unit.ops]
    gone = swallowed(ends, [tensor for tensors in inputs for tensor in tensors])
    return view.inserting(device, gone.control_inputs)


def _replace(view: GraphView, group: List[Unit], new: tf.Operation, moves: List[Tuple[tf.Tensor, tf.Tensor]]) -> None:
    old = [op for unit in group for op in unit.ops]
    view.redirect_all(moves)
    view.redirect_control(old, new)
    view.note_originals(new, old)


_MERGE = {
    "layers": _merge_products,
    "products": _merge_products,
    "gradients of biases": _merge_bias_gradients,
}
