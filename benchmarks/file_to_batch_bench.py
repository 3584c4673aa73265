"""TFRecord files to parsed batches: TFRecordDataset, batch and parse_example against TFRecordExampleDataset.

Whole passes over one file, eight times, in the page cache, batches of 1024, as many parse calls at once as there are threads. Batches are
counted and dropped by the dataset's own reduce, so no step of a session stands between them.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any, Callable, Iterator

import numpy as np
import tensorflow as tf

import tf_booster
from benchmarks import example_data, tables
from benchmarks.harness import OURS, Result, contest
from tf_booster import parsing

BATCH = 1024
BATCHES = 16
FILES = 8  # A pass costs tf.data some 10 ms before the first record.
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
    def stock() -> tf.data.Dataset:
        batches = tf.data.TFRecordDataset([path] * FILES, compression).batch(BATCH)
        return batches.map(lambda s: tf.io.parse_example(s, features), num_parallel_calls=threads)

    def ours() -> tf.data.Dataset:
        calls = None if threads == 1 else threads
        return tf_booster.TFRecordExampleDataset([path] * FILES, features, BATCH, compression, num_parallel_calls=calls)

    with tf.Graph().as_default(), tables.session(threads) as session:
        _require_equal(session, stock(), ours())
        contestants = {
            OURS: _passes(session, ours(), False),
            "TensorFlow": _passes(session, stock(), False),
            "TensorFlow with our kernel": _passes(session, stock(), True),
        }
        rates = contest(contestants, BATCH * BATCHES * FILES, SECONDS)
    parsing.serve_stock_ops(False)
    facts = {"bytes a record": round(size), "MB/s": round(rates[OURS] * size)}
    return Result("file_to_batch", kind, 0, name, threads, "M records/s", rates, facts)


def _as_read_from_disk(path: str) -> None:
    """What the kernel reads ahead from a disk lies in large pieces of the page cache, what was written record by record in pages.

    Copies of those run at a third of the speed (6 against 20 GB/s).
    """
    with open(path, "rb") as file:
        data = file.read()
    os.remove(path)
    with open(path, "wb", buffering=0) as file:
        file.write(data)


def _passes(session: tf.compat.v1.Session, dataset: tf.data.Dataset, our_kernel: bool) -> Callable[[int], Any]:
    counted = session.make_callable(dataset.reduce(np.int64(0), lambda count, _: count + 1))

    def run_pass(_: int) -> None:
        parsing.serve_stock_ops(our_kernel)
        assert counted() == BATCHES * FILES

    return run_pass


def _require_equal(session: tf.compat.v1.Session, theirs: tf.data.Dataset, ours: tf.data.Dataset) -> None:
    both = tf.compat.v1.data.make_one_shot_iterator(tf.data.Dataset.zip((theirs, ours))).get_next()
    fetches = [tf.nest.flatten(side, expand_composites=True) for side in both]
    for a, b in zip(*session.run(fetches)):
        np.testing.assert_array_equal(a, b)
