"""Finds files → records → batch → map(parse) among the ops of datasets, and says why one cannot be replaced."""

from __future__ import annotations

import dataclasses
import types
from typing import Any, Dict, List, Tuple

import numpy as np
import tensorflow as tf

from tf_booster.data import record_stages
from tf_booster.data.record_batches import Batching, Reading
from tf_booster.passes.dataset_functions import DatasetFunction, data_inputs

MAPS = ("MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2")
_READERS = ("TFRecordDataset", "TFRecordDatasetV2")
_INTERLEAVES = {"InterleaveDataset": 3, "ParallelInterleaveDatasetV3": 4, "ParallelInterleaveDatasetV4": 6}  # Inputs.
# A dataset that changes no record and no order.
_PASSES_ON = ("PrefetchDataset",)


class Refused(Exception):
    """Why a pipeline stays TensorFlow's."""


@dataclasses.dataclass(frozen=True)
class RecordPipeline:
    """A pipeline that TFRecordExampleDataset can stand in for."""

    map_op: tf.Operation
    function: DatasetFunction
    parse: Any  # The function's ParseExampleV2.
    params: Any  # Its features, as record_batches_op takes them.
    files: tf.Tensor
    reading: Reading
    batching: Batching


def match(map_op: tf.Operation, functions: Dict[str, Any]) -> RecordPipeline:
    """The pipeline that ends in `map_op`, whose function parses. Raises Refused."""
    function = function_of(map_op, functions)
    parse, params = _parse(function)
    batch = map_op.inputs[0].op
    batching = _batching(batch)
    stages: List[record_stages.Stage] = []
    op = batch.inputs[0].op
    while op.type not in _INTERLEAVES and op.type != "FlatMapDataset":
        if op.type not in _PASSES_ON:
            stages.insert(0, _stage(op))
        op = op.inputs[0].op
    reading = dataclasses.replace(_interleave(op, functions), stages=tuple(stages))
    return RecordPipeline(map_op, function, parse, params, op.inputs[0], reading, batching)


def function_of(op: Any, functions: Dict[str, Any]) -> DatasetFunction:
    """The function of a dataset op, or of a node."""
    attr = op.attr["f"] if hasattr(op, "attr") else op.get_attr("f")
    name = attr.func.name if hasattr(attr, "func") else attr.name
    if name not in functions:
        raise Refused(f"its function {name} is not in the graph")
    return DatasetFunction(functions[name])


def _parse(function: DatasetFunction) -> Tuple[Any, Any]:
    parses = function.of_type("ParseExampleV2")
    if len(parses) != 1:
        raise Refused(f"its function parses {len(parses)} times; wanted one tf.io.parse_example")
    parse = parses[0]
    inputs = data_inputs(parse)
    if not function.is_argument(inputs[0], 0):
        raise Refused("what it parses is not the records themselves")
    readers = function.readers(function.arguments[0])
    if [reader.name for reader in readers] != [parse.name] or function.arguments[0] in function.definition.ret.values():
        raise Refused("its function uses the serialized records beside parsing them")
    names, sparse, dense, ragged = (function.constant(name) for name in inputs[1:5])
    defaults = [function.constant(name) for name in inputs[5:]]
    if any(value is None for value in (names, sparse, dense, ragged, *defaults)) or names.size:
        raise Refused("keys, default values or names of its parse are not constants")
    keys = [[key.decode() for key in value.tolist()] for value in (sparse, dense, ragged)]
    if len(set(sum(keys, []))) != sum(map(len, keys)):
        raise Refused("a key is parsed twice")
    attr = parse.attr
    params = types.SimpleNamespace(
        sparse_keys=keys[0],
        sparse_types=_dtypes(attr["sparse_types"]),
        dense_keys=keys[1],
        dense_types=_dtypes(attr["Tdense"]),
        dense_shapes=[tf.TensorShape(shape) for shape in attr["dense_shapes"].list.shape],
        dense_shapes_as_proto=list(attr["dense_shapes"].list.shape),
        dense_defaults_vec=defaults,
        ragged_keys=keys[2],
        ragged_value_types=_dtypes(attr["ragged_value_types"]),
        ragged_split_types=_dtypes(attr["ragged_split_types"]),
    )
    return parse, params


def _dtypes(attr: Any) -> List[tf.DType]:
    return [tf.as_dtype(number) for number in attr.list.type]


def _batching(op: tf.Operation) -> Batching:
    if op.type == "BatchDatasetV2":
        _, size, drop = op.inputs
    elif op.type == "ParallelBatchDataset":
        _, size, _, drop = op.inputs
    else:
        raise Refused(
            f"in front of the parse stands {op.type}, not a batch; batch records first, then tf.io.parse_example"
        )
    return Batching(batch_size=size, drop_remainder=drop)


def _stage(op: tf.Operation) -> record_stages.Stage:
    if op.type == "ShuffleDataset":
        size = tf.get_static_value(op.inputs[1])
        if size is None or size < 1:
            raise Refused("the size of the shuffle's buffer is not known")
        return record_stages.shuffle(*op.inputs[1:4], reshuffle_each_iteration=op.get_attr("reshuffle_each_iteration"))
    simple = {"RepeatDataset": "repeat", "TakeDataset": "take", "SkipDataset": "skip", "ShardDataset": "shard"}
    if op.type not in simple:
        raise Refused(f"between files and batch stands {op.type} ('{op.name}')")
    if op.type == "ShardDataset" and op.get_attr("require_non_empty"):
        raise Refused("its shard asks to be not empty")
    return record_stages.Stage(simple[op.type], tuple(op.inputs[1:]))


def _interleave(op: tf.Operation, functions: Dict[str, Any]) -> Reading:
    if len(op.inputs) != _INTERLEAVES.get(op.type, 1):
        raise Refused(f"the function of {op.type} uses tensors from outside")
    reading = Reading(compression=_compression(function_of(op, functions), functions))
    if op.type == "FlatMapDataset":
        return reading
    cycle = tf.get_static_value(op.inputs[1])
    if cycle is None or cycle < 1:
        raise Refused("the cycle_length of its interleave is left to tf.data, or not known; give a number")
    parallel = op.type != "InterleaveDataset"
    return dataclasses.replace(reading, cycle_length=op.inputs[1], block_length=op.inputs[2], errors_count=parallel)


def _compression(function: DatasetFunction, functions: Dict[str, Any]) -> str:
    """How the files are compressed that the function reads, one for each name."""
    node = function.result()
    if node is None or len(function.arguments) != 1:
        raise Refused("what it reads is not files of records one by one")
    inputs = data_inputs(node)
    if node.op == "FlatMapDataset" and len(inputs) == 1:
        names = function.producer(inputs[0])
        if names is not None and names.op == "TensorSliceDataset" and len(data_inputs(names)) == 1:
            reshape = function.producer(data_inputs(names)[0])
            if reshape is not None and reshape.op == "Reshape" and function.is_argument(reshape.input[0], 0):
                return _compression(function_of(node, functions), functions)
    if node.op not in _READERS or not function.is_argument(inputs[0], 0):
        raise Refused(f"what it reads is not TFRecord files but {node.op}")
    compression = function.constant(inputs[1])
    offsets = function.constant(inputs[3]) if len(inputs) > 3 else np.zeros(0)
    if compression is None or compression.item().decode() not in ("", "GZIP", "ZLIB"):
        raise Refused("the compression of its files is not known")
    if offsets is None or offsets.size:
        raise Refused("it reads files from offsets")
    return compression.item().decode()
