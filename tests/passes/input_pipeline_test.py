"""The rewrite of input pipelines: equal elements where it is done, a reason where it is not."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from pipeline_pairs import assert_batched, assert_refused, assert_replaced, outcome
from record_files import FEATURES, write_files

import tf_booster

v1 = tf.compat.v1
Records = tf.data.TFRecordDataset


def parse(serialized):
    return tf.io.parse_example(serialized, FEATURES)


def split_label(serialized):
    features = parse(serialized)
    label = tf.cast(features.pop("id"), tf.float32)
    features["sum"] = tf.sparse.reduce_sum(features["clicks"], axis=1)
    return features, label / 2


@pytest.mark.parametrize("function", [parse, split_label])
@pytest.mark.parametrize("calls", [None, 2, tf.data.AUTOTUNE])
def test_the_plain_pipeline(files, function, calls):
    result = assert_replaced(lambda: Records(files).batch(4).map(function, num_parallel_calls=calls))
    assert "batch and parse are one op" in result.changes[0]


def test_shuffle_repeat_shard_take_skip(files):
    assert_replaced(lambda: Records(files).shuffle(10, seed=3).repeat(3).batch(4).prefetch(2).map(parse).prefetch(2))
    assert_replaced(lambda: Records(files).repeat(2).shuffle(7).batch(4, drop_remainder=True).map(split_label))
    assert_replaced(lambda: Records(files).shard(2, 1).skip(2).take(9).prefetch(3).batch(4).map(parse).repeat(2))


def test_interleaved_files(files):
    def interleaved(**options):
        names = lambda: tf.data.Dataset.list_files(files, seed=2)
        return lambda: names().interleave(Records, **options).shuffle(5, seed=1).batch(3).map(parse)

    assert_replaced(interleaved(cycle_length=3, block_length=2))
    assert_replaced(interleaved(cycle_length=2, num_parallel_calls=2))
    assert_replaced(interleaved(cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True))


@pytest.mark.parametrize("reads", [1, 2, 3, 8, tf.data.AUTOTUNE])
def test_parallel_reads(files, reads):
    assert_replaced(lambda: Records(files, num_parallel_reads=reads).batch(4).map(parse))


@pytest.mark.parametrize("calls", [None, 1, 2, tf.data.AUTOTUNE])
def test_a_cycle_length_that_is_left_to_tf_data(files, calls):
    names = lambda: tf.data.Dataset.from_tensor_slices(files)
    assert_replaced(lambda: names().interleave(Records, num_parallel_calls=calls, block_length=2).batch(3).map(parse))


def test_what_a_map_takes_from_outside(files):
    def make():
        scale = tf.constant(3, tf.int64) * tf.constant(2, tf.int64)
        return Records(files).batch(4).map(lambda s: (parse(s), scale))

    assert_replaced(make)


def test_compressed_files(tmp_path):
    packed = write_files(tmp_path, (5, 6), "GZIP")
    assert_replaced(lambda: Records(packed, compression_type="GZIP").batch(4).map(parse))
    assert_replaced(
        lambda: tf.data.Dataset.from_tensor_slices(packed)
        .interleave(lambda name: Records(name, "GZIP"), cycle_length=2)
        .batch(4)
        .map(parse)
    )


def test_errors_stay(tmp_path, files):
    cut = tmp_path / "cut"
    with open(files[2], "rb") as source:
        cut.write_bytes(source.read()[:-2])
    assert_replaced(lambda: Records([files[0], str(cut)]).batch(4).map(parse))
    assert_replaced(lambda: Records([files[0], str(tmp_path / "none")]).batch(4).map(parse))
    damaged = [files[0], str(cut), files[3], str(tmp_path / "none"), files[4]]
    for reads in (1, 2, 5):
        assert_replaced(lambda: Records(damaged, num_parallel_reads=reads).batch(3).map(parse), errors=True)  # noqa: B023


def test_refusals(files):
    assert_refused(lambda: Records(files).map(lambda s: tf.strings.join([s, ""])).batch(4).map(parse), "changed by")
    assert_batched(lambda: Records(files).batch(4).cache().map(parse), "between batch and parse stands CacheDataset")
    assert_refused(
        lambda: Records(files).filter(lambda s: tf.strings.length(s) > 3).batch(4).map(parse), "FilterDataset"
    )
    assert_refused(lambda: Records(files).concatenate(Records(files)).batch(4).map(parse), "ConcatenateDataset")
    assert_batched(lambda: Records(files).batch(4).map(lambda s: (s, parse(s))), "beside parsing")
    assert_batched(lambda: Records(files).batch(4).map(lambda s: parse(tf.strings.join([s, ""]))), "records themselves")
    assert_batched(lambda: Records(files).batch(4).map(lambda s: (parse(s), parse(s))), "parses 2 times")
    assert_batched(lambda: Records(files).batch(4).skip(2).map(parse), "between batch and parse stands Skip")
    assert_refused(
        lambda: tf.data.Dataset.from_tensor_slices(files)
        .interleave(Records, cycle_length=v1.placeholder_with_default(np.int64(2), []))
        .batch(4)
        .map(parse),
        "cycle_length",
    )
    parallel = tf.data.experimental.parallel_interleave(Records, cycle_length=2, block_length=3)
    assert_refused(
        lambda: tf.data.Dataset.from_tensor_slices(files).apply(parallel).batch(4).map(parse),
        "as threads happen to run",
    )
    assert_refused(lambda: tf.data.TextLineDataset(files).take(0).batch(4).map(parse), "TFRecord files")


def test_an_order_that_several_datasets_share_stays(files):
    def parts(seed, reshuffle):
        records = Records(files).shuffle(9, seed=seed, reshuffle_each_iteration=reshuffle).prefetch(1)
        return tf.data.Dataset.zip((records.take(8).batch(4).map(parse), records.skip(8).batch(4).map(parse)))

    assert_refused(lambda: parts(3, True), "keeps an order")
    assert_replaced(lambda: parts(3, False))
    *_, result, _ = outcome(lambda: parts(None, False), True, seed=None)
    assert not result.modified and "keeps an order" in result.skipped[0][1]
    *_, result, _ = outcome(lambda: parts(None, True), True, seed=None)
    assert len(result.changes) == 2


@pytest.mark.parametrize("policy", ["OFF", "AUTO", "FILE", "DATA"])
def test_automatic_sharding_finds_tensorflow_s_readers(files, policy):
    def make(index):
        dataset = Records(files).batch(4).map(parse)
        dataset_variant = tf.data.experimental.to_variant(dataset)
        share = tf.raw_ops.AutoShardDataset(
            input_dataset=dataset_variant,
            num_workers=2,
            index=index,
            auto_shard_policy=tf.data.experimental.AutoShardPolicy[policy].value,
            output_types=dataset_variant.op.get_attr("output_types"),
            output_shapes=dataset_variant.op.get_attr("output_shapes"),
        )
        return tf.data.experimental.from_variant(share, dataset.element_spec)

    assert_refused(lambda: make(0), "automatic sharding")


def test_a_second_branch_keeps_what_it_reads(files):
    def make():
        batches = Records(files).batch(4)
        return tf.data.Dataset.zip((batches, batches.map(parse)))

    assert_replaced(make)


@pytest.mark.parametrize("mirrored", [False, True])
def test_an_estimator_trains_from_it(files, tmp_path, mirrored):
    def input_fn():
        return Records(files).shuffle(20, seed=1).repeat().batch(4).map(lambda s: (parse(s), tf.constant(1.0)))

    def model_fn(features, labels, mode):
        weight = v1.get_variable("w", [2], initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.linalg.matvec(features["pair"], weight) - labels))
        train_op = v1.train.GradientDescentOptimizer(1e-3).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def weights(folder):
        strategy = tf.distribute.MirroredStrategy(["/cpu:0"]) if mirrored else None
        config = tf.estimator.RunConfig(str(folder), tf_random_seed=1, train_distribute=strategy)
        estimator = tf.estimator.Estimator(model_fn, config=config)
        estimator.train(input_fn, steps=20)
        return estimator.get_variable_value("w")

    plain = weights(tmp_path / "plain")
    tf.enable_gpu_booster()
    try:
        boosted = weights(tmp_path / "boosted")
        passes = {p["name"]: p for p in tf_booster.report().to_dict()["passes"]}
        assert passes["input_pipeline"]["modified"], passes["input_pipeline"]
    finally:
        tf_booster.disable_gpu_booster()
    np.testing.assert_array_equal(plain, boosted)
