"""Follows the codes of lookups through a graph.

A StandInIds op gives codes, not ids (see docs/design/tables_in_graphs.md): an op that moves them is fine, an op that
computes with them would compute nonsense. So codes are followed through a list of ops that move values unchanged, up to
the gathers and updates that take them; everything else that takes codes is kept for the caller to refuse.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Callable, Dict, FrozenSet, List, Sequence, Tuple

import numpy as np
import tensorflow as tf

from tf_booster.passes.graph_view import is_superseded
from tf_booster.passes.matching import uniform_value

Inputs = Callable[[tf.Operation], Sequence[int]]


def _at(*indices: int) -> Inputs:
    return lambda op: indices


def _all(op: tf.Operation) -> Sequence[int]:
    return range(len(op.inputs))


def _all_but_last(op: tf.Operation) -> Sequence[int]:
    return range(len(op.inputs) - 1)


def _all_but_first(op: tf.Operation) -> Sequence[int]:
    return range(1, len(op.inputs))


def _last_half(op: tf.Operation) -> Sequence[int]:
    return range(len(op.inputs) // 2, len(op.inputs))


# op type -> (inputs whose values come out, outputs where they come out). Of these inputs each must be codes or zeros: zero
# is the code of "no id". embedding_column, linear_model, sequence columns and gradients of gathers are made of these.
_MOVES: Dict[str, Tuple[Inputs, Inputs]] = {
    "BroadcastTo": (_at(0), _at(0)),
    "Concat": (_all_but_first, _at(0)),
    "ConcatV2": (_all_but_last, _at(0)),
    "DynamicPartition": (_at(0), lambda op: range(len(op.outputs))),
    "DynamicStitch": (_last_half, _at(0)),
    "EnsureShape": (_at(0), _at(0)),
    "ExpandDims": (_at(0), _at(0)),
    "Gather": (_at(0), _at(0)),
    "GatherNd": (_at(0), _at(0)),
    "GatherV2": (_at(0), _at(0)),
    "Identity": (_at(0), _at(0)),
    "Pack": (_all, _at(0)),
    "Pad": (_at(0), _at(0)),
    "PadV2": (_at(0, 2), _at(0)),
    "ParallelDynamicStitch": (_last_half, _at(0)),
    "PreventGradient": (_at(0), _at(0)),
    "Reshape": (_at(0), _at(0)),
    "ReverseSequence": (_at(0), _at(0)),
    "ReverseV2": (_at(0), _at(0)),
    "Select": (_at(1, 2), _at(0)),
    "SelectV2": (_at(1, 2), _at(0)),
    "Slice": (_at(0), _at(0)),
    "Snapshot": (_at(0), _at(0)),
    "SparseFillEmptyRows": (_at(1, 3), _at(1)),
    "SparseReorder": (_at(1), _at(1)),
    "SparseSlice": (_at(1), _at(1)),
    "SparseToDense": (_at(2, 3), _at(0)),
    "Split": (_at(1), lambda op: range(len(op.outputs))),
    "SplitV": (_at(0), lambda op: range(len(op.outputs))),
    "Squeeze": (_at(0), _at(0)),
    "StopGradient": (_at(0), _at(0)),
    "StridedSlice": (_at(0), _at(0)),
    "Tile": (_at(0), _at(0)),
    "Transpose": (_at(0), _at(0)),
    "Unique": (_at(0), _at(0)),
    "UniqueV2": (_at(0), _at(0)),
    "UniqueWithCounts": (_at(0), _at(0)),
    "UniqueWithCountsV2": (_at(0), _at(0)),
    "Unpack": (_at(0), lambda op: range(len(op.outputs))),
}

_READ_ONLY_THE_SHAPE = frozenset(["Shape", "ShapeN", "Size", "Rank", "ZerosLike", "OnesLike", "BroadcastGradientArgs"])


@dataclasses.dataclass(frozen=True)
class Use:
    """Input `index` of `op` is codes."""

    op: tf.Operation
    index: int


class CodeFlow:
    """Where the codes of `stand_ins` (StandInIds ops) go.

    uses: the places where codes arrive and are not just moved on: gathers, updates, and whatever else there is; but not ops that a pass has superseded.
    """

    def __init__(self, stand_ins: Sequence[tf.Operation]):
        self._sources: Dict[object, FrozenSet[tf.Operation]] = {}
        self.uses: List[Use] = []
        self._movers: Dict[tf.Operation, None] = {}
        work = []
        for stand_in in stand_ins:
            self._sources[stand_in.outputs[0].ref()] = frozenset([stand_in])
            work.append(stand_in.outputs[0])
        seen = set()
        while work:
            tensor = work.pop()
            for op in itertools.filterfalse(is_superseded, dict.fromkeys(tensor.consumers())):
                for index in (i for i, t in enumerate(op.inputs) if t is tensor):
                    work.extend(self._arrive(op, index, tensor, seen))
        self.uses.sort(key=lambda use: (use.op.name, use.index))

    def sources(self, tensor: tf.Tensor) -> FrozenSet[tf.Operation]:
        """The StandInIds ops whose codes `tensor` may hold; empty for a tensor that holds none."""
        return self._sources.get(tensor.ref(), frozenset())

    def foreign_inputs(self) -> List[Use]:
        """Inputs that are mixed into codes and are neither codes nor zeros."""
        found = []
        for op in self._movers:
            for index in _MOVES[op.type][0](op):
                if not self.sources(op.inputs[index]) and uniform_value(op.inputs[index]) != 0.0:
                    found.append(Use(op, index))
        return found

    def reaches(self, op: tf.Operation, index: int) -> FrozenSet[tf.Operation]:
        """The ops at the ends of the ways that codes take from input `index` of `op` on."""
        ends, seen, work = set(), set(), [(op, index)]
        while work:
            op, index = work.pop()
            if (op, index) in seen:
                continue
            seen.add((op, index))
            outputs = _moved_to(op, index)
            if not outputs:
                ends.add(op)
            for output in outputs:
                for consumer in dict.fromkeys(output.consumers()):
                    work.extend((consumer, i) for i, t in enumerate(consumer.inputs) if t is output)
        return frozenset(ends)

    def _arrive(self, op: tf.Operation, index: int, tensor: tf.Tensor, seen: set) -> List[tf.Tensor]:
        outputs = _moved_to(op, index)
        if not outputs:
            if (op, index) not in seen and not _is_harmless(op, index):
                self.uses.append(Use(op, index))
            seen.add((op, index))
            return []
        self._movers[op] = None
        grown = []
        for output in outputs:
            before = self.sources(output)
            after = before | self.sources(tensor)
            if after != before:
                self._sources[output.ref()] = after
                grown.append(output)
        return grown


def _moved_to(op: tf.Operation, index: int) -> List[tf.Tensor]:
    inputs, outputs = _MOVES.get(op.type, (_at(), _at()))
    return [op.outputs[i] for i in outputs(op)] if index in inputs(op) else []


def _is_harmless(op: tf.Operation, index: int) -> bool:
    """Reads the shape alone, or compares with a bound that lies below every code: `ids >= 0` is true for ids as for codes."""
    if op.type in _READ_ONLY_THE_SHAPE:
        return True
    if op.type in ("GreaterEqual", "Less", "Greater", "LessEqual", "Equal", "NotEqual") and len(op.inputs) == 2:
        bound = tf.get_static_value(op.inputs[1 - index])
        if bound is None:
            return False
        zero_is_below = (op.type, index) in (("GreaterEqual", 0), ("Less", 0), ("LessEqual", 1), ("Greater", 1))
        return bool(np.all(bound <= 0)) if zero_is_below else bool(np.all(bound < 0))
    return False
