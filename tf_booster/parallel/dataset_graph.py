"""Datasets as the ops that make them, in a graph: their inputs, how many elements they have, and copies with another input."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Callable, Dict, List, Optional

import numpy as np
import tensorflow as tf

INFINITE = math.inf

CACHES = ("CacheDataset", "CacheDatasetV2")

# One element for each of the input's, or the input's elements; in its order.
ONE_TO_ONE = (
    "MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2", "ParseExampleDataset", "ParseExampleDatasetV2", "PrefetchDataset",
    "OptionsDataset", "ModelDataset", "MaxIntraOpParallelismDataset", "PrivateThreadPoolDataset", "BytesProducedStatsDataset",
    "LatencyStatsDataset", *CACHES, "ShuffleDataset", "ShuffleDatasetV2", "ShuffleDatasetV3",
)  # fmt: skip
# Fewer, but whether an element stays depends on it alone.
FILTERS = ("FilterDataset", "ParallelFilterDataset", "IgnoreErrorsDataset")
BATCHES = (
    "BatchDataset", "BatchDatasetV2", "ParallelBatchDataset", "PaddedBatchDataset", "PaddedBatchDatasetV2", "MapAndBatchDataset",
    "DenseToSparseBatchDataset",
)  # fmt: skip
REPEATS = ("RepeatDataset", "ShuffleAndRepeatDataset", "ShuffleAndRepeatDatasetV2")
SOURCES = (
    "TensorSliceDataset", "TensorDataset", "TFRecordDataset", "TFRecordDatasetV2", "TextLineDataset", "FixedLengthRecordDataset",
    "FixedLengthRecordDatasetV2", "CSVDataset", "CSVDatasetV2",
)  # fmt: skip
ONE_TO_MANY = (
    "FlatMapDataset", "InterleaveDataset", "ParallelInterleaveDataset", "ParallelInterleaveDatasetV2", "ParallelInterleaveDatasetV3",
    "ParallelInterleaveDatasetV4", "LegacyParallelInterleaveDatasetV2", "ExperimentalParallelInterleaveDataset", "UnbatchDataset",
)  # fmt: skip


def dataset_inputs(op: tf.Operation) -> List[tf.Operation]:
    """The datasets that `op` reads, without those that its functions make."""
    return [tensor.op for tensor in op.inputs if tensor.dtype == tf.variant and is_dataset(tensor.op)]


def is_dataset(op: tf.Operation) -> bool:
    """Whether `op` makes a dataset."""
    return "Dataset" in op.type and len(op.outputs) == 1 and op.outputs[0].dtype == tf.variant


def upstream(op: tf.Operation) -> List[tf.Operation]:
    """`op` and all datasets that it is made of, each once."""
    found: Dict[str, tf.Operation] = {}
    waiting = [op]
    while waiting:
        at = waiting.pop()
        if at.name not in found:
            found[at.name] = at
            waiting.extend(dataset_inputs(at))
    return list(found.values())


def beginnings(op: tf.Operation) -> Dict[str, np.ndarray]:
    """What the datasets that `op` is made of begin with, files or tensors, as far as the graph tells: by the names of the constants."""
    found = {}
    for tensor in (tensor for source in upstream(op) if source.type in SOURCES for tensor in source.inputs):
        while tensor.op.type in ("Identity", "Reshape"):  # As TensorFlow makes a list of file names.
            tensor = tensor.op.inputs[0]
        value = tf.get_static_value(tensor)
        if value is not None:
            found[tensor.name] = value
    return found


def input_index(op: tf.Operation, name: str) -> int:
    """The number of the input that the op's definition calls `name`; no other argument of these ops but one may be a list."""
    arguments = [argument.name for argument in op.op_def.input_arg]
    lists = [i for i, a in enumerate(op.op_def.input_arg) if a.number_attr or a.type_list_attr]
    place = arguments.index(name)
    return place if not lists or place <= lists[0] else len(op.inputs) - (len(arguments) - place)


def constant(op: tf.Operation, name: str) -> Optional[Any]:
    """The value of an input if the graph tells it."""
    value = tf.get_static_value(op.inputs[input_index(op, name)])
    return None if value is None else value.item() if value.ndim == 0 else value


def count(op: tf.Operation) -> Optional[float]:
    """How many elements the dataset has, as far as the graph tells: an integer or INFINITE; None: not known."""
    inputs = [count(each) for each in dataset_inputs(op)]
    first = inputs[0] if inputs else None
    if op.type in ("TensorDataset",):
        return 1
    if op.type == "TensorSliceDataset":
        return _slices(op.inputs[0])
    if op.type == "RangeDataset":
        limits = [constant(op, name) for name in ("start", "stop", "step")]
        return None if None in limits else len(range(*limits))
    if op.type in ONE_TO_ONE:
        return first
    if op.type in REPEATS:
        times = constant(op, "count")
        if first == 0 or times is None:
            return 0 if first == 0 else None
        return INFINITE if times < 0 else None if first is None else first * times
    if op.type in BATCHES:
        size = constant(op, "batch_size")
        return first if first in (None, INFINITE) else None if not size else math.ceil(first / size)
    if op.type == "TakeDataset":
        taken = constant(op, "count")
        known = [number for number in (first, taken if taken is None or taken >= 0 else INFINITE) if number is not None]
        return min(known) if len(known) == 2 or 0 in known else None
    if op.type == "ZipDataset":
        return None if None in inputs else min(inputs)
    if op.type == "ConcatenateDataset":
        return None if None in inputs else sum(inputs)
    return None


def _slices(components: tf.Tensor) -> Optional[int]:
    number = tf.compat.dimension_value(components.shape[0]) if components.shape.rank else None
    if number is not None:
        return number
    op = components.op
    while op.type in ("Identity", "Reshape"):
        op = op.inputs[0].op
    pattern = tf.get_static_value(op.inputs[0]) if op.type == "MatchingFiles" else None
    return None if pattern is None else len(_glob(pattern))


def _glob(pattern: Any) -> List[str]:
    patterns = [pattern.item()] if pattern.ndim == 0 else list(pattern)
    return tf.io.gfile.glob([tf.compat.as_str(each) for each in patterns])


@dataclasses.dataclass
class Edit:
    """What is different in a copy. inputs: by their numbers. attrs: by their names. after: makes the copy's place of its output.
    left_out: the first input stands in the op's place."""

    inputs: Dict[int, tf.Tensor] = dataclasses.field(default_factory=dict)
    attrs: Dict[str, Any] = dataclasses.field(default_factory=dict)
    after: Optional[Callable[[tf.Tensor], tf.Tensor]] = None
    left_out: bool = False


def copy(op: tf.Operation, edits: Dict[str, Edit], scope: str) -> tf.Tensor:
    """The dataset `op` with `edits`, by names of ops, in itself and in what it is made of; what has none is shared with the original."""
    done: Dict[str, tf.Tensor] = {}

    def copied(at: tf.Operation) -> tf.Tensor:
        if at.name not in done:
            done[at.name] = _copied(at)
        return done[at.name]

    def _copied(at: tf.Operation) -> tf.Tensor:
        edit = edits.get(at.name, Edit())
        datasets = {id(each): copied(each) for each in dataset_inputs(at)}
        inputs = [datasets.get(id(tensor.op), tensor) for tensor in at.inputs]
        if edit.left_out:
            return inputs[0]
        inputs = [edit.inputs.get(i, tensor) for i, tensor in enumerate(inputs)]
        output = at.outputs[0]
        if edit.attrs or any(new is not old for new, old in zip(inputs, at.inputs)):
            output = node_like(at, inputs, edit.attrs, scope)
        return output if edit.after is None else edit.after(output)

    return copied(op)


def node_like(op: tf.Operation, inputs: List[tf.Tensor], attrs: Dict[str, Any], scope: str) -> tf.Tensor:
    """The first output of a new op like `op`, of other inputs, with the given attrs in place of its own."""
    graph_def = tf.compat.v1.GraphDef()
    graph_def.versions.CopyFrom(op.graph.graph_def_versions)
    node = graph_def.node.add()
    node.CopyFrom(op.node_def)
    node.name = op.name.rsplit("/", 1)[-1]
    node.input[:] = [f"input_{i}" for i in range(len(inputs))]
    node.attr.pop("_class", None)  # Another op's place, which the graph of this node alone does not have.
    for name, value in attrs.items():
        node.attr[name].CopyFrom(value)
    sources = {f"input_{i}:0": tensor for i, tensor in enumerate(inputs)}
    return tf.graph_util.import_graph_def(graph_def, input_map=sources, return_elements=[f"{node.name}:0"], name=scope)[
        0
    ]
