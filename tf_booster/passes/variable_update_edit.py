"""Puts one fused op in the place of the updates that variable_update_plan.py grouped."""

from __future__ import annotations

import os
import re
from typing import AbstractSet, Any, Dict, Iterable, List, Sequence, Tuple

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.fetches import executed_ops
from tf_booster.passes.formula_matching import FORMULA
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.moving_average_matching import MOVING_AVERAGE
from tf_booster.passes.shape_tricks import source_of
from tf_booster.passes.variable_update_matching import Part, VariableUpdate

FUSED_PREFIX = "TfBoosterMulti"


def fuse(view: GraphView, updates: Sequence[VariableUpdate], instead: Dict[tf.Operation, tf.Operation]) -> tf.Operation:
    """Makes the fused op of `updates`. What waited on one of them waits on it, and it waits for what any of them waited for.

    TensorFlow's own ops stay: a user who fetches one by name gets what it always did. Nothing else leads to them. What an update gives is read
    behind the fused op, too, for who fetches it in a run of that (estimator/fetched_updates.py).

    instead: for ops of updates that were replaced before, the fused op: a moving average is what other updates may wait for. Is added to.
    """
    updates = _parts_together(updates)
    first = updates[0]
    replaced = [op for update in updates for op in update.ops]
    inside = set(replaced)
    waits = dict.fromkeys(c for op in replaced for c in op.control_inputs if c not in inside)
    waits.update(dict.fromkeys(instead.get(c, c) for update in updates for c in update.waits))
    if first.fused_type == MOVING_AVERAGE:
        waits.update(dict.fromkeys(_reads_of_old(view, updates, inside)))
    make = getattr(_native.ops(), _python_name(first.fused_type))
    with view.inserting(first.anchor.device):
        scalars: Dict[str, Any] = {
            name: tf.constant(value, first.dtype) if isinstance(value, float) else value
            for name, value in first.scalars
        }
        attrs = dict(first.attrs)
        joined: Dict[Tuple, tf.Tensor] = {}
        tensors = _by_argument((name, [_tensor(view, u, name, joined) for u in updates]) for name, _ in first.tensors)
    if "indices" in tensors and attrs["sum_duplicates"]:
        attrs["distinct"] = [_are_distinct(indices) for indices in tensors["indices"]]
    if first.fused_type == FORMULA:
        scalars = {"number": list(scalars.values())}
        attrs.update(N=len(updates), tensor=tensors.pop("tensor", []))
    if first.part is not None:
        parts = [u.part for u in updates if u.part is not None]
        attrs.update(part=[p.part for p in parts], parts=[p.parts for p in parts])
        attrs.update(part_rows=[p.rows for p in parts], mod=[p.mod for p in parts])
    with view.inserting(first.anchor.device, list(waits)):
        new = make(
            **_by_argument((name, [dict(u.resources)[name] for u in updates]) for name, _ in first.resources),
            **tensors,
            **scalars,
            **attrs,
            name=_name(updates),
        )
    view.note_originals(new, replaced)
    view.redirect_control(replaced, new)
    instead.update(dict.fromkeys(replaced, new))
    for update in updates:
        _read_behind(view, update, new)
    return new


def _by_argument(lists: Iterable[Tuple[str, List[tf.Tensor]]]) -> Dict[str, List[tf.Tensor]]:
    """Lists by the argument that they are of: those of `var#0` and `var#1` one after another."""
    found: Dict[str, List[tf.Tensor]] = {}
    for name, tensors in lists:
        found.setdefault(name.partition("#")[0], []).extend(tensors)
    return found


def _reads_of_old(
    view: GraphView, updates: Sequence[VariableUpdate], inside: AbstractSet[tf.Operation]
) -> List[tf.Operation]:
    """What else reads the averages in a step and waits for nothing, as a batch normalization that predicts beside the one that trains does.

    TensorFlow leaves open which comes first. But its own update is a chain of ops that begins with such a read, and ends when the others are long done.
    """
    handles = [update.var.op for update in updates]
    reads = [
        op
        for handle in handles
        for op in handle.outputs[0].consumers()
        if op.type == "ReadVariableOp" and op not in inside
    ]
    reads = [op for op in reads if not op.control_inputs and op.outputs[0].consumers()]
    executed = executed_ops(view) if reads else ()
    return [op for op in reads if op in executed]


def _read_behind(view: GraphView, update: VariableUpdate, new: tf.Operation) -> None:
    """Reads behind `new` what the last write of `update`, or each of a formula's, gives, as assign_sub() and scatter_add() do."""
    writes = update.ops[: len(update.resources)] if update.fused_type == FORMULA else (update.anchor,)
    for read in update.ops:
        if read.type == "ReadVariableOp" and any(op in writes for op in read.control_inputs):
            with view.inserting(read.device, [new]):
                value = tf.raw_ops.ReadVariableOp(
                    resource=read.inputs[0], dtype=read.outputs[0].dtype, name=f"{new.name}/result"
                )
            view.note_originals(value.op, [read])


def _parts_together(updates: Sequence[VariableUpdate]) -> List[VariableUpdate]:
    """The parts of a table behind each other, so that the fused op sums up their rows once."""
    place: Dict[Tuple, int] = {}
    for update in updates:
        if update.part is None:
            return list(updates)
        place.setdefault(_table(update.part), len(place))
    return sorted(updates, key=lambda update: (place[_table(update.part)], update.part.part))


def _table(part: Part) -> Tuple:
    return tuple(tensor.ref() for tensor in (*part.indices, *part.grads))


def _tensor(view: GraphView, update: VariableUpdate, name: str, joined: Dict[Tuple, tf.Tensor]) -> tf.Tensor:
    if update.part is not None:
        pieces = [view.current(t) for t in (update.part.indices if name == "indices" else update.part.grads)]
        key = tuple(piece.ref() for piece in pieces)
        if key not in joined:
            joined[key] = tf.concat(pieces, 0) if len(pieces) > 1 else pieces[0]
        return joined[key]
    tensor = view.current(dict(update.tensors)[name])
    if update.indices_of_grad is None:
        return tensor
    rows = update.var.op.get_attr("shape").dim[0].size
    return tf.math.unsorted_segment_sum(tensor, view.current(update.indices_of_grad), rows)


def _are_distinct(indices: tf.Tensor) -> bool:
    """Whether the op that made `indices` leaves no duplicates among them."""
    indices = source_of(indices)
    op, place = indices.op, indices.value_index
    if op.type == "TfBoosterPrepareLookups":
        return place < op.get_attr("N")
    return place == 0 and op.type in ("Unique", "TfBoosterUnique")


def _name(updates: Sequence[VariableUpdate]) -> str:
    """tf_booster/<the scope that the updates share>/apply_<optimizer>, with _rows where only some rows have a gradient."""
    rows = "_rows" if "Sparse" in updates[0].fused_type else ""
    scope = _common_scope([update.anchor.name for update in updates])
    return "/".join(["tf_booster", *scope, "apply_" + updates[0].optimizer + rows])


def _common_scope(names: List[str]) -> List[str]:
    scope = os.path.commonprefix([name.split("/")[:-1] for name in names])
    return [part for part in scope if not part.startswith("update")]


def _python_name(op_type: str) -> str:
    """As TensorFlow names the Python function of an op: TfBoosterMultiApplyRMSProp -> tf_booster_multi_apply_rms_prop."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", op_type).lower()
