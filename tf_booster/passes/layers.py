"""What stands behind a product in a layer: its bias and its Relu."""

from __future__ import annotations

from typing import Callable, Optional

import tensorflow as tf


def next_reader(op: tf.Operation, wanted: Callable[[tf.Operation], bool]) -> Optional[tf.Operation]:
    """The one op that reads the values of `op` and waits for nothing else, if it is wanted. Whoever reads the shape does not count."""
    readers = [reader for reader in op.outputs[0].consumers() if reader.type != "Shape"]
    if len(readers) != 1 or readers[0].control_inputs or readers[0].device != op.device:
        return None
    return readers[0] if wanted(readers[0]) else None


def adds_bias(op: tf.Operation, product: tf.Operation) -> bool:
    """Whether `op` adds one number to each column of `product`."""
    if op.type == "BiasAdd":
        return op.inputs[0].op is product and is_by_column(op)
    if op.type not in ("Add", "AddV2") or op.inputs[0].op is not product:
        return False
    columns = product.outputs[0].shape.as_list()[1]
    return columns is not None and op.inputs[1].shape.as_list() == [columns] if op.inputs[1].shape.rank == 1 else False


def is_by_column(op: tf.Operation) -> bool:
    """Whether a BiasAdd, or its gradient, has the last dimension for its columns."""
    return op.get_attr("data_format") == b"NHWC"
