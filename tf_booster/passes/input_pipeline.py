"""Puts TFRecordExampleDataset under existing input pipelines: TFRecordDataset → (shuffle, repeat, …) → batch → map(parse), or
map(parse) → (shuffle, repeat, …) → batch. Of lines that decode_csv decodes, or that are split, it makes batches before, in place of behind:
TextLineBatchDataset does, where it can stand for all from the files to the batch; of the records of a CsvDataset, too. Batches of records
that are left then, which are parsed in another way or later, it has made by TFRecordBatchDataset.

Only where elements, their order and errors stay the same. What the maps' functions do behind the parse stays in maps.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Sequence, Union

import tensorflow as tf

from tf_booster import _compat
from tf_booster.data.record_batches import record_batches_op
from tf_booster.passes import (
    batched_first,
    csv_files,
    example_lists,
    file_readers,
    live_datasets,
    made_datasets,
    maps_of_branches,
    maps_of_files,
    one_shot_iterators,
    record_pipelines,
    sampled_datasets,
    serialized_pipelines,
    sliced_tensors,
)
from tf_booster.passes.base import Pass, PassResult
from tf_booster.passes.batched_first import BatchedFirst, EarlierFilter
from tf_booster.passes.dataset_functions import Refused
from tf_booster.passes.dataset_steps import MAP_AND_BATCH, MAPS
from tf_booster.passes.example_lists import ListPipeline
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.inlined_functions import PARSE, function_of, runs
from tf_booster.passes.line_pieces import SPLITS
from tf_booster.passes.record_pipelines import RecordPipeline
from tf_booster.passes.row_functions import DECODE_CSV
from tf_booster.passes.row_parses import OWN_PARSE
from tf_booster.passes.row_sequences import PARSE_SEQUENCE
from tf_booster.passes.serialized_pipelines import SerializedPipeline
from tf_booster.passes.string_batches import BatchesOfFiles

_Pipeline = Union[RecordPipeline, BatchedFirst, ListPipeline]


class InputPipeline(Pass):
    """One op from files to parsed batches, in place of a dataset for each step."""

    name = "input_pipeline"
    seeks = (
        "records of TFRecord files that are batched (TFRecordDataset), "
        "or lines that a map decodes (tf.io.decode_csv) or splits (tf.strings.split), or a CsvDataset; other inputs are left as they are"
    )

    def requires(self, view: GraphView) -> bool:
        return bool(
            _maps(view)
            or one_shot_iterators.iterators(view)
            or _parses_inside(view)
            or _csv_files(view)
            or _batches_of_records(view)
            or sliced_tensors.sources(view, [])
        )

    def run(self, view: GraphView) -> PassResult:
        result = replace_pipelines(view, self.name)
        for op in one_shot_iterators.iterators(view):
            inside = one_shot_iterators.change_dataset(view, op, lambda body: replace_pipelines(body, self.name))
            result.changes += [f"{op.name}: {change}" for change in inside.changes]
            result.skipped += [(f"{op.name}: {name}", why) for name, why in inside.skipped]
        result.modified = bool(result.changes)
        return result

    def ensures(self, view: GraphView) -> None:
        """What was replaced has no consumers any more; run() redirected them all."""


def replace_pipelines(view: GraphView, name: str) -> PassResult:
    """Replaces what can be among the datasets of `view`, the body of a function or a graph, and says why not."""
    result = PassResult(name)
    found: List[_Pipeline] = []
    for op in maps_of_branches.joins(view):
        try:
            found += _match_inside(view, op, maps_of_branches.moved_behind, _match)
        except Refused as refusal:
            result.skipped.append((op.name, str(refusal)))
    functions = _compat.functions_by_name(view.graph)
    for op in _maps(view):
        try:
            found += _match(op, functions)
        except Refused as refusal:
            result.skipped.append((op.name, str(refusal)))
    for op in _parses_inside(view):
        try:
            found += _match_inside(view, op, maps_of_files.moved_behind, _match)
        except Refused as refusal:
            result.skipped.append((op.name, str(refusal)))
    for op in _csv_files(view):
        try:
            found += _match_inside(
                view, op, csv_files.moved_behind, functools.partial(batched_first.match, of_csv=True)
            )
        except Refused as refusal:
            result.skipped.append((op.name, str(refusal)))
    for op in sliced_tensors.sources(view, [pipeline.end for pipeline in found]):
        slices = sliced_tensors.match(view, op)
        found += slices.pipelines
        result.skipped += slices.skipped
    by_end: Dict[tf.Operation, _Pipeline] = {}
    for pipeline in found:
        by_end.setdefault(
            pipeline.end, pipeline
        )  # Of several maps that parse or decode the first one's, which has them all.
    for pipeline in by_end.values():
        with view.inserting(pipeline.end.device), tf.name_scope("tf_booster/input_pipeline/"):
            if isinstance(pipeline, BatchedFirst):
                _decode_batches(view, pipeline)
            elif isinstance(pipeline, ListPipeline):
                _put_maps(view, pipeline, pipeline.end.inputs[0])
            else:
                _replace(view, pipeline)
        result.changes.append(f"{pipeline.end.name}: {pipeline.describe()}")
    _batch_serialized(view, result)
    for op, logits in sampled_datasets.draws(view).items():
        with view.inserting(op.device), tf.name_scope("tf_booster/input_pipeline/"):
            sampled_datasets.draw_many(view, op, logits)
        result.changes.append(f"{op.name}: the numbers by which it chooses among datasets are drawn many at a time")
    result.modified = bool(result.changes)
    return result


def _batch_serialized(view: GraphView, result: PassResult) -> None:
    """Replaces batches of records that no other pipeline has taken, and adds to `result` what came of it."""
    batches = _batches_of_records(view)
    functions = _compat.functions_by_name(view.graph) if batches else {}
    for batch in batches:
        try:
            pipeline = serialized_pipelines.match(batch, functions)
        except Refused as refusal:
            told = {name for name, _ in result.skipped}.intersection(
                op.name for op in serialized_pipelines.steps_before(batch)
            )
            if not told and str(refusal) not in [why for _, why in result.skipped]:  # Once is enough.
                result.skipped.append((batch.name, str(refusal)))
            continue
        with view.inserting(batch.device), tf.name_scope("tf_booster/input_pipeline/"):
            _replace_batch(view, pipeline)
        result.changes.append(f"{batch.name}: {pipeline.describe()}")


def _match(op: tf.Operation, functions: Dict[str, Any]) -> List[_Pipeline]:
    """The pipelines that parse or decode in the map `op`. Raises Refused."""
    function = function_of(op, functions)
    if function.of_type(PARSE) and function.of_type(example_lists.DECODE):
        return [example_lists.match(op, function, functions)]
    if function.of_type(PARSE):
        return _match_parse(op, functions)
    return list(
        batched_first.match(op, functions) if function.of_type(DECODE_CSV, OWN_PARSE, PARSE_SEQUENCE, *SPLITS) else []
    )


def _match_parse(op: tf.Operation, functions: Dict[str, Any]) -> List[_Pipeline]:
    """The same of a map that parses Examples: from their files on, or, where they come from elsewhere, batched before it."""
    try:
        return list(record_pipelines.match(op, functions))
    except Refused:
        try:
            found = list(batched_first.match(op, functions))
        except Refused:
            found = []
        if not found:
            raise
        return found


def _maps(view: GraphView) -> List[tf.Operation]:
    """The maps that something reads, but for those that this pass made."""
    return [op for op in view.ops(*MAPS, MAP_AND_BATCH) if not view.originals(op) and live_datasets.is_read(op)]


def _parses_inside(view: GraphView) -> List[tf.Operation]:
    """The datasets of files that parse or decode in functions of theirs."""
    found = [op for op in view.ops(*file_readers.TYPES) if live_datasets.is_read(op)]
    functions = _compat.functions_by_name(view.graph) if found else {}
    return [op for op in found if runs(op, [PARSE, PARSE_SEQUENCE, DECODE_CSV, *SPLITS], functions)]


def _csv_files(view: GraphView) -> List[tf.Operation]:
    """What reads a CsvDataset, or is one."""
    return [op for op in csv_files.readers(view, _compat.functions_by_name(view.graph)) if live_datasets.is_read(op)]


def _batches_of_records(view: GraphView) -> List[tf.Operation]:
    """The batches of TFRecord files, whatever is done to the records before."""
    found = [op for op in serialized_pipelines.batches(view) if not view.originals(op)]
    functions = _compat.functions_by_name(view.graph) if found else {}
    return [op for op in found if serialized_pipelines.is_of_records(op, functions)]


def _match_inside(
    view: GraphView,
    op: tf.Operation,
    moved_behind: Callable[..., List[tf.Operation]],
    match: Callable[..., Sequence[Any]],
) -> List[_Pipeline]:
    """The pipelines that parse or decode in `op`, which then is another dataset with maps behind it. Raises Refused.

    moved_behind: makes those. match: finds the pipelines of a map.
    """
    with view.inserting(op.device), tf.name_scope("tf_booster/input_pipeline/"):
        maps = moved_behind(view, op, _compat.functions_by_name(view.graph))
    functions = _compat.functions_by_name(view.graph)
    old, new = op.outputs[0], maps[-1].outputs[0]
    view.redirect(old, new, lambda reader: True)
    try:
        return [pipeline for map_op in maps for pipeline in match(map_op, functions)]
    except Refused:
        view.redirect(new, old, lambda reader: True)
        raise


def _replace(view: GraphView, pipeline: RecordPipeline) -> None:
    predicates = [stage.predicate for stage in pipeline.reading.stages if stage.predicate is not None]
    view.add_functions([predicate.definition for predicate in predicates])
    batches = record_batches_op(pipeline.files, pipeline.params, pipeline.reading, pipeline.batching)
    for step in pipeline.afterwards:
        batches = made_datasets.of_others(view, step, batches)
    _put_maps(view, pipeline, batches)


def _replace_batch(view: GraphView, pipeline: SerializedPipeline) -> None:
    made = pipeline.batches.make()
    for step in pipeline.options:
        made = made_datasets.of_others(view, step, made)
    view.redirect(pipeline.end.outputs[0], made)


def _decode_batches(view: GraphView, pipeline: BatchedFirst) -> None:
    made = pipeline.sources
    if isinstance(made, BatchesOfFiles):
        made = made.make()
    for step in pipeline.steps:
        of = made_datasets.earlier_filter if isinstance(step, EarlierFilter) else made_datasets.of_others
        made = of(view, step, made)
        view.note_originals(made.op, [step.like if isinstance(step, EarlierFilter) else step])
    _put_maps(view, pipeline, made)


def _put_maps(view: GraphView, pipeline: _Pipeline, batches: tf.Tensor) -> None:
    """Puts the maps of `batches` in place of what ended the pipeline."""
    end = pipeline.end
    for batch_map in pipeline.maps:
        batches = made_datasets.map_of(view, batch_map, batches)
        view.note_originals(batches.op, [batch_map.like if len(pipeline.maps) > 1 else end])
    view.redirect(end.outputs[0], batches)
