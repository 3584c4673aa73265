"""Rules for this library's ops that serve many lookups at once: of some of them the ids may be of repeated features, of others not.

Such an op is made anew with the few rows for the lookups of repeated features; of the others it gives the same as before.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

import tensorflow as tf

from tf_booster.passes.row_kinds import (
    BATCH_ROWS,
    Indices,
    MixesCodes,
    Moved,
    NotByRow,
    Part,
    Probed,
    Renamed,
    Rows,
)
from tf_booster.passes.row_rules import rank_of
from tf_booster.passes.row_sizes import is_batch_shape


@dataclasses.dataclass
class Lanes:
    """kinds: of the outputs. outside: places of inputs that are read as they were. refused: why lookups of repeated features are left."""

    kinds: List[Any]
    outside: Set[int]
    refused: List[str]


def lanes_of(op: tf.Operation, given: Sequence[Optional[Any]]) -> Optional[Lanes]:
    """What `op` gives when it is made anew; None if no lookup of it is of repeated features. given: None for what is of no feature."""
    return _RULES[op.type](op, given)


def _of_gather(op: tf.Operation, given: Sequence[Any]) -> Optional[Lanes]:
    first = op.get_attr("N")
    return _by_lane(len(op.outputs), first, lambda i: given[first + i], lambda i: rank_of(op.inputs[first + i]))


def _by_lane(count: int, first: int, kind_of: Callable[[int], Any], rank: Callable[[int], int]) -> Optional[Lanes]:
    """Lanes with one input and one output, whose rows are those of the input."""
    found = Lanes([], set(), [])
    for i in range(count):
        kind = kind_of(i)
        if isinstance(kind, Rows) and rank(i) > 0:
            found.kinds.append(kind)
        else:
            found.kinds.append(Moved())
            found.outside.add(first + i)
    return found if any(isinstance(kind, Rows) for kind in found.kinds) else None


def _of_table_probe(op: tf.Operation, given: Sequence[Any]) -> Optional[Lanes]:
    count = op.get_attr("N")
    found = _by_lane(count, 1, lambda i: given[1 + i], lambda i: 1)
    if found is None:
        return None
    for i, kind in enumerate(found.kinds):
        found.kinds[i] = Renamed(op.name) if isinstance(kind, Moved) else dataclasses.replace(kind, coded=op.name)
    found.kinds += [Probed(op.name)] * 4
    return found


def _of_table_gather(op: tf.Operation, given: Sequence[Any]) -> Optional[Lanes]:
    count = op.get_attr("N")
    probe = next((kind.probe for kind in given[count + 1 :] if isinstance(kind, Probed)), None)
    codes = given[1 : count + 1]
    named = {getattr(kind, "coded", "") or getattr(kind, "probe", "") for kind in codes}
    if probe is None:
        if named - {""}:
            raise MixesCodes((named - {""}).pop())
        return None
    if named != {probe} or any(kind != Probed(probe) for kind in given[count + 1 :]):
        raise MixesCodes(probe)
    kinds = [dataclasses.replace(kind, coded="") if isinstance(kind, Rows) else Moved() for kind in codes]
    return Lanes(kinds, set(), [])


def _of_prepare(op: tf.Operation, given: Sequence[Any]) -> Optional[Lanes]:
    count = op.get_attr("N")
    lists = [count, *(op.get_attr(f"num_{name}") for name in ("sparse", "shapes", "weights"))]
    first = [sum(lists[:i]) for i in range(4)]
    found = Lanes([], set(), [])
    lanes = []
    for i in range(count):
        places = [first[which] + i for which in range(4) if lists[which]]
        kinds = dict(zip([which for which in range(4) if lists[which]], (given[place] for place in places)))
        lane = _NOTHING
        try:
            lane = _prepared(op, i, kinds)
        except NotByRow as error:
            found.refused.append(f"lookup {i} of '{op.name}': {error}")
        if lane is _NOTHING:
            found.outside.update(places)
        lanes.append(lane)
    if all(lane is _NOTHING for lane in lanes):
        return None if not found.refused else found
    filled = 1 if op.get_attr("fill_rows") else 0
    for part in ["ids", "idx", "splits", *["flags"] * filled, *["weights"] * bool(lists[3])]:
        found.kinds += [lane[part] for lane in lanes]
    return found


_NOTHING = {part: Moved() for part in ("ids", "idx", "splits", "flags", "weights")}


def _prepared(op: tf.Operation, i: int, kinds: Dict[int, Any]) -> Dict[str, Any]:
    values = kinds[0]
    if isinstance(values, Renamed):
        return {**_NOTHING, "ids": values}
    if not isinstance(values, Rows):
        return _NOTHING
    leading, of = op.get_attr("leading_dims")[i], (op.name, i)
    if 1 not in kinds:  # Of a dense feature.
        if dataclasses.replace(values, coded="") != BATCH_ROWS:
            raise NotByRow("its ids are not rows of the batch")
        dims = op.inputs[i].shape.as_list()[1:leading] if rank_of(op.inputs[i]) >= leading else [None]
        times = None if None in dims else math.prod(dims)
    else:
        indices, shape = kinds[1], kinds.get(2)
        entries = dataclasses.replace(values, coded="")
        if not isinstance(indices, Indices) or indices.entries != entries:
            raise NotByRow("its ids and their places are not of one feature")
        if not op.get_attr("fill_rows"):
            raise NotByRow("rows without ids at the batch's end are left out (safe_embedding_lookup_sparse keeps them)")
        if not is_batch_shape(shape):
            raise NotByRow("its dense shape is not understood")
        if 3 in kinds and kinds[3] != entries:
            raise NotByRow("its weights are not of the same feature")
        sizes = [size.times for size in shape.elements[1:leading]]
        times = None if None in sizes else math.prod(sizes)
    ids = Rows(("ids", of), 1, values.coded)
    return {
        "ids": ids,
        "idx": Part("idx", of),
        "splits": Part("splits", of, times),
        "flags": Rows(times=times),
        "weights": Part("weights", of),
    }


def _of_pooling(op: tf.Operation, given: Sequence[Any]) -> Optional[Lanes]:
    count, zeroed, weights = (op.get_attr(name) for name in ("N", "num_zeroed", "num_weights"))
    found = Lanes([], set(), [])
    for i in range(count):
        places = [i, count + i, 2 * count + i]
        places += [3 * count + i] * bool(zeroed) + [3 * count + zeroed + i] * bool(weights)
        rows, idx, splits, *rest = (given[place] for place in places)
        kind: Any = Moved()
        if isinstance(rows, Rows) and isinstance(rows.base, tuple) and rows.base[0] == "ids":
            of = rows.base[1]
            times = getattr(splits, "times", None)
            wanted = [Rows(times=times)] * bool(zeroed) + [Part("weights", of)] * bool(weights)
            if idx == Part("idx", of) and splits == Part("splits", of, times) and rest == wanted and rows.times == 1:
                kind = Rows(times=times)
            else:
                found.refused.append(f"lookup {i} of '{op.name}': its rows and places are not of one lookup")
        if isinstance(kind, Moved):
            found.outside.update(places)
        found.kinds.append(kind)
    if all(isinstance(kind, Moved) for kind in found.kinds):
        return None if not found.refused else found
    return found


_RULES: Dict[str, Callable[..., Optional[Lanes]]] = {
    "TfBoosterMultiGather": _of_gather,
    "TfBoosterPartitionedGather": _of_gather,
    "TfBoosterPoolLookups": _of_pooling,
    "TfBoosterPrepareLookups": _of_prepare,
    "TfBoosterTableGather": _of_table_gather,
    "TfBoosterTableProbe": _of_table_probe,
}

LANE_TYPES = frozenset(_RULES)
