"""Branches of v1 tf.conds, as programs have them that call disable_v2_behavior or disable_control_flow_v2.

Their ops are in the graph already. What a branch reads of the graph comes through a Switch for each tensor, which gives it to the branch whose turn it is; what reads
nothing waits for the branch's pivot, the same for the condition itself.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes.graph_view import GraphView, add_control_input, drop_control_input


@dataclasses.dataclass(frozen=True)
class Branch:
    """One branch of a v1 tf.cond that is in no other. ops: all but `switches`, by which it reads the graph. other_types: of the other branch's ops."""

    context: Any
    ops: List[tf.Operation]
    switches: List[tf.Operation]
    other_types: List[str]

    @property
    def pivot(self) -> tf.Operation:
        """Runs if the branch's turn has come."""
        return self.context.pivot.op

    @property
    def name(self) -> str:
        """Of the tf.cond."""
        return self.pivot.name.rpartition("/")[0] or self.pivot.name


def branches(graph: tf.Graph) -> List[Branch]:
    """All of them."""
    found: List[Branch] = []
    of_cond: Dict[Any, List[Any]] = {}
    ops_of = _compat.cond_branches(graph)
    for context in ops_of:
        of_cond.setdefault(context.pred.ref(), []).append(context)
    for context, ops in ops_of.items():
        switches = [op for op in ops if op.type == "Switch" and op.inputs[1] is context.pred]
        taken = set(switches)
        other = [op for one in of_cond[context.pred.ref()] if one is not context for op in ops_of[one]]
        types = [op.type for op in other if op.type != "Switch"]
        found.append(Branch(context, [op for op in ops if op not in taken], switches, types))
    return found


def take_out(view: GraphView, branch: Branch) -> None:
    """Has what changes something wait for the pivot, and all else of the branch run as the graph's own ops do.

    Ops whose results leave the branch wait, too: a Merge takes what there is.
    """
    inside = set(branch.ops)
    leaving = [op for op in branch.ops if not inside.issuperset(_readers(op))]
    side = branch.context.branch
    view.redirect_all([(switch.outputs[side], switch.inputs[0]) for switch in branch.switches])
    view.cut_off(branch.switches)  # Else who follows a tensor would find that it leads into a tf.cond.
    for op in branch.ops:
        if op.op_def.is_stateful or op in leaving:
            add_control_input(op, branch.pivot)
        else:
            drop_control_input(op, branch.pivot)
        view.on_rollback(lambda op=op: _compat.set_control_flow_context(op, branch.context))
        _compat.set_control_flow_context(op, None)


def _readers(op: tf.Operation) -> List[tf.Operation]:
    return [*GraphView.control_outputs(op), *(reader for output in op.outputs for reader in output.consumers())]
