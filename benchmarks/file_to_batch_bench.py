"""TFRecord files to parsed batches: TFRecordDataset, batch and parse_example against TFRecordExampleDataset.

Long passes over one file, many times, in the page cache, batches of 1024, as many parse calls at once as there are threads. The consumer is
a session that takes batches and drops them, within one run: the dataset's own reduce, behind the prefetch that tf.data puts there. Training
that takes a batch in each step costs both sides the step besides.

Time goes from an early batch to the last one, as in training, which makes an iterator once. To make one costs tf.data 6 ms, whoever parses;
and with several processors whole passes took 0.31 or 0.63 s whatever they read: as if the end waited for TensorFlow's thread that tunes
datasets, which wakes up 10, 30, 70, 150, 310, 630, … ms after the start.

With several threads two more figures are printed: ours on one processor, and the sum of as many processes as there are processors, each with
one thread: what the machine gives where nothing is shared.
"""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any, Callable, Iterator, Tuple

import numpy as np
import tensorflow as tf

import tf_booster
from benchmarks import example_data, harness, processes, tables
from benchmarks.harness import OURS, Result, contest
from tf_booster import parsing

BATCH = 1024
BATCHES = 16
WARM_UP = 8  # Batches.
# How often a pass reads the file: about half a second.
FILES = {OURS: 64, "TensorFlow": 8, "TensorFlow with our kernel": 16}
SECONDS = 2.0
# Shape, kind, compression.
CONTESTS = (
    ("39x1", "fixed", ""),
    ("39x1-64bit", "fixed", ""),
    ("39x1-64bit", "fixed", "GZIP"),
    ("26x20", "sparse", ""),
    ("mixed", "fixed", ""),
    ("mixed", "sparse", ""),
)


def run(threads: int) -> Iterator[Result]:
    shapes = {shape.name: shape for shape in example_data.SHAPES}
    with tempfile.TemporaryDirectory() as folder:
        for name, kind, compression in CONTESTS:
            records = example_data.records(shapes[name], BATCH)
            path = os.path.join(folder, "records")
            with tf.io.TFRecordWriter(path, compression) as writer:
                for record in records * BATCHES:
                    writer.write(record)
            _as_read_from_disk(path)
            size = sum(map(len, records)) / BATCH
            features = example_data.spec(shapes[name], kind)
            yield _contest(f"{name}{'-gz' * bool(compression)}", kind, path, features, compression, size, threads)


def _contest(name: str, kind: str, path: str, features: Any, compression: str, size: float, threads: int) -> Result:
    def stock(files: int) -> tf.data.Dataset:
        batches = tf.data.TFRecordDataset([path] * files, compression).batch(BATCH)
        return batches.map(lambda s: tf.io.parse_example(s, features), num_parallel_calls=threads)

    with tf.Graph().as_default(), tables.session(threads) as session:
        _require_equal(session, stock(1), _ours(path, features, compression, threads, 1))
        ours = _ours(path, features, compression, threads, FILES[OURS])
        contestants = {OURS: _passes(session, ours, FILES[OURS], False)}
        for peer, our_kernel in (("TensorFlow", False), ("TensorFlow with our kernel", True)):
            contestants[peer] = _passes(session, stock(FILES[peer]), FILES[peer], our_kernel)
        rates = contest(contestants, BATCH, SECONDS, own_clock=True)
    parsing.serve_stock_ops(False)
    facts = {"bytes a record": round(size), "MB/s": round(rates[OURS] * size)}
    if threads > 1:
        one, all_of_them = processes.rates(_pass_of_a_process, (path, features, compression))
        facts.update(
            {"one processor": round(one * BATCH / 1e6, 2), "a process on each": round(all_of_them * BATCH / 1e6, 2)}
        )
    return Result("file_to_batch", kind, 0, name, threads, "M records/s", rates, facts)


def _ours(path: str, features: Any, compression: str, threads: int, files: int) -> tf.data.Dataset:
    calls = None if threads == 1 else threads
    return tf_booster.TFRecordExampleDataset([path] * files, features, BATCH, compression, num_parallel_calls=calls)


def _pass_of_a_process(path: str, features: Any, compression: str) -> Callable[[], float]:
    tf.compat.v1.disable_eager_execution()
    session = tables.session(1)
    run_pass = _passes(session, _ours(path, features, compression, 1, FILES[OURS]), FILES[OURS], False)
    return lambda: run_pass(0)


def _as_read_from_disk(path: str) -> None:
    """What the kernel reads ahead from a disk lies in large pieces of the page cache, what was written record by record in pages.

    Copies of those run at a third of the speed (6 against 20 GB/s).
    """
    with open(path, "rb") as file:
        data = file.read()
    os.remove(path)
    with open(path, "wb", buffering=0) as file:
        file.write(data)


def _passes(
    session: tf.compat.v1.Session, dataset: tf.data.Dataset, files: int, our_kernel: bool
) -> Callable[[int], float]:
    """The function that makes a pass and returns the seconds of a batch."""

    def count(state: Tuple[tf.Tensor, ...], _: Any) -> Tuple[tf.Tensor, ...]:
        batches, begin, _ = state
        now = tf.timestamp()
        return batches + 1, tf.where(batches < WARM_UP, now, begin), now

    counted = session.make_callable(dataset.reduce((np.int64(0), np.float64(0), np.float64(0)), count))

    def run_pass(_: int) -> float:
        parsing.serve_stock_ops(our_kernel)
        start = harness.clock()
        batches, begin, end = counted()
        assert batches == BATCHES * files
        if harness.clock is not time.perf_counter:  # Processor time, which no op of TensorFlow tells.
            return (harness.clock() - start) / batches
        return (end - begin) / (batches - WARM_UP)

    return run_pass


def _require_equal(session: tf.compat.v1.Session, theirs: tf.data.Dataset, ours: tf.data.Dataset) -> None:
    both = tf.compat.v1.data.make_one_shot_iterator(tf.data.Dataset.zip((theirs, ours))).get_next()
    fetches = [tf.nest.flatten(side, expand_composites=True) for side in both]
    for a, b in zip(*session.run(fetches)):
        np.testing.assert_array_equal(a, b)
