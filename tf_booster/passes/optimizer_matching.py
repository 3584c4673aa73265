"""Finds the ops by which an optimizer updates a table's stand-in, and names the fused optimizer that does the same.

Most optimizers end in one `ResourceSparseApply…` op. Gradient descent is a scatter. Adam, and Keras's RMSprop without
momentum, are chains of read, multiply, assign and scatter on each slot; TensorFlow's chain moves every row at every step,
the table's fused form only the rows that have a gradient.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple, Union

import tensorflow as tf

from tf_booster.passes.matching import Bind, Op, match, skip_identity, uniform_value

SUPPORTED = (
    "GradientDescent/SGD, Momentum, Adagrad, Adam, Ftrl, RMSProp (tf.compat.v1.train and tf.keras.optimizers.legacy)"
)


class UnsupportedUpdate(ValueError):
    """A table is updated in a way that has no fused form. The message names the op, the forms there are, and the remedy."""


@dataclasses.dataclass(frozen=True)
class Slot:
    """An optimizer slot of the stand-in. `handle_op` is None where the fused form has a slot that the graph has not."""

    name: str
    handle_op: Optional[tf.Operation]
    initial_value: float


@dataclasses.dataclass(frozen=True)
class SparseUpdate:
    """One update of a table. `inputs` are hyperparameters in the order of the op TfBoosterTableApply<op_name>."""

    optimizer: str
    op_name: str
    indices: tf.Tensor
    grad: tf.Tensor
    inputs: Tuple[Union[tf.Tensor, float], ...]
    attrs: Dict[str, Any]
    slots: Tuple[Slot, ...]
    replaced: Tuple[tf.Operation, ...]  # What waits on these must wait on the fused op instead.


@dataclasses.dataclass(frozen=True)
class _FusedForm:
    """How a ResourceSparseApply op maps to ours; names are those of the op's input arguments, floats are constants."""

    optimizer: str
    op_name: str
    slots: Sequence[Tuple[str, str]]
    inputs: Sequence[Union[str, float]]
    attrs: Sequence[str] = ()


_RMSPROP_INPUTS = ("lr", "rho", "momentum", "epsilon")
_ACCUMULATOR = (("accumulator", "accum"),)
_FTRL_SLOTS = (("accumulator", "accum"), ("linear", "linear"))

_FUSED_FORMS = {
    "ResourceSparseApplyAdagrad": _FusedForm("adagrad", "Adagrad", _ACCUMULATOR, ("lr",), ("update_slots",)),
    "ResourceSparseApplyAdagradV2": _FusedForm(
        "adagrad_v2", "AdagradV2", _ACCUMULATOR, ("lr", "epsilon"), ("update_slots",)
    ),
    "ResourceSparseApplyMomentum": _FusedForm(
        "momentum", "Momentum", (("momentum", "accum"),), ("lr", "momentum"), ("use_nesterov",)
    ),
    "ResourceSparseApplyKerasMomentum": _FusedForm(
        "keras_momentum", "KerasMomentum", (("momentum", "accum"),), ("lr", "momentum"), ("use_nesterov",)
    ),
    "ResourceSparseApplyFtrl": _FusedForm(
        "ftrl", "Ftrl", _FTRL_SLOTS, ("lr", "l1", "l2", 0.0, "lr_power"), ("multiply_linear_by_lr",)
    ),
    "ResourceSparseApplyFtrlV2": _FusedForm(
        "ftrl", "Ftrl", _FTRL_SLOTS, ("lr", "l1", "l2", "l2_shrinkage", "lr_power"), ("multiply_linear_by_lr",)
    ),
    "ResourceSparseApplyRMSProp": _FusedForm(
        "rmsprop", "RMSProp", (("ms", "ms"), ("momentum", "mom")), _RMSPROP_INPUTS
    ),
    "ResourceSparseApplyCenteredRMSProp": _FusedForm(
        "centered_rmsprop", "CenteredRMSProp", (("mg", "mg"), ("ms", "ms"), ("momentum", "mom")), _RMSPROP_INPUTS
    ),
}

_STEPS = 4  # From a scatter by way of its term, and a constant in that, to the assign before it.

# AssignVariableOp is left to the caller: initializers and Savers use it too.
WRITES = ("AssignSubVariableOp", "AssignAddVariableOp", "ResourceScatterAdd", "ResourceScatterSub")


def match_updates(table: str, handle_op: tf.Operation) -> List[SparseUpdate]:
    """All updates of the Variable that `handle_op` (a VarHandleOp) holds.

    Raises UnsupportedUpdate for an update without a fused form. Reads and plain assigns are the caller's to judge.
    """
    updates = []
    for op in handle_op.outputs[0].consumers():
        if op.inputs[0].op is not handle_op:
            # A slot of another Variable's update, or a handle passed on: neither is an update of this Variable.
            continue
        if op.type in _FUSED_FORMS:
            updates.append(_from_fused_op(table, op))
        elif op.type in WRITES:
            update = match_chain(table, op)
            if update is None:
                raise _unsupported(table, op)
            updates.append(update)
        elif op.type.startswith("ResourceApply"):
            raise UnsupportedUpdate(
                f"Table '{table}': op '{op.name}' ({op.type}) applies a dense gradient, so the loss reads the whole table "
                "(an l2_loss over it, say); regularise the looked-up embeddings instead."
            )
        elif op.type.startswith(("ResourceSparseApply", "ResourceScatter")):
            raise _unsupported(table, op)
    return updates


def match_chain(name: str, op: tf.Operation) -> Optional[SparseUpdate]:
    """The update whose last op is `op`, one of WRITES, if it is a chain of several ops; None for another write.

    Raises UnsupportedUpdate, which names the Variable `name`, for slots that do not start at one constant.
    """
    return _from_adam_chain(name, op) or _from_rmsprop_chain(name, op) or _from_scatter(op)


def _unsupported(table: str, op: tf.Operation) -> UnsupportedUpdate:
    return UnsupportedUpdate(
        f"Table '{table}': the update by op '{op.name}' ({op.type}) has no fused form; use one of: {SUPPORTED}."
    )


def _from_fused_op(table: str, op: tf.Operation) -> SparseUpdate:
    form = _FUSED_FORMS[op.type]
    by_name = {arg.name: tensor for arg, tensor in zip(op.op_def.input_arg, op.inputs)}
    indices, grad = without_dedup(by_name["indices"], by_name["grad"])
    return SparseUpdate(
        form.optimizer,
        form.op_name,
        indices,
        grad,
        tuple(by_name[i] if isinstance(i, str) else i for i in form.inputs),
        {name: op.get_attr(name) for name in form.attrs},
        tuple(_slot(table, name, by_name[arg].op) for name, arg in form.slots),
        (op,),
    )


def _from_scatter(op: tf.Operation) -> Optional[SparseUpdate]:
    """Gradient descent: ScatterAdd(var, −grad * lr). Adamax and Nadam end in a scatter too, of something else."""
    if op.type != "ResourceScatterAdd":
        return None
    found = match(Op("Mul", Op("Neg", Bind("grad")), Bind("lr")), op.inputs[2])
    if not found or not _may_be(found["lr"], 0) or not _may_be(op.inputs[1], 1):
        return None
    row = tf.TensorShape(op.inputs[0].op.get_attr("shape"))[1:] if op.inputs[0].op.type == "VarHandleOp" else None
    if row is not None and row.rank is not None and not _may_be(found["grad"], 1 + row.rank):
        return None  # A program's own scatter takes one number for all rows, too.
    return SparseUpdate(
        "sgd", "GradientDescent", op.inputs[1], found["grad"], (found["lr"],), {}, (), _with_reads_after(op)
    )


def _from_adam_chain(table: str, op: tf.Operation) -> Optional[SparseUpdate]:
    """AssignSub(var, alpha * m / (sqrt(v) + epsilon)), as both Adams end. alpha has the bias correction in it."""
    if op.type != "AssignSubVariableOp":
        return None
    found = match(
        Op(
            "RealDiv",
            Op("Mul", Bind("alpha"), Op("ReadVariableOp", Bind("m"), name="m_read")),
            Op("AddV2", Op("Sqrt", Op("ReadVariableOp", Bind("v"), name="v_read")), Bind("epsilon")),
        ),
        op.inputs[1],
    )
    if not found or not (_may_be(found["alpha"], 0) and _may_be(found["epsilon"], 0)):
        return None
    m = _average(found["m"].op, found["m_read"].op, squared=False)
    v = _average(found["v"].op, found["v_read"].op, squared=True)
    if m is None or v is None or m.grad.ref() != v.grad.ref() or m.indices.ref() != v.indices.ref():
        return None
    indices, grad = without_dedup(m.indices, m.grad)
    return SparseUpdate(
        "adam",
        "Adam",
        indices,
        grad,
        (0.0, 0.0, found["alpha"], m.decay, v.decay, found["epsilon"]),  # Powers 0: alpha is corrected already.
        {"use_nesterov": False},
        (_slot(table, "m", found["m"].op), _slot(table, "v", found["v"].op)),
        _distinct(m.ops + v.ops + _with_reads_after(op)),
    )


def _from_rmsprop_chain(table: str, op: tf.Operation) -> Optional[SparseUpdate]:
    """ScatterAdd(var, −lr * grad / (sqrt(ms [− mg²]) + epsilon)), as Keras's RMSprop without momentum ends."""
    if op.type != "ResourceScatterAdd":
        return None
    ms_rows = Op("GatherV2", Op("ReadVariableOp", Bind("ms"), name="ms_read"), Bind("indices"))
    mg_rows = Op("GatherV2", Op("ReadVariableOp", Bind("mg"), name="mg_read"), Bind("indices"))

    def step(variance: Op) -> Op:
        return Op(
            "RealDiv",
            Op("Mul", Op("Neg", Bind("lr")), Bind("grad")),
            Op("AddV2", Op("Sqrt", variance), Bind("epsilon")),
        )

    plain = match(step(ms_rows), op.inputs[2])
    found = plain or match(step(Op("Sub", ms_rows, Op("Square", mg_rows))), op.inputs[2])
    if not found or found["indices"].ref() != op.inputs[1].ref():
        return None
    if not (_may_be(found["lr"], 0) and _may_be(found["epsilon"], 0)):
        return None
    averages = [_average(found["ms"].op, found["ms_read"].op, squared=True)]
    slots = [_slot(table, "ms", found["ms"].op), Slot("momentum", None, 0.0)]
    if not plain:
        averages.append(_average(found["mg"].op, found["mg_read"].op, squared=False))
        slots.insert(0, _slot(table, "mg", found["mg"].op))
    if any(a is None or a.grad.ref() != found["grad"].ref() for a in averages):
        return None
    indices, grad = without_dedup(found["indices"], found["grad"])
    return SparseUpdate(
        "rmsprop" if plain else "centered_rmsprop",
        "RMSProp" if plain else "CenteredRMSProp",
        indices,
        grad,
        (found["lr"], averages[0].decay, 0.0, found["epsilon"]),
        {"epsilon_outside_sqrt": True},
        tuple(slots),
        _distinct(sum((a.ops for a in averages), ()) + _with_reads_after(op)),
    )


@dataclasses.dataclass(frozen=True)
class _Average:
    """A slot kept as slot = slot * decay + (1 − decay) * grad (or grad²) by an assign and then a scatter."""

    decay: tf.Tensor
    grad: tf.Tensor
    indices: tf.Tensor
    ops: Tuple[tf.Operation, ...]


def _average(slot_op: tf.Operation, read: tf.Operation, squared: bool) -> Optional[_Average]:
    """The average that `read` reads when it has moved; None where it is kept in another way, or order."""
    handle = slot_op.outputs[0]
    decays, scatters = [], []
    for op in handle.consumers():
        if op.type == "AssignVariableOp":
            found = match(Op("Mul", Op("ReadVariableOp", Bind("slot")), Bind("decay")), op.inputs[1])
            if found and found["slot"].ref() == handle.ref():
                decays.append((op, found["decay"]))
        elif op.type.startswith(("ResourceScatter", "ResourceSparseApply")):
            scatters.append(op)
    if len(decays) != 1 or len(scatters) != 1 or scatters[0].type != "ResourceScatterAdd":
        return None
    decay_op, decay = decays[0]
    scatter = scatters[0]
    term = Op("Mul", Bind("grad"), Bind("grad")) if squared else Bind("grad")
    found = match(Op("Mul", term, Op("Sub", Bind("one"), Bind("decay"))), scatter.inputs[2])
    if not found or uniform_value(found["one"]) != 1.0:
        return None
    if skip_identity(found["decay"]).ref() != skip_identity(decay).ref() or not _may_be(decay, 0):
        return None
    if not _waits_for(read, scatter) or not _waits_for(scatter, decay_op):
        return None  # A program's own optimizer: it moves by what was there before, or decays what is new.
    return _Average(decay, found["grad"], scatter.inputs[1], _with_reads_after(decay_op) + _with_reads_after(scatter))


def _may_be(tensor: tf.Tensor, rank: int) -> bool:
    return tensor.shape.rank in (rank, None)


def _waits_for(op: tf.Operation, write: tf.Operation) -> bool:
    """Whether `op` waits for `write`, as far as a few steps tell: TensorFlow leaves out control inputs that a data input has already."""
    before = [op]
    for _ in range(_STEPS):
        before = [other for o in before for other in (*o.control_inputs, *(tensor.op for tensor in o.inputs))]
        if write in before:
            return True
    return False


def _with_reads_after(op: tf.Operation) -> Tuple[tf.Operation, ...]:
    """`op`, and the reads of its Variable that wait on it: `assign` and its kin give the new value as their result."""
    handle = op.inputs[0]
    reads: Set[tf.Operation] = {
        reader for reader in handle.consumers() if reader.type == "ReadVariableOp" and op in reader.control_inputs
    }
    return (op, *sorted(reads, key=lambda reader: reader.name))


def _distinct(ops: Sequence[tf.Operation]) -> Tuple[tf.Operation, ...]:
    return tuple(dict.fromkeys(ops))


def without_dedup(indices: tf.Tensor, grad: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    """Undoes TensorFlow's sum of duplicates (Unique, UnsortedSegmentSum): the fused apply sums them itself."""
    unique, total = indices.op, grad.op
    if unique.type in ("Unique", "UniqueV2") and indices.value_index == 0 and total.type == "UnsortedSegmentSum":
        if total.inputs[1].ref() == unique.outputs[1].ref():
            return unique.inputs[0], total.inputs[0]
    return indices, grad


def _slot(table: str, name: str, handle_op: tf.Operation) -> Slot:
    for op in handle_op.outputs[0].consumers():
        if op.type == "AssignVariableOp" and not op.control_inputs:
            value = uniform_value(op.inputs[1])
            if value is not None:
                return Slot(name, handle_op, value)
    raise UnsupportedUpdate(
        f"Table '{table}': optimizer slot '{handle_op.name}' does not start at one constant, as the slots of {SUPPORTED} do; "
        "use one of these optimizers unchanged."
    )
