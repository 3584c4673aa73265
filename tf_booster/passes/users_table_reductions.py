"""Takes the program's own Horovod out of the way of a table's gradient, which the tables' exchange sums over ranks.

hvd.DistributedOptimizer gathers the slices of all ranks inside of a tf.cond. Of a table these are codes, which mean nothing on another rank.
"""

from __future__ import annotations

from typing import List, Sequence, Tuple

import tensorflow as tf

from tf_booster.parallel.raw_gradients import RawGradient, raw_gradients
from tf_booster.passes.graph_view import GraphView, update_input
from tf_booster.passes.sources import called_functions
from tf_booster.passes.table_plan import STAND_IN_IDS

_GATHERS = ("HorovodAllgather", "HorovodAllreduce")


def leave_out(view: GraphView) -> List[Tuple[str, str]]:
    """Makes what reads such a reduction of a table's gradient read the gradient. Returns pairs of an op and what was done."""
    functions = view.functions_with(*_GATHERS)
    done: List[Tuple[str, str]] = []
    for mark in raw_gradients(view.graph) if functions else ():
        if not isinstance(mark.gradient, tf.IndexedSlices) or not _is_of_table(view, mark):
            continue
        slices = (mark.gradient.values, mark.gradient.indices)
        for op in dict.fromkeys(mark.gradient.values.consumers()):
            if functions.keys().isdisjoint(called_functions(op)) or not any(t is slices[1] for t in op.inputs):
                continue
            outputs = [next(t for t in op.outputs if t.dtype == own.dtype) for own in slices]
            for output, own in zip(outputs, slices):
                view.redirect(output, own)
            _cut_off(view, op, slices)
            done.append(
                (op.name, "sums a table's gradient over ranks, which the tables' exchange does; it is left out")
            )
    return done


def _cut_off(view: GraphView, op: tf.Operation, slices: Sequence[tf.Tensor]) -> None:
    """Gives an op that nothing reads any more no rows, so that nobody finds a table's codes there."""
    with view.inserting(None):
        nothing = [tf.zeros([0, *tensor.shape[1:]], tensor.dtype) for tensor in slices]
    for index, tensor in enumerate(op.inputs):
        for own, empty in zip(slices, nothing):
            if tensor is own:
                update_input(op, index, empty)


def _is_of_table(view: GraphView, mark: RawGradient) -> bool:
    index = view.index()
    upstream = index.upstream([mark.gradient.indices.op])
    return any(index.number[op] in upstream for op in view.ops(STAND_IN_IDS))
