"""Has the reads that every step of a split graph does come before its writes."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes.fetches import executed, restores
from tf_booster.passes.graph_view import GraphView, add_control_input, is_marked_for_compilation, variable_handle_op
from tf_booster.passes.sources import Sources
from tf_booster.passes.unordered_reads import unordered_reads

# TensorFlow keeps the tensor by which its hooks read the counter of steps, in every step, in this collection.
_GLOBAL_STEP_READ = "global_step_read_op_cache"


def reads_before_writes(view: GraphView, fetched: Sequence[str], batch: tf.Operation) -> List[tf.Operation]:
    """Those reads of a step that must come before it takes its batch, so that none of its writes comes first.

    The counter of steps is ordered here: what counts waits for all its reads, of which programs and hooks fetch one in every step. They
    copy a number each. Reads of anything else that nobody but a hook may fetch are the driver's: a step that does not fetch them
    must not do them.

    Args:
      fetched: names of the ops that a step fetches.
      batch: the op that takes its input.
    """
    counter, reads = _global_step(view)
    order = executed(view, [*fetched, *(op.name for op in reads)])
    index = view.index()
    found = unordered_reads(index, order, batch, Sources(view.graph))
    steps_own = set(executed(view, fetched))
    initial = view.upstream_of_initializers() if reads else ()
    for read in reads:
        if index.number[read] in found.harmless:
            for writer in found.writers.get(index.number[counter], ()):
                # What is known of the fetches may be that nothing reads them, as Savers' ops.
                if writer not in initial and not restores(index.ops[writer]):
                    add_control_input(index.ops[writer], read)
    first = [index.ops[number] for number in found.unordered if number in steps_own and number not in found.of_branches]
    # An op that XLA compiles with its readers cannot end before the batch that these need is there.
    return [op for op in first if not (_compat.in_control_flow(op) or is_marked_for_compilation(op))]


def _global_step(view: GraphView) -> Tuple[Optional[tf.Operation], List[tf.Operation]]:
    """The handle of the counter of steps and what reads it; None and nothing where there is none."""
    counter = variable_handle_op(tf.compat.v1.train.get_global_step(view.graph))
    if counter is None:
        return None, []
    known = [tensor.op for tensor in view.graph.get_collection(_GLOBAL_STEP_READ)]
    reads = [op for op in counter.outputs[0].consumers() if op.type == "ReadVariableOp"]
    return counter, [op for op in (*known, *reads) if not _compat.in_control_flow(op)]
