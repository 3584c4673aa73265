"""Finds lines → map(decode_csv, or string_split) → … → batch among the ops of datasets, and says why one cannot be changed.

Lines are batched first then, and decoded a batch at a time: TensorFlow pays for each field of each line that it decodes by itself. From
files to batches it is one op, TextLineBatchDataset, where that knows all the steps between, or TFRecordBatchDataset; else TensorFlow's own datasets, made again.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Sequence, Tuple, Union

import tensorflow as tf

from tf_booster.passes import live_datasets, record_steps, row_functions
from tf_booster.passes.batch_maps import BatchMap, maps_of_batches, row_of
from tf_booster.passes.dataset_functions import DatasetFunction, Refused
from tf_booster.passes.dataset_steps import (
    BATCHES,
    FILTER,
    MAP_AND_BATCH,
    MAPS,
    SHUFFLES,
    check_order,
    element,
    is_cache,
)
from tf_booster.passes.float_arithmetic import changed_by_grappler
from tf_booster.passes.inlined_functions import function_of
from tf_booster.passes.record_predicates import RecordFunction, composed_predicate, record_function
from tf_booster.passes.string_batches import BatchesOfFiles, of_files

# Steps that pick, order and hand on elements without looking at them.
_OF_ANYTHING = (*SHUFFLES, "RepeatDataset", "TakeDataset", "SkipDataset", "ShardDataset", "OptionsDataset")


@dataclasses.dataclass(frozen=True)
class LineFilter:
    """A filter of what was decoded, `like`, as one of lines. captured: what `definition` takes from outside, behind the lines."""

    like: tf.Operation
    definition: Any
    captured: Sequence[tf.Tensor]


@dataclasses.dataclass(frozen=True)
class TextPipeline:
    """A pipeline of lines. `end` gives what the last of `maps` will give, of what `steps` make of `lines`."""

    end: tf.Operation
    lines: Union[tf.Tensor, BatchesOfFiles]
    steps: Sequence[Union[tf.Operation, LineFilter]]  # To be made again, of lines or batches of them.
    maps: Sequence[BatchMap]

    def describe(self) -> str:
        """What changes."""
        batched_before = self.end is self.maps[-1].like
        decoded = "lines are decoded by one faster op" if batched_before else "lines are decoded a batch at a time"
        return f"{self.lines.describe()}; {decoded}" if isinstance(self.lines, BatchesOfFiles) else decoded


def match(map_op: tf.Operation, functions: Dict[str, Any], of_csv: bool = False) -> List[TextPipeline]:
    """The pipelines that decode lines in `map_op`: one for each batch of what it gives one by one. Raises Refused.

    of_csv: what `map_op` decodes is what TextLineBatchDataset alone can read.
    """
    if map_op.type == MAP_AND_BATCH:
        raise Refused("map_and_batch decodes its lines one by one; write map(…).batch(…)")
    values = element(map_op.inputs[0].op) if live_datasets.is_dataset(map_op.inputs[0].op) else []
    if not values or None in values:
        raise Refused("what its function gets is not lines, or SparseTensors and the like beside them")
    if any(shape.rank != 0 for shape in values):
        function = function_of(map_op, functions)
        return [_decoded_batches(map_op, function, functions)] if function.of_type(row_functions.DECODE_CSV) else []
    batches = live_datasets.batches_of(map_op, tuple(BATCHES), alone=of_csv)
    return [_batched(map_op, batch, functions, of_csv) for batch in batches]


def _decoded_batches(map_op: tf.Operation, function: DatasetFunction, functions: Dict[str, Any]) -> TextPipeline:
    """`map_op` decodes batches already, and goes on doing so."""
    live_datasets.check_above(map_op)
    definition = type(function.definition)()
    definition.CopyFrom(function.definition)
    definition.signature.name += "_of_lines"
    _decode_by_own_op(definition, single=False)
    lines, steps = map_op.inputs[0], []  # type: Union[tf.Tensor, BatchesOfFiles], List[tf.Operation]
    batch, between = record_steps.batch_behind(map_op)
    if batch.type in BATCHES:
        try:
            lines, records = _batches_of_files(batch, [batch, *between], functions)
            steps = record_steps.made_again(records, between)
        except Refused:  # TensorFlow goes on reading.
            pass
    return TextPipeline(map_op, lines, steps, [BatchMap(map_op, definition)])


def _batched(map_op: tf.Operation, batch: tf.Operation, functions: Dict[str, Any], of_csv: bool) -> TextPipeline:
    live_datasets.check_above(batch, single_records=True)
    steps, maps = [], []  # type: List[Union[tf.Operation, LineFilter]], List[RecordFunction]
    for op in _between(map_op, batch):
        if op.type in MAPS:
            maps.append(record_function(op, functions))
        elif op.type == FILTER:
            steps.append(_line_filter(maps, record_function(op, functions)))
        elif op.type != "PrefetchDataset":
            steps.append(op)
    first = [row_of(shape) for shape in element(map_op.inputs[0].op)]
    made = maps_of_batches(batch, maps, first, is_light=False)
    try:
        lines, records = _batches_of_files(batch, [], functions, [function.op for function in maps])
        return TextPipeline(batch, lines, records.options, made)
    except Refused:  # TensorFlow goes on reading.
        if of_csv:
            raise
        return TextPipeline(batch, map_op.inputs[0], [*steps, batch], made)


def _batches_of_files(
    batch: tf.Operation,
    behind: Sequence[tf.Operation],
    functions: Dict[str, Any],
    decoding: Sequence[tf.Operation] = (),
) -> Tuple[BatchesOfFiles, record_steps.Records]:
    """The lines of `batch`, or TFRecords that are lines, and its steps; see record_steps.records. Raises Refused.

    decoding: maps that will stand behind the batch.
    """
    found: List[Refused] = []
    for of_lines in (True, False):
        try:
            records = record_steps.records(batch, behind, functions, of_lines)
            steps = [op for op in records.steps if op not in decoding]
            return of_files(batch, records, steps, of_lines), records
        except Refused as refusal:
            found.append(refusal)
    raise found[0]


def _between(map_op: tf.Operation, batch: tf.Operation) -> List[tf.Operation]:
    """The datasets from `map_op` to `batch`, which is not among them. Raises Refused."""
    found: List[tf.Operation] = []
    shared = False
    op = batch
    while op is not map_op:
        op = op.inputs[0].op
        found.insert(0, op)
        shared = shared or live_datasets.num_readers(op) > 1
        check_order(op, shared)
        if op.type not in (*MAPS, *_OF_ANYTHING, FILTER, "PrefetchDataset") and not is_cache(op):
            raise Refused(f"between the lines and their batch stands {op.type} ('{op.name}')")
    return found


def _line_filter(maps: Sequence[RecordFunction], keeps: RecordFunction) -> LineFilter:
    definition = composed_predicate(maps, keeps)
    why = changed_by_grappler(definition)  # It is one function with the maps now.
    if why is not None:
        raise Refused(f"the filter '{keeps.op.name}' is not asked by itself: {why}")
    _decode_by_own_op(definition, single=True)
    return LineFilter(keeps.op, definition, [tensor for f in (*maps, keeps) for tensor in f.captured])


def _decode_by_own_op(definition: Any, single: bool) -> None:
    for node in definition.node_def:
        if node.op == row_functions.DECODE_CSV:
            row_functions.decode_by_own_op(node, single)
