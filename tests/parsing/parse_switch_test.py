"""What is reached while the booster is on, with no change in the code, and that TensorFlow is as it was when it is off."""

import example_records as wire
import numpy as np
import pytest
import tensorflow as tf

import tf_booster
from tf_booster import parsing

v1 = tf.compat.v1
SPEC = {
    "x": tf.io.FixedLenFeature([2], tf.int64),
    "d": tf.io.FixedLenFeature([], tf.float32, default_value=-1.0),
    "s": tf.io.VarLenFeature(tf.string),
    "v": tf.io.FixedLenSequenceFeature([2], tf.int64, allow_missing=True, default_value=-7),
    "r": tf.io.RaggedFeature(
        tf.float32, partitions=[tf.io.RaggedFeature.UniformRowLength(2)], row_splits_dtype=tf.int32
    ),
    "w": tf.io.SparseFeature("wi", "wv", tf.float32, 10),
}
RECORDS = [
    wire.simple(
        x=("int64", [1, -2]), s=("string", [b"a", b"b" * 30]), v=("int64", [1, 2, 3, 4]), r=("float", [1.0, 2.0])
    ),
    wire.simple(x=("int64", [3, 4]), d=("float", [0.5]), wi=("int64", [3, 9]), wv=("float", [1.5, 2.5])),
    wire.simple(x=("int64", [2**63 - 1, -(2**63)]), s=("string", [b""]), r=("float", [1.0, 2.0, 3.0, 4.0])),
]
# TensorFlow dies of this one, so whoever answers with an error is not TensorFlow's parser.
DEADLY = wire.example([wire.entry(b"k", wire.tag(1, 2) + b"\x06\n" + wire.varint(2**31))])


@pytest.fixture(autouse=True)
def off_before_and_after():
    tf_booster.disable_gpu_booster()
    yield
    tf_booster.disable_gpu_booster()


def numbers(parsed):
    return [np.asarray(tensor) for tensor in tf.nest.flatten(parsed, expand_composites=True)]


def assert_same(a, b):
    a, b = numbers(a), numbers(b)
    assert len(a) == len(b)
    for one, other in zip(a, b):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def both(run):
    """`run()` off, then on."""
    off = run()
    tf_booster.enable_gpu_booster()
    return off, run()


def test_the_option_decides():
    for value, on in (("auto", True), (True, True), (False, False)):
        tf_booster.enable_gpu_booster(fast_parser=value)
        assert parsing.serves_stock_ops() is on
    tf_booster.enable_gpu_booster(fast_parser=True)
    tf_booster.disable_gpu_booster()
    assert not parsing.serves_stock_ops()


def test_eager():
    assert_same(*both(lambda: tf.io.parse_example(RECORDS, SPEC)))


def test_one_record():
    spec = {name: feature for name, feature in SPEC.items() if name != "r"}
    assert_same(*both(lambda: tf.io.parse_single_example(RECORDS[0], spec)))


def test_an_empty_batch():
    assert_same(*both(lambda: tf.io.parse_example(tf.constant([], tf.string), SPEC)))


def test_dataset_of_batches():
    def run():
        dataset = tf.data.Dataset.from_tensor_slices(RECORDS * 5).batch(4)
        return [numbers(batch) for batch in dataset.map(lambda r: tf.io.parse_example(r, SPEC), num_parallel_calls=2)]

    off, on = both(run)
    assert len(off) == len(on) == 4
    for a, b in zip(off, on):
        assert_same(a, b)


def test_v1_graph_and_function():
    def run():
        with tf.Graph().as_default(), v1.Session() as session:
            parsed = v1.parse_example(v1.placeholder_with_default(RECORDS, [None]), SPEC)
            return session.run(tf.nest.flatten(parsed, expand_composites=True))

    assert_same(*both(run))
    function = tf.function(lambda records: tf.io.parse_example(records, SPEC))
    assert_same(function(tf.constant(RECORDS)), tf.io.parse_example(RECORDS, SPEC))


@pytest.mark.parametrize("batch_size, final", [(2, True), (2, False), (5, False)])
def test_make_batched_features_dataset(tmp_path, batch_size, final):
    path = str(tmp_path / "records")
    with tf.io.TFRecordWriter(path) as writer:
        for record in RECORDS:
            writer.write(record)

    def make():
        return tf.data.experimental.make_batched_features_dataset(
            path, batch_size, SPEC, num_epochs=1, shuffle=False, drop_final_batch=final
        )

    off = make()
    expected = [numbers(batch) for batch in off]
    tf_booster.enable_gpu_booster()
    on = make()
    assert on.element_spec == off.element_spec
    assert type(on).__name__ == type(off).__name__ == "_PrefetchDataset"
    found = [numbers(batch) for batch in on]
    assert len(expected) == len(found)
    for a, b in zip(expected, found):
        assert_same(a, b)


def test_parse_example_dataset_is_reached():
    dataset = tf.data.Dataset.from_tensors([DEADLY])
    tf_booster.enable_gpu_booster()
    parse = tf.data.experimental.parse_example_dataset({"k": tf.io.VarLenFeature(tf.string)})
    with pytest.raises(tf.errors.InvalidArgumentError, match="Key: k, Index: 0.*Can't parse"):
        list(dataset.apply(parse))


def test_parsing_spec_of_feature_columns():
    columns = [
        tf.feature_column.categorical_column_with_identity("s_ids", 10),
        tf.feature_column.numeric_column("x", [2], dtype=tf.int64),
    ]
    spec = tf.feature_column.make_parse_example_spec([tf.feature_column.indicator_column(columns[0]), columns[1]])
    records = [wire.simple(s_ids=("int64", [1, 2]), x=("int64", [5, 6])), wire.simple(x=("int64", [7, 8]))]
    assert_same(*both(lambda: tf.io.parse_example(records, spec)))


def test_names_are_in_errors():
    def run():
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            tf.io.parse_example(RECORDS[:1] + [b""], SPEC, example_names=["first", "second"])
        return str(error.value)

    off, on = both(run)
    assert off == on and "Name: second, Feature: x (data type: int64) is required" in on


def test_kernels_that_tensorflow_keeps_follow_the_switch():
    spec = {"k": tf.io.VarLenFeature(tf.string)}
    function = tf.function(lambda records: tf.io.parse_example(records, spec)["k"].values)
    broken = tf.constant([b"no Example"])

    def says():
        with pytest.raises((tf.errors.InvalidArgumentError, UnicodeDecodeError)) as error:
            function(broken)
        return str(error.value)

    ours, theirs = "its 10 bytes are no serialized", "value: 'no Example'"
    assert theirs in says()
    tf_booster.enable_gpu_booster()
    assert ours in says()
    tf_booster.disable_gpu_booster()
    assert theirs in says()


def test_our_own_function_is_ours_on_and_off():
    assert_same(tf_booster.parse_example(RECORDS, SPEC), tf.io.parse_example(RECORDS, SPEC))
    single = {name: feature for name, feature in SPEC.items() if name != "r"}
    assert_same(tf_booster.parse_example(RECORDS[0], single), tf.io.parse_single_example(RECORDS[0], single))
    for on in (False, True):
        parsing.serve_stock_ops(on)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Key: k, Index: 0.*Can't parse"):
            tf_booster.parse_example([DEADLY], {"k": tf.io.VarLenFeature(tf.string)})


def test_shapes_of_our_own_function():
    with tf.Graph().as_default():
        for shape in ([None], [3], []):
            serialized = v1.placeholder(tf.string, shape)
            spec = SPEC if shape else {name: f for name, f in SPEC.items() if name != "r"}
            theirs = v1.parse_example(serialized, spec) if shape else v1.parse_single_example(serialized, spec)
            ours = tf_booster.parse_example(serialized, spec)
            for a, b in zip(*(tf.nest.flatten(x, expand_composites=True) for x in (theirs, ours))):
                assert a.shape.as_list() == b.shape.as_list() and a.dtype == b.dtype


def test_refusals():
    with pytest.raises(ValueError, match="features is empty"):
        tf_booster.parse_example(RECORDS, {})
    with pytest.raises(ValueError, match="'avx' is no level"):
        parsing.force_simd_level("avx")


@pytest.mark.parametrize("rows", [[], [b"\n"]])
def test_a_stride_of_nothing_is_refused(rows):
    spec = {"k": tf.io.FixedLenSequenceFeature([0], tf.int64, allow_missing=True)}
    with pytest.raises(tf.errors.InvalidArgumentError, match="Feature: k has the shape .* no elements"):
        tf_booster.parse_example(tf.constant(rows, tf.string), spec)


def test_many_records_on_many_threads():
    random = np.random.default_rng(0)
    records = [
        wire.simple(
            x=("int64", [i, -i]), s=("string", [b"y" * int(n) for n in random.integers(0, 40, 20)]),
            v=("int64", list(range(2 * int(random.integers(0, 30))))), r=("float", [0.5] * (2 * int(random.integers(0, 30)))),
        )
        for i in range(3000)
    ]  # fmt: skip
    assert_same(*both(lambda: tf.io.parse_example(records, SPEC)))
    assert_same(tf.io.parse_example(records, SPEC), tf.io.parse_example(records, SPEC))
