"""Shards of ranks become one checkpoint: whatever stage a process dies at, the name leads to a whole one."""

import os

import pytest
import tensorflow as tf

from tf_booster.checkpoint import publishing


class Killed(BaseException):
    """As if the process were gone: nothing is cleaned up."""


def save(prefix, value, token, shards=2):
    """A checkpoint whose shards have `value` each."""
    folder = publishing.make_folder(prefix, token)
    prefixes = [publishing.shard_prefix(folder, rank) for rank in range(shards)]
    for rank, shard in enumerate(prefixes):
        tensors = {"table/keys": [rank], "table/values": [[value]], "table/step": value}
        tf.raw_ops.SaveV2(
            prefix=shard,
            tensor_names=list(tensors),
            shape_and_slices=[""] * 3,
            tensors=[tf.constant(t, dtype) for t, dtype in zip(tensors.values(), (tf.int64, tf.float32, tf.int64))],
        )
    publishing.publish(folder, prefixes, prefix)


def value_of(prefix):
    """The one value that all of the checkpoint has."""
    reader = tf.train.load_checkpoint(prefix)
    values = {*reader.get_tensor("table/values").ravel().tolist(), int(reader.get_tensor("table/step"))}
    (value,) = values
    return value


@pytest.mark.parametrize("old_shards", [1, 2, 3])
@pytest.mark.parametrize(
    "stage, count, wanted", [("merged", 1, 1), ("data renamed", 1, 1), ("data renamed", 2, 1), ("index renamed", 1, 2)]
)
def test_a_death_leaves_the_old_checkpoint_or_the_new_one(tmp_path, monkeypatch, stage, count, wanted, old_shards):
    prefix = str(tmp_path / "model.ckpt-7")
    save(prefix, 1, "one", old_shards)
    seen = []

    def at(name):
        seen.append(name)
        if seen.count(stage) == count:
            raise Killed

    monkeypatch.setattr(publishing, "at", at)
    with pytest.raises(Killed):
        save(prefix, 2, "two")
    assert value_of(prefix) == wanted
    monkeypatch.setattr(publishing, "at", lambda name: None)
    save(prefix, 3, "three")
    assert value_of(prefix) == 3
    # Two data files and the index; nothing of what the death left.
    assert len(os.listdir(tmp_path)) == 3


def test_a_death_at_the_first_save_leaves_no_checkpoint(tmp_path, monkeypatch):
    prefix = str(tmp_path / "model.ckpt-7")
    stages = []

    def at(name):
        stages.append(name)
        if stages.count("data renamed") == 2:
            raise Killed

    monkeypatch.setattr(publishing, "at", at)
    with pytest.raises(Killed):
        save(prefix, 1, "one")
    assert not tf.io.gfile.exists(prefix + ".index")
    monkeypatch.setattr(publishing, "at", lambda name: None)
    # The save of a later step takes the folder away.
    save(str(tmp_path / "model.ckpt-8"), 2, "two")
    assert not [name for name in os.listdir(tmp_path) if "temp" in name]
    assert value_of(str(tmp_path / "model.ckpt-8")) == 2


def test_only_folders_of_this_checkpoints_saves_are_removed(tmp_path):
    others = ["model.ckpt-7_temp", "other.ckpt-7_temp-ab12", "model.ckpt-7_temp-ab12.txt"]
    for name in [*others, "model.ckpt-3_temp-ab12"]:
        os.mkdir(tmp_path / name)
    publishing.make_folder(str(tmp_path / "model.ckpt-9"), "new")
    assert sorted(os.listdir(tmp_path)) == sorted([*others, "model.ckpt-9_temp-new"])


def test_a_folder_that_is_not_there_is_made(tmp_path):
    """The last of the path alone, as TensorFlow does."""
    save(str(tmp_path / "new/model"), 3, "one")
    assert value_of(str(tmp_path / "new/model")) == 3
    with pytest.raises(tf.errors.NotFoundError):
        save(str(tmp_path / "none/new/model"), 3, "one")


def test_names_with_signs_of_patterns(tmp_path):
    folder = tmp_path / "a[b]*"
    folder.mkdir()
    prefix = str(folder / "model.ckpt-1")
    save(prefix, 1, "one")
    save(prefix, 2, "two")
    assert len(os.listdir(folder)) == 3
    os.rename(folder, tmp_path / "plain")  # TensorFlow's reader takes such names for patterns.
    assert value_of(str(tmp_path / "plain/model.ckpt-1")) == 2
