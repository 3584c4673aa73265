"""Plans which updates of Variables become one op, and says of the others why not."""

from __future__ import annotations

import collections
import dataclasses
from typing import AbstractSet, Dict, FrozenSet, Hashable, Iterable, List, Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.merging import Unit, merge_groups
from tf_booster.passes.moving_average_matching import MOVING_AVERAGE, unfit_average
from tf_booster.passes.scalar_keys import ScalarKeys
from tf_booster.passes.variable_update_matching import VariableUpdate, handles, unfit


@dataclasses.dataclass
class UpdatePlan:
    """groups: the updates of each fused op, two or more or one that shrinks. apart: updates left as they are, and why."""

    groups: List[List[VariableUpdate]] = dataclasses.field(default_factory=list)
    apart: List[Tuple[VariableUpdate, str]] = dataclasses.field(default_factory=list)


def plan_updates(
    view: GraphView, updates: Sequence[VariableUpdate], left_over: AbstractSet[str] = frozenset()
) -> UpdatePlan:
    """Groups `updates` by what they must have in common. Changes nothing; linear in the graph.

    left_over: names of ops that were replaced: that they wait on an update does not matter.
    """
    plan = UpdatePlan()
    keys = ScalarKeys(view)
    waiting: Dict[int, FrozenSet[tf.Operation]] = {}
    units = []
    for update in updates:
        reason = unfit(update) or _unfit_average(update) or _misplaced(view, update)
        waiters = _waiters(update, left_over)
        if reason is None and not waiters:
            reason = "no op waits on its update, so a fetch may want it alone"
        if reason is not None:
            plan.apart.append((update, reason))
            continue
        waiting[id(update)] = waiters
        # Whatever runs one of them runs what waits on it, and that waits on all.
        units.append(Unit(update.ops, (_likeness(update, keys), waiters), update, together=True))
    groups, refused = merge_groups(view, units)
    plan.apart += [(unit.payload, reason) for unit, reason in refused]
    likes = collections.Counter(unit.key[0] for group in groups for unit in group)
    for group in groups:
        members, repeated = _written_once([unit.payload for unit in group])
        plan.apart += [(update, "several updates write the same Variable or slot") for update in repeated]
        if len(members) > 1 or (members and members[0].several):
            plan.groups.append(members)
        elif members:
            plan.apart.append((members[0], _why_alone(members[0], likes[group[0].key[0]], waiting[id(members[0])])))
    return plan


def _unfit_average(update: VariableUpdate) -> Optional[str]:
    return unfit_average(update) if update.fused_type == MOVING_AVERAGE else None


def _likeness(update: VariableUpdate, keys: ScalarKeys) -> Hashable:
    """What updates of one op have in common, beside who waits on them."""
    scalars = tuple((name, keys.key(v) if isinstance(v, tf.Tensor) else v) for name, v in update.scalars)
    indices = tuple(tensor.dtype for name, tensor in update.tensors if name == "indices")
    devices = tuple(dict.fromkeys([update.anchor.device, *(handle.op.device for _, handle in update.resources)]))
    in_parts = update.part is not None
    return (update.fused_type, update.dtype, indices, devices, update.attrs, scalars, in_parts)


def _waiters(update: VariableUpdate, left_over: AbstractSet[str]) -> FrozenSet[tf.Operation]:
    """The ops that wait on the update; it counts as one op."""
    return frozenset(op for op in _waiting_on(update.ops) if op.name not in left_over)


def _waiting_on(ops: Iterable[tf.Operation]) -> List[tf.Operation]:
    inside = set(ops)
    return [op for o in inside for op in GraphView.control_outputs(o) if op not in inside]


def _misplaced(view: GraphView, update: VariableUpdate) -> Optional[str]:
    if view.elsewhere(update.anchor):
        return view.elsewhere(update.anchor)
    types = {"T": update.dtype}
    types.update(("Tindices", tensor.dtype) for name, tensor in update.tensors if name == "indices")
    if view.can_stand_for(update.anchor, update.fused_type, **types):
        return None
    return f"it is updated on the GPU, where the fused op has no kernel for {update.dtype.name}"


def _written_once(updates: List[VariableUpdate]) -> Tuple[List[VariableUpdate], List[VariableUpdate]]:
    """Splits off those that write what another one writes: TensorFlow leaves their order open, so they stay its own."""
    writes = collections.Counter(ref for update in updates for ref in handles(update))
    once = [update for update in updates if all(writes[ref] == 1 for ref in handles(update))]
    kept = set(map(id, once))
    return once, [update for update in updates if id(update) not in kept]


def _why_alone(update: VariableUpdate, alike: int, waiters: FrozenSet[tf.Operation]) -> str:
    after = [op for op in waiters if op.type == "ReadVariableOp" and op.inputs[0].ref() == update.var.ref()]
    if after:
        return f"op '{after[0].name}' reads it right after its own update, as a constraint does"
    if alike > 1:
        return "other ops wait on its update than on those of other Variables, or other inputs come before it"
    return "no other Variable has an update of this kind, dtype and hyperparameters"
