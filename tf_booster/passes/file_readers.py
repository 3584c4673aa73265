"""How the dataset op at the start of a pipeline reads TFRecord files, or files of lines: one after another, or several in turns."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Dict, Sequence

import numpy as np
import tensorflow as tf

from tf_booster.data.record_batches import CsvRecords, Reading
from tf_booster.passes.dataset_functions import DatasetFunction, Refused, data_inputs
from tf_booster.passes.inlined_functions import function_of

READERS = ("TFRecordDataset", "TFRecordDatasetV2")
_READERS_OF_LINES = ("TextLineDataset",)
_DEFAULT_BUFFERS = (0, 256 << 10)  # Of TextLineDataset: the op's and Python's.
# Attributes of a TextLineDataset that stands for one of records of comma-separated values.
_DELIMITER, _QUOTES, _HEADER = "_tf_booster_csv_delimiter", "_tf_booster_csv_quotes", "_tf_booster_csv_header"
_INTERLEAVES = {"InterleaveDataset": 3, "ParallelInterleaveDatasetV3": 4, "ParallelInterleaveDatasetV4": 6}  # Inputs.
_NUM_PARALLEL_CALLS = {"ParallelInterleaveDatasetV3": 3, "ParallelInterleaveDatasetV4": 5}  # Their places.
# What num_parallel_reads and tf.data.experimental.parallel_interleave make.
_LEGACY = {"ParallelInterleaveDataset": 6, "LegacyParallelInterleaveDatasetV2": 5}
TYPES = (*_INTERLEAVES, *_LEGACY, "FlatMapDataset")
# Files of each thread that tf.data opens, where it chooses both numbers: the one being read and two to come.
_FILES_A_THREAD = 3


def reading(op: tf.Operation, functions: Dict[str, Any], of_lines: bool = False) -> Reading:
    """How `op`, of TYPES, reads the files, TFRecord files or those of lines, that its first input names. Raises Refused."""
    inputs = {**_INTERLEAVES, **_LEGACY}.get(op.type, 1)
    if len(op.inputs) != inputs:
        raise Refused(f"the function of {op.type} uses tensors from outside")
    readers = _READERS_OF_LINES if of_lines else READERS
    found = _files(function_of(op, functions), functions, readers)
    if op.type == "FlatMapDataset":
        return found
    cycle, block = op.inputs[1], op.inputs[2]
    static_cycle = tf.get_static_value(cycle)
    if static_cycle is None:
        raise Refused("the cycle_length of its interleave is not known")
    if op.type in _LEGACY and tf.get_static_value(block) != 1:
        raise Refused(
            "at the ends of files, parallel_interleave with a block_length takes records as threads happen to run"
        )
    if static_cycle == tf.data.AUTOTUNE:
        cycle = _chosen_cycle(op)
    elif static_cycle < 1:
        raise Refused(f"the cycle_length of its interleave is {static_cycle}")
    return dataclasses.replace(
        found, cycle_length=cycle, block_length=block, errors_count=op.type != "InterleaveDataset"
    )


def _chosen_cycle(op: tf.Operation) -> int:
    """The cycle_length that tf.data chooses in this process, by the processors that it may run on."""
    processors = len(os.sched_getaffinity(0))
    if op.type not in _NUM_PARALLEL_CALLS:
        return processors
    calls = tf.get_static_value(op.inputs[_NUM_PARALLEL_CALLS[op.type]])
    if calls is None:
        raise Refused("the num_parallel_calls of its interleave, by which tf.data chooses cycle_length, is not known")
    return -(-processors // _FILES_A_THREAD) if calls == tf.data.AUTOTUNE else min(int(calls), processors)


def _files(function: DatasetFunction, functions: Dict[str, Any], readers: Sequence[str]) -> Reading:
    """How the function reads a file by one of `readers`, one for each name."""
    node = function.result()
    if node is None or len(function.arguments) != 1:
        raise Refused("what it reads is not files of records one by one")
    header = 0
    if node.op == "SkipDataset" and readers == _READERS_OF_LINES:
        count = function.constant(data_inputs(node)[1])
        if count is None or count < 0:
            raise Refused("how many lines it skips is not known, or all")
        header, node = int(count), function.producer(data_inputs(node)[0])
        if node is None:
            raise Refused("what it reads is not files of lines one by one")
    inputs = data_inputs(node)
    if node.op == "FlatMapDataset" and len(inputs) == 1:
        names = function.producer(inputs[0])
        if names is not None and names.op == "TensorSliceDataset" and len(data_inputs(names)) == 1:
            reshape = function.producer(data_inputs(names)[0])
            if reshape is not None and reshape.op == "Reshape" and function.is_argument(reshape.input[0], 0):
                found = _files(function_of(node, functions), functions, readers)
                return dataclasses.replace(found, header_lines=found.header_lines + header)
    if node.op not in readers or not function.is_argument(inputs[0], 0):
        wanted = "files of lines" if readers == _READERS_OF_LINES else "TFRecord files"
        raise Refused(f"what it reads is not {wanted} but {node.op}")
    compression = function.constant(inputs[1])
    offsets = function.constant(inputs[3]) if len(inputs) > 3 else np.zeros(0)
    if compression is None or compression.item().decode() not in ("", "GZIP", "ZLIB"):
        raise Refused("the compression of its files is not known")
    if offsets is None or offsets.size:
        raise Refused("it reads files from offsets")
    if readers == _READERS_OF_LINES and compression.item():
        # How much of a damaged file can be read depends on it.
        size = function.constant(inputs[2])
        if size is None or size.item() not in _DEFAULT_BUFFERS:
            raise Refused("its compressed files are read through a buffer of another size than the default")
    if _DELIMITER in node.attr:
        csv = CsvRecords(node.attr[_DELIMITER].s.decode("latin-1"), node.attr[_QUOTES].b)
        header = int(node.attr[_HEADER].b)
    else:
        csv = None
    return Reading(compression=compression.item().decode(), header_lines=header, csv=csv)


def mark_as_csv(node: Any, delimiter: str, quotes: bool, header: bool) -> None:
    """Has the node of a TextLineDataset stand for records of comma-separated values, the first of which may be left out."""
    node.attr[_DELIMITER].s = delimiter.encode("latin-1")
    node.attr[_QUOTES].b, node.attr[_HEADER].b = quotes, header
