"""Whether anybody can see in which order a Unique gives its values.

Two kinds of tensors depend on the order: rows (the first dimension is that of the distinct values, in their order) and
places (idx, which names rows). Ops that pair both, or that treat each row by itself, do not show the order. What is left after
following them is what could.
"""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, Dict, FrozenSet, List, Optional, Set, Tuple

import tensorflow as tf

from tf_booster.passes.matching import uniform_value
from tf_booster.passes.shape_tricks import keeps_shape

ROWS, PLACES = "rows", "places"

_SHAPES = ("Shape", "Size", "Rank")
_MOVES = ("Identity", "StopGradient", "Cast")
_UNARY = ("Neg", "Square", "Sqrt", "Rsqrt", "ZerosLike", "OnesLike", "Abs", "Sign")
_BINARY = ("Mul", "RealDiv", "AddV2", "Add", "Sub", "Maximum", "Minimum", "Pow", "DivNoNan", "SquaredDifference")
_REDUCTIONS = ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
_UPDATES = ("ResourceSparseApply", "ResourceScatter", "SparseApply", "ScatterAdd", "ScatterSub", "ScatterUpdate")

Kinds = Dict[int, str]
Made = List[Tuple[tf.Tensor, str]]


@dataclasses.dataclass(frozen=True)
class Readers:
    """Who reads the outputs of a Unique.

    seen_by: an op that may see their order; None if there is none.
    hidden: the direct readers behind which the order is lost. Behind the others there is nothing but tensors that nobody reads, which
      somebody may fetch: they must go on reading the old op.
    """

    seen_by: Optional[tf.Operation]
    hidden: FrozenSet[tf.Operation]


def readers_of(unique: tf.Operation, replaced: AbstractSet[str] = frozenset()) -> Readers:
    """Follows y and idx of `unique`, and counts, if it has them; ops whose names are in `replaced` have fused ones in their place, and only run if fetched."""
    known = {tensor.ref(): kind for tensor, kind in zip(unique.outputs, (ROWS, PLACES, ROWS))}
    made: Dict[tf.Operation, List[tf.Tensor]] = {}
    work = list(unique.outputs)
    waiting: Dict[tf.Operation, None] = {}
    while work:
        for op in dict.fromkeys(work.pop().consumers()):
            inputs = {i: known[t.ref()] for i, t in enumerate(op.inputs) if t.ref() in known}
            found = _follow(op, inputs)
            if found is None:
                waiting[op] = None
                continue
            waiting.pop(op, None)
            made[op] = [output for output, _ in found]
            for output, kind in found:
                if output.ref() not in known:
                    known[output.ref()] = kind
                    work.append(output)
    if waiting:
        return Readers(next(iter(waiting)), frozenset())
    ends: Dict[tf.Operation, FrozenSet[str]] = {}
    direct = dict.fromkeys(op for tensor in unique.outputs for op in tensor.consumers())
    for op in made:
        if not made[op]:
            ends[op] = (
                frozenset() if op.type in _SHAPES else frozenset([_FETCHABLE if op.name in replaced else _HIDDEN])
            )
    shown = next((op for op in direct if len(_ends(op, made, ends)) == 2), None)
    hidden = [op for op in direct if _HIDDEN in _ends(op, made, ends)]
    # Who reads only the size may read it from either op, and should not keep the old one running.
    return Readers(shown, frozenset([*hidden, *(op for op in direct if not ends[op])] if hidden else []))


_HIDDEN, _FETCHABLE = "hidden", "fetchable"


def _ends(op: tf.Operation, made: Dict[tf.Operation, List[tf.Tensor]], known: Dict) -> FrozenSet[str]:
    """How the ways from `op` end: in an op that hides the order, in a tensor that nobody reads but may be fetched, or both."""
    if op not in known:
        found: Set[str] = set()
        for output in made[op]:
            consumers = dict.fromkeys(output.consumers())
            if not consumers:
                found.add(_FETCHABLE)
            for consumer in consumers:
                found |= _ends(consumer, made, known)
        known[op] = frozenset(found)
    return known[op]


def _follow(op: tf.Operation, inputs: Kinds) -> Optional[Made]:
    """What of `op`'s outputs depends on the order; None if `op` may see the order, or cannot be judged yet."""
    if op.type in _SHAPES:
        return []
    if op.type in _MOVES or keeps_shape(op):
        return [(op.outputs[0], inputs[0])] if list(inputs) == [0] else None
    if op.type in _UNARY:
        return [(op.outputs[0], ROWS)] if inputs == {0: ROWS} else None
    if op.type in _BINARY:
        paired = all(i in inputs and inputs[i] == ROWS or t.shape.rank == 0 for i, t in enumerate(op.inputs))
        return [(op.outputs[0], ROWS)] if paired else None
    if op.type in ("Gather", "GatherV2", "ResourceGather"):
        return _gather(op, inputs)
    if op.type in _REDUCTIONS:
        return [] if inputs == {0: ROWS, 1: PLACES} else None
    if op.type.startswith(_REDUCTIONS) and op.type.endswith("Grad"):
        return [(op.outputs[0], ROWS)] if inputs == {1: PLACES} else None
    if op.type.startswith("UnsortedSegment"):
        return [(op.outputs[0], ROWS)] if inputs == {1: PLACES} else None
    if op.type.startswith(_UPDATES):
        names = [arg.name for arg in op.op_def.input_arg]
        wanted = {names.index("indices"): ROWS, names.index("grad" if "grad" in names else "updates"): ROWS}
        return [] if inputs == wanted else None
    if op.type in ("TfBoosterMultiGather", "TfBoosterPartitionedGather"):
        first = op.get_attr("N")
        ok = all(i >= first and kind == ROWS for i, kind in inputs.items())
        return [(op.outputs[i - first], ROWS) for i in inputs] if ok else None
    return None


def _gather(op: tf.Operation, inputs: Kinds) -> Optional[Made]:
    if op.type == "GatherV2" and (uniform_value(op.inputs[2]) != 0.0 or op.get_attr("batch_dims") != 0):
        return None
    if inputs == {0: ROWS, 1: PLACES}:
        return []
    return [(op.outputs[0], ROWS)] if inputs == {1: ROWS} else None
