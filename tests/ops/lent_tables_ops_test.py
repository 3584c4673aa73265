"""Tables that one session lends and another reads: TableSave, TableLend, and HashTable with `lenders`."""

import numpy as np
import pytest
import tensorflow as tf
from table_session import TableSession

v1 = tf.compat.v1
FIELDS = {
    "field_names": ["a", "b"],
    "seeds": [1, 2],
    "initializers": ["uniform"] * 2,
    "initializer_args": [-1.0, 1.0] * 2,
    "min_frequencies": [0] * 2,
    "max_rows": [0] * 2,
    "evictions": [""] * 2,
    "eviction_args": [0] * 2,
}
BOTH = {"sizes": [2], "fields": [1, 0], "checkpoint_names": ["b", "a"]}


def save(table, prefix, listed=None):
    listed = listed or {"sizes": [1], "fields": [0], "checkpoint_names": [table.attrs["field_names"][0]]}
    table.run(lambda: table.ops.tf_booster_table_save([table.handle], str(prefix), with_slots=[True], **listed))


def lend(table, lender):
    table.run(lambda: table.ops.tf_booster_table_lend([table.handle], lender=lender))


def borrower(lender, checkpoint="", **options):
    return TableSession(lenders=["nobody", str(lender)], lent_checkpoint=str(checkpoint), **options)


@pytest.fixture(name="owner")
def _owner():
    table = TableSession(optimizer="adagrad")
    table.assign([1, -2], [[1, 2], [3, 4]])
    return table


def test_a_saved_table_is_read_by_another_session(owner, tmp_path):
    save(owner, tmp_path / "shard")
    table = borrower(tmp_path / "shard", tmp_path / "model.ckpt")
    np.testing.assert_array_equal(table.find([1, -2, 9]).values, [[1, 2], [3, 4], [0.5, 0.5]])
    assert table.size() == 2
    assert table.contents().keys() == {1, -2} and not table.export().slots
    table("restore", f"{tmp_path}/model.ckpt", checkpoint_names=["user_emb"])  # There is no such file.
    np.testing.assert_array_equal(table.find([1]).values, [[1, 2]])


def test_it_is_the_same_table_not_a_copy(owner):
    lend(owner, "memory")
    table = borrower("memory")
    assert table.size() == 2
    owner.assign([7], [[5, 6]])
    np.testing.assert_array_equal(table.find([7]).values, [[5, 6]])


def test_it_outlives_the_session_that_lent_it(owner):
    lend(owner, "memory")
    table = borrower("memory")
    assert table.size() == 2
    owner.session.close()
    np.testing.assert_array_equal(table.find([-2]).values, [[3, 4]])


@pytest.mark.parametrize("optimizer", ["", "adagrad"])
def test_it_can_only_be_read(owner, tmp_path, optimizer):
    save(owner, tmp_path / "shard")
    table = borrower(tmp_path / "shard", tmp_path / "model.ckpt", optimizer=optimizer)
    edits = [
        lambda: table.assign([1], [[0, 0]]),
        lambda: table.find_or_insert([5]),
        lambda: table("erase", np.array([1])),
        lambda: table("clear"),
        lambda: table("restore", str(tmp_path / "other"), checkpoint_names=["user_emb"]),
        lambda: table("restore", str(tmp_path / "model.ckpt"), checkpoint_names=["another"]),
        lambda: table.run(
            lambda: table.ops.tf_booster_table_apply_increment(
                [table.handle], str(tmp_path / "x"), sizes=[1], fields=[0], checkpoint_names=["user_emb"]
            )
        ),
    ]
    if optimizer:
        edits.append(lambda: table.step("adagrad", [[1]], [[[1, 1]]], [0.1]))
    for edit in edits:
        with pytest.raises(tf.errors.FailedPreconditionError, match="'user_emb': the table is that of the training"):
            edit()
    np.testing.assert_array_equal(owner.find([1, -2]).values, [[1, 2], [3, 4]])
    assert owner.size() == 2


def change_by_update(owner):
    owner.step("adagrad", [[1]], [[[1, 1]]], [0.1])


def change_by_hand(owner):
    owner.assign([1], [[1, 2]])


def end(owner):
    owner.session.close()


def save_again(owner, tmp_path):
    save(owner, tmp_path / "later")


@pytest.mark.parametrize("change", [change_by_update, change_by_hand, end])
def test_what_has_changed_is_not_lent(owner, tmp_path, change):
    save(owner, tmp_path / "shard")
    change(owner)
    table = borrower(tmp_path / "shard", tmp_path / "shard")
    assert table.size() == 0
    table("restore", f"{tmp_path}/shard", checkpoint_names=["user_emb"])
    np.testing.assert_array_equal(table.find([1, -2]).values, [[1, 2], [3, 4]])
    table.assign([1], [[0, 0]])  # Its own.


@pytest.mark.parametrize("change", [change_by_update, end])
def test_without_a_checkpoint_to_restore_it_is_an_error(owner, change):
    lend(owner, "memory")
    change(owner)
    with pytest.raises(tf.errors.FailedPreconditionError, match="'user_emb': the training in this process.*lends none"):
        borrower("memory").size()


def test_the_latest_save_alone_is_lent(owner, tmp_path):
    save(owner, tmp_path / "first")
    save(owner, tmp_path / "second")
    assert borrower(tmp_path / "first", tmp_path / "first").size() == 0
    assert borrower(tmp_path / "second", tmp_path / "second").size() == 2


@pytest.mark.parametrize("other", [
    {"dim": 3}, {"args": (0.25, 0.0)}, {"initializer": "normal"}, {"optimizer": "adam"}, {"name": "item_emb"}, {"field_names": ["other"]},
])  # fmt: skip
def test_a_table_that_differs_is_not_lent(owner, tmp_path, other):
    save(owner, tmp_path / "shard")
    assert borrower(tmp_path / "shard", tmp_path / "shard", **other).size() == 0


@pytest.mark.parametrize("alike", [{"seed": 9}, {"min_frequencies": [3]}, {"max_rows": [1]}, {"optimizer": "adagrad"}])
def test_what_readers_do_not_see_may_differ(owner, tmp_path, alike):
    save(owner, tmp_path / "shard")
    assert borrower(tmp_path / "shard", tmp_path / "shard", **alike).size() == 2


def test_new_keys_begin_with_the_seed_of_the_table_that_is_lent(tmp_path):
    owner = TableSession(initializer="uniform", args=(-1.0, 1.0), seed=5)
    owner.find_or_insert([1])
    save(owner, tmp_path / "shard")
    table = borrower(tmp_path / "shard", tmp_path / "shard", initializer="uniform", args=(-1.0, 1.0), seed=6)
    np.testing.assert_array_equal(table.find([1, 2]).values, owner.find([1, 2]).values)


@pytest.mark.parametrize("listed,lent", [
    (BOTH, True),
    ({"sizes": [1], "fields": [0], "checkpoint_names": ["a"]}, False),
    ({"sizes": [2], "fields": [0, 1], "checkpoint_names": ["a", "another"]}, False),
])  # fmt: skip
def test_fused_tables_are_lent_where_all_were_saved_under_their_names(tmp_path, listed, lent):
    owner = TableSession(**FIELDS)
    with owner.session.graph.as_default():
        field = owner.ops.tf_booster_table_field(owner.handle, field=1)
        owner.session.run(
            owner.ops.tf_booster_table_insert_or_assign(field, np.array([4]), np.ones([1, 2], np.float32))
        )
    save(owner, tmp_path / "shard", listed)
    table = borrower(tmp_path / "shard", tmp_path / "model.ckpt", **FIELDS)
    with table.session.graph.as_default():
        fields = [table.ops.tf_booster_table_field(table.handle, field=f) for f in (0, 1)]
        sizes = table.session.run([table.ops.tf_booster_table_size(f) for f in fields])
        assert sizes == ([0, 1] if lent else [0, 0])
        if lent:
            prefix = str(tmp_path / "model.ckpt")
            restore = table.ops.tf_booster_table_restore
            table.session.run(restore(table.handle, prefix, checkpoint_names=["b", "a"], fields=[1, 0]))
            table.session.run(restore(fields[1], prefix, checkpoint_names=["b"]))
            with pytest.raises(tf.errors.FailedPreconditionError, match="only be read"):
                table.session.run(restore(fields[1], prefix, checkpoint_names=["a"]))
