"""tf.io.parse_single_sequence_example in a function of single records, made to parse the records of a batch.

TensorFlow's op takes one record or a batch of them: the node stays what it is.
"""

from __future__ import annotations

from typing import Any, Sequence, Tuple, Union

import tensorflow as tf

from tf_booster.passes.record_tensors import Longer, NotByRow, Outside, Row, SparsePart

PARSE_SEQUENCE = "ParseSequenceExampleV2"

_LISTS = "feature_list_dense_values"
_LENGTHS = "feature_list_dense_lengths"
_PARTS = {"indices": "indices", "values": "values", "shapes": "shape"}


def parsed(node: Any, tensor: str, inputs: Sequence[Any], pads: bool) -> Union[Row, Longer, SparsePart]:
    """What `tensor`, an output of the parse `node`, is of each record.

    Args:
      inputs: what is known of the node's inputs.
      pads: whether rows may be of different lengths.

    Raises:
      NotByRow: it is not what a batch of records gives.
    """
    if not isinstance(inputs[0], Row) or inputs[0].shape != ():
        raise NotByRow(f"'{node.name}' does not parse one record")
    if not all(isinstance(found, Outside) for found in inputs[1:]):
        raise NotByRow(f"the keys, names or default values of '{node.name}' are not the same for all records")
    if inputs[1].value is None or inputs[1].value.size:
        raise NotByRow(f"'{node.name}' names its record")
    if node.attr["context_ragged_value_types"].list.type or node.attr["feature_list_ragged_value_types"].list.type:
        raise NotByRow(f"'{node.name}' parses ragged features; single rows of different lengths make no batch")
    _, output, place = tensor.split(":")
    if output == "context_dense_values":
        shape = tf.TensorShape(node.attr["context_dense_shapes"].list.shape[int(place)])
        if not shape.is_fully_defined():
            raise NotByRow(f"a feature of the context of '{node.name}' has no fixed shape")
        return Row(tuple(shape.as_list()))
    if output == _LISTS:
        if not pads:
            raise NotByRow(f"feature lists of '{node.name}' have no fixed length; padded_batch would pad them")
        shape = tf.TensorShape(node.attr["feature_list_dense_shapes"].list.shape[int(place)])
        return Longer(tensor, tuple(shape.as_list()))
    if output == _LENGTHS:
        return Row(())
    kind, part = output.rsplit("_", 1)
    return SparsePart(f"{node.name}:{kind}:{place}", _PARTS[part], of_steps=kind == "feature_list_sparse")


def told_of_lists(node: Any, tensor: str) -> Tuple[str, tf.DType]:
    """The tensor that tells how long the lists `tensor` of the parse `node` are, and their type; they are padded with its zero."""
    name, _, place = tensor.split(":")
    return f"{name}:{_LENGTHS}:{place}", tf.as_dtype(node.attr["feature_list_dense_types"].list.type[int(place)])
