"""Lines that decode_csv decodes one by one and that are then batched: the same batches from lines that are batched first, or a reason."""

from __future__ import annotations

import gzip
import os

import numpy as np
import pytest
import tensorflow as tf
from pipeline_pairs import assert_refused, assert_replaced, assert_same, outcome

import tf_booster
from tf_booster.passes import eager_datasets
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.input_pipeline import InputPipeline

v1 = tf.compat.v1
Lines = tf.data.TextLineDataset
COLUMNS = ["age", "hours", "income", "work", "label"]
DEFAULTS = [[0], [-1.0], np.array([0], np.int64), ["none"], [""]]


@pytest.fixture(name="files", scope="module")
def text_files(tmp_path_factory):
    rng = np.random.default_rng(1)
    folder = tmp_path_factory.mktemp("text")
    names = []
    for i, count in enumerate((7, 0, 19, 4)):
        rows = [
            f"{rng.integers(90) if rng.random() < 0.9 else ''},{rng.random() * 60:.{rng.integers(1, 9)}f},{rng.integers(-(10**12), 10**12)},"
            + (f'"some, ""{rng.integers(9)}"""' if rng.random() < 0.3 else f"Private{rng.integers(9)}")
            + f",{'>50K' if rng.random() < 0.4 else '<=50K'}"
            for _ in range(count)
        ]
        names.append(str(folder / f"{i}.csv"))
        with open(names[-1], "w") as file:
            file.write("\r\n".join(rows) if i == 2 else "".join(row + "\n" for row in rows))
    return names


def decode(line):
    return dict(zip(COLUMNS, tf.io.decode_csv(line, DEFAULTS)))


def parse(line):
    """As the programs of TensorFlow's tutorials write it."""
    features = decode(line)
    return features, tf.equal(features.pop("label"), ">50K")


def selected(line):
    found = tf.io.decode_csv(line, [[0.0], ["x"]], select_cols=[1, 3], na_value="Private3")
    return {"both": tf.stack([found[0], found[0] * 2.0]), "column": tf.expand_dims(found[1], -1)}


def computed(line):
    features = decode(tf.strings.regex_replace(line, "Private", "Public"))
    return {
        "log": tf.math.log1p(tf.maximum(features["hours"], 0.0)),
        "bucket": tf.strings.to_hash_bucket_fast(features["work"], 100),
        "old": tf.cast(features["age"] > 40, tf.int64),
        "decade": tf.one_hot(features["age"] // 10, 9),
        "ones first": tf.one_hot(tf.expand_dims(features["age"] // 10, 0), 9, 2.0, -1.0, axis=0),
    }


@pytest.mark.parametrize("function", [decode, parse, selected, computed])
@pytest.mark.parametrize("calls", [None, 3, tf.data.AUTOTUNE])
@pytest.mark.parametrize("one_shot", [False, True])
def test_the_plain_pipeline(files, function, calls, one_shot):
    result = assert_replaced(lambda: Lines(files).map(function, num_parallel_calls=calls).batch(4), one_shot=one_shot)
    assert "lines are decoded a batch at a time" in result.changes[0]


def test_steps_on_either_side(files):
    assert_replaced(lambda: Lines(files).map(parse).shuffle(10, seed=3).repeat(3).batch(4).prefetch(2))
    assert_replaced(
        lambda: Lines(files).shuffle(6, seed=1).map(parse, 2).prefetch(3).repeat(2).batch(4, drop_remainder=True)
    )
    assert_replaced(lambda: Lines(files).skip(1).map(parse).shard(2, 1).skip(2).take(9).batch(4).repeat(2))
    assert_replaced(
        lambda: Lines(files).map(parse).apply(tf.data.experimental.shuffle_and_repeat(5, 2, seed=9)).batch(4)
    )
    assert_replaced(lambda: Lines(files).map(parse).shuffle(7).repeat().take(50).batch(8))
    assert_replaced(lambda: tf.data.Dataset.from_tensor_slices(files).interleave(Lines, 2, 1).map(parse).batch(4))
    assert_replaced(lambda: tf.data.Dataset.from_tensor_slices(["1,2.5,3,4,5"] * 9).map(parse).batch(4))


def test_new_ops_do_not_claim_the_types_of_old_ones():
    """TensorFlow would warn of an invalid graph."""
    with tf.Graph().as_default() as graph:
        lines = tf.data.Dataset.from_tensor_slices(["1,2.5,3,4,5"] * 9)
        v1.data.make_initializable_iterator(lines.map(parse).shuffle(9).cache().repeat(2).batch(4))
        assert tf_booster.rewrite_graph(graph).modified
        new = [op for op in graph.get_operations() if op.name.startswith("tf_booster/input_pipeline/")]
        assert [op.type for op in new] == [
            "ShuffleDataset",
            "CacheDataset",
            "RepeatDataset",
            "BatchDatasetV2",
            "MapDataset",
        ]
        assert not any("INT" in str(op.node_def.experimental_type) for op in new[:-1])


def read_by_us(result):
    """Of each change, whether it has the lines' files, too."""
    return ["TextLineBatchDataset" in change for change in result.changes]


@pytest.fixture(name="odd_files", scope="module")
def files_of_odd_texts(tmp_path_factory):
    """One number a line, where carriage returns are none."""
    folder = tmp_path_factory.mktemp("odd")
    texts = [b"1\r\n2\r\n3", b"", b"\r4\r\n5\n6\r\r\n7\r8\n\r", b"9\n" * 40, b"10\n11\r"]
    for i, text in enumerate(texts):
        (folder / str(i)).write_bytes(text)
        (folder / f"{i}.gz").write_bytes(gzip.compress(text))
    return [str(folder / str(i)) for i in range(len(texts))]


def number(line):
    return tf.io.decode_csv(line, [[0]])[0]


def interleaved(files, cycle, block, calls=None):
    return tf.data.Dataset.from_tensor_slices(files).interleave(Lines, cycle, block, num_parallel_calls=calls)


OF_FILES = {
    "plain": Lines,
    "a name": lambda files: Lines(files[3]),
    "through a small buffer": lambda files: Lines(files, buffer_size=3),
    "compressed": lambda files: Lines([f"{file}.gz" for file in files], "GZIP"),
    "in turns": lambda files: interleaved(files, 2, 3),
    "in turns, at once": lambda files: interleaved(files, 3, 2, 2),
    "in chosen turns": lambda files: tf.data.Dataset.from_tensor_slices(files).interleave(Lines),
    "parallel reads": lambda files: Lines(files, num_parallel_reads=2),
    "one after another": lambda files: tf.data.Dataset.from_tensor_slices(files).flat_map(Lines),
    "compressed in turns": lambda files: tf.data.Dataset.from_tensor_slices(
        [f"{file}.gz" for file in files]
    ).interleave(lambda name: Lines(name, "GZIP"), 2),
    "without headers": lambda files: tf.data.Dataset.from_tensor_slices(files).flat_map(
        lambda name: Lines(name).skip(1)
    ),
    "without headers, in turns": lambda files: tf.data.Dataset.from_tensor_slices(files).interleave(
        lambda name: Lines(name).skip(2), 3, 2, num_parallel_calls=2
    ),
    "no header": lambda files: tf.data.Dataset.from_tensor_slices(files).interleave(
        lambda name: Lines(name).skip(0), 2
    ),
    "shuffled names": lambda files: tf.data.Dataset.list_files(files, seed=3).flat_map(Lines),
}
STEPS = {
    "none": lambda lines: lines,
    "shuffle": lambda lines: lines.shuffle(20, seed=4),
    "shuffle, repeat": lambda lines: lines.shuffle(20, seed=4).repeat(3),
    "shuffle and repeat": lambda lines: lines.apply(tf.data.experimental.shuffle_and_repeat(20, 3, seed=4)),
    "repeat once": lambda lines: lines.shuffle(5, seed=4).repeat(1).prefetch(3).repeat(2),
    "picked": lambda lines: lines.skip(1).shard(2, 1).take(20),
    "cached": lambda lines: lines.shuffle(5, seed=1).cache().shuffle(9, seed=2).repeat(2),
    "at random": lambda lines: lines.shuffle(7).repeat().take(99),
}


@pytest.mark.parametrize(
    "reader, steps", [*((reader, "shuffle, repeat") for reader in OF_FILES), *(("in turns", steps) for steps in STEPS)]
)
def test_files_and_all_steps_are_one_op(odd_files, reader, steps):
    lines = lambda: STEPS[steps](OF_FILES[reader](odd_files))
    drop = len(steps) % 2 == 0
    for make in (
        lambda: lines().map(number).batch(4, drop_remainder=drop).prefetch(1),
        lambda: STEPS[steps](OF_FILES[reader](odd_files).map(number, 2)).batch(4, drop_remainder=drop),
        lambda: lines().batch(4, drop_remainder=drop).map(number).prefetch(1),
        lambda: lines().batch(4).prefetch(2).repeat(2).take(30).map(number, 2),
    ):
        assert read_by_us(assert_replaced(make)) == [True]


@pytest.mark.parametrize("drop, size", [(True, 4), (False, None)])
def test_the_static_shape_of_batches_of_lines(odd_files, drop, size):
    for make in (
        lambda: Lines(odd_files).map(number).batch(4, drop_remainder=drop),
        lambda: Lines(odd_files).batch(4, drop_remainder=drop).map(number),
    ):
        with tf.Graph().as_default() as graph:
            v1.data.make_initializable_iterator(make())
            assert InputPipeline().run(GraphView(graph)).modified
            (made,) = [op for op in graph.get_operations() if op.type == "TfBoosterTextLineBatchDataset"]
            assert [tf.TensorShape(shape).as_list() for shape in made.get_attr("output_shapes")] == [[size]]


LEFT_TO_TENSORFLOW = {
    "from memory": lambda files: tf.data.Dataset.from_tensor_slices(["1", "2"]).map(number).batch(4),
    "all lines are skipped": lambda files: tf.data.Dataset.from_tensor_slices(files)
    .flat_map(lambda name: Lines(name).skip(-1))
    .map(number)
    .batch(4),
    "a filter of lines": lambda files: Lines(files).filter(lambda line: line != "3").map(number).batch(4),
    "a filter of numbers": lambda files: Lines(files).map(number).filter(lambda n: n > 2).shuffle(5, seed=1).batch(4),
    "a map of lines": lambda files: Lines(files).map(tf.strings.strip).map(number).batch(4),
    "a map of lines, batched": lambda files: Lines(files).map(tf.strings.strip).batch(4).map(number),
    "more lines behind": lambda files: Lines(files).concatenate(Lines(files[3:])).map(number).batch(4),
    "another size of buffer": lambda files: Lines([f"{file}.gz" for file in files], "GZIP", 1 << 20)
    .map(number)
    .batch(4),
    "files of records": lambda files: tf.data.TFRecordDataset([]).map(number).batch(4),
    "batches behind batches": lambda files: Lines(files).batch(3).unbatch().batch(4).map(number),
}


@pytest.mark.parametrize("name", LEFT_TO_TENSORFLOW)
def test_what_tensorflow_goes_on_reading(odd_files, name):
    assert read_by_us(assert_replaced(lambda: LEFT_TO_TENSORFLOW[name](odd_files))) == [False]


@pytest.mark.parametrize("reshuffle", [False, True])
@pytest.mark.parametrize("cached", [False, True])
def test_orders_of_an_iterator_that_begins_again(odd_files, reshuffle, cached):
    found = []
    for rewrite in (False, True):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            lines = Lines(odd_files).shuffle(30, seed=7, reshuffle_each_iteration=reshuffle)
            decoded = (lines.cache() if cached else lines).map(number).shuffle(5, seed=8).repeat(2).batch(6)
            iterator = v1.data.make_initializable_iterator(decoded)
            element = iterator.get_next()
            assert not rewrite or read_by_us(InputPipeline().run(GraphView(graph))) == [True]
            batches = []
            for _ in range(3):
                session.run(iterator.initializer)
                with pytest.raises(tf.errors.OutOfRangeError):
                    while True:
                        batches.append(session.run(element).tolist())
            found.append(batches)
    assert found[0] == found[1] and len(found[0]) > 3


@pytest.mark.parametrize("place", [0, 1, 4])
@pytest.mark.parametrize("calls", [None, 2])
def test_a_file_that_is_missing(odd_files, place, calls):
    names = [*odd_files[:place], odd_files[0] + "-missing", *odd_files[place:]]
    for make in (
        lambda: Lines(names).map(number, calls).batch(4),
        lambda: Lines(names).map(number).shuffle(60, seed=1).batch(4),
        lambda: Lines(names).batch(4).map(number),
        lambda: interleaved(names, 2, 2).map(number).batch(4),
        lambda: interleaved(names, 2, 2, calls).map(number).batch(1),
        lambda: tf.data.Dataset.from_tensor_slices(names)
        .flat_map(Lines)
        .shuffle(3, seed=2)
        .repeat(2)
        .batch(4)
        .map(number),
    ):
        assert read_by_us(assert_replaced(make, errors=True)) == [True]
        assert outcome(make, True)[1] is tf.errors.NotFoundError


def test_a_missing_file_behind_the_last_line_that_is_taken(odd_files):
    names = [odd_files[0], odd_files[0] + "-missing"]
    assert_replaced(lambda: Lines(names).map(number).take(3).batch(3))
    assert_replaced(lambda: Lines(names).map(number).take(3).batch(2))


def test_no_more_batches_lie_in_memory_than_processors_make(files):
    with tf.Graph().as_default() as graph:
        v1.data.make_initializable_iterator(Lines(files).map(parse, num_parallel_calls=1000).batch(4))
        assert tf_booster.rewrite_graph(graph).modified
        (made,) = [op for op in graph.get_operations() if op.type == "ParallelMapDatasetV2" and "tf_booster" in op.name]
        assert 1 <= tf.get_static_value(made.inputs[-1]) <= len(os.sched_getaffinity(0))


def test_a_cache_holds_lines(files, tmp_path):
    assert_replaced(lambda: Lines(files).map(parse, 2).cache().shuffle(9, seed=3).repeat(3).batch(4))
    assert_refused(lambda: Lines(files).map(parse).cache(str(tmp_path / "cache")).batch(4), "CacheDataset")


def test_a_filter_of_lines(files):
    assert_replaced(
        lambda: Lines(files).filter(lambda line: tf.strings.regex_full_match(line, ".*K")).map(parse).batch(4)
    )


def test_a_filter_of_what_is_decoded(files):
    assert_replaced(lambda: Lines(files).map(parse, 2).filter(lambda f, y: f["age"] > 30).shuffle(9, seed=2).batch(4))

    def several():
        least = tf.constant(20.0)
        parsed = Lines(files).map(parse).filter(lambda f, y: tf.logical_or(y, tf.random.uniform([], seed=3) < 0.5))
        scaled = parsed.shuffle(5, seed=1).map(lambda f, y: (f["hours"] * least, f["work"]))
        return scaled.repeat(2).filter(lambda h, w: h > least * 20.0).take(20).batch(3)

    assert_replaced(several)


def test_a_bad_line_that_is_filtered_out_fails(tmp_path):
    (tmp_path / "bad.csv").write_text("1,2,3,4,5\n-1,x,3,4,5\n2,2,3,4,5\n")
    make = lambda: Lines(str(tmp_path / "bad.csv")).map(parse).filter(lambda f, y: f["age"] > 0).batch(1)
    assert outcome(make, True)[:2] == outcome(make, False)[:2]
    assert outcome(make, True)[1] is tf.errors.InvalidArgumentError


def test_lines_with_numbers_beside_them(files):
    def of_both(number, line):
        return {"number": number + 1, **decode(line)}

    assert_replaced(lambda: Lines(files).enumerate().map(of_both).batch(4))


def test_several_maps_in_a_row(files):
    def make():
        scale = tf.constant(3.0)
        parsed = Lines(files).map(parse, 2).shuffle(9, seed=1)
        return (
            parsed.map(lambda f, y: (dict(f, hours=f["hours"] / scale), tf.cast(y, tf.float32)))
            .batch(4)
            .map(lambda f, y: (f["hours"], y))
        )

    assert_replaced(make)


@pytest.mark.parametrize("calls", [None, 2])
def test_lines_decoded_in_the_function_that_reads_each_file(files, calls):
    names = tf.data.Dataset.from_tensor_slices
    without_header = lambda name: Lines(name).skip(1).map(parse).prefetch(2)
    assert_replaced(
        lambda: names(files).interleave(without_header, 2, 3, num_parallel_calls=calls).shuffle(9, seed=3).batch(4)
    )
    assert_replaced(
        lambda: names(files).flat_map(lambda name: Lines(name).map(decode).map(lambda f: f["age"])).batch(4)
    )
    shuffled = lambda name: Lines(name).map(parse).shuffle(5, seed=1)
    assert_refused(lambda: names(files).interleave(shuffled, 2).batch(4), "each file is parsed by itself")


def test_fields_that_are_split_again(files):
    def first_word(line):
        features = decode(line)
        return dict(features, words=tf.strings.split(features["work"], "a")[:1])

    assert_replaced(lambda: Lines(files).map(first_word).batch(4))


def test_fields_that_are_lines_themselves(files):
    def again(features):
        return dict(features, twice=tf.io.decode_csv(features["label"], [["none"]], field_delim="K")[0])

    kept = lambda line: {"label": tf.io.decode_csv(line, DEFAULTS)[3]}
    result = assert_replaced(lambda: Lines(files).map(kept).map(again).batch(4))
    assert len(result.changes) == 1


def test_options_stay(files):
    def make():
        options = tf.data.Options()
        options.deterministic = True
        return Lines(files).map(parse, 4).with_options(options).batch(4)

    assert_replaced(make)


def test_batches_that_are_decoded_already(files):
    result = assert_replaced(lambda: Lines(files).shuffle(9, seed=3).batch(4).map(parse))
    assert "one faster op" in result.changes[0]
    assert_replaced(lambda: Lines(files).batch(4, drop_remainder=True).map(decode, 2).repeat(2))


def test_two_batches_of_one_map(files):
    def make():
        parsed = Lines(files).map(parse)
        return tf.data.Dataset.zip((parsed.batch(2), parsed.take(9).batch(3)))

    result = assert_replaced(make)
    assert len(result.changes) == 2


def test_single_lines_that_are_read_too(files):
    def make():
        parsed = Lines(files).map(parse)
        return tf.data.Dataset.zip((parsed.batch(2), parsed))

    assert_replaced(make, rest=True)


@pytest.mark.parametrize("bad", ["1,2,3,4", "1,x,3,4,5", '1,2,3,"4,5', "1,2,3,4,5,6"])
@pytest.mark.parametrize("place", [0, 5, 11])
def test_a_bad_line_fails_its_batch(tmp_path, bad, place):
    good = ["1,2,3,4,5"] * 11
    path = str(tmp_path / "bad.csv")
    (tmp_path / "bad.csv").write_text("\n".join(good[:place] + [bad] + good[place:]) + "\n")
    for make in (lambda: Lines(path).map(parse).batch(4), lambda: Lines(path).batch(4).map(parse)):
        messages = []
        for rewrite in (False, True):
            with tf.Graph().as_default() as graph, v1.Session() as session:
                element = v1.data.make_one_shot_iterator(make()).get_next()[1]
                if rewrite:
                    tf_booster.rewrite_graph(graph)
                found = 0
                with pytest.raises(tf.errors.InvalidArgumentError) as raised:
                    while True:
                        found += len(session.run(element))
                messages.append((found, raised.value.message.split("}} ")[-1].splitlines()[0]))
        assert messages[0] == messages[1]
    assert outcome(lambda: Lines(path).map(parse).batch(4), True)[1] is tf.errors.InvalidArgumentError


def test_refused(files):
    some = lambda f, y: tf.random.uniform([]) < 0.5
    assert_refused(lambda: Lines(files).map(parse).filter(some).batch(4), "may fail for a record")
    assert_replaced(lambda: Lines(files).map(parse).padded_batch(4))
    assert_refused(lambda: Lines(files).map(parse), "not to a batch")
    assert_refused(
        lambda: Lines(files).map(parse).batch(4).apply(tf.data.experimental.ignore_errors()), "broken record"
    )

    def with_a_list(line):
        features = decode(line)
        features["letters"] = tf.strings.bytes_split(features["work"])[:1]
        return features

    assert_refused(lambda: Lines(files).map(with_a_list).batch(4), "left for single records")

    def at_random(line):
        return decode(line), tf.random.uniform([])

    assert_refused(lambda: Lines(files).map(at_random).batch(4), "has a state")


def test_map_and_batch(files):
    with_batch = tf.data.experimental.map_and_batch
    for drop in (False, True):
        assert_replaced(
            lambda drop=drop: Lines(files).shuffle(9, seed=1).apply(with_batch(parse, 4, drop_remainder=drop))
        )
    assert_replaced(lambda: Lines(files).map(parse).shuffle(9, seed=1).apply(with_batch(lambda f, y: (f, y, y), 4)))


def test_a_shuffle_that_others_read_stays(files):
    def make():
        shuffled = Lines(files).map(parse).shuffle(9, seed=3)
        return tf.data.Dataset.zip((shuffled.take(9).batch(3), shuffled.skip(9).batch(2)))

    result, _ = assert_same(make)
    assert any("keeps an order" in why for _, why in result.skipped)


def test_a_cache_that_others_read_stays(files):
    def make():
        cached = Lines(files).shuffle(30).map(parse).cache()
        return tf.data.Dataset.zip((cached.batch(3), cached.batch(3)))

    found, _, _, result, _ = outcome(make, True)
    assert any("keeps an order" in why for _, why in result.skipped)
    for batch in found:
        np.testing.assert_array_equal(*np.split(np.array(batch, object), 2))


EAGER = {
    "shuffled": lambda files: Lines(files).map(parse, 2).shuffle(10, seed=3).batch(4),
    "one order": lambda files: Lines(files)
    .map(parse)
    .shuffle(9, seed=3, reshuffle_each_iteration=False)
    .batch(4)
    .prefetch(1),
    "repeated": lambda files: Lines(files).shuffle(10, seed=3).repeat(2).map(parse).batch(4, drop_remainder=True),
    "in batches": lambda files: Lines(files, num_parallel_reads=2).batch(4).map(decode),
    "interleaved": lambda files: tf.data.Dataset.from_tensor_slices(files).interleave(Lines, 2).map(parse).batch(4),
}


@pytest.mark.parametrize("name", EAGER)
def test_eager_datasets(files, name):
    plain = EAGER[name](files)
    epochs = [list(plain.as_numpy_iterator()), list(plain.as_numpy_iterator())]
    tf.enable_gpu_booster()
    try:
        mine = EAGER[name](files)
        assert eager_datasets.stands_for(mine) is not mine
        assert "TextLineBatchDataset" in str(tf_booster.report())
        for epoch in epochs:
            tf.nest.map_structure(np.testing.assert_array_equal, list(mine.as_numpy_iterator()), epoch)
    finally:
        tf_booster.disable_gpu_booster()


def test_a_cache_of_an_eager_program_stays(files):
    """Another dataset that is made of it would find lines in it."""
    tf.enable_gpu_booster()
    try:
        cached = Lines(files).map(parse).cache()
        single = list(cached.as_numpy_iterator())
        batched = next(cached.batch(len(single)).as_numpy_iterator())
        np.testing.assert_array_equal(batched[1], [label for _, label in single])
    finally:
        tf_booster.disable_gpu_booster()
