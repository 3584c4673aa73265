"""The steps from files to a batch, as what the dataset op at the start of a pipeline does to records, or to lines."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Sequence, Tuple

import tensorflow as tf

from tf_booster.data import record_stages
from tf_booster.data.record_batches import Batching, Reading
from tf_booster.passes import file_readers, live_datasets
from tf_booster.passes.dataset_functions import Refused
from tf_booster.passes.dataset_steps import (
    BATCHES,
    FILTER,
    MAP_AND_BATCH,
    MAPS,
    PADDED_BATCH,
    SHUFFLE_AND_REPEAT,
    SHUFFLES,
    check_order,
    is_cache,
)

# A dataset that changes no record and no order.
_PASSES_ON = ("PrefetchDataset", "OptionsDataset")
# What may be done to parsed batches as well: each is there, or not, as it is.
_OF_BATCHES = ("RepeatDataset", "TakeDataset")


def batch_behind(op: tf.Operation) -> Tuple[tf.Operation, List[tf.Operation]]:
    """The first dataset before `op` that may be a batch, and those between, which can be made of batches of anything."""
    between: List[tf.Operation] = []
    batch = op.inputs[0].op
    while batch.type in (*_PASSES_ON, *_OF_BATCHES):
        between.insert(0, batch)
        batch = batch.inputs[0].op
    return batch, between


def made_again(records_of: Records, between: Sequence[tf.Operation]) -> List[tf.Operation]:
    """What stands behind the one op that is put in place of all up to a batch and `between`."""
    return [*records_of.options, *(op for op in between if op.type != "PrefetchDataset")]


@dataclasses.dataclass(frozen=True)
class Records:
    """What a batch is made of. steps: maps and all that picks or orders records; they and `options` begin at the files."""

    files: tf.Tensor
    reading: Reading
    steps: List[tf.Operation]
    options: List[tf.Operation]


def records(
    batch: tf.Operation, behind: Sequence[tf.Operation], functions: Dict[str, Any], of_lines: bool = False
) -> Records:
    """The steps from files, TFRecord files or those of lines, to `batch`. behind: steps from the batch on that are replaced, but for the last.

    Raises:
      Refused: there are others.
    """
    steps: List[tf.Operation] = []
    options: List[tf.Operation] = []
    shared = any(live_datasets.num_readers(op) > 1 for op in behind)
    op = batch.inputs[0].op
    while op.type not in file_readers.TYPES:
        shared = shared or live_datasets.num_readers(op) > 1
        check_order(op, shared)
        if op.type not in _PASSES_ON:
            _check_step(op)
            steps.insert(0, op)
        options[:0] = _options(op)
        op = op.inputs[0].op
    return Records(op.inputs[0], file_readers.reading(op, functions, of_lines), steps, options)


def _check_step(op: tf.Operation) -> None:
    """Raises Refused for a dataset that is not known, before what comes before it is looked at."""
    if op.type not in (*MAPS, FILTER):
        stages(op)


def batching(op: tf.Operation) -> Batching:
    """How the batch `op` makes batches."""
    if op.type == PADDED_BATCH:
        return Batching(batch_size=op.inputs[1], drop_remainder=op.inputs[-1])
    if op.type == MAP_AND_BATCH:
        return Batching(batch_size=op.inputs[-3], drop_remainder=op.inputs[-1], errors_count=True)
    size, drop = (op.inputs[i] for i in BATCHES[op.type])
    return Batching(batch_size=size, drop_remainder=drop)


def _options(op: tf.Operation) -> List[tf.Operation]:
    return [op] if op.type == "OptionsDataset" else []


def _is_left_out(op: tf.Operation) -> bool:
    """Whether tf.data leaves the dataset out: a repeat that runs makes its input once more at the end, for which shuffles draw seeds."""
    return op.type == "RepeatDataset" and tf.get_static_value(op.inputs[1]) == 1


def stages(op: tf.Operation) -> List[record_stages.Stage]:
    """What the dataset `op`, no map and no filter, does to records. Raises Refused."""
    if op.type in SHUFFLES:
        size = tf.get_static_value(op.inputs[1])
        if size is None or size < 1:
            raise Refused("the size of the shuffle's buffer is not known")
        shuffle = record_stages.shuffle(
            *op.inputs[1:4],
            reshuffle_each_iteration=op.get_attr("reshuffle_each_iteration"),
            copies_share=op.type == "ShuffleDatasetV3",
        )
        if op.type != SHUFFLE_AND_REPEAT:
            return [shuffle]
        if not tf.get_static_value(op.inputs[4]):
            raise Refused("how often its shuffle_and_repeat repeats is not known, or 0, which is an error")
        return [shuffle, record_stages.repeat(op.inputs[4], of_shuffle=True)]
    if op.type == "RepeatDataset":
        if _is_left_out(op):
            return []
        source = op.inputs[0].op
        while _is_left_out(source):
            source = source.inputs[0].op
        return [record_stages.repeat(op.inputs[1], of_shuffle=source.type in SHUFFLES)]
    if is_cache(op):
        return [record_stages.cache()]
    simple = {"TakeDataset": "take", "SkipDataset": "skip", "ShardDataset": "shard"}
    if op.type not in simple:
        raise Refused(f"between files and batch stands {op.type} ('{op.name}')")
    if op.type == "ShardDataset" and op.get_attr("require_non_empty"):
        raise Refused("its shard asks to be not empty")
    return [record_stages.Stage(simple[op.type], tuple(op.inputs[1:]))]
