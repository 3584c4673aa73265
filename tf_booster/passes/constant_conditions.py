"""The pass that puts the branch in the place of a tf.cond which a constant condition takes at every run.

Programs that say by a number or a flag whether they train, `tf.cond(tf.cast(train, tf.bool), …)`, as batch normalization was written by hand once, have their
layers or their whole training in a tf.cond. TensorFlow takes the branch itself before it runs; but a pass finds ops under a condition, of which none may be merged
with another, or in a function, into which it does not look.
"""

from __future__ import annotations

from typing import Any, Dict, List

import tensorflow as tf

from tf_booster import _compat
from tf_booster.parallel import ranks, raw_gradients
from tf_booster.parallel.collectives import is_horovods
from tf_booster.passes import updates_before_branches
from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.constant_condition import Condition, constant_condition
from tf_booster.passes.constant_switches import constant_switches, take_branches
from tf_booster.passes.graph_view import GraphView, add_control_input, set_device
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.sources import all_called
from tf_booster.passes.whole_table_reads import WholeTableReads


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
    """Of control flow v2. One without results is fetched itself, and stays; so does one in a v1 tf.cond or tf.while_loop, which the branch would leave, and
    one in which other passes look for something: the program's own collectives over several ranks, reads of whole tables; or for which updates run that only
    the other branch reads."""
    found: Dict[tf.Operation, Condition] = {}
    if not view.ops("If", "StatelessIf"):
        return found
    whole_tables, bodies = WholeTableReads(view), _compat.functions_by_name(view.graph)
    for op in view.ops("If", "StatelessIf"):
        is_read = GraphView.control_outputs(op) or any(output.consumers() for output in op.outputs)
        condition = constant_condition(op.inputs[0]) if op.outputs and is_read else None
        if condition is None or _compat.in_control_flow(op):
            continue
        collectives = ranks.horovod_size() > 1 and any(
            is_horovods(node.op) for body in all_called(op, bodies) for node in body.node_def
        )
        branches = _branches(op, bodies)
        if collectives or whole_tables.are_in(op, branches):
            continue
        taken = _reads(branches[condition.value])
        read = [tensor for tensor, is_read in zip(op.inputs[1:], taken) if is_read]
        unread = [tensor for tensor, is_read in zip(op.inputs[1:], taken) if not is_read]
        if not updates_before_branches.lead_to(view, unread, [op.inputs[0], *read]):
            found[op] = condition
    return found


def _reads(branch: Any) -> List[bool]:
    """Of each argument whether the function does anything with it."""
    used = {name.split(":")[0] for node in branch.node_def for name in node.input} | set(branch.ret.values())
    return [argument.name in used for argument in branch.signature.input_arg]


def _branches(op: tf.Operation, functions: Dict[str, Any]) -> List[Any]:
    """What is taken where the condition is False, and where it is True."""
    return [functions[op.get_attr(name).name] for name in ("else_branch", "then_branch")]


def _take_functions(view: GraphView, ifs: Dict[tf.Operation, Condition]) -> None:
    functions = _compat.functions_by_name(view.graph)
    calls = []
    for op, condition in ifs.items():
        branches = _branches(op, functions)
        calls.append(_compat.FunctionCall(branches[condition.value], list(op.inputs)[1:], op.name))
        for branch in branches:
            view.leave_function(branch.signature.name)
    bodies = _compat.import_functions(view.graph, calls)
    taken: Dict[Any, tf.Tensor] = {}
    for (op, condition), body in zip(ifs.items(), bodies):
        # What one branch is given and hands on may be what another one before it gives.
        body = body._replace(results=[taken.get(result.ref(), result) for result in body.results])
        results = _take(view, op, body, [*condition.waits, *op.control_inputs])
        taken.update(zip((output.ref() for output in op.outputs), results))
    # The gradient's function reads what the other one keeps for it, which is nothing in the branch that is not taken.
    for op in (op for body in bodies for op in body.ops):
        kept = skip_identity(op.inputs[0]).op if op.type == "OptionalGetValue" else None
        if kept is not None and kept.type == "OptionalFromValue":
            view.redirect_all(list(zip(op.outputs, kept.inputs)))


def _take(view: GraphView, op: tf.Operation, body: _compat.FunctionBody, waits: List[tf.Operation]) -> List[tf.Tensor]:
    """Has the branch, which is in the graph by now, stand where `op` stood. Returns its results."""
    raw_gradients.note_imported(view.graph, body.ops)
    inside, outputs, needed = set(body.ops), body.results, body.besides
    for each in body.ops:
        if op.device and not each.device:
            set_device(each, op.device)
        if waits and inside.isdisjoint([*each.control_inputs, *(tensor.op for tensor in each.inputs)]):
            for before in waits:
                add_control_input(each, before)
    with view.inserting(op.device, [*waits, *needed]):
        outputs = [tf.identity(t) if needed or (waits and t.op not in inside) else t for t in outputs]
    if GraphView.control_outputs(op):
        with view.inserting(op.device, [*waits, *needed, *(output.op for output in outputs)]):
            view.redirect_control([op], tf.no_op(name=f"tf_booster/{op.name}/done"))
    view.redirect_all(list(zip(op.outputs, outputs)))
    view.cut_off([op])  # Else who follows a tensor would find that it leads into a function.
    return outputs
