"""Finds lines → map(decode_csv) → … → batch among the ops of datasets, and says why one cannot be changed.

Lines are batched first then, by TensorFlow's own datasets, and decoded a batch at a time: TensorFlow pays for each field of each line
that it decodes by itself.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Sequence

import tensorflow as tf

from tf_booster.passes import live_datasets, row_functions
from tf_booster.passes.batch_maps import BatchMap, maps_of_batches, row_of
from tf_booster.passes.dataset_functions import DatasetFunction, Refused
from tf_booster.passes.dataset_steps import BATCHES, MAP_AND_BATCH, MAPS, SHUFFLES, element, is_cache, keeps_order
from tf_booster.passes.inlined_functions import function_of
from tf_booster.passes.record_predicates import record_function

# Steps that pick, order and hand on elements without looking at them.
_OF_ANYTHING = (*SHUFFLES, "RepeatDataset", "TakeDataset", "SkipDataset", "ShardDataset", "OptionsDataset")


@dataclasses.dataclass(frozen=True)
class TextPipeline:
    """A pipeline of lines. `end` gives what the last of `maps` will give, of what `steps` make of `lines`."""

    end: tf.Operation
    lines: tf.Tensor
    steps: Sequence[tf.Operation]  # To be made again, of lines; the last one is the batch.
    maps: Sequence[BatchMap]

    def describe(self) -> str:
        """What changes."""
        return "lines are decoded a batch at a time" if self.steps else "lines are decoded by one faster op"


def match(map_op: tf.Operation, functions: Dict[str, Any]) -> List[TextPipeline]:
    """The pipelines that decode lines in `map_op`: one for each batch of what it gives one by one. Raises Refused."""
    if map_op.type == MAP_AND_BATCH:
        raise Refused("map_and_batch decodes its lines one by one; write map(…).batch(…)")
    values = element(map_op.inputs[0].op) if live_datasets.is_dataset(map_op.inputs[0].op) else []
    if not values or None in values:
        raise Refused("what its function gets is not lines, or SparseTensors and the like beside them")
    if any(shape.rank != 0 for shape in values):
        return [_decoded_batches(map_op, function_of(map_op, functions))]
    return [_batched(map_op, batch, functions) for batch in live_datasets.batches_of(map_op, tuple(BATCHES))]


def _decoded_batches(map_op: tf.Operation, function: DatasetFunction) -> TextPipeline:
    """`map_op` decodes batches already, and goes on doing so."""
    live_datasets.check_above(map_op)
    definition = type(function.definition)()
    definition.CopyFrom(function.definition)
    definition.signature.name += "_of_lines"
    for node in definition.node_def:
        if node.op == row_functions.DECODE_CSV:
            row_functions.decode_by_own_op(node, single=False)
    return TextPipeline(map_op, map_op.inputs[0], [], [BatchMap(map_op, definition)])


def _batched(map_op: tf.Operation, batch: tf.Operation, functions: Dict[str, Any]) -> TextPipeline:
    live_datasets.check_above(batch, single_records=True)
    steps, maps = [batch], []  # type: List[tf.Operation], List[RecordFunction]
    shared = live_datasets.num_readers(batch.inputs[0].op) > 1
    op = batch.inputs[0].op
    while True:
        shared = shared or live_datasets.num_readers(op) > 1
        if shared and (keeps_order(op) or is_cache(op)):
            raise Refused(
                f"'{op.name}' keeps an order for several datasets that are made of it, which each would have its own"
            )
        if op.type in MAPS:
            maps.insert(0, record_function(op, functions))
            if op is map_op:
                break
        elif op.type in _OF_ANYTHING or is_cache(op):
            steps.insert(0, op)
        elif op.type != "PrefetchDataset":
            raise Refused(f"between decode_csv and batch stands {op.type} ('{op.name}')")
        op = op.inputs[0].op
    first = [row_of(shape) for shape in element(map_op.inputs[0].op)]
    return TextPipeline(batch, map_op.inputs[0], steps, maps_of_batches(batch, maps, first, is_light=False))
