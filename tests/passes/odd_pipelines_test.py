"""Pipelines with steps that are seldom seen: the same elements from one op, or a reason."""

from __future__ import annotations

import collections

import numpy as np
import pytest
import tensorflow as tf
from pipeline_pairs import assert_batched, assert_refused, assert_replaced
from record_files import FEATURES

import tf_booster
from tf_booster.passes import eager_datasets

v1 = tf.compat.v1
Dataset, Records = tf.data.Dataset, tf.data.TFRecordDataset
FEW = {key: FEATURES[key] for key in ("id", "pair", "clicks")}
experimental = tf.data.experimental


def parse(serialized):
    return tf.io.parse_example(serialized, FEW)


def parse_one(serialized):
    return tf.io.parse_single_example(serialized, FEW)


def parse_pair(serialized):
    return tf.io.parse_single_example(serialized, {"pair": FEATURES["pair"]})


def names(files):
    return Dataset.from_tensor_slices(files)


def and_again(dataset):
    """tf.data makes a copy of the dataset for each of its two places."""
    return dataset.concatenate(dataset.take(2))


def beside_parsed(batches):
    return Dataset.zip((batches, batches.map(parse)))


def at_two_places(parsed):
    return Dataset.zip((parsed.batch(2), parsed.batch(3)))


def halved(x):
    return [x * 0.5]


def parse_words(serialized):
    return tf.io.parse_single_example(
        serialized, {"words": tf.io.FixedLenSequenceFeature([], tf.string, allow_missing=True)}
    )


def parsed_with(scale, files):
    parse_scaled = lambda s: parse_one(s)["pair"] * scale
    return names(files).interleave(lambda name: Records(name).map(parse_scaled)).batch(4)


REPLACED = {
    "files listed in a shuffled order": lambda files: Dataset.list_files(files, seed=4)
    .flat_map(Records)
    .batch(4)
    .map(parse),
    "names shuffled, sharded and repeated": lambda files: (
        names(files).shuffle(5, seed=2).shard(2, 0).repeat(2).interleave(Records, cycle_length=2).batch(4).map(parse)
    ),
    "names filtered": lambda files: (
        names(files)
        .filter(lambda name: tf.strings.length(name) > 0)
        .interleave(Records, cycle_length=3)
        .batch(4)
        .map(parse)
    ),
    "prefetch everywhere": lambda files: (
        Records(files).prefetch(1).shuffle(9, 1).prefetch(2).repeat(2).prefetch(1).batch(9).prefetch(1).map(parse)
    ),
    "numbers beside batches": lambda files: Records(files).batch(4).map(parse).enumerate(),
    "one behind the other": lambda files: (
        Records(files).batch(4).map(parse).concatenate(Records(files[:1]).batch(2).map(parse))
    ),
    "as many as the shorter": lambda files: Dataset.zip((Records(files).batch(4).map(parse), Dataset.range(5))),
    "batches filtered": lambda files: Records(files).batch(4).map(parse).filter(lambda f: f["id"][0] > 3),
    "batches in a cache": lambda files: Records(files).batch(9).map(parse).cache().repeat(2),
    "none taken": lambda files: Records(files).take(0).batch(4).map(parse),
    "all skipped": lambda files: Records(files).skip(100).batch(4).map(parse),
    "batches repeated": lambda files: Records(files)
    .shuffle(9, 1)
    .batch(4)
    .repeat(3)
    .prefetch(1)
    .map(parse, 2)
    .prefetch(1),
    "batches taken and repeated": lambda files: (
        Records(files).shuffle(9, 1).batch(4).take(3).with_options(tf.data.Options()).repeat(3).take(8).map(parse)
    ),
    "parallel batches": lambda files: Records(files, buffer_size=9000).batch(4, num_parallel_calls=2).map(parse, 2),
    "parallel_interleave": lambda files: (
        names(files).apply(experimental.parallel_interleave(Records, 2)).batch(4).map(parse)
    ),
    "shuffle_and_repeat": lambda files: (
        Records(files).apply(experimental.shuffle_and_repeat(5, 3, 1)).take(70).repeat(2).batch(4).map(parse)
    ),
    "shuffle_and_repeat without end": lambda files: (
        Records(files).map(parse_one).apply(experimental.shuffle_and_repeat(99, None, 1)).take(99).batch(4)
    ),
    "a shuffle at two places": lambda files: and_again(Records(files).shuffle(9, 1).batch(9).map(parse)),
    "shuffle and repeat at two places": lambda files: and_again(
        Records(files).shuffle(9, 1).repeat(2).batch(9).map(parse)
    ),
    "shuffle_and_repeat at two places": lambda files: and_again(
        Records(files).map(parse_pair).apply(experimental.shuffle_and_repeat(9, 2, 1)).batch(9)
    ),
    "a shuffle of one order at two places": lambda files: and_again(
        Records(files).shuffle(9, 1, reshuffle_each_iteration=False).batch(9).map(parse)
    ),
    "map_and_batch": lambda files: Records(files).apply(experimental.map_and_batch(parse_one, 4)),
    "map_and_batch behind a map": lambda files: (
        Records(files)
        .map(parse_one)
        .shuffle(6, 2)
        .repeat(2)
        .apply(experimental.map_and_batch(lambda f: (f.pop("id"), f)[::-1], 5, drop_remainder=True))
        .map(lambda f, label: (f, label + 1))
    ),
    "a repeat that tf.data leaves out": lambda files: (
        Records(files).shuffle(9, 1).repeat(2).repeat(1).batch(9).map(parse).repeat(2)
    ),
    "a repeat that tf.data leaves out, behind a shuffle": lambda files: (
        Records(files).shuffle(9, 1).repeat(1).repeat(2).batch(9).map(parse).repeat(2)
    ),
    "each file parsed, one after the other": lambda files: (
        names(files).flat_map(lambda name: Records(name).map(parse_one)).shuffle(9, 1).batch(4)
    ),
    "files parsed in turns": lambda files: (
        names(files)
        .interleave(lambda name: Records(name).map(parse_one, 2).prefetch(1), cycle_length=3, block_length=2)
        .repeat(2)
        .batch(4)
    ),
    "files parsed in parallel, with two maps": lambda files: (
        names(files)
        .interleave(
            lambda name: Records(name).map(parse_one).map(lambda f: (f["id"] + 1, f["pair"])),
            cycle_length=2,
            num_parallel_calls=2,
            deterministic=True,
        )
        .filter(lambda number, pair: number > 3)
        .batch(4)
    ),
    "files parsed for two batches": lambda files: at_two_places(
        names(files).interleave(lambda name: Records(name).map(parse_pair), cycle_length=2)
    ),
    "shuffle_and_repeat of nothing": lambda files: (
        Records(files).take(0).apply(experimental.shuffle_and_repeat(9, None, 1)).batch(4).map(parse)
    ),
}
REFUSED = {
    "how often its shuffle_and_repeat": lambda files: (
        Records(files)
        .apply(experimental.shuffle_and_repeat(5, v1.placeholder_with_default(np.int64(2), []), 1))
        .batch(4)
        .map(parse)
    ),
    "Sin": lambda files: Records(files).apply(
        experimental.map_and_batch(lambda s: tf.math.sin(parse_one(s)["pair"]), 4)
    ),
    "interleave records": lambda files: names(files).interleave(lambda name: Records(name).batch(4).map(parse)),
    "uses tensors from outside": lambda files: parsed_with(tf.constant(1.0), files),
    "'words' have no fixed length": lambda files: (
        names(files).interleave(lambda name: Records(name).map(parse_words)).batch(4).map(lambda f: f["words"])
    ),
    "left for single records: its Cos": lambda files: (
        names(files).flat_map(lambda name: Records(name).map(lambda s: tf.math.cos(parse_one(s)["pair"]))).batch(4)
    ),
    "left for single records: its StatelessWhile": lambda files: (
        Records(files)
        .map(lambda s: tf.while_loop(lambda x: tf.reduce_sum(x) > 9.0, halved, [parse_pair(s)["pair"]]))
        .batch(4)
    ),
    "DirectedInterleave": lambda files: (
        Dataset.choose_from_datasets([Records(files[:1]), Records(files[2:])], Dataset.range(2).repeat())
        .batch(4)
        .map(parse)
    ),
}

# The reasons why records are batched by one op, but not parsed.
BATCHED = {
    "between batch and parse stands Shard": lambda files: Records(files).batch(4).shard(2, 1).map(parse),
    "between batch and parse stands Shuffle": lambda files: Records(files).batch(4).shuffle(3, 1).map(parse),
    "keeps an order for several": lambda files: beside_parsed(Records(files).shuffle(9, 1).batch(4).prefetch(1)),
}


@pytest.mark.parametrize("name", REPLACED)
def test_replaced(files, name):
    assert_replaced(lambda: REPLACED[name](files))


@pytest.mark.parametrize("reason", REFUSED)
def test_refused(files, reason):
    assert_refused(lambda: REFUSED[reason](files), reason)


@pytest.mark.parametrize("reason", BATCHED)
def test_batched(files, reason):
    assert_batched(lambda: BATCHED[reason](files), reason)


@pytest.mark.parametrize("size", [5, 99])
@pytest.mark.parametrize("times", [3, 9])
@pytest.mark.parametrize("between", [False, True])
def test_errors_in_epochs_that_a_shuffle_has_in_its_buffer(tmp_path, files, size, times, between):
    """tf.data fills a buffer with the next epochs while the first one is given out, and an error comes then."""
    with open(files[2], "rb") as source:
        (tmp_path / "cut").write_bytes(source.read()[:-3])
    cut = [files[0], str(tmp_path / "cut")]

    def make():
        shuffled = Records(cut).take(8).shuffle(size, seed=1)
        return (shuffled.prefetch(1) if between else shuffled).repeat(times).batch(3).map(parse)

    assert_replaced(make, errors=True)
    both = experimental.shuffle_and_repeat(size, times, 1)
    assert_replaced(lambda: Records(cut).apply(both).batch(3).map(parse), errors=True)


@pytest.mark.parametrize("size", [3, 4])
def test_errors_of_map_and_batch_count_as_records(tmp_path, files, size):
    """A damage costs a whole batch there, and so does a broken record; behind them batches go on."""
    with open(files[2], "rb") as source:
        (tmp_path / "cut").write_bytes(source.read()[:-3])
    with tf.io.TFRecordWriter(str(tmp_path / "broken")) as writer:
        for record in [*Records(files[2]).take(2).as_numpy_iterator(), b"", b"rubbish"]:
            writer.write(record)
    damaged = [files[0], *(str(tmp_path / name) for name in ("cut", "none", "broken")), files[3]]
    for drop in (False, True):
        both = experimental.map_and_batch(parse_one, size, drop_remainder=drop)
        assert_replaced(lambda: Records(damaged).repeat(2).apply(both), errors=True)  # noqa: B023


def test_the_reason_without_any_map(files):
    with tf.Graph().as_default() as graph:
        tf.compat.v1.data.make_initializable_iterator(REFUSED["interleave records"](files)).get_next()
        assert "interleave records" in str(tf_booster.rewrite_graph(graph))


def records(dataset):
    """How often each record comes, by its values: rows of batches, whose places and neighbours may differ."""
    found = collections.Counter()
    for batch in dataset:
        clicks = batch["clicks"]
        for row, (number, pair) in enumerate(zip(batch["id"].numpy().tolist(), batch["pair"].numpy().tolist())):
            values = clicks.values.numpy()[np.equal(clicks.indices.numpy()[:, 0], row)]
            found[number, tuple(pair), tuple(values.tolist())] += 1
    return found


@pytest.mark.parametrize("cycle", [2, 5])
def test_an_order_that_is_free_has_the_same_records(files, cycle):
    def make():
        turns = names(files).interleave(Records, cycle, num_parallel_calls=2, deterministic=False)
        return turns.batch(4).map(parse, 2, deterministic=False)

    mine = eager_datasets.stands_for(make())
    graph = tf.compat.v1.GraphDef.FromString(mine._as_serialized_graph().numpy())
    assert "BatchDatasetV2" not in {node.op for node in graph.node}
    assert records(mine) == records(make())
