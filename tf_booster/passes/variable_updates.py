"""The pass that makes the updates of many Variables a few ops. docs/design/graph_rewriting.md tells how and when."""

from __future__ import annotations

from typing import Any, Dict, List, Set

import tensorflow as tf

from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.variable_update_edit import fuse
from tf_booster.passes.variable_update_matching import (
    DENSE_TYPES,
    REFERENCE_TYPES,
    VariableUpdate,
    describe,
    match_dense,
)
from tf_booster.passes.variable_update_plan import UpdatePlan, plan_updates

_JUDGED = ("tf_booster", "judged_updates")
_FUSED_PREFIX = "TfBoosterMulti"


class VariableUpdates(Pass):
    """Joins the updates of Variables that have optimizer, dtype and hyperparameters in common.

    The Variables stay what they are, with their names, buffers, Savers and checkpoints; only the ops that write them change.
    """

    name = "variable_updates"

    def requires(self, view: GraphView) -> bool:
        """Whether the graph has updates that no run of this pass has looked at."""
        judged = set(view.graph.get_collection(_JUDGED))
        return any(op.name not in judged for op in view.ops(*DENSE_TYPES, *REFERENCE_TYPES))

    def run(self, view: GraphView) -> PassResult:
        """Fuses what can be, and says of every other update why it was left."""
        result = PassResult(self.name)
        replaced = _replaced(view)
        ops = [op for op in view.ops(*DENSE_TYPES) if op.name not in replaced]
        updates = [match_dense(op) for op in ops]
        plan = plan_updates(view, updates)
        references = view.ops(*REFERENCE_TYPES)
        for op in [*ops, *references]:
            view.add_to_collection(_JUDGED, op.name)
        result.variables = self._fuse(view, plan, result)
        result.variables += [_reference(op) for op in references]
        result.skipped += [(entry["name"], entry["reason"]) for entry in result.variables if entry["reason"]]
        result.skipped += _in_functions(view)
        return result

    def _fuse(self, view: GraphView, plan: UpdatePlan, result: PassResult) -> List[Dict[str, Any]]:
        entries = []
        for group in plan.groups:
            new = fuse(view, group)
            entries += [{**describe(update), "fused_into": new.name} for update in group]
            result.changes.append(_change(new, group))
            result.modified = True
        return entries + [{**describe(update), "reason": reason} for update, reason in plan.apart]

    def ensures(self, view: GraphView) -> None:
        """Nothing waits on an update that was replaced."""
        replaced = _replaced(view)
        for op in view.ops(*DENSE_TYPES):
            if op.name in replaced and GraphView.control_outputs(op):
                raise RewriteError(
                    f"Op '{op.name}' was replaced, but op '{GraphView.control_outputs(op)[0].name}' waits on it."
                )


def _replaced(view: GraphView) -> Set[str]:
    """Names of the ops in whose place a fused one stands."""
    types = [t for t in view.index().types() if t.startswith(_FUSED_PREFIX)]
    return {name for op in view.ops(*types) for name in view.originals(op)}


def _change(new: tf.Operation, group: List[VariableUpdate]) -> str:
    names = ", ".join(update.variable_name for update in group[:3]) + (", …" if len(group) > 3 else "")
    note = f"; {group[0].note}" if group[0].note else ""
    return f"{len(group)} {group[0].optimizer} updates became op '{new.name}': {names}{note}"


def _reference(op: tf.Operation) -> Dict[str, Any]:
    return {
        "name": op.inputs[0].op.name,
        "shape": op.inputs[0].shape.as_list() if op.inputs[0].shape.rank is not None else None,
        "optimizer": op.type[len("Apply") :],
        "fused_into": None,
        "reason": "it is a reference Variable; resource Variables (use_resource=True) can be fused",
    }


def _in_functions(view: GraphView) -> List[Any]:
    reason = "a function updates Variables there (tf.function, v2 control flow); such updates stay as they are"
    return [(node.name, reason) for node in view.functions_with(*DENSE_TYPES).values()]
