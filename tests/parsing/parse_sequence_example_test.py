"""ParseSequenceExampleV2 and its older form: TensorFlow's parser and ours, over generated records."""

import example_compare
import example_records as wire
import numpy as np
import pytest
import tensorflow as tf
from example_cases import HypothesisDraw, names_for
from example_compare import Feature, check_same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sequence_cases import a_batch_of_sequences, a_sequence, a_sequence_spec, plain_sequences

import tf_booster
from tf_booster import parsing

given_data = given(data=st.data())
some = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@some
@given_data
def test_batches(stock, level, data):
    draw = HypothesisDraw(data)
    spec = a_sequence_spec(draw)
    records = a_batch_of_sequences(draw, spec)
    check_same(
        stock, example_compare.parse_sequence_example_v2, *spec, records, names_for(draw, records), any_text=True
    )


@some
@given_data
def test_one_record_without_a_batch(stock, level, data):
    draw = HypothesisDraw(data)
    spec = a_sequence_spec(draw)
    check_same(stock, example_compare.parse_sequence_example_v2, *spec, a_sequence(draw, spec), any_text=True)


@some
@given_data
def test_the_first_parse_sequence_example(stock, data):
    draw = HypothesisDraw(data)
    spec = a_sequence_spec(draw, ragged=False)
    records = a_batch_of_sequences(draw, spec)
    check_same(
        stock, example_compare.parse_sequence_example_v1, *spec, records, names_for(draw, records), any_text=True
    )


ID = Feature("id", "dense", "int64")


@pytest.mark.parametrize("dtype", ["int64", "float", "string"])
def test_slices_of_a_large_batch_are_joined(stock, dtype):
    for steps_of in ((7, 0, 100), (60,)):
        records = plain_sequences(350, dtype, steps_of)
        assert sum(map(len, records)) > 2 * 100_000  # Two slices of 50 us and more.
        for kind in ("dense", "sparse", "ragged"):
            lists = [Feature(name, kind, dtype, splits="int32") for name in "hg"]
            assert check_same(stock, example_compare.parse_sequence_example_v2, [ID], lists, records)[0] == "ok"


def a_record(**lists):
    return wire.sequence({"id": ("int64", [1])}, **lists)


GOOD = a_record(h=("int64", [[1], [2]]))
DENSE = Feature("h", "dense", "int64")
ERRORS = {
    "a list is missing": (DENSE, a_record(), "Feature list 'h' is required but could not be found"),
    "the context lacks a feature": (
        DENSE,
        wire.sequence({}, h=("int64", [[1]])),
        "Feature: id .data type: int64. is req",
    ),
    "another type": (DENSE, a_record(h=("float", [[1.0]])), "Feature list: h, Index: 0.  Data types don't match"),
    "two values a step": (DENSE, a_record(h=("int64", [[1, 2], [1, 2]])), "Key: h, Index: 0.  Number of values != exp"),
    "no SequenceExample": (DENSE, b"no SequenceExample", "Invalid protocol message input, example id: second"),
    "steps that are no message": (
        DENSE,
        GOOD.replace(b"\n\x05\x1a\x03\n\x01\x02", b"\x0b" * 7),
        "Error in sequence feature h",
    ),
}


@pytest.mark.parametrize("what", ERRORS)
def test_errors_are_tensorflows(stock, what):
    feature, record, text = ERRORS[what]
    args = ([ID], [feature], [GOOD, record], [b"first", b"second"])
    outcome = check_same(stock, example_compare.parse_sequence_example_v2, *args)
    assert outcome[0] == "error"
    assert text.split(".")[0] in outcome[1][1]


@pytest.mark.parametrize("kind", ["sparse", "ragged"])
def test_lists_share_places_only_if_steps_and_values_agree(stock, kind):
    """Of equal numbers of records, steps and values: the same steps in other records, other lengths of steps."""
    h = (("int64", [[1]]), ("int64", [[2, 3], [4]]))
    others = {
        "equal": (("int64", [[5]]), ("int64", [[6, 7], [8]])),
        "other_records": (("int64", [[5], [6, 7]]), ("int64", [[8]])),
        "other_lengths": (("int64", [[5, 6]]), ("int64", [[7], [8]])),
        "other_steps": (("int64", [[5]]), ("int64", [[6], [7, 8]])),
        "same_lengths": (("int64", [[5], [6, 7]]), ("int64", [[8]])),
    }
    records = [a_record(h=h[i], **{name: lists[i] for name, lists in others.items()}) for i in (0, 1)]
    lists = [Feature(name, kind, "int64") for name in ("h", *others)]
    assert check_same(stock, example_compare.parse_sequence_example_v2, [ID], lists, records)[0] == "ok"


def test_inputs_that_do_not_fit(stock):
    records = [GOOD]
    check_same(stock, example_compare.parse_sequence_example_v2, [ID], [DENSE], [[GOOD]])
    check_same(stock, example_compare.parse_sequence_example_v2, [ID], [DENSE], records, [b"a", b"b"])
    twice = [Feature("h", "sparse", "int64"), DENSE]
    check_same(stock, example_compare.parse_sequence_example_v2, [ID], twice, records)
    of_two = Feature("id", "dense", "int64", (2,), (7, 8))
    check_same(stock, example_compare.parse_sequence_example_v2, [of_two], [DENSE], records)


def test_steps_without_elements_are_an_error():
    # TensorFlow divides by their number and dies.
    parsing.serve_stock_ops(True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="rows have no elements"):
        example_compare.parse_sequence_example_v2([], [Feature("h", "dense", "int64", (0,))], [GOOD])


CONTEXT = {"id": tf.io.FixedLenFeature([], tf.int64), "tags": tf.io.VarLenFeature(tf.string)}
LISTS = {"h": tf.io.RaggedFeature(tf.int64), "g": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True)}


def test_pipelines_need_no_change():
    """A string longer than its list kills TensorFlow, so whoever answers with an error is not TensorFlow's parser."""
    records = plain_sequences(10, "int64", (3, 0, 5))
    deadly = a_record(h=("int64", [[1]])) + wire.example([wire.entry(b"tags", wire.tag(1, 2) + b"\x03\n\x7fx")])

    def batches(records):
        dataset = tf.data.Dataset.from_tensor_slices(records).batch(4)
        return [
            [np.asarray(t) for t in tf.nest.flatten(parsed, expand_composites=True)]
            for parsed in dataset.map(lambda r: tf.io.parse_sequence_example(r, CONTEXT, LISTS), num_parallel_calls=2)
        ]

    def singles(records):
        dataset = tf.data.Dataset.from_tensor_slices(records)
        parsed = dataset.map(lambda r: tf.io.parse_single_sequence_example(r, CONTEXT, LISTS))
        return [[np.asarray(t) for t in tf.nest.flatten(p, expand_composites=True)] for p in parsed]

    tf_booster.disable_gpu_booster()
    off = batches(records), singles(records)
    tf_booster.enable_gpu_booster()
    try:
        for theirs, ours in zip(off, (batches(records), singles(records))):
            assert len(theirs) == len(ours) and len(ours) > 1
            for a, b in zip(theirs, ours):
                for one, other in zip(a, b):
                    np.testing.assert_array_equal(one, other)
        for run in (batches, singles):
            with pytest.raises(tf.errors.InvalidArgumentError, match="Context feature: tags, Index: 0.*longer than"):
                run([deadly])
    finally:
        tf_booster.disable_gpu_booster()
