"""CsvDataset, by itself or in the function of an interleave, as records of its files and a map behind them that decodes each.

tf.data.experimental.make_csv_dataset has it in an interleave: every field of a record is a tensor of its own there until the batch.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes import file_readers
from tf_booster.passes.dataset_functions import DatasetFunction, Refused, data_inputs, named_by_content
from tf_booster.passes.dataset_steps import captured
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.maps_of_files import put_in_place

_CSV = ("CSVDataset", "CSVDatasetV2")
_DEFAULT_BUFFER = 4 << 20


@dataclasses.dataclass(frozen=True)
class _Decoding:
    """What a CsvDataset does to its files."""

    compression: bytes
    header: bool
    delimiter: str
    quotes: bool
    na_value: bytes
    columns: List[int]
    defaults: Sequence[np.ndarray]
    dtypes: Sequence[tf.DType]


def readers(view: GraphView, functions: Dict[str, Any]) -> List[tf.Operation]:
    """The datasets that read such files."""
    inside = [op for op in view.ops(*file_readers.TYPES) if _in_function(op, functions) is not None]
    return [*view.ops(*_CSV), *inside]


def moved_behind(view: GraphView, op: tf.Operation, functions: Dict[str, Any]) -> List[tf.Operation]:
    """A new map, in a list, that gives what `op`, one of readers(), gives. Raises Refused."""
    if op.type in _CSV:
        decoding = _decoding(op.node_def, [None, *(tf.get_static_value(tensor) for tensor in op.inputs[1:])])
    else:
        decoding = _decoding_in_function(op, functions)
    records, decode = _records_function(decoding), _decode_function(decoding)
    map_of = tf.compat.v1.NodeDef(op="MapDataset")
    map_of.attr["f"].func.name = decode.signature.name
    map_of.attr["Targuments"].list.SetInParent()
    map_of.attr["output_types"].list.type[:] = [dtype.as_datatype_enum for dtype in decoding.dtypes]
    for _ in decoding.dtypes:
        map_of.attr["output_shapes"].list.shape.add()
    map_of.attr["preserve_cardinality"].b = True
    if op.type in _CSV:
        names = tf.reshape(op.inputs[0], [-1])
        reader = tf.compat.v1.NodeDef(op="FlatMapDataset")
        inputs = [tf.raw_ops.TensorSliceDataset(components=[names], output_shapes=[[]])]
    else:
        reader = op.node_def
        inputs = [op.inputs[0], *op.inputs[1 + len(captured(op)) :]]
    reader.attr["Targuments"].list.Clear()
    reader.attr["Targuments"].list.SetInParent()
    return put_in_place(view, reader, inputs, records, [map_of], [decode])


def _in_function(op: tf.Operation, functions: Dict[str, Any]) -> Optional[Any]:
    """The CsvDataset that the function of `op` gives."""
    definition = functions.get(op.get_attr("f").name)
    node = DatasetFunction(definition).result() if definition is not None else None
    return node if node is not None and node.op in _CSV else None


def _decoding_in_function(op: tf.Operation, functions: Dict[str, Any]) -> _Decoding:
    function = DatasetFunction(functions[op.get_attr("f").name])
    node, outside = _in_function(op, functions), captured(op)
    inputs = data_inputs(node)
    if len(function.arguments) != 1 + len(outside) or not function.is_argument(inputs[0], 0):
        raise Refused("what its CsvDataset reads is not the file that its function is given")

    def value(tensor: str) -> Optional[np.ndarray]:
        source = function.behind_identities(tensor)
        if source in function.arguments[1:]:
            return tf.get_static_value(outside[function.arguments.index(source) - 1])
        return function.constant(tensor)

    return _decoding(node, [None, *(value(tensor) for tensor in inputs[1:])])


def _decoding(node: Any, inputs: Sequence[Optional[np.ndarray]]) -> _Decoding:
    """inputs: values of what the CsvDataset `node` reads, None where they are not known. Raises Refused."""
    dtypes = [tf.as_dtype(number) for number in node.attr["output_types"].list.type]
    if any(value is None for value in inputs[1:]):
        raise Refused("how its CsvDataset reads is not known: its arguments are no constants")
    values = [np.asarray(value) for value in inputs[1:]]
    compression, buffer_size, header, delimiter, quotes, na_value, columns = values[:7]
    defaults, excluded = values[7 : 7 + len(dtypes)], values[7 + len(dtypes) :]
    if _text(compression) and buffer_size.item() != _DEFAULT_BUFFER:  # How much of a damaged file comes depends on it.
        raise Refused("its CsvDataset reads compressed files through a buffer of another size than the default")
    if any(value.size for value in excluded):
        raise Refused("its CsvDataset leaves columns out by exclude_cols; name those that are wanted by select_cols")
    if len(dtypes) == 1:
        raise Refused("its CsvDataset has one column, where an empty line is a value")
    if len(_text(delimiter)) != 1 or _text(delimiter) in b'"\r\n':
        raise Refused("the field_delim of its CsvDataset is no plain character")
    return _Decoding(
        _text(compression), bool(header), _text(delimiter).decode("latin-1"), bool(quotes), _text(na_value),
        columns.tolist(), defaults, dtypes
    )  # fmt: skip


def _text(value: np.ndarray) -> bytes:
    text = value.item()
    return text if isinstance(text, bytes) else text.encode()


def _records_function(decoding: _Decoding) -> Any:
    """From a file's name to a dataset of its records, for file_readers alone: TensorFlow would read lines by it."""
    definition = _function("file", ["handle"], [tf.variant])
    node = definition.node_def.add(name="records", op="TextLineDataset")
    compression = _constant(definition, "compression", decoding.compression)
    node.input[:] = ["file", compression, _constant(definition, "size", np.int64(0))]
    file_readers.mark_as_csv(node, decoding.delimiter, decoding.quotes, header=decoding.header)
    definition.ret["handle"] = "records:handle:0"
    return named_by_content(definition, "csv_records")


def _decode_function(decoding: _Decoding) -> Any:
    """From a record to its fields."""
    fields = [f"field_{i}" for i in range(len(decoding.dtypes))]
    definition = _function("record", fields, decoding.dtypes)
    node = definition.node_def.add(name="decode", op="TfBoosterDecodeCsv")
    defaults = [
        _constant(definition, f"default_{i}", value.astype(dtype.as_numpy_dtype))
        for i, (value, dtype) in enumerate(zip(decoding.defaults, decoding.dtypes))
    ]
    node.input[:] = ["record", *defaults]
    node.attr["OUT_TYPE"].list.type[:] = [dtype.as_datatype_enum for dtype in decoding.dtypes]
    node.attr["field_delim"].s = decoding.delimiter.encode("latin-1")
    node.attr["use_quote_delim"].b = decoding.quotes
    node.attr["na_value"].s = decoding.na_value
    node.attr["select_cols"].list.i[:] = decoding.columns
    node.attr["single"].b = node.attr["whole"].b = True
    for i, field in enumerate(fields):
        definition.ret[field] = f"decode:output:{i}"
    return named_by_content(definition, "csv_decode")


def _function(argument: str, results: Sequence[str], dtypes: Sequence[tf.DType]) -> Any:
    """The FunctionDef, without nodes, that makes `results` of a string."""
    definition = _compat.new_function_definition()
    definition.signature.input_arg.add(name=argument, type=tf.string.as_datatype_enum)
    for result, dtype in zip(results, dtypes):
        definition.signature.output_arg.add(name=result, type=dtype.as_datatype_enum)
    return definition


def _constant(definition: Any, name: str, value: Any) -> str:
    """The name, among the inputs of nodes, of a new constant of `definition`."""
    node = definition.node_def.add(name=name, op="Const")
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    node.attr["dtype"].type = node.attr["value"].tensor.dtype
    return f"{name}:output:0"
