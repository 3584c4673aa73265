"""Functions of single records, made to functions of batches, where each row of the result is what its record alone would give.

Only for ops that are known: those that move values, and those that compute each by itself, to the same bits whether one is
computed or many. Of logarithms and the like, whose last bits differ between vectors and single numbers, only single numbers are
served, by ops of our own.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np
import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes import line_pieces, ragged_line, row_lists, row_parses, row_repeats, row_sequences
from tf_booster.passes.dataset_functions import DatasetFunction, data_inputs, dtype_of, prune
from tf_booster.passes.float_arithmetic import changed_by_grappler
from tf_booster.passes.function_constants import MASKS, constant_node, folded, index_of
from tf_booster.passes.line_pieces import SPLITS, LinePieces, NotOfLines, Pieces, SplitPart
from tf_booster.passes.ragged_line import OfRow
from tf_booster.passes.record_tensors import Even, Longer, NotByRow, Outside, Padding, Row, SparsePart
from tf_booster.passes.row_lists import PADS, AtLeast, Length, LengthsUnknown, RowLists
from tf_booster.passes.row_sequences import PARSE_SEQUENCE

_ANY = ("LogicalNot", "Neg", "Abs", "Square", "Floor", "Ceil", "Rint", "IsNan", "IsInf", "IsFinite",
        "ZerosLike", "OnesLike", "StringToNumber", "StringToHashBucketFast", "StringToHashBucketStrong", "StringToHashBucket",
        "AsString", "StringLower", "StringUpper", "StringStrip", "StringLength", "StaticRegexReplace", "Add", "AddV2",
        "Sub", "Mul", "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr",
        "SelectV2", "StringJoin")  # fmt: skip
DIVISIONS_THAT_FAIL = ("FloorMod", "FloorDiv", "Mod", "TruncateMod", "TruncateDiv")  # Of integers, by 0.
# Of numbers with a fraction, vectors treat NaN another way, or divide by a product.
_OF_INTEGERS = (*DIVISIONS_THAT_FAIL, "Maximum", "Minimum", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift",
                "Invert")  # fmt: skip
_DIVISIONS = ("RealDiv",)  # Rounded as IEEE says, in vectors too.
_ROOTS = ("Sqrt",)  # The same; of bfloat16, NaNs of vectors have another sign.

_UNARY_OF_EACH = ("Log", "Log1p")
_BINARY_OF_EACH = ("Maximum", "Minimum")
_FIND = "LookupTableFindV2"
_SIZE_OF_VOCABULARY = "LookupTableSizeV2"
# What is known of a tensor of one line, and made only if needed.
_LAZY = (Pieces, SplitPart, OfRow, *row_lists.LAZY)
# Elements that TensorFlow computes one by one: fewer than a vector of the least processor has.
_FEW = {tf.float32: 3, tf.float64: 1}

DECODE_CSV = "DecodeCSV"
# On a GatherV2 that takes a row of a tensor from outside, by the number that the record is: the shape of that row.
ROW_SHAPE = "_tf_booster_row_shape"
_OWN_DECODE_CSV = "TfBoosterDecodeCsv"

_OF_TRUTHS = ("All", "Any")
_REDUCTIONS = (*_OF_TRUTHS, "Max", "Min", "Sum", "Prod")  # The others of integers.


def batched(definition: Any, arguments: Sequence[Any]) -> Any:
    """A FunctionDef of batches that gives for each row what `definition` gives for its record alone.

    `arguments`: a Row or Outside for each of its arguments. Raises NotByRow.
    """
    made = _copy(definition)
    function = DatasetFunction(made)
    batching = _Batching(function, arguments, lists=bool(function.of_type(*PADS)))
    for name, found in batching.run().items():
        if isinstance(found, Outside):
            batching.repeat(name, found)
        elif isinstance(found, Longer):
            raise NotByRow(f"the rows of its result '{name}' have no fixed length; padded_batch would pad them")
        elif not isinstance(found, (Row, Even)):
            raise NotByRow(f"its result '{name}' is not made of the record alone")
    batching.end()
    return made


def padded(definition: Any, arguments: Sequence[Any], paddings: Sequence[Padding]) -> Tuple[Any, Dict[str, np.ndarray]]:
    """The same, with rows of different lengths, for a batch that pads results so; and what pads those that are arguments, by name."""
    made = _copy(definition)
    batching = _Batching(DatasetFunction(made), arguments, lists=True)
    for (name, found), padding in zip(batching.run().items(), paddings):
        batching.pad(name, found, padding)
    return made, batching.end()


def _copy(definition: Any) -> Any:
    made = type(definition)()
    made.CopyFrom(definition)
    made.signature.name += "_of_batch"
    made.arg_attr.clear()
    return made


class _Batching:
    """Goes through a function, which is changed on the way. lists: whether rows may be of different lengths, because they are padded in the end."""

    def __init__(self, function: DatasetFunction, arguments: Sequence[Any], lists: bool) -> None:
        self._function = function
        self._has_lists = lists
        self._known: Dict[str, Any] = dict(zip(function.arguments, arguments))
        self._new: List[Any] = []
        self._changed: Set[str] = set()
        self._lines = LinePieces()
        self._lists = RowLists(function, self._lines, self._new, self._constant)

    def run(self) -> Dict[str, Any]:
        """What each result is, in the order of results."""
        definition = self._function.definition
        for node in definition.node_def:
            if _compat.is_stateful(node.op) and not self._asks_vocabulary(node):
                raise NotByRow(f"its {node.op} ('{node.name}') has a state or effects")
        why = changed_by_grappler(definition)
        if why is not None:
            raise NotByRow(why)
        results = {output.name: definition.ret[output.name] for output in definition.signature.output_arg}
        return {name: self._made(tensor, self.kind(tensor)) for name, tensor in results.items()}

    def _asks_vocabulary(self, node: Any) -> bool:
        if node.op not in (_FIND, _SIZE_OF_VOCABULARY):
            return False
        table = self._known.get(self._function.behind_identities(node.input[0]))
        return isinstance(table, Outside) and table.is_vocabulary

    def pad(self, name: str, found: Any, padding: Padding) -> None:
        """Has the result `name` be padded. Raises NotByRow where that is not known to be as padded_batch does it."""
        definition = self._function.definition
        if isinstance(found, Outside):
            self.repeat(name, found)
        elif isinstance(found, SparsePart) and found.part == "values" and not found.of_steps:
            tensor = definition.ret[name]
            found = self._lists.of_values(tensor, found, self._function.result_type(name))
            definition.ret[name] = self._lists.dense(tensor)
        elif not isinstance(found, (Row, Longer)) or found.shape is None:
            raise NotByRow(f"its result '{name}' is not made of dense values of the record")
        shape = (None, *found.shape) if isinstance(found, Longer) else found.shape
        fits = len(shape) == len(padding.shape) and all(d is None or p in (d, -1) for d, p in zip(shape, padding.shape))
        if not fits:
            raise NotByRow(f"its result '{name}' is padded to a shape of the program's, {list(padding.shape)}")
        if isinstance(found, Longer):
            self._lists.pad_result(name, found, padding.value, padding.shape[0])

    def repeat(self, name: str, found: Outside) -> None:
        """Gives the result `name`, which is the same for all records, to each. Raises NotByRow where nothing tells how many there are."""
        definition = self._function.definition
        dense = [a for a in definition.signature.input_arg if _is_dense(self._known[a.name])]
        if found.shape is None or not dense:
            raise NotByRow(f"its result '{name}' is not made of the record")
        node, dtype = f"tf_booster_repeated_{name}", self._function.result_type(name).as_datatype_enum
        self._new += row_repeats.repeated(node, definition.ret[name], dtype, found.shape, dense[0])
        definition.ret[name] = f"{node}:output:0"

    def end(self) -> Dict[str, np.ndarray]:
        """Adds what is new, and returns what pads each argument."""
        self._lists.pad_sources()
        definition = self._function.definition
        definition.node_def.extend([*self._new, *self._lines.nodes()])
        self._lines.rename(definition)
        self._lists.rename()
        prune(definition)  # Splits of one line.
        return {name: self._lists.pads[name] for name in self._function.arguments if name in self._lists.pads}

    def kind(self, tensor: str) -> Any:
        """What `tensor` is, and on the way whatever its op needs to compute it of batches."""
        if tensor not in self._known:
            node = self._function.nodes.get(tensor.split(":")[0])
            if node is None:
                raise NotByRow(f"'{tensor}' is unknown")
            try:
                self._known[tensor] = self._result(node, tensor)
            except NotOfLines as error:
                raise NotByRow(f"at its {node.op} ('{node.name}'): {error}") from error
        return self._known[tensor]

    def _result(self, node: Any, tensor: str) -> Any:
        if node.op == "Const":
            value = tf.make_ndarray(node.attr["value"].tensor)
            return Outside(value.shape, value)
        names = data_inputs(node)
        inputs = [self.kind(name) for name in names]
        if node.op == "Identity":
            return inputs[0]
        if node.op == "DeserializeSparse" and isinstance(inputs[0], Row):
            return SparsePart(names[0], tensor.split(":")[1][len("sparse_") :], inputs[0].of_steps)
        if node.op == "SerializeSparse":
            return self._sparse(node, inputs)
        if node.op in row_parses.PARSES:
            return row_parses.parsed(node, tensor, inputs, self._has_lists)
        if node.op == PARSE_SEQUENCE:
            found = row_sequences.parsed(node, tensor, inputs, self._has_lists)
            return self._lists.of_steps(found, node) if isinstance(found, Longer) else found
        if node.op in SPLITS:
            return self._split(node, tensor, names, inputs)
        found = self._of_list(node, names, inputs)
        if found is not None:
            return found
        if any(isinstance(i, _LAZY) for i in inputs):
            found = self._of_pieces(node, tensor, inputs)
            if not isinstance(found, list):
                return found
            inputs = [self._made(*both) for both in zip(names, found)]
        if node.op == _SIZE_OF_VOCABULARY:
            return Outside(())
        if ROW_SHAPE in node.attr:
            shape = tuple(tf.TensorShape(node.attr[ROW_SHAPE].shape).as_list())
            return Even(shape) if None in shape else Row(shape)
        if all(isinstance(i, Outside) for i in inputs):
            value = folded(node, [i.value for i in inputs])
            return Outside(None if value is None else value.shape, value)
        special = {
            "ConcatV2": self._concat,
            **dict.fromkeys((DECODE_CSV, _OWN_DECODE_CSV), self._decode_csv),
            "DecodeRaw": self._decode_raw,
            "EnsureShape": self._ensure_shape,
            "ExpandDims": self._expand,
            "OneHot": self._one_hot,
            "Pack": self._pack,
            **dict.fromkeys(PADS, self._pad),
            "Reshape": self._reshape,
            "SparseToDense": self._to_dense,
            "Squeeze": self._squeeze,
            "StridedSlice": self._strided_slice,
            "Unpack": self._unpack,
            **dict.fromkeys(_REDUCTIONS, self._reduce),
        }
        if node.op in special:
            return special[node.op](node, inputs)
        if node.op == _FIND:
            return self._of_elements(node, inputs[1:])
        if node.op in (*_UNARY_OF_EACH, *_BINARY_OF_EACH) and tf.as_dtype(node.attr["T"].type) in _FEW:
            return self._of_each(node, inputs)
        _check_op(node)
        return self._of_elements(node, inputs)

    def _of_elements(self, node: Any, inputs: List[Any]) -> Any:
        """What the op is, which computes each element of `inputs` by itself."""
        if any(isinstance(i, Even) for i in inputs):
            if sum(not _is_one_outside(i) for i in inputs) > 1:
                raise NotByRow(f"its {node.op} ('{node.name}') is of rows whose lengths may differ")
            return next(i for i in inputs if isinstance(i, Even))
        if any(isinstance(i, Longer) for i in inputs):
            return self._of_lists(node, inputs)
        parts = [i for i in inputs if isinstance(i, SparsePart)]
        if parts:
            same = all(p == parts[0] and p.part == "values" for p in parts)
            if same and all(isinstance(i, SparsePart) or getattr(i, "shape", None) == () for i in inputs):
                if all(isinstance(i, (SparsePart, Outside)) for i in inputs):
                    return parts[0]
            raise NotByRow(f"its {node.op} ('{node.name}') mixes values of a SparseTensor with others")
        return self._by_value(node, inputs)

    def _made(self, tensor: str, found: Any) -> Any:
        """What `tensor` is in a batch, which has it be made."""
        if not isinstance(found, _LAZY):
            return found
        if isinstance(found, row_lists.LAZY):
            return self._lists.made(tensor, found)
        try:
            shape = self._lines.made(tensor, found)
        except NotOfLines as error:
            raise NotByRow(str(error)) from error
        if self._has_lists and shape == (None,):
            return self._lists.of_pieces(found)
        return Even(shape) if None in shape else Row(shape)

    def _of_list(self, node: Any, names: List[str], inputs: List[Any]) -> Any:
        """What the op is of a list, or of the length of one; None where it is of neither."""
        index = None
        if node.op == "StridedSlice" and all(isinstance(i, Outside) and i.value is not None for i in inputs[1:]):
            index = index_of(node, [i.value for i in inputs[1:]])
        if any(isinstance(i, row_lists.LAZY) for i in inputs):
            if isinstance(inputs[0], AtLeast) and node.op == "StridedSlice":
                return self._lists.cut(node, inputs[0], index)
            found = self._lists.followed(node, names, inputs, index)
            if found is not None:
                return found
        if node.op in ("Size", "Shape"):
            rows = (
                inputs[0] if node.op == "Shape" and isinstance(inputs[0], Longer) else None
            )  # Also of vectors and more.
            of = rows or self._list(node, names[0], inputs[0])
            return None if of is None else Length(of, tf.as_dtype(node.attr["out_type"].type), node.op == "Shape")
        if node.op in PADS and self._has_lists:
            of = self._list(node, names[0], self._made(names[0], inputs[0]))
            if of is not None:
                if not all(isinstance(i, Outside) for i in inputs[2:]):
                    raise NotByRow(f"what its {node.op} ('{node.name}') pads with is not the same for all records")
                padding = names[2] if len(names) > 2 else None
                return self._lists.padded(node, self._lists.dense(names[0]), of, inputs[1], padding)
        if node.op == "StridedSlice" and isinstance(inputs[0], (Longer, SparsePart)):
            of = self._list(node, names[0], inputs[0])
            if of is not None:
                values, sliced = self._lists.dense(names[0]), self._lists.sliced(of, index)
                if sliced is None:
                    return self._lists.part(node, values, of, index)
                node.input[0] = values
                self._set_slice(node, inputs[1:])
                return sliced
        return None

    def _list(self, node: Any, tensor: str, found: Any) -> Optional[Longer]:
        """`tensor` as a list of each record; None for anything else."""
        if isinstance(found, Pieces):
            return Longer(found) if found.shape == (None,) else None
        if isinstance(found, SparsePart) and found.part == "values" and not found.of_steps:
            return self._lists.of_values(tensor, found, tf.as_dtype(node.attr["T"].type))
        return found if isinstance(found, Longer) and not found.shape else None

    def _split(self, node: Any, tensor: str, names: List[str], inputs: List[Any]) -> Any:
        if isinstance(inputs[0], Pieces) and inputs[0].shape == (None,):
            return self._lines.split(node, tensor, names[0], inputs[0], _constant(node, inputs[1]))
        shape = _row_shape(node, self._made(names[0], inputs[0]))
        if int(np.prod(shape)) != 1:
            raise NotByRow(f"its {node.op} ('{node.name}') is not of one string")
        line = names[0]
        packed = self._function.nodes.get(line.split(":")[0])
        if packed is not None and packed.op in ("Pack", "ExpandDims", "Reshape"):
            line = packed.input[0]
        return self._lines.split(node, tensor, line, None, _constant(node, inputs[1]))

    def _of_pieces(self, node: Any, tensor: str, inputs: List[Any]) -> Any:
        """What the op is of pieces; or, if that is to be made of them before, its inputs."""
        first = inputs[0]
        known = [i.value if isinstance(i, Outside) and i.value is not None else i for i in inputs]
        bounds = known[1:] if node.op == "StridedSlice" and all(isinstance(i, np.ndarray) for i in known[1:]) else []
        followed = ragged_line.followed(node, known, index_of(node, bounds) if bounds else None)
        if followed is not None:
            return Outside(followed.shape, followed) if isinstance(followed, np.ndarray) else followed
        if node.op == "Reshape":
            if isinstance(first, SplitPart) and isinstance(inputs[1], SplitPart):
                return line_pieces.reshaped(first, inputs[1])
            wanted = _constant(node, inputs[1])
            if isinstance(first, Pieces) and first.shape == (None,) and wanted.tolist() == [-1]:
                return first
            if isinstance(first, Pieces) and None in first.shape and -1 not in wanted:
                return [dataclasses.replace(first, size=int(np.prod(wanted))), inputs[1]]
        elif node.op == "StringToNumber" and isinstance(first, Pieces):
            return line_pieces.to_numbers(first, tf.as_dtype(node.attr["out_type"].type))
        elif node.op == "StridedSlice" and isinstance(first, Pieces) and first.size is None:
            return line_pieces.sliced(first, index_of(node, [_constant(node, i) for i in inputs[1:]]))
        elif node.op == "Split" and isinstance(inputs[1], Pieces) and inputs[1].range.part == (0, 1):
            if int(_constant(node, first)) in (1, -1):
                part = (_output(tensor), node.attr["num_split"].i)
                return Pieces(dataclasses.replace(inputs[1].range, part=part))
        elif node.op == "SplitV" and isinstance(first, Pieces) and int(_constant(node, inputs[2])) in (0, -1):
            return line_pieces.split_by_sizes(first, _constant(node, inputs[1]).tolist())[_output(tensor)]
        return inputs

    def _sparse(self, node: Any, inputs: List[Any]) -> Row:
        source = _source_of_parts(inputs, ("indices", "values", "shape"))
        if source is None:
            raise NotByRow(f"the SparseTensor of '{node.name}' is put together anew")
        return Row(None, inputs[0].of_steps)

    def _to_dense(self, node: Any, inputs: List[Any]) -> Longer:
        source = _source_of_parts(inputs[:3], ("indices", "shape", "values"))
        if source is None or inputs[0].of_steps:
            raise NotByRow(
                f"its SparseToDense ('{node.name}') is not of a SparseTensor that has one list for the record"
            )
        if not isinstance(inputs[3], Outside):
            raise NotByRow(f"the default value of its SparseToDense ('{node.name}') is not the same for all records")
        return Longer(node.name)

    def _of_lists(self, node: Any, inputs: List[Any]) -> Longer:
        """What the op makes of rows of different lengths and, on the way, of what they are padded with, which must be no error."""
        lists = [i for i in inputs if isinstance(i, Longer)]
        if node.op == "Cast":
            return dataclasses.replace(lists[0], cast=True)
        fails = node.op == "StringToNumber" or (node.op in DIVISIONS_THAT_FAIL and inputs[1] in lists)
        alike = all(i in lists or _is_one_outside(i) for i in inputs) and len({(i.source, i.most) for i in lists}) == 1
        if fails or not alike or not self._lists.has_lengths(lists[0]):
            why = f"its {node.op} ('{node.name}') is of rows of different lengths, which a batch pads"
            raise NotByRow(why) if fails or not alike else LengthsUnknown(why)
        return dataclasses.replace(lists[0], computed=True)

    def _by_value(self, node: Any, inputs: List[Any]) -> Row:
        shapes = [i.shape if isinstance(i, (Row, Outside)) else None for i in inputs]
        shape = None if None in shapes else _broadcast(shapes)
        fits = shape is not None
        if node.op == "StringJoin":  # It repeats scalars alone.
            fits = fits and all(i.shape == (shape if isinstance(i, Row) else ()) for i in inputs)
        # A row with fewer dimensions than the result would meet other rows.
        if not fits or any(isinstance(i, Row) and len(i.shape) != len(shape) for i in inputs):
            raise NotByRow(
                f"the shapes at its {node.op} ('{node.name}') are not those of one value for each of the record"
            )
        return Row(shape)

    def _decode_csv(self, node: Any, inputs: List[Any]) -> Row:
        shape = _row_shape(node, inputs[0])
        if int(np.prod(shape)) != 1 or not all(isinstance(i, Outside) for i in inputs[1:]):
            raise NotByRow(f"its {node.op} ('{node.name}') is not of one line, with the same defaults for all")
        decode_by_own_op(node, single=True)
        return Row(shape)

    def _decode_raw(self, node: Any, inputs: List[Any]) -> Even:
        """Strings of different lengths are an error of the op here, and of the batch there."""
        return Even((*_row_shape(node, inputs[0]), None))

    def _of_each(self, node: Any, inputs: List[Any]) -> Row:
        rows = {i.shape if isinstance(i, Row) else None for i in inputs if not _is_one_outside(i)}
        shape = next(iter(rows))
        most = _FEW[tf.as_dtype(node.attr["T"].type)]
        if len(rows) != 1 or shape is None or int(np.prod(shape)) > most:
            raise NotByRow(
                f"its {node.op} ('{node.name}') is of more than {most} values a record, whose last bits differ from those of single ones"
            )
        node.attr["function"].s = node.op.encode()
        node.op = "TfBoosterUnaryOfEach" if node.op in _UNARY_OF_EACH else "TfBoosterBinaryOfEach"
        for name in set(node.attr) - {"T", "function"}:
            del node.attr[name]
        return Row(shape)

    def _ensure_shape(self, node: Any, inputs: List[Any]) -> Row:
        wanted = tf.TensorShape(node.attr["shape"].shape)
        if isinstance(inputs[0], Even) and wanted.is_fully_defined() and wanted.is_compatible_with(inputs[0].shape):
            shape = tuple(wanted.as_list())
        else:
            shape = _row_shape(node, inputs[0])
        if not wanted.is_compatible_with(shape):
            raise NotByRow(f"its EnsureShape ('{node.name}') does not fit")
        node.attr["shape"].shape.CopyFrom(tf.TensorShape([None, *shape]).as_proto())
        return Row(shape)

    def _expand(self, node: Any, inputs: List[Any]) -> Row:
        shape, axis = _row_shape(node, inputs[0]), _constant(node, inputs[1])
        at = int(axis)
        if at < 0:
            at += len(shape) + 1
        else:
            self._set_constant(node, 1, np.asarray(axis + 1, axis.dtype))
        return Row((*shape[:at], 1, *shape[at:]))

    def _squeeze(self, node: Any, inputs: List[Any]) -> Row:
        shape, axes = _row_shape(node, inputs[0]), list(node.attr["squeeze_dims"].list.i)
        axes = [axis + len(shape) if axis < 0 else axis for axis in axes] or [i for i, d in enumerate(shape) if d == 1]
        if any(not 0 <= axis < len(shape) or shape[axis] != 1 for axis in axes):
            raise NotByRow(f"its Squeeze ('{node.name}') does not fit")
        if not axes:
            raise NotByRow(f"its Squeeze ('{node.name}') has nothing to take away; of a batch of one record it would")
        node.attr["squeeze_dims"].list.i[:] = [axis + 1 for axis in axes]
        return Row(tuple(d for i, d in enumerate(shape) if i not in axes))

    def _reshape(self, node: Any, inputs: List[Any]) -> Row:
        wanted = _constant(node, inputs[1])
        if isinstance(inputs[0], Even):
            shape = self._ensured(node, inputs[0], wanted)
        else:
            shape = _row_shape(node, inputs[0])
        try:
            new = tuple(np.zeros(shape, np.bool_).reshape(wanted.tolist()).shape)
        except ValueError:
            raise NotByRow(f"its Reshape ('{node.name}') does not fit") from None
        # A row without elements would leave the number of rows open.
        if int(np.prod(new)) == 0:
            raise NotByRow(f"its Reshape ('{node.name}') is of nothing")
        self._set_constant(node, 1, np.asarray([-1, *new], wanted.dtype))
        return Row(new)

    def _ensured(self, node: Any, found: Even, wanted: np.ndarray) -> Tuple[int, ...]:
        """The shape that rows of the first input must have to be reshaped to `wanted`; others are an error then, as of single rows. Raises NotByRow."""
        known, size = int(np.prod([d for d in found.shape if d is not None])), int(np.prod(wanted))
        if found.shape.count(None) != 1 or -1 in wanted or known == 0 or size % known:
            raise NotByRow(f"its Reshape ('{node.name}') is of rows whose size is not known")
        shape = tuple(size // known if d is None else d for d in found.shape)
        ensure = tf.compat.v1.NodeDef(
            name=f"tf_booster_ensured_{len(self._new)}", op="EnsureShape", input=[node.input[0]]
        )
        ensure.attr["T"].type = node.attr["T"].type
        ensure.attr["shape"].shape.CopyFrom(tf.TensorShape([None, *shape]).as_proto())
        self._new.append(ensure)
        node.input[0] = f"{ensure.name}:output:0"
        return shape

    def _one_hot(self, node: Any, inputs: List[Any]) -> Row:
        shape, depth, axis = _row_shape(node, inputs[0]), _constant(node, inputs[1]), node.attr["axis"].i
        if not all(isinstance(i, Outside) for i in inputs[2:]):
            raise NotByRow(f"the values of its OneHot ('{node.name}') are not the same for all records")
        at = axis if axis >= 0 else len(shape)
        node.attr["axis"].i = at + 1
        return Row((*shape[:at], int(depth), *shape[at:]))

    def _pack(self, node: Any, inputs: List[Any]) -> Row:
        shapes = {_row_shape(node, i) for i in inputs}
        if len(shapes) != 1:
            raise NotByRow(f"its Pack ('{node.name}') is of different shapes")
        shape, axis = shapes.pop(), node.attr["axis"].i
        at = axis if axis >= 0 else axis + len(shape) + 1
        node.attr["axis"].i = at + 1
        return Row((*shape[:at], len(inputs), *shape[at:]))

    def _pad(self, node: Any, inputs: List[Any]) -> Row:
        shape, paddings = _row_shape(node, inputs[0]), _constant(node, inputs[1])
        if not all(isinstance(i, Outside) for i in inputs[2:]):
            raise NotByRow(f"what its {node.op} ('{node.name}') pads with is not the same for all records")
        self._set_constant(node, 1, np.concatenate([np.zeros([1, 2], paddings.dtype), paddings.reshape([-1, 2])]))
        return Row(tuple(d + sum(padding) for d, padding in zip(shape, paddings.reshape([-1, 2]).tolist())))

    def _unpack(self, node: Any, inputs: List[Any]) -> Row:
        shape, axis = _row_shape(node, inputs[0]), node.attr["axis"].i
        at = axis if axis >= 0 else axis + len(shape)
        if node.name not in self._changed:  # It has several outputs.
            self._changed.add(node.name)
            node.attr["axis"].i = at + 1
        return Row((*shape[:at], *shape[at + 1 :]))

    def _concat(self, node: Any, inputs: List[Any]) -> Row:
        shapes = [_row_shape(node, i) for i in inputs[:-1]]
        axis = _constant(node, inputs[-1])
        at = int(axis) if axis >= 0 else int(axis) + len(shapes[0])
        self._set_constant(node, len(inputs) - 1, np.asarray(at + 1, axis.dtype))
        return Row((*shapes[0][:at], sum(shape[at] for shape in shapes), *shapes[0][at + 1 :]))

    def _strided_slice(self, node: Any, inputs: List[Any]) -> Row:
        shape = _row_shape(node, inputs[0])
        bounds = [_constant(node, i) for i in inputs[1:]]
        try:
            result = np.zeros(shape, np.bool_)[tuple(index_of(node, bounds))].shape
        except IndexError:
            raise NotByRow(f"its StridedSlice ('{node.name}') does not fit") from None
        self._set_slice(node, inputs[1:])
        return Row(tuple(result))

    def _set_slice(self, node: Any, bounds: Sequence[Any]) -> None:
        """Has a StridedSlice of a row take the same of each row of a batch."""
        for i, (bound, first) in enumerate(zip(bounds, (0, 0, 1))):
            self._set_constant(node, 1 + i, np.asarray([first, *bound.value.tolist()], bound.value.dtype))
        for name in MASKS:
            node.attr[name].i = node.attr[name].i << 1 | (name in ("begin_mask", "end_mask"))

    def _reduce(self, node: Any, inputs: List[Any]) -> Row:
        shape, axes = _row_shape(node, inputs[0]), _constant(node, inputs[1])
        if node.op not in _OF_TRUTHS and not tf.as_dtype(node.attr["T"].type).is_integer:
            raise NotByRow(f"its {node.op} ('{node.name}') of numbers with a fraction depends on the order")
        at = [axis % len(shape) for axis in np.ravel(axes).tolist()] if shape else []
        self._set_constant(node, 1, np.asarray([axis + 1 for axis in at], axes.dtype))
        if node.attr["keep_dims"].b:
            return Row(tuple(1 if i in at else d for i, d in enumerate(shape)))
        return Row(tuple(d for i, d in enumerate(shape) if i not in at))

    def _set_constant(self, node: Any, index: int, value: np.ndarray) -> None:
        node.input[index] = self._constant(value)

    def _constant(self, value: np.ndarray) -> str:
        """A tensor that is `value`."""
        constant = constant_node(f"tf_booster_constant_{len(self._new)}", value)
        self._new.append(constant)
        return f"{constant.name}:output:0"


def decode_by_own_op(node: Any, single: bool) -> None:
    """Has a DecodeCSV of a function be our op for it. single: it decoded lines one by one, and errors are to be those."""
    node.op = _OWN_DECODE_CSV
    node.attr["single"].b = single


def _source_of_parts(inputs: Sequence[Any], parts: Sequence[str]) -> Optional[str]:
    """What the `inputs` are those parts of; None if it is not one SparseTensor."""
    sources = {i.source if isinstance(i, SparsePart) and i.part == part else None for i, part in zip(inputs, parts)}
    return sources.pop() if len(sources) == 1 else None


def _output(tensor: str) -> int:
    return int(tensor.split(":")[2])


def _check_op(node: Any) -> None:
    if node.op in _ANY:
        return
    dtypes = [dtype_of(node, name) for name in ("T", "SrcT")]
    floats = {dtype.is_floating for dtype in dtypes if dtype is not None}
    if node.op in _OF_INTEGERS and floats == {False}:
        return
    if node.op in _DIVISIONS and floats == {True}:
        return
    if node.op in _ROOTS and tf.as_dtype(node.attr["T"].type) in (tf.float16, tf.float32, tf.float64):
        return
    if node.op == "Cast":
        source, target = (tf.as_dtype(node.attr[name].type) for name in ("SrcT", "DstT"))
        # What does not fit a small integer is cut off, by vectors at another place.
        if source in (tf.bool, tf.int32, tf.int64) or target in (tf.float32, tf.float64, tf.int32, tf.int64):
            return
    raise NotByRow(f"its {node.op} ('{node.name}') is not known to compute each row by itself, to the last bit")


def _is_one_outside(found: Any) -> bool:
    return isinstance(found, Outside) and found.shape == ()


def _broadcast(shapes: Sequence[Tuple[int, ...]]) -> Optional[Tuple[int, ...]]:
    """What these are together; None if they do not fit."""
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        return None


def _is_dense(found: Any) -> bool:
    return isinstance(found, Row) and found.shape is not None


def _row_shape(node: Any, found: Any) -> Tuple[int, ...]:
    if not _is_dense(found):
        raise NotByRow(f"its {node.op} ('{node.name}') is not of dense values of the record")
    return found.shape


def _constant(node: Any, found: Any) -> np.ndarray:
    if not isinstance(found, Outside) or found.value is None:
        raise NotByRow(f"the shape or axis of its {node.op} ('{node.name}') is not constant")
    return found.value
