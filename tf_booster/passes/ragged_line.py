"""What tf.strings.split does to have the pieces of one line as a row of a RaggedTensor, and then that row alone: nothing, in the end.

Its ops are followed with what is known of one line: the rows of all its pieces are 0, there is one row, and it ends at the number
of pieces.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Optional, Sequence

import numpy as np

from tf_booster.passes.line_pieces import Pieces, SplitPart


@dataclasses.dataclass(frozen=True)
class OfRow:
    """A tensor by which the pieces that the split `split` makes of a line become a row.

    what: "row ids"; "count", of pieces, or a vector of that one, "counts"; "splits", 0 and the count; "positive", a number of 1 or more; or
    "number".
    """

    split: str
    what: str


def followed(node: Any, inputs: Sequence[Any], index: Optional[Sequence[Any]]) -> Any:
    """What the op is: OfRow, Pieces or, where it is the same for all lines, an array; None where it is none of these.

    Args:
      inputs: what its inputs are; arrays where they are known.
      index: what it takes, if it is a StridedSlice of known bounds.
    """
    first = inputs[0]
    if isinstance(first, SplitPart) and first.of is None:
        if first.part == "indices" and index == [slice(None), 0]:
            return OfRow(first.node, "row ids")
        return np.array(1, np.int64) if first.part == "shape" and index == [0] else None
    if isinstance(first, Pieces):
        return first if node.op == "StridedSlice" and _takes_all(first, inputs[1:], index) else None
    split = next((i.split for i in inputs if isinstance(i, OfRow)), "")
    what = [i.what if isinstance(i, OfRow) else i for i in inputs]
    found = _of_numbers(node, what, index) if split else None
    return OfRow(split, found) if isinstance(found, str) else found


def _takes_all(pieces: Pieces, bounds: Sequence[Any], index: Optional[Sequence[Any]]) -> bool:
    if index is not None:
        return not index
    begin, end, stride = bounds
    known = all(isinstance(i, np.ndarray) for i in (begin, stride))
    return known and begin.tolist() == [0] and stride.tolist() == [1] and end == OfRow(pieces.range.split, "counts")


def _of_numbers(node: Any, what: Sequence[Any], index: Optional[Sequence[Any]]) -> Any:
    first = what[0]
    if node.op == "StridedSlice":
        if first == "splits":
            return np.array([0]) if index == [slice(None, -1)] else "counts" if index == [slice(1, None)] else None
        return "count" if first == "counts" and index == [0] else None
    if node.op in ("Maximum", "Minimum"):
        one, other = (first, what[1]) if isinstance(first, np.ndarray) else (what[1], first)
        if not isinstance(one, np.ndarray) or one.tolist() != 1:
            return None
        return "positive" if node.op == "Maximum" else one if other == "positive" else None
    if node.op in ("DenseBincount", "Bincount"):
        alone = first == "row ids" and isinstance(what[1], np.ndarray) and what[1].tolist() == 1
        binary = node.op == "DenseBincount" and node.attr["binary_output"].b
        unweighted = isinstance(what[2], np.ndarray) and not what[2].size
        return "counts" if alone and unweighted and not binary else None
    if node.op == "Cumsum":
        plain = not node.attr["exclusive"].b and not node.attr["reverse"].b
        return "counts" if plain and first == "counts" else None
    if node.op == "ConcatV2":
        begins = len(what) == 3 and isinstance(first, np.ndarray) and first.tolist() == [0]
        return "splits" if begins and what[1] == "counts" else None
    if node.op == "Pack":
        return "counts" if what == ["count"] else None
    if node.op == "Reshape":
        flat = isinstance(what[1], np.ndarray) and what[1].tolist() == [-1]
        return first if first == "row ids" and flat else None
    if node.op == "Cast":
        return first
    return "number" if node.op in ("Size", "Shape", "Prod", "Greater", "Max", "AddV2", "Mul") else None
