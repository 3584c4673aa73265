"""Puts the shards that ranks wrote in the place of a checkpoint, at once.

A checkpoint P consists of P.index and of P.data-<shard>-of-<shards>, which the index names by those two numbers. Shards and index are written into
a folder P_temp-<token> first. Then the data files move beside P under a number of shards that no older P has, so that a P that
exists stays whole; then the index takes the old one's place, which is one rename; then data files of the old P go. Whenever the process
is killed, P is the old checkpoint or the new one. What was left lying is removed at the next save.
"""

from __future__ import annotations

import re
from typing import List, Sequence

import tensorflow as tf

from tf_booster import _native

_TEMP = "_temp-"  # Not TensorFlow's _temp, so that only folders of ours are removed.
_DATA = re.compile(r"\.data-\d{5}-of-(\d{5})$")


def at(stage: str) -> None:
    """Called at each stage of a save; does nothing. Tests stop ranks here."""
    del stage


def make_folder(prefix: str, token: str) -> str:
    """Makes the folder for the shards of checkpoint `prefix`; removes what earlier saves, of any step, left in its folder."""
    parent, name = prefix.rpartition("/")[0], prefix.rpartition("/")[2]
    base = re.sub(r"-\d+$", "", name)
    if parent and not tf.io.gfile.exists(parent):
        tf.io.gfile.mkdir(parent)  # As TensorFlow does, the last folder of a path alone.
    for entry in tf.io.gfile.listdir(parent or "."):
        entry = entry.rstrip("/")
        if re.fullmatch(re.escape(base) + r"(-\d+)?" + _TEMP + r"\w+", entry):
            tf.io.gfile.rmtree(f"{parent}/{entry}" if parent else entry)
    folder = f"{prefix}{_TEMP}{token}"
    tf.io.gfile.makedirs(folder)
    return folder


def shard_prefix(folder: str, rank: int) -> str:
    """Where a rank writes its shard, a checkpoint by itself."""
    return f"{folder}/rank-{rank}"


def publish(folder: str, shard_prefixes: Sequence[str], prefix: str) -> None:
    """Makes the checkpoint `prefix` out of the shards; removes `folder`.

    Raises:
      tf.errors.OpError: shards that are not there, cannot be read or do not fit together; a full disk. The checkpoint `prefix` is as it was.
    """
    old = tf.io.gfile.glob(_escaped(prefix) + ".data-?????-of-?????")
    used = {int(found[1]) for found in map(_DATA.search, old) if found}
    files = sum(len(tf.io.gfile.glob(_escaped(shard) + ".data-?????-of-?????")) for shard in shard_prefixes)
    shards = next(n for n in range(files, files + len(used) + 1) if n not in used)
    index = f"{folder}/merged.index"
    sources = _merge(shard_prefixes, index, shards)
    at("merged")
    targets = [f"{prefix}.data-{i:05d}-of-{shards:05d}" for i in range(len(sources))]
    for source, target in zip(sources, targets):
        tf.io.gfile.rename(source, target, overwrite=True)
        at("data renamed")
    tf.io.gfile.rename(index, f"{prefix}.index", overwrite=True)
    at("index renamed")
    for file in old:
        tf.io.gfile.remove(file)
    tf.io.gfile.rmtree(folder)


def _merge(shard_prefixes: Sequence[str], index: str, shards: int) -> List[str]:
    """Writes the index; returns the data files in the order of their shards."""
    config = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
        files = _native.ops().tf_booster_merge_checkpoints(list(shard_prefixes), index, tf.constant(shards, tf.int64))
        return [tf.compat.as_str(file) for file in session.run(files)]


def _escaped(path: str) -> str:
    """`path` as a pattern that matches nothing else."""
    return re.sub(r"([\\*?\[])", r"\\\1", path)
