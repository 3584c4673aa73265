"""Records that do not come from files, or not straight from there, and are parsed one by one: batched first, and the same elements."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from pipeline_pairs import assert_refused, assert_same, outcome
from record_files import FEATURES

import tf_booster
from tf_booster.passes import eager_datasets

v1 = tf.compat.v1
Dataset, Records = tf.data.Dataset, tf.data.TFRecordDataset
experimental = tf.data.experimental
FEW = {key: FEATURES[key] for key in ("id", "pair", "clicks", "words")}


def parse(serialized):
    return tf.io.parse_single_example(serialized, FEW)


def dense(serialized):
    return tf.io.parse_single_example(serialized, {key: FEW[key] for key in ("id", "pair")})


def strings(files):
    return list(Records(files).as_numpy_iterator()) if tf.executing_eagerly() else _read(files)


def _read(files):
    return [record for name in files for record in v1.io.tf_record_iterator(name)]


def from_memory(files):
    return Dataset.from_tensor_slices(strings(files))


def labelled(label):
    return lambda serialized: (parse(serialized), label)


def sampled(*datasets, **options):
    weights = [1.0 + i for i in range(len(datasets))]
    return Dataset.sample_from_datasets(list(datasets), weights, seed=7, **options)


def assert_parsed_in_batches(make, **options):
    result, again = assert_same(make, **options)
    assert result.modified and not result.skipped, result
    assert any("a batch at a time" in change for change in result.changes), result.changes
    assert not again.skipped, again
    return result


# They hold a tensor or a function of Python, which the function of a one-shot iterator cannot.
INITIALIZED = ("a generator", "a captured tensor", "captured", "labels and a captured tensor")


def under_iterators(known):
    """Names, and whether under a one-shot iterator, of all that tf.data lets be there."""
    return [
        (name, one_shot)
        for name in sorted(known)
        for one_shot in (False, True)
        if not (one_shot and name in INITIALIZED)
    ]


SOURCES = {
    "memory": lambda files: from_memory(files).map(parse),
    "a generator": lambda files: Dataset.from_generator(lambda: iter(strings(files)), tf.string, []).map(parse),
    "two files one behind the other": lambda files: Records(files[0]).concatenate(Records(files[3])).map(parse),
    "sampled files": lambda files: sampled(Records(files[0]).repeat(3), Records(files[3])).map(parse),
    "records that are filtered": lambda files: Records(files).filter(lambda s: tf.strings.length(s) > 60).map(parse),
    "records that are changed": lambda files: Records(files)
    .map(tf.io.encode_base64)
    .map(tf.io.decode_base64)
    .map(parse),
    "numbered records": lambda files: Records(files).enumerate().map(lambda i, s: (i, parse(s))),
    "two records at once": lambda files: Dataset.zip((Records(files), Records(files).skip(3))).map(
        lambda a, b: (parse(a), dense(b))
    ),
    "beside vectors": lambda files: Dataset.zip((Records(files), Dataset.range(9).map(lambda i: tf.fill([3], i)))).map(
        lambda s, v: {**parse(s), "v": v + 1}
    ),
    "parsed twice": lambda files: Records(files).map(lambda s: (dense(s), parse(s)["clicks"])),
    "and the record itself": lambda files: Records(files).map(lambda s: (parse(s), s)),
    "taken while they are long": lambda files: (
        Records(files).take_while(lambda s: tf.strings.length(s) > 20).map(parse)
    ),
    "one label for all": lambda files: from_memory(files).map(labelled(1.0)),
    "a captured tensor": lambda files: from_memory(files).map(labelled(tf.range(3) + tf.constant(2))),
    "by the parser's own name": lambda files: Records(files).map(lambda s: tf_booster.parse_example(s, FEW)),
}


@pytest.mark.parametrize("name,one_shot", under_iterators(SOURCES))
def test_what_is_no_file(files, name, one_shot):
    made = lambda: SOURCES[name](files).shuffle(5, seed=3).repeat(2).batch(4).prefetch(1)
    assert_parsed_in_batches(made, one_shot=one_shot)


@pytest.mark.parametrize("calls", [None, 2, tf.data.AUTOTUNE])
@pytest.mark.parametrize("drop", [False, True])
def test_maps_in_parallel(files, calls, drop):
    parsed = lambda: from_memory(files).map(parse, calls).map(lambda f: {**f, "n": f["id"] * 2}, calls)
    assert_parsed_in_batches(lambda: parsed().batch(5, drop_remainder=drop))


def test_filters_of_what_was_parsed(files):
    odd = lambda f: f["id"] % 2 > 0
    assert_parsed_in_batches(lambda: from_memory(files).map(parse).filter(odd).batch(4))
    both = lambda: from_memory(files).map(dense).map(lambda f: (f["id"], f["pair"] * 2)).filter(lambda i, p: p[0] > 1)
    assert_parsed_in_batches(lambda: both().shuffle(4, seed=1).batch(3))
    # An error in what a dropped record would have gone through would be lost.
    refused = lambda: from_memory(files).map(lambda s: (s, dense(s))).filter(lambda s, f: tf.strings.length(s) > 3)
    assert_refused(lambda: refused().batch(3), "between files and batch stands")


@pytest.mark.parametrize("size,drop", [(1, False), (4, False), (4, True), (100, False)])
def test_map_and_batch(files, size, drop):
    with_batch = lambda function, **options: experimental.map_and_batch(function, size, drop_remainder=drop, **options)
    assert_parsed_in_batches(lambda: from_memory(files).shuffle(9, seed=1).apply(with_batch(parse)))
    assert_parsed_in_batches(lambda: from_memory(files).apply(with_batch(labelled(2), num_parallel_calls=3)))
    later = lambda: from_memory(files).map(parse).shuffle(9, seed=1)
    assert_parsed_in_batches(lambda: later().apply(with_batch(lambda f: (f["pair"], f["id"] + 1))))


def test_a_broken_record_fails_where_it_is(files):
    records = strings(files)[:10]
    lacking = tf.train.Example(features=tf.train.Features(feature={})).SerializeToString()
    for bad in (b"\x0a\x03abc", lacking):
        broken = [*records[:5], bad, *records[5:]]
        make = lambda broken=broken: Dataset.from_tensor_slices(broken).map(parse).batch(4)
        ours, ours_end, _, result, _ = outcome(make, True)
        theirs, theirs_end, *_ = outcome(make, False)
        assert result.modified and len(ours) == len(theirs) == 1 and ours_end is theirs_end
    messages = []
    for rewrite in (False, True):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            made = Dataset.from_tensor_slices([lacking]).map(dense).batch(4)
            element = v1.data.make_one_shot_iterator(made).get_next()
            if rewrite:
                tf_booster.rewrite_graph(graph)
            with pytest.raises(
                tf.errors.InvalidArgumentError, match=r"Feature: id \(data type: int64\) is req"
            ) as error:
                session.run(element)
            messages.append(error.value.message.split("\n")[0].replace("{{function_node", "{{").split("{{")[0])
    assert messages[0] == messages[1]


def test_an_error_of_all_is_that_of_single_records(files):
    """An odd record that parse_single_example takes, and parse_example would read in another way."""
    twice = tf.train.Example()
    twice.features.feature["id"].int64_list.value.append(5)
    twice.features.feature["clicks"].int64_list.value.extend([1, 2])
    empty = b"\x0a\x0c\x0a\x0a\x0a\x06clicks\x12\x00"  # The same key again, with no kind set.
    odd = twice.SerializeToString() + empty
    assert_parsed_in_batches(lambda: Dataset.from_tensor_slices([odd, odd]).map(parse).batch(2))
    in_batches, *_ = outcome(
        lambda: Dataset.from_tensor_slices([odd]).batch(1).map(lambda s: tf.io.parse_example(s, FEW)), False
    )
    alone, *_ = outcome(lambda: Dataset.from_tensor_slices([odd]).map(parse).batch(1), True)
    assert any(not np.array_equal(a, b) for a, b in zip(in_batches[0], alone[0]))


def test_what_cannot_be_parsed_in_batches(files):
    memory = lambda: from_memory(files)
    ragged = lambda s: tf.io.parse_single_example(s, {"weights": FEATURES["weights"]})["weights"][:0]
    longer = lambda s: tf.io.parse_single_example(s, {"sequence": FEATURES["sequence"]})
    why = "between files and batch stands TensorSlice"
    assert_refused(lambda: memory().map(ragged).batch(2), why)
    assert_refused(lambda: memory().map(longer).batch(1), why)
    assert_refused(lambda: memory().map(lambda s: (parse(s), tf.random.uniform([]))).batch(2), why)
    assert_refused(lambda: memory().map(parse).batch(2).apply(experimental.ignore_errors()), why)
    assert_refused(lambda: memory().batch(2).map(lambda s: tf.io.parse_example(s, FEW)), why)
    assert_refused(lambda: memory().map(parse).batch(2).batch(2), why)
    assert_refused(lambda: memory().map(lambda s: tf.io.parse_example(s[None], {"id": FEATURES["id"]})).batch(2), why)
    beside = lambda: Dataset.zip((memory(), memory().map(lambda s: parse(s)["clicks"])))
    result, _ = assert_same(lambda: beside().map(lambda s, clicks: (dense(s), clicks)).batch(2))
    assert not result.modified and result.skipped


def test_a_key_that_is_parsed_twice(files):
    def twice(serialized):
        outputs = tf.raw_ops.ParseExampleV2(
            serialized=serialized,
            names=[],
            sparse_keys=[],
            dense_keys=["id", "id"],
            ragged_keys=[],
            dense_defaults=[tf.constant([], tf.int64)] * 2,
            num_sparse=0,
            sparse_types=[],
            ragged_value_types=[],
            ragged_split_types=[],
            dense_shapes=[[], []],
        )
        return outputs.dense_values[0]

    found, _, _, result, _ = outcome(lambda: from_memory(files).map(twice).batch(4), True)
    assert not result.modified and result.skipped


def test_batches_that_the_parser_parses_by_its_own_name(files):
    batches = lambda: from_memory(files).batch(4).map(lambda s: tf_booster.parse_example(s, FEW))
    result, _ = assert_same(batches)
    assert not result.modified and not result.skipped, result


# --- What is joined ---


def branch(files, i, function=parse):
    return Records(files[i]).map(function)


def scaled(files, i, scale):
    return branch(files, i, lambda s: dense(s)["pair"] * scale)


BRANCHES = {
    "one behind the other": lambda files: branch(files, 0).concatenate(branch(files, 2)).concatenate(branch(files, 3)),
    "sampled": lambda files: sampled(branch(files, 0).repeat(2), branch(files, 3)),
    "sampled until one ends": lambda files: sampled(branch(files, 0), branch(files, 3), stop_on_empty_dataset=True),
    "chosen": lambda files: Dataset.choose_from_datasets(
        [branch(files, 0).repeat(), branch(files, 3).repeat()], Dataset.range(2).repeat(9)
    ),
    "labels by source": lambda files: sampled(branch(files, 2, labelled(0)), branch(files, 3, labelled(1))),
    "labels and weights by source": lambda files: branch(files, 2, lambda s: (parse(s), "a", [0.5, 1.0])).concatenate(
        branch(files, 3, lambda s: (parse(s), "bcd", [2.0, 0.0]))
    ),
    "labels in maps of their own": lambda files: sampled(
        branch(files, 2).shuffle(3, seed=1).map(lambda f: (f, 0)), branch(files, 3).repeat(2).map(lambda f: (f, 1))
    ),
    "steps in each": lambda files: sampled(
        branch(files, 2).shuffle(4, seed=3).repeat(2), branch(files, 3).prefetch(2).take(7).cache().skip(1)
    ),
    "a part of itself": lambda files: (lambda d: d.concatenate(d.take(4)))(branch(files, 2)),
    "of different sources": lambda files: branch(files, 2).concatenate(from_memory(files[:1]).map(parse)),
    "joined twice": lambda files: sampled(
        branch(files, 0).concatenate(branch(files, 2)).shuffle(3, seed=2), branch(files, 3).repeat(2), branch(files, 4)
    ),
    "labels and a captured tensor": lambda files: (
        lambda scale: sampled(*[branch(files, i, lambda s, n=i: (dense(s)["pair"] * scale, float(n))) for i in (2, 3)])
    )(tf.constant([2.0, 3.0])),
    "captured": lambda files: (lambda scale: sampled(*[scaled(files, i, scale) for i in (0, 3)]))(
        tf.constant([2.0, 3.0])
    ),
}
# What cannot go through, or is parsed in different ways.
NOT_ALIKE = {
    "other functions": lambda files: branch(files, 0, dense).concatenate(
        branch(files, 2, lambda s: dict(dense(s), id=dense(s)["id"] * 2))
    ),
    "one more map": lambda files: branch(files, 2, dense).concatenate(branch(files, 0, dense).map(lambda f: dict(f))),
    "one is not parsed": lambda files: branch(files, 2, lambda s: dense(s)["id"]).concatenate(Dataset.range(5)),
    "filtered": lambda files: branch(files, 2, dense)
    .filter(lambda f: f["id"] > 9)
    .concatenate(branch(files, 0, dense)),
    "other tensors": lambda files: scaled(files, 0, tf.constant([1.0, 2.0])).concatenate(
        scaled(files, 2, tf.constant([3.0, 2.0]))
    ),
    "a tensor for one": lambda files: scaled(files, 0, np.float32([1.0, 2.0])).concatenate(
        scaled(files, 2, tf.constant([1.0, 2.0]))
    ),
    "labels of other shapes": lambda files: branch(files, 2, lambda s: (dense(s)["id"], [1])).concatenate(
        branch(files, 3, lambda s: (dense(s)["id"], [1, 2]))
    ),
}


@pytest.mark.parametrize("name,one_shot", under_iterators(BRANCHES))
def test_joined_datasets(files, name, one_shot):
    made = lambda: BRANCHES[name](files).shuffle(6, seed=1).batch(4).prefetch(1)
    assert_parsed_in_batches(made, one_shot=one_shot)


@pytest.mark.parametrize("name", sorted(NOT_ALIKE))
def test_joined_datasets_that_are_not_alike(files, name):
    result, again = assert_same(lambda: NOT_ALIKE[name](files).batch(3))
    assert not result.modified and result.skipped and again.skipped


def test_many_datasets_are_joined_or_left(files):
    def chain(n):
        joined = branch(files, 0)
        for _ in range(n):
            joined = joined.concatenate(branch(files, 0).take(1))
        return joined.batch(4)

    def doubled(n):
        joined = branch(files, 0)
        for _ in range(n):
            joined = joined.concatenate(joined)
        return joined.take(9).batch(4)

    assert_parsed_in_batches(lambda: chain(30))
    assert_parsed_in_batches(lambda: doubled(4))
    result, _ = assert_same(lambda: doubled(10))
    assert not result.modified and result.skipped


def test_an_order_that_something_else_reads(files):
    def make():
        shuffled = branch(files, 3).shuffle(9, seed=3)
        return Dataset.zip((shuffled.take(5).concatenate(branch(files, 0)).batch(3), shuffled.skip(5).batch(2)))

    result, _ = assert_same(make)
    assert any("keeps an order" in why for _, why in result.skipped)


def test_eager_datasets(files):
    """Without a shuffle, whose order an eager program's iterators share."""
    made = sampled(branch(files, 2, labelled(0)), branch(files, 3, labelled(1))).batch(4)
    mine = eager_datasets.stands_for(made)
    ops = {node.op for node in v1.GraphDef.FromString(mine._as_serialized_graph().numpy()).node}
    assert "TensorSliceDataset" in ops
    assert mine is not made
    for ours, theirs in zip(mine, made):
        for a, b in zip(*(tf.nest.flatten(e, expand_composites=True) for e in (ours, theirs))):
            np.testing.assert_array_equal(a, b)
