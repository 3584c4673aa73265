"""Which reads of Variables and tables a step does before, beside or after it writes them, as it happens.

TensorFlow's whole graph has time for every read that needs no input while it waits for its batch, so it reads what was there before
the step. A main graph that has its batch at once may write first. docs/design/embedding_pipeline.md tells what is done about it.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Callable, Dict, List, Optional, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster.passes.fetches import UPDATE
from tf_booster.passes.graph_index import GraphIndex
from tf_booster.passes.sources import Sources

# What hands a Variable's handle on.
_PASSES_ON = ("Identity", "Switch", "Enter", "RefSwitch", "RefEnter", "RefIdentity", "TfBoosterTableField")
# They say nothing of a value, so Grappler may replace them by constants, and what is before them with them.
_OF_SHAPES = ("Shape", "ShapeN", "Size", "Rank", "ZerosLike", "OnesLike", "VariableShape", "BroadcastGradientArgs")
_OF_NO_VALUE = ("VarIsInitializedOp", "IsVariableInitialized", "VariableShape", "DisableCopyOnRead")
_SWITCHES, _MERGES = ("Switch", "RefSwitch"), ("Merge", "RefMerge")


@dataclasses.dataclass(frozen=True)
class Reads:
    """Of one run, all as numbers of a GraphIndex.

    unordered: reads that need no input, of what the run writes by it, for which not every writer waits.
    harmless: ops that give the same whenever they run before the run's writes, as often as they like.
    of_branches: ops that run only if a condition holds: what waits for one does not run, either, where it does not hold.
    writers: for each handle that the run writes, what writes it.
    """

    unordered: List[int]
    harmless: Set[int]
    of_branches: Set[int]
    writers: Dict[int, List[int]]


def unordered_reads(index: GraphIndex, order: Sequence[int], batch: tf.Operation, sources: Sources) -> Reads:
    """Looks at a run of the ops `order`, each after what is before it, which takes its input with `batch`.

    What writes without waiting for the input does so before or after a read as it happens in TensorFlow's graph, too.
    """
    root = functools.lru_cache(maxsize=None)(functools.partial(_root, index))
    harmless: Set[int] = set()
    of_branches: Set[int] = set()
    writers: Dict[int, List[int]] = {}
    reads: List[Tuple[int, List[int]]] = []
    for number in order:
        op = index.ops[number]
        if op.type in _SWITCHES or (op.type not in _MERGES and any(b in of_branches for b in index.before[number])):
            of_branches.add(number)
        if sources.is_source(op) or UPDATE.fullmatch(op.type):
            for handle in _handles(op, root):
                writers.setdefault(handle, []).append(number)
        elif all(before in harmless for before in index.before[number]):
            harmless.add(number)
            handles = _handles(op, root)
            if handles and op.type not in _OF_NO_VALUE and not all(map(_is_handle, op.outputs)):
                reads.append((number, handles))
    reads = [(number, handles) for number, handles in reads if any(handle in writers for handle in handles)]
    waits = _waits(index, order, [index.number[batch], *(number for number, _ in reads)])
    found = []
    for bit, (number, handles) in enumerate(reads, start=1):
        after_batch = [w for handle in handles for w in writers.get(handle, ()) if waits.get(w, 0) & 1]
        if not all(waits[w] >> bit & 1 for w in after_batch):
            found.append(number)
    return Reads(found, harmless, of_branches, writers)


def _waits(index: GraphIndex, order: Sequence[int], on: Sequence[int]) -> Dict[int, int]:
    """For each op on which of the ops `on`, as bits, it waits: for the first one's shapes, too, for values or ends of the others."""
    bits = {number: 1 << bit for bit, number in enumerate(on)}
    waits: Dict[int, int] = {}
    for number in order if len(on) > 1 else ():
        mask = bits.get(number, 0)
        for before in index.before[number]:
            mask |= waits.get(before, 0)
        if mask:
            waits[number] = mask & 1 if index.ops[number].type in _OF_SHAPES else mask
    return waits


def _handles(op: tf.Operation, root: Callable[[tf.Operation], Optional[int]]) -> List[int]:
    """What states `op` is given, by the ops that they come from."""
    found = (root(tensor.op) for tensor in op.inputs if _is_handle(tensor))
    return list(dict.fromkeys(handle for handle in found if handle is not None))


def _is_handle(tensor: tf.Tensor) -> bool:
    return tensor.dtype == tf.resource or tensor.dtype != tensor.dtype.base_dtype  # A reference Variable.


def _root(index: GraphIndex, op: tf.Operation) -> Optional[int]:
    seen = set()
    while op.type in _PASSES_ON and op not in seen:
        seen.add(op)
        op = op.inputs[0].op
    return index.number.get(op)
