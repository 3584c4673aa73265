"""tf.io.parse_single_example in a function of single records, made to parse the records of a batch."""

from __future__ import annotations

from typing import Any, Sequence, Tuple, Union

import numpy as np
import tensorflow as tf

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
        return SparsePart(f"{node.name}:{place}", _PARTS[output])
    shape = tf.TensorShape(node.attr["dense_shapes"].list.shape[int(place)])
    if shape.is_fully_defined():
        return Row(tuple(shape.as_list()))
    if pads:
        return Longer(tensor, tuple(shape.as_list()[1:]))
    key = _text(dense[int(place)])
    raise NotByRow(f"rows of feature '{key}' have no fixed length; parse batches of records, which pads them")


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
