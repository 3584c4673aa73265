"""Puts TFRecordExampleDataset under existing input pipelines: TFRecordDataset → (shuffle, repeat, …) → batch → map(parse).

Only where elements, their order and errors stay the same. What the map's function does behind the parse stays a map.
"""

from __future__ import annotations

from typing import Any, Dict, List

import tensorflow as tf

from tf_booster import _compat
from tf_booster.data.record_batches import record_batches_op
from tf_booster.passes.base import Pass, PassResult
from tf_booster.passes.dataset_functions import DatasetFunction
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.record_pipelines import MAPS, RecordPipeline, Refused, function_of, match

_ONE_SHOT = "it is in a one-shot iterator, out of reach; return the dataset from the input function, or use make_initializable_iterator"


class InputPipeline(Pass):
    """One op from files to parsed batches, in place of a dataset for each step."""

    name = "input_pipeline"

    def requires(self, view: GraphView) -> bool:
        return bool(_maps(view) or view.ops("OneShotIterator"))

    def run(self, view: GraphView) -> PassResult:
        result = PassResult(self.name)
        functions = {f.signature.name: f for f in _compat.function_definitions(view.graph)}
        found: List[RecordPipeline] = []
        for op in _maps(view):
            try:
                if function_of(op, functions).of_type("ParseExampleV2"):
                    found.append(match(op, functions))
            except Refused as refusal:
                result.skipped.append((op.name, str(refusal)))
        for op in view.ops("OneShotIterator"):
            factory = functions.get(op.get_attr("dataset_factory").name)
            if factory is not None and DatasetFunction(factory).of_type(*MAPS):
                result.skipped.append((op.name, _ONE_SHOT))
        for pipeline in found:
            self._replace(view, pipeline)
            stages = [stage.name for stage in pipeline.reading.stages]
            result.changes.append(
                f"{pipeline.map_op.name}: files, {', '.join([*stages, 'batch'])} and parse are one op, TFRecordExampleDataset"
            )
        result.modified = bool(found)
        return result

    def ensures(self, view: GraphView) -> None:
        """What was replaced has no consumers any more; run() redirected them all."""

    def _replace(self, view: GraphView, pipeline: RecordPipeline) -> None:
        old = pipeline.map_op
        with view.inserting(old.device), tf.name_scope("tf_booster/input_pipeline/"):
            batches = record_batches_op(pipeline.files, pipeline.params, pipeline.reading, pipeline.batching)
            new = _map_of_parsed(view.graph, pipeline, batches)
        view.note_originals(new.op, [old])
        view.redirect(old.outputs[0], new)


def _maps(view: GraphView) -> List[tf.Operation]:
    """The maps that something reads, but for those that this pass made."""
    return [op for op in view.ops(*MAPS) if op.outputs[0].consumers() and not view.originals(op)]


def _map_of_parsed(graph: tf.Graph, pipeline: RecordPipeline, batches: tf.Tensor) -> tf.Tensor:
    """The old map with a function that takes what is parsed already."""
    old = pipeline.map_op
    graph_def = tf.compat.v1.GraphDef()
    graph_def.versions.CopyFrom(graph.graph_def_versions)
    function = graph_def.library.function.add()
    _take_parsed(pipeline, function)
    node = graph_def.node.add()
    node.CopyFrom(old.node_def)
    node.name = "map"
    sources = [batches, *old.inputs[1:]]
    node.input[:] = [f"input_{i}" for i in range(len(sources))]
    node.attr["f"].func.name = function.signature.name
    placeholders = {f"input_{i}:0": tensor for i, tensor in enumerate(sources)}
    return tf.graph_util.import_graph_def(graph_def, input_map=placeholders, return_elements=["map:0"], name="map_of")[
        0
    ]


def _take_parsed(pipeline: RecordPipeline, function: Any) -> None:
    """Makes `function` the pipeline's function, with the parsed features for arguments in place of the records."""
    params, parse = pipeline.params, pipeline.parse
    function.CopyFrom(pipeline.function.definition)
    function.signature.name += "_of_parsed"
    function.arg_attr.clear()
    del function.signature.input_arg[0]
    keys = sorted([*params.dense_keys, *params.sparse_keys, *params.ragged_keys])
    argument = {key: f"tf_booster_feature_{i}" for i, key in enumerate(keys)}
    dense_types = dict(zip(params.dense_keys, params.dense_types))
    for i, key in enumerate(keys):
        new = type(function.signature.input_arg.add())()
        new.name = argument[key]
        new.type = dense_types.get(key, tf.variant).as_datatype_enum
        function.signature.input_arg[-1].CopyFrom(new)
        # To the front, in order; what the function takes from outside follows.
        moved = function.signature.input_arg.pop()
        function.signature.input_arg.insert(i, moved)
    renamed: Dict[str, str] = {
        f"{parse.name}:dense_values:{i}": argument[key] for i, key in enumerate(params.dense_keys)
    }
    kept = [node for node in function.node_def if node.name != parse.name]
    for i, (key, dtype) in enumerate(zip(params.sparse_keys, params.sparse_types)):
        node = tf.compat.v1.NodeDef(name=f"tf_booster_sparse_{i}", op="DeserializeSparse", input=[argument[key]])
        node.attr["dtype"].type = dtype.as_datatype_enum
        node.attr["Tserialized"].type = tf.variant.as_datatype_enum
        kept.append(node)
        for theirs, ours in (("indices", "indices"), ("values", "values"), ("shapes", "shape")):
            renamed[f"{parse.name}:sparse_{theirs}:{i}"] = f"{node.name}:sparse_{ours}:0"
    for i, (key, dtype, splits) in enumerate(
        zip(params.ragged_keys, params.ragged_value_types, params.ragged_split_types)
    ):
        node = tf.compat.v1.NodeDef(name=f"tf_booster_ragged_{i}", op="RaggedTensorFromVariant", input=[argument[key]])
        node.attr["input_ragged_rank"].i = 1
        node.attr["output_ragged_rank"].i = 1
        node.attr["Tvalues"].type = dtype.as_datatype_enum
        node.attr["Tsplits"].type = splits.as_datatype_enum
        kept.append(node)
        renamed[f"{parse.name}:ragged_values:{i}"] = f"{node.name}:output_dense_values:0"
        renamed[f"{parse.name}:ragged_row_splits:{i}"] = f"{node.name}:output_nested_splits:0"
    for node in kept:
        node.input[:] = [renamed.get(name, name) for name in node.input if name != f"^{parse.name}"]
    del function.node_def[:]
    function.node_def.extend(kept)
    for output, tensor in list(function.ret.items()):
        function.ret[output] = renamed.get(tensor, tensor)
