"""Batches of lines as the op reads them beside TextLineDataset's: texts of all kinds, and files that cannot be read, call after call."""

from __future__ import annotations

import functools
import gzip
import itertools

import numpy as np
import pytest
import tensorflow as tf
from string_batches import COMPRESSIONS, assert_saved_anywhere, batches_by, outcomes, strings, without_prefetch, write

from tf_booster import _compat
from tf_booster.data import record_stages
from tf_booster.data.record_batches import Batching, Reading, line_batches_op

TEXTS = [
    b"",
    b"\n",
    b"\r",
    b"\r\r",
    b"\r\n",
    b"\n\n\n",
    b"a",
    b"a\n",
    b"a\nb",
    b"a\nb\n",
    b"a\r\nb\r\n",
    b"a\rb\r\n\rc\r\rd\r",
    b"\n\r\na\n\r",
    b"a\0b\n\xff\xfe\n\n" + bytes(range(256)),
    b"x" * 70_000 + b"\n" + b"y\r" * 50_000,
    b"".join(b"line %d,%s\r\n" % (i, b"z" * (i % 90)) for i in range(3000)),
]


ours = functools.partial(batches_by, line_batches_op)


def stock(paths, batch_size=2, compression="", **options):
    return without_prefetch(tf.data.TextLineDataset(paths, compression, **options).batch(batch_size))


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("buffer_size", [1, 7, 0])
def test_texts(tmp_path, compression, buffer_size):
    paths = [write(tmp_path / str(i), COMPRESSIONS[compression](text)) for i, text in enumerate(TEXTS)]
    for chosen in ([path] for path in paths) if buffer_size == 0 else (paths[:14],):
        found = outcomes(ours(chosen, 3, compression=compression, buffer_size=buffer_size), 5000)
        assert found == outcomes(stock(chosen, 3, compression), 5000)
        assert found[-1] == "end"


def test_all_short_texts(tmp_path):
    texts = [bytes(text) for n in range(6) for text in itertools.product(b"a\r\n", repeat=n)]
    paths = [write(tmp_path / str(i), text) for i, text in enumerate(texts)]
    batches = len(paths) * 3
    assert strings(ours(paths, batches)) == strings(stock(paths, batches))


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("bad", ["missing", "a directory", "no such folder/file"])
def test_files_that_cannot_be_opened_or_read(tmp_path, compression, bad):
    """The error comes at its place, and at each call from then on."""
    good = write(tmp_path / "good", COMPRESSIONS[compression](b"1\n2\n3\n"))
    path = str(tmp_path / bad)
    if bad == "a directory":
        (tmp_path / bad).mkdir()
    for paths in ([path], [good, path, good], [good, good, path]):
        found = outcomes(ours(paths, compression=compression))
        assert found == outcomes(stock(paths, compression=compression))
        assert len(found) == 12 and all(isinstance(outcome, tuple) for outcome in found[4:])


def test_a_file_that_comes(tmp_path):
    """Who met its error goes on when it is there."""
    paths = [write(tmp_path / "good", b"1\n2\n3\n4\n"), str(tmp_path / "late"), str(tmp_path / "good")]
    found = []
    for dataset in (ours(paths), stock(paths)):
        iterator = iter(dataset)
        first = strings(itertools.islice(iterator, 2))
        with pytest.raises(tf.errors.NotFoundError):
            next(iterator)
        write(tmp_path / "late", b"5\n6\n")
        found.append(first + strings(iterator))
        (tmp_path / "late").unlink()
    assert found[0] == found[1] and len(found[0]) == 5


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_every_truncation(tmp_path, compression):
    packed = COMPRESSIONS[compression](b"first line\nsecond\r\n\nfourth line, the last")
    good = write(tmp_path / "good", COMPRESSIONS[compression](b"1\n2\n"))
    paths = [str(tmp_path / "bad"), good]
    mine, theirs = ours(paths, compression=compression), stock(paths, compression=compression)
    for size in range(len(packed) + 1):
        write(tmp_path / "bad", packed[:size])
        assert outcomes(mine) == outcomes(theirs), size
    for position in range(len(packed)):
        write(tmp_path / "bad", packed[:position] + bytes([packed[position] ^ 0x10]) + packed[position + 1 :])
        assert outcomes(mine) == outcomes(theirs), position


def test_damage_in_a_large_compressed_file(tmp_path):
    noise = np.random.default_rng(0)
    content = gzip.compress(b"".join(b"%d " % i + noise.bytes(1500) + b"\n" for i in range(700)))
    bad = [content[:size] for size in (100, 262_144, 500_000, len(content) - 9)]
    bad += [content + b"\0", content + content, content + gzip.compress(b"one more line")]
    for position in (20_000, 262_000, 300_000, 600_000, len(content) - 2000, len(content) - 6):
        damaged = bytearray(content)
        damaged[position] ^= 0x10
        bad.append(bytes(damaged))
    for i, changed in enumerate(bad):
        path = write(tmp_path / "bad", changed)
        assert outcomes(ours([path], 50, compression="GZIP"), 40) == outcomes(stock([path], 50, "GZIP"), 40), i


def test_not_compressed_as_said(tmp_path):
    path = write(tmp_path / "text", b"1\n2\n3\n")
    for compression in ("GZIP", "ZLIB"):
        assert outcomes(ours([path], compression=compression)) == outcomes(stock([path], compression=compression))


STEPS = {
    "plain": {},
    "in turns": dict(cycle_length=3, block_length=2),
    "without headers": dict(header_lines=2, cycle_length=2),
    "shuffled": dict(stages=[record_stages.shuffle(9, 3, 4), record_stages.repeat(2, of_shuffle=True)]),
    "picked": dict(stages=[record_stages.shard(2, 1), record_stages.skip(2), record_stages.take(15)]),
    "kept": dict(stages=[record_stages.cache(), record_stages.repeat(2)]),
}


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("steps", STEPS)
def test_iterators_can_be_saved_anywhere(tmp_path, compression, steps):
    texts = [b"a\r\nb\n\nc", b"", b"\n".join(b"%d" % i * (i % 5) for i in range(40)), b"x\ry\n\r", b"last\n"]
    paths = [write(tmp_path / str(i), COMPRESSIONS[compression](text)) for i, text in enumerate(texts)]
    make = lambda: ours(paths, 4, compression=compression, buffer_size=5, **STEPS[steps])
    assert_saved_anywhere(make, tmp_path)


def test_an_error_is_met_again_after_a_restore(tmp_path):
    packed = bytearray(gzip.compress(bytes(range(65, 91)) * 40 + b"\n" + b"2\n3\n4\n"))
    packed[-6] ^= 0x10  # Its checksum.
    paths = [write(tmp_path / "good", gzip.compress(b"1\n2\n3\n")), write(tmp_path / "bad", bytes(packed))]
    dataset = ours(paths, compression="GZIP")
    wanted = outcomes(dataset)
    assert any(isinstance(outcome, tuple) for outcome in wanted)
    saved, restored = iter(dataset), iter(dataset)
    next(saved)
    path = tf.train.Checkpoint(iterator=saved).save(str(tmp_path / "state"))
    tf.train.Checkpoint(iterator=restored).restore(path)
    assert outcomes(restored, 11) == wanted[1:]


def test_static_shapes_and_cardinality(tmp_path):
    path = write(tmp_path / "lines", b"1\n2\n3\n4\n5\n")
    for drop in (False, True):
        mine = ours([path], 2, drop_remainder=drop)
        theirs = tf.data.TextLineDataset([path]).batch(2, drop_remainder=drop)
        assert mine.element_spec == theirs.element_spec
        assert strings(mine) == strings(theirs)
        assert mine.cardinality() == theirs.cardinality()
    endless = ours([path], 2, [record_stages.repeat()])
    assert endless.cardinality() == tf.data.INFINITE_CARDINALITY
    assert ours(tf.zeros([0], tf.string), 2).cardinality() == 0


@pytest.mark.parametrize(
    "wrong, why",
    [
        (dict(compression="LZ4"), "compression is 'LZ4'"),
        (dict(batch_size=0), "batch_size is 0"),
        (dict(cycle_length=0), "cycle_length is 0"),
        (dict(buffer_size=-1), "buffer_size is -1"),
        (dict(header_lines=-1), "header_lines is -1"),
        (dict(stages=[record_stages.shuffle(0)]), "buffer has 0 records"),
        (dict(stages=[record_stages.Stage("filter", (0, 0, 0))]), "what is not parsed cannot be filtered"),
        (dict(stages=[record_stages.Stage("sort", ())]), "no stage is called 'sort'"),
    ],
)
def test_arguments_that_cannot_be(tmp_path, wrong, why):
    """The op's own name is in the message."""
    path = write(tmp_path / "lines", b"1\n")
    settings = dict({"batch_size": 2, "stages": []}, **wrong)
    batch_size = settings.pop("batch_size")
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"TextLineBatchDataset: .*{why}"):
        line_batches_op(
            _compat.variant_of_dataset(tf.data.Dataset.from_tensor_slices([path])),
            Reading(**settings),
            Batching(batch_size),
            tf.TensorShape([None]),
        )
