"""Compressed files are inflated before their turn. Pipelines that end early, and files that change meanwhile: the same batches and errors as from
TensorFlow's own pipeline, which opens a file when its turn comes."""

from __future__ import annotations

import gzip
import os
import threading
import time

import pytest
import tensorflow as tf
from record_files import FEATURES, outcomes, read, stock, write_files

import tf_booster

CALLS = pytest.mark.parametrize("calls", [None, 3])


def pair(files, batch_size=4, calls=None):
    mine = tf_booster.TFRecordExampleDataset(
        files, FEATURES, batch_size, compression="GZIP", buffer_size=200, num_parallel_calls=calls
    )
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False  # Nothing is asked for before the test asks.
    options.experimental_optimization.map_parallelization = False
    return mine.with_options(options), stock(tf.data.TFRecordDataset(files, "GZIP"), batch_size).with_options(options)


@pytest.fixture
def files(tmp_path):
    return write_files(tmp_path, (30, 30, 11), "GZIP")


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)


def wait_until(condition):
    """Whether `condition()` comes true within some seconds."""
    return any(condition() or time.sleep(0.01) for _ in range(1000))


def opened(paths):
    """How many of these files are open: as many as are read, or lie inflated."""
    links = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:  # Closed since.
            pass
    return sum(link in paths for link in links)


def cut(size):
    return lambda content: content[:size] if size >= 0 else content[: len(content) + size]


def flip(position):
    return lambda content: content[:position] + bytes([content[position] ^ 0x10]) + content[position + 1 :]


DAMAGES = {
    "empty": cut(0),
    "its header is cut": cut(5),
    "cut": cut(400),
    "its checksum is cut": cut(-2),
    "flipped": flip(300),
    "not compressed": gzip.decompress,
    "no records": lambda content: gzip.compress(b"no record at all"),
}


@CALLS
@pytest.mark.parametrize("damage", [*DAMAGES, "missing"])
def test_the_second_file_is_damaged(files, damage, calls):
    """Errors come at their batch and not before: a pipeline that ends before the file never sees them."""
    os.remove(files[1]) if damage == "missing" else write(files[1], DAMAGES[damage](read(files[1])))
    mine, theirs = pair(files, calls=calls)
    wanted = outcomes(iter(theirs), 30)
    assert outcomes(iter(mine), 30) == wanted and wanted[6] == [24, 25, 26, 27]
    for n in (1, 7, 8, 9, 100):
        assert outcomes(iter(mine.take(n)), 30) == outcomes(iter(theirs.take(n)), 30), n
    for n in (7, 8, 9, 10):
        assert outcomes(iter(mine.skip(n)), 30) == outcomes(iter(theirs.skip(n)), 30), n


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Three files of 24 MB, inflated: an iterator that is left after a batch leaves while the second one is inflated."""
    paths = []
    for i in range(3):
        paths.append(str(tmp_path_factory.mktemp("large") / f"part-{i}"))
        with tf.io.TFRecordWriter(paths[-1], "GZIP") as writer:
            for number in range(24):
                example = tf.train.Example()
                example.features.feature["id"].int64_list.value.append(24 * i + number)
                example.features.feature["other"].bytes_list.value.append(bytes(1 << 20))
                writer.write(example.SerializeToString())
    return paths


@CALLS
def test_an_iterator_left_in_the_middle_leaves_no_file_open(large, calls):
    dataset = tf_booster.TFRecordExampleDataset(large, FEATURES, 8, compression="GZIP", num_parallel_calls=calls)
    left_open = []
    for taken in range(8):
        iterator = iter(dataset)
        found = outcomes(iterator, taken)
        assert found == [list(range(8 * i, 8 * i + 8)) for i in range(taken)]
        left_open.append(opened(large) > 0)
        del iterator
        assert wait_until(lambda: opened(large) == 0)
    assert any(left_open)  # A busy machine may have read all before the test looks.
    assert outcomes(iter(dataset)) == [*(list(range(8 * i, 8 * i + 8)) for i in range(9)), "end"]


@CALLS
def test_a_session_closed_in_the_middle(large, calls):
    left_open = []
    for taken in range(4):
        with tf.Graph().as_default():
            dataset = tf_booster.TFRecordExampleDataset(
                large, FEATURES, 8, compression="GZIP", num_parallel_calls=calls
            )
            next_ids = tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()["id"]
            session = tf.compat.v1.Session()
            for i in range(taken):
                assert session.run(next_ids).tolist() == list(range(8 * i, 8 * i + 8))
            left_open.append(opened(large) > 0)
            session.close()
            with pytest.raises(RuntimeError, match="closed"):
                session.run(next_ids)
            del session
        assert wait_until(lambda: opened(large) == 0)
    assert any(left_open)


@CALLS
def test_a_session_closed_while_a_file_is_awaited(files, tmp_path, calls):
    """Opening a named pipe waits until somebody writes to it."""
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    with tf.Graph().as_default():
        mine, _ = pair([files[0], fifo], 5, calls)
        next_ids = tf.compat.v1.data.make_one_shot_iterator(mine).get_next()["id"]
        session = tf.compat.v1.Session()
        assert session.run(next_ids).tolist() == [0, 1, 2, 3, 4]
        found = []

        def run():
            try:
                while True:
                    found.append(session.run(next_ids).tolist())
            except (tf.errors.OpError, RuntimeError) as error:
                found.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        assert wait_until(lambda: len(found) == 5)
        session.close()
        writer = os.open(fifo, os.O_RDWR)
        thread.join(60)
        assert not thread.is_alive()
        session = None
    assert found[:-1] == [list(range(5 * i, 5 * i + 5)) for i in range(1, 6)] and isinstance(
        found[-1], (tf.errors.CancelledError, RuntimeError)
    )
    os.close(writer)
    assert wait_until(lambda: opened([files[0], fifo]) == 0)


@CALLS
def test_a_file_that_comes_before_its_turn(files, calls):
    """Whoever opened it ahead did not find it."""
    mine, theirs = pair(files, 1, calls)
    content = read(files[1])
    wanted = outcomes(iter(theirs), 99)
    for _ in range(3):
        os.remove(files[1])
        iterator = iter(mine)
        found = outcomes(iterator, 1)
        write(files[1] + "-written", content)
        os.rename(files[1] + "-written", files[1])  # Whole: a reader that is about to open it would find it empty else.
        assert found + outcomes(iterator, 99) == wanted


@CALLS
@pytest.mark.parametrize("change", [*DAMAGES, "missing"])
def test_a_file_that_changes_before_its_turn(files, change, calls):
    """It is as it was or as it is, or broken; what is behind it comes in any case."""
    mine, theirs = pair(files, 1, calls)
    content = read(files[1])
    before = outcomes(iter(theirs), 99)
    iterator = iter(mine)
    found = outcomes(iterator, 1)
    os.remove(files[1]) if change == "missing" else write(files[1], DAMAGES[change](content))
    after = outcomes(iter(theirs), 99)
    found += outcomes(iterator, 98)
    assert found[:30] == before[:30]
    if change == "missing":
        assert found in (before, after)
    else:
        whole = [outcome for outcome in found if outcome != "DataLossError"]
        assert whole[-12:] == before[-12:] and len(whole) >= len(found) - 1
        assert all(outcome in before for outcome in whole)


@pytest.mark.parametrize("change", DAMAGES)
def test_a_file_that_changes_behind_a_saved_iterator(files, tmp_path, change):
    """The saved place may lie behind the damage, or behind the end."""
    content = read(files[1])
    mine, theirs = pair(files, 1)  # With calls, batches of the old file would be in the state.
    for position in (20, 35, 45, 55):
        found = []
        for dataset in (mine, theirs):
            write(files[1], content)
            saved = iter(dataset)
            first = outcomes(saved, position)
            path = tf.train.Checkpoint(iterator=saved).save(str(tmp_path / "state"))
            write(files[1], DAMAGES[change](content))
            restored = iter(dataset)
            tf.train.Checkpoint(iterator=restored).restore(path)
            found.append(first + outcomes(restored, 99))
        assert found[0] == found[1], position
