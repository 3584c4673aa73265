"""The dataset that goes on with its last element: flags, empty inputs, errors, and iterators that are saved and restored."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tf_booster.parallel.repeat_last import RepeatLast, made_up


def take(iterator, number):
    return [
        (element.numpy().tolist(), float(live), float(more))
        for element, (live, more) in (next(iterator) for _ in range(number))
    ]


def test_goes_on_with_the_last_element():
    dataset = tf.data.Dataset.range(5).batch(2)
    assert take(iter(RepeatLast(dataset, dataset)), 5) == [
        ([0, 1], 1, 1), ([2, 3], 1, 1), ([4], 1, 0), ([4], 0, 0), ([4], 0, 0)
    ]  # fmt: skip


def test_empty_input_repeats_the_first_element_of_the_fallback():
    empty = tf.data.Dataset.range(0).batch(2)
    assert take(iter(RepeatLast(empty, tf.data.Dataset.range(5).batch(2))), 2) == [([0, 1], 0, 0)] * 2
    assert list(RepeatLast(empty, empty)) == []


def test_endless_input_always_has_another():
    dataset = tf.data.Dataset.range(2).repeat()
    assert take(iter(RepeatLast(dataset, dataset)), 5)[-1] == (0, 1, 1)


@pytest.mark.parametrize("make", [lambda: tf.data.Dataset.range(3), lambda: tf.data.Dataset.range(0)])
def test_every_position_is_restored(make, tmp_path):
    def iterator():
        return iter(RepeatLast(make(), tf.data.Dataset.range(7, 9)))

    whole = take(iterator(), 6)
    for position in range(5):
        saved = iterator()
        take(saved, position)
        path = tf.train.Checkpoint(iterator=saved).save(str(tmp_path / f"at-{position}"))
        assert take(saved, 5 - position) == whole[position:5]  # Saving disturbs nothing.
        for restored in (iterator(), saved):
            tf.train.Checkpoint(iterator=restored).restore(path)
            assert take(restored, 5 - position) == whole[position:5]


def failing():
    return tf.data.Dataset.range(4).map(lambda x: 6 // (x - 2))


def test_error_comes_in_its_elements_place(tmp_path):
    iterator = iter(RepeatLast(failing(), failing()))
    take(iterator, 1)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "before"))
    for _ in range(2):
        assert take(iterator, 1) == [(-6, 1, 1)]
        with pytest.raises(tf.errors.InvalidArgumentError, match="division by zero"):
            next(iterator)
        assert take(iterator, 2) == [(6, 1, 0), (6, 0, 0)]
        tf.train.Checkpoint(iterator=iterator).restore(path)


def test_error_that_was_met_ahead_is_restored(tmp_path):
    saved, restored = iter(RepeatLast(failing(), failing())), iter(RepeatLast(failing(), failing()))
    take(saved, 2)
    path = tf.train.Checkpoint(iterator=saved).save(str(tmp_path / "state"))
    tf.train.Checkpoint(iterator=restored).restore(path)
    with pytest.raises(tf.errors.InvalidArgumentError, match="division by zero"):
        next(restored)
    assert take(restored, 1) == [(6, 1, 0)]


def test_structures_of_sparse_and_ragged_tensors_pass_through():
    dataset = tf.data.Dataset.from_tensors(
        {"s": tf.sparse.from_dense([[0, 3]]), "r": tf.ragged.constant([[1, 2], []]), "t": (tf.constant(["a"]),)}
    )
    element, (live, more) = next(iter(RepeatLast(dataset, dataset)))
    assert tf.sparse.to_dense(element["s"]).numpy().tolist() == [[0, 3]]
    assert element["r"].to_list() == [[1, 2], []] and element["t"][0].numpy() == b"a"
    assert (live, more) == (1, 0)


@pytest.fixture(params=["integers", "dimensions"])
def sizes(request):
    """What a shape has; Dimensions in programs that call disable_v2_behavior."""
    if request.param == "dimensions":
        tf.compat.v1.disable_v2_tensorshape()
    yield
    tf.compat.v1.enable_v2_tensorshape()


@pytest.mark.usefixtures("sizes")
def test_made_up_batch_has_one_row_of_nothing():
    def make():
        x = tf.data.Dataset.range(0)
        return x.map(
            lambda i: {"d": tf.zeros([2]), "w": tf.strings.as_string(i), "s": tf.sparse.from_dense([i])}
        ).batch(4)

    empty = make()
    element, (live, _) = next(iter(RepeatLast(empty, made_up(empty))))
    assert live == 0
    np.testing.assert_array_equal(element["d"], np.zeros([1, 2]))
    np.testing.assert_array_equal(element["w"], [b""])
    assert element["s"].dense_shape.numpy().tolist() == [1, 1] and not element["s"].values.shape[0]


@pytest.mark.usefixtures("sizes")
def test_made_up_ragged_batch():
    spec = tf.RaggedTensorSpec([None, None, None, 3], tf.float32, ragged_rank=2)
    empty = (
        tf.data.Dataset.from_tensors(0)
        .map(lambda _: tf.RaggedTensor.from_nested_row_splits(tf.zeros([0, 3]), [[0, 0], [0]]))
        .take(0)
    )
    assert empty.element_spec.is_compatible_with(spec)
    element, _ = next(iter(RepeatLast(empty, made_up(empty))))
    assert element.to_list() == [[]]


def test_made_up_batch_of_datasets_is_refused():
    with pytest.raises(TypeError, match="cannot be made up"):
        made_up(tf.data.Dataset.range(4).window(2))


def test_other_components_are_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="fallback has elements of"):
        list(RepeatLast(tf.data.Dataset.range(2), tf.data.Dataset.from_tensors("a")))


def test_cardinality():
    def cardinality(dataset, fallback):
        return int(RepeatLast(dataset, fallback).cardinality())

    empty, some = tf.data.Dataset.range(0), tf.data.Dataset.range(3)
    assert cardinality(some, empty) == cardinality(empty, some) == tf.data.INFINITE_CARDINALITY
    assert cardinality(empty, empty) == 0
    assert cardinality(some.filter(lambda x: x > 1), empty) == tf.data.UNKNOWN_CARDINALITY
