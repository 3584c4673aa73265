"""Splits a training graph in two, so that the next step's input and lookups run while this step trains.

What the main graph reads of the embedding graph crosses in a queue, all tensors of a batch as one tuple. The embedding graph is made
of copies: the program's own ops stay, and compute from what has crossed, so that a tensor that a hook holds is that of its step.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster import _native
from tf_booster.parallel import collectives, end_together, ranks, row_weights
from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.embedding_graph import GATHERS, PROBES, CannotSplit, EmbeddingGraph, is_input, plan
from tf_booster.passes.fetches import UPDATE, Fetches, executed, fetches_of, updating_calls
from tf_booster.passes.graph_view import GraphView, add_copy
from tf_booster.passes.reads_before_writes import reads_before_writes
from tf_booster.passes.table_placement import HOST
from tf_booster.pipeline import attach
from tf_booster.pipeline import split as splits
from tf_booster.pipeline.split import ASYNC, Split

SCOPE = "tf_booster/pipeline"
_LEFT_WHOLE = "left whole: "
_NOT_COMPUTED = ("Const", "TfBoosterUnpackTensors")
# TensorFlow names the placeholder in the error of a session that nobody feeds it.
_EXPECTED = "call_tf.enable_gpu_booster_before_this_graph_runs"


class EmbeddingPipeline(Pass):
    """One queue between what may run a step ahead and the rest. `mode`: EXACT or ASYNC. on_disk: whether rows of tables may be on a disk."""

    name = "embedding_pipeline"
    seeks = "embedding part to run a step ahead"

    def __init__(self, mode: str, on_disk: bool = False):
        self._mode, self._on_disk = mode, on_disk

    def requires(self, view: GraphView) -> bool:
        return splits.split_of(view.graph) is None and bool(view.graph.get_operations())

    def run(self, view: GraphView) -> PassResult:
        result = PassResult(self.name)
        try:
            if view.graph.get_collection(end_together.PROGRAMS_LOOP):
                raise CannotSplit(
                    "the graph", "a loop of the program's own over several ranks looks itself for the end of its input"
                )
            found = _plan(view, self._mode)
            if not self._on_disk:  # What a lookup waits for there is more than what crosses.
                _check_crosses(view, found)
        except CannotSplit as error:
            result.skipped.append((error.node, _LEFT_WHOLE + error.reason))
            return result
        splits.note(
            view.graph, _split(view, found, self._mode, reads_before_writes(view, step_fetches(view), found.source))
        )
        attach.split_graphs.watch(view.graph)
        result.modified = True
        result.changes.extend(_changes(found, self._mode))
        return result

    def ensures(self, view: GraphView) -> None:
        """The two halves share no op that takes a batch."""
        split = splits.split_of(view.graph)
        if split is None:
            return
        index = view.index()
        if index.number[split.dequeue] in index.upstream([split.enqueue]):
            raise RewriteError("the embedding graph would wait for the main graph")
        if index.number[split.source] in index.upstream(_step_ops(view)):
            raise RewriteError(f"the main graph would take batches from '{split.source.name}' itself")


def step_fetches(view: GraphView, fetches: Optional[Fetches] = None) -> List[str]:
    """Names of the ops that a step of the program fetches, with what the hook that ends all ranks together adds.

    fetches: as they were before the passes, which add ops that write to Variables and run once; None: as they are found now.
    """
    sums = row_weights.summed_row_weights(view.graph)
    return [*(fetches or fetches_of(view)).names, *([] if sums is None else [sums.has_next.op.name])]


def _step_ops(view: GraphView) -> List[tf.Operation]:
    return [view.index().ops[number] for number in executed(view, step_fetches(view))]


def _plan(view: GraphView, mode: str) -> EmbeddingGraph:
    order = executed(view, step_fetches(view))
    index = view.index()
    updating = set(updating_calls(view))
    if not any(UPDATE.fullmatch(index.ops[number].type) or index.ops[number] in updating for number in order):
        raise CannotSplit("the graph", "no step of it writes a Variable; predictions run as they are")
    return plan(view, order, stale_rows=mode == ASYNC)


def _check_crosses(view: GraphView, found: EmbeddingGraph) -> None:
    """Raises CannotSplit where it costs more to send what is computed ahead than it gains."""
    if ranks.current().size == 1 and _is_all_on_card(view, found):
        raise CannotSplit(
            "the graph",
            f"its input is prepared on the GPU, and {len(found.crossing)} tensors would go to the step that waits for them "
            "through the host's memory; prefetch_to_device sends batches ahead instead",
        )


def _is_all_on_card(view: GraphView, found: EmbeddingGraph) -> bool:
    """Whether all that would be computed ahead is computed on a GPU: between ranks more than that is waited for, and strings are prepared on the host."""
    computed = [op for op in found.ops if not is_input(op, found.source) and op.type not in _NOT_COMPUTED]
    return bool(computed) and not any(view.runs_on_cpu(op) for op in computed)


def _split(view: GraphView, found: EmbeddingGraph, mode: str, reads: Sequence[tf.Operation]) -> Split:
    """reads: what the main graph does before it takes its batch."""
    ahead = frozenset(tensor.name for op in found.ops for tensor in op.inputs)
    copies = _copy(view, found)
    queue = f"{SCOPE}/queue"
    with view.inserting(HOST):
        size = _native.ops().tf_booster_batch_queue_size(shared_name=queue, name=f"{SCOPE}/waiting")
        expected = tf.raw_ops.Placeholder(dtype=tf.int32, shape=[], name=f"{SCOPE}/{_EXPECTED}")
        there = tf.constant(1, tf.int32, name=f"{SCOPE}/batch_is_there")
    with view.inserting(HOST, reads):
        dequeued = _native.ops().tf_booster_dequeue_batch(
            sent=expected, T=[tensor.dtype for tensor in found.crossing], shared_name=queue, name=f"{SCOPE}/batch"
        )
    with view.inserting(HOST, [copies[op.name] for op in found.ends]):
        crossing = [copies[tensor.op.name].outputs[tensor.value_index] for tensor in found.crossing]
        sent = _native.ops().tf_booster_enqueue_batch(x=crossing, shared_name=queue, name=f"{SCOPE}/send")
    with view.inserting(HOST):
        # Grappler knows no shapes of what comes out of a queue, and sums and products that it rewrites by shapes would get other last bits.
        values = _native.ops().tf_booster_arrived_batch(
            x=dequeued, shapes=[tensor.shape for tensor in found.crossing], name=f"{SCOPE}/arrived"
        )
    arrived = values[0].op
    waited = _waited_for(view, found)
    whole = arrived
    if waited:
        # An op of its own: who reads `arrived` waits for it in any case, so Grappler would not keep the edge, which a run of both halves needs.
        with view.inserting(HOST, [arrived]):
            whole = _native.ops().tf_booster_whole_batch(name=f"{SCOPE}/whole")
    new = {sent.op, *copies.values()}
    members = set(found.ops)
    of_input, computed = [], []
    for tensor, value in zip(found.crossing, values):
        (of_input if is_input(tensor.op, found.source) else computed).append((tensor, value))
    view.redirect_all(of_input, lambda op: op not in new)
    # The program's ops go on reading each other: only those that nothing but a hook may fetch are left of them.
    view.redirect_all(computed, lambda op: op not in new and op not in members)
    # What waited for an op of the embedding graph waits for the batch: it is sent when all of these have run.
    view.redirect_control(found.ops, whole)
    view.redirect_control([found.source], whole)
    return Split(
        mode=mode,
        enqueue=sent.op,
        dequeue=dequeued[0].op,
        arrived=arrived,
        whole=whole,
        waited=waited,
        size=size,
        expected=expected,
        there=there,
        source=found.source,
        crossing={tensor.name: value for tensor, value in zip(found.crossing, values)},
        ahead=ahead,
        meets_ranks=any(collectives.is_collective(op) for op in found.ops),
        resets=tuple(op for op in found.source.inputs[0].consumers() if op.type == "MakeIterator"),
    )


def _waited_for(view: GraphView, found: EmbeddingGraph) -> Dict[str, Tuple[tf.Operation, ...]]:
    """By the names of the program's ops that wait for the embedding graph: its ops that they wait for."""
    members, waited = set(found.ops), {}
    for op in found.ops:
        for waiting in view.control_outputs(op):
            if op is found.source or waiting not in members:
                waited.setdefault(waiting.name, []).append(op)
    return {name: tuple(ops) for name, ops in waited.items()}


def _copy(view: GraphView, found: EmbeddingGraph) -> Dict[str, tf.Operation]:
    """Copies of the embedding graph's ops by the names of these; what is common to both halves they share."""
    names = {op.name for op in found.ops}
    graph_def = tf.compat.v1.GraphDef()
    graph_def.versions.CopyFrom(view.graph.graph_def_versions)
    shared: Dict[str, tf.Tensor] = {}
    for op in found.ops:
        node = add_copy(graph_def, op)
        if (
            op.type in collectives.HOST_TYPES
        ):  # Known to other ranks by this, and the program's own op may still be fetched.
            node.attr["collective"].s += b"_ahead"
        shared.update((tensor.name, tensor) for tensor in op.inputs if tensor.op.name not in names)
        node.input.extend(tensor.name for tensor in op.inputs)
        node.input.extend("^" + before.name for before in op.control_inputs if before.name in names)
    with view.inserting(None):
        tf.graph_util.import_graph_def(graph_def, input_map=shared, name=SCOPE)
    return {name: view.graph.get_operation_by_name(f"{SCOPE}/{name}") for name in names}


def _changes(found: EmbeddingGraph, mode: str) -> List[str]:
    count = sum(op.type in PROBES for op in found.ops)
    rows = sum(op.type in GATHERS for op in found.ops)
    what = [f"{count} probe{'s' * (count != 1)} of tables"] if count else []
    what += [f"{rows} gather{'s' * (rows != 1)}"] if rows else []
    what.append(f"{len(found.ops)} ops in all")
    told = f"{mode}: the input of the next step ({', '.join(what)}) runs beside a step; {len(found.crossing)} tensors cross"
    if mode != ASYNC:
        return [told]
    return [told, "rows are read up to one step before the last update of them: results differ from run to run"]
