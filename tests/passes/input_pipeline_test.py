"""The rewrite of input pipelines: equal elements where it is done, a reason where it is not."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest
import tensorflow as tf

import tf_booster
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.input_pipeline import InputPipeline

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "data"))
from record_files import FEATURES, write_files  # noqa: E402

v1 = tf.compat.v1
Records = tf.data.TFRecordDataset


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("records"), (5, 0, 17, 9, 1))


def parse(serialized):
    return tf.io.parse_example(serialized, FEATURES)


def split_label(serialized):
    features = parse(serialized)
    label = tf.cast(features.pop("id"), tf.float32)
    features["sum"] = tf.sparse.reduce_sum(features["clicks"], axis=1)
    return features, label / 2


def outcome(make, rewrite):
    """What an iterator over make() gives in a graph of version 1, then the error it ends with; and the pass's result."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        tf.compat.v1.set_random_seed(5)
        iterator = v1.data.make_initializable_iterator(make())
        element = tf.nest.flatten(iterator.get_next(), expand_composites=True)
        shapes = [tensor.shape.as_list() if tensor.shape.rank is not None else None for tensor in element]
        view = GraphView(graph)
        result = InputPipeline().run(view) if rewrite else None
        if rewrite and result.modified:
            again = InputPipeline().run(GraphView(graph))
            assert not again.modified and not again.skipped
        session.run(iterator.initializer)
        found = []
        while True:
            try:
                found.append(session.run(element))
            except tf.errors.OpError as error:
                return found, type(error), shapes, result


def assert_replaced(make):
    ours, ours_end, ours_shapes, result = outcome(make, True)
    theirs, theirs_end, theirs_shapes, _ = outcome(make, False)
    assert result.modified and not result.skipped, result
    assert (ours_end, ours_shapes, len(ours)) == (theirs_end, theirs_shapes, len(theirs))
    for a, b in zip(ours, theirs):
        for x, y in zip(a, b):
            np.testing.assert_array_equal(x, y)
    return result


def assert_refused(make, reason):
    _, _, _, result = outcome(make, True)
    assert not result.modified
    assert [r for _, r in result.skipped if reason in r], result.skipped


@pytest.mark.parametrize("function", [parse, split_label])
@pytest.mark.parametrize("calls", [None, 2, tf.data.AUTOTUNE])
def test_the_plain_pipeline(files, function, calls):
    result = assert_replaced(lambda: Records(files).batch(4).map(function, num_parallel_calls=calls))
    assert "batch and parse are one op" in result.changes[0]


def test_shuffle_repeat_shard_take_skip(files):
    assert_replaced(lambda: Records(files).shuffle(10, seed=3).repeat(3).batch(4).map(parse).prefetch(2))
    assert_replaced(lambda: Records(files).repeat(2).shuffle(7).batch(4, drop_remainder=True).map(split_label))
    assert_replaced(lambda: Records(files).shard(2, 1).skip(2).take(9).prefetch(3).batch(4).map(parse).repeat(2))


def test_interleaved_files(files):
    def interleaved(**options):
        names = lambda: tf.data.Dataset.list_files(files, seed=2)
        return lambda: names().interleave(Records, **options).shuffle(5, seed=1).batch(3).map(parse)

    assert_replaced(interleaved(cycle_length=3, block_length=2))
    assert_replaced(interleaved(cycle_length=2, num_parallel_calls=2))
    assert_replaced(interleaved(cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True))


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


def test_refusals(files):
    assert_refused(
        lambda: Records(files).map(lambda s: tf.io.parse_single_example(s, FEATURES)).take(1), "batch records first"
    )
    assert_refused(lambda: Records(files).cache().batch(4).map(parse), "CacheDataset")
    assert_refused(
        lambda: Records(files).filter(lambda s: tf.strings.length(s) > 3).batch(4).map(parse), "FilterDataset"
    )
    assert_refused(lambda: Records(files).batch(4).map(lambda s: (s, parse(s))), "beside parsing")
    assert_refused(lambda: Records(files).batch(4).map(lambda s: parse(tf.strings.join([s, ""]))), "records themselves")
    assert_refused(lambda: Records(files).batch(4).map(lambda s: (parse(s), parse(s))), "parses 2 times")
    assert_refused(lambda: Records(files, num_parallel_reads=2).batch(4).map(parse), "ParallelInterleaveDataset")
    assert_refused(lambda: Records(files).batch(4).prefetch(1).map(parse), "not a batch")
    assert_refused(
        lambda: tf.data.Dataset.from_tensor_slices(files)
        .interleave(Records, num_parallel_calls=-1)
        .batch(4)
        .map(parse),
        "cycle_length",
    )
    assert_refused(lambda: tf.data.TextLineDataset(files).take(0).batch(4).map(parse), "TFRecord files")


def test_a_one_shot_iterator_is_reported(files):
    with tf.Graph().as_default() as graph:
        v1.data.make_one_shot_iterator(Records(files).batch(4).map(parse)).get_next()
        result = InputPipeline().run(GraphView(graph))
    assert not result.modified and "make_initializable_iterator" in result.skipped[0][1]


def test_a_second_branch_keeps_what_it_reads(files):
    def make():
        batches = Records(files).batch(4)
        return tf.data.Dataset.zip((batches, batches.map(parse)))

    assert_replaced(make)


def test_an_estimator_trains_from_it(files, tmp_path):
    def input_fn():
        return Records(files).shuffle(20, seed=1).repeat().batch(4).map(lambda s: (parse(s), tf.constant(1.0)))

    def model_fn(features, labels, mode):
        weight = v1.get_variable("w", [2], initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.linalg.matvec(features["pair"], weight) - labels))
        train_op = v1.train.GradientDescentOptimizer(1e-3).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def weights(folder):
        estimator = tf.estimator.Estimator(model_fn, str(folder))
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
