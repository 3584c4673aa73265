"""TableMarks, TableSaveIncrement and TableApplyIncrement: what they write, and what they refuse."""

import numpy as np
import pytest
import tensorflow as tf

from tf_booster import _native

v1 = tf.compat.v1
ops = _native.ops()
ONE = {"sizes": [1], "fields": [0], "checkpoint_names": ["emb"]}
BOTH = {"sizes": [2], "fields": [1, 0], "checkpoint_names": ["b", "a"]}


def table(name, dim=3, fields=("emb",), idle=0):
    n = len(fields)
    return ops.tf_booster_hash_table(
        table_name=name, shared_name=name, dim=dim, optimizer="sgd", field_names=list(fields), seeds=[1] * n, initializers=["constant"] * n,
        initializer_args=[0.5, 0.0] * n, min_frequencies=[0] * n, max_rows=[0] * n,
        evictions=["idle" if idle else ""] * n, eviction_args=[idle] * n,
    )  # fmt: skip


def train(handle, ids, dim=3, fields=(0,)):
    probe = ops.tf_booster_table_probe(handle, [np.asarray(ids, np.int64)] * len(fields), fields=list(fields))
    grads = [np.ones([len(ids), dim], np.float32)] * len(fields)
    lists = ([probe.keys], [probe.key_fields], [probe.counts], [probe.handles])
    return ops.tf_booster_table_apply_gradient_descent(handle, *lists, probe.codes, grads, 0.25)


def save(handle, since, path, number=1, all_keys=False, listed=ONE):
    fields = len(listed["fields"])
    return ops.tf_booster_table_save_increment([handle], since, [all_keys] * fields, number, str(path), **listed)


def read(path):
    reader = tf.train.load_checkpoint(str(path))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.fixture(name="session")
def _session():
    with tf.Graph().as_default(), v1.Session() as session:
        yield session


def test_what_is_written(session, tmp_path):
    handle = table("t", idle=2)
    nothing = session.run(ops.tf_booster_table_marks([handle], **ONE))
    np.testing.assert_array_equal(nothing, [[0, 0, 0, 0]])
    session.run(train(handle, [7, -3, 7]))
    marks = session.run(ops.tf_booster_table_marks([handle], **ONE))
    session.run(train(handle, [9]))
    session.run(save(handle, marks, tmp_path / "one", number=5))
    wanted = {"emb/increment": 5, "emb/since_step": 1, "emb/step": 2, "emb/keys": [9], "emb/values": [[0.25] * 3]}
    found = read(tmp_path / "one")
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)
    session.run(train(handle, []))
    session.run(save(handle, marks, tmp_path / "two"))
    assert sorted(read(tmp_path / "two")["emb/left_keys"]) == [-3, 7]
    session.run(save(handle, marks, tmp_path / "three", all_keys=True))
    found = read(tmp_path / "three")
    assert list(found["emb/all_keys"]) == [9] and "emb/left_keys" not in found
    session.run(save(handle, -np.ones([1, 4], np.int64), tmp_path / "four"))
    found = read(tmp_path / "four")
    assert (list(found["emb/keys"]), list(found["emb/all_keys"]), found["emb/since_step"]) == ([9], [9], -1)
    session.run(ops.tf_booster_table_clear(handle))
    session.run(save(handle, marks, tmp_path / "five"))
    found = read(tmp_path / "five")
    assert found["emb/values"].shape == (0, 3) and found["emb/all_keys"].shape == (0,)


def test_keys_that_left_and_came_back(session, tmp_path):
    trained, served = table("trained", idle=2), table("served")
    session.run(train(trained, [1, 2, 3]))
    session.run(ops.tf_booster_table_save([trained], str(tmp_path / "whole"), **ONE, with_slots=[False]))
    session.run(ops.tf_booster_table_restore(served, str(tmp_path / "whole"), checkpoint_names=["emb"]))
    since = session.run(ops.tf_booster_table_marks([trained], **ONE))
    for ids in ([4], [5], [2, 2], [6]):  # 1, 2, 3 leave, 2 comes back, 4 leaves.
        session.run(train(trained, ids))
    session.run(save(trained, since, tmp_path / "increment"))
    applied = session.run(ops.tf_booster_table_apply_increment([served], str(tmp_path / "increment"), **ONE))
    assert applied.rows == 2 and applied.removed == 2  # 4 and 5 came and went between the two.
    finds = [ops.tf_booster_table_find(handle, np.arange(8), dim=3) for handle in (trained, served)]
    (one, other) = session.run(finds)
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.found, other.found)


def test_fields_of_a_fused_table(session, tmp_path):
    trained = table("trained", fields=("a", "b"))
    served = [ops.tf_booster_table_field(table("served", fields=("b", "a")), field=f) for f in (1, 0)]
    session.run(train(trained, [1, 2], fields=(0, 1)))
    session.run(save(trained, -np.ones([2, 4], np.int64), tmp_path / "both", listed=BOTH))
    session.run(train(trained, [3, 1], fields=(1,)))
    apply = ops.tf_booster_table_apply_increment([served[0].op.inputs[0]], str(tmp_path / "both"), sizes=[2], fields=[0, 1], checkpoint_names=["b", "a"])  # fmt: skip
    assert session.run(apply.rows) == 4
    assert session.run([ops.tf_booster_table_size(handle) for handle in served]) == [2, 2]


def refuses(session, op, message, error=tf.errors.InvalidArgumentError):
    """Runs what must fail."""
    with pytest.raises(error, match=message):
        session.run(op)


def test_what_is_refused(session, tmp_path):
    handle, wide = table("t"), table("wide", dim=4)
    session.run(train(handle, [1, 2]))
    since = session.run(ops.tf_booster_table_marks([handle], **ONE))
    refuses(session, save(handle, since[:, :3], tmp_path / "x"), r"since has the shape \[1,3\], but must be \[1,4\]")
    refuses(
        session,
        ops.tf_booster_table_save_increment([handle], since, [True, False], 1, str(tmp_path / "x"), **ONE),
        "all_keys has 2 entries, but fields has 1",
    )
    refuses(session, save(handle, since, tmp_path / "no" / "folder"), "No such file", tf.errors.NotFoundError)  # fmt: skip
    refuses(
        session,
        ops.tf_booster_table_marks([handle], sizes=[1], fields=[0], checkpoint_names=["a", "b"]),
        "TableMarks: of 1 tables there are 1 sizes with the sum 1, and 2 checkpoint_names",
    )
    refuses(session, ops.tf_booster_table_marks([handle], sizes=[1], fields=[3], checkpoint_names=["a"]), "field")
    session.run(save(handle, -since, tmp_path / "good"))
    apply = lambda t, name, listed=ONE: ops.tf_booster_table_apply_increment([t], str(tmp_path / name), **listed).rows  # noqa: E731
    refuses(session, apply(handle, "none"), "there is no checkpoint", tf.errors.NotFoundError)
    refuses(session, apply(handle, "good", {**ONE, "checkpoint_names": ["other"]}), "has no tensor 'other/keys'", tf.errors.NotFoundError)  # fmt: skip
    refuses(session, apply(wide, "good"), "dim is 4 but 'emb/values' in checkpoint .* has 3 columns")
    session.run(ops.tf_booster_table_save([handle], str(tmp_path / "whole"), **ONE, with_slots=[False]))
    refuses(session, apply(handle, "whole"), "is no increment; give it what tf_booster.IncrementHook wrote")


def matches(handle, path, listed=ONE, **part):
    return ops.tf_booster_table_matches_increment([handle], str(path), **listed, **part)


@pytest.mark.parametrize("since", [[[1, 0, 0, 0]], [[-1, -1, -1, -1]]])
def test_tables_where_an_increment_ends(session, tmp_path, since):
    path = tmp_path / "increment"
    handle, other = table("t"), table("other")
    session.run(train(handle, [1, 2, 3]))
    session.run(train(handle, [2, -4]))
    session.run(save(handle, since, path))
    assert session.run(matches(handle, path))
    session.run(train(other, [1, 2, 3]))
    assert not session.run(matches(other, path))  # Another step.
    session.run(train(other, [2]))
    assert not session.run(matches(other, path))  # A row is missing.
    session.run(train(handle, []))
    assert not session.run(matches(handle, path))


@pytest.mark.parametrize("ids", [[2, -4, 9], [2], [2, 5], [2, -4, -4], [1, 2]])
def test_steps_with_other_rows(session, tmp_path, ids):
    path = tmp_path / "increment"
    handle, other = table("t"), table("other")
    for one, last in ((handle, [2, -4]), (other, ids)):
        session.run(train(one, [1, 2, 3]))
        since = session.run(ops.tf_booster_table_marks([one], **ONE))
        session.run(train(one, last))
    session.run(save(handle, [[1, 0, 0, 0]], path))
    assert since[0, 0] == 1 and session.run(matches(handle, path)) and not session.run(matches(other, path))


def test_each_rank_compares_its_own_rows(session, tmp_path):
    handle, parts = table("t", dim=2, fields="ab"), [table(f"part {i}", dim=2, fields="ab") for i in range(2)]
    ids = np.arange(-20, 20)
    session.run(train(handle, ids, 2, [0, 1]))
    session.run(save(handle, -np.ones([2, 4], np.int64), tmp_path / "all", listed=BOTH))
    for i, part in enumerate(parts):
        session.run(train(part, ids[ids % 2 == i], 2, [0, 1]))
    for i, part in enumerate(parts):
        here = {"rank": i, "size": 2, "partition": "mod"}
        assert session.run(matches(part, tmp_path / "all", BOTH, **here))
        assert not session.run(matches(part, tmp_path / "all", BOTH))
        assert not session.run(matches(part, tmp_path / "all", BOTH, **{**here, "rank": 1 - i}))
        assert not session.run(matches(part, tmp_path / "all", BOTH, **{**here, "partition": "hash"}))
    with pytest.raises(tf.errors.InvalidArgumentError, match="TableMatchesIncrement: rank 2 of 2.*a rank below size"):
        session.run(matches(handle, tmp_path / "all", BOTH, rank=2, size=2))


def test_what_is_no_increment_of_a_table_matches_none(session, tmp_path):
    handle, wide, fields = table("t"), table("wide", dim=4), table("fields", fields="ab")
    session.run(train(handle, [1, 2]))
    session.run(train(wide, [1, 2], 4))
    session.run(ops.tf_booster_table_save([handle], str(tmp_path / "whole"), **ONE, with_slots=[False]))
    session.run(save(handle, -np.ones([1, 4], np.int64), tmp_path / "one"))
    assert not session.run(matches(handle, tmp_path / "whole"))
    assert not session.run(matches(handle, tmp_path / "none"))
    assert not session.run(matches(wide, tmp_path / "one"))
    assert not session.run(matches(fields, tmp_path / "one", BOTH))
    data = tmp_path / "one.data-00000-of-00001"
    whole = data.read_bytes()
    assert session.run(matches(handle, tmp_path / "one"))
    data.write_bytes(whole[: len(whole) // 2])
    assert not session.run(matches(handle, tmp_path / "one"))
    data.write_bytes(whole)
    with pytest.raises(tf.errors.InvalidArgumentError, match="prefix"):
        session.run(ops.tf_booster_table_matches_increment([handle], ["a", "b"], **ONE))
