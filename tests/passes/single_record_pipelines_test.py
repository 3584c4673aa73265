"""Records parsed one by one and then batched: the same batches from parsed batches, or a reason."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from pipeline_pairs import assert_refused, assert_replaced, outcome
from record_files import FEATURES

v1 = tf.compat.v1
Records = tf.data.TFRecordDataset
FIXED = {key: FEATURES[key] for key in ("id", "pair")}
SPARSE = {key: FEATURES[key] for key in ("id", "pair", "clicks", "words")}


def parse(serialized, features=None):
    return tf.io.parse_single_example(serialized, features or SPARSE)


def split_label(serialized):
    features = parse(serialized)
    return features, tf.cast(features.pop("id"), tf.float32)


def computed(serialized):
    features = parse(serialized)
    number = features["id"]
    return {
        "pair": features["pair"] * [2.0, 0.5] + 1.0,
        "column": tf.expand_dims(number, -1),
        "first": tf.expand_dims(features["pair"], 0),
        "row": tf.reshape(features["pair"], [1, -1]),
        "flat": tf.squeeze(tf.reshape(number, [1]), 0),
        "both": tf.stack([number, number // 3], axis=-1),
        "bucket": tf.strings.to_hash_bucket_fast(tf.strings.as_string(number), 7),
        "roots": tf.sqrt(tf.abs(features["pair"])),
        "wide_root": tf.sqrt(tf.cast(number, tf.float64)),
        "odd": tf.where(number % 2 > 0, 1.0, 0.0 * tf.cast(number, tf.float32)),
        "clicks": tf.SparseTensor(
            features["clicks"].indices, features["clicks"].values % 100, features["clicks"].dense_shape
        ),
        "words": features["words"],
    }


def normalized(serialized):
    """As programs treat Criteo's numbers."""
    features = parse(serialized)
    number = tf.cast(features["id"], tf.float32) / 3.0
    return {
        "log": tf.math.log1p(tf.maximum(number, 0.0)),
        "of more": tf.math.log(tf.maximum(number, 0.0) + 2.0),
        "of negative ones": tf.math.log(number - 1.5),
        "log1p": tf.math.log1p(features["pair"]),
        "logs": tf.math.log(tf.minimum(features["pair"], 7.0)),
        "log of 64 bits": tf.math.log(tf.cast(features["id"] + 1, tf.float64)),
        "three": tf.math.log(tf.stack([number, number - 2.0, number + 2.0])),
        "larger": tf.maximum(features["pair"], features["pair"][::-1]),
    }


def broadcast(serialized):
    """Numbers beside rows of constants, and rows of one beside longer ones."""
    features = parse(serialized)
    number, pair = features["id"][None], features["pair"]
    zero = np.zeros([], np.int64)
    return {
        "sums": number + tf.range(5, dtype=tf.int64),
        "mask": tf.sequence_mask(number[0] % 7, 7),
        "larger": tf.where(number > [0, 3, 90], number, zero),
        "pairs": pair * tf.cast(number, tf.float32),
        "table": pair[:, None] - pair[None, :] * [[1.0], [2.0]],
        "text": tf.strings.join([tf.strings.as_string(number), "-", tf.strings.as_string(number + 1)]),
    }


@pytest.mark.parametrize("function", [parse, split_label, computed, normalized, broadcast])
@pytest.mark.parametrize("calls", [None, 2, tf.data.AUTOTUNE])
def test_the_plain_pipeline(files, function, calls):
    result = assert_replaced(lambda: Records(files).map(function, num_parallel_calls=calls).batch(4))
    assert "files, parse and batch are one op" in result.changes[0]


def test_shuffle_repeat_shard_take_skip_on_either_side(files):
    assert_replaced(lambda: Records(files).map(parse).shuffle(10, seed=3).repeat(3).batch(4).prefetch(2))
    assert_replaced(lambda: Records(files).repeat(2).map(parse).shuffle(7).batch(4, drop_remainder=True))
    assert_replaced(lambda: Records(files).shard(2, 1).map(split_label).skip(2).take(9).prefetch(3).batch(4).repeat(2))
    assert_replaced(lambda: Records(files).shuffle(6, seed=1).map(parse).shuffle(7, 2).batch(3).take(2))


def test_several_maps_in_a_row(files):
    def make():
        scale = tf.constant([3.0, 2.0])
        parsed = Records(files).map(parse).map(lambda f: (f, f["id"])).shuffle(9, seed=1)
        return (
            parsed.map(lambda f, y: (dict(f, pair=f["pair"] / scale), y + 1))
            .batch(4)
            .map(lambda f, y: (f["clicks"], y))
        )

    assert_replaced(make)


def test_a_branch_of_single_records_stays(files):
    def make():
        parsed = Records(files).map(lambda s: parse(s, FIXED))
        return tf.data.Dataset.zip((parsed, parsed.batch(2)))

    assert_replaced(make, rest=True)


def test_an_unseeded_shuffle_gives_each_record_once_an_epoch_from_the_buffer(files):
    def make():
        return Records(files).map(lambda s: parse(s, FIXED)).shuffle(5).repeat(2).batch(8)

    epochs = []
    for _ in range(2):
        found, _, _, result, _ = outcome(make, True, seed=None)
        assert result.modified
        ids = np.concatenate([batch[0] for batch in found]).tolist()
        epochs += [ids[:32], ids[32:]]
    for epoch in epochs:
        assert sorted(epoch) == list(range(32))
        assert all(number <= place + 4 for place, number in enumerate(epoch))
    assert len(set(map(tuple, epochs))) == 4


def test_odd_records_are_read_as_single_ones(tmp_path):
    """A sparse feature that comes twice, the last time without values, has those of the first in parse_single_example only."""
    entry = (
        lambda key, feature: b"\x0a"
        + bytes([len(key) + 4 + len(feature)])
        + b"\x0a"
        + bytes([len(key)])
        + key
        + b"\x12"
        + bytes([len(feature)])
        + feature
    )
    entries = entry(b"x", b"\x1a\x03\x0a\x01\x07") + entry(b"x", b"")
    path = str(tmp_path / "odd")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(b"\x0a" + bytes([len(entries)]) + entries)
    features = {"x": tf.io.VarLenFeature(tf.int64)}
    result = assert_replaced(lambda: Records(path).map(lambda s: parse(s, features)).batch(2))
    assert result.modified
    with tf.Graph().as_default():
        (batch,), *_ = outcome(lambda: Records(path).map(lambda s: parse(s, features)).batch(2), True)
    assert batch[1].tolist() == [7]


def test_broken_records_have_the_error_of_single_ones(tmp_path, files):
    path = str(tmp_path / "broken")
    with tf.io.TFRecordWriter(path) as writer:
        for record in [*Records(files[0]).take(3).as_numpy_iterator(), tf.train.Example().SerializeToString()]:
            writer.write(record)
    make = lambda: Records(path).map(lambda s: parse(s, FIXED)).batch(3)
    assert_replaced(make, errors=True)
    messages = []
    for rewrite in (True, False):
        with pytest.raises(tf.errors.InvalidArgumentError) as error, tf.Graph().as_default() as graph:
            import tf_booster

            iterator = v1.data.make_initializable_iterator(make())
            element = iterator.get_next()
            if rewrite:
                assert "input_pipeline" in str(tf_booster.rewrite_graph(graph))
            with v1.Session() as session:
                session.run(iterator.initializer)
                session.run(element)
                session.run(element)
        messages.append(error.value.message)
    assert "Feature: id (data type: int64) is required" in messages[0] and "Name:" not in messages[0]
    assert messages[0].split("\n")[0].split("}}")[-1].strip() in messages[1]


def test_rows_that_would_meet_other_rows_stay(files):
    def refused(function, op):
        make = lambda: Records(files).map(lambda s: function(parse(s))).batch(2)
        assert_refused(make, f"the shapes at its {op}")

    refused(lambda f: tf.cast(f["id"], tf.float32) * f["pair"], "Mul")
    refused(lambda f: f["pair"] + tf.zeros([2, 2]), "AddV2")
    refused(lambda f: f["pair"] + tf.reshape(f["pair"], [2, 1]), "AddV2")
    refused(lambda f: f["id"] + tf.range(3, dtype=tf.int64), "AddV2")
    refused(lambda f: tf.strings.join([tf.strings.as_string(f["id"])[None], tf.constant(["a"])]), "StringJoin")
    texts = lambda f: tf.strings.as_string(f["pair"])
    refused(lambda f: tf.strings.join([tf.strings.as_string(f["id"]), texts(f)]), "StringJoin")


def test_refusals(files, tmp_path):
    def refused(function, reason):
        assert_refused(lambda: Records(files).map(function).batch(4), reason)

    refused(lambda s: parse(s, {"sequence": FEATURES["sequence"]}), "no fixed length")
    refused(lambda s: parse(s, {"weights": FEATURES["weights"]}), "ragged")
    refused(lambda s: tf.math.log1p(tf.tile(parse(s)["pair"], [2])), "Tile")

    def four(s):
        pair = parse(s)["pair"]
        return tf.math.log(tf.stack([pair, pair + 1.0]))

    refused(lambda s: tf.math.log(parse(s)["pair"] + 1.0), "write log1p")
    refused(lambda s: parse(s)["pair"] * 0.1 * 0.7, "of what other arithmetic gives")
    refused(lambda s: 0.3 / tf.sqrt(parse(s)["pair"]), "is of what other arithmetic gives")
    refused(lambda s: 1.0 / parse(s)["pair"], "as a reciprocal")
    refused(four, "of more than 3 values a record")
    refused(lambda s: tf.maximum(parse(s)["pair"], [0.0, 1.0]), "of more than 3 values a record")
    refused(lambda s: tf.sqrt(tf.cast(parse(s)["id"], tf.bfloat16)), "Sqrt")
    refused(lambda s: tf.reduce_sum(parse(s)["pair"]), "Sum")
    refused(lambda s: parse(s)["pair"] + tf.ones([3, 2]), "shapes at its AddV2")
    refused(lambda s: parse(s)["pair"] + tf.random.uniform([]), "state or effects")
    refused(lambda s: tf.sparse.to_dense(parse(s)["clicks"])[:1], "have no fixed length")
    refused(lambda s: tf.cast(parse(s)["id"], tf.float32) * parse(s)["pair"], "parses 2 times")

    def scaled(s):
        features = parse(s)
        return tf.cast(features["id"], tf.float32) * features["pair"]

    refused(scaled, "shapes at its Mul")
    assert_refused(lambda: Records(files).map(parse).take(1), "batch records first")
    assert_refused(lambda: Records(files).map(parse).cache(str(tmp_path / "cache")).batch(4), "CacheDataset")
    assert_refused(
        lambda: Records(files).map(parse).batch(4).apply(tf.data.experimental.ignore_errors()), "broken record"
    )
    assert_refused(lambda: Records(files).map(parse).batch(2).batch(2), "SparseTensors apart")


def test_results_that_are_the_same_for_all_records(files):
    """Each row of a batch has them."""
    scale = lambda: tf.constant([[2.0, 3.0]])
    for function in (
        lambda s: (parse(s)["pair"], 1.0, ["a", "b"]),
        lambda s: {**parse(s), "weight": tf.ones([2, 0, 3]), "true": True},
        lambda s: (tf.zeros([3], tf.int64), parse(s)["id"]),
        lambda s: {**parse(s, {"clicks": FEATURES["clicks"]}), "label": 0},  # No dense feature.
    ):
        for size, drop in ((4, False), (4, True), (100, False)):
            assert_replaced(lambda f=function, n=size, d=drop: Records(files).map(f).shuffle(5, seed=1).batch(n, d))
    with_scale = lambda made: lambda s: (parse(s)["pair"], made)
    assert_replaced(lambda: Records(files).map(with_scale(scale())).batch(4))
    computed = lambda made: lambda s: (parse(s)["pair"], made + 1)
    assert_refused(lambda: Records(files).map(computed(scale())).batch(4), "is not made of the record")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_roots_are_rounded_as_ieee_says_alone_and_in_vectors(dtype):
    """Which is why row_functions takes them: exponents only move by two, so that [1, 4) tells of all but what is next to 0."""
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    first, last = (np.array(x, dtype).view(bits) for x in (1, 4))
    step = max(1, int(last - first) // (1 << 22))
    x = np.arange(first, last, step, dtype=bits).view(dtype)
    assert len(x) > 2000
    roots = tf.sqrt(x).numpy()
    np.testing.assert_array_equal(roots, np.sqrt(x))
    for size in (1, 3, 5, 7):
        some = x[:: len(x) // 700]
        pieces = [tf.sqrt(some[i : i + size]).numpy() for i in range(0, len(some), size)]
        np.testing.assert_array_equal(np.concatenate(pieces), np.sqrt(some))


def test_dense_batches_may_be_taken_apart(files):
    assert_replaced(lambda: Records(files).map(lambda s: parse(s, FIXED)).batch(4).unbatch().batch(3))
    assert_replaced(lambda: Records(files).map(lambda s: parse(s, FIXED)).batch(4).batch(2, drop_remainder=True))
