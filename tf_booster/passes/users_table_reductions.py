"""Takes the program's own Horovod out of the way of tables, of which each rank has a part.

hvd.DistributedOptimizer and hvd.allreduce gather the slices of all ranks. Of a table these are codes, which mean nothing on another rank: the
tables' exchange sums them. hvd.BroadcastGlobalVariablesHook gives all ranks the Variables of one, tables too; each rank has restored its
rows, or makes them as the others would.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, List, Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.parallel.collectives import is_users_collective
from tf_booster.parallel.loss_reduction import AVERAGE_OF_RANKS, SUM
from tf_booster.parallel.raw_gradients import RawGradient, raw_gradients
from tf_booster.passes.base import RewriteError
from tf_booster.passes.graph_view import GraphView, update_input
from tf_booster.passes.matching import skip_identity
from tf_booster.passes.sources import all_called, called_functions
from tf_booster.passes.table_plan import STAND_IN_IDS

_GATHER = "HorovodAllgather"
_GATHERS_IN_CALLS = (_GATHER, "HorovodGroupedAllgather")
_REDUCTIONS = (*_GATHERS_IN_CALLS, "HorovodAllreduce")
_BROADCAST = "HorovodBroadcast"
_LEFT_OUT = ("tf_booster", "users_table_reductions")


def were_left_out(graph: tf.Graph) -> bool:
    """Whether the program reduced the gradients of tables itself, before leave_out()."""
    return bool(graph.get_collection(_LEFT_OUT))


def leave_out(view: GraphView) -> Tuple[Optional[str], List[Tuple[str, str]]]:
    """Makes what reads such a reduction of a table's gradient read the gradient.

    Returns whether the program has AVERAGE_OF_RANKS or SUM there, None if it has no such reduction; and pairs of an op and what was done.

    Raises:
      RewriteError: it averages some tables' gradients and sums others'.
    """
    functions = view.functions_with(*_REDUCTIONS)
    kinds: Dict[str, str] = {}
    done: List[Tuple[str, str]] = []
    for mark in raw_gradients(view.graph):
        if not isinstance(mark.gradient, tf.IndexedSlices) or not (functions or view.ops(_GATHER)):
            continue
        if not _is_of_table(view, mark):
            continue
        every_values, every_indices = _passed_on(mark.gradient.values), _passed_on(mark.gradient.indices)
        for op in dict.fromkeys(op for values in every_values for op in values.consumers()):
            values = next(tensor for tensor in op.inputs if any(tensor is other for other in every_values))
            indices = next((tensor for tensor in op.inputs if any(tensor is other for other in every_indices)), None)
            if op.type == _GATHER and is_users_collective(op):
                kind = _leave_out_gathers(view, values, every_indices, op)
            elif _reduces_alone(values, indices, op) and not functions.keys().isdisjoint(called_functions(op)):
                kind = _leave_out_call(view, (values, indices), op)
            else:
                continue
            kinds[kind] = op.name
            view.add_to_collection(_LEFT_OUT, op.name)
            done.append(
                (
                    op.name,
                    f"reduces a table's gradient over ranks ({kind.replace('_', ' ')}), which the tables' exchange does; it is left out",
                )
            )
    if len(kinds) > 1:
        raise RewriteError(
            f"Op '{kinds[SUM]}' sums a table's gradient over ranks, '{kinds[AVERAGE_OF_RANKS]}' averages another's; reduce all tables' gradients alike"
        )
    return next(iter(kinds), None), done


def leave_out_of_one(view: GraphView) -> List[Tuple[str, str]]:
    """leave_out() where Horovod has one rank: what its collectives give is what they are given. Returns pairs of an op and what was done."""
    left: List[tf.Operation] = []
    for op in filter(is_users_collective, view.ops(*_REDUCTIONS, "HorovodGroupedAllreduce")):
        scaled = any(op.node_def.attr[factor].f not in (0, 1) for factor in ("prescale_factor", "postscale_factor"))
        if not scaled and not GraphView.control_outputs(op):
            view.redirect_all(list(zip(op.outputs, op.inputs)))
            left.append(op)
    view.cut_off(left)
    return [(op.name, "has one rank to reduce, beside tables; it is left out") for op in left]


def leave_out_broadcasts(view: GraphView, stand_ins: AbstractSet[tf.Operation]) -> List[Tuple[str, str]]:
    """Cuts off what gives the Variables on `stand_ins`, of tables and of their slots, the values of one rank. Returns pairs of an op and what
    was done."""
    left: List[tf.Operation] = []
    done: List[Tuple[str, str]] = []
    for op in filter(is_users_collective, view.ops(_BROADCAST)):
        read = skip_identity(op.inputs[0]).op
        assigns = op.outputs[0].consumers()
        if read.type != "ReadVariableOp" or read.inputs[0].op not in stand_ins:
            continue
        if any(assign.type != "AssignVariableOp" or assign.inputs[0].op not in stand_ins for assign in assigns):
            continue  # Something else reads it: that is refused, as any read of a whole table.
        left += [op, *assigns, *([read] if all(other is op for other in op.inputs[0].consumers()) else [])]
        done.append((op.name, "gives all ranks one rank's table, of which each has its own rows; it is left out"))
    if left:
        with view.inserting(None):
            nothing = tf.no_op(name="tf_booster/no_broadcast")
        view.redirect_control(left, nothing)
        view.cut_off(left)
    return done


def _passed_on(tensor: tf.Tensor) -> List[tf.Tensor]:
    """It and what Identities make of it, as the gates of compute_gradients do."""
    found = [tensor]
    for each in found:  # Grows.
        found += [op.outputs[0] for op in each.consumers() if op.type == "Identity"]
    return found


def _reduces_alone(values: tf.Tensor, indices: Optional[tf.Tensor], op: tf.Operation) -> bool:
    """Whether a call is given that gradient, and no other one, as a group of them would be."""
    return indices is not None and sum(tensor.dtype == values.dtype for tensor in op.outputs) == 1


def _leave_out_call(view: GraphView, slices: Tuple[tf.Tensor, tf.Tensor], op: tf.Operation) -> str:
    """Of hvd.DistributedOptimizer: in a tf.cond that asks whether there is more than one rank."""
    bodies = all_called(op, _compat.functions_by_name(view.graph))
    gathers = {
        (i, node.name) for i, body in enumerate(bodies) for node in body.node_def if node.op in _GATHERS_IN_CALLS
    }
    averages = any(
        node.op == "RealDiv" and (i, node.input[0].partition(":")[0]) in gathers
        for i, body in enumerate(bodies)
        for node in body.node_def
    )
    for own in slices:
        view.redirect(next(t for t in op.outputs if t.dtype == own.dtype), own)
    _cut_off(view, op, slices)
    return AVERAGE_OF_RANKS if averages else SUM


def _leave_out_gathers(view: GraphView, values: tf.Tensor, every_indices: Sequence[tf.Tensor], op: tf.Operation) -> str:
    """Of hvd.allreduce: the gathered values, which it divides by the number of ranks for an average, and the gathered indices."""
    divisions = [
        each for each in op.outputs[0].consumers() if each.type == "RealDiv" and each.inputs[0] is op.outputs[0]
    ]
    averages = bool(divisions) and len(divisions) == len(op.outputs[0].consumers())
    for gathered in divisions if averages else [op]:
        view.redirect(gathered.outputs[0], values)
    _cut_off(view, op, (values,))
    for indices in every_indices:
        for other in indices.consumers():
            if other.type == _GATHER and is_users_collective(other):
                view.redirect(other.outputs[0], indices)
                _cut_off(view, other, (indices,))
    return AVERAGE_OF_RANKS if averages else SUM


def _cut_off(view: GraphView, op: tf.Operation, slices: Sequence[tf.Tensor]) -> None:
    """Gives an op that nothing reads any more zeros, and no rows if their number is not known, so that nobody finds a table's codes there."""
    with view.inserting(None):
        nothing = [tf.zeros([size or 0 for size in tensor.shape], tensor.dtype) for tensor in slices]
    for index, tensor in enumerate(op.inputs):
        for own, empty in zip(slices, nothing):
            if tensor is own:
                update_input(op, index, empty)


def _is_of_table(view: GraphView, mark: RawGradient) -> bool:
    index = view.index()
    upstream = index.upstream([mark.gradient.indices.op])
    return any(index.number[op] in upstream for op in view.ops(STAND_IN_IDS))
