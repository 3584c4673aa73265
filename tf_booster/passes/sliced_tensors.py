"""Tensors in memory that are sliced row by row (Dataset.from_tensor_slices), as the numbers of their rows and a map behind them that takes rows.

TensorFlow makes a tensor of each component of each row, keeps it in shuffles and copies it into a batch. Numbers are batched in its place,
and rows are taken a batch at a time.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Collection, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes import batched_first, live_datasets, record_steps
from tf_booster.passes.batched_first import BatchedFirst
from tf_booster.passes.dataset_functions import Refused, data_inputs, named_by_content, set_messages
from tf_booster.passes.dataset_steps import ALL_BATCHES, components
from tf_booster.passes.function_constants import constant_node
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.row_functions import ROW_SHAPE

_SLICES, _ZIP = "TensorSliceDataset", "ZipDataset"
# Tensors of a batch, below which a call of a function costs what is saved.
_FEW = 64
_INT64 = tf.int64.as_datatype_enum


class Found(NamedTuple):
    """What became of a dataset of slices. skipped: batches of it that are left, with the reason."""

    pipelines: List[BatchedFirst]
    skipped: List[Tuple[str, str]]


def sources(view: GraphView, ends: Collection[tf.Operation]) -> List[tf.Operation]:
    """The datasets of slices, and zips of nothing else, of which batches are made; without those whose batches, `ends`, others make already."""
    found = []
    for op in view.ops(_SLICES, _ZIP):
        if view.originals(op) or not live_datasets.is_read(op) or not _is_of_slices(op):
            continue
        batches = _batches(view, op)
        if batches and not any(batch in ends for batch in batches):
            found.append(op)
    return found


def match(view: GraphView, op: tf.Operation) -> Found:
    """The pipelines of `op`, one of sources(), whose rows are taken a batch at a time."""
    try:
        with view.inserting(op.device), tf.name_scope("tf_booster/input_pipeline/"):
            map_op = _rows_by_number(view, op)
    except Refused as refusal:
        return Found([], [(op.name, str(refusal))])
    found = Found([], [])
    functions = _compat.functions_by_name(view.graph)
    old, new = op.outputs[0], map_op.outputs[0]
    view.redirect(old, new, lambda reader: True)
    for batch in _batches(view, map_op):
        try:
            pipeline = batched_first.batched(map_op, batch, functions, "rows of tensors are taken a batch at a time")
            found.pipelines.append(dataclasses.replace(pipeline, maps=[_taking_together(m) for m in pipeline.maps]))
        except Refused as refusal:
            found.skipped.append((batch.name, str(refusal)))
    view.redirect(new, old, lambda reader: True)  # What stands in the place of `batch` needs it no more; others go on.
    return found


def _is_of_slices(op: tf.Operation) -> bool:
    if op.type == _SLICES:
        return True
    return op.type == _ZIP and bool(op.inputs) and all(_is_of_slices(tensor.op) for tensor in op.inputs)


def _slices(op: tf.Operation) -> List[tf.Operation]:
    return [op] if op.type == _SLICES else [each for tensor in op.inputs for each in _slices(tensor.op)]


def _batches(view: GraphView, op: tf.Operation) -> List[tf.Operation]:
    """The batches of what `op` gives that are worth a call each, and not made by the pass that calls this."""
    try:
        batches = live_datasets.batches_of(op, ALL_BATCHES)
    except Refused:
        return []
    num_components = len(components(op))
    return [batch for batch in batches if not view.originals(batch) and not _is_small(batch, num_components)]


def _is_small(batch: tf.Operation, num_components: int) -> bool:
    size = tf.get_static_value(record_steps.batching(batch).batch_size)
    return size is not None and size * num_components < _FEW


def _rows_by_number(view: GraphView, op: tf.Operation) -> tf.Operation:
    """A new map, of a new dataset of the numbers of rows, that gives what `op` gives. Raises Refused."""
    elements = components(op)
    if any(dtype == tf.variant for dtype, _ in elements):
        raise Refused("it slices SparseTensors or RaggedTensors")
    if any(shape.rank is None for _, shape in elements):
        raise Refused("it slices tensors whose rank is not known")
    tensors = [tensor for each in _slices(op) for tensor in each.inputs]
    function = _row_function(elements)
    map_node = tf.compat.v1.NodeDef(name="rows", op="MapDataset")
    map_node.attr["f"].func.name = function.signature.name
    map_node.attr["Targuments"].list.type[:] = [tensor.dtype.as_datatype_enum for tensor in tensors]
    map_node.attr["output_types"].list.type[:] = [dtype.as_datatype_enum for dtype, _ in elements]
    map_node.attr["output_shapes"].list.shape.extend(shape.as_proto() for _, shape in elements)
    map_node.attr["preserve_cardinality"].b = True
    numbers = tf.raw_ops.RangeDataset(
        start=np.int64(0), stop=_num_rows(op), step=np.int64(1), output_types=[tf.int64], output_shapes=[[]]
    )
    map_node.input[:] = [f"input_{i}" for i in range(1 + len(tensors))]
    return view.add_nodes([map_node], [function], [numbers, *tensors], "sliced_tensors")[0]


def _num_rows(op: tf.Operation) -> tf.Tensor:
    """How many rows there are; of a zip as many as the shortest has. Where that is not static `op` is made all the same: it checks."""
    slices = _slices(op)
    static = [{_static_rows(tensor) for tensor in each.inputs} for each in slices]
    if all(len(numbers) == 1 and None not in numbers for numbers in static):
        return tf.constant(min(map(min, static)), tf.int64)
    with tf.control_dependencies(slices):
        return tf.reduce_min([tf.shape(each.inputs[0], out_type=tf.int64)[0] for each in slices])


def _static_rows(tensor: tf.Tensor) -> Optional[int]:
    return tf.compat.dimension_value(tensor.shape[0]) if tensor.shape.rank else None


def _row_function(elements: Sequence[Tuple[tf.DType, tf.TensorShape]]) -> Any:
    """From the number of a row, and tensors, to that row of each."""
    definition = _compat.new_function_definition()
    definition.signature.input_arg.add(name="number", type=_INT64)
    axis = constant_node("axis", np.asarray(0, np.int32))
    definition.node_def.append(axis)
    for i, (dtype, shape) in enumerate(elements):
        definition.signature.input_arg.add(name=f"tensor_{i}", type=dtype.as_datatype_enum)
        definition.signature.output_arg.add(name=f"row_{i}", type=dtype.as_datatype_enum)
        node = definition.node_def.add(name=f"take_{i}", op="GatherV2")
        node.input[:] = [f"tensor_{i}", "number", f"{axis.name}:output:0"]
        node.attr["Tparams"].type = dtype.as_datatype_enum
        node.attr["Tindices"].type = _INT64
        node.attr["Taxis"].type = tf.int32.as_datatype_enum
        node.attr[ROW_SHAPE].shape.CopyFrom(shape.as_proto())
        definition.ret[f"row_{i}"] = f"{node.name}:output:0"
    return named_by_content(definition, "rows_of_tensors")


def _taking_together(batch_map: batched_first.BatchMap) -> batched_first.BatchMap:
    """The same map with one op for all rows that it takes."""
    taking = [node for node in batch_map.definition.node_def if ROW_SHAPE in node.attr]
    if not taking:
        return batch_map
    definition = type(batch_map.definition)()
    definition.CopyFrom(batch_map.definition)
    together = tf.compat.v1.NodeDef(name="tf_booster_rows", op="TfBoosterTakeRows")
    together.input[:] = [*(data_inputs(node)[0] for node in taking), data_inputs(taking[0])[1]]
    together.attr["T"].list.type[:] = [node.attr["Tparams"].type for node in taking]
    together.attr["Tindex"].type = _INT64
    renamed = {f"{node.name}:output:0": f"{together.name}:taken:{i}" for i, node in enumerate(taking)}
    names = {node.name for node in taking}
    kept = [node for node in definition.node_def if node.name not in names]
    for node in kept:
        node.input[:] = [renamed.get(name, name) for name in node.input]
    set_messages(definition.node_def, [together, *kept])
    for output, tensor in list(definition.ret.items()):
        definition.ret[output] = renamed.get(tensor, tensor)
    return dataclasses.replace(batch_map, definition=definition)
