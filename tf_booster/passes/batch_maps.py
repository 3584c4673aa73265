"""Maps of single records that are maps of batches of them."""

from __future__ import annotations

import dataclasses
from typing import Any, List, Optional, Sequence

import tensorflow as tf

from tf_booster.passes import parsed_functions, record_tensors, row_functions
from tf_booster.passes.dataset_functions import Refused
from tf_booster.passes.dataset_steps import batched_shapes, element, static
from tf_booster.passes.record_predicates import RecordFunction


@dataclasses.dataclass(frozen=True)
class BatchMap:
    """A map of batches. definition: its function. is_light: it has so little to do for a batch that it needs no threads of its own."""

    like: tf.Operation
    definition: Any
    output_shapes: Optional[List[tf.TensorShape]] = None  # None: those of `like`.
    is_light: bool = False


def maps_of_batches(
    batch: tf.Operation, maps: Sequence[RecordFunction], first: Sequence[Any], is_light: bool
) -> List[BatchMap]:
    """The maps of what `batch` will give, which has stood behind `maps`. first: what is known of an element of the first.

    Raises:
      Refused: a function is not known to compute each record by itself.
    """
    made = []
    for function in maps:
        op = function.op
        values = first if function is maps[0] else [row_of(shape) for shape in element(op.inputs[0].op)]
        try:
            definition = row_functions.batched(function.definition, [*values, *function.outside])
        except record_tensors.NotByRow as error:
            raise left_for_single(op, error) from error
        parsed_functions.forward(definition)
        shapes = batched_shapes(op if function is not maps[-1] else batch)
        made.append(BatchMap(op, definition, shapes, is_light))
    return made


def row_of(shape: Optional[tf.TensorShape]) -> record_tensors.Row:
    """What is known of a tensor of that shape in a record; None: a variant."""
    return record_tensors.Row(None if shape is None else static(shape))


def left_for_single(op: tf.Operation, error: Exception) -> Refused:
    """Why the map `op` stays one of single records."""
    return Refused(f"the function of '{op.name}' is left for single records: {error}")
