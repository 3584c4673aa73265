"""Finds moving averages of Variables, and says of others why they are left: AssignSub(var, (var - value) * rate), as batch normalization and
tf.train.ExponentialMovingAverage write them."""

from __future__ import annotations

from typing import List, Optional, Tuple, Union

import tensorflow as tf

from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.variable_update_matching import VariableUpdate

MOVING_AVERAGE = "TfBoosterMultiApplyMovingAverage"
REFERENCE_END = "AssignSub"
_OTHER_WRITES = ("ResourceApply", "ResourceSparseApply", "ResourceScatter", "AssignAdd", "AssignSub", "TfBoosterMultiApply",
                 "TfBoosterMultiSparseApply")  # fmt: skip


def match_moving_average(op: tf.Operation) -> Optional[VariableUpdate]:
    """The update whose last op is the AssignSubVariableOp `op`; None if it is none of a moving average."""
    if op.type != "AssignSubVariableOp":
        return None
    step = op.inputs[1].op
    for minus, rate in _factors(step):
        reads = _passed_on(minus.inputs[0].op)
        if reads[-1].type == "ReadVariableOp" and reads[-1].inputs[0] is op.inputs[0]:
            # Most programs use nothing of what assign_sub() gives back; whoever fetches it by name gets TensorFlow's update.
            unread = [other for other in GraphView.control_outputs(op) if _is_unread_result(other, op)]
            return VariableUpdate(
                "MovingAverage",
                MOVING_AVERAGE,
                (("var", op.inputs[0]),),
                (("rate", _number(rate)),),
                (("grad", minus.inputs[1]),),
                (),
                (op, step, minus, *reads, *unread),
                tuple(rate.op.control_inputs) if rate.op.type == "Const" else (),
                several=True,
            )
    return None


def is_of_reference(op: tf.Operation) -> bool:
    """Whether the AssignSub `op` writes a moving average to a reference Variable."""
    reads = [skip_identity(minus.inputs[0]) for minus, _ in _factors(op.inputs[1].op)]
    return any(read.op is op.inputs[0].op for read in reads)


def unfit_average(update: VariableUpdate) -> Optional[str]:
    """Why the fused op cannot be this moving average; None if it can."""
    for op in update.ops:
        others = [reader for output in op.outputs for reader in output.consumers() if reader not in update.ops]
        if others:
            return f"op '{others[0].name}' reads '{op.name}', a part of its moving average"
    (_, value), (_, rate) = *update.tensors, *update.scalars
    shape = tf.TensorShape(update.var.op.get_attr("shape"))
    if not shape.is_fully_defined() or not value.shape.is_fully_defined() or value.shape.as_list() != shape.as_list():
        return f"its shape is {shape}, and that of '{value.op.name}', which it averages, {value.shape}"
    if not isinstance(rate, float) and rate.shape.rank != 0:
        return f"'{rate.op.name}', by which it moves, is no scalar"
    others = [op for op in update.var.consumers() if op not in update.ops and op.type.startswith(_OTHER_WRITES)]
    if others:
        return f"op '{others[0].name}' writes it, too"
    return None


def _factors(step: tf.Operation) -> List[Tuple[tf.Operation, tf.Tensor]]:
    """Pairs of a difference and what it is multiplied by."""
    if step.type != "Mul":
        return []
    a, b = step.inputs
    return [(x.op, y) for x, y in ((a, b), (b, a)) if x.op.type == "Sub"]


def _number(rate: tf.Tensor) -> Union[tf.Tensor, float]:
    """A constant by its value: each average has its own, which may wait for something."""
    return (
        float(tf.make_ndarray(rate.op.get_attr("value"))) if rate.op.type == "Const" and rate.shape.rank == 0 else rate
    )


def _passed_on(op: tf.Operation) -> List[tf.Operation]:
    """`op`, and if it is an Identity what that passes on."""
    found = [op]
    while found[-1].type == "Identity":
        found.append(found[-1].inputs[0].op)
    return found


def _is_unread_result(read: tf.Operation, op: tf.Operation) -> bool:
    """Whether `read` is what assign_sub() reads behind `op`, and nothing uses it."""
    if read.type != "ReadVariableOp" or read.inputs[0] is not op.inputs[0]:
        return False
    if any(other is not op and other.type == op.type for other in read.control_inputs):
        return False  # Somebody's own, behind several updates.
    beside = read.name.rpartition("/")[0] == op.name.rpartition("/")[0]
    return beside and not read.outputs[0].consumers() and not GraphView.control_outputs(read)
