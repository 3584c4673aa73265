"""tf.io.parse_single_example in a function of single records, made to parse the records of a batch."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple, Union

import numpy as np
import tensorflow as tf

from tf_booster.passes.dataset_functions import DatasetFunction, data_inputs, rename, set_messages
from tf_booster.passes.function_constants import constant_node, zero
from tf_booster.passes.inlined_functions import PARSE
from tf_booster.passes.record_tensors import Longer, NotByRow, Outside, Row, SparsePart

OWN_PARSE = "TfBoosterParseExample"
PARSES = (PARSE, OWN_PARSE)

_PARTS = {"sparse_indices": "indices", "sparse_values": "values", "sparse_shapes": "shape"}


def parsed(node: Any, tensor: str, inputs: Sequence[Any], pads: bool) -> Union[Row, Longer, SparsePart]:
    """What `tensor`, an output of the parse `node`, is. Has the node parse batches, with the errors of single records.

    Args:
      inputs: what is known of the node's inputs.
      pads: whether rows may be of different lengths.

    Raises:
      NotByRow: it is not what a batch of records gives.
    """
    if not isinstance(inputs[0], Row) or inputs[0].shape != ():
        raise NotByRow(f"'{node.name}' does not parse one record")
    names, sparse, dense, ragged = (_values(node, found) for found in inputs[1:5])
    if names.size:
        raise NotByRow(f"'{node.name}' names its record")
    if not all(isinstance(found, Outside) for found in inputs[5:]):
        raise NotByRow(f"the default values of '{node.name}' are not the same for all records")
    if ragged.size:
        raise NotByRow(f"feature '{_text(ragged[0])}' is ragged; single rows of different lengths make no batch")
    keys = [*sparse.tolist(), *dense.tolist()]
    if len(set(keys)) != len(keys):
        raise NotByRow(f"'{node.name}' parses a key twice")
    node.op = OWN_PARSE
    node.attr["single"].b = True
    _, output, place = tensor.split(":")
    if output in _PARTS:
        return SparsePart(f"{node.name}:sparse:{place}", _PARTS[output])
    shape = tf.TensorShape(node.attr["dense_shapes"].list.shape[int(place)])
    if shape.is_fully_defined():
        return Row(tuple(shape.as_list()))
    if pads:
        return Longer(tensor, tuple(shape.as_list()[1:]))
    key = _text(dense[int(place)])
    raise NotByRow(f"rows of feature '{key}' have no fixed length; parse batches of records, which pads them")


def lists_as_sparse(definition: Any) -> Any:
    """A FunctionDef whose parses give each FixedLenSequenceFeature of single values as a SparseTensor, which tells lengths, and make it dense."""
    made = type(definition)()
    made.CopyFrom(definition)
    function = DatasetFunction(made)
    for parse in function.of_type(*PARSES):
        _make_sparse(function, parse)
    return made


def _make_sparse(function: DatasetFunction, parse: Any) -> None:
    inputs = data_inputs(parse)
    sparse, dense = (function.constant(name) for name in (inputs[2], inputs[3]))
    shapes = [tf.TensorShape(shape) for shape in parse.attr["dense_shapes"].list.shape]
    lists = [i for i, shape in enumerate(shapes) if shape.rank == 1 and not shape.is_fully_defined()]
    if not lists or sparse is None or dense is None:
        return
    kept = [i for i in range(len(shapes)) if i not in lists]
    types = list(parse.attr["Tdense"].list.type)
    nodes: List[Any] = []
    renamed = {f"{parse.name}:dense_values:{i}": f"{parse.name}:dense_values:{n}" for n, i in enumerate(kept)}
    for n, i in enumerate(lists, len(sparse)):
        dtype = tf.as_dtype(types[i])
        default = constant_node(f"{parse.name}/default_{i}", zero(dtype))
        parts = [f"{parse.name}:sparse_{part}:{n}" for part in ("indices", "shapes", "values")]
        node = tf.compat.v1.NodeDef(
            name=f"{parse.name}/list_{i}", op="SparseToDense", input=[*parts, f"{default.name}:output:0"]
        )
        node.attr["T"].type, node.attr["Tindices"].type = types[i], tf.int64.as_datatype_enum
        nodes += [default, node]
        renamed[f"{parse.name}:dense_values:{i}"] = f"{node.name}:dense:0"
    definition = function.definition
    rename(definition, renamed)
    keys = {2: [*sparse.tolist(), *(dense[i] for i in lists)], 3: [dense[i] for i in kept]}
    for at, values in keys.items():
        nodes.append(constant_node(f"{parse.name}/keys_{at}", np.asarray(values, object)))
        inputs[at] = f"{nodes[-1].name}:output:0"
    controls = [name for name in parse.input if name.startswith("^")]
    parse.input[:] = [*inputs[:5], *(inputs[5 + i] for i in kept), *controls]
    parse.attr["num_sparse"].i = len(keys[2])
    parse.attr["sparse_types"].list.type.extend(types[i] for i in lists)
    parse.attr["Tdense"].list.type[:] = [types[i] for i in kept]
    set_messages(parse.attr["dense_shapes"].list.shape, [parse.attr["dense_shapes"].list.shape[i] for i in kept])
    definition.node_def.extend(nodes)


def default_of(node: Any, tensor: str) -> Tuple[int, tf.DType]:
    """Which input of the parse `node` is what rows of `tensor` are padded with, and of which type."""
    place = int(tensor.split(":")[2])
    return 5 + place, tf.as_dtype(node.attr["Tdense"].list.type[place])


def _values(node: Any, found: Any) -> np.ndarray:
    if not isinstance(found, Outside) or found.value is None:
        raise NotByRow(f"keys or names of '{node.name}' are not constants")
    return found.value


def _text(key: Any) -> str:
    return key.decode() if isinstance(key, bytes) else str(key)
