"""Sorts the ops of a step into the parts that people think in: input, lookups, dense part, gradients, updates."""

from __future__ import annotations

import functools
import re
from typing import Dict, Iterable, List, Sequence, Set, Tuple

from tf_booster.passes.fetches import UPDATE
from tf_booster.passes.graph_index import GraphIndex

ROLES = ("input", "lookups", "dense part", "gradients", "updates")

_LOOKUP = re.compile(
    r"ResourceGather\w*|Unique\w*|SparseSegment(?!\w*Grad)\w*|Segment(Sum|Mean|Max|Min|Prod)|SparseFillEmptyRows|SparseTensorDenseMatMul"
    r"|TfBooster(?!\w*(Grad|Apply|MatMul))\w*"
)
_SOURCE = re.compile(r"Placeholder\w*|\w*GetNext\w*|\w*Dequeue\w*|(Eager)?PyFunc\w*|Reader\w*")
_VARIABLE = ("VarHandleOp", "VariableV2", "TfBoosterHashTable")


@functools.cache
def _kind(op_type: str) -> Tuple[bool, bool, bool, bool]:
    """Whether ops of this type bring data, are Variables, write to Variables, look up."""
    matches = [bool(pattern.fullmatch(op_type)) for pattern in (_SOURCE, UPDATE, _LOOKUP)]
    return matches[0], op_type in _VARIABLE, matches[1], matches[2]


def roles(index: GraphIndex, order: Sequence[int], forward: Set[int]) -> List[str]:
    """The role of each op in `order`.

    Args:
      order: numbers of the ops that run, each after what is before it.
      forward: the numbers of those that the loss or the predictions need. Empty where these are not known: then what gradients
        (by their names) need, and are not, is taken.
    """
    forward = forward or _needed_by_gradients(index, order)
    from_data: Dict[int, bool] = {}
    from_variable: Dict[int, bool] = {}
    role: Dict[int, str] = {}
    of_inputs: List[int] = []  # Constants and Variables belong where they are used.
    for number in order:
        op_type, before = index.ops[number].type, index.before[number]
        is_source, is_variable, is_update, is_lookup = _kind(op_type)
        from_data[number] = is_source or any(from_data.get(b) for b in before)
        from_variable[number] = is_variable or any(from_variable.get(b) for b in before)
        if is_update or (op_type == "NoOp" and any(role.get(b) == "updates" for b in before)):
            role[number] = "updates"
        elif not from_data[number] or is_variable:
            of_inputs.append(number)
        elif forward and number not in forward:
            role[number] = "gradients"
        elif is_lookup:
            role[number] = "lookups"
        else:
            role[number] = "dense part" if from_variable[number] else "input"
    _follow_first_reader(index, order, of_inputs, role)
    return [role[number] for number in order]


def _needed_by_gradients(index: GraphIndex, order: Sequence[int]) -> Set[int]:
    gradients = {number for number in order if "gradients" in index.ops[number].name}
    found: Set[int] = set()
    for number in reversed(order):
        if number in gradients or number in found:
            found.update(index.before[number])
    return found - gradients


def _follow_first_reader(index: GraphIndex, order: Sequence[int], left: Iterable[int], role: Dict[int, str]) -> None:
    waiting = set(left)
    place = {name: i for i, name in enumerate(ROLES)}
    best: Dict[int, str] = {}
    for number in reversed(order):
        if number in waiting:
            role[number] = best.get(number, "dense part")
        for other in index.before[number]:
            if other in waiting and place[role[number]] < place.get(best.get(other, ""), len(ROLES)):
                best[other] = role[number]
