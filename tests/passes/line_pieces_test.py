"""Lines that string_split splits one by one and that are then batched: the same batches from lines that are batched first, or a reason."""

from __future__ import annotations

import random

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st
from pipeline_pairs import assert_refused, assert_replaced, assert_same, num_replaced, outcome, try_more

import tf_booster
from tf_booster import _compat
from tf_booster.passes import ragged_line
from tf_booster.passes.ragged_line import OfRow

v1 = tf.compat.v1
Lines = tf.data.TextLineDataset
to_number = v1.string_to_number


def parts_of(line, skip_empty=True):
    """As the programs with libsvm files write it."""
    columns = v1.string_split([line], " ", skip_empty)
    pairs = v1.string_split(columns.values[1:], ":", skip_empty)
    return columns.values, tf.reshape(pairs.values, pairs.dense_shape)


def decode_libsvm(line):
    values, parts = parts_of(line)
    ids, weights = tf.split(parts, num_or_size_splits=2, axis=1)
    features = {"ids": to_number(ids, tf.int32), "weights": to_number(weights)}
    return features, to_number(values[0])


def of_a_known_size(line):
    features, label = decode_libsvm(line)
    return {key: tf.reshape(value, [3]) for key, value in features.items()}, tf.reshape(label, [1]) * 2.0


def by_columns(line):
    values, parts = parts_of(line)
    return to_number(parts[:, 0], tf.int64), parts[:, 1], values[0]


def parts_as_strings(line):
    values, parts = parts_of(line)
    return tf.cast(tf.equal(values[0], "1"), tf.int32), parts


LIBSVM = [decode_libsvm, of_a_known_size, by_columns, parts_as_strings]


@pytest.fixture(name="libsvm", scope="module")
def libsvm_file(tmp_path_factory):
    rng = random.Random(1)
    path = tmp_path_factory.mktemp("libsvm") / "lines"
    pair = lambda: f"{rng.randrange(10**6)}:{rng.random():.{rng.randrange(1, 9)}f}"
    path.write_text("".join(f"{i % 2} {pair()}  {pair()} {pair()}\r\n" for i in range(40)))
    return str(path)


@pytest.mark.parametrize("function", LIBSVM)
@pytest.mark.parametrize("one_shot", [False, True])
def test_libsvm(libsvm, function, one_shot):
    make = lambda: Lines(libsvm).map(function, 10).prefetch(9).shuffle(13, seed=1).repeat(2).batch(7)
    result = assert_replaced(make, one_shot=one_shot)
    assert "lines are decoded a batch at a time" in result.changes[0]


def test_one_op_makes_all_of_a_line(libsvm):
    with tf.Graph().as_default() as graph:
        v1.data.make_initializable_iterator(Lines(libsvm).map(decode_libsvm).batch(4))
        assert tf_booster.rewrite_graph(graph).modified
        (function,) = [f for f in _compat.function_definitions(graph) if "of_batch" in f.signature.name]
        assert [node.op for node in function.node_def if node.op != "Identity"] == ["TfBoosterSplitLines"]


def of_tabs(line):
    fields = tf.strings.split(line, "\t")
    return {"label": to_number(fields[0]), "id": to_number(fields[1], tf.int64), "word": fields[3]}


def numbers_first(line):
    numbers = to_number(v1.string_split([line], "\t").values[4:], tf.float64)
    return numbers[0], numbers[1:3], numbers[-1], numbers


def pieces_by_sizes(line):
    label, number, rest = tf.split(v1.string_split([line], "\t").values, [1, 1, -1])
    first, last, end = tf.split(tf.strings.split([line], "\t").values, [2, -1, 1])
    return label, to_number(number), rest[2], first, last, end


def computed(line):
    fields = tf.reshape(tf.strings.split([line], "\t").values, [-1])
    return tf.strings.to_hash_bucket_fast(fields, 10), tf.cast(to_number(fields[4:]), tf.float64) * 2.0


def of_blanks(line):
    fields = tf.strings.split(line)
    return fields[0], fields[-1], to_number(fields[1:3]) + 1.0


def a_list_in_a_field(line):
    fields = tf.strings.split(line, "\t")
    inside = tf.strings.split(fields[3], "-")
    return to_number(inside[1], tf.int32), tf.strings.join([inside[0], fields[0]])


def words_twice(line):
    fields = v1.string_split([line], "\t").values
    return fields[1:3], fields[1:3][1], fields[1:][:2], fields[-2:]


TABS = [of_tabs, numbers_first, pieces_by_sizes, computed, of_blanks, a_list_in_a_field, words_twice]


@pytest.fixture(name="tabs", scope="module")
def tabs_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("tabs") / "lines"
    row = lambda i: [i % 2, i, f"{i / 7:.4f}", f"name{i % 5}-{i}", *(f"{i * x / 3:.9f}" for x in range(5))]
    path.write_text("".join("\t".join(map(str, row(i))) + "\n" for i in range(40)))
    return str(path)


@pytest.mark.parametrize("function", TABS)
def test_fields_between_tabs(tabs, function):
    assert_replaced(lambda: Lines(tabs).map(function, 2).shuffle(9, seed=3).batch(4))


@pytest.mark.parametrize("skip_empty", [True, False])
def test_empty_pieces(skip_empty):
    def function(line):
        pieces = v1.string_split([line], ",", skip_empty).values
        return pieces, pieces[1], tf.reshape(*_pairs(pieces, ";", skip_empty)), tf.strings.split(line, ",")

    # Four pieces each; without the empty ones two, of two parts.
    lines = [",a;b,,c;;d", "e;f,;g;h,,"] if skip_empty else ["a;,b;,;,;c", ";,;d,;,e;"]
    assert_replaced(lambda: tf.data.Dataset.from_tensor_slices(lines).map(function).batch(4))


def test_an_empty_text_has_no_piece_in_the_older_split():
    def function(line):
        both = v1.string_split([line], ",", skip_empty=False).values, tf.strings.split(line, ",")
        return tuple((pieces, tf.size(pieces)) for pieces in both)

    lines = lambda: tf.data.Dataset.from_tensor_slices(["a,b", "", ",", "c"]).map(function)
    assert_replaced(lambda: lines().padded_batch(3))
    assert_replaced(lambda: lines().map(lambda old, new: (old[0], new[1])).batch(1))


def test_lines_need_not_be_alike_where_only_some_fields_are_taken():
    lines = ["1\t2\t3\tx", "4\t5\t6\t7\t8", "9\t10\t11\t12"]
    make = lambda: tf.data.Dataset.from_tensor_slices(lines).map(of_tabs).batch(2)
    assert_replaced(make)


def test_batches_of_lines_are_left(tabs):
    make = lambda: Lines(tabs).batch(4).map(lambda lines: tf.strings.split(lines, "\t").to_tensor())
    found, _, _, result, _ = outcome(make, True)
    assert found and not result.changes and not result.skipped


def test_a_filter_behind(tabs):
    kept = lambda f: f["label"] > 0.0
    refused = lambda: Lines(tabs).map(of_tabs).filter(kept).batch(4)
    assert_refused(refused, "may fail for a record")
    words = lambda line: (tf.strings.split(line, "\t")[0], tf.strings.split(line, "\t")[99])
    refused = lambda: Lines(tabs).map(words).filter(lambda first, _: first == "1").batch(4)
    assert_refused(refused, "StridedSlice of 'MapDataset' may fail for a record")
    of_all = lambda f: tf.strings.length(f["word"]) + tf.cast(f["id"], tf.int32) + tf.cast(f["label"], tf.int32) > 9
    assert_replaced(lambda: Lines(tabs).map(of_tabs).filter(of_all).batch(4))


# Each fails, or makes a batch of another shape.
BAD = ["", "1", "x 1:2 3:4 5:6", "1 1:2 3:4", "1 1:2 3:4 5:6 7:8", "1 1:2 3 4:5", "1 1 2 3", "1 1:2 3: 5:6", "1 a:2 3:4 5:6",
       "1 1:2:3 4:5:6 7:8:9", "1 1:2:3:4 5:6:7:8 9:1:2:3", "1 : : :", "1 1:2 3:4 5.5:6"]  # fmt: skip


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("function", LIBSVM)
@pytest.mark.parametrize("count", [1, 3])
def test_odd_lines_fail_as_in_tensorflow(bad, function, count):
    """Alone in a batch, or with two good ones."""
    lines = ["0 1:2 3:4 5:6"] * (count - 1) + [bad]
    made = lambda: tf.data.Dataset.from_tensor_slices(lines).map(function).batch(count)
    result, _ = assert_same(made)
    assert result.modified
    messages = []
    for rewrite in (False, True):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            element = v1.data.make_one_shot_iterator(made()).get_next()
            if rewrite:
                tf_booster.rewrite_graph(graph)
            try:
                session.run(element)
            except tf.errors.InvalidArgumentError as error:
                message = error.message.split("}} ")[-1].splitlines()[0]
                messages.append(message if "StringToNumber" in message else message.split(":")[0].split(" with")[0])
    assert len(messages) != 1 and messages[:1] == messages[1:]


def test_a_missing_field_is_an_error():
    made = lambda: tf.data.Dataset.from_tensor_slices(["1\t2\t3"]).map(of_tabs).batch(1)
    found, error, *_ = outcome(made, True)
    assert not found and error is tf.errors.InvalidArgumentError


def test_only_what_makes_a_row_of_all_pieces_is_nothing():
    """Of a smaller number of rows it would be another row."""
    node = v1.NodeDef(op="Minimum")
    one = np.array(1, np.int64)
    assert ragged_line.followed(node, [one, OfRow("split", "positive")], None) is one
    assert ragged_line.followed(node, [one, OfRow("split", "number")], None) is None


def left(function):
    return lambda: tf.data.Dataset.from_tensor_slices(["1 2:3"]).map(function).batch(1)


def test_sizes():
    def sizes(line):
        values, parts = parts_of(line)
        return tf.size(values[1:]), tf.shape(parts[:, 1])[0], tf.size(to_number(parts[:, 0]), tf.int64) + 1

    assert_replaced(left(sizes))


def test_refused():
    split = lambda line, *args, **kwargs: v1.string_split([line], *args, **kwargs)
    assert_refused(left(lambda line: tf.strings.split(line, " ", maxsplit=1)[0]), "not all of a line")
    assert_refused(left(lambda line: split(line, " :").values[0]), "split at b' :'")
    assert_refused(left(lambda line: split(line, "").values), "split at b''")
    assert_refused(left(lambda line: split(line).indices), "the SparseTensor of a split is used")
    assert_refused(left(lambda line: split(line).values[::2]), "a slice with steps")
    assert_refused(left(lambda line: split(line).values[-2:][0]), "counts from the end")
    assert_refused(left(lambda line: split(line).values[:-1][0]), "counts from the end")
    assert_refused(left(lambda line: split(line).values[:1][1]), "behind the end")
    assert_refused(left(lambda line: tf.size(parts_of(line)[1])), "Size")
    assert_refused(left(lambda line: tf.shape(split(line).values)), "length of a list")
    assert_refused(left(lambda line: to_number(split(line).values[:1]) + tf.ones([1])), "may differ")
    assert_refused(left(lambda line: parts_of(line)[1][:, :1]), "more than one column")
    assert_refused(left(lambda line: parts_of(line)[1][:, 0][:1]), "some of the parts")
    assert_refused(left(lambda line: v1.string_split(parts_of(line)[1][:, 0], "2").values), "split again")
    assert_refused(left(lambda line: v1.string_split(split(line).values[1:], ":").values), "SparseTensor")
    twice = lambda line: (parts_of(line)[1], tf.reshape(*_pairs(split(line).values, ";")))
    assert_replaced(left(twice))
    assert_refused(left(lambda line: _two_ways(split(line).values)), "in two ways")
    assert_refused(left(lambda line: tf.split(split(line).values, 2)[0]), "Split")


def _pairs(values, delimiter, skip_empty=True):
    pairs = v1.string_split(values, delimiter, skip_empty)
    return pairs.values, pairs.dense_shape


def _two_ways(values):
    return tf.reshape(*_pairs(values, ":")), tf.reshape(*_pairs(values, ";"))


def test_what_a_parse_gives_is_split_too(tmp_path):
    path = str(tmp_path / "records")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(9):
            text = tf.train.Feature(bytes_list=tf.train.BytesList(value=[f"{i},{i}.5".encode()]))
            writer.write(tf.train.Example(features=tf.train.Features(feature={"text": text})).SerializeToString())
    spec = {"text": tf.io.FixedLenFeature([], tf.string)}

    def parse(record):
        return to_number(tf.strings.split(tf.io.parse_single_example(record, spec)["text"], ",")[1])

    result = assert_replaced(lambda: tf.data.TFRecordDataset(path).map(parse).batch(4))
    assert "are one op" in result.changes[0]


PLACES = st.integers(-3, 4)
USES = st.one_of(
    st.tuples(st.just("element"), PLACES),
    st.tuples(st.just("slice"), st.one_of(st.none(), PLACES), st.one_of(st.none(), PLACES)),
    st.tuples(st.just("slice of a slice"), st.integers(0, 3), st.one_of(st.none(), PLACES)),
    st.tuples(st.just("sizes"), st.permutations([1, -1, 2]), st.integers(0, 2)),
    st.tuples(st.just("parts"), st.integers(0, 2), st.sampled_from(["all", "halves", "column"])),
)
PROGRAMS = st.fixed_dictionaries(
    {
        "split": st.sampled_from(["old", "old, empty ones too", "new", "blanks"]),
        "uses": st.lists(
            st.tuples(USES, st.sampled_from(["string", "number", "number of all", "computed"])), min_size=1, max_size=3
        ),
        "batch_size": st.sampled_from([1, 3]),
        "lines": st.lists(
            st.lists(st.sampled_from(["1:2"] * 9 + ["33:4", "5", "", "7:8:9", "1: 2"]), min_size=4, max_size=6).map(" ".join),
            min_size=1,
            max_size=4,
        ),
    }
)  # fmt: skip


def use(values, kind, *how):
    if kind == "element":
        return values[how[0]]
    if kind == "slice":
        return values[how[0] : how[1]]
    if kind == "slice of a slice":
        return values[how[0] :][1 : how[1]]
    if kind == "sizes":
        return tf.split(values, how[0])[how[1]]
    parts = tf.reshape(*_pairs(values[how[0] :], ":"))
    return {"all": parts, "halves": tf.split(parts, 2, axis=1)[1], "column": parts[:, 0]}[how[1]]


def run_program(program):
    def function(line):
        split = program["split"]
        old = split.startswith("old")
        fields = v1.string_split([line], " ", skip_empty="empty" not in split).values if old else None
        values = fields if old else tf.strings.split(line, None if split == "blanks" else " ")
        found = []
        for how, made in program["uses"]:
            if made == "number of all" and how[0] != "parts":
                found.append(use(to_number(values), *how))
                continue
            taken = use(values, *how)
            found.append(taken if made == "string" else to_number(taken))
            if made == "computed":
                found[-1] = tf.cast(found[-1] * 2.0, tf.int64)
        return tuple(found)

    lines = lambda: tf.data.Dataset.from_tensor_slices(program["lines"])
    return assert_same(lambda: lines().map(function).batch(program["batch_size"]))[0].modified


def is_replaced(_, program):
    try:
        return run_program(program)
    except ValueError as error:
        assert "slice index" in str(error)  # Of a piece of a known size: no program.
        return False


def test_random_programs(files):
    assert num_replaced(is_replaced, PROGRAMS, files, max_examples=40, derandomize=True) >= 15


if __name__ == "__main__":
    try_more(is_replaced, PROGRAMS)
