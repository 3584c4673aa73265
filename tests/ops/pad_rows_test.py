"""Rows padded to a bucket, and cut back: which rows are there, when nothing is padded, and what is refused."""

import numpy as np
import pytest
import tensorflow as tf

from tf_booster import _native

INVALID = tf.errors.InvalidArgumentError


def pad(*values, times=None, fewest=1):
    found = _native.ops().tf_booster_pad_rows(values=values, times=times or [1] * len(values), fewest=fewest)
    return [value.numpy() for value in found.padded], found.rows.numpy().tolist(), bool(found.pads)


def take(*values, rows, times=None):
    taken = _native.ops().tf_booster_take_first_rows(
        values=values, rows=np.array(rows, np.int64), times=times or [1] * len(values)
    )
    return [value.numpy() for value in taken]


@pytest.mark.parametrize("rows, bucket", [(1, 32), (31, 32), (32, 32), (33, 48), (49, 64), (1000, 1024), (1025, 1536)])
def test_the_last_row_is_there_again_up_to_the_bucket(rows, bucket):
    given = [
        np.random.RandomState(rows).rand(rows, 3, 2).astype(np.float32),
        np.arange(rows, dtype=np.int64),
        np.arange(rows) % 2 == 0,
        np.zeros((rows, 0), np.float32),
    ]
    padded, sizes, pads = pad(*given)
    assert sizes == [rows, bucket] and pads
    for before, after in zip(given, padded):
        np.testing.assert_array_equal(after, np.concatenate([before, before[-1:].repeat(bucket - rows, 0)]))
    for before, after in zip(given, take(*padded, rows=sizes)):
        np.testing.assert_array_equal(after, before)


def test_several_rows_of_a_value_for_each_of_the_batch():
    x, y = np.arange(7.0), np.arange(35.0).reshape(35, 1)
    padded, sizes, pads = pad(x, y, times=[1, 5])
    assert [value.shape for value in padded] == [(32,), (160, 1)] and sizes == [7, 32] and pads
    np.testing.assert_array_equal(padded[1][35:], np.full((125, 1), 34.0))
    back = take(*padded, rows=sizes, times=[1, 5])
    np.testing.assert_array_equal(back[0], x)
    np.testing.assert_array_equal(back[1], y)


@pytest.mark.parametrize(
    "shapes, times, fewest",
    [
        ([(5, 2)], [1], 6),  # Too small to pay.
        ([(0, 2)], [1], 1),
        ([(1, 2), (40, 2)], [1, 1], 1),  # One row for all.
        ([(40, 2), (1, 2)], [1, 1], 1),
        ([(40, 2), (41, 2)], [1, 1], 1),
        ([(41, 2)], [2], 1),
    ],
)
def test_what_is_not_padded_is_as_it_was(shapes, times, fewest):
    given = [np.random.RandomState(i).rand(*shape) for i, shape in enumerate(shapes)]
    padded, sizes, pads = pad(*given, times=times, fewest=fewest)
    assert not pads and sizes[0] == sizes[1]
    for before, after in zip(given, padded):
        np.testing.assert_array_equal(after, before)


def test_shapes_are_known_but_for_the_rows():
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 3, 2])
        found = _native.ops().tf_booster_pad_rows(values=[x, tf.zeros([4])], times=[1, 1], fewest=1)
        assert [value.shape.as_list() for value in found.padded] == [[None, 3, 2], [None]]
        assert found.rows.shape.as_list() == [2] and found.pads.shape.as_list() == []
        (taken,) = _native.ops().tf_booster_take_first_rows(values=found.padded[:1], rows=found.rows, times=[1])
        assert taken.shape.as_list() == [None, 3, 2]


def test_errors_say_what_was_wanted():
    with pytest.raises(INVALID, match="value 1 is a scalar; it must have rows|Shape must be at least rank 1"):
        pad(np.zeros(3), np.float32(1))
    with pytest.raises(INVALID, match="values are string; wanted numbers or bool"):
        pad(np.array([b"a"]))
    with pytest.raises(INVALID, match="times has 1 numbers; wanted one of at least 1 for each of 2 values"):
        pad(np.zeros(3), np.zeros(3), times=[1])
    with pytest.raises(INVALID, match="times has 2 numbers; wanted one of at least 1"):
        pad(np.zeros(3), np.zeros(3), times=[1, 0])
    with pytest.raises(INVALID, match=r"value 1 is \[31\] where 3 rows were padded to 32; wanted 32 rows"):
        take(np.zeros(32), np.zeros(31), rows=[3, 32])
    with pytest.raises(INVALID, match=r"value 0 is \[32\] where 33 rows were padded to 32"):
        take(np.zeros(32), rows=[33, 32])
    with pytest.raises(INVALID, match=r"rows is \[1\]; wanted \[rows, bucket\]"):
        take(np.zeros(32), rows=[3])
