"""The pass that gives ConcatV2 and SplitV of many narrow tensors, and tf.stack and tf.unstack of rows, kernels of their own.

A model puts what its features are embedded to beside each other, and takes the gradient apart again. TensorFlow copies piece by piece, by a
call each: 38 features of 8 columns took a sixth of a step's processor time. The gradient of a concat of up to 16 tensors is a Slice each; those become one
op, too.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import integer_value, skip_identity
from tf_booster.passes.shape_tricks import waited_for

FEWEST = 4  # Parts. Fewer are copied by TensorFlow as fast.
WIDEST = 64  # Columns of a part on the CPU, on average; the call to copy a wider one costs nothing beside the copying.
_DTYPES = (tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int32, tf.int64, tf.bool)
_MADE = ("TfBoosterConcatColumns", "TfBoosterSplitColumns")


class Columns(Pass):
    """Replaces joins and splits along the last axis; the same bits."""

    name = "columns"
    seeks = "concat or split of many narrow parts"

    def requires(self, view: GraphView) -> bool:
        """Whether there is one to replace."""
        return bool(_joins(view) or _splits(view) or _slices(view) or _stacks(view) or _unstacks(view))

    def run(self, view: GraphView) -> PassResult:
        """Leaves those with few parts, on the CPU with wide ones, with shapes that are not known, marked for XLA or inside of control flow, and what the library has no GPU kernels for."""
        result = PassResult(self.name)
        joins, splits, slices = _joins(view), _splits(view), _slices(view)
        stacks, unstacks = _stacks(view), _unstacks(view)
        for op in joins:
            with view.inserting(op.device, _waits(op, op.inputs[-1:])):
                new = _native.ops().tf_booster_concat_columns(values=op.inputs[:-1], name="tf_booster/concat")
            _replace(view, [op], [(op.outputs[0], new)])
        for op in splits:
            with view.inserting(op.device, _waits(op, op.inputs[1:])):
                widths = _widths_of(op.inputs[1])
                sizes = op.inputs[1]
                if widths is not None:
                    sizes = tf.constant(widths, tf.int64, name="tf_booster/split/sizes")
                parts = _native.ops().tf_booster_split_columns(
                    value=op.inputs[0], size_splits=sizes, num_split=len(op.outputs), name="tf_booster/split"
                )
            _replace(view, [op], list(zip(op.outputs, parts)))
        for ops, widths in slices:
            with view.inserting(ops[0].device, list(dict.fromkeys(c for op in ops for c in _waits(op, op.inputs[1:])))):
                sizes = tf.constant(widths, tf.int64, name="tf_booster/split/sizes")
                parts = _native.ops().tf_booster_split_columns(
                    value=ops[0].inputs[0], size_splits=sizes, num_split=len(ops), name="tf_booster/split"
                )
            _replace(view, ops, [(op.outputs[0], part) for op, part in zip(ops, parts)])
        for op in stacks:
            with view.inserting(op.device, op.control_inputs):
                joined = _native.ops().tf_booster_concat_columns(values=op.inputs[:], name="tf_booster/stack")
                shape = [-1, *op.outputs[0].shape.as_list()[1:]]
                new = tf.reshape(joined, shape, name="tf_booster/stack/shape")
            _replace(view, [op], [(op.outputs[0], new)])
        for op in unstacks:
            fields, columns = op.inputs[0].shape.as_list()[1:]
            with view.inserting(op.device, op.control_inputs):
                wide = tf.reshape(op.inputs[0], [-1, fields * columns], name="tf_booster/unstack/shape")
                sizes = tf.constant([columns] * fields, tf.int64, name="tf_booster/unstack/sizes")
                parts = _native.ops().tf_booster_split_columns(
                    value=wide, size_splits=sizes, num_split=fields, name="tf_booster/unstack"
                )
            _replace(view, [op], list(zip(op.outputs, parts)))
        made = [
            (len(joins), "ConcatV2"),
            (len(splits), "SplitV"),
            (len(slices), "groups of Slices"),
            (len(stacks), "Pack"),
            (len(unstacks), "Unpack"),
        ]
        result.modified = any(count for count, _ in made)
        if result.modified:
            said = ", ".join(f"{count} {kind}" for count, kind in made if count)
            result.changes.append(f"{said}: columns copied by kernels for narrow parts")
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        for op in view.ops(*_MADE):
            if not any(output.consumers() for output in op.outputs):
                raise RewriteError(f"Op '{op.name}' copies what nothing reads.")


def _joins(view: GraphView) -> List[tf.Operation]:
    return [op for op in view.ops("ConcatV2") if _is_live(op) and joins_columns(view, op) and _is_ours(view, op)]


def joins_columns(view: GraphView, op: tf.Operation) -> bool:
    """Whether the ConcatV2 `op` puts tensors beside each other along the last axis that are several, and narrow enough for the pass."""
    values = op.inputs[:-1]
    return _are_many(view, op, [_columns(v) for v in values]) and is_last(op.inputs[-1], values[0].shape.rank)


def _splits(view: GraphView) -> List[tf.Operation]:
    return [op for op in view.ops("SplitV") if _is_live(op) and _splits_columns(view, op) and _is_ours(view, op)]


def _splits_columns(view: GraphView, op: tf.Operation) -> bool:
    shape = op.inputs[0].shape
    if not shape.rank or len(op.outputs) < FEWEST or not is_last(op.inputs[2], shape.rank):
        return False
    return shape[-1] is not None and (shape[-1] <= WIDEST * len(op.outputs) or not view.runs_on_cpu(op))


def _stacks(view: GraphView) -> List[tf.Operation]:
    """What stacks matrices [batch, columns] to [batch, fields, columns]: their rows beside each other, in another shape."""
    return [
        op for op in view.ops("Pack") if _is_live(op) and _stacks_rows(view, op, op.outputs[0]) and _is_ours(view, op)
    ]


def _unstacks(view: GraphView) -> List[tf.Operation]:
    return [
        op for op in view.ops("Unpack") if _is_live(op) and _stacks_rows(view, op, op.inputs[0]) and _is_ours(view, op)
    ]


def _stacks_rows(view: GraphView, op: tf.Operation, whole: tf.Tensor) -> bool:
    if whole.shape.rank != 3 or op.get_attr("axis") not in (1, -2):
        return False
    _, fields, columns = whole.shape.as_list()
    return bool(fields and columns) and _are_many(view, op, [columns] * fields)


def _slices(view: GraphView) -> List[Tuple[List[tf.Operation], List[int]]]:
    """The Slices that are the gradient of one concat, in the order of its inputs, with their columns."""
    whole = []
    for ops, widths in slices_of_joins(view):
        # One that nothing reads, as of the numbers beside embeddings, is a part, too.
        live = sum(1 for op in ops.values() if _is_live(op))
        if len(ops) == len(widths) and live >= FEWEST and _are_many(view, ops[0], widths):
            whole.append(([ops[i] for i in range(len(ops))], widths))
    return whole


def slices_of_joins(view: GraphView) -> Iterator[Tuple[Dict[int, tf.Operation], List[Optional[int]]]]:
    """Of each gradient of a concat along the last axis, as up to 16 parts have it: part -> its Slice, and the columns of all parts."""
    found: Dict[Tuple, Dict[int, tf.Operation]] = {}
    for op in view.ops("Slice"):
        begin = _begin_of_part(op)
        if begin is not None and _is_ours(view, op):
            key = (op.inputs[0].ref(), begin.op, op.device)
            found.setdefault(key, {}).setdefault(begin.value_index, op)
    for (grad, offsets, _), ops in found.items():
        rank = grad.deref().shape.rank
        if rank and is_last(offsets.inputs[0], rank):
            yield ops, [_last_of(sizes) for sizes in offsets.inputs[1:]]


def _widths_of(sizes: tf.Tensor) -> Optional[List[int]]:
    """The columns of a join's parts, where its gradient takes them from all shapes at once; None if they are not known or it does not.

    It stacks the shapes beside each other and takes a row, which is that of the last axis, along which it splits.
    """
    chain = []
    for op_type in ("Squeeze", "Slice", "Pack"):
        op = chain[-1].inputs[0].op if chain else sizes.op
        if op.type != op_type:
            return None
        chain.append(op)
    shapes = chain[-1]
    if shapes.get_attr("axis") != 1:
        return None
    widths = [_last_of(shape) for shape in shapes.inputs]
    return None if None in widths else widths  # type: ignore[return-value]


def part_of_join(tensor: tf.Tensor) -> Optional[Tuple[tf.Tensor, int]]:
    """The gradient of a join of matrices, and the column in it from which on `tensor` is that of one of them; None where it is no such part."""
    op = skip_identity(tensor).op
    begin = _begin_of_part(op)
    if begin is None or op.inputs[0].shape.rank != 2 or not is_last(begin.op.inputs[0], 2):
        return None
    widths = [_last_of(sizes) for sizes in begin.op.inputs[1:]]
    if None in widths:
        return None
    return op.inputs[0], sum(widths[: begin.value_index])


def _begin_of_part(op: tf.Operation) -> Optional[tf.Tensor]:
    """The ConcatOffset's output at which `op`, a Slice of a concat's gradient, begins to take a whole part; None for other ops."""
    begin = op.inputs[1] if op.type == "Slice" else None
    if begin is None or begin.op.type != "ConcatOffset" or op.inputs[2] is not begin.op.inputs[1 + begin.value_index]:
        return None
    return begin


def _last_of(sizes: tf.Tensor) -> Optional[int]:
    """The last element of a shape, as far as it is known: a constant, or what ShapeN or Shape says of a tensor."""
    if sizes.op.type in ("ShapeN", "Shape"):
        return _columns(sizes.op.inputs[sizes.value_index])
    value = tf.get_static_value(sizes)
    return int(value[-1]) if value is not None and value.ndim == 1 and value.size else None


def _columns(tensor: tf.Tensor) -> Optional[int]:
    return tensor.shape[-1] if tensor.shape.rank else None


def _are_many(view: GraphView, op: tf.Operation, widths: List[Optional[int]]) -> bool:
    """Whether parts of so many columns are worth a kernel of their own. On a GPU any are: TensorFlow's sends its table of parts there by a copy."""
    if len(widths) < FEWEST or any(width is None for width in widths):
        return False
    return sum(widths) <= WIDEST * len(widths) or not view.runs_on_cpu(op)


def is_last(axis: tf.Tensor, rank: int) -> bool:
    """Whether a join or a split, or the gradient of one, is along the last axis."""
    # A gradient takes the axis modulo the rank of the first part, which has that of the whole.
    if axis.op.type == "FloorMod" and _rank(axis.op.inputs[1]) == rank:
        axis = axis.op.inputs[0]
    return integer_value(axis) in (-1, rank - 1)


def _rank(tensor: tf.Tensor) -> Optional[int]:
    return tensor.op.inputs[0].shape.rank if tensor.op.type == "Rank" else integer_value(tensor)


def _is_live(op: tf.Operation) -> bool:
    return any(output.consumers() for output in op.outputs)


def _is_ours(view: GraphView, op: tf.Operation) -> bool:
    dtype = op.outputs[0].dtype
    return dtype in _DTYPES and view.is_plain(op) and all(view.can_stand_for(op, made, T=dtype) for made in _MADE)


def _waits(op: tf.Operation, sizes: Sequence[tf.Tensor]) -> List[tf.Operation]:
    """What `op` waits for, and what `sizes` do, inputs that are read no more."""
    return list(dict.fromkeys([*op.control_inputs, *waited_for(sizes)]))


def _replace(view: GraphView, old: List[tf.Operation], moves: List[Tuple[tf.Tensor, tf.Tensor]]) -> None:
    new = moves[0][1].op
    view.redirect_all(moves)
    view.redirect_control(old, new)
    view.note_originals(new, old)
