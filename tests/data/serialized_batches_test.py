"""Batches of TFRecords as the op reads them beside TFRecordDataset's: records of all sizes, and damaged files, call after call."""

from __future__ import annotations

import functools
import itertools
import re

import numpy as np
import pytest
import tensorflow as tf
from string_batches import COMPRESSIONS, assert_saved_anywhere, batches_by, outcomes, strings, without_prefetch, write

from tf_booster import _compat
from tf_booster.data import record_stages
from tf_booster.data.record_batches import Batching, Reading, serialized_batches_op

SIZES = [
    [],
    [0],
    [5],
    [0, 0, 1, 2, 0, 300, 7],
    [(64 << 10) - 16, 1, 70_000, (128 << 10) - 16, 0, 262_128, 262_129, 3],
    [1 << 20, 12, 2_500_000, (1 << 20) - 16, 5],
    list(range(400)),
]

ours = functools.partial(batches_by, serialized_batches_op)


def stock(paths, batch_size=2, compression="", **options):
    return without_prefetch(tf.data.TFRecordDataset(paths, compression, **options).batch(batch_size))


def framed(tmp_path, sizes, seed=0):
    """The bytes of a file with records of these sizes."""
    rng = np.random.default_rng(seed)
    with tf.io.TFRecordWriter(str(tmp_path / "framed")) as writer:
        for size in sizes:
            writer.write(rng.bytes(size))
    return (tmp_path / "framed").read_bytes()


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("buffer_size", [1, 40, 0])
def test_sizes(tmp_path, compression, buffer_size):
    paths = [
        write(tmp_path / str(i), COMPRESSIONS[compression](framed(tmp_path, sizes))) for i, sizes in enumerate(SIZES)
    ]
    for chosen in ([path] for path in paths) if buffer_size == 0 else (paths[:4] + paths[6:],):
        found = outcomes(ours(chosen, 3, compression=compression, buffer_size=buffer_size), 500)
        assert found == outcomes(stock(chosen, 3, compression), 500)
        assert found[-1] == "end"


@pytest.mark.parametrize("sizes", [[3] * 50, [300_000, 10, 700_000, 400_000, 0, 5]])
@pytest.mark.parametrize(
    "stages",
    [
        [record_stages.shuffle(4, 3, 4)],
        [record_stages.shuffle(4, 3, 4), record_stages.repeat(3, of_shuffle=True)],
        [record_stages.cache(), record_stages.repeat(2), record_stages.shuffle(2, 1, 1)],
        [record_stages.shuffle(4, 3, 4), record_stages.shuffle(9, 3, 4), record_stages.skip(2)],
    ],
)
def test_records_that_stages_keep(tmp_path, sizes, stages):
    """Each comes as often as it should, whole, and none is given away that is wanted again."""
    path = write(tmp_path / "records", framed(tmp_path, sizes))
    epochs = np.prod([int(stage.arguments[0]) for stage in stages if stage.name == "repeat"], dtype=int)
    skipped = sum(int(stage.arguments[0]) for stage in stages if stage.name == "skip")
    wanted = sorted(list(tf.data.TFRecordDataset(path).as_numpy_iterator()) * epochs)
    dataset = ours([path], 4, stages)
    for _ in range(2):
        found = sorted(itertools.chain(*strings(dataset)))
        assert len(found) == len(wanted) - skipped
        assert found == wanted or (skipped and not set(found) - set(wanted))


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("bad", ["missing", "a directory", "no such folder/file"])
def test_files_that_cannot_be_opened_or_read(tmp_path, compression, bad):
    """With TensorFlow's messages, and at each call as there."""
    good = write(tmp_path / "good", COMPRESSIONS[compression](framed(tmp_path, [1, 2, 3])))
    if bad == "a directory":
        (tmp_path / bad).mkdir()
    path = str(tmp_path / bad)
    for paths in ([path], [good, path, good], [good, good, path]):
        found = outcomes(ours(paths, compression=compression))
        assert found == outcomes(stock(paths, compression=compression))
        assert any(isinstance(outcome, tuple) for outcome in found)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_truncation_and_every_flipped_bit(tmp_path, compression):
    packed = COMPRESSIONS[compression](framed(tmp_path, [4, 0, 11]))
    good = write(tmp_path / "good", COMPRESSIONS[compression](framed(tmp_path, [2, 3])))
    paths = [str(tmp_path / "bad"), good]
    mine, theirs = ours(paths, compression=compression), stock(paths, compression=compression)
    bad = [packed[:size] for size in range(len(packed) + 1)]
    bad += [packed[:at] + bytes([packed[at] ^ 0x10]) + packed[at + 1 :] for at in range(len(packed))]
    for i, content in enumerate(bad):
        write(tmp_path / "bad", content)
        assert outcomes(mine, messages=False) == outcomes(theirs, messages=False), i


def test_the_messages_of_damages_say_more_than_tensorflows(tmp_path):
    content = framed(tmp_path, [30, 40])
    wrong = bytearray(content)
    wrong[-10] ^= 1
    for bad, text in ((bytes(wrong), "corrupted record"), (content[:-3], "truncated record")):
        path = write(tmp_path / "bad", bad)
        mine, theirs = (outcomes(make([path], 1))[1] for make in (ours, stock))
        assert mine[0] == theirs[0] == "DataLossError" and text in theirs[1]
        assert re.search(f"^TFRecordBatchDataset: {text} at byte 46: .*{re.escape(path)}", mine[1])


STEPS = {
    "plain": {},
    "in turns": dict(cycle_length=3, block_length=2),
    "shuffled": dict(stages=[record_stages.shuffle(9, 3, 4), record_stages.repeat(2, of_shuffle=True)]),
    "picked": dict(stages=[record_stages.shard(2, 1), record_stages.skip(2), record_stages.take(15)]),
    "kept": dict(stages=[record_stages.cache(), record_stages.repeat(2)]),
}


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize("steps", STEPS)
def test_iterators_can_be_saved_anywhere(tmp_path, compression, steps):
    sizes = [[3, 0, 50], [], range(40), [1, 70_000, 2], [9]]
    paths = [
        write(tmp_path / str(i), COMPRESSIONS[compression](framed(tmp_path, each, i))) for i, each in enumerate(sizes)
    ]
    make = lambda: ours(paths, 4, compression=compression, buffer_size=5, **STEPS[steps])
    assert_saved_anywhere(make, tmp_path)


def test_static_shapes_and_cardinality(tmp_path):
    path = write(tmp_path / "records", framed(tmp_path, [1, 2, 3, 4, 5]))
    for drop in (False, True):
        mine = ours([path], 2, drop_remainder=drop)
        theirs = tf.data.TFRecordDataset([path]).batch(2, drop_remainder=drop)
        assert mine.element_spec == theirs.element_spec
        assert strings(mine) == strings(theirs)
        assert mine.cardinality() == theirs.cardinality()
    assert ours([path], 2, [record_stages.repeat()]).cardinality() == tf.data.INFINITE_CARDINALITY


@pytest.mark.parametrize(
    "wrong, why",
    [
        (dict(compression="LZ4"), "compression is 'LZ4'"),
        (dict(batch_size=0), "batch_size is 0"),
        (dict(cycle_length=0), "cycle_length is 0"),
        (dict(stages=[record_stages.Stage("filter", (0, 0, 0))]), "what is not parsed cannot be filtered"),
    ],
)
def test_arguments_that_cannot_be(tmp_path, wrong, why):
    """The op's own name is in the message."""
    path = write(tmp_path / "records", framed(tmp_path, [1]))
    settings = dict({"batch_size": 2, "stages": []}, **wrong)
    batch_size = settings.pop("batch_size")
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"TFRecordBatchDataset: .*{why}"):
        serialized_batches_op(
            _compat.variant_of_dataset(tf.data.Dataset.from_tensor_slices([path])),
            Reading(**settings),
            Batching(batch_size),
            tf.TensorShape([None]),
        )
