"""Finds elements → map(decode_csv, string_split, parse_single_example or parse_single_sequence_example) → … → batch among the ops of datasets, and says why one cannot be changed.

Elements are batched first then, and decoded a batch at a time: TensorFlow pays for each field of each line, or feature of each record,
that it decodes by itself. Lines that are read from files are batched by one op, TextLineBatchDataset, or TFRecordBatchDataset, where that knows
all the steps between; all else, whatever it comes from, by TensorFlow's own datasets, made again.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Dict, List, Sequence, Tuple, Union

import tensorflow as tf

from tf_booster.passes import live_datasets, record_steps, row_functions
from tf_booster.passes.batch_maps import (
    BatchMap,
    functions_of_maps,
    map_of_padded_batches,
    maps_of_batches,
    row_of,
    with_lengths,
)
from tf_booster.passes.dataset_functions import DatasetFunction, Refused
from tf_booster.passes.dataset_steps import (
    ALL_BATCHES,
    BATCHES,
    FILTER,
    MAP_AND_BATCH,
    MAPS,
    PADDED_BATCH,
    check_order,
    element,
    is_of_anything,
)
from tf_booster.passes.float_arithmetic import changed_by_grappler
from tf_booster.passes.inlined_functions import function_of
from tf_booster.passes.record_predicates import RecordFunction, composed_predicate, record_function
from tf_booster.passes.row_parses import PARSES
from tf_booster.passes.row_sequences import PARSE_SEQUENCE
from tf_booster.passes.string_batches import BatchesOfFiles, of_files


@dataclasses.dataclass(frozen=True)
class EarlierFilter:
    """A filter of what was decoded, `like`, as one of what that is decoded from. captured: what `definition` takes from outside, behind it."""

    like: tf.Operation
    definition: Any
    captured: Sequence[tf.Tensor]


@dataclasses.dataclass(frozen=True)
class BatchedFirst:
    """A pipeline of what maps decode. `end` gives what the last of `maps` will give, of what `steps` make of `sources`.

    steps: to be made again, of sources or batches of them; of a MAP_AND_BATCH the batch.
    done: what changes for the program, in words.
    """

    end: tf.Operation
    sources: Union[tf.Tensor, BatchesOfFiles]
    steps: Sequence[Union[tf.Operation, EarlierFilter]]
    maps: Sequence[BatchMap]
    done: str

    def describe(self) -> str:
        """What changes."""
        return f"{self.sources.describe()}; {self.done}" if isinstance(self.sources, BatchesOfFiles) else self.done


def match(map_op: tf.Operation, functions: Dict[str, Any], of_csv: bool = False) -> List[BatchedFirst]:
    """The pipelines that decode in `map_op`: one for each batch of what it gives one by one; none if it parses batches. Raises Refused.

    of_csv: what `map_op` decodes is what TextLineBatchDataset alone can read.
    """
    values = element(map_op.inputs[0].op) if live_datasets.is_dataset(map_op.inputs[0].op) else []
    if not values or None in values:
        raise Refused("what its function gets is not lines or records, or SparseTensors and the like beside them")
    function = function_of(map_op, functions)
    parses = bool(function.of_type(*PARSES, PARSE_SEQUENCE))
    if not parses and any(shape.rank != 0 for shape in values):
        return [_decoded_batches(map_op, function, functions)] if function.of_type(row_functions.DECODE_CSV) else []
    if not any(shape.rank == 0 for shape in values):
        return []
    done = f"{'records are parsed' if parses else 'lines are decoded'} a batch at a time"
    if map_op.type == MAP_AND_BATCH:
        batches = [map_op]
    else:
        batches = live_datasets.batches_of(map_op, ALL_BATCHES, alone=of_csv)
    return [batched(map_op, batch, functions, done, of_csv) for batch in batches]


def _decoded_batches(map_op: tf.Operation, function: DatasetFunction, functions: Dict[str, Any]) -> BatchedFirst:
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
    return BatchedFirst(map_op, lines, steps, [BatchMap(map_op, definition)], "lines are decoded by one faster op")


def batched(
    map_op: tf.Operation, batch: tf.Operation, functions: Dict[str, Any], done: str, of_csv: bool = False
) -> BatchedFirst:
    """The pipeline from `map_op` to `batch`. Raises Refused. done, of_csv: see BatchedFirst and match()."""
    return with_lengths(functools.partial(_batched, map_op, batch, functions, done, of_csv))


def _batched(
    map_op: tf.Operation, batch: tf.Operation, functions: Dict[str, Any], done: str, of_csv: bool, lengths: bool
) -> BatchedFirst:
    live_datasets.check_above(batch, single_records=True, sparse=None in element(batch))
    steps, maps = [], []  # type: List[Union[tf.Operation, EarlierFilter]], List[RecordFunction]
    way = _from_map_to_batch(map_op, batch)
    functions_of = functions_of_maps(batch, way, functions, lengths)
    for op in way:
        if op in functions_of:
            maps.append(functions_of[op])
        elif op.type == FILTER:
            steps.append(_earlier_filter(maps, record_function(op, functions)))
        elif op.type not in ("PrefetchDataset", *ALL_BATCHES):
            steps.append(op)
    given = element(map_op.inputs[0].op)
    if any(shape is not None and not shape.is_fully_defined() for shape in given):
        raise Refused(
            "beside its lines or records it gets tensors whose shape is not known, of which a batch might fail"
        )
    first = [row_of(shape) for shape in given]
    if batch.type == PADDED_BATCH:
        made = [map_of_padded_batches(batch, maps, first, is_light=False)[0]]
    else:
        made = maps_of_batches(batch, maps, first, is_light=False)
    try:
        if batch.type == MAP_AND_BATCH:
            raise Refused("the errors of a map_and_batch count as elements")
        sources, records = _batches_of_files(batch, [], functions, [function.op for function in maps])
        return BatchedFirst(batch, sources, records.options, made, done)
    except Refused:  # TensorFlow goes on reading.
        if of_csv:
            raise
        return BatchedFirst(batch, map_op.inputs[0], [*steps, batch], made, done)


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


def _from_map_to_batch(map_op: tf.Operation, batch: tf.Operation) -> List[tf.Operation]:
    """The datasets from `map_op` to `batch`, which may be one. Raises Refused."""
    found = [batch]
    shared = False
    op = batch
    while op is not map_op:
        op = op.inputs[0].op
        found.insert(0, op)
        shared = shared or live_datasets.num_readers(op) > 1
        check_order(op, shared)
        if op.type not in (*MAPS, FILTER) and not is_of_anything(op):
            raise Refused(f"between what is decoded and its batch stands {op.type} ('{op.name}')")
    return found


def _earlier_filter(maps: Sequence[RecordFunction], keeps: RecordFunction) -> EarlierFilter:
    definition = composed_predicate(maps, keeps)
    why = changed_by_grappler(definition)  # It is one function with the maps now.
    if why is not None:
        raise Refused(f"the filter '{keeps.op.name}' is not asked by itself: {why}")
    _decode_by_own_op(definition, single=True)
    return EarlierFilter(keeps.op, definition, [tensor for f in (*maps, keeps) for tensor in f.captured])


def _decode_by_own_op(definition: Any, single: bool) -> None:
    for node in definition.node_def:
        if node.op == row_functions.DECODE_CSV:
            row_functions.decode_by_own_op(node, single)
