"""Which ops of a training step may run a step ahead: what depends on the input alone, and on rows of tables if they may be stale.

An op of the step belongs to one of three parts. **Common** ops do not depend on the input and have no state that a step changes:
constants, handles of tables. The **embedding graph** depends on the input and on common ops alone. The rest is the **main graph**.
docs/design/embedding_pipeline.md tells why this is exact.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import List, Sequence, Set

import tensorflow as tf

from tf_booster import _compat
from tf_booster.parallel import collectives
from tf_booster.passes.graph_view import GraphView, is_marked_for_compilation
from tf_booster.passes.sources import Sources

SOURCE = "IteratorGetNext"
PROBES = ("TfBoosterTableProbe", "TfBoosterTableRoute")
GATHERS = ("TfBoosterTableGather", "TfBoosterTableServe", "TfBoosterTableServeRows")

# Handles that a step does not change, as far as their consumers are of _READERS.
_LOOKUP_HANDLE = re.compile(r"HashTable(V2)?|Mutable(Dense)?HashTable(OfTensors)?(V2)?")
_HANDLES = re.compile(rf"TfBoosterHashTable|TfBoosterTableField|{_LOOKUP_HANDLE.pattern}")
_VARIABLE = re.compile(r"VarHandleOp|VariableV2|Variable|TfBoosterStandIn\w*")
_LOOKUP_TABLE = re.compile(r"LookupTable(Find|Size)(V2)?|TfBoosterVocabularyIds")
# What else may be done with a lookup table that a step does not change: making it, saving and restoring it.
_KEEPS_LOOKUP_TABLE = re.compile(r"LookupTable(Find|Size|Export|Import)(V2)?|InitializeTable\w*|TfBooster\w*")
# Reads that only a later step's update would change: a probe's answers may be old, and are checked where they are used.
_PROBING = re.compile("|".join(PROBES))
_GATHERING = re.compile("|".join(GATHERS))
_DATASET = re.compile(r"\w*Dataset\w*")
_CHECKS = re.compile(r"Assert|CheckNumerics(V2)?")
# Around the collectives of tables: what keeps them, and counts how far they are.
_AROUND_COLLECTIVES = re.compile(r"TfBooster(Pin|CollectiveMark|TableExpand|TableMerge)")
_CONTROL_FLOW = re.compile(r"(Ref)?(Switch|Merge|Enter|Exit|NextIteration)|LoopCond|_SwitchN")
# What Grappler may rewrite together with its readers, with other last bits: it stays with them unless a lookup needs it.
_ARITHMETIC = re.compile(
    r"Add(V2|N)?|Sub|Mul(NoNan)?|(Real|Floor|Trunc)?Div(NoNan)?|Xdivy|Neg|Reciprocal|Inv|Square|SquaredDifference|Sqrt|Rsqrt|Pow"
    r"|Log(1p)?|Exp(m1)?|Tanh|Sigmoid|Sum|Mean|Prod|Max|Min|(Batch)?MatMul\w*|BiasAdd|Conv\w*|Relu\w*|Softmax|LogSoftmax|Einsum"
)


def is_input(op: tf.Operation, source: tf.Operation) -> bool:
    """Whether `op` gives tensors of the input: `source`, or what makes SparseTensors of its variants, as tf.data has them."""
    return op is source or any(tensor.op is source and tensor.dtype == tf.variant for tensor in op.inputs)


class CannotSplit(Exception):
    """Why a graph is left whole; `node` is the op that it is about."""

    def __init__(self, node: str, reason: str):
        super().__init__(reason)
        self.node, self.reason = node, reason


@dataclasses.dataclass
class EmbeddingGraph:
    """The plan of a split.

    source: the IteratorGetNext.
    ops: the embedding graph with the source, in the order in which they were made.
    crossing: tensors of `ops` that ops outside of it read, and all of the input's.
    ends: ops of `ops` that are waited for from outside, or that nothing reads, like an assertion.
    """

    source: tf.Operation
    ops: List[tf.Operation]
    crossing: List[tf.Tensor]
    ends: List[tf.Operation]


def plan(view: GraphView, order: Sequence[int], stale_rows: bool) -> EmbeddingGraph:
    """Finds the embedding graph of a step.

    Args:
      order: numbers of the ops that a step runs, each after what is before it.
      stale_rows: whether rows of tables may be read before the step before has updated them.

    Raises:
      CannotSplit: the step has no single input, a lookup cannot run ahead, or nothing would.
    """
    index = view.index()
    ops = [index.ops[number] for number in order]
    source = _source(view, ops)
    parts = _Parts(view, source, stale_rows)
    for number in order:
        parts.sort(number)
    lookups = [op for op in ops if op.type in PROBES]
    needed = index.upstream(lookups)
    for op in lookups:
        if index.number[op] not in parts.ahead:
            raise _refusal(view, parts, op)
    ahead = parts.ahead if stale_rows else _without_arithmetic(view, order, parts.ahead, needed)
    # As they were made: the same on all ranks, where the order in which fetches lead to them need not be.
    inside = [index.ops[number] for number in sorted(ahead | _sparse_inputs(view, source))]
    return _ends(view, source, inside)


class _Parts:
    """Sorts the ops of a step, in their order."""

    def __init__(self, view: GraphView, source: tf.Operation, stale_rows: bool):
        self._view, self._stale_rows = view, stale_rows
        self._index = view.index()
        self._sources = Sources(view.graph)
        self._source = self._index.number[source]
        self.common: Set[int] = set()
        self.ahead: Set[int] = {self._source}
        self._is_changed = functools.lru_cache(maxsize=None)(_is_changed)

    def sort(self, number: int) -> None:
        """Puts an op into its part; those before it are in theirs."""
        if number == self._source:
            return
        before = self._index.before[number]
        if all(b in self.common or b in self.ahead for b in before) and self.may_run_ahead(self._index.ops[number]):
            (self.ahead if any(b in self.ahead for b in before) else self.common).add(number)

    def may_run_ahead(self, op: tf.Operation) -> bool:
        """Whether `op` gives the same answer a step earlier, whatever that step changes, if its inputs do."""
        if _compat.in_control_flow(op) or _CONTROL_FLOW.fullmatch(op.type):
            return False
        if any(tensor.dtype != tensor.dtype.base_dtype for tensor in op.outputs):
            return False  # A reference Variable.
        if op.type == "PlaceholderWithDefault":
            return False  # A feed is for the step that it is given to.
        if _HANDLES.fullmatch(op.type):
            return not self._is_changed(op)
        if _PROBING.fullmatch(op.type) or (self._stale_rows and _GATHERING.fullmatch(op.type)):
            return True
        if any(tensor.dtype == tf.resource for tensor in op.inputs) or any(
            tensor.dtype in (tf.resource, tf.variant) for tensor in op.outputs
        ):
            return bool(_LOOKUP_TABLE.fullmatch(op.type))
        if collectives.is_collective(op):
            return collectives.kind_of(op) == "tables"
        if self._sources.is_source(op):
            return False
        if not _compat.is_stateful(op.type) or _compat.calls_functions(op.type):
            return True
        return bool(_CHECKS.fullmatch(op.type) or _AROUND_COLLECTIVES.fullmatch(op.type))


def _source(view: GraphView, ops: Sequence[tf.Operation]) -> tf.Operation:
    found = [op for op in ops if op.type == SOURCE]
    if not found:
        fed = next(
            (op for op in ops if op.type.startswith("Placeholder") and op.type != "PlaceholderWithDefault"), None
        )
        if fed is not None:
            raise CannotSplit(
                fed.name, "the input is fed, and there is no feed for a step ahead; use a tf.data.Dataset"
            )
        raise CannotSplit("the graph", "the step reads no tf.data iterator, so there is nothing to read ahead")
    if len(found) > 1:
        raise CannotSplit(
            found[1].name, "the step reads several iterators; zip their datasets, and one step ahead is one element"
        )
    source = found[0]
    if any(tensor.dtype == tf.resource for tensor in source.outputs):
        raise CannotSplit(source.name, "the input has resources, which cannot cross in a queue")
    if source.control_inputs:
        raise CannotSplit(
            source.name, f"the input waits for '{source.control_inputs[0].name}', which is a part of the step"
        )
    iterator = source.inputs[0]
    if iterator.op.inputs:
        raise CannotSplit(
            source.name, "which iterator the input is read from is decided in each step (a feedable iterator)"
        )
    for op in iterator.consumers():
        if op.type in ("SerializeIterator", "DeserializeIterator"):
            raise CannotSplit(
                op.name, "the program saves its input iterator, which would be a batch ahead of the model"
            )
        if op is not source and "GetNext" in op.type and _may_run(op):
            raise CannotSplit(op.name, "two ops read the input's iterator, and which batch each gets would change")
    _check_datasets(view, iterator)
    # A strategy of tf.distribute writes the one process of a plain program on each op.
    if any("/job:" in op.device and "/job:localhost/" not in op.device for op in ops):
        raise CannotSplit(source.name, "the graph is placed on several processes")
    return source


def _check_datasets(view: GraphView, iterator: tf.Tensor) -> None:
    """Refuses datasets that read what a step may change, and an iterator that may be read by its handle."""
    made = [op for op in iterator.consumers() if op.type == "MakeIterator"]
    index = view.index()
    for number in index.upstream(made):
        op = index.ops[number]
        if _VARIABLE.fullmatch(op.type):
            raise CannotSplit(op.name, "the input's dataset reads a Variable, which a step may change")
        # What its own functions insert, they do in the order of the input, whoever asks.
        if _LOOKUP_HANDLE.fullmatch(op.type) and _is_changed(op, _DATASET):
            raise CannotSplit(op.name, "the input's dataset looks up in a table into which a step may insert")
    by_handle = index.of_types([op_type for op_type in index.types() if op_type.startswith("IteratorFromStringHandle")])
    if by_handle:
        raise CannotSplit(by_handle[0].name, "the input's iterator may be read by its handle, too")


def _is_changed(handle: tf.Operation, kept_by: re.Pattern = _KEEPS_LOOKUP_TABLE) -> bool:
    """Whether an op of the graph may insert into TensorFlow's lookup table `handle`; those of `kept_by` do not."""
    readers = [op for tensor in handle.outputs for op in tensor.consumers()]
    return not all(_KEEPS_LOOKUP_TABLE.fullmatch(op.type) or kept_by.fullmatch(op.type) for op in readers)


def _may_run(op: tf.Operation) -> bool:
    """Not so: what was divided over ranks, which cannot be fetched any more and is read by nobody."""
    read = any(tensor.consumers() for tensor in op.outputs) or _compat.control_outputs(op)
    return bool(read) or op.graph.is_fetchable(op)


def _without_arithmetic(view: GraphView, order: Sequence[int], ahead: Set[int], needed: Set[int]) -> Set[int]:
    """`ahead` without what computes with floats for the main graph, and what follows from that."""
    index = view.index()
    left: Set[int] = set()
    for number in order:
        if number not in ahead:
            continue
        op = index.ops[number]
        floats = any(tensor.dtype.is_floating for tensor in op.outputs)
        if number not in needed and (
            any(b in left for b in index.before[number])
            or (floats and bool(_ARITHMETIC.fullmatch(op.type)))
            or is_marked_for_compilation(op)
        ):
            left.add(number)
    return ahead - left


def _ends(view: GraphView, source: tf.Operation, inside: List[tf.Operation]) -> EmbeddingGraph:
    members = set(inside)
    crossing, ends = [], []
    for op in inside:
        read = False
        for tensor in op.outputs:
            readers = tensor.consumers()
            read = read or bool(readers)
            outside = [reader for reader in readers if reader not in members]
            if tensor.dtype == tf.variant:
                unknown = next(filter(_may_run, outside), None)
                if unknown is not None:
                    raise CannotSplit(
                        unknown.name, "the input has variants that are no SparseTensors, which cannot cross in a queue"
                    )
            elif outside or is_input(op, source):
                crossing.append(tensor)
        waiting = view.control_outputs(op)
        if op is not source and (any(w not in members for w in waiting) or not (read or waiting)):
            ends.append(op)
    return EmbeddingGraph(source, inside, crossing, ends)


def _sparse_inputs(view: GraphView, source: tf.Operation) -> Set[int]:
    """The ops that make SparseTensors of the input's variants. All of them: a hook may fetch one that the step does not read."""
    variants = [tensor for tensor in source.outputs if tensor.dtype == tf.variant]
    readers = [op for tensor in variants for op in tensor.consumers() if op.type == "DeserializeSparse"]
    return {view.index().number[op] for op in readers if not (op.control_inputs or _compat.in_control_flow(op))}


def _refusal(view: GraphView, parts: _Parts, lookup: tf.Operation) -> CannotSplit:
    """Names the op that keeps a lookup from running ahead."""
    index = view.index()
    number, blocker = index.number[lookup], lookup
    while True:
        before = [b for b in index.before[number] if b not in parts.common and b not in parts.ahead]
        if not before:
            break
        number = before[0]
        blocker = index.ops[number]
    if number == index.number[lookup]:
        if all(b in parts.common for b in index.before[number]):
            return CannotSplit(lookup.name, "the ids of this lookup do not come from the input")
        return CannotSplit(lookup.name, "the lookup stands inside of control flow")
    what = f"the ids of lookup '{lookup.name}' depend on '{blocker.name}' ({blocker.type}), "
    if blocker.type in GATHERS:
        return CannotSplit(blocker.name, what + "an embedding, whose value is known when the step before has ended")
    if _compat.in_control_flow(blocker) or _CONTROL_FLOW.fullmatch(blocker.type):
        return CannotSplit(blocker.name, what + "which is control flow")
    if any(tensor.dtype == tf.resource for tensor in [*blocker.inputs, *blocker.outputs]):
        return CannotSplit(blocker.name, what + "which a step may change")
    return CannotSplit(blocker.name, what + "which must run when its step runs, and not ahead of it")
