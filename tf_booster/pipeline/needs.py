"""What a run of a program needs of a split graph: of its two halves, and of the program's own ops that the embedding graph was copied from."""

from __future__ import annotations

import re
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes.embedding_graph import is_input
from tf_booster.passes.fetches import UPDATE, in_order
from tf_booster.passes.graph_index import GraphIndex
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.sources import Sources
from tf_booster.passes.unordered_reads import unordered_reads
from tf_booster.pipeline.split import Split

_CHANGE_NOTHING = ("VarHandleOp", "VariableV2", "ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "HashTableV2",
                   "LookupTableFindV2", "LookupTableSizeV2", "TfBoosterHashTable", "TfBoosterMultiGather",
                   "TfBoosterPartitionedGather")  # fmt: skip

# For other ranks, or for threads that fill a queue; TensorFlow cancels what waits when a step fails.
_MAY_WAIT = re.compile(r"Horovod|TfBoosterHost|Collective|_?Recv|\w*(Dequeue|Unstage|TakeMany|Barrier)")


class ByHand(NamedTuple):
    """How a run is served that asks for something else than a step as it is split: by the program's own ops.

    inputs: numbers, in `crossing`, of the input's tensors that it needs. takes_batch: whether it takes a batch, for them or to wait for it.
    computed: numbers of other tensors that cross. checks: the program's ops that it waits for, such as assertions on the input.
    """

    inputs: List[int]
    takes_batch: bool
    computed: List[int]
    checks: List[tf.Operation]


class Run(NamedTuple):
    """What a program asks for, in terms of the split graph.

    feeds: name of a tensor that is fed -> what is fed in its place. by_hand: of a run that cannot be a step as it is split.
    first: what must be computed before the run, because it comes of reads that the run's writes do not wait for. after_first: the run that is fed
    with that. prepared: kept for who runs it.
    """

    targets: List[tf.Operation]
    fetches: List[tf.Tensor]
    feeds: Dict[str, List[tf.Tensor]]
    takes_batch: bool
    resets_input: bool
    by_hand: Optional[ByHand]
    first: List[tf.Tensor]
    after_first: Optional[Run]
    prepared: Dict[str, Any]

    def fed(self, feeds: Any) -> Dict[Any, Any]:
        """`feeds`, by references to tensors, with what is fed in their place."""
        if not self.feeds:
            return feeds
        return {t.ref(): value for ref, value in feeds.items() for t in self.feeds.get(ref.deref().name, [ref.deref()])}


class Needs:
    """Of the runs of one session on one split graph; knows those that it has seen."""

    def __init__(self, graph: tf.Graph, split: Split):
        self._graph, self._split = graph, split
        self._known: Dict[Any, Run] = {}
        self._lock = threading.Lock()
        self._version = -1
        self._index = GraphIndex(graph)
        self._sources = Sources(graph)
        self._behind_batch: Set[tf.Operation] = set()
        self._behind_reset: Set[tf.Operation] = set()
        self._behind_send: Set[tf.Operation] = set()
        self.own = [graph.get_tensor_by_name(name) for name in split.crossing]
        self._number = {value.name: number for number, value in enumerate(split.crossing.values())}
        self._originals = _originals(graph, split)

    def of(self, targets: Sequence[tf.Operation], fetches: Sequence[tf.Tensor], fed: Tuple[tf.Tensor, ...]) -> Run:
        """A run of `targets` and `fetches` that is given the tensors `fed`."""
        key = (tuple(targets), tuple(tensor.name for tensor in fetches), tuple(tensor.name for tensor in fed))
        found = self._known.get(key) if self._version == self._graph.version else None
        if found is None:
            with self._lock:  # Threads that share the session.
                if self._version != self._graph.version:
                    self._look_at_graph()
                found = self._known[key] = self._examine(targets, fetches, fed)
        return found

    def writes(self, run: Run) -> bool:
        """Whether the run may change the model."""
        ops = _upstream([*run.targets, *(tensor.op for tensor in run.fetches)])
        return any(
            UPDATE.fullmatch(op.type) or (_compat.calls_functions(op.type) and _compat.is_stateful(op.type))
            for op in ops
        )

    def without_batch(self, run: Run) -> List[tf.Operation]:
        """What the run changes or draws that no batch decides, which TensorFlow has begun by the time that it finds the input at its end."""
        fed = {tensor.name for inner in run.feeds.values() for tensor in inner}
        ops = _upstream([*run.targets, *(tensor.op for tensor in run.fetches)], fed) - self._behind_batch
        may_wait = GraphView.downstream(op for op in ops if _MAY_WAIT.match(op.type))
        return [
            op for op in ops - may_wait
            if _compat.is_stateful(op.type) and op.type not in _CHANGE_NOTHING and not _compat.in_control_flow(op)
        ]  # fmt: skip

    def by_hand(self, run: Run) -> ByHand:
        """How to serve the run from the batch, and from what the program's own ops compute from it."""
        barrier = {tensor.name for inner in run.feeds.values() for tensor in inner}
        numbers: Set[int] = set()
        checks: List[tf.Operation] = []
        seen: Set[tf.Operation] = set()
        stack: List[tf.Operation] = []
        takes_batch = False

        def see(tensor: tf.Tensor) -> None:
            number = self._number.get(tensor.name)
            if tensor.name in barrier:
                return
            if number is None:
                stack.append(tensor.op)
            elif number not in numbers:
                numbers.add(number)
                if not self._is_input(number):
                    stack.append(self.own[number].op)

        for tensor in run.fetches:
            see(tensor)
        stack.extend(run.targets)
        while stack:
            op = stack.pop()
            if op in seen:
                continue
            seen.add(op)
            if op is self._split.dequeue:
                takes_batch = True  # It is asked for itself.
                continue
            for tensor in op.inputs:
                see(tensor)
            for before in op.control_inputs:
                if before is not self._split.whole:
                    stack.append(before)
                    continue
                for own in self._split.waited[op.name]:
                    if own is self._split.source:
                        takes_batch = True
                    elif own not in seen:
                        checks.append(own)
                        stack.append(own)
        inputs = sorted(filter(self._is_input, numbers))
        return ByHand(inputs, takes_batch or bool(inputs), sorted(numbers.difference(inputs)), checks)

    def _is_input(self, number: int) -> bool:
        return is_input(self.own[number].op, self._split.source)

    def _look_at_graph(self) -> None:
        self._behind_batch = GraphView.downstream([self._split.dequeue])
        self._behind_send = GraphView.downstream([self._split.enqueue])
        self._behind_reset = GraphView.downstream(self._split.resets)
        self._known.clear()
        self._version = self._graph.version

    def _examine(
        self, targets: Sequence[tf.Operation], fetches: Sequence[tf.Tensor], given: Tuple[tf.Tensor, ...]
    ) -> Run:
        split = self._split
        targets = [self._originals.get(op, op) for op in targets]
        fetches, fed = list(map(self._original, fetches)), tuple(map(self._original, given))
        in_place = {tensor.name: self._in_place(own) for tensor, own in zip(given, fed)}
        mapped_targets = [split.dequeue if op is split.source else op for op in targets]
        mapped_fetches = [split.crossing.get(tensor.name, tensor) for tensor in fetches]
        ends = [*mapped_targets, *(tensor.op for tensor in mapped_fetches)]
        if any(op in self._behind_send for op in ends):
            raise RuntimeError(
                f"a run asks for '{split.enqueue.name}', which the embedding pipeline runs itself: the batch would be one that no "
                "step takes, and the next one would wait for room for ever; fetch the train op alone, or use "
                "enable_gpu_booster(pipeline='off')"
            )
        if fed:
            barrier = {t.name for inner in in_place.values() for t in inner}
            takes = split.dequeue in _upstream(ends, barrier)
        else:
            takes = any(op in self._behind_batch for op in ends)
        resets = any(op in self._behind_reset for op in ends)
        first = self._first(ends, mapped_fetches, fed) if takes else []
        run = Run(mapped_targets, mapped_fetches, in_place, takes, resets, None, [], None, {})
        if takes and any(tensor.name in split.ahead for tensor in fed):
            run = run._replace(by_hand=self.by_hand(run))
        if not first:
            return run
        others = [tensor for tensor in mapped_fetches if all(tensor is not early for early in first)]
        return run._replace(first=first, after_first=run._replace(fetches=others), prepared={})

    def _first(
        self, ends: Sequence[tf.Operation], fetches: Sequence[tf.Tensor], fed: Tuple[tf.Tensor, ...]
    ) -> List[tf.Tensor]:
        index = self._index.refresh()
        order = in_order([index.number[op] for op in ends], index.before)
        reads = unordered_reads(index, order, self._split.dequeue, self._sources)
        if not reads.unordered:
            return []
        members = set(reads.unordered)
        for number in order:
            if number in reads.harmless and members.intersection(index.before[number]):
                members.add(number)
        # What is computed from the reads alone is a scalar more often than they are: the text of a summary.
        members.difference_update(reads.of_branches)
        members = {index.ops[number] for number in members if _may_be_fetched(index.ops[number])}
        wanted = [
            *fetches,
            *(t for number in order if index.ops[number] not in members for t in index.ops[number].inputs),
        ]
        given = {tensor.name for tensor in fed}
        found = {t.name: t for t in wanted if t.op in members and t.name not in given}
        return list(found.values())

    def _original(self, tensor: tf.Tensor) -> tf.Tensor:
        op = self._originals.get(tensor.op)
        return tensor if op is None else op.outputs[tensor.value_index]

    def _in_place(self, tensor: tf.Tensor) -> List[tf.Tensor]:
        crossing = self._split.crossing.get(tensor.name)
        if crossing is None:
            return [tensor]
        # The program's own ops read each other, and all ops read of the input what has crossed.
        return [crossing] if tensor.op is self._split.source else [crossing, tensor]


def _originals(graph: tf.Graph, split: Split) -> Dict[tf.Operation, tf.Operation]:
    """Copy of which the embedding graph is made -> the program's own op. Who looks through the graph's ops finds both: what a copy has is of a
    step to come, and to fetch it would take a batch that no step gets."""
    scope = split.enqueue.name.rsplit("/", 1)[0] + "/"
    copies = [op for op in _upstream([split.enqueue]) if op.name.startswith(scope) and op is not split.enqueue]
    return {copy: graph.get_operation_by_name(copy.name[len(scope) :]) for copy in copies}


def _may_be_fetched(op: tf.Operation) -> bool:
    if _compat.in_control_flow(op) or not op.graph.is_fetchable(op):
        return False
    return not any(t.dtype in (tf.resource, tf.variant) or t.dtype != t.dtype.base_dtype for t in op.outputs)


def _upstream(ends: Sequence[tf.Operation], fed: Any = ()) -> Set[tf.Operation]:
    """`ends` and what they need when the tensors named `fed` are given."""
    stack: List[tf.Operation] = list(ends)
    seen: Set[tf.Operation] = set()
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        stack.extend(tensor.op for tensor in op.inputs if tensor.name not in fed)
        stack.extend(op.control_inputs)
    return seen
