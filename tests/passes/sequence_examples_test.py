"""SequenceExamples that are parsed one by one (tf.io.parse_single_sequence_example): the same batches from files that are parsed a batch at a time."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from pipeline_pairs import assert_refused, assert_same

Records, Dataset = tf.data.TFRecordDataset, tf.data.Dataset
int64, float32, string = tf.int64, tf.float32, tf.string

CONTEXT = {
    "id": tf.io.FixedLenFeature([], int64),
    "pair": tf.io.FixedLenFeature([2], float32, default_value=[0.5, 1.5]),
    "tags": tf.io.VarLenFeature(string),
}
STEPS = {
    "items": tf.io.FixedLenSequenceFeature([], int64),
    "prices": tf.io.FixedLenSequenceFeature([], float32, allow_missing=True),
    "words": tf.io.FixedLenSequenceFeature([], string, allow_missing=True),
    "places": tf.io.FixedLenSequenceFeature([2], float32, allow_missing=True),
}
SPARSE_STEPS = {"clicks": tf.io.VarLenFeature(int64)}


def sequence(number, rng):
    """A serialized SequenceExample whose feature "id" is `number`; some have no step, some no list."""
    made = tf.train.SequenceExample()
    context, lists = made.context.feature, made.feature_lists.feature_list
    context["id"].int64_list.value.append(number)
    if number % 3:
        context["pair"].float_list.value.extend([number, -number])
    context["tags"].bytes_list.value.extend([b"t%d" % i for i in range(number % 4)])
    lists["items"].SetInParent()
    for _ in range(rng.integers(0, 6) if number % 4 else 0):
        lists["items"].feature.add().int64_list.value.append(int(rng.integers(-5, 2**40)))
        lists["prices"].feature.add().float_list.value.append(rng.random())
    for _ in range(rng.integers(0, 3)):
        lists["words"].feature.add().bytes_list.value.append(b"w%d" % number)
        lists["places"].feature.add().float_list.value.extend([number, rng.random()])
        lists["clicks"].feature.add().int64_list.value.extend(
            rng.integers(-(2**62), 2**62, rng.integers(0, 4)).tolist()
        )
    return made.SerializeToString(deterministic=True)


def write(path, records):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return str(path)


@pytest.fixture(name="files", scope="module")
def sequence_files(tmp_path_factory):
    rng, folder = np.random.default_rng(3), tmp_path_factory.mktemp("sequences")
    numbers = iter(range(100))
    return [
        write(folder / f"part-{i}", [sequence(next(numbers), rng) for _ in range(n)])
        for i, n in enumerate((7, 0, 19, 1))
    ]


def parse(serialized, context=("id", "pair"), steps=tuple(STEPS), sparse=()):
    context = {key: CONTEXT[key] for key in context}
    return tf.io.parse_single_sequence_example(
        serialized, context, {key: {**STEPS, **SPARSE_STEPS}[key] for key in (*steps, *sparse)}
    )


def features_of(serialized):
    context, steps = parse(serialized)
    return dict(context, **steps, length=tf.shape(steps["items"])[0]), context["pair"][0] > 3.0


def dense_of(serialized):
    """All that may be computed of lists."""
    context, steps = parse(serialized, ("id", "tags"))
    tags = tf.sparse.to_dense(context["tags"], default_value=b"none")
    items = steps["items"]
    return {
        "tags": tags,
        "number of tags": tf.size(tags),
        "first": items[:2],
        "last": items[-3:],
        "as floats": tf.cast(items, float32),
        "buckets": tf.math.floormod(items, 1000),
        "logical": items > 3,
        "mask": tf.sequence_mask(tf.size(items), 20),
        "places": steps["places"] * 2.0,
        "number of places": tf.shape(steps["places"])[0],
        "size": tf.size(items, int64),
    }


def filled(serialized):
    """Rows of one length, which the function pads itself."""
    context, steps = parse(serialized)
    items = steps["items"][:4]
    return dict(context, items=tf.pad(items, [[0, 4 - tf.size(items)]], constant_values=-1), size=tf.size(items))


def sparse_of(serialized):
    context, steps = parse(serialized, tuple(CONTEXT), (), ("clicks",))
    clicks = tf.SparseTensor(steps["clicks"].indices, steps["clicks"].values + 1, steps["clicks"].dense_shape)
    return dict(context, clicks=steps["clicks"], more=clicks)


def shapes_of(make):
    return tf.compat.v1.data.get_output_shapes(make)


def padded(dataset, size, values=None, **options):
    return dataset.padded_batch(size, shapes_of(dataset), padding_values=values, **options)


def assert_in_batches(make, **options):
    result, again = assert_same(make, **options)
    assert result.modified and not result.skipped and not again.skipped, (result, again)
    assert all("records are parsed a batch at a time" in change for change in result.changes), result


@pytest.mark.parametrize("size", [1, 4, 50])
@pytest.mark.parametrize("function", [features_of, dense_of])
def test_padded_batches(files, function, size):
    assert_in_batches(lambda: padded(Records(files).map(function), size))


@pytest.mark.parametrize("function", [filled, sparse_of, lambda s: parse(s, tuple(CONTEXT), ())[0]])
def test_batches(files, function):
    assert_in_batches(lambda: Records(files).map(function).batch(4))


def test_values_to_pad_with(files):
    def make():
        dataset = Records(files).map(lambda s: (parse(s)[1], tf.cast(parse(s)[1]["items"], float32)))
        values = {"items": 7, "prices": -0.0, "words": b"none", "places": float("nan")}
        typed = {key: tf.constant(value, STEPS[key].dtype) for key, value in values.items()}
        return padded(dataset, 3, (typed, tf.constant(-0.0)))

    assert_in_batches(make)


def test_sizes_to_pad_to(files):
    shapes = {"items": [9], "prices": [None], "words": [9], "places": [5, 2]}
    make = lambda size: Records(files).map(lambda s: parse(s)[1]).padded_batch(3, dict(shapes, items=[size]))
    assert_in_batches(lambda: make(9))
    assert_in_batches(lambda: make(2), errors=True)  # Rows are longer.


def test_among_other_steps(files):
    def make():
        dataset = Dataset.from_tensor_slices(files).interleave(Records, cycle_length=2, block_length=3)
        dataset = dataset.shuffle(9, seed=2).map(features_of, 2).filter(lambda f, label: f["id"] % 5 > 0)
        dataset = dataset.map(lambda f, label: (dict(f, words=tf.strings.lower(f["words"])), label))
        return padded(dataset.repeat(2), 4, drop_remainder=True).prefetch(1)

    assert_in_batches(make)


def test_files_that_are_parsed_one_by_one(files):
    parsed = lambda name: Records(name).map(features_of)
    assert_in_batches(lambda: padded(Dataset.from_tensor_slices(files).interleave(parsed, cycle_length=2), 4))


def test_several_maps_with_lists_in_lists(files):
    """Only the first map tells that each step has a list."""

    def make():
        dataset = Records(files).map(lambda s: parse(s, ("id",), ("items",), ("clicks",)))
        return dataset.map(lambda c, s: (c["id"], s["clicks"])).batch(4)

    assert_in_batches(make)
    counted = (
        lambda: Records(files)
        .map(lambda s: parse(s, ("id",), (), ("clicks",))[1])
        .map(lambda s: tf.size(s["clicks"].values))
    )
    assert_refused(lambda: counted().batch(4), "left for single records")


@pytest.mark.parametrize(
    "function, reason",
    [
        (lambda s: parse(s)[1]["items"][0], "takes other elements of a list"),
        (lambda s: tf.reduce_sum(parse(s)[1]["items"]), "is not of dense values"),
        (
            lambda s: tf.sparse.to_dense(parse(s, (), (), ("clicks",))[1]["clicks"]),
            "not of a SparseTensor that has one",
        ),
        (lambda s: parse(s, (), (), ("clicks",))[1]["clicks"].values, "is not made of dense values"),
        (
            lambda s: tf.io.parse_single_sequence_example(s, {"id": CONTEXT["id"]}, example_name="a")[0]["id"],
            "names its record",
        ),
        (
            lambda s: tf.io.parse_single_sequence_example(
                s, {"id": CONTEXT["id"], "tags": tf.io.RaggedFeature(string)}
            )[0]["id"],
            "parses ragged features",
        ),
    ],
)
def test_what_is_left(files, function, reason):
    assert_refused(lambda: padded(Records(files).map(function), 2), reason)


def test_lists_of_a_batch_that_does_not_pad(files):
    assert_refused(lambda: Records(files).map(lambda s: parse(s)[1]["items"]).batch(1), "have no fixed length")


def odd_records():
    """What TensorFlow's parser has rules of its own for, and what it refuses."""
    rng = np.random.default_rng(1)
    good = [sequence(i, rng) for i in (1, 2, 3)]
    ids = lambda *values: tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    def only(*lists):
        context = tf.train.Features(feature={"id": ids(5)})
        lists = {key: tf.train.FeatureList(feature=steps) for key, steps in lists}
        return tf.train.SequenceExample(
            context=context, feature_lists=tf.train.FeatureLists(feature_list=lists)
        ).SerializeToString(deterministic=True)

    return {
        "a list is missing": [good[0], only(), good[1]],
        "two values a step": [good[0], only(("items", [ids(1), ids(2, 3)]))],
        "another type": [only(("items", [tf.train.Feature(float_list=tf.train.FloatList(value=[1.0]))])), good[0]],
        "a step of no type": [good[0], only(("items", [ids(4), tf.train.Feature()]))],
        "a list twice": [good[0], only(("items", [ids(1), ids(2)])) + only(("items", [ids(3)]))],
        "contexts twice": [good[0] + good[1], good[2]],
        "no record": [good[0], b"no SequenceExample", good[1]],
        "nothing": [good[0], b""],
        "cut off": [good[0], good[1][:-3], good[2]],
        "the context lacks a feature": [good[0], tf.train.SequenceExample().SerializeToString()],
    }


@pytest.mark.parametrize("what", odd_records())
def test_odd_records(tmp_path, what):
    """The same batches; and errors, which come with the batch that would hold the record."""
    file = write(tmp_path / "odd", odd_records()[what])
    assert_in_batches(lambda: padded(Records(file).map(features_of), 4))


@pytest.mark.parametrize("what", odd_records())
def test_errors_have_the_words_of_single_records(tmp_path, what):
    file = write(tmp_path / "odd", odd_records()[what])

    def words(parse_all):
        try:
            return list(parse_all(Records(file)))
        except tf.errors.InvalidArgumentError as error:
            return (
                [line for line in str(error).splitlines() if line][0]
                .split("{{")[0]
                .split("__wrapped__")[-1]
                .split("}} ")[-1]
            )

    single = words(lambda records: records.map(lambda s: parse(s)[0]["id"]))
    batch = words(
        lambda records: records.batch(4).map(
            lambda s: tf.io.parse_sequence_example(s, {"id": CONTEXT["id"], "pair": CONTEXT["pair"]}, STEPS)[0]["id"]
        )
    )
    assert isinstance(single, str) == isinstance(batch, str)
    if isinstance(single, str):
        assert batch == single
