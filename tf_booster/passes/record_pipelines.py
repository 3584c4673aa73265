"""Finds files → records → batch → map(parse), or → map(parse) → batch, among the ops of datasets, and says why one cannot be
replaced."""

from __future__ import annotations

import dataclasses
import functools
import types
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
import tensorflow as tf

from tf_booster.data import record_stages
from tf_booster.data.record_batches import Batching, Reading
from tf_booster.passes import (
    file_readers,
    live_datasets,
    parsed_functions,
    record_steps,
    record_tensors,
)
from tf_booster.passes.batch_maps import (
    BatchMap,
    functions_of_maps,
    map_of_padded_batches,
    maps_of_batches,
    row_of,
    with_lengths,
)
from tf_booster.passes.dataset_functions import DatasetFunction, Refused, data_inputs
from tf_booster.passes.dataset_steps import (
    ALL_BATCHES,
    BATCHES,
    BATCHES_OF_RECORDS,
    FILTER,
    MAP_AND_BATCH,
    MAPS,
    PADDED_BATCH,
)
from tf_booster.passes.float_arithmetic import changed_by_grappler
from tf_booster.passes.inlined_functions import PARSE, function_of
from tf_booster.passes.record_predicates import RecordFunction, predicate_of, record_function


@dataclasses.dataclass(frozen=True)
class RecordPipeline:
    """A pipeline that TFRecordExampleDataset can stand in for. `end` gives what the last of `maps` will give."""

    end: tf.Operation
    maps: Sequence[BatchMap]
    params: Any  # The features, as record_batches_op takes them.
    files: tf.Tensor
    reading: Reading
    batching: Batching
    # OptionsDatasets among the steps, and what is made of batches behind the batch, first the one nearest to the files.
    afterwards: Sequence[tf.Operation] = ()

    def describe(self) -> str:
        """The steps that become one op."""
        stages = [stage.name for stage in self.reading.stages]
        steps = ["parse", *stages, "batch"] if self.batching.single_examples else [*stages, "batch", "parse"]
        return f"files, {', '.join(steps[:-1])} and {steps[-1]} are one op, TFRecordExampleDataset"


def match(map_op: tf.Operation, functions: Dict[str, Any]) -> List[RecordPipeline]:
    """The pipelines that parse in `map_op`: one, or one for each batch of what it parses one by one. Raises Refused."""
    if map_op.type == MAP_AND_BATCH:
        return [_parsed_batched(map_op, functions, lengths=False)]
    batch, between = record_steps.batch_behind(map_op)
    if batch.type in BATCHES:
        return [_batches_parsed(map_op, batch, between, functions)]
    if batch.type == BATCHES_OF_RECORDS:
        _parse(function_of(map_op, functions))  # Most often says why the parse was left when the batch was replaced.
        raise Refused("its batches are made by TFRecordBatchDataset already")
    if _is_made_of_batches(batch):
        raise Refused(f"between batch and parse stands {batch.type} ('{batch.name}'); parse right behind the batch")
    return [
        with_lengths(functools.partial(_parsed_batched, batch, functions))
        for batch in live_datasets.batches_of(map_op, ALL_BATCHES)
    ]


def _is_made_of_batches(op: tf.Operation) -> bool:
    while op.inputs and op.type not in (*file_readers.TYPES, *BATCHES, BATCHES_OF_RECORDS):
        op = op.inputs[0].op
    return op.type in (*BATCHES, BATCHES_OF_RECORDS)


def _batches_parsed(
    map_op: tf.Operation, batch: tf.Operation, between: List[tf.Operation], functions: Dict[str, Any]
) -> RecordPipeline:
    live_datasets.check_above(map_op)
    function = function_of(map_op, functions)
    parse, params = _parse(function)
    records = record_steps.records(batch, [batch, *between], functions)
    for step in records.steps:
        if step.type in MAPS:
            raise Refused(f"records are changed by '{step.name}' before they are parsed")
        _check_parsed(step, False)
    definition = parsed_functions.of_parsed(function, parse, params)
    parsed_functions.tell_shapes(definition, params)
    arguments = [argument.name for argument in definition.signature.input_arg]
    why = changed_by_grappler(definition, [arguments[i] for i in definition.arg_attr])
    if why is not None:
        raise Refused(f"the function of '{map_op.name}' is left as it is: {why}")
    made = [BatchMap(map_op, definition)]
    afterwards = record_steps.made_again(records, between)
    reading = dataclasses.replace(
        records.reading, stages=tuple(s for op in records.steps for s in record_steps.stages(op))
    )
    return RecordPipeline(map_op, made, params, records.files, reading, record_steps.batching(batch), afterwards)


def _parsed_batched(batch: tf.Operation, functions: Dict[str, Any], lengths: bool) -> RecordPipeline:
    records = record_steps.records(batch, [], functions)
    if batch.type == MAP_AND_BATCH:
        records.steps.append(batch)
    functions_of = functions_of_maps(batch, records.steps, functions, lengths)
    first = next(iter(functions_of))
    function = DatasetFunction(functions_of[first].definition)
    parse, params = _parse(function)
    pads = batch.type == PADDED_BATCH
    features = _features(params, longer=pads)
    live_datasets.check_above(batch, single_records=True, sparse=bool(params.sparse_keys) and not pads)
    stages: List[record_stages.Stage] = []
    maps: List[RecordFunction] = []
    for op in records.steps:
        _check_parsed(op, bool(maps))
        if op.type == FILTER:
            stages.append(record_stages.keep(predicate_of(features, maps, record_function(op, functions))))
        elif op.type not in (*MAPS, MAP_AND_BATCH):
            stages += record_steps.stages(op)
        else:
            maps.append(functions_of[op])
            if op is first:
                of_parsed = parsed_functions.of_parsed(function, parse, params)
                maps[0] = dataclasses.replace(maps[0], definition=of_parsed)
    if pads:
        map_of_batches, padded = map_of_padded_batches(batch, maps, list(features.values()), is_light=True)
        made, params = [map_of_batches], _padded_by(params, {list(features)[i]: value for i, value in padded.items()})
    else:
        made = maps_of_batches(batch, maps, list(features.values()), is_light=True)
    batching = dataclasses.replace(record_steps.batching(batch), single_examples=True)
    reading = dataclasses.replace(records.reading, stages=tuple(stages))
    return RecordPipeline(batch, made, params, records.files, reading, batching, records.options)


def _features(params: Any, longer: bool) -> Dict[str, Any]:
    """What is known of each parsed feature of a record, by key, sorted. longer: whether rows may be of different lengths."""
    if params.ragged_keys:
        raise Refused(f"feature '{params.ragged_keys[0]}' is ragged; single rows of different lengths make no batch")
    found: Dict[str, Any] = {key: record_tensors.Row(None) for key in params.sparse_keys}
    for key, shape in zip(params.dense_keys, params.dense_shapes):
        if shape.is_fully_defined():
            found[key] = row_of(shape)
        elif longer:
            found[key] = record_tensors.Longer(key, tuple(shape.as_list()[1:]))
        else:
            raise Refused(f"rows of feature '{key}' have no fixed length; parse batches of records, which pads them")
    return dict(sorted(found.items()))


def _padded_by(params: Any, pads: Dict[str, np.ndarray]) -> Any:
    """`params` with these values to pad rows with, by key."""
    defaults = [
        tf.constant(pads[key], dtype, [1]) if key in pads else default
        for key, dtype, default in zip(params.dense_keys, params.dense_types, params.dense_defaults_vec)
    ]
    return types.SimpleNamespace(**{**vars(params), "dense_defaults_vec": defaults})


def _check_parsed(op: tf.Operation, parsed: bool) -> None:
    if op.type == FILTER and not parsed:
        raise Refused(f"records are filtered by '{op.name}' before they are parsed; filter them behind the parse")


def _parse(function: DatasetFunction) -> Tuple[Any, Any]:
    parses = function.of_type(PARSE)
    if len(parses) != 1:
        raise Refused(f"its function parses {len(parses)} times; wanted one tf.io.parse_example")
    parse = parses[0]
    inputs = data_inputs(parse)
    if not function.is_argument(inputs[0], 0):
        raise Refused("what it parses is not the records themselves")
    readers = function.readers(function.arguments[0])
    if [reader.name for reader in readers] != [parse.name] or function.arguments[0] in function.definition.ret.values():
        raise Refused("its function uses the serialized records beside parsing them")
    names, sparse, dense, ragged = (function.constant(name) for name in inputs[1:5])
    defaults = [function.constant(name) for name in inputs[5:]]
    if any(value is None for value in (names, sparse, dense, ragged, *defaults)) or names.size:
        raise Refused("keys, default values or names of its parse are not constants")
    keys = [[key.decode() for key in value.tolist()] for value in (sparse, dense, ragged)]
    if len(set(sum(keys, []))) != sum(map(len, keys)):
        raise Refused("a key is parsed twice")
    attr = parse.attr
    params = types.SimpleNamespace(
        sparse_keys=keys[0],
        sparse_types=_dtypes(attr["sparse_types"]),
        dense_keys=keys[1],
        dense_types=_dtypes(attr["Tdense"]),
        dense_shapes=[tf.TensorShape(shape) for shape in attr["dense_shapes"].list.shape],
        dense_shapes_as_proto=list(attr["dense_shapes"].list.shape),
        dense_defaults_vec=defaults,
        ragged_keys=keys[2],
        ragged_value_types=_dtypes(attr["ragged_value_types"]),
        ragged_split_types=_dtypes(attr["ragged_split_types"]),
    )
    return parse, params


def _dtypes(attr: Any) -> List[tf.DType]:
    return [tf.as_dtype(number) for number in attr.list.type]
