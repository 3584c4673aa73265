"""Maps whose function calls a tf.function that parses, and options in the middle: one op, the same elements."""

from __future__ import annotations

import pytest
import tensorflow as tf
from pipeline_pairs import assert_batched, assert_refused, assert_replaced, outcome
from record_files import FEATURES, arrays

import tf_booster
from tf_booster.passes import eager_datasets

v1 = tf.compat.v1
Records = tf.data.TFRecordDataset
FEW = {key: FEATURES[key] for key in ("id", "pair", "clicks")}


def parse(serialized):
    return tf.io.parse_example(serialized, FEATURES)


def parse_one(serialized):
    return tf.io.parse_single_example(serialized, FEW)


def labelled(features):
    return {key: features[key] for key in ("pair", "clicks")}, tf.cast(features["id"], tf.float32) / 2


def twice_nested(serialized):
    inner = tf.function(lambda s: (s, parse(s)))
    return tf.function(lambda s: labelled(inner(s)[1]))(serialized)


def with_side_effects(serialized):
    @tf.function
    def checked(s):
        features = parse(s)
        tf.debugging.assert_less(features["id"], tf.constant(1000, tf.int64))
        return labelled(features)

    return checked(serialized)


def with_two_calls_and_both_ways_on(serialized):
    half = tf.function(lambda x, y: (x, x / 2, y))
    features = tf.function(parse)(serialized)
    a, b, c = half(features["pair"], features["id"])
    return a, half(b, c)[1], half(b, c)[2], features["words"]


PARSES_BATCHES = {
    "the function itself": tf.function(parse),
    "with a signature": tf.function(parse, input_signature=[tf.TensorSpec([None], tf.string)]),
    "in a lambda": lambda s: labelled(tf.function(parse)(s)),
    "nested twice": twice_nested,
    "with an assertion": with_side_effects,
    "two calls of another": with_two_calls_and_both_ways_on,
    "an argument given back": lambda s: tf.function(lambda s, x: (parse(s), x, x + 1))(s, tf.constant(3))[:2],
}
PARSES_ONE = {
    "the function itself": lambda d: d.map(tf.function(parse_one)),
    "another function behind it": lambda d: d.map(tf.function(parse_one)).map(tf.function(labelled)),
    "in a lambda, both": lambda d: d.map(lambda s: tf.function(labelled)(tf.function(parse_one)(s))),
}


@pytest.mark.parametrize("name", PARSES_BATCHES)
def test_a_called_parse_of_batches(files, name):
    assert_replaced(lambda: Records(files).shuffle(9, seed=1).batch(4).map(PARSES_BATCHES[name]))


@pytest.mark.parametrize("name", PARSES_ONE)
def test_a_called_parse_of_single_records(files, name):
    assert_replaced(
        lambda: PARSES_ONE[name](Records(files)).shuffle(9, seed=1).batch(4), one_shot=name == "in a lambda, both"
    )


def test_what_a_called_parse_takes_from_outside(files):
    def make():
        scale = tf.constant(3.0) * tf.constant(2.0)

        @tf.function
        def scaled(serialized):
            features = parse(serialized)
            return features["pair"] * scale, features["id"]

        return Records(files).batch(4).map(lambda s: scaled(s))

    assert_replaced(make)


def test_an_error_in_a_called_function_stays(files):
    @tf.function
    def checked(serialized):
        features = parse(serialized)
        tf.debugging.assert_less(features["id"], tf.constant(9, tf.int64))
        return features["pair"], features["clicks"]  # Nothing is computed that could wait for the assertion.

    assert_replaced(lambda: Records(files).batch(4).map(checked), errors=True)
    found, *_ = outcome(lambda: Records(files).batch(4).map(checked), True, go_on=True)
    assert ["InvalidArgumentError"] in found


def test_files_that_a_called_function_reads(files):
    reader = tf.function(lambda name: Records(name))
    names = lambda: tf.data.Dataset.from_tensor_slices(files)
    assert_replaced(lambda: names().interleave(reader, cycle_length=2, block_length=2).batch(4).map(parse))


def test_refusals(files):
    def refused(function, reason):
        assert_batched(lambda: Records(files).batch(4).map(function), reason)

    def one_by_one(serialized):
        return tf.map_fn(lambda s: parse_one(s)["pair"], serialized, tf.float32)

    refused(tf.function(lambda s: tf.cond(tf.size(s) > 2, lambda: parse(s)["id"], lambda: parse(s)["id"])), "If")
    refused(tf.function(lambda s: (s, parse(s))), "beside parsing")
    refused(lambda s: (tf.function(parse)(s), tf.function(parse)(s)), "parses 2 times")
    refused(tf.function(parse, experimental_attributes={"api_implements": "parse"}), "asks for more than to be run")

    def draws(s):
        return tf.function(lambda f: f["pair"] + tf.random.uniform([], seed=1))(tf.function(parse_one)(s))

    assert_refused(lambda: Records(files).map(draws).batch(4), "state or effects")
    refused(one_by_one, "While")


def test_state_of_a_called_function_is_one(files):
    """Numbers that one function draws, called twice, stay the ones that TensorFlow draws."""
    draw = tf.function(lambda: tf.random.uniform([2], seed=3))
    assert_replaced(lambda: Records(files).batch(4).map(lambda s: (tf.function(parse)(s), draw(), draw())))


MIDDLES = {
    "before the batch": lambda records, options: records.with_options(options).batch(4).map(parse),
    "behind the batch": lambda records, options: records.batch(4).with_options(options).prefetch(1).map(parse),
    "twice": lambda records, options: (
        records.with_options(tf.data.Options()).shuffle(7, seed=2).with_options(options).batch(4).map(parse)
    ),
    "single records": lambda records, options: records.map(parse_one).with_options(options).shuffle(5, seed=2).batch(4),
}


@pytest.mark.parametrize("name", MIDDLES)
def test_options_in_the_middle_are_kept(files, name):
    options = tf.data.Options()
    options.threading.private_threadpool_size = 3
    options.experimental_optimization.map_parallelization = False
    make = lambda: MIDDLES[name](Records(files), options)
    assert_replaced(make)
    plain = make()
    epoch = list(plain)
    mine = eager_datasets.stands_for(make())
    assert mine.options() == plain.options() and mine.options().threading.private_threadpool_size == 3
    graph = v1.GraphDef.FromString(mine._as_serialized_graph().numpy())
    ours = {node.op for node in graph.node}
    assert "BatchDatasetV2" not in ours and "OptionsDataset" in ours
    kept = [node.attr["serialized_options"].s for node in graph.node if node.op == "OptionsDataset"]
    wanted = v1.GraphDef.FromString(plain._as_serialized_graph().numpy())
    assert kept == [node.attr["serialized_options"].s for node in wanted.node if node.op == "OptionsDataset"]
    for x, y in zip(mine, epoch):
        assert all((a == b).all() for a, b in zip(arrays(x), arrays(y)))


def test_eager_code(files):
    dataset = lambda: Records(files).shuffle(9, seed=1).batch(4).map(tf.function(parse))
    plain = [arrays(element) for element in dataset()]
    tf.enable_gpu_booster()
    try:
        mine = dataset()
        assert eager_datasets.stands_for(mine) is not mine
        found = [arrays(element) for element in mine]
    finally:
        tf_booster.disable_gpu_booster()
    assert len(found) == len(plain)
    assert all((a == b).all() for x, y in zip(found, plain) for a, b in zip(x, y))
