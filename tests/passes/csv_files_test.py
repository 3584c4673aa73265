"""CsvDataset and make_csv_dataset: the same batches, and errors, from records that one op reads and another decodes; or a reason."""

import gzip
import random
import re
import zlib

import numpy as np
import pytest
import tensorflow as tf
from pipeline_pairs import assert_refused, assert_replaced

import tf_booster
from tf_booster.passes import eager_datasets
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.input_pipeline import InputPipeline

v1 = tf.compat.v1
Csv = tf.data.experimental.CsvDataset
DEFAULTS = [[0], [-1.0], np.array([7], np.int64), ["none"], np.array([0.5], np.float64)]
NAMES = ["age", "hours", "income", "work", "rate"]


def record(rng):
    work = rng.choice(["Private", '"some, ""of them"""', '"two\nlines"', '"and\r\nthree\n"', '""', "", "NA"])
    return f"{rng.choice([rng.randrange(90), ''])},{rng.random():.{rng.randrange(1, 9)}f},{rng.randrange(-(10**12), 10**12)},{work},{rng.random()}"


@pytest.fixture(name="files", scope="module")
def csv_files(tmp_path_factory):
    rng = random.Random(1)
    folder = tmp_path_factory.mktemp("csv")
    names = []
    for i, (count, end) in enumerate([(7, "\n"), (1, "\r\n"), (19, "\n"), (5, "\n")]):
        names.append(str(folder / f"{i}.csv"))
        with open(names[-1], "w", newline="") as file:
            file.write(end.join([",".join(NAMES), *(record(rng) for _ in range(count))]) + (end if i % 2 else ""))
    return names


def made(files, batch=4, **kwargs):
    kwargs = {"num_epochs": 1, "shuffle": False, "column_defaults": DEFAULTS, "header": True, **kwargs}
    return lambda: tf.data.experimental.make_csv_dataset(files, batch, **kwargs)


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"label_name": "age"},
        {"num_epochs": 3, "shuffle": True, "shuffle_seed": 4, "shuffle_buffer_size": 6},
        {"num_epochs": 2, "shuffle": True, "shuffle_buffer_size": 100},
        {"num_parallel_reads": 3, "prefetch_buffer_size": 2},
        {"select_columns": ["age", "work"], "column_defaults": [[0], [""]]},
        {"na_value": "NA"},
        {"column_names": list("abcde"), "header": True},
    ],
    ids=lambda kwargs: "-".join(kwargs) or "plain",
)
def test_make_csv_dataset(files, kwargs):
    result = assert_replaced(made(files, **kwargs))
    assert "are one op, TextLineBatchDataset; lines are decoded a batch at a time" in result.changes[0]


def test_what_users_do_behind_it(files):
    assert_replaced(
        lambda: made(files, label_name="rate")().map(lambda f, y: ({**f, "hours": f["hours"] * 2.0}, y > 0.5))
    )
    assert_replaced(lambda: made(files, num_epochs=2)().take(3).prefetch(1), one_shot=True)


def test_for_ever(files):
    make = lambda: made(files, num_epochs=None, shuffle=True, shuffle_seed=1)().take(20)
    assert "repeat" in assert_replaced(make).changes[0]


@pytest.mark.parametrize("quotes", [True, False])
def test_other_delimiters(tmp_path, quotes):
    file = str(tmp_path / "file")
    with open(file, "w") as text:
        text.write('1|"2, 3"|x\n4|5|"y"\n|""|\n')
    assert_replaced(lambda: Csv(file, [[0], ["a"], ["b"]], field_delim="|", use_quote_delim=quotes).batch(2))


def test_by_itself(files):
    all_of = lambda **kwargs: Csv(files, DEFAULTS, header=True, **kwargs)
    assert_replaced(lambda: all_of().batch(4))
    assert_replaced(lambda: Csv(files[0], DEFAULTS, header=True).batch(4, drop_remainder=True), one_shot=True)
    assert_replaced(lambda: all_of().shuffle(9, seed=2).repeat(2).batch(4).prefetch(1))
    some = lambda: Csv(files, [[0.0], [""]], header=True, select_cols=[1, 3], buffer_size=3)
    assert_replaced(lambda: some().skip(2).take(9).batch(4))
    assert_replaced(
        lambda: all_of().map(lambda age, hours, income, work, rate: {"x": hours + 1.0, "y": age > 3}).batch(4)
    )
    files_of = lambda: tf.data.Dataset.from_tensor_slices(files)
    assert_replaced(lambda: files_of().interleave(lambda f: Csv(f, DEFAULTS, header=True), 2, 3).batch(4))
    assert_replaced(lambda: files_of().flat_map(lambda f: Csv(f, DEFAULTS, header=True)).batch(4))


def test_names_that_come_later(files):
    with tf.Graph().as_default(), v1.Session() as session:
        names = v1.placeholder(tf.string, [None])
        iterator = v1.data.make_initializable_iterator(Csv(names, DEFAULTS, header=True).batch(4))
        ages = iterator.get_next()[0]
        assert "one op" in str(tf_booster.rewrite_graph())
        session.run(iterator.initializer, {names: files[:1]})
        assert len(session.run(ages)) == 4


def packed(files, folder, by):
    """Copies of `files` that are compressed."""
    names = []
    for file in files:
        names.append(str(folder / file.rsplit("/", 1)[-1]) + ".packed")
        with open(file, "rb") as plain, open(names[-1], "wb") as out:
            out.write(by.compress(plain.read()))
    return names


@pytest.mark.parametrize("by", [gzip, zlib])
def test_compressed_files(tmp_path, files, by):
    names, kind = packed(files, tmp_path, by), by.__name__.upper()
    if by is gzip:
        assert_replaced(made(names, compression_type=kind, num_epochs=2, shuffle=True, shuffle_seed=4))
        assert_replaced(made(names, compression_type=kind, num_parallel_reads=3, na_value="NA"))
    assert_replaced(lambda: Csv(names, DEFAULTS, kind, header=True).shuffle(9, seed=2).repeat(2).batch(4))
    assert_replaced(lambda: Csv(files, DEFAULTS, kind).batch(1), errors=True)


@pytest.mark.parametrize("damage", ["bytes", "end", "behind", "none"])
def test_a_damaged_compressed_file(tmp_path, files, damage):
    """As many records come before the error as with TensorFlow, which takes buffers of 4 MB, or none of one."""
    file, rng = str(tmp_path / "file"), np.random.RandomState(1)
    with open(file, "w") as text:
        text.writelines(f"{i},{rng.bytes(100).hex()}\n" for i in range(60_000))
    (name,) = packed([file], tmp_path, gzip)
    with open(name, "rb") as text:
        content = text.read()
    at = len(content) * 3 // 4
    with open(name, "wb") as text:
        text.write({
            "bytes": content[:at] + bytes(64) + content[at + 64 :], "end": content[:at], "behind": content + b"no gzip",
            "none": content,
        }[damage])  # fmt: skip
    assert_replaced(lambda: Csv(name, [[0], [""]], "GZIP").batch(500), errors=damage in ("end", "none"))


BROKEN = {
    "no number": "1,2,x\ny,2,x\n3,4,x\n",
    "few fields": "1,2,x\n3,4\n\n5,6,x\n",
    "many fields": "1,2,x\n3,4,x,y\n5,6,x\n",
    "required": "1,,x\n,2,x\n3,4,\n",
    "a quote within": '1,2,x\n1,2,a"b\n3,4,"y"\n',
    "behind a quote": '1,2,x\n1,2,"a"b,"\n4,5,z\n6,7,"8"\n',
    "open at the end": '1,2,x\n1,2,"a\nb\n',
}


@pytest.mark.parametrize("which", BROKEN)
def test_broken_records(tmp_path, which):
    """Records before and behind are those of TensorFlow, whose batches of one are compared."""
    file = str(tmp_path / "file")
    with open(file, "w") as text:
        text.write(BROKEN[which])
    required = tf.int32
    assert_replaced(lambda: Csv(file, [required, [0.0], ["a"]]).batch(1), errors=True)
    assert_replaced(lambda: Csv(file, [required, [0.0]], select_cols=[0, 1]).batch(1), errors=True)


@pytest.mark.parametrize("which", ["no number", "few fields", "many fields", "required"])
def test_words_of_errors(tmp_path, which):
    """TensorFlow's name the field, and no record: the batch is no place that a reader knows."""
    file, words = str(tmp_path / "file"), []
    with open(file, "w") as text:
        text.write("0,0,\n" + BROKEN[which])
    for rewritten in (False, True):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            element = v1.data.make_one_shot_iterator(Csv(file, [tf.int32, tf.float32, ["a"]]).batch(4)).get_next()
            assert not rewritten or InputPipeline().run(GraphView(graph)).modified
            with pytest.raises(tf.errors.InvalidArgumentError) as error:
                session.run(element)
            words.append(re.search(r"(Field|Expect) .*", error.value.message)[0])
    assert words[0] == words[1]


def test_files_without_a_header_and_files_that_are_not_there(tmp_path, files):
    empty = str(tmp_path / "empty")
    open(empty, "w").close()
    assert_replaced(lambda: Csv([files[0], empty, files[1]], DEFAULTS, header=True).batch(1), errors=True)
    assert_replaced(lambda: Csv([files[0], empty, files[1]], [[""]] * 5).batch(1), errors=True)
    assert_replaced(lambda: Csv([files[0], empty + "x"], DEFAULTS, header=True).batch(1), errors=True)


def random_text(rng, file):
    kinds = ['"', "a", ",", "\n", "\r", "\r\n", '""', '"b"', ',"', '",', "1"]
    with open(file, "w", newline="") as text:
        text.write("".join(rng.choice(kinds) for _ in range(rng.randrange(1, 60))))


@pytest.mark.parametrize("seed", range(60))
def test_texts_at_random(tmp_path, seed):
    rng, file = random.Random(seed), str(tmp_path / "file")
    random_text(rng, file)
    quotes, columns = rng.random() < 0.8, rng.choice([None, [0, 1], [0, 2], [1, 2]])
    assert_replaced(
        lambda: Csv(file, [["x"], ["y"]], select_cols=columns, use_quote_delim=quotes).batch(1), errors=True
    )


def test_several_datasets_of_one_graph(files):
    def run(make, rewritten):
        with tf.Graph().as_default(), v1.Session() as session:
            v1.set_random_seed(3)
            elements = [v1.data.make_one_shot_iterator(dataset).get_next()[3] for dataset in make()]
            said = str(tf_booster.rewrite_graph()) if rewritten else ""
            return [session.run(element).tolist() for element in elements for _ in range(2)], said.count("are one op")

    def batches_of_one():
        one = Csv(files, DEFAULTS, header=True).shuffle(9, seed=1)
        return one.batch(2), one.batch(3)

    def others():
        return Csv(files, [[""]] * 5, header=True).batch(2), Csv(files, DEFAULTS, header=True).batch(2)

    for make in (batches_of_one, others):
        (ours, replaced), (theirs, _) = run(make, True), run(make, False)
        assert ours == theirs and replaced == 2


def test_records_that_are_read_beside_batches_are_tensorflows(files):
    """What the batches would be made of is nothing that TensorFlow can read."""
    with tf.Graph().as_default(), v1.Session() as session:
        one = Csv(files, DEFAULTS, header=True)
        iterators = [v1.data.make_initializable_iterator(dataset) for dataset in (one.batch(2), one.take(3))]
        batch, single = (iterator.get_next()[3] for iterator in iterators)
        assert "not to a batch" in str(tf_booster.rewrite_graph())
        session.run([iterator.initializer for iterator in iterators])
        assert session.run(batch)[0] == session.run(single)


@pytest.mark.parametrize(
    "make", [lambda files: made(files)(), lambda files: Csv(files, DEFAULTS, header=True).batch(4)]
)
def test_eager_programs(files, make):
    plain = list(make(files).as_numpy_iterator())
    tf.enable_gpu_booster()
    try:
        dataset = make(files)
        assert eager_datasets.stands_for(dataset) is not dataset
        ours = list(dataset.as_numpy_iterator())
    finally:
        tf_booster.disable_gpu_booster()
    tf.nest.map_structure(np.testing.assert_array_equal, ours, plain)


def test_an_estimator_trains_from_it(files, tmp_path):
    """As TensorFlow's tutorials and many notebooks have it."""

    def trained(boosted):
        columns = [tf.feature_column.numeric_column("hours"), *(
            tf.feature_column.embedding_column(tf.feature_column.categorical_column_with_hash_bucket(key, 9, dtype), 3,
                                               initializer=v1.random_uniform_initializer(seed=1))
            for key, dtype in (("work", tf.string), ("income", tf.int64))
        )]  # fmt: skip
        config = tf.estimator.RunConfig(tf_random_seed=1)
        estimator = tf.estimator.LinearRegressor(columns, str(tmp_path / str(boosted)), config=config)
        if boosted:
            tf.enable_gpu_booster()
        try:
            estimator.train(made(files, label_name="rate", num_epochs=3, shuffle=True, shuffle_seed=7))
            assert not boosted or "TextLineBatchDataset" in str(tf_booster.report())
        finally:
            tf_booster.disable_gpu_booster()
        return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}

    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), trained(True), trained(False))


def test_refusals(tmp_path, files):
    names = packed(files, tmp_path, gzip)
    assert_refused(lambda: Csv(names, DEFAULTS, "GZIP", buffer_size=9, header=True).batch(2), "buffer of another size")
    assert_refused(lambda: Csv(files[0], [[""]], select_cols=[3]).batch(2), "one column")
    assert_refused(lambda: Csv(files[0], [[""]] * 4, exclude_cols=[2]).batch(2), "select_cols")
    assert_refused(lambda: Csv(files[0], [[""]] * 5).filter(lambda *_: True).batch(2), "FilterDataset")
    assert_refused(lambda: Csv(files[0], [[""]] * 5), "not to a batch")
    assert_refused(
        lambda: Csv(files[0], [[""]] * 5, field_delim=v1.placeholder_with_default(",", [])).batch(2), "constants"
    )
