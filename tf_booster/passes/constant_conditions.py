"""The pass that puts the branch in the place of a tf.cond which a constant condition takes at every run.

Programs that say by a number or a flag whether they train, `tf.cond(tf.cast(train, tf.bool), …)`, as batch normalization was written by hand once, have their
layers or their whole training in a tf.cond. TensorFlow takes the branch itself before it runs; but a pass finds ops under a condition, of which none may be merged
with another, or in a function, into which it does not look.
"""

from __future__ import annotations

from typing import Any, Dict, List

import tensorflow as tf

from tf_booster import _compat
from tf_booster.parallel import raw_gradients
from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.constant_condition import Condition, constant_condition
from tf_booster.passes.constant_switches import constant_switches, take_branches
from tf_booster.passes.graph_view import GraphView, add_control_input, set_device
from tf_booster.passes.matching import skip_identity


class ConstantConditions(Pass):
    """Has the branch that is always taken run as ops of the graph."""

    name = "constant_conditions"
    seeks = "tf.cond whose condition is a constant"

    def requires(self, view: GraphView) -> bool:
        """Whether there is one."""
        return bool(constant_switches(view) or _constant_ifs(view))

    def run(self, view: GraphView) -> PassResult:
        """Takes those in a branch that is taken, too."""
        result = PassResult(self.name)
        while True:
            switches, ifs = constant_switches(view), _constant_ifs(view)
            if not switches and not ifs:
                return result
            for condition in (*switches.values(), *ifs.values()):
                view.rely_on(condition.tensors)
            names = take_branches(view, switches) if switches else []
            if ifs:
                _take_functions(view, ifs)
            for name in [*names, *(op.name for op in ifs)]:
                result.changes.append(f"'{name}' takes the same branch at every run, which runs without asking")
            result.modified = True

    def ensures(self, view: GraphView) -> None:
        """No op of the graph asks for a condition that is constant."""
        for left in [*constant_switches(view), *_constant_ifs(view)]:
            raise RewriteError(f"The condition of '{left.name}' is constant, and still asked for.")


def _constant_ifs(view: GraphView) -> Dict[tf.Operation, Condition]:
    """Of control flow v2. One without results is fetched itself, and stays; so does one in a v1 tf.cond or tf.while_loop, which the branch would leave."""
    found = {}
    for op in view.ops("If", "StatelessIf"):
        if (
            op.outputs
            and not _compat.in_control_flow(op)
            and (GraphView.control_outputs(op) or any(output.consumers() for output in op.outputs))
        ):
            condition = constant_condition(op.inputs[0])
            if condition is not None:
                found[op] = condition
    return found


def _take_functions(view: GraphView, ifs: Dict[tf.Operation, Condition]) -> None:
    functions = _compat.functions_by_name(view.graph)
    made: List[tf.Operation] = []
    for op, condition in ifs.items():
        branches = [functions[op.get_attr(name).name] for name in ("else_branch", "then_branch")]
        made += _take(view, op, branches[condition.value], [*condition.waits, *op.control_inputs])
        for branch in branches:
            view.leave_function(branch.signature.name)
    # The gradient's function reads what the other one keeps for it, which is nothing in the branch that is not taken.
    for op in made:
        kept = skip_identity(op.inputs[0]).op if op.type == "OptionalGetValue" else None
        if kept is not None and kept.type == "OptionalFromValue":
            view.redirect_all(list(zip(op.outputs, kept.inputs)))


def _take(view: GraphView, op: tf.Operation, branch: Any, waits: List[tf.Operation]) -> List[tf.Operation]:
    """Returns the ops of the branch."""
    ops, outputs, needed = _compat.import_function(view.graph, branch, list(op.inputs)[1:], op.name)
    raw_gradients.note_imported(view.graph, ops)
    inside = set(ops)
    for each in ops:
        if op.device and not each.device:
            set_device(each, op.device)
        if waits and inside.isdisjoint([*each.control_inputs, *(tensor.op for tensor in each.inputs)]):
            for before in waits:
                add_control_input(each, before)
    with view.inserting(op.device, [*waits, *needed]):
        outputs = [tf.identity(t) if needed or (waits and t.op not in inside) else t for t in outputs]
        done = tf.no_op(name=f"tf_booster/{op.name}/done")
    for output in outputs:
        add_control_input(done, output.op)
    view.redirect_all(list(zip(op.outputs, outputs)))
    view.redirect_control([op], done)
    view.cut_off([op])  # Else who follows a tensor would find that it leads into a function.
    return ops
