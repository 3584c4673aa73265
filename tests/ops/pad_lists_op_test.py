"""TfBoosterPadLists, TfBoosterSliceLists and TfBoosterListLengths against numpy, and what they are given wrongly."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tf_booster import _native


def pad_lists(values, lengths, padding, **attrs):
    return _native.ops().tf_booster_pad_lists(values, np.asarray(lengths, np.int64), padding, **attrs).numpy()


def expected(values, lengths, padding, size, in_front=False):
    """A row at a time."""
    rows = np.full((len(values), size, *values.shape[2:]), padding, values.dtype)
    for row, value, length in zip(rows, values, lengths):
        count = min(length, size)
        (row[size - count :] if in_front else row[:count])[...] = value[:count]
    return rows


VALUES = {
    "int64": np.arange(12).reshape(3, 4),
    "float32": np.arange(12, dtype=np.float32).reshape(3, 4),
    "bool": np.ones((3, 4), bool),
    "int8": np.arange(12, dtype=np.int8).reshape(3, 4),
    "complex128": np.arange(12, dtype=np.complex128).reshape(3, 4),
    "strings": np.array([[f"a string of some length {i}{j}".encode() for j in range(4)] for i in range(3)], object),
    "pairs": np.arange(24).reshape(3, 4, 2),
    "nothing inside": np.zeros((3, 4, 0)),
}


@pytest.mark.parametrize("name", sorted(VALUES))
@pytest.mark.parametrize("size", [0, 2, 4, 9])
@pytest.mark.parametrize("in_front", [False, True])
def test_lists(name, size, in_front):
    values, lengths = VALUES[name], [4, 0, 2]
    padding = np.asarray(b"-" if name == "strings" else 1, values.dtype)
    made = pad_lists(values, lengths, padding, size=size, longer="cut", in_front=in_front)
    np.testing.assert_array_equal(made, expected(values, lengths, padding, size, in_front))
    assert made.dtype == values.dtype
    if size >= 4:
        made = pad_lists(values, [], padding, size=size, in_front=in_front)
        np.testing.assert_array_equal(made, expected(values, [4, 4, 4], padding, size, in_front))


def slice_lists(values, lengths, padding, **attrs):
    made = _native.ops().tf_booster_slice_lists(values, np.asarray(lengths, np.int64), padding, **attrs)
    return [part.numpy() for part in made]


@pytest.mark.parametrize("name", sorted(VALUES))
@pytest.mark.parametrize("begin", [None, 0, 1, 3, 9, -1, -3, -9])
@pytest.mark.parametrize("end", [None, 0, 1, 3, 9, -1, -3, -9])
def test_slices(name, begin, end):
    values, lengths = VALUES[name], [4, 0, 2]
    padding = np.asarray(b"-" if name == "strings" else 1, values.dtype)
    attrs = {key: bound for key, bound in (("begin", begin), ("end", end)) if bound is not None}
    made, made_lengths = slice_lists(values, lengths, padding, **attrs)
    slices = [value[:length][begin:end] for value, length in zip(values, lengths)]
    assert made_lengths.tolist() == [len(each) for each in slices]
    assert made.shape[1] == max(made_lengths)
    np.testing.assert_array_equal(made, expected_slices(slices, padding, values))


def expected_slices(slices, padding, values):
    rows = np.full((len(slices), max(map(len, slices)), *values.shape[2:]), padding, values.dtype)
    for row, each in zip(rows, slices):
        row[: len(each)] = each
    return rows


def test_slices_of_nothing_and_wrong_ones():
    values = VALUES["int64"]
    assert [part.tolist() for part in slice_lists(values[:0], [], 0, begin=1)] == [[], []]
    assert [part.tolist() for part in slice_lists(values[:, :0], [0, 0, 0], 0, begin=-3)] == [[[]] * 3, [0, 0, 0]]
    smallest, largest = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    assert slice_lists(values, [4, 0, 1], 0, begin=smallest, end=largest)[1].tolist() == [4, 0, 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="SliceLists '.*': found 0 lengths for 3 rows"):
        slice_lists(values, [], 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="found length 5 where values are 4 wide"):
        slice_lists(values, [1, 5, 0], 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="wanted values of lists"):
        slice_lists(values[0], [1], 0)


def test_as_wide_as_before():
    values = VALUES["int64"]
    np.testing.assert_array_equal(pad_lists(values, [1, 4, 0], -1), expected(values, [1, 4, 0], -1, 4))
    assert pad_lists(values[:0], [], -1).shape == (0, 4)
    assert pad_lists(values[:, :0], [0, 0, 0], -1, size=2).tolist() == [[-1, -1]] * 3


def test_errors():
    values = VALUES["int64"]
    with pytest.raises(tf.errors.DataLossError, match="Attempted to pad to a smaller size than the input element"):
        pad_lists(values, [1, 3, 0], 0, size=2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Paddings must be non-negative: 0 -1"):
        pad_lists(values, [1, 3, 0], 0, size=2, longer="of pad")
    with pytest.raises(tf.errors.InvalidArgumentError, match="Paddings must be non-negative: -2 0"):
        pad_lists(values, [], 0, size=2, longer="of pad", in_front=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="found 2 lengths for 3 rows"):
        pad_lists(values, [1, 3], 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="found length 5 where values are 4 wide"):
        pad_lists(values, [1, 5, 0], 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="found length -1"):
        pad_lists(values, [1, -1, 0], 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="wanted values of lists"):
        pad_lists(values[0], [1], 0)
    dataset = tf.data.experimental.to_variant(tf.data.Dataset.range(1))
    with pytest.raises(tf.errors.InvalidArgumentError, match="values are variant; wanted numbers, bool or strings"):
        pad_lists(dataset[None, None], [], dataset)


def test_static_shapes():
    with tf.Graph().as_default():
        values = tf.compat.v1.placeholder(tf.int64, [None, None, 2])
        made = _native.ops().tf_booster_pad_lists(values, tf.constant([], tf.int64), tf.constant(0, tf.int64), size=7)
        assert made.shape.as_list() == [None, 7, 2]


def test_lengths():
    lists = tf.RaggedTensor.from_row_lengths(np.arange(6), [0, 3, 0, 1, 2, 0]).to_sparse()
    lengths = _native.ops().tf_booster_list_lengths(lists.indices, lists.dense_shape).numpy()
    assert lengths.tolist() == [0, 3, 0, 1, 2, 0] and lengths.dtype == np.int64
    empty = tf.sparse.from_dense(np.zeros((2, 3)))
    assert _native.ops().tf_booster_list_lengths(empty.indices, empty.dense_shape).numpy().tolist() == [0, 0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="row 5 is none of 2"):
        _native.ops().tf_booster_list_lengths([[5, 0]], np.array([2, 3]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="of rank 2"):
        _native.ops().tf_booster_list_lengths([[5]], np.array([2]))
