"""Functions of maps that parse, made to functions of what is parsed already."""

from __future__ import annotations

from typing import Any, Dict, List

import tensorflow as tf

from tf_booster.passes.dataset_functions import DatasetFunction, data_inputs, prune, set_messages


def of_parsed(function: DatasetFunction, parse: Any, params: Any) -> Any:
    """A FunctionDef that computes what `function` does, with the parsed features for arguments in place of the records.

    The arguments are as RecordBatches lays an element out: keys sorted, what is not dense as a variant; what the function takes
    from outside follows. `parse`: its ParseExampleV2. `params`: what that parses.
    """
    made = type(function.definition)()
    made.CopyFrom(function.definition)
    made.signature.name += "_of_parsed"
    made.arg_attr.clear()
    del made.signature.input_arg[0]
    keys = _keys(params)
    argument = {key: f"tf_booster_feature_{i}" for i, key in enumerate(keys)}
    dense_types = dict(zip(params.dense_keys, params.dense_types))
    arguments = []
    for key in keys:
        new = made.signature.input_arg.add(name=argument[key])
        new.type = dense_types.get(key, tf.variant).as_datatype_enum
        arguments.append(made.signature.input_arg.pop())
    set_messages(made.signature.input_arg, [*arguments, *made.signature.input_arg])
    renamed: Dict[str, str] = {
        f"{parse.name}:dense_values:{i}": argument[key] for i, key in enumerate(params.dense_keys)
    }
    kept = [node for node in made.node_def if node.name != parse.name]
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
    set_messages(made.node_def, kept)
    for output, tensor in list(made.ret.items()):
        made.ret[output] = renamed.get(tensor, tensor)
    forward(made)
    return made


def _keys(params: Any) -> List[str]:
    return sorted([*params.dense_keys, *params.sparse_keys, *params.ragged_keys])


def tell_shapes(definition: Any, params: Any) -> None:
    """Says which shapes the features have, in arguments of a function that of_parsed() made of one of batches.

    Grappler changes arithmetic by them: it would leave `log(x + 1)`, and gave the function a log1p when it parsed itself.
    """
    shapes = dict(zip(params.dense_keys, params.dense_shapes))
    for i, key in enumerate(_keys(params)):
        if key in shapes:
            shape = tf.TensorShape([None]).concatenate(shapes[key])
            definition.arg_attr[i].attr["_output_shapes"].list.shape.add().CopyFrom(shape.as_proto())


def forward(definition: Any) -> None:
    """Has results that are arguments be these, with no op between: tf.data then hands them on and calls no function.

    An Identity is none, nor is a SparseTensor that is only taken out of its variant and put back.
    """
    function = DatasetFunction(definition)
    for output, tensor in list(definition.ret.items()):
        definition.ret[output] = _source(function, tensor)
    prune(definition)


def _source(function: DatasetFunction, tensor: str) -> str:
    while True:
        tensor = function.behind_identities(tensor)
        node = function.nodes.get(tensor.split(":")[0])
        if node is None or node.op != "SerializeSparse":
            return tensor
        inputs = [function.behind_identities(name) for name in data_inputs(node)]
        taken = function.nodes.get(inputs[0].split(":")[0])
        if taken is None or taken.op != "DeserializeSparse":
            return tensor
        if inputs != [f"{taken.name}:sparse_{part}:0" for part in ("indices", "values", "shape")]:
            return tensor
        tensor = data_inputs(taken)[0]
