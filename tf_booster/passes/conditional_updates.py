"""The pass that takes updates out of the body of a tf.cond, into the graph, where the other passes find them.

A dynamic loss scale (enable_mixed_precision_graph_rewrite, MixedPrecisionLossScaleOptimizer) leaves a step out whose gradients are not finite: all
updates are in one branch of a tf.cond, and the other does nothing. In control flow v2 a branch is a function, which no pass looks into.

TensorFlow itself makes ops of such an If before it runs it: a Switch for the condition, the branch's ops behind it, a Merge. The pass does the same, but
that only what changes something waits for the Switch: what else updates are made of is little, cannot fail and changes nothing, and the other passes see the
same chains as elsewhere. A branch that computes more, such as its own gradients, stays: it would be computed in vain.

Several ranks do together what meets in a collective, and must all update, or none. A condition that may differ between them holds where it does on all: a
step whose gradients are not finite on one rank is left out by all, as the joined batch's would be.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.parallel import collectives, shared_graphs
from tf_booster.parallel.raw_gradients import raw_gradients
from tf_booster.passes import conditions
from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.graph_index import reached
from tf_booster.passes.graph_view import GraphView, add_control_input
from tf_booster.passes.sources import Sources
from tf_booster.passes.table_placement import HOST

_UPDATE = re.compile(r"Resource(Sparse)?Apply\w+|ResourceScatter\w+")
_NOTHING = ("Const", "Identity", "NoOp")
# What optimizers compute around their updates: rows that occur twice, hyperparameters, moments.
_LITTLE = re.compile(
    r"Const|Identity|NoOp|Cast|Shape|StridedSlice|Unique|UnsortedSegmentSum|ReadVariableOp|Assign(Add|Sub)?VariableOp|"
    r"AddV2|Sub|Mul|RealDiv|Neg|Square|Sqrt|Rsqrt|Pow|Exp|Floor|Minimum|Maximum"
)


class ConditionalUpdates(Pass):
    """Has the updates in one branch of an If run under its condition, as ops of the graph."""

    name = "conditional_updates"
    seeks = "updates inside a tf.cond whose other branch does nothing, as dynamic loss scales make them"

    def requires(self, view: GraphView) -> bool:
        """Whether there is an If with updates in it."""
        left: List[Tuple[str, str]] = []
        return bool(_found(view, left) or left)

    def run(self, view: GraphView) -> PassResult:
        """Leaves an If that does something in both branches, or computes more than updates."""
        result = PassResult(self.name)
        ranks = shared_graphs.place(view.graph).size
        for op, branches in _found(view, result.skipped).items():
            if ranks > 1 and _may_differ(view, op.inputs[0]):
                _agree(view, op, ranks)
                result.changes.append(f"all {ranks} ranks take a step by '{op.name}', or none: by one all-reduce more")
            updates = _inline(view, op, branches)
            result.changes.append(f"{updates} updates that were inside of '{op.name}' run under its condition")
            result.modified = True
        return result

    def ensures(self, view: GraphView) -> None:
        """No If with updates that can be taken out is read any more."""
        for op in _found(view):
            raise RewriteError(f"Op '{op.name}' (If) still has updates in it.")


def _found(view: GraphView, left: Optional[List[Tuple[str, str]]] = None) -> Dict[tf.Operation, List[Any]]:
    """Ifs that are read, and the functions of their branches: of the condition False, and True. left: gets those that stay, and why."""
    functions: Dict[str, Any] = {}
    found = {}
    for op in view.ops("If"):
        if not functions:
            functions = {function.signature.name: function for function in _compat.function_definitions(view.graph)}
        branches = [functions[op.get_attr(name).name] for name in ("else_branch", "then_branch")]
        if not _is_read(op) or not any(_UPDATE.fullmatch(node.op) for branch in branches for node in branch.node_def):
            continue
        why = _why_not(op, branches)
        if not why:
            found[op] = branches
        elif left is not None:
            left.append((op.name, why))
    return found


def _is_read(op: tf.Operation) -> bool:
    return bool(GraphView.control_outputs(op)) or any(output.consumers() for output in op.outputs)


def _why_not(op: tf.Operation, branches: List[Any]) -> str:
    """Why updates in the branches of an If stay there; "" if they need not."""
    if op.inputs[0].dtype != tf.bool or not op.outputs:
        return "its condition is no bool, or it has no result"
    types = [[node.op for node in branch.node_def] for branch in branches]
    if not any(all(op_type in _NOTHING for op_type in side) for side in types):
        return "both branches of the tf.cond do something"
    more = [t for side in types for t in side if not (_LITTLE.fullmatch(t) or _UPDATE.fullmatch(t))]
    if more:
        return f"beside updates it computes {more[0]}, which is left out with them; compute outside of the tf.cond what it updates by"
    return ""


def _may_differ(view: GraphView, condition: tf.Tensor) -> bool:
    """Whether ranks may see other values, from their own input. Gradients are summed first, and what sees all rows of a table's is combined; Variables
    are the same everywhere."""
    index, sources = view.index(), Sources(view.graph)
    agreed = {index.number[mark.values.op] for mark in raw_gradients(view.graph)}
    for number, op in enumerate(index.ops):
        if collectives.is_collective(op) or collectives.is_users_collective(op):
            agreed.add(number)
    before = reached([index.number[condition.op]], index.before, agreed) - agreed
    return any(sources.is_source(index.ops[number]) for number in before)


def _agree(view: GraphView, op: tf.Operation, ranks: int) -> None:
    """Has all that reads the condition of an If read whether it holds on all ranks."""
    condition = op.inputs[0]
    readers = set(condition.consumers())
    with view.inserting(HOST):
        mine = tf.cast(condition, tf.float32)
        (number,) = collectives.all_reduce_packed([mine], "other", f"condition_{op.name.replace('/', '_')}")
        agreed = number > ranks - 0.5
    view.redirect(condition, agreed, readers.__contains__)


def _inline(view: GraphView, op: tf.Operation, branches: List[Any]) -> int:
    """Returns the number of updates."""
    with view.inserting(op.device, op.control_inputs):
        sides = tf.raw_ops.Switch(data=op.inputs[0], pred=op.inputs[0], name=f"tf_booster/{op.name}/switch")
    results, updates = [], 0
    for branch, pred in zip(branches, sides):
        with view.inserting(op.device):
            pivot = tf.identity(pred, name=f"tf_booster/{op.name}/pivot").op
        conditions.note(pivot)
        ops, outputs, needed = _compat.import_function(view.graph, branch, list(op.inputs)[1:], f"tf_booster/{op.name}")
        stateful = [each for each in ops if each.op_def.is_stateful]
        for each in stateful:
            add_control_input(each, pivot)
        updates += sum(bool(_UPDATE.fullmatch(each.type)) for each in stateful)
        with view.inserting(op.device, [pivot, *needed]):
            results.append([tf.identity(output) for output in outputs])
    with view.inserting(op.device):
        merged = [tf.raw_ops.Merge(inputs=list(pair)).output for pair in zip(*results)]
    view.redirect_all(list(zip(op.outputs, merged)))
    view.redirect_control([op], merged[0].op)
    # Else who follows a tensor would meet it, and find updates in a function.
    view.cut_off([op])
    for branch in branches:
        view.leave_function(branch.signature.name)
    return updates
