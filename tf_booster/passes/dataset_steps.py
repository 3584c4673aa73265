"""Ops of datasets between files and batches: their kinds, and their elements."""

from __future__ import annotations

from typing import List, Optional, Tuple

import tensorflow as tf

from tf_booster.passes.dataset_functions import Refused

MAPS = ("MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2")
BATCHES = {"BatchDatasetV2": (1, 2), "ParallelBatchDataset": (1, 3)}  # Inputs: batch_size, drop_remainder.
# Batches whose rows are made alike. Inputs: batch_size, then shapes and values of padding, drop_remainder.
PADDED_BATCH = "PaddedBatchDatasetV2"
# A map of single records and their batch in one.
MAP_AND_BATCH = "MapAndBatchDataset"
ALL_BATCHES = (*BATCHES, PADDED_BATCH, MAP_AND_BATCH)
# Batches of records that are not parsed, as the pass input_pipeline makes them.
BATCHES_OF_RECORDS = "TfBoosterTFRecordBatchDataset"
FILTER = "FilterDataset"
SHUFFLE_AND_REPEAT = "ShuffleAndRepeatDataset"
SHUFFLES = ("ShuffleDataset", "ShuffleDatasetV3", SHUFFLE_AND_REPEAT)
_OF_ANYTHING = (
    *SHUFFLES,
    "RepeatDataset",
    "TakeDataset",
    "SkipDataset",
    "ShardDataset",
    "OptionsDataset",
    "PrefetchDataset",
)
# Readers that do not tell what they give, which is one string after another.
_OF_STRINGS = (
    "TextLineDataset",
    "TFRecordDataset",
    "TFRecordDatasetV2",
    "FixedLengthRecordDataset",
    "FixedLengthRecordDatasetV2",
)


def check_order(op: tf.Operation, shared: bool) -> None:
    """Raises Refused for a shuffle or a cache that several datasets are made of, which would be made for each."""
    if shared and (_keeps_order(op) or is_cache(op)):
        raise Refused(
            f"'{op.name}' keeps an order for several datasets that are made of it, which each would have its own"
        )


def _keeps_order(op: tf.Operation) -> bool:
    """Whether a shuffle has one order for all iterators, drawn at random, or a sequence of orders by a seed that they share."""
    if op.type not in SHUFFLES:
        return False
    seeds = [tf.get_static_value(seed) for seed in op.inputs[2:4]]
    unknown = None in seeds and not any(seeds)  # tf.data computes the second one, lest both be 0.
    return unknown or any(seeds) == bool(op.get_attr("reshuffle_each_iteration"))


def is_cache(op: tf.Operation) -> bool:
    """Whether it is a cache of its own: not in files, nor one that eager programs have, which another dataset may read."""
    return op.type == "CacheDataset" and tf.get_static_value(op.inputs[1]) in (b"", "")


def is_of_anything(op: tf.Operation) -> bool:
    """Whether it picks, orders and hands on elements without looking at them."""
    return op.type in _OF_ANYTHING or is_cache(op)


def components(op: tf.Operation) -> List[Tuple[tf.DType, tf.TensorShape]]:
    """Type and shape of each component of an element; none of a dataset that does not tell."""
    if op.type in _OF_STRINGS:
        return [(tf.string, tf.TensorShape([]))]
    told = {attr.name for attr in op.op_def.attr}
    dtypes = next((op.get_attr(name) for name in ("output_types", "Toutput_types") if name in told), [])
    return [
        (dtype, tf.TensorShape(shape)) for dtype, shape in zip(dtypes, op.get_attr("output_shapes") if dtypes else [])
    ]


def element(op: tf.Operation) -> List[Optional[tf.TensorShape]]:
    """The shape of each component; None for a variant."""
    return [None if dtype == tf.variant else shape for dtype, shape in components(op)]


def batched_shapes(op: tf.Operation) -> List[tf.TensorShape]:
    """The shapes of a batch of what `op`, a map, gives; or of what `op`, a batch, gives."""
    single = op.type in MAPS
    shapes = [tf.TensorShape(None) if shape is None else shape for shape in element(op)]
    return [
        tf.TensorShape([None]).concatenate(shape) if single and shape.rank is not None else shape for shape in shapes
    ]


def static(shape: tf.TensorShape) -> Optional[Tuple[int, ...]]:
    """The sizes of `shape`; None where one is not known."""
    return tuple(shape.as_list()) if shape.is_fully_defined() else None


def captured(op: tf.Operation) -> List[tf.Tensor]:
    """What the function of a map or filter takes from outside."""
    return list(op.inputs)[1 : 1 + len(op.get_attr("Targuments"))]
