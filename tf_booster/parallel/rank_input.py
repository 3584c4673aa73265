"""What input functions return, on several ranks: a Dataset becomes this rank's part of it, which goes on until all ranks have ended."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, List, Optional, Tuple

import tensorflow as tf

from tf_booster import _compat, log
from tf_booster.parallel import end_together, host_exchange, input_sharding, ranks, row_weights
from tf_booster.parallel.evaluation import MergeMetricsHook
from tf_booster.parallel.repeat_last import RepeatLast, made_up

NOTES = ("tf_booster", "rank_input")  # A graph's collection: what was done, in words.
_MODES = {
    tf.estimator.ModeKeys.TRAIN: "train",
    tf.estimator.ModeKeys.EVAL: "evaluate",
    tf.estimator.ModeKeys.PREDICT: "predict",
}
_wanted: Any = "auto"


def set_wanted(wanted: Any) -> None:
    """The option shard_input."""
    global _wanted
    _wanted = wanted


class RankInput(RepeatLast):
    """The dataset of a rank; `mode`: what for."""

    def __init__(self, dataset: tf.data.Dataset, fallback: tf.data.Dataset, mode: str) -> None:
        self.mode = mode
        super().__init__(dataset, fallback)


def call_input_fn(original: Any) -> Any:
    """Wraps Estimator._call_input_fn."""

    @functools.wraps(original)
    def _call_input_fn(self: Any, input_fn: Any, mode: str, input_context: Any = None) -> Any:
        result = original(self, input_fn, mode, input_context)
        if ranks.current().size == 1:
            return result
        with tf.device("/cpu:0"):
            return _of_rank(self, result, mode)

    return _call_input_fn


def parse_input_fn_result(original: Any) -> Any:
    """Wraps Estimator's parse_input_fn_result, which makes an iterator of what an input function returns."""

    @functools.wraps(original)
    def parse_input_fn_result(result: Any) -> Any:
        if not isinstance(result, RankInput):
            return original(result)
        element, (live, has_next), hooks = original(result)
        features, labels = _compat.features_and_labels(element)
        graph = tf.compat.v1.get_default_graph()
        with tf.name_scope("tf_booster/rank_input/"):
            rows = live * _rows(labels, features)
            weights = row_weights.RowWeights(rows, end_together.with_stop(graph, has_next))
            row_weights.register(graph, weights, trains=result.mode == tf.estimator.ModeKeys.TRAIN)
        if result.mode == tf.estimator.ModeKeys.EVAL:
            hooks = [*hooks, MergeMetricsHook(live, has_next)]
        return features, labels, hooks

    return parse_input_fn_result


def _of_rank(estimator: Any, result: Any, mode: str) -> Any:
    called = f"input_fn ({_MODES.get(mode, mode)})"
    if not isinstance(result, tf.data.Dataset):
        _note(
            f"{called}: it returned tensors, not a Dataset: each rank reads what its own gives; divide it by rank, or return a Dataset"
        )
        return result
    if _compat.distribution(estimator, mode) is not None:
        _note(f"{called}: a tf.distribute strategy divides it")
        return result
    if _wanted is False:
        _note(f"{called}: shard_input=False: each rank reads what its own input function gives")
        return RankInput(result, made_up(result), mode)
    return RankInput(*_sharded(result, mode, called, _compat.session_config(estimator)), mode)


def _sharded(
    dataset: tf.data.Dataset, mode: str, called: str, config: Optional[tf.compat.v1.ConfigProto]
) -> Tuple[tf.data.Dataset, tf.data.Dataset]:
    here = ranks.current()
    last = _compat.variant_of_dataset(dataset).op
    in_order = mode == tf.estimator.ModeKeys.PREDICT
    planned = input_sharding.plan_in_order(last) if in_order else input_sharding.plan(last, here.size)
    by_program = input_sharding.is_sharded(last, here.rank, here.size)
    told = host_exchange.all_gather((by_program, planned.describe(), planned.seeds), called, config)
    if all(each for each, _, _ in told):
        _note(f"{called}: left alone, the program gives each rank its shard")
        return dataset, made_up(dataset)
    _check_same([plan for _, plan, _ in told], called)
    planned = dataclasses.replace(planned, seeds=told[0][2])
    part = input_sharding.shard(last, planned, here.rank, here.size)
    whole = input_sharding.without_caches(last)
    _note(f"{called}: each rank reads one of {here.size} {planned.what} of the dataset '{planned.place.name}'")
    return _as_dataset(part, dataset), _as_dataset(whole, dataset)


def _as_dataset(variant: tf.Tensor, like: tf.data.Dataset) -> tf.data.Dataset:
    # Options are ops of the graph.
    return tf.data.experimental.from_variant(variant, like.element_spec)


def _check_same(plans: List[Any], called: str) -> None:
    for rank, planned in enumerate(plans):
        if planned != plans[0]:
            raise ValueError(
                f"tf_booster: {called}: ranks have different inputs, so none knows what the others read. Rank 0 would divide "
                f"{', '.join(plans[0])}; rank {rank} {', '.join(planned)} (what, op, type, stage, number of elements). Give all "
                "ranks the same input, files in the same order; or divide it in the input function, with "
                "enable_gpu_booster(shard_input=False)."
            )


def _rows(*parts: Any) -> tf.Tensor:
    """The number of rows of a batch, a float32 scalar: the first dimension of labels, or of features; 1 if all are scalars."""
    leaves = [leaf for part in parts for leaf in tf.nest.flatten(part)]
    for leaf in leaves:
        if isinstance(leaf, tf.SparseTensor):
            return tf.cast(leaf.dense_shape[0], tf.float32)
        if isinstance(leaf, tf.RaggedTensor):
            return tf.cast(leaf.nrows(), tf.float32)
        if leaf is not None and leaf.shape.rank != 0:
            return tf.cast(tf.shape(leaf, out_type=tf.int64)[0], tf.float32)
    return tf.ones([])


def _note(said: str) -> None:
    tf.compat.v1.get_default_graph().add_to_collection(NOTES, said)
    if ranks.current().rank == 0:
        log.once(said)
