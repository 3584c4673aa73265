"""The numbers by which sample_from_datasets chooses among its datasets, drawn many at a time: one by one a call of a function for each element."""

from __future__ import annotations

from typing import Any, Dict, Optional, Union

import numpy as np
import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes import live_datasets, made_datasets
from tf_booster.passes.dataset_functions import DatasetFunction, data_inputs
from tf_booster.passes.dataset_steps import MAPS, captured
from tf_booster.passes.graph_view import GraphView

_AT_ONCE = 256
_RANDOM = ("RandomDataset", "RandomDatasetV2")


def draws(view: GraphView) -> Dict[tf.Operation, Any]:
    """The maps that draw a number for each two random seeds, where something reads them, and the logits by which they do."""
    joins = [op for op in view.ops("DirectedInterleaveDataset") if live_datasets.is_read(op)]
    functions = _compat.functions_by_name(view.graph) if joins else {}
    found = {join.inputs[0].op: logits_of(join.inputs[0].op, functions) for join in joins}
    return {op: logits for op, logits in found.items() if logits is not None}


def draw_many(view: GraphView, map_op: tf.Operation, logits: Any) -> None:
    """Puts a dataset of the same numbers in the place of `map_op`, one of draws()."""
    logits = tf.convert_to_tensor(logits)
    definition = _function(logits.dtype)
    seeds = tf.raw_ops.BatchDatasetV2(
        input_dataset=map_op.inputs[0],
        batch_size=_AT_ONCE,
        drop_remainder=False,
        output_types=[tf.int64],
        output_shapes=[[None, 2]],
    )
    node = made_datasets.node_like(map_op, "map")
    node.attr["f"].func.name = definition.signature.name
    node.attr["Targuments"].list.type[:] = [logits.dtype.as_datatype_enum]
    made_datasets.set_elements(node, [(tf.int64, tf.TensorShape([None]))])
    inputs = [seeds, logits, *map_op.inputs[1 + len(map_op.get_attr("Targuments")) :]]
    node.input[:] = [f"input_{i}" for i in range(len(inputs))]
    drawn = view.add_nodes([node], [definition], inputs, "sampled_datasets")[0].outputs[0]
    numbers = tf.raw_ops.UnbatchDataset(input_dataset=drawn, output_types=[tf.int64], output_shapes=[[]])
    view.redirect(map_op.outputs[0], numbers)


def logits_of(op: tf.Operation, functions: Dict[str, Any]) -> Optional[Union[tf.Tensor, np.ndarray]]:
    """What the map `op` draws by; None where it does anything else than to draw one number for two random seeds."""
    if op.type not in MAPS or op.get_attr("f").name not in functions:
        return None
    pairs = op.inputs[0].op
    is_batch = pairs.type == "BatchDatasetV2" and pairs.inputs[0].op.type in _RANDOM
    if not is_batch or tf.get_static_value(pairs.inputs[1]) != 2:
        return None
    function = DatasetFunction(functions[op.get_attr("f").name])
    squeeze = function.result()
    if squeeze is None or squeeze.op != "Squeeze" or list(squeeze.attr["squeeze_dims"].list.i) not in ([0, 1], []):
        return None
    draw = function.producer(squeeze.input[0])
    if draw is None or draw.op != "StatelessMultinomial" or draw.attr["output_dtype"].type != tf.int64.as_datatype_enum:
        return None
    logits, num_samples, seed = data_inputs(draw)
    if function.constant(num_samples) != 1 or not function.is_argument(seed, 0):
        return None
    outside = captured(op)
    found = outside[0] if outside and function.is_argument(logits, 1) else function.constant(logits)
    if found is None or found.dtype not in (tf.float32, tf.float64):
        return None
    return found


def _function(dtype: tf.DType) -> Any:
    """From seeds and logits to numbers."""
    definition = _compat.new_function_definition()
    definition.signature.name = f"tf_booster_draw_datasets_{dtype.name}"
    definition.signature.input_arg.add(name="seeds", type=tf.int64.as_datatype_enum)
    definition.signature.input_arg.add(name="logits", type=dtype.as_datatype_enum)
    definition.signature.output_arg.add(name="numbers", type=tf.int64.as_datatype_enum)
    node = definition.node_def.add(name="draw", op="TfBoosterDrawDatasets", input=["logits", "seeds"])
    node.attr["T"].type = dtype.as_datatype_enum
    definition.ret["numbers"] = "draw:numbers:0"
    return definition
