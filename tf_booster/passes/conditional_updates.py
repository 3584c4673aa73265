"""The pass that takes updates out of the body of a tf.cond, into the graph, where the other passes find them.

A dynamic loss scale (enable_mixed_precision_graph_rewrite, MixedPrecisionLossScaleOptimizer) leaves a step out whose gradients are not finite: all
updates are in one branch of a tf.cond, and the other does nothing, or counts. In control flow v2 a branch is a function, which no pass looks into.

TensorFlow itself makes ops of such an If before it runs it: a Switch for the condition, the branch's ops behind it, a Merge. The pass does the same, but
that only what changes something waits for the Switch: what else updates are made of is little, cannot fail and changes nothing, and the other passes see the
same chains as elsewhere. A branch that computes more, such as its own gradients, stays: it would be computed in vain. In control flow v1 a branch is
in the graph (v1_conditions.py), and what does not change anything leaves it.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Optional, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes import conditions, v1_conditions
from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.fetches import executed_ops
from tf_booster.passes.graph_view import GraphView, add_control_input

_UPDATE = re.compile(r"Resource(Sparse)?Apply\w+|ResourceScatter\w+")
# What optimizers compute around their updates: rows that occur twice, hyperparameters, moments.
_LITTLE = re.compile(
    r"Const|Identity|NoOp|Cast|Shape|StridedSlice|Unique|UnsortedSegmentSum|ReadVariableOp|Assign(Add|Sub)?VariableOp|"
    r"AddV2|Sub|Mul|RealDiv|Neg|Square|Sqrt|Rsqrt|Pow|Exp|Floor|Minimum|Maximum"
)


class ConditionalUpdates(Pass):
    """Has the updates in the branches of a tf.cond run under its condition, as ops of the graph."""

    name = "conditional_updates"
    seeks = "updates inside a tf.cond, as dynamic loss scales make them"

    def requires(self, view: GraphView) -> bool:
        """Whether there is a tf.cond with updates in it."""
        left: List[Tuple[str, str]] = []
        return bool(_found(view, left) or _found_v1(view, left) or left)

    def run(self, view: GraphView) -> PassResult:
        """Leaves a tf.cond that computes more than updates."""
        result = PassResult(self.name)
        for op, branches in _found(view, result.skipped).items():
            _note(_inline(view, op, branches), op.name, result)
        for branch in _found_v1(view, result.skipped):
            conditions.note(branch.pivot)
            v1_conditions.take_out(view, branch)
            _note(_count_updates(branch.ops), branch.name, result)
        return result

    def ensures(self, view: GraphView) -> None:
        """No tf.cond with updates that can be taken out is read any more."""
        for left in [*_found(view), *_found_v1(view)]:
            raise RewriteError(f"The tf.cond '{left.name}' still has updates in it.")


def _note(updates: int, name: str, result: PassResult) -> None:
    result.changes.append(f"{updates} updates that were inside of '{name}' run under its condition")
    result.modified = True


def _found(view: GraphView, left: Optional[List[Tuple[str, str]]] = None) -> Dict[tf.Operation, List[Any]]:
    """Ifs that are read, and the functions of their branches: of the condition False, and True. left: gets those that stay, and why."""
    functions: Dict[str, Any] = {}
    found = {}
    for op in view.ops("If"):
        if not functions:
            functions = _compat.functions_by_name(view.graph)
        branches = [functions[op.get_attr(name).name] for name in ("else_branch", "then_branch")]
        if not _is_read(op) or not any(_UPDATE.fullmatch(node.op) for branch in branches for node in branch.node_def):
            continue
        why = _why_not_this(op) or _why_not([[node.op for node in branch.node_def] for branch in branches])
        if not why:
            found[op] = branches
        elif left is not None:
            left.append((op.name, why))
    return found


def _is_read(op: tf.Operation) -> bool:
    return bool(GraphView.control_outputs(op)) or any(output.consumers() for output in op.outputs)


def _found_v1(view: GraphView, left: Optional[List[Tuple[str, str]]] = None) -> List[v1_conditions.Branch]:
    """Branches of v1 tf.conds whose updates run. left: gets those that stay, and why."""
    found = []
    for branch in v1_conditions.branches(view.graph):
        if not _count_updates(branch.ops) or executed_ops(view).isdisjoint(branch.ops):
            continue
        why = _why_not([[op.type for op in branch.ops], branch.other_types])
        if not why:
            found.append(branch)
        elif left is not None:
            left.append((branch.name, why))
    return found


def _count_updates(ops: Iterable[tf.Operation]) -> int:
    return sum(bool(_UPDATE.fullmatch(op.type)) for op in ops)


def _why_not_this(op: tf.Operation) -> str:
    """Why the updates of this If stay there, whatever its branches do."""
    if op.inputs[0].dtype != tf.bool or not op.outputs:
        return "its condition is no bool, or it has no result"
    return ""


def _why_not(types: List[List[str]]) -> str:
    """Why updates stay in the branches of a tf.cond that have ops of these types; "" if they need not."""
    more = [t for side in types for t in side if not (_LITTLE.fullmatch(t) or _UPDATE.fullmatch(t))]
    if more:
        return f"beside updates it computes {more[0]}, which is left out with them; compute outside of the tf.cond what it updates by"
    return ""


def _inline(view: GraphView, op: tf.Operation, branches: List[Any]) -> int:
    """Returns the number of updates."""
    with view.inserting(op.device, op.control_inputs):
        sides = tf.raw_ops.Switch(data=op.inputs[0], pred=op.inputs[0], name=f"tf_booster/{op.name}/switch")
    results, updates = [], 0
    for branch, pred in zip(branches, sides):
        with view.inserting(op.device):
            pivot = tf.identity(pred, name=f"tf_booster/{op.name}/pivot").op
        conditions.note(pivot)
        call = _compat.FunctionCall(branch, list(op.inputs)[1:], f"tf_booster/{op.name}")
        ((ops, outputs, needed),) = _compat.import_functions(view.graph, [call])
        stateful = [each for each in ops if each.op_def.is_stateful]
        for each in stateful:
            add_control_input(each, pivot)
        updates += _count_updates(stateful)
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
