"""Lists of different lengths that functions of single records or lines make rows of one length, or that padded_batch pads: batched first."""

from __future__ import annotations

import pathlib
import random

import numpy as np
import pytest
import tensorflow as tf
from batched_first_test import from_memory
from hypothesis import strategies as st
from pipeline_pairs import assert_refused, assert_same, num_replaced, outcome, try_more
from record_files import FEATURES

from tf_booster.passes import eager_datasets

v1 = tf.compat.v1
Dataset, Lines, Records = tf.data.Dataset, tf.data.TextLineDataset, tf.data.TFRecordDataset
to_number = tf.strings.to_number
to_bucket = tf.strings.to_hash_bucket_fast
FEW = {key: FEATURES[key] for key in ("id", "pair", "clicks", "words", "sequence")}


def parse(serialized):
    return tf.io.parse_single_example(serialized, FEW)


def write_lines(path):
    rng = random.Random(1)
    ids = lambda i: "|".join(str(rng.randrange(1000)) for _ in range(rng.randrange(0 if i % 5 == 0 else 1, 9)))
    path.write_text("".join(f"{i % 2},{ids(i)},{rng.random():.4f}\n" for i in range(40)))
    return str(path)


@pytest.fixture(name="text", scope="module")
def text_file(tmp_path_factory):
    return write_lines(tmp_path_factory.mktemp("lists") / "lines")


def field_of(line):
    return tf.io.decode_csv(line, [[0], [""], [0.0]])[1]


def assert_in_batches(make, **options):
    result, again = assert_same(make, **options)
    assert result.modified and not result.skipped, result
    assert not again.skipped, again


def dense_list(serialized):
    ids = tf.sparse.to_dense(parse(serialized)["clicks"])
    return tf.ensure_shape(tf.pad(ids, [[0, 20 - tf.shape(ids)[0]]]), [20])


def values_of_a_list(serialized):
    ids = parse(serialized)["clicks"].values[:4]
    return tf.pad(ids, [[0, 4 - tf.size(ids)]], constant_values=-1), tf.size(ids)


def padded_then_cut(serialized):
    words = parse(serialized)["words"].values
    shortfall = tf.maximum(3 - tf.shape(words)[0], 0)
    padded = tf.pad(words, [[0, shortfall]], constant_values="none")[:3]
    padded.set_shape([3])
    return {"words": to_bucket(padded, 100), "count": tf.minimum(tf.size(words), 3), "shortfall": shortfall}


def computed_before(serialized):
    ids = tf.cast(parse(serialized)["clicks"].values % 50, tf.int32)[:6][:5]
    shortfall = tf.maximum(5 - tf.shape(ids, tf.int64)[0], 0)
    return tf.reshape(tf.pad(ids, [[0, tf.cast(shortfall, tf.int32)]]), [5])


def a_sequence(serialized):
    features = parse(serialized)
    ids = features["sequence"][:4]
    row = tf.pad(ids, [[0, 4 - tf.size(ids)]])
    return {"row": row, "pair": features["pair"], "sparse": features["clicks"], "id": features["id"], "same": row}


def sequences_among_others(serialized):
    """Their keys come before, between and behind those of other features."""
    sequence = tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True)
    keys = {
        "id": FEW["id"],
        "pair": FEW["pair"],
        "words": tf.io.FixedLenSequenceFeature([], tf.string, allow_missing=True),
    }
    features = tf.io.parse_single_example(serialized, {**keys, "clicks": sequence, "missing": sequence})
    pad = lambda x, value: tf.pad(x, [[0, 30 - tf.size(x)]], constant_values=value)
    lists = {key: pad(features[key], "none" if key == "words" else 7) for key in ("clicks", "missing", "words")}
    return {**lists, "id": features["id"] + 1, "pair": features["pair"]}


def in_front(serialized):
    ids = parse(serialized)["clicks"].values[:5]
    return tf.pad(ids, [[5 - tf.size(ids), 0]], constant_values=9)


def two_lists(serialized):
    features = parse(serialized)
    pad = lambda x: tf.pad(x, tf.maximum([[0, 4 - tf.size(x)]], 0))[:2]
    return pad(features["sequence"]), pad(features["words"].values), pad(features["clicks"].values + 1)


def rows_of_one_length_already(serialized):
    features = parse(serialized)
    pair = features["pair"]
    row = tf.pad(pair, [[1, 2]], constant_values=0.5)
    return row, tf.pad(pair[:, None], [[0, 1], [2, 0]]), tf.pad(features["id"], tf.zeros([0, 2], tf.int32))


def the_last_of_a_record(serialized):
    ids = parse(serialized)["sequence"][-3:]
    return tf.pad(ids, [[3 - tf.size(ids), 0]]), tf.sequence_mask(tf.size(ids), 3, tf.float32)


OF_RECORDS = [
    the_last_of_a_record,
    dense_list,
    values_of_a_list,
    padded_then_cut,
    computed_before,
    a_sequence,
    sequences_among_others,
    in_front,
    rows_of_one_length_already,
    two_lists,
]


@pytest.mark.parametrize("function", OF_RECORDS)
@pytest.mark.parametrize("one_shot", [False, True])
def test_lists_of_records(files, function, one_shot):
    assert_in_batches(lambda: Records(files).map(function, 2).shuffle(9, seed=1).repeat(2).batch(4), one_shot=one_shot)
    assert_in_batches(lambda: from_memory(files).map(function).batch(7, drop_remainder=True), one_shot=one_shot)


def hashed(line):
    ids = to_bucket(tf.strings.split(field_of(line), "|")[:6], 1000)
    return {"ids": tf.pad(ids, [[0, 6 - tf.size(ids)]]), "count": tf.size(ids, tf.int64)}


def numbers_then_cut(line):
    ids = to_number(v1.string_split([tf.strings.split(line, ",")[1]], "|").values, tf.int32)
    return tf.pad(ids, tf.maximum([[0, 4 - tf.shape(ids)[0]]], 0), constant_values=-1)[:4]


def cut_before_and_behind(line):
    ids = to_bucket(tf.strings.split(field_of(line), "|"), 50)[:6][:9]
    return tf.pad(ids, [[0, tf.maximum(4 - tf.size(ids), 0)]], constant_values=-1)[:4]


def the_last_ones(line):
    ids = tf.strings.split(field_of(line), "|")[-4:]
    return tf.pad(ids, [[0, 4 - tf.size(ids)]], constant_values="x"), tf.cast(tf.size(ids), tf.float32) / 2.0


def in_front_of_pieces(line):
    ids = tf.strings.split(field_of(line), "|")
    return tf.pad(ids, [[20 - tf.size(ids), 0]], constant_values="x")


def counts_alone(line):
    return tf.size(tf.strings.split(field_of(line), "|")), tf.shape(tf.strings.split(line, ","))[0] * 2


OF_LINES = [hashed, numbers_then_cut, cut_before_and_behind, the_last_ones, in_front_of_pieces, counts_alone]


@pytest.mark.parametrize("function", OF_LINES)
@pytest.mark.parametrize("one_shot", [False, True])
def test_lists_of_lines(text, function, one_shot):
    assert_in_batches(lambda: Lines(text).map(function, 2).shuffle(9, seed=1).batch(4), one_shot=one_shot)
    lines = open(text, encoding="ascii").read().splitlines()
    assert_in_batches(lambda: Dataset.from_tensor_slices(lines).map(function).batch(4), one_shot=one_shot)


def test_several_maps(text, files):
    pad = lambda ids: tf.pad(ids, [[0, 20 - tf.shape(ids)[0]]])

    def of_lines():
        pieces = Lines(text).map(lambda line: v1.string_split([field_of(line)], "|").values)
        return pieces.map(lambda ids: to_number(ids, tf.int32)).map(pad).batch(4)

    assert_in_batches(of_lines)
    assert_in_batches(lambda: Records(files).map(parse).map(lambda f: pad(f["sequence"])).batch(4))
    assert_in_batches(lambda: from_memory(files).map(parse).map(lambda f: pad(f["clicks"].values)).batch(4))


SEVEN, EIGHT = np.int64(7), np.int64(8)


def slices_of_slices(serialized):
    ids = parse(serialized)["clicks"].values
    twice = [tf.size(ids[-4:-1]) for _ in range(2)]
    return ids[-4:-1] % 9, ids[1:][-3:][:2], ids[:3][-2:] + 1, ids[5:2], ids[-4:-1] * 2, twice


def sequences_and_lengths(serialized):
    ids = parse(serialized)["sequence"] + 1
    return {"ids": ids, "mask": tf.sequence_mask(tf.size(ids), 9), "length": tf.shape(ids)[0]}


PADDED = {
    "rows of a parse": (lambda s: parse(s)["sequence"], {"padding_values": SEVEN}),
    "values": (lambda s: (parse(s)["clicks"].values, parse(s)["words"].values), {}),
    "values, twice": (lambda s: (parse(s)["clicks"].values,) * 2, {"padding_values": (SEVEN, EIGHT)}),
    "a dense list": (lambda s: tf.sparse.to_dense(parse(s)["words"]), {"padding_values": "-"}),
    "a computed list": (lambda s: tf.sparse.to_dense(parse(s)["clicks"]) * 2 + 1, {"padding_values": SEVEN}),
    "a cast list": (lambda s: tf.cast(parse(s)["clicks"].values, tf.float32), {"padding_values": 0.5}),
    "first elements": (lambda s: (parse(s)["clicks"].values[:2], tf.size(parse(s)["words"].values)), {}),
    "shapes of the program's": (
        lambda s: (parse(s)["sequence"], parse(s)["clicks"].values, parse(s)["pair"]),
        {"padded_shapes": ([30], [31], [2])},
    ),
    "last elements": (lambda s: (parse(s)["clicks"].values[-2:], tf.size(parse(s)["words"].values[-1:])), {}),
    "items and next items": (
        lambda s: (parse(s)["sequence"][:-1], parse(s)["sequence"][1:]),
        {"padding_values": (SEVEN, EIGHT)},
    ),
    "two parses": (lambda s: (parse(s)["sequence"], tf.size(parse(s)["sequence"])), {}),
    "slices of slices": (slices_of_slices, {}),
    "sequences and lengths": (sequences_and_lengths, {"padding_values": {"ids": SEVEN, "mask": False, "length": 0}}),
    "a sequence, two paddings": (lambda s: (parse(s)["sequence"],) * 2, {"padding_values": (SEVEN, EIGHT)}),
    "a cast sequence": (lambda s: tf.cast(parse(s)["sequence"], tf.int32), {"padding_values": 7}),
    "a constant": (lambda s: (parse(s)["sequence"], 1.5, [2, 3]), {}),
}
WORDS = lambda line: tf.strings.split(field_of(line), "|")
PADDED_LINES = {
    "strings": (lambda line: (WORDS(line), tf.size(WORDS(line)), line), {"padding_values": ("none", 0, "")}),
    "numbers": (lambda line: to_number(v1.string_split([field_of(line)], "|").values[:5], tf.int64), {}),
    "buckets": (lambda line: to_bucket(WORDS(line), 100), {"padding_values": SEVEN}),
    "computed": (
        lambda line: (tf.cast(to_bucket(WORDS(line), 9), tf.int32) + 1, tf.strings.length(WORDS(line))),
        {"padding_values": (-1, -2), "padded_shapes": ([None], [20])},
    ),
    "one list, two paddings": (lambda line: (WORDS(line), WORDS(line)), {"padding_values": ("a", "b")}),
    "elements": (lambda line: {"one": tf.strings.split(line, ",")[2], "list": WORDS(line)}, {}),
}


@pytest.mark.parametrize("name", sorted(PADDED))
def test_padded_batches_of_records(files, name):
    function, options = PADDED[name]
    assert_in_batches(lambda: from_memory(files).map(function).shuffle(9, seed=3).padded_batch(4, **options))
    labelled = lambda: Dataset.zip((from_memory(files), Dataset.range(99))).map(lambda s, i: (function(s), i))
    values = options.get("padding_values")
    if not options:
        assert_in_batches(lambda: labelled().padded_batch(5, drop_remainder=True))
    elif values is not None:
        assert_in_batches(lambda: labelled().padded_batch(5, padding_values=(values, np.int64(0))))


@pytest.mark.parametrize("name", sorted(PADDED_LINES))
def test_padded_batches_of_lines(text, name):
    function, options = PADDED_LINES[name]
    make = lambda: Lines(text).map(function, 2).shuffle(9, seed=3).repeat(2).padded_batch(4, **options)
    assert_in_batches(make)
    assert_in_batches(make, one_shot="padding_values" not in options)


@pytest.mark.parametrize("name", sorted(PADDED))
def test_padded_batches_of_files(files, name):
    function, options = PADDED[name]
    result, _ = assert_same(lambda: Records(files).map(function).padded_batch(4, **options))
    assert result.modified, result


def test_filters_before_the_padding(files, text):
    long = lambda f: tf.size(f["sequence"]) > 1
    pad = lambda f: tf.pad(f["sequence"], [[0, 40 - tf.size(f["sequence"])]])
    assert_in_batches(lambda: Records(files).map(parse).filter(long).map(pad).batch(4))
    kept = lambda ids: tf.size(ids) > 2
    assert_in_batches(lambda: Lines(text).map(WORDS).filter(kept).padded_batch(4))


def test_filters_behind_a_padding_that_may_fail(files):
    def function(size, clip):
        def of(serialized):
            features = parse(serialized)
            ids = features["sequence"]
            shortfall = size - tf.size(ids)
            row = tf.pad(ids, [[0, tf.maximum(shortfall, 0) if clip else shortfall]])[:size]
            return features["id"], row

        return of

    even = lambda key, row: key % 2 == 0
    assert_refused(lambda: Records(files).map(function(40, False)).filter(even).batch(4), "may fail for a record")
    assert_in_batches(lambda: Records(files).map(function(2, True)).filter(even).batch(4))


def test_lists_that_are_too_long_are_errors(files, text):
    row = lambda x, size: tf.pad(x, [[0, size - tf.size(x)]])
    of_records = lambda: Records(files).map(lambda s: row(parse(s)["sequence"], 1)).batch(40)
    of_lines = lambda: Lines(text).map(lambda line: row(to_bucket(WORDS(line), 9), 3)).batch(40)
    for make in (of_records, of_lines):
        ours, theirs = outcome(make, True), outcome(make, False)
        assert ours[3].modified
        assert ours[:2] == theirs[:2] == ([], tf.errors.InvalidArgumentError)
    short = lambda: Lines(text).map(WORDS).padded_batch(40, [3])
    assert outcome(short, True)[:2] == outcome(short, False)[:2] == ([], tf.errors.DataLossError)


def test_refusals(files, text):
    def refused(function, reason, batch=lambda d: d.batch(4), dataset=lambda: Lines(text)):
        assert_refused(lambda: batch(dataset().map(function)), reason)

    padded = lambda d: d.padded_batch(4)
    with_sum = lambda line: tf.size(WORDS(line)) + tf.size(tf.strings.split(line, ","))
    refused(
        lambda line: tf.pad(WORDS(line), [[0, 20 - with_sum(line)]], constant_values=""),
        "is not of dense values",
    )
    refused(
        lambda line: tf.pad(WORDS(line), [[1, 20 - tf.size(WORDS(line))]], constant_values=""), "is not of dense values"
    )
    row = lambda x, paddings: tf.pad(x, paddings(tf.maximum(0, 20 - tf.size(x))), constant_values="")
    behind = lambda shortfall: [[0, shortfall]]
    refused(lambda line: row(WORDS(line), behind), "length of a list")
    refused(lambda line: row(WORDS(line), lambda shortfall: [[shortfall, 0]]), "may be longer than 20")
    refused(lambda line: row(WORDS(line), behind)[:30], "more of a list than")
    refused(
        lambda line: row(WORDS(line), lambda shortfall: behind(tf.maximum(shortfall, 1)))[:9], "not of dense values"
    )
    refused(lambda line: tf.shape(WORDS(line))[:1], "length of a list")
    never = lambda x: tf.pad(x, [[0, -1 - tf.size(x)]], constant_values="")
    refused(lambda line: never(WORDS(line)), "not of dense values")
    some = lambda x: tf.pad(x[:4], [[0, 20 - tf.size(x)]])
    refused(lambda line: some(to_bucket(WORDS(line), 9)), "to one size")
    refused(lambda line: row(tf.strings.split(line, "."), lambda _: behind(20 - tf.size(WORDS(line)))), "to one size")
    refused(lambda line: (row(WORDS(line), behind)[:9], WORDS(line)), "have no fixed length")
    for taken in (slice(0, 4, 2), slice(None, None, 2), slice(None, None, -1), 0):
        refused(lambda line, s=taken: to_bucket(WORDS(line), 9)[s], "other elements of a list than a row", padded)
    refused(lambda line: to_number(tf.strings.strip(WORDS(line))), "of rows of different lengths", padded)
    number = lambda line: to_number(WORDS(line), tf.int32)
    refused(lambda line: 7 % (number(line) + 1), "of rows of different lengths", padded)
    refused(
        lambda line: number(line) + to_number(tf.strings.split(line, ",")[0], tf.int32), "different lengths", padded
    )
    of_two_lengths = lambda x: x[:1] + x[:5]  # One element would be added to all.
    refused(lambda line: of_two_lengths(to_bucket(WORDS(line), 9)), "of rows of different lengths", padded)
    refused(lambda s: of_two_lengths(parse(s)["clicks"].values), "different lengths", padded, lambda: Records(files))
    matrix = lambda line: tf.reshape(WORDS(line), [1, -1])
    refused(matrix, "", padded)


def test_elements_that_differ_in_shape_beside_records(files):
    """A batch of them would fail, and TensorFlow makes none."""
    records = lambda: Dataset.from_generator(
        lambda: ((record, [1] * (i % 3)) for i, record in enumerate(tf.compat.v1.io.tf_record_iterator(files[0]))),
        (tf.string, tf.int32),
        ([], [None]),
    )
    make = lambda: records().map(lambda record, vector: parse(record)["id"]).batch(4)
    assert_refused(make, "")
    result, _ = assert_same(make)
    assert not result.modified


EAGER = {
    "padded by the function": lambda files: Records(files).map(values_of_a_list).batch(4),
    "padded_batch": lambda files: Records(files).map(lambda s: parse(s)["clicks"].values).padded_batch(4),
    "a sequence": lambda files: Records(files).map(a_sequence, 2).batch(4, drop_remainder=True),
}


@pytest.mark.parametrize("name", sorted(EAGER))
def test_eager_datasets(files, name):
    made = EAGER[name](files)
    mine = eager_datasets.stands_for(made)
    assert mine is not made
    flat = lambda dataset: [tf.nest.flatten(element, expand_composites=True) for element in dataset]
    ours, theirs = flat(mine), flat(made)
    assert len(ours) == len(theirs) > 3
    for a, b in zip(ours, theirs):
        for x, y in zip(a, b):
            np.testing.assert_array_equal(x, y)


ENDS = st.sampled_from([None, None, 0, 1, 3, 6, -1, -2, -4, 40, -40])
SHAPES = st.fixed_dictionaries(
    {
        "source": st.sampled_from(["values", "dense", "sequence", "pieces", "numbers"]),
        "take": st.none() | st.tuples(ENDS, ENDS),
        "compute": st.sampled_from(["nothing", "cast", "bucket", "computed"]),
        "size": st.sampled_from([3, 6, 30]),
        "pad": st.sampled_from(["behind", "in front", "clipped", "clipped and cut", "batch", "batch of a size"]),
        "value": st.sampled_from([0, 5]),
        "batch_size": st.sampled_from([1, 4, 50]),
        "shuffled": st.booleans(),
    }
)
SOURCES = {
    "values": lambda x: parse(x)["clicks"].values,
    "dense": lambda x: tf.sparse.to_dense(parse(x)["clicks"]),
    "sequence": lambda x: parse(x)["sequence"],
    "pieces": WORDS,
    "numbers": lambda x: to_number(v1.string_split([field_of(x)], "|").values, tf.int64),
}
COMPUTED = {
    "nothing": lambda x: x,
    "cast": lambda x: x if x.dtype == tf.string else tf.cast(x, tf.int32),
    "bucket": lambda x: to_bucket(x, 50) if x.dtype == tf.string else x % 50,
    "computed": lambda x: tf.strings.join([x, "!", x]) if x.dtype == tf.string else x * 3 - x,
}


def make_lists(files, drawn):
    """Records or lines as `drawn` says."""
    value = lambda dtype: tf.constant(str(drawn["value"]) if dtype == tf.string else drawn["value"], dtype)

    def function(record):
        x = COMPUTED[drawn["compute"]](SOURCES[drawn["source"]](record))
        if drawn["take"] is not None:
            x = x[slice(*drawn["take"])]
        count, size = tf.size(x), drawn["size"]
        if drawn["pad"].startswith("batch"):
            return x, count
        less = size - count
        if drawn["pad"].startswith("clipped"):
            x = tf.pad(x, [[0, tf.maximum(less, 0)]], constant_values=value(x.dtype))
            return (x[:size] if drawn["pad"] == "clipped and cut" else x), count
        return tf.pad(
            x, [[less, 0] if drawn["pad"] == "in front" else [0, less]], constant_values=value(x.dtype)
        ), count

    of_lines = drawn["source"] in ("pieces", "numbers")
    dataset = Lines(files[0] + ".lists") if of_lines else Records(files) if drawn["shuffled"] else from_memory(files)
    dataset = dataset.map(function)
    if drawn["shuffled"]:
        dataset = dataset.shuffle(7, seed=3)
    if not drawn["pad"].startswith("batch"):
        return dataset.batch(drawn["batch_size"])
    shapes = ([drawn["size"] if drawn["pad"] == "batch of a size" else None], [])
    values = (value(v1.data.get_output_types(dataset)[0]), 0)
    return dataset.padded_batch(drawn["batch_size"], shapes, values)


def is_replaced(files, drawn):
    """Elements up to the first error are the same, but for what an error's batch loses; so is the error's kind."""
    path = pathlib.Path(files[0] + ".lists")
    if not path.exists():
        write_lines(path)
    make = lambda: make_lists(files, drawn)
    ours, our_end, _, result, _ = outcome(make, True)
    theirs, their_end, *_ = outcome(make, False)
    assert (our_end, len(ours)) == (their_end, len(theirs))
    for a, b in zip(ours, theirs):
        for x, y in zip(a, b):
            np.testing.assert_array_equal(x, y)
    return result.modified


def test_random_lists(files):
    assert num_replaced(is_replaced, SHAPES, files, max_examples=40, derandomize=True) >= 25


if __name__ == "__main__":
    try_more(is_replaced, SHAPES)
