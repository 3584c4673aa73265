"""Lists of different lengths in a function of single records: in a batch they are rows of one tensor, and numbers say how long each is.

Programs make rows of one length of them: `tf.pad(x[:50], [[0, 50 - tf.size(x[:50])]])`. What is computed of lengths on the way there is not
made; the end of it is one op, TfBoosterPadLists.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, Hashable, Iterable, List, Optional, Sequence, Tuple, Union

import numpy as np
import tensorflow as tf

from tf_booster.passes import row_parses, row_sequences
from tf_booster.passes.dataset_functions import DatasetFunction, rename
from tf_booster.passes.function_constants import zero
from tf_booster.passes.line_pieces import Count, LinePieces, Pieces
from tf_booster.passes.record_tensors import Longer, NotByRow, Outside, Row, SparsePart

PADS = ("Pad", "PadV2")
_ALL = np.iinfo(np.int64).max  # As the end of a slice.


@dataclasses.dataclass(frozen=True)
class Length:
    """How many elements the list `of` has: as tf.size gives it, or, with is_shape, as tf.shape does."""

    of: Longer
    dtype: tf.DType
    is_shape: bool = False


@dataclasses.dataclass(frozen=True)
class Shortfall:
    """How many elements a list lacks to have `size`, computed of `length`, the tensor `tensor`.

    clipped: none where it has more. packed: 1 for [0, it], 2 for [[0, it]]. in_front: [it, 0] in place of [0, it].
    """

    length: Length
    tensor: str
    size: int
    clipped: bool = False
    packed: int = 0
    in_front: bool = False


@dataclasses.dataclass(frozen=True)
class AtLeast:
    """The list `of`, the tensor `values`, with `size` elements at least: behind it stands the tensor `padding`."""

    of: Longer
    values: str
    padding: str
    size: int


LAZY = (Length, Shortfall, AtLeast)
Lazy = Union[Length, Shortfall, AtLeast]


class LengthsUnknown(NotByRow):
    """Nothing tells how long lists are that a parse gives dense; parsed as SparseTensors, they are known."""


class RowLists:
    """The lists of one function, and the nodes that are made for them: constant() makes one, too, and says what it gives.

    pads: what the sources of lists are padded with, where they are made.
    """

    def __init__(
        self, function: DatasetFunction, lines: LinePieces, new: List[Any], constant: Callable[[np.ndarray], str]
    ) -> None:
        self._function = function
        self._lines = lines
        self._new = new
        self._constant = constant
        self.pads: Dict[Hashable, np.ndarray] = {}
        self._pieces: Dict[Pieces, None] = {}
        self._renamed: Dict[str, str] = {}
        self._lengths: Dict[Longer, str] = {}
        self._dense: Dict[str, str] = {}
        self._slices: Dict[Tuple[str, int, Optional[int]], Longer] = {}

    def of_pieces(self, pieces: Pieces) -> Longer:
        """The list that `pieces` of a line, which are made, are."""
        self._pieces[pieces] = None
        return Longer(pieces)

    def of_steps(self, found: Longer, parse: Any) -> Longer:
        """`found`, lists of `parse`, a parse of SequenceExamples."""
        self._lengths[Longer(found.source)], dtype = row_sequences.told_of_lists(parse, str(found.source))
        self.pads[found.source] = zero(dtype)
        return found

    def has_lengths(self, of: Longer) -> bool:
        """Whether it can be told how long the lists are."""
        known = isinstance(of.source, Pieces) or Longer(of.source) in self._lengths
        return known or self._sparse_to_dense(of) is not None

    def lengths(self, of: Longer) -> str:
        """The tensor that says of each list how many elements it has. Raises NotByRow where nothing tells."""
        same = dataclasses.replace(of, shape=(), cast=False, computed=False)
        if same not in self._lengths:
            self._lengths[same] = self._made_lengths(same)
        return self._lengths[same]

    def _made_lengths(self, of: Longer) -> str:
        if of.most is not None:
            whole = self.lengths(dataclasses.replace(of, most=None))
            most = self._constant(np.asarray(of.most, np.int64))
            return self._add("Minimum", [whole, most], "z", T=tf.int64)
        if isinstance(of.source, Pieces):
            return self._lines.output(Count(of.source, tf.int64))
        node = self._sparse_to_dense(of)
        if node is None:
            raise LengthsUnknown(f"how long the rows of '{of.source}' are is not known; parse a VarLenFeature")
        return self._add("TfBoosterListLengths", list(node.input[:2]), "lengths")

    def _sparse_to_dense(self, of: Longer) -> Optional[Any]:
        node = self._function.nodes.get(of.source) if isinstance(of.source, str) else None
        return node if node is not None and node.op == "SparseToDense" else None

    def of_values(self, tensor: str, values: SparsePart, dtype: tf.DType) -> Longer:
        """The values of a record's SparseTensor as a list; dense() has its tensor."""
        if tensor not in self._dense:
            indices, shape = self._parts(values.source)
            default = self._constant(zero(dtype))
            made = self._add("SparseToDense", [indices, shape, tensor, default], "dense", T=dtype, Tindices=tf.int64)
            self._dense[tensor] = made
            node = self._new[-1]
            node.attr["validate_indices"].b = False
            self._function.nodes[node.name] = node
        return Longer(self._dense[tensor].split(":")[0])

    def dense(self, tensor: str) -> str:
        """The tensor of lists that `tensor` is, or that of_values() has made of it."""
        return self._dense.get(tensor, tensor)

    def _parts(self, source: str) -> Sequence[str]:
        """Indices and shape of a SparseTensor; source: as SparsePart has it."""
        for node in self._function.of_type("DeserializeSparse"):
            if node.input[0] == source:
                return f"{node.name}:sparse_indices:0", f"{node.name}:sparse_shape:0"
        parse, kind, place = source.split(":")
        return f"{parse}:{kind}_indices:{place}", f"{parse}:{kind}_shapes:{place}"

    def made(self, tensor: str, found: Lazy) -> Row:
        """Has `tensor`, of that kind, be made. Raises NotByRow where it is only known as a part of what is padded."""
        if isinstance(found, Length) and not found.is_shape:
            self._renamed[tensor] = self._length(found)
            return Row(())
        if isinstance(found, Shortfall) and found.packed == 0:
            return self.made(found.tensor, found.length)
        raise NotByRow(f"'{tensor}' depends on the length of a list")

    def _length(self, found: Length) -> str:
        of = found.of
        if isinstance(of.source, Pieces) and of.most is None:
            return self._lines.output(Count(of.source, found.dtype))
        lengths = self.lengths(of)
        if found.dtype == tf.int64:
            return lengths
        return self._add("Cast", [lengths], "y", SrcT=tf.int64, DstT=found.dtype)

    def rename(self) -> None:
        """Has the readers of what was made, and the results, read it."""
        rename(self._function.definition, self._renamed)

    def followed(self, node: Any, names: Sequence[str], inputs: Sequence[Any], index: Optional[Sequence[Any]]) -> Any:
        """What the op is of lengths of lists; None where it is of something else. index: what it takes, if it is a StridedSlice of known bounds."""
        first = inputs[0]
        if isinstance(first, Length) and first.is_shape:
            return dataclasses.replace(first, is_shape=False) if index == [0] else None
        if node.op == "Cast" and isinstance(first, (Length, Shortfall)):
            dtype = tf.as_dtype(node.attr["DstT"].type)
            if dtype not in (tf.int32, tf.int64):
                return None
            return dataclasses.replace(first, dtype=dtype) if isinstance(first, Length) else first
        if node.op == "Sub" and isinstance(inputs[1], Length) and not inputs[1].is_shape:
            size = _number(first)
            return None if size is None or size < 0 else Shortfall(inputs[1], names[1], size)
        if node.op == "Maximum":
            for one, other in (inputs, inputs[::-1]):
                if isinstance(one, Shortfall) and _number(other) == 0:
                    return dataclasses.replace(one, clipped=True)
        return _packed(inputs) if node.op == "Pack" and node.attr["axis"].i == 0 else None

    def padded(self, node: Any, values: str, of: Longer, by: Any, padding: Optional[str]) -> Union[Row, AtLeast]:
        """What the Pad `node` makes of the list `values`. Raises NotByRow."""
        pads = isinstance(by, Shortfall) and by.packed == 2 and not of.shape
        if not pads or (by.length.of.source, by.length.of.most) != (of.source, of.most):
            raise NotByRow(f"its {node.op} ('{node.name}') does not pad a list to one size")
        if padding is None:
            padding = self._constant(zero(tf.as_dtype(node.attr["T"].type)))
        if not by.clipped or (of.most is not None and of.most <= by.size):
            made = self.pad(values, of, padding, by.size, node.attr["T"].type, "of pad")
            self._new[-1].attr["in_front"].b = by.in_front
            self._renamed[f"{node.name}:output:0"] = made
            return Row((by.size,))
        if by.in_front:
            raise NotByRow(f"its {node.op} ('{node.name}') pads lists in front that may be longer than {by.size}")
        return AtLeast(of, values, padding, by.size)

    def cut(self, node: Any, found: AtLeast, index: Optional[Sequence[Any]]) -> Row:
        """What a StridedSlice takes of a list that was padded. Raises NotByRow."""
        size = _end(index)
        if size is None or size > found.size:
            raise NotByRow(f"its StridedSlice ('{node.name}') takes more of a list than it was padded to")
        made = self.pad(found.values, found.of, found.padding, size, node.attr["T"].type, "cut")
        self._renamed[f"{node.name}:output:0"] = made
        return Row((size,))

    def sliced(self, of: Longer, index: Optional[Sequence[Any]]) -> Optional[Longer]:
        """What a StridedSlice takes of a list if that are the first elements: how many at most."""
        most = _end(index)
        return None if most is None else dataclasses.replace(of, most=most if of.most is None else min(most, of.most))

    def part(self, node: Any, values: str, of: Longer, index: Optional[Sequence[Any]]) -> Longer:
        """What the StridedSlice `node` takes of the list `values`, by an op of our own. Raises NotByRow."""
        bounds = _bounds(index)
        if bounds is None:
            raise NotByRow(f"its StridedSlice ('{node.name}') takes other elements of a list than a row of them")
        if (values, *bounds) not in self._slices:
            dtype = tf.as_dtype(node.attr["T"].type)
            inputs = [values, self.lengths(of), self._constant(zero(dtype))]
            self._add("TfBoosterSliceLists", inputs, "sliced", T=dtype)
            made = self._new[-1]
            made.attr["begin"].i = bounds[0]
            made.attr["end"].i = _ALL if bounds[1] is None else bounds[1]
            self._function.nodes[made.name] = made
            self._slices[(values, *bounds)] = found = Longer(made.name)
            self._lengths[found] = f"{made.name}:sliced_lengths:0"
        found = self._slices[(values, *bounds)]
        self._renamed[f"{node.name}:output:0"] = f"{found.source}:sliced:0"
        return found

    def pad_result(self, name: str, found: Longer, value: np.ndarray, size: int) -> None:
        """Has the list that is the result `name` be padded with `value`, to `size`; -1: to the longest of its batch. Raises NotByRow."""
        before = np.zeros([], np.int64) if found.cast else value  # Behind the source, that is.
        casts = found.cast and (value != 0 or _is_minus_zero(value))
        if self.has_lengths(found):
            anew = found.computed or casts or _differ(self.pads.setdefault(found.source, before), before)
        elif casts:
            raise LengthsUnknown(f"its result '{name}' is cast, and padded with {value}")
        elif _differ(self.pads.setdefault(found.source, before), before):
            raise LengthsUnknown(f"its result '{name}' is padded with {value}, another one of the same values is not")
        else:
            anew = False
        if anew or size >= 0:
            results, dtype = self._function.definition.ret, self._function.result_type(name)
            padding = self._constant(_of_type(dtype, value))
            results[name] = self.pad(
                results[name], found, padding, size, dtype.as_datatype_enum, "of padded_batch", known=anew
            )

    def pad_sources(self) -> None:
        """Has what makes lists pad them, but for arguments."""
        for pieces in self._pieces:  # Some are padded anew only.
            self.pads.setdefault(pieces, zero(pieces.range.dtype))
        for source, value in self.pads.items():
            if isinstance(source, Pieces):
                self._lines.pad(source, self._constant(_of_type(source.range.dtype, value)))
                continue
            name = str(source)
            node = self._function.nodes.get(name.split(":")[0])
            if node is not None and node.op in row_parses.PARSES:
                at, dtype = row_parses.default_of(node, name)
                node.input[at] = self._constant(_of_type(dtype, value.reshape([1])))
            elif node is not None and node.op == "TfBoosterSliceLists":
                node.input[2] = self._constant(_of_type(tf.as_dtype(node.attr["T"].type), value))
            elif node is not None and node.op == "SparseToDense":
                node.input[3] = self._constant(_of_type(tf.as_dtype(node.attr["T"].type), value))

    def pad(self, values: str, of: Longer, padding: str, size: int, dtype: int, longer: str, known: bool = True) -> str:
        """Lists `values` that are padded with `padding`, to `size` or, if that is -1, the longest. known: or all are as long as the longest."""
        lengths = self.lengths(of) if known else self._constant(np.zeros([0], np.int64))
        made = self._add("TfBoosterPadLists", [values, lengths, padding], "padded", T=tf.as_dtype(dtype))
        self._new[-1].attr["size"].i = size
        self._new[-1].attr["longer"].s = longer.encode()
        return made

    def _add(self, op_type: str, inputs: Sequence[str], output: str, **types: tf.DType) -> str:
        node = tf.compat.v1.NodeDef(name=f"tf_booster_list_{len(self._new)}", op=op_type, input=inputs)
        for attr, dtype in types.items():
            node.attr[attr].type = dtype.as_datatype_enum
        self._new.append(node)
        return f"{node.name}:{output}:0"


def are_padded(definitions: Iterable[Any]) -> bool:
    """Whether functions may make rows of one length of lists."""
    return any(node.op in PADS for definition in definitions for node in definition.node_def)


def _packed(inputs: Sequence[Any]) -> Optional[Shortfall]:
    """The paddings, or a row of them, that are packed of `inputs`; None for anything else."""
    found = [i for i in inputs if isinstance(i, Shortfall)]
    if len(found) != 1 or len(inputs) != 2 - found[0].packed:
        return None
    if found[0].packed:
        return dataclasses.replace(found[0], packed=2)
    in_front = found[0] is inputs[0]
    zero = _number(inputs[1 if in_front else 0]) == 0
    return dataclasses.replace(found[0], packed=1, in_front=in_front) if zero else None


def _differ(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(one != other) or _is_minus_zero(one) != _is_minus_zero(other)


def _is_minus_zero(value: np.ndarray) -> bool:
    return value.dtype.kind == "f" and value == 0 and bool(np.signbit(value))


def _of_type(dtype: tf.DType, value: np.ndarray) -> np.ndarray:
    return value if dtype == tf.string else value.astype(dtype.as_numpy_dtype)


def _number(found: Any) -> Optional[int]:
    known = isinstance(found, Outside) and found.value is not None and found.value.ndim == 0
    return int(found.value) if known else None


def _bounds(index: Optional[Sequence[Any]]) -> Optional[Tuple[int, Optional[int]]]:
    """begin and end of [begin:end], None for the end of the list; None for anything else."""
    if index is None or len(index) != 1 or not isinstance(index[0], slice) or index[0].step not in (None, 1):
        return None
    return index[0].start or 0, index[0].stop


def _end(index: Optional[Sequence[Any]]) -> Optional[int]:
    """n for [:n], else None."""
    if index is None or len(index) != 1 or not isinstance(index[0], slice):
        return None
    taken = index[0]
    ends = isinstance(taken.stop, int) and taken.stop >= 0
    return taken.stop if ends and taken.start in (None, 0) and taken.step is None else None
