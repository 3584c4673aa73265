"""The distinct rows of several features together, and rows taken by them: against the obvious form, for any input."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_booster import _native

INVALID = tf.errors.InvalidArgumentError


def repeated(dense=(), sparse=(), names=None):
    found = _native.ops().tf_booster_repeated_rows(
        dense=list(dense),
        values=[s.values for s in sparse],
        indices=[s.indices for s in sparse],
        dense_shapes=[s.dense_shape for s in sparse],
        names=names or [f"f{i}" for i in range(len(dense) + len(sparse))],
    )
    return found.first_rows.numpy().tolist(), found.row_of.numpy().tolist()


def expected(rows):
    """By a dict of what stands in each row."""
    first, places, row_of = [], {}, []
    for i, row in enumerate(rows):
        if row not in places:
            places[row] = len(first)
            first.append(i)
        row_of.append(places[row])
    return first, row_of


def sparse_of(rows, dtype, columns=3):
    """Entries of a row: pairs (column, value). Rows come in the order of `rows`' keys."""
    indices = [(row, column) for row, entries in rows for column, _ in entries]
    values = [value for _, entries in rows for _, value in entries]
    size = max([row for row, _ in rows], default=-1) + 1
    return tf.SparseTensor(np.array(indices, np.int64).reshape(-1, 2), np.array(values, dtype), [size, columns])


NUMBERS = st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")])
TEXTS = st.sampled_from(["", "a", "b", "ab", "a\0", "a string that is longer than what tstring keeps in itself"])
ENTRIES = st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 1)), max_size=3)
ROW = st.tuples(st.tuples(st.integers(-1, 1), st.integers(0, 1)), NUMBERS, TEXTS, st.booleans(), ENTRIES)


@settings(max_examples=200, deadline=None)
@given(rows=st.lists(ROW, max_size=12), shuffled=st.randoms(use_true_random=False))
def test_any_rows_of_any_features(rows, shuffled):
    count = len(rows)
    ids, numbers, texts, flags, entries = zip(*rows) if rows else [()] * 5
    by_row = list(enumerate(entries))
    shuffled.shuffle(by_row)  # A SparseTensor's entries need not come row by row.
    sparse = sparse_of(by_row, np.int64)
    sparse = tf.SparseTensor(sparse.indices, sparse.values, [count, 3])
    dense = [
        tf.constant(np.array(ids, np.int32).reshape(count, 2)),
        tf.constant(np.array(numbers, np.float64)),
        tf.constant(list(texts), tf.string, shape=[count]),
        tf.constant(np.array(flags, bool).reshape(count, 1)),
    ]
    bytes_of = [np.float64(number).tobytes() for number in numbers]
    wanted = expected(list(zip(ids, bytes_of, texts, flags, map(tuple, entries))))
    first, row_of = repeated(dense, [sparse])
    assert (first, row_of) == wanted
    few = _native.ops().tf_booster_take_rows(values=dense, rows=first)
    again = _native.ops().tf_booster_take_rows(values=few, rows=row_of)
    for tensor, all_rows in zip(dense, again):
        if tensor.dtype == tf.string:
            assert tensor.numpy().tolist() == all_rows.numpy().tolist()
        else:
            assert tensor.numpy().tobytes() == all_rows.numpy().tobytes()
    few_sparse = _native.ops().tf_booster_take_sparse_rows(*_parts(sparse), rows=first)
    kept = [(j, column, value) for j, row in enumerate(first) for column, value in entries[row]]
    assert few_sparse.taken_indices.numpy().tolist() == [[j, column] for j, column, _ in kept]
    assert few_sparse.taken_values.numpy().tolist() == [value for _, _, value in kept]
    assert few_sparse.taken_shape.numpy().tolist() == [len(first), 3]


def _parts(sparse):
    return sparse.indices, sparse.values, sparse.dense_shape


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64])
def test_every_dtype(dtype):
    x = np.arange(4000).reshape(1000, 2, 2) % 120 // 8
    x = x.astype(dtype)
    first, row_of = repeated([x])
    assert (first, row_of) == expected([row.tobytes() for row in x])
    taken = _native.ops().tf_booster_take_rows(values=[x, x[:, 0], x[:, 0, 0]], rows=row_of[::-1])
    for value, rows in zip([x, x[:, 0], x[:, 0, 0]], taken):
        np.testing.assert_array_equal(rows, value[row_of[::-1]])


def test_more_rows_than_one_thread_takes():
    rng = np.random.RandomState(1)
    user = rng.randint(0, 30000, 200000)
    wide = rng.randint(0, 2, (200000, 16)).astype(np.float32)
    first, row_of = repeated([user, wide[user]])
    _, wanted = np.unique(user, return_index=True)
    assert first == sorted(wanted)
    np.testing.assert_array_equal(user[first][row_of], user)


def test_rows_without_columns_and_no_rows():
    assert repeated([np.zeros([3, 0], np.int64)]) == ([0], [0, 0, 0])
    assert repeated([np.zeros([0, 4], np.float32), np.zeros([0], "U")]) == ([], [])
    empty = tf.SparseTensor(np.zeros([0, 2], np.int64), np.zeros([0], np.float32), [4, 0])
    assert repeated([], [empty]) == ([0], [0, 0, 0, 0])
    (taken,) = _native.ops().tf_booster_take_rows(values=[np.zeros([0, 4], np.float32)], rows=np.zeros([0], np.int32))
    assert taken.shape == [0, 4]


def test_errors_say_feature_and_remedy():
    with pytest.raises(INVALID, match=r"feature 'b' has 2 rows, 'a' has 3; leave the one .*repeated_features"):
        repeated([np.zeros([3]), np.zeros([2, 1])], names=["a", "b"])
    sparse = tf.SparseTensor([[0, 0]], [1], [2, 1])
    with pytest.raises(INVALID, match="feature 's' has 2 rows, 'a' has 3"):
        repeated([np.zeros([3])], [sparse], names=["a", "s"])
    outside = tf.SparseTensor([[2, 0]], [1], [2, 1])
    with pytest.raises(INVALID, match="feature 's' has an entry outside: entry 0 is in row 2, but there are 2 rows"):
        repeated([], [outside], names=["s"])
    with pytest.raises(INVALID, match="names has 1 entries, but there are 2 dense and 0 sparse"):
        repeated([np.zeros([3]), np.zeros([3])], names=["a"])
    with pytest.raises((INVALID, ValueError), match="scalar|rank"):
        repeated([np.float32(1)])


def test_rows_that_are_not_there():
    take, take_sparse = _native.ops().tf_booster_take_rows, _native.ops().tf_booster_take_sparse_rows
    for rows, wrong in (([0, 3], 3), ([-1], -1)):
        with pytest.raises(
            INVALID, match=f"rows has {wrong}, but value 1 has 3 rows|rows has {wrong}, but value 0 has"
        ):
            take(values=[np.zeros([4]), np.zeros([3])], rows=rows)
        with pytest.raises(INVALID, match=f"rows has {wrong}, but there are 3"):
            take_sparse(np.zeros([0, 2], np.int64), np.zeros([0]), [3, 2], rows=rows)


def test_a_negative_number_of_rows():
    ops = _native.ops()
    parts = np.zeros([0, 2], np.int64), np.zeros([0]), np.array([-5, 2], np.int64)
    with pytest.raises(INVALID, match="of which the first is not negative"):
        ops.tf_booster_take_sparse_rows(*parts, rows=np.zeros([0], np.int32))
    with pytest.raises(INVALID, match="feature 's' has indices .* of which the first is not negative"):
        ops.tf_booster_repeated_rows(
            dense=[], values=[parts[1]], indices=[parts[0]], dense_shapes=[parts[2]], names=["s"]
        )
