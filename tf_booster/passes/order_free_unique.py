"""The pass that puts the order-free unique in the place of TensorFlow's, wherever its order cannot be seen."""

from __future__ import annotations

from typing import List

import tensorflow as tf

from tf_booster import _compat, _native
from tf_booster.passes.base import Pass, PassResult
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.unique_order import readers_of


class OrderFreeUnique(Pass):
    """Replaces Unique and UniqueWithCounts, and their second versions without an axis, of int32 and int64."""

    name = "unique"
    seeks = "tf.unique of integers whose order nobody sees"

    def requires(self, view: GraphView) -> bool:
        """Whether something reads distinct values."""
        return bool(_live(view))

    def run(self, view: GraphView) -> PassResult:
        """Leaves a Unique whose order somebody may see, with the op that may."""
        result = PassResult(self.name)
        replaced = 0
        fused = [op for op in view.index().ops if op.type.startswith("TfBooster")]
        gone = {name for op in fused for name in view.originals(op)}
        for op in _live(view):
            reason = _obstacle(view, op)
            readers = readers_of(op, gone) if not reason else None
            if readers is not None and readers.seen_by is not None:
                reason = f"op '{readers.seen_by.name}' ({readers.seen_by.type}) may see its order"
            if reason:
                result.skipped.append((op.name, reason))
                continue
            if not readers.hidden:
                continue  # Nothing but tensors to fetch depends on it.
            with view.inserting(op.device, op.control_inputs):
                ops = _native.ops()
                make = ops.tf_booster_unique_with_counts if len(op.outputs) == 3 else ops.tf_booster_unique
                new = make(op.inputs[0], out_idx=op.outputs[1].dtype, name="tf_booster/unique")
            for old, output in zip(op.outputs, new):
                view.redirect(old, output, readers.hidden.__contains__)
            view.redirect_control([op], new.y.op)
            view.note_originals(new.y.op, [op])
            replaced += 1
        if replaced:
            result.modified = True
            result.changes.append(f"{replaced} Unique{'' if replaced == 1 else 's'} without TensorFlow's order")
        return result

    def ensures(self, view: GraphView) -> None:
        """What was replaced is read by nobody: _live() finds it no more, and a second run has nothing to do."""


_TYPES = ("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")


def _fused(op: tf.Operation) -> str:
    return "TfBoosterUniqueWithCounts" if len(op.outputs) == 3 else "TfBoosterUnique"


def _live(view: GraphView) -> List[tf.Operation]:
    return [op for op in view.ops(*_TYPES) if any(output.consumers() for output in op.outputs)]


def _obstacle(view: GraphView, op: tf.Operation) -> str:
    if op.inputs[0].dtype not in (tf.int32, tf.int64):
        return f"it is of {op.inputs[0].dtype.name}; int32 and int64 have an order-free unique"
    if op.type.endswith("V2"):
        axis = tf.get_static_value(op.inputs[1])
        if axis is None or axis.size:
            return "it has an axis"
    if op.inputs[0].shape.rank != 1:
        return "the rank of its input is not known to be 1"
    if _compat.in_control_flow(op):
        return "it is inside a tf.cond or a tf.while_loop"
    if view.elsewhere(op):
        return view.elsewhere(op)
    if not view.can_stand_for(op, _fused(op), T=op.inputs[0].dtype, out_idx=op.outputs[1].dtype):
        return f"no GPU kernel for {op.inputs[0].dtype.name}: it would move from the GPU to the CPU"
    return ""
