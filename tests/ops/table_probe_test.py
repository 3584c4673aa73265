"""Probe and Gather: codes name distinct keys, and rows come back in the order of the ids."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from table_session import EXTREME_IDS, TableSession, int64, table_attrs

from tf_booster import _native


def probe(t, ids, group=0):
    p = t("probe", [int64(ids)], group=group)
    return p._replace(codes=p.codes[0])


def gather(t, probed, codes=None):
    codes = probed.codes if codes is None else int64(codes)
    return t("gather", [codes], probed.keys, probed.key_fields, probed.handles, dim=t.dim)[0]


def gather_raw(t, codes, keys, fields, handles, dim=2):
    return t("gather", [int64(codes)], int64(keys), np.asarray(fields, np.int32), int64(handles), dim=dim)


def check_probe(t, ids, group=0):
    ids = int64(ids)
    p = probe(t, ids, group)
    assert p.codes.shape == ids.shape
    assert len(np.unique(p.keys)) == len(p.keys)
    np.testing.assert_array_equal(p.codes >> 40, np.full_like(p.codes, group))
    np.testing.assert_array_equal(p.keys[(p.codes & ((1 << 40) - 1)) - 1], ids)
    np.testing.assert_array_equal(p.counts, [np.count_nonzero(ids == k) for k in p.keys])
    assert set(p.keys) == set(ids.reshape(-1))
    return p


@pytest.mark.parametrize("group", [0, 1, 5, (1 << 23) - 1])
def test_codes_name_keys_and_counts_count(table, group):
    check_probe(table(), EXTREME_IDS + [7, 7, 0, -1, 7], group)


def test_missing_ids_get_the_code_of_none(table):
    t = table()
    ids = [int64([[5, -1], [-1, -2]]), int64([-1, 5]), int64([-1, -1])]
    p = t("probe", ids, skip_missing=[True, False, True])
    for asked, codes, skips in zip(ids, p.codes, (True, False, True)):
        there = (asked != -1) | (not skips)
        np.testing.assert_array_equal(codes[~there], -1)
        np.testing.assert_array_equal(p.keys[codes[there] - 1], asked[there])
    assert dict(zip(p.keys, p.counts)) == {5: 2, -2: 1, -1: 1}
    nothing = t("probe", [int64([-1])], skip_missing=[True])
    assert nothing.codes[0].tolist() == [-1] and nothing.keys.size == 0


@pytest.mark.parametrize("shape", [(), (0,), (5,), (0, 3), (2, 3), (2, 1, 4)])
def test_any_shape_of_ids(table, shape):
    t = table(dim=3)
    ids = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 4
    t.assign([0, 1, 2, 3], np.arange(12).reshape(4, 3))
    values = gather(t, check_probe(t, ids))
    assert values.shape == shape + (3,)
    np.testing.assert_array_equal(values, np.arange(12).reshape(4, 3)[ids])


def test_a_probe_inserts_nothing_and_handles_say_which_rows_exist(table):
    t = table()
    t.assign([5], [[1, 2]])
    p = probe(t, [4, 5, 4])
    assert t.size() == 1
    np.testing.assert_array_equal(p.handles >= 0, p.keys == 5)
    np.testing.assert_array_equal(p.handles[p.keys != 5], [-1])
    np.testing.assert_array_equal(gather(t, p), [[0.5, 0.5], [1, 2], [0.5, 0.5]])
    assert t.size() == 1


def test_keys_without_a_row_read_as_their_initial_values(table):
    t = table(dim=7, initializer="uniform", args=(-1.0, 1.0))
    ids = EXTREME_IDS * 2
    np.testing.assert_array_equal(gather(t, probe(t, ids)), t.find(ids).values)


def test_code_0_reads_as_zeros_and_groups_do_not_matter_to_gather(table):
    t = table()
    t.assign([5, 6], [[1, 2], [3, 4]])
    p = probe(t, [5, 6], group=3)
    codes = np.concatenate([[0], p.codes, [0], p.codes[::-1], p.codes & ((1 << 40) - 1)])
    np.testing.assert_array_equal(gather(t, p, codes), [[0, 0], [1, 2], [3, 4], [0, 0], [3, 4], [1, 2], [1, 2], [3, 4]])


def test_stale_handles_are_probed_again(table):
    t = table()
    t.assign([1, 2, 3], [[1, 1], [2, 2], [3, 3]])
    p = probe(t, [1, 2, 3, 9])
    t("erase", int64([1, 2]))
    t.assign([2, 9, 10, 11], [[22, 22], [99, 99], [10, 10], [11, 11]])
    np.testing.assert_array_equal(gather(t, p), [[0.5, 0.5], [22, 22], [3, 3], [99, 99]])
    t("clear")
    t.assign([9, 3], [[9, 9], [33, 33]])
    np.testing.assert_array_equal(gather(t, p), [[0.5, 0.5], [0.5, 0.5], [33, 33], [9, 9]])


def test_handles_of_another_table_and_made_up_ones_give_the_right_rows(table):
    t, other = table(), table()
    t.assign([1, 2], [[1, 1], [2, 2]])
    other.assign([2, 1], [[8, 8], [9, 9]])
    p = probe(t, [1, 2])
    for handles in (probe(other, [1, 2]).handles, [-1, -1], [1 << 40, -7], [np.iinfo(np.int64).max] * 2):
        values = t("gather", [p.codes], p.keys, p.key_fields, int64(handles), dim=2)[0]
        np.testing.assert_array_equal(values, [[1, 1], [2, 2]])


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda t: gather_raw(t, [2], [9], [0], [-1]), "TableGather 'user_emb'.*code"),
        (lambda t: gather_raw(t, [1], [9, 8], [0, 0], [-1]), "handles has 1 entries, but keys has 2"),
        (lambda t: gather_raw(t, [1], [[9]], [0], [-1]), r"keys has the shape \[1,1\]"),
        (lambda t: gather_raw(t, [1], [9], [0], [-1], 5), "the table's dim is 2, but the op's is 5"),
        (lambda t: gather_raw(t, [1], [9], [0, 0], [-1]), "key_fields has 2 entries, but keys has 1"),
        (lambda t: gather_raw(t, [1], [9], [1], [-1]), "TableGather 'user_emb': a key is of field 1"),
        (lambda t: gather_raw(t, [1], [9], [-1], [-1]), "TableGather 'user_emb': a key is of field 4294967295"),
        (lambda t: t("probe", [int64([1])], fields=[1]), "TableProbe 'user_emb': a key is of field 1"),
        (lambda t: t("probe", [int64([1])], fields=[-1]), "fields has the entry -1"),
        (lambda t: t("probe", [int64([1])], fields=[0, 0]), "fields has 2 entries, but there are 1 ids"),
        (lambda t: t("probe", [int64([1])], skip_missing=[True] * 2), "skip_missing has 2 entries, but there are 1"),
        (lambda t: probe(t, [1], group=1 << 23), r"TableProbe: group is 8388608, but must be in \[0, 8388608\)"),
    ],
)
def test_refusals(table, build, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        build(table())


def test_ids_must_be_int64():
    ops = _native.ops()
    with tf.Graph().as_default():
        handle = ops.tf_booster_hash_table(**table_attrs())
        with pytest.raises((TypeError, ValueError)):
            ops.tf_booster_table_probe(handle, [tf.constant([1.5])])


def test_static_shapes():
    ops = _native.ops()
    with tf.Graph().as_default():
        handle = ops.tf_booster_hash_table(**table_attrs(dim=4))
        ids = [tf.compat.v1.placeholder(tf.int64, [None, 7]), tf.compat.v1.placeholder(tf.int64, [])]
        p = ops.tf_booster_table_probe(handle, ids)
        assert [codes.shape.as_list() for codes in p.codes] == [[None, 7], []]
        assert [x.shape.as_list() for x in (p.keys, p.key_fields, p.counts, p.handles)] == [[None]] * 4
        values = ops.tf_booster_table_gather(handle, p.codes, p.keys, p.key_fields, p.handles, dim=4)
        assert [v.shape.as_list() for v in values] == [[None, 7, 4], [4]]


def test_eager_calls():
    ops = _native.ops()
    handle = ops.tf_booster_hash_table(**table_attrs(name="eager_probe"))
    ops.tf_booster_table_insert_or_assign(handle, [4], [[1.0, 2.0]])
    p = ops.tf_booster_table_probe(handle, [[4, 5, 4]])
    (values,) = ops.tf_booster_table_gather(handle, p.codes, p.keys, p.key_fields, p.handles, dim=2)
    np.testing.assert_array_equal(values, [[1, 2], [0.5, 0.5], [1, 2]])
    ops.tf_booster_table_clear(handle)


def test_a_large_batch_on_all_threads(table):
    t = table(dim=16, initializer="normal", args=(0.0, 1.0))
    ids = np.random.RandomState(3).zipf(1.3, 200_000).astype(np.int64)
    known = np.unique(ids)[::2]
    t.assign(known, np.repeat(known[:, None] % 1000, 16, 1))
    p = probe(t, ids)
    assert len(np.unique(p.keys)) == len(p.keys) == len(np.unique(ids))
    np.testing.assert_array_equal(p.keys[p.codes - 1], ids)
    np.testing.assert_array_equal(p.counts, np.bincount(p.codes - 1))
    np.testing.assert_array_equal(gather(t, p), t.find(ids).values)


ANY_ID = st.one_of(st.integers(-4, 9), st.sampled_from(EXTREME_IDS), st.integers(-(2**63), 2**63 - 1))
IDS = st.lists(ANY_ID, max_size=40)


@settings(max_examples=40, deadline=None)
@given(known=IDS, ids=IDS, group=st.integers(0, 3))
def test_probe_and_gather_equal_a_dictionary(known, ids, group):
    t = TableSession(dim=1)
    rows = dict(zip(known, np.arange(len(known), dtype=np.float32) + 10))
    t.assign(known, np.arange(len(known)).reshape(-1, 1) + 10)
    values = gather(t, check_probe(t, ids, group))
    np.testing.assert_array_equal(values[:, 0], np.asarray([rows.get(i, 0.5) for i in ids], np.float32))
    t.session.close()
