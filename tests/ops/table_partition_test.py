"""A table that ranks share, rank by rank in one process: restoring a part, merging the parts' checkpoints, every number of ranks."""

import glob
import os

import numpy as np
import pytest
import tensorflow as tf
from table_checkpoint_test import DATA, RANDOM, cut, flip, restore, same, tensors_of, train, without_data, write
from table_session import EXTREME_IDS, int64

from tf_booster import _native


def restore_part(t, prefix, rank, size, mode="hash"):
    t("restore", np.asarray(prefix, object), checkpoint_names=["user_emb"], rank=rank, size=size, partition=mode)


def merge(folder, prefixes, num_shards=0):
    """One checkpoint of several, in `folder`; returns its prefix."""
    os.mkdir(folder)
    prefix = os.path.join(str(folder), "model")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        merged = _native.ops().tf_booster_merge_checkpoints(prefixes, prefix + ".index", int64(num_shards))
        files = session.run(merged)
    for shard, file in enumerate(files):
        os.rename(file.decode(), f"{prefix}.data-{shard:05d}-of-{num_shards or len(files):05d}")
    return prefix


def parts(table, prefix, size, mode="hash", **options):
    """The tables of all ranks, restored from one checkpoint."""
    tables = [table(seed=99, **options) for _ in range(size)]
    for rank, t in enumerate(tables):
        restore_part(t, prefix, rank, size, mode)
    return tables


def pending(t):
    e = t.export()
    return dict(zip(e.pending_keys.tolist(), e.pending_counts.tolist()))


def check_parts(whole, tables):
    contents = [t.contents() for t in tables]
    together = {key: row for each in contents for key, row in each.items()}
    assert len(together) == sum(map(len, contents))  # No key lives on two ranks.
    same(together, whole.contents())
    assert {k: n for t in tables for k, n in pending(t).items()} == pending(whole)
    for t in tables:
        assert (t.export().seed, t("stats")[3]) == (whole.export().seed, whole("stats")[3])


OPTIONS = dict(dim=3, optimizer="adam", **RANDOM)


def trained(table, keys=3000):
    t = table(**OPTIONS, min_frequencies=[2])
    random = np.random.RandomState(3)
    ids = np.concatenate([EXTREME_IDS, random.randint(-(2**62), 2**62, keys)])
    for _ in range(2):
        some = ids[random.rand(len(ids)) < 0.7]
        t.step("adam", [some], [random.uniform(-1, 1, [len(some), 3])], np.float32([0.9, 0.999, 0.1, 0.9, 0.999, 1e-8]))
    assert pending(t) and t.size() > keys / 3
    return t


@pytest.mark.parametrize("mode", ["hash", "mod"])
def test_any_number_of_ranks_to_any_other(table, tmp_path, mode):
    whole = trained(table)
    prefix = write(tmp_path / "model", tensors_of(whole))
    for size in [1, 2, 3, 4, 8, 2, 1]:
        tables = parts(table, prefix, size, mode, min_frequencies=[2], **OPTIONS)
        check_parts(whole, tables)
        shards = [write(tmp_path / f"rank-{size}-{rank}", tensors_of(t)) for rank, t in enumerate(tables)]
        for t in tables:
            t.session.close()
        prefix = merge(tmp_path / f"of-{size}-{len(glob.glob(str(tmp_path / 'of-*')))}", shards)


def test_the_merged_checkpoint_is_an_ordinary_one(table, tmp_path):
    whole = trained(table)
    tables = parts(table, write(tmp_path / "model", tensors_of(whole)), 3, min_frequencies=[2], **OPTIONS)
    shards = [write(tmp_path / f"rank-{rank}", tensors_of(t)) for rank, t in enumerate(tables)]
    reader = tf.train.load_checkpoint(merge(tmp_path / "merged", shards, num_shards=7))
    keys, values = reader.get_tensor("user_emb/keys"), reader.get_tensor("user_emb/values")
    assert reader.get_variable_to_shape_map()["user_emb/slots/v"] == [len(keys), 3]
    assert reader.get_tensor("user_emb/optimizer") == b"adam" and reader.get_tensor("user_emb/step") == 2
    same(
        {int(k): (v, [], 0, 0) for k, v in zip(keys, values)},
        {k: (v[0], [], 0, 0) for k, v in whole.contents().items()},
    )


def test_mod_is_the_id_modulo_the_ranks(table, tmp_path):
    t = table()
    ids = int64([-7, -1, 0, 1, 5, 6])
    t.assign(ids, np.ones([6, 2]))
    tables = parts(table, write(tmp_path / "model", tensors_of(t)), 3, "mod")
    assert [sorted(each.contents()) for each in tables] == [[0, 6], [1], [-7, -1, 5]]


def test_ranks_without_rows_and_tables_without_rows(table, tmp_path):
    t = table()
    t.assign([4, 7], np.ones([2, 2]))
    one = parts(table, write(tmp_path / "model", tensors_of(t)), 3, "mod")
    assert [each.size() for each in one] == [0, 2, 0]
    # No slice has no rows, and one that has all is the tensor itself.
    prefix = merge(tmp_path / "one", [write(tmp_path / f"a{i}", tensors_of(each)) for i, each in enumerate(one)])
    assert tf.train.load_checkpoint(prefix).get_tensor("user_emb/values").tolist() == [[1, 1], [1, 1]]
    none = [table(), table()]
    prefix = merge(tmp_path / "none", [write(tmp_path / f"b{i}", tensors_of(each)) for i, each in enumerate(none)])
    assert tf.train.load_checkpoint(prefix).get_tensor("user_emb/values").shape == (0, 2)
    restore(t, prefix)
    assert t.size() == 0


def test_what_one_rank_alone_wrote_is_kept(table, tmp_path):
    first = write(tmp_path / "a", {"kernel": np.ones([2, 2], np.float32), "keys": int64([1]), "step": int64(5)})
    second = write(tmp_path / "b", {"keys": int64([2, 3]), "step": int64(5)})
    reader = tf.train.load_checkpoint(merge(tmp_path / "merged", [first, second]))
    assert reader.get_tensor("keys").tolist() == [1, 2, 3] and reader.get_tensor("step") == 5
    assert reader.get_tensor("kernel").shape == (2, 2)


def test_slices_of_a_shard_are_kept(table, tmp_path):
    """Partitioned Variables of rank 0, and shards that are checkpoints of several files themselves."""
    halves = [
        write(tmp_path / f"h{i}", {"kernel": np.full([1, 2], i, np.float32)}, [f"2 2 {i},1:0,2"]) for i in range(2)
    ]
    rank_0 = str(tmp_path / "rank-0")
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=halves, destination_prefix=rank_0)
    rank_1 = write(tmp_path / "rank-1", {"keys": int64([1])})
    prefix = merge(tmp_path / "merged", [rank_0, rank_1])
    reader = tf.train.load_checkpoint(prefix)
    assert reader.get_tensor("kernel").tolist() == [[0, 0], [1, 1]] and reader.get_tensor("keys").tolist() == [1]


def test_shards_that_do_not_fit_are_refused(table, tmp_path):
    first = write(tmp_path / "a", {"x": np.ones([2, 2], np.float32)})
    second = write(tmp_path / "b", {"x": np.ones([2, 3], np.float32)})
    with pytest.raises(tf.errors.InvalidArgumentError, match="MergeCheckpoints: 'x'"):
        merge(tmp_path / "c", [first, second])
    with pytest.raises(tf.errors.NotFoundError):
        merge(tmp_path / "d", [first, str(tmp_path / "nowhere")])
    with pytest.raises(tf.errors.InvalidArgumentError, match="num_shards is 1 but there are 2"):
        merge(tmp_path / "e", [first, write(tmp_path / "f", {"y": np.ones(1)})], num_shards=1)


@pytest.mark.parametrize("prepare", [cut(DATA, 0.5), cut(DATA, 0), flip, without_data])
def test_a_part_of_a_damaged_checkpoint_is_refused(table, tmp_path, prepare):
    saved, t = table(optimizer="adam"), table(optimizer="adam")
    train(saved)
    prefix = prepare(saved, tmp_path)
    with pytest.raises(tf.errors.DataLossError, match="TableRestore 'user_emb'.*is corrupt or truncated"):
        restore_part(t, prefix, 0, 2)
    assert t.size() == 0


def test_a_shard_of_other_ranks_rows_is_not_read(table, tmp_path):
    """Ranks of the same number as at the save read the keys of all, and the values of their own shard."""
    whole = trained(table)
    prefix = write(tmp_path / "model", tensors_of(whole))
    tables = parts(table, prefix, 2, min_frequencies=[2], **OPTIONS)
    # The shard of rank 1 has its values first, so that they can be taken out of the file.
    shards = []
    for rank, t in enumerate(tables):
        tensors = tensors_of(t)
        shards.append(
            write(tmp_path / f"rank-{rank}", dict(sorted(tensors.items(), key=lambda x: "values" not in x[0])))
        )
    prefix = merge(tmp_path / "merged", shards)
    with open(prefix + ".data-00001-of-00002", "r+b") as file:
        file.write(b"\xff" * 64)
    again = table(min_frequencies=[2], **OPTIONS)
    restore_part(again, prefix, 0, 2)
    same(again.contents(), tables[0].contents())
    with pytest.raises(tf.errors.DataLossError):
        restore_part(again, prefix, 1, 2)


def test_a_rank_outside_of_the_ranks_is_refused(table, tmp_path):
    with pytest.raises(tf.errors.InvalidArgumentError, match="rank 2 of 2"):
        restore_part(table(), str(tmp_path / "x"), 2, 2)
