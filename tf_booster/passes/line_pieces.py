"""What functions of one line make of its pieces: splits, slices, numbers; of many lines one op, TfBoosterSplitLines, makes it.

Nothing is made of a piece before it is known what becomes of it: an op that only says which pieces is none any more.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Collection, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np
import tensorflow as tf

from tf_booster.passes.dataset_functions import rename

SPLITS = ("StringSplit", "StringSplitV2")

_ALL = int(np.iinfo(np.int64).max)


class NotOfLines(Exception):
    """Why what is made of pieces of a line cannot be made of many lines at once."""


@dataclasses.dataclass(frozen=True)
class Span:
    """Elements of a vector whose length each line decides, as a slice of Python has them."""

    begin: int = 0
    end: Optional[int] = None

    def of(self, inner: Span) -> Span:
        """The elements `inner` of these. Raises NotOfLines where their places depend on how many there are."""
        if self == Span():
            return inner
        ends_alike = self.end is None or (self.end >= 0 and inner.end is not None and inner.end >= 0)
        if self.begin < 0 or inner.begin < 0 or not ends_alike:
            raise NotOfLines("a slice of a slice that counts from the end")
        end = inner.end if inner.end is None or inner.end < 0 else self.begin + inner.end
        return Span(self.begin + inner.begin, end if self.end is None else min(self.end, end))


@dataclasses.dataclass(frozen=True)
class Range:
    """Pieces that the split `split` makes of a line, strings or numbers of type `dtype`.

    part: (j, g) for part j of g equal ones that each piece is split into once more; (j, 0) for the part j alone; None: whole pieces.
    """

    split: str
    span: Span = Span()
    dtype: tf.DType = tf.string
    part: Optional[Tuple[int, int]] = None


@dataclasses.dataclass(frozen=True)
class Pieces:
    """A tensor of one line: what `span` takes of `range`, or its element there. size: how many elements there have to be."""

    range: Range
    span: Span = Span()
    indexed: bool = False
    size: Optional[int] = None

    @property
    def is_matrix(self) -> bool:
        """Whether it has the parts of pieces as rows."""
        return self.range.part is not None and self.range.part[1] > 0

    @property
    def shape(self) -> Tuple[Optional[int], ...]:
        """Its shape; None for what lines decide. Of a matrix that has to have a size: that."""
        if self.indexed:
            return ()
        return (None, None) if self.is_matrix and self.size is None else (self.size,)


@dataclasses.dataclass(frozen=True)
class SplitPart:
    """ "indices", "values" or "shape" of the SparseTensor of the split `node`. of: what it splits once more; None for a line."""

    node: str
    part: str
    of: Optional[Pieces] = None


@dataclasses.dataclass(frozen=True)
class Count:
    """How many elements `of`, a vector, has."""

    of: Pieces
    dtype: tf.DType


Lazy = Union[Pieces, SplitPart]


@dataclasses.dataclass
class _Op:
    """One TfBoosterSplitLines: what the split of one tensor becomes. outer: delimiter, and what becomes of empty pieces; inner: the same, of pieces.

    padded: of outputs that are padded, the tensor that they are padded with.
    """

    line: str
    outer: Tuple[bytes, bytes]
    inner: Optional[Tuple[bytes, bytes]] = None
    outputs: List[Union[Pieces, Count]] = dataclasses.field(default_factory=list)
    padded: Dict[Pieces, str] = dataclasses.field(default_factory=dict)


class LinePieces:
    """The pieces of lines in one function, and the ops that make what is wanted of them."""

    def __init__(self) -> None:
        self._ops: Dict[str, _Op] = {}
        self._renamed: Dict[str, str] = {}

    def split(self, node: Any, tensor: str, line: str, of: Optional[Pieces], delimiter: np.ndarray) -> Lazy:
        """What the split `node` gives as `tensor`. of: the pieces that it splits once more; None: of the tensor `line`."""
        how = _splitting(node, delimiter)
        part = tensor.split(":")[1]
        if of is None:
            self._ops.setdefault(node.name, _Op(line, how))
            return Pieces(Range(node.name)) if part == "values" else SplitPart(node.name, part)
        if of.range.part is not None or of.range.dtype != tf.string or of.indexed:
            raise NotOfLines("parts of pieces are split again")
        op = self._ops[of.range.split]
        if op.inner not in (None, how):
            raise NotOfLines("pieces are split in two ways")
        op.inner = how
        return SplitPart(node.name, part, of)

    def made(self, tensor: str, kind: Any) -> Tuple[Optional[int], ...]:
        """Has an op make `tensor`, of that kind. Returns its shape for one line; None for what all lines of a batch share, or what is padded."""
        if not isinstance(kind, Pieces):
            raise NotOfLines("the SparseTensor of a split is used")
        self._renamed[tensor] = self.output(kind)
        return kind.shape

    def output(self, kind: Union[Pieces, Count]) -> str:
        """The tensor of an op that is of that kind."""
        split = kind.of.range.split if isinstance(kind, Count) else kind.range.split
        outputs = self._ops[split].outputs
        if kind not in outputs:
            outputs.append(kind)
        return f"{_name(split)}:values:{outputs.index(kind)}"

    def pad(self, pieces: Pieces, padding: str) -> None:
        """Has lines that have fewer `pieces` than others be padded with the tensor `padding`."""
        self._ops[pieces.range.split].padded[pieces] = padding

    def nodes(self) -> List[Any]:
        """The ops, as NodeDefs."""
        return [_node(_name(split), op) for split, op in self._ops.items() if op.outputs]

    def rename(self, definition: Any) -> None:
        """Has the readers of what the ops make, and the results, read it from them."""
        rename(definition, self._renamed)


def _name(split: str) -> str:
    return f"{split}_of_lines"


def _splitting(node: Any, delimiter: np.ndarray) -> Tuple[bytes, bytes]:
    if delimiter.size != 1 or (node.op == "StringSplitV2" and node.attr["maxsplit"].i != -1):
        raise NotOfLines("not all of a line is split at one delimiter")
    text = delimiter.item()
    if len(text) > 1 or (not text and node.op == "StringSplit"):
        raise NotOfLines(f"it is split at {text!r}")
    if node.op == "StringSplitV2":
        return text, b"kept"
    return text, b"skipped" if node.attr["skip_empty"].b else b"kept in texts"


def _node(name: str, op: _Op) -> Any:
    padded = [op.padded[output] for output in op.outputs if output in op.padded]
    node = tf.compat.v1.NodeDef(name=name, op="TfBoosterSplitLines", input=[op.line, *padded])
    pieces = [output.of if isinstance(output, Count) else output for output in op.outputs]
    ranges = list(dict.fromkeys(of.range for of in pieces))
    # Next to each other where they are the same pieces, which then are split into parts once.
    ranges.sort(key=lambda of: (of.span.begin, _end(of.span), of.part is not None))
    node.attr["delimiter"].s, node.attr["empty"].s = op.outer
    node.attr["inner_delimiter"].s, node.attr["inner_empty"].s = op.inner or (b"", b"kept")
    for attr, dtypes in {
        "T": [output.dtype if isinstance(output, Count) else output.range.dtype for output in op.outputs],
        "P": [output.range.dtype for output in op.outputs if output in op.padded],
        "range_types": [of.dtype for of in ranges],
    }.items():
        node.attr[attr].list.type.extend(dtype.as_datatype_enum for dtype in dtypes)
    for attr, values in {
        "range_begins": [of.span.begin for of in ranges],
        "range_ends": [_end(of.span) for of in ranges],
        "range_parts": [of.part[0] if of.part else 0 for of in ranges],
        "range_counts": [of.part[1] if of.part else -1 for of in ranges],
        "ranges": [ranges.index(of.range) for of in pieces],
        "begins": [of.span.begin for of in pieces],
        "ends": [_end(of.span) for of in pieces],
        "sizes": [-1 if of.size is None else of.size for of in pieces],
    }.items():
        node.attr[attr].list.i.extend(values)
    node.attr["gives"].list.s.extend(_gives(output, op.padded) for output in op.outputs)
    return node


def _gives(output: Union[Pieces, Count], padded: Collection[Pieces]) -> bytes:
    if isinstance(output, Count):
        return b"count"
    return b"padded" if output in padded else b"element" if output.indexed else b"slice"


def _end(span: Span) -> int:
    return _ALL if span.end is None else span.end


def to_numbers(pieces: Pieces, dtype: tf.DType) -> Pieces:
    """What StringToNumber makes of them."""
    of = pieces.range
    if of.part is not None or not pieces.indexed:
        taken = of if of.part is not None else dataclasses.replace(of, span=pieces.span)
        return Pieces(dataclasses.replace(taken, dtype=dtype), size=pieces.size)
    # One piece alone: the others of the range need not be numbers.
    at = pieces.span.begin
    one = Span(at, None if at == -1 else at + 1)
    return Pieces(dataclasses.replace(of, span=one, dtype=dtype), indexed=True)


def reshaped(values: SplitPart, shape: SplitPart) -> Pieces:
    """The parts of pieces as a matrix."""
    if values.of is None or (values.part, shape) != ("values", dataclasses.replace(values, part="shape")):
        raise NotOfLines("what a split gives is put together anew")
    of = values.of
    return Pieces(dataclasses.replace(of.range, span=of.span, part=(0, 1)))


def sliced(pieces: Pieces, index: Sequence[Any]) -> Pieces:
    """pieces[index], of slices and integers. Raises NotOfLines where it is neither one slice, nor one element, nor one part of all."""
    if pieces.is_matrix:
        if pieces.range.part != (0, 1) or len(index) != 2 or index[0] != slice(None) or not _is_place(index[1]):
            raise NotOfLines("more than one column of the parts of pieces is taken")
        return Pieces(dataclasses.replace(pieces.range, part=(index[1], 0)))
    if len(index) != 1 or pieces.indexed or pieces.size is not None:
        raise NotOfLines("a slice of more dimensions than one")
    _check_whole(pieces)
    (taken,) = index
    if isinstance(taken, int):
        span = pieces.span.of(Span(taken, taken + 1 if taken >= 0 else None))
        if span.end is not None and span.begin >= span.end:
            raise NotOfLines("an element behind the end of a slice")
        return dataclasses.replace(pieces, span=Span(span.begin), indexed=True)
    if not isinstance(taken, slice) or taken.step is not None:
        raise NotOfLines("a slice with steps")
    return dataclasses.replace(pieces, span=pieces.span.of(Span(taken.start or 0, taken.stop)))


def _check_whole(pieces: Pieces) -> None:
    """Some parts of pieces could not be read as numbers without the others."""
    if pieces.range.part is not None and pieces.range.dtype == tf.string:
        raise NotOfLines("some of the parts of pieces are taken")


def _is_place(index: Any) -> bool:
    return isinstance(index, int) and index >= 0


def split_by_sizes(pieces: Pieces, sizes: Sequence[int]) -> List[Pieces]:
    """The slices that SplitV makes of a vector, of which one may take what the others leave (-1)."""
    if pieces.is_matrix or pieces.indexed or pieces.size is not None:
        raise NotOfLines("it splits more dimensions than one")
    _check_whole(pieces)
    at = [sum(sizes[:i]) for i in range(len(sizes))]
    rest = sizes.index(-1) if -1 in sizes else None
    found = []
    for i, size in enumerate(sizes):
        if rest is None or i < rest:
            span, wanted = Span(at[i], at[i] + size), size
        else:
            behind = sum(sizes[i + 1 :])
            span = Span(at[i] if i == rest else -behind - size, -behind or None)
            wanted = None if i == rest else size
        found.append(dataclasses.replace(pieces, span=pieces.span.of(span), size=wanted))
    return found
