"""Datasets that the pass input_pipeline makes in place of a program's: like one of those, but of other elements."""

from __future__ import annotations

import os
from typing import Any, Collection, Sequence, Tuple

import tensorflow as tf

from tf_booster.passes.batch_maps import BatchMap
from tf_booster.passes.batched_first import EarlierFilter
from tf_booster.passes.dataset_steps import ALL_BATCHES, MAP_AND_BATCH, PADDED_BATCH, components
from tf_booster.passes.graph_view import GraphView

# What all maps have.
_OF_MAPS = ("f", "Targuments", "output_types", "output_shapes")


def map_of(view: GraphView, batch_map: BatchMap, batches: tf.Tensor) -> tf.Tensor:
    """The map of `batches`."""
    old = batch_map.like
    node = node_like(old, "map")
    sources = [batches, *old.inputs[1:]]
    if batch_map.is_light:
        # What is left of the function is little for a batch: it pays no threads, and often runs nothing at all.
        _set_type(node, "MapDataset", _OF_MAPS)
        node.attr["preserve_cardinality"].b = True
        sources = sources[: 1 + len(old.get_attr("Targuments"))]
    elif old.type == MAP_AND_BATCH:
        _set_type(node, "ParallelMapDatasetV2", _OF_MAPS)
        node.attr["preserve_cardinality"].b = True
        sources = [*sources[:-3], _calls_of_batches(old.inputs[-2])]
    elif batch_map.output_shapes is not None and len(sources) > 1 + len(old.get_attr("Targuments")):
        sources[-1] = _calls_of_batches(sources[-1])
    if batch_map.output_shapes is not None:
        _set_shapes(node, batch_map.output_shapes)
    node.attr["f"].func.name = batch_map.definition.signature.name
    node.input[:] = [f"input_{i}" for i in range(len(sources))]
    return view.add_nodes([node], [batch_map.definition], sources, "map_of")[0].outputs[0]


def _calls_of_batches(calls: tf.Tensor) -> tf.Tensor:
    """How many batches a map makes at once that made so many records: each lies in memory until its turn."""
    wanted = tf.get_static_value(calls)
    if wanted is None or wanted == tf.data.AUTOTUNE:
        return calls
    return tf.constant(min(int(wanted), len(os.sched_getaffinity(0))), calls.dtype)


def of_others(view: GraphView, step: tf.Operation, source: tf.Tensor) -> tf.Tensor:
    """What the dataset `step`, which looks at no element, makes of those of `source`."""
    node = node_like(step, "step")
    sources = [source, *step.inputs[1:]]
    if step.type == MAP_AND_BATCH:
        batch_size, _, drop_remainder = step.inputs[-3:]
        sources = [source, batch_size, drop_remainder]
        _set_type(node, "BatchDatasetV2", ())
    elif step.type == PADDED_BATCH:
        sources = [source, step.inputs[1], step.inputs[-1]]
        _set_type(node, "BatchDatasetV2", ("parallel_copy", "metadata"))
    size = tf.TensorShape(step.get_attr("output_shapes")[0])[:1] if step.type in ALL_BATCHES else tf.TensorShape([])
    set_elements(node, [(dtype, size.concatenate(shape)) for dtype, shape in components(source.op)])
    node.input[:] = [f"input_{i}" for i in range(len(sources))]
    return view.add_nodes([node], [], sources, "of_others")[0].outputs[0]


def earlier_filter(view: GraphView, step: EarlierFilter, sources: tf.Tensor) -> tf.Tensor:
    """The filter of `sources` that stands for one of what was decoded from them."""
    node = node_like(step.like, "step")
    node.attr["predicate"].func.name = step.definition.signature.name
    node.attr["Targuments"].list.type[:] = [tensor.dtype.as_datatype_enum for tensor in step.captured]
    set_elements(node, components(sources.op))
    inputs = [sources, *step.captured]
    node.input[:] = [f"input_{i}" for i in range(len(inputs))]
    return view.add_nodes([node], [step.definition], inputs, "earlier_filter")[0].outputs[0]


def set_elements(node: Any, elements: Sequence[Tuple[tf.DType, tf.TensorShape]]) -> None:
    """Has the dataset `node` say that its elements are those."""
    node.attr["output_types"].list.type[:] = [dtype.as_datatype_enum for dtype, _ in elements]
    _set_shapes(node, [shape for _, shape in elements])


def _set_type(node: Any, op_type: str, attrs: Collection[str]) -> None:
    """Has `node` be one of another type, of whose attributes those named stay."""
    node.op = op_type
    for name in set(node.attr).difference(attrs):
        del node.attr[name]


def node_like(op: tf.Operation, name: str) -> Any:
    """The NodeDef of `op` without what says where it stands and what its elements are."""
    node = op.node_def
    node.name = name
    node.attr.pop("_class", None)
    node.ClearField("experimental_type")
    return node


def _set_shapes(node: Any, shapes: Sequence[tf.TensorShape]) -> None:
    del node.attr["output_shapes"].list.shape[:]
    node.attr["output_shapes"].list.shape.extend(shape.as_proto() for shape in shapes)
