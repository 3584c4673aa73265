"""The pass that makes the updates of many Variables a few ops. docs/design/graph_rewriting.md tells how and when."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Set

import tensorflow as tf

from tf_booster import log
from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.fetches import restores
from tf_booster.passes.formula_matching import WRITES, candidates, match_formulas
from tf_booster.passes.graph_view import GraphView, removed_variables
from tf_booster.passes.matching import RESOURCE_VARIABLES
from tf_booster.passes.moving_average_matching import REFERENCE_END, is_of_reference, match_moving_average
from tf_booster.passes.partitioned_updates import Partitions, with_whole_gradient
from tf_booster.passes.read_modify_writes import put_in_order
from tf_booster.passes.sparse_update_matching import (
    APPLY_TYPES,
    CHAIN_ENDS,
    densified,
    match_sparse_apply,
    match_sparse_chain,
)
from tf_booster.passes.variable_update_edit import FUSED_PREFIX, fuse
from tf_booster.passes.variable_update_matching import (
    DENSE_TYPES,
    REFERENCE_TYPES,
    VariableUpdate,
    describe,
    match_dense,
)
from tf_booster.passes.variable_update_plan import UpdatePlan, plan_updates

_JUDGED = ("tf_booster", "judged_updates")
_SCALED = "lr_scaling multiplies its step, which is found among the ops of the program alone"
_ONE_OP = (*DENSE_TYPES, *APPLY_TYPES)


class VariableUpdates(Pass):
    """Joins the updates of Variables that have optimizer, dtype and hyperparameters in common, and moving averages of one rate.

    The Variables stay what they are, with their names, buffers, Savers and checkpoints; only the ops that write them change.

    Args:
      fuse_sparse: whether updates of rows become updates of all rows, so that they join the dense ones.
      lazy_adam: whether Adam moves only the rows that have a gradient. TensorFlow's moves every row at every step.
      scales_rates: whether the steps of optimizers are multiplied later. What an own formula's step is proportional to could not be found in one op.
    """

    name = "variable_updates"
    seeks = "updates of several Variables by one optimizer, or moving averages"

    def __init__(self, fuse_sparse: bool = False, lazy_adam: bool = False, scales_rates: bool = False):
        self._fuse_sparse, self._lazy_adam, self._scales_rates = fuse_sparse, lazy_adam, scales_rates

    def requires(self, view: GraphView) -> bool:
        """Whether the graph has updates that no run of this pass has looked at."""
        judged = set(view.graph.get_collection(_JUDGED))
        known = view.ops(*_ONE_OP, *CHAIN_ENDS, *REFERENCE_TYPES)
        return any(op.name not in judged for op in [*_running(view, known), *_assigns(view)])

    def run(self, view: GraphView) -> PassResult:
        """Fuses what can be, and says of every other update why it was left."""
        result = PassResult(self.name)
        left = _replaced(view) | set(removed_variables(view.graph))
        ends = _running(view, view.ops(*_ONE_OP, *CHAIN_ENDS))
        known: Partitions = {}
        found = [self._match(op, known) for op in ends if op.name not in left and op.inputs[0].op.name not in left]
        updates = [update for update in found if update is not None]
        references, assigns = _running(view, view.ops(*REFERENCE_TYPES)), _assigns(view)
        averages = [op for op in _running(view, view.ops(REFERENCE_END)) if is_of_reference(op)]
        for op in [*ends, *references, *averages, *assigns]:
            view.add_to_collection(_JUDGED, op.name)
        instead: Dict[tf.Operation, tf.Operation] = {}
        result.variables = self._fuse(view, plan_updates(view, updates), result, instead)
        left.update(op.name for update in updates for op in update.ops)
        assigns = [op for op in assigns if op.name not in left and op.inputs[0].op.name not in left]
        result.variables += self._fuse_formulas(view, assigns, result, instead)
        ordered = put_in_order(view)
        result.changes += ordered
        result.modified |= bool(ordered)
        result.variables += [_reference(op) for op in (*references, *averages)]
        if references:
            log.once(
                f"{len(references)} trained Variables are reference Variables, as disable_v2_behavior() makes them, whose lookups and updates stay "
                f"TensorFlow's; {RESOURCE_VARIABLES} become fast, with the same checkpoints"
            )
        result.skipped += [(entry["name"], entry["reason"]) for entry in result.variables if entry["reason"]]
        result.skipped += _in_functions(view)
        return result

    def _match(self, op: tf.Operation, known: Partitions) -> Optional[VariableUpdate]:
        if op.type in DENSE_TYPES:
            return match_dense(op)
        average = match_moving_average(op)
        if average is not None:
            return average
        update = match_sparse_apply(op) if op.type in APPLY_TYPES else match_sparse_chain(op, self._lazy_adam)
        if update is None:
            return None
        return (densified(update) if self._fuse_sparse else None) or with_whole_gradient(update, known)

    def _fuse(
        self, view: GraphView, plan: UpdatePlan, result: PassResult, instead: Dict[tf.Operation, tf.Operation]
    ) -> List[Dict[str, Any]]:
        entries = []
        for group in plan.groups:
            new = fuse(view, group, instead)
            entries += [{**describe(update), "fused_into": new.name} for update in group]
            result.changes.append(_change(new, group))
            result.modified = True
        return entries + [{**describe(update), "reason": reason} for update, reason in plan.apart]

    def _fuse_formulas(
        self,
        view: GraphView,
        assigns: List[tf.Operation],
        result: PassResult,
        instead: Dict[tf.Operation, tf.Operation],
    ) -> List[Dict[str, Any]]:
        """Behind the other updates: a decay of weights may be what an optimizer's update waits for, and that is one op now."""
        if not assigns:
            return []
        left_over = _replaced(view)
        updates, left = match_formulas(view, assigns, left_over)
        if self._scales_rates:
            left += [(op, _SCALED) for update in updates for op in update.ops if op.type in WRITES]
            updates = []
        entries = self._fuse(view, plan_updates(view, updates, left_over), result, instead)
        told = {entry["name"]: entry for entry in reversed([_assigned(op, reason) for op, reason in left])}
        known = {entry["name"] for entry in (*result.variables, *entries)}
        return entries + [entry for name, entry in reversed(told.items()) if name not in known]

    def ensures(self, view: GraphView) -> None:
        """Nothing waits on an update that was replaced."""
        replaced = _replaced(view)
        for op in view.ops(*_ONE_OP, *CHAIN_ENDS, *WRITES):
            after = GraphView.control_outputs(op) if op.name in replaced else []
            waiting = [other.name for other in after if other.name not in replaced]
            if waiting:
                raise RewriteError(f"Op '{op.name}' was replaced, but op '{waiting[0]}' waits on it.")


def _running(view: GraphView, ops: Iterable[tf.Operation]) -> List[tf.Operation]:
    return [op for op in ops if not view.is_superseded(op)]


def _replaced(view: GraphView) -> Set[str]:
    """Names of the ops in whose place a fused one stands."""
    types = [t for t in view.index().types() if t.startswith(FUSED_PREFIX)]
    return {name for op in view.ops(*types) for name in view.originals(op)}


def _change(new: tf.Operation, group: List[VariableUpdate]) -> str:
    names = ", ".join(update.variable_name for update in group[:3]) + (", …" if len(group) > 3 else "")
    sparse = "sparse " if "Sparse" in new.type else ""
    notes = "".join(f"; {note}" for note in dict.fromkeys(update.note for update in group) if note)
    count = f"{len(group)} {sparse}{group[0].optimizer} update{'' if len(group) == 1 else 's'}"
    return f"{count} became op '{new.name}': {names}{notes}"


def _reference(op: tf.Operation) -> Dict[str, Any]:
    return {
        "name": op.inputs[0].op.name,
        "shape": op.inputs[0].shape.as_list() if op.inputs[0].shape.rank is not None else None,
        "optimizer": "MovingAverage" if op.type == REFERENCE_END else op.type.split("Apply")[1],
        "fused_into": None,
        "reason": f"it is a reference Variable; {RESOURCE_VARIABLES} can be fused",
    }


def _assigns(view: GraphView) -> List[tf.Operation]:
    """The ops that may belong to formulas. Metrics' are none: they are few, and ranks merge what they add up."""
    found = candidates(view)
    initial = view.upstream_of_initializers() if found else set()
    local = tf.compat.v1.GraphKeys.LOCAL_VARIABLES
    running = [op for op in found if view.index().number[op] not in initial and not restores(op)]
    return [op for op in running if not view.in_collection(local, op.inputs[0].op)]


def _assigned(op: tf.Operation, reason: str) -> Dict[str, Any]:
    return {
        "name": op.inputs[0].op.name,
        "shape": tf.TensorShape(op.inputs[0].op.get_attr("shape")).as_list(),
        "optimizer": "Formula",
        "fused_into": None,
        "reason": reason,
    }


def _in_functions(view: GraphView) -> List[Any]:
    reason = "a function updates Variables there (tf.function, v2 control flow); such updates stay as they are"
    return [(node.name, reason) for node in view.functions_with(*_ONE_OP).values()]
