"""Sorts the ops of a step into the parts that people think in: input, lookups, dense part, gradients, updates."""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, Sequence, Set

from tf_booster.passes.fetches import UPDATE
from tf_booster.passes.graph_index import GraphIndex

ROLES = ("input", "lookups", "dense part", "gradients", "updates")

_LOOKUP = re.compile(
    r"ResourceGather\w*|Unique\w*|SparseSegment(?!\w*Grad)\w*|Segment(Sum|Mean|Max|Min|Prod)|SparseFillEmptyRows|SparseTensorDenseMatMul"
    r"|TfBooster(?!\w*(Grad|Apply|MatMul))\w*"
)
_SOURCE = re.compile(r"Placeholder\w*|\w*GetNext\w*|\w*Dequeue\w*|(Eager)?PyFunc\w*|Reader\w*")
_VARIABLE = ("VarHandleOp", "VariableV2", "TfBoosterHashTable")


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
        op, before = index.ops[number], index.before[number]
        op_type = op.type
        from_data[number] = any(from_data.get(b) for b in before) or bool(_SOURCE.fullmatch(op_type))
        from_variable[number] = any(from_variable.get(b) for b in before) or op_type in _VARIABLE
        if UPDATE.fullmatch(op_type) or (op_type == "NoOp" and any(role.get(b) == "updates" for b in before)):
            role[number] = "updates"
        elif not from_data[number] or op_type in _VARIABLE:
            of_inputs.append(number)
        elif forward and number not in forward:
            role[number] = "gradients"
        elif _LOOKUP.fullmatch(op_type):
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
