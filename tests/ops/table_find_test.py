"""Find, FindOrInsert, InsertOrAssign, Erase, Clear, Size and Stats against a dictionary."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from table_session import EXTREME_IDS, TableSession, int64, table_attrs

from tf_booster import _native
from tf_booster.checkpoint import layout


def rows_of(ids, dim):
    """Rows that tell ids and columns apart."""
    return (np.arange(len(ids) * dim, dtype=np.float32) + 1).reshape(len(ids), dim)


@pytest.mark.parametrize("dim", [1, 3, 16, 200])
def test_assigned_rows_are_found(table, dim):
    t = table(dim=dim)
    t.assign(EXTREME_IDS, rows_of(EXTREME_IDS, dim))
    found = t.find(EXTREME_IDS + [77])
    np.testing.assert_array_equal(found.values[:-1], rows_of(EXTREME_IDS, dim))
    np.testing.assert_array_equal(found.values[-1], np.full(dim, 0.5))
    np.testing.assert_array_equal(found.found, [True] * len(EXTREME_IDS) + [False])
    assert t.size() == len(EXTREME_IDS)


def test_find_inserts_nothing_and_gives_what_an_insert_would(table):
    t = table(dim=5, initializer="truncated_normal", args=(0.0, 0.3))
    before = t.find(EXTREME_IDS)
    assert t.size() == 0 and not before.found.any()
    np.testing.assert_array_equal(t.find_or_insert(EXTREME_IDS), before.values)
    assert t.size() == len(EXTREME_IDS)
    after = t.find(EXTREME_IDS)
    assert after.found.all()
    np.testing.assert_array_equal(after.values, before.values)
    assert len(np.unique(before.values)) == before.values.size


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (2, 3), (2, 3, 4)])
def test_any_shape_of_ids(table, shape):
    t = table(dim=3)
    ids = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    flat = ids.reshape(-1)
    t.assign(flat, rows_of(flat, 3))
    found = t.find(ids)
    assert found.values.shape == shape + (3,) and found.found.shape == shape
    np.testing.assert_array_equal(found.values.reshape(-1, 3), rows_of(flat, 3))
    np.testing.assert_array_equal(t.find_or_insert(ids), found.values)


def test_static_shapes():
    ops = _native.ops()
    with tf.Graph().as_default():
        handle = ops.tf_booster_hash_table(**table_attrs(dim=4))
        ids = tf.compat.v1.placeholder(tf.int64, [None, 7])
        found = ops.tf_booster_table_find(handle, ids, dim=4)
        assert found.values.shape.as_list() == [None, 7, 4] and found.found.shape.as_list() == [None, 7]
        assert ops.tf_booster_table_find_or_insert(handle, ids, dim=4).shape.as_list() == [None, 7, 4]
        assert ops.tf_booster_table_size(handle).shape.as_list() == []
        assert ops.tf_booster_table_stats(handle).shape.as_list() == [9]
        assert ops.tf_booster_table_erase(handle, [1]).shape.as_list() == []
        (exported,) = layout.tables_of(ops.tf_booster_table_export(handle, N=1, S=0, dim=4))
        assert exported.values.shape.as_list() == [None, 4] and exported.keys.shape.as_list() == [None]


def test_of_duplicates_the_last_assignment_counts(table):
    t = table()
    t.assign([5, 6, 5], [[1, 1], [2, 2], [3, 3]])
    np.testing.assert_array_equal(t.find([5, 6]).values, [[3, 3], [2, 2]])


def test_erase_counts_rows_once_and_clear_removes_all(table):
    t = table()
    t.assign([1, 2, 3], rows_of([1, 2, 3], 2))
    assert t("erase", int64([2, 2, 9])) == 1
    np.testing.assert_array_equal(t.find([1, 2, 3]).found, [True, False, True])
    t("clear")
    assert t.size() == 0 and not t.find([1, 2, 3]).found.any()


def test_stats(table):
    t = table()
    t.assign([1, 2, 3], rows_of([1, 2, 3], 2))
    rows, pending, evicted, step, capacity, size, host, disk, on_gpu = t("stats")
    assert (rows, pending, evicted, step) == (3, 0, 0, 0)
    assert capacity >= 3 and size >= 3 * 2 * 4 and host == disk == on_gpu == 0


def test_eager_calls(table):
    ops = _native.ops()
    handle = ops.tf_booster_hash_table(**table_attrs(name="eager_find"))
    ops.tf_booster_table_insert_or_assign(handle, [4], [[1.0, 2.0]])
    again = ops.tf_booster_hash_table(**table_attrs(name="eager_find"))
    found = ops.tf_booster_table_find(again, [4, 5], dim=2)
    np.testing.assert_array_equal(found.values, [[1, 2], [0.5, 0.5]])
    np.testing.assert_array_equal(found.found, [True, False])
    ops.tf_booster_table_clear(handle)


def test_in_a_tf_function_the_ops_on_a_table_run_in_program_order():
    ops = _native.ops()
    handle = ops.tf_booster_hash_table(**table_attrs(name="function_find"))

    @tf.function
    def steps():
        size0 = ops.tf_booster_table_size(handle)
        ops.tf_booster_table_insert_or_assign(handle, [1, 2], [[1.0, 1.0], [2.0, 2.0]])
        size1 = ops.tf_booster_table_size(handle)
        ops.tf_booster_table_erase(handle, [1])
        found = ops.tf_booster_table_find(handle, [1, 2], dim=2).values
        ops.tf_booster_table_clear(handle)
        return size0, size1, found, ops.tf_booster_table_size(handle)

    for _ in range(2):
        size0, size1, found, size2 = steps()
        assert (int(size0), int(size1), int(size2)) == (0, 2, 0)
        np.testing.assert_array_equal(found, [[0.5, 0.5], [2, 2]])


def test_nothing_is_folded_or_shared_by_the_graph_optimizer(table):
    """Two equal ops on constants, one before and one after an insert, answer differently in one run."""
    t = table()

    def build():
        before, size_before = t.ops.tf_booster_table_find(t.handle, [1], dim=2), t.ops.tf_booster_table_size(t.handle)
        with tf.control_dependencies([before.values, size_before]):
            assign = t.ops.tf_booster_table_insert_or_assign(t.handle, [1], [[8.0, 9.0]])
        with tf.control_dependencies([assign]):
            after, size_after = t.ops.tf_booster_table_find(t.handle, [1], dim=2), t.ops.tf_booster_table_size(t.handle)
        return before.values, size_before, after.values, size_after

    before, size_before, after, size_after = t.run(build)
    np.testing.assert_array_equal(before, [[0.5, 0.5]])
    np.testing.assert_array_equal(after, [[8, 9]])
    assert (size_before, size_after) == (0, 1)


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda t: t("find", int64([1]), dim=3), "TableFind 'user_emb': the table's dim is 2, but the op's is 3"),
        (lambda t: t("find_or_insert", int64([1]), dim=3), "TableFindOrInsert 'user_emb': the table's dim is 2"),
        (lambda t: t("export", N=1, S=0, dim=3), "TableExport 'user_emb': the table's dim is 2, but the op's is 3"),
        (lambda t: t("export", N=1, S=1, dim=2), "TableExport 'user_emb': S is 1, but the table has 0"),
        (
            lambda t: t.assign([1], [[1, 2, 3]]),
            "TableInsertOrAssign 'user_emb': dim is 2 but values has 3 columns; check embedding_dim",
        ),
        (lambda t: t.assign([1, 2], [[1, 2]]), "values has 1 rows, but keys has 2 entries; give one row for each"),
        (lambda t: t.assign([1], [1, 2]), r"values has the shape \[2\], but must be \[1, 2\]"),
        (lambda t: t.assign([[1]], [[1, 2]]), r"keys has the shape \[1,1\], but must be a vector"),
        (lambda t: t("erase", int64(3)), r"TableErase 'user_emb': keys has the shape \[\], but must be a vector"),
    ],
)
def test_refusals(table, build, message):
    t = table()
    t.assign([1], [[1, 2]])
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        build(t)
    np.testing.assert_array_equal(t.find([1]).values, [[1, 2]])
    assert t.size() == 1


def test_a_limit_fails_the_whole_insert(table):
    t = table(max_rows=[4])
    t.assign([1, 2, 3], rows_of([1, 2, 3], 2))
    for insert in (lambda: t.find_or_insert([1, 4, 5]), lambda: t.assign([3, 4, 5], np.zeros([3, 2]))):
        with pytest.raises(tf.errors.ResourceExhaustedError, match="user_emb"):
            insert()
        found = t.find([1, 2, 3, 4, 5])
        np.testing.assert_array_equal(found.found, [True] * 3 + [False] * 2)
        np.testing.assert_array_equal(found.values[:3], rows_of([1, 2, 3], 2))
    t.find_or_insert([4])
    assert t.size() == 4


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["assign", "find_or_insert", "erase", "find"]),
        st.lists(st.one_of(st.integers(-3, 12), st.sampled_from(EXTREME_IDS)), max_size=12),
    ),
    max_size=8,
)


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_any_sequence_equals_a_dictionary(steps):
    t, rows = TableSession(dim=1), {}
    value = 1.0
    for what, ids in steps:
        if what == "assign":
            values = value + np.arange(len(ids), dtype=np.float32).reshape(-1, 1)
            value += len(ids)
            t.assign(ids, values)
            rows.update(zip(ids, values[:, 0]))
        elif what == "erase":
            assert t("erase", int64(ids)) == len(rows.keys() & set(ids))
            rows = {k: v for k, v in rows.items() if k not in ids}
        else:
            want = np.asarray([rows.get(i, 0.5) for i in ids], np.float32).reshape(-1, 1)
            if what == "find":
                found = t.find(ids)
                np.testing.assert_array_equal(found.found, [i in rows for i in ids])
                np.testing.assert_array_equal(found.values, want)
            else:
                np.testing.assert_array_equal(t.find_or_insert(ids), want)
                rows.update({i: rows.get(i, 0.5) for i in ids})
        assert t.size() == len(rows)
    t.session.close()
