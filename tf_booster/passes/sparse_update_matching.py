"""Finds the ops by which TensorFlow's optimizers update rows of Variables, and the fused op that does the same.

One ResourceSparseApply… behind Unique and UnsortedSegmentSum, which sum the gradients of a row; a scatter; or a chain of reads,
assigns and scatters, as Adam's and Keras's RMSprop's.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import Bind, Op, match, uniform_value
from tf_booster.passes.optimizer_matching import SparseUpdate, UnsupportedUpdate, match_chain, without_dedup
from tf_booster.passes.variable_update_matching import NOT_COPIED, Inputs, VariableUpdate

_FORMS = (
    "Momentum",
    "KerasMomentum",
    "Adagrad",
    "AdagradV2",
    "Adadelta",
    "Ftrl",
    "FtrlV2",
    "RMSProp",
    "CenteredRMSProp",
)
APPLY_TYPES = tuple("ResourceSparseApply" + name for name in _FORMS)
CHAIN_ENDS = ("AssignSubVariableOp", "ResourceScatterAdd")

_LARGEST_CHAIN = 100  # Adam's has about 40 ops.


def match_sparse_apply(op: tf.Operation) -> VariableUpdate:
    """The update that `op`, one of APPLY_TYPES, does."""
    name = op.type[len("ResourceSparseApply") :]
    inputs = [(arg.name, tensor) for arg, tensor in zip(op.op_def.input_arg, op.inputs)]
    by_name = dict(inputs)
    indices, grad = without_dedup(by_name["indices"], by_name["grad"])
    summed = indices is not by_name["indices"]
    attrs = [(a.name, op.get_attr(a.name)) for a in op.op_def.attr if a.name not in NOT_COPIED]
    scalars = tuple((arg, t) for arg, t in inputs if t.dtype != tf.resource and arg not in ("indices", "grad"))
    _, waits = _chain((op,), [indices, grad, *(t for _, t in scalars)]) or ([], ())
    return VariableUpdate(
        name,
        "TfBoosterMultiSparseApply" + name,
        tuple((arg, t) for arg, t in inputs if t.dtype == tf.resource),
        scalars,
        (("indices", indices), ("grad", grad)),
        (*attrs, ("sum_duplicates", summed)),
        (op,),
        waits,
        several=summed,
    )


def match_sparse_chain(op: tf.Operation, lazy_adam: bool) -> Optional[VariableUpdate]:
    """The update whose last op is `op`, one of CHAIN_ENDS; None if it is none that is known."""
    handle = op.inputs[0]
    try:
        found = match_chain(handle.op.name, op) if handle.op.type == "VarHandleOp" else None
    except UnsupportedUpdate:
        return None
    if found is None:
        return None
    if found.optimizer == "sgd":
        name, resources = "GradientDescent", ()
        scalars: Inputs = (("lr", found.inputs[0]),)
        attrs: Tuple[Tuple[str, Any], ...] = (("sum_duplicates", False),)
    elif not _is_summed(found):
        return None
    elif found.optimizer == "adam":
        name, resources = "Adam", _slots(found)
        scalars = tuple(zip(("alpha", "beta1", "beta2", "epsilon"), found.inputs[2:]))
        attrs = (("sum_duplicates", True), ("lazy", lazy_adam))
    else:
        name, resources = (
            {"rmsprop": "KerasRMSProp", "centered_rmsprop": "KerasCenteredRMSProp"}[found.optimizer],
            _slots(found),
        )
        scalars = (("lr", found.inputs[0]), ("rho", found.inputs[1]), ("epsilon", found.inputs[3]))
        attrs = (("sum_duplicates", True),)
    chain = _chain(found.replaced, [found.indices, found.grad, *(t for t in found.inputs if isinstance(t, tf.Tensor))])
    if chain is None:
        return None
    ops, waits = chain
    return VariableUpdate(
        name,
        "TfBoosterMultiSparseApply" + name,
        (("var", handle), *resources),
        scalars,
        (("indices", found.indices), ("grad", found.grad)),
        attrs,
        (op, *(o for o in ops if o is not op)),
        waits,
        note="only rows with a gradient decay and move (lazy_adam)" if lazy_adam and name == "Adam" else "",
        several=True,
    )


def densified(update: VariableUpdate) -> Optional[VariableUpdate]:
    """The same update by a gradient of all rows, zeros for most; None where no dense op has this form.

    Rows without a gradient then decay and move as a dense Variable's do.
    """
    tensors = dict(update.tensors)
    attrs = [(name, value) for name, value in update.attrs if name not in ("sum_duplicates", "lazy")]
    scalars = update.scalars
    if update.optimizer.startswith("Keras") and update.optimizer.endswith("RMSProp"):
        return None
    if update.optimizer == "Adam":
        by_name = dict(scalars)
        parts = _adam_parts(by_name["alpha"])
        if parts is None:
            return None
        by_name.update(parts)
        names = ("beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon")
        scalars, attrs = tuple((name, by_name[name]) for name in names), [("use_nesterov", False)]
    return dataclasses.replace(
        update,
        fused_type="TfBoosterMultiApply" + update.optimizer,
        scalars=scalars,
        tensors=(("grad", tensors["grad"]),),
        indices_of_grad=tensors["indices"],
        attrs=tuple(attrs),
        note="lazy updates of rows became dense ones (fuse_sparse_variables)",
    )


def _adam_parts(alpha: tf.Tensor) -> Optional[Dict[str, tf.Tensor]]:
    """`lr`, `beta1_power` and `beta2_power` out of which TensorFlow's Adams make alpha; None if it is made otherwise."""
    root = Op("Sqrt", Op("Sub", Bind("one"), Bind("beta2_power")))
    rest = Op("Sub", Bind("other_one"), Bind("beta1_power"))
    found = match(Op("RealDiv", Op("Mul", Bind("lr"), root), rest), alpha) or match(
        Op("Mul", Bind("lr"), Op("RealDiv", root, rest)), alpha
    )
    if not found or uniform_value(found["one"]) != 1.0 or uniform_value(found["other_one"]) != 1.0:
        return None
    return {name: found[name] for name in ("lr", "beta1_power", "beta2_power")}


def _slots(found: SparseUpdate) -> Tuple[Tuple[str, tf.Tensor], ...]:
    return tuple((slot.name, slot.handle_op.outputs[0]) for slot in found.slots if slot.handle_op is not None)


def _is_summed(found: SparseUpdate) -> bool:
    """Whether Unique and UnsortedSegmentSum stood in front: a chain's scatters see each row once."""
    scatters = [op for op in found.replaced if op.type == "ResourceScatterAdd"]
    return all(op.inputs[1].ref() != found.indices.ref() for op in scatters)


def _chain(
    replaced: Sequence[tf.Operation], ends: Sequence[tf.Tensor]
) -> Optional[Tuple[List[tf.Operation], Tuple[tf.Operation, ...]]]:
    """`replaced`, the ops between them and the NoOps that only gather them; and what all of these, and the ops that lead from
    `ends` to them, wait for.

    None where others use what is between. TensorFlow gives the control inputs of a scope to the first ops in it only, so that an
    optimizer's Unique may wait for what its last op does not name.
    """
    inside: Set[tf.Operation] = set(replaced)
    known: Dict[tf.Operation, bool] = {}
    stop = {tensor.ref() for tensor in ends}

    def follows(op: tf.Operation) -> bool:
        """Whether `op` computes from what one of `replaced` has written."""
        if op not in known:
            known[op] = False
            before = [t.op for t in op.inputs if t.ref() not in stop]
            # Even a constant may wait on a write, as the axis of a gather does.
            before += [c for c in op.control_inputs if c in inside]
            follow = [follows(other) for other in before if len(known) < _LARGEST_CHAIN]
            known[op] = op in replaced or any(follow)
            if known[op]:
                inside.add(op)
        return known[op]

    for op in replaced:
        follows(op)
    if len(known) >= _LARGEST_CHAIN:
        return None
    for op in inside:
        if any(consumer not in inside for t in op.outputs for consumer in t.consumers()):
            return None
    gathering = {w for op in replaced for w in GraphView.control_outputs(op) if w.type == "NoOp"}
    # One that is made in a scope of tf.control_dependencies, as that of batch norm's updates, names the scope's ops once more.
    ordered = {c for op in (*known, *inside) for c in op.control_inputs}
    inside.update(w for w in gathering if all(before in inside or before in ordered for before in w.control_inputs))
    waits = dict.fromkeys(c for op in (*known, *inside) for c in op.control_inputs if c not in inside)
    return sorted(inside, key=lambda op: op.name), tuple(sorted(waits, key=lambda op: op.name))
