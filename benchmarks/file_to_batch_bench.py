"""TFRecord files to parsed batches: TFRecordDataset, batch and parse_example against TFRecordExampleDataset.

One file in the page cache, again and again; batches of 1024, as many parse calls at once as there are threads, and `prefetch(2)` behind
them, as pipelines for training end. The consumer drops the batches: a shard of them that takes the last of 16 has tf.data ask for
the others and forget them. Nothing runs for a batch but what makes it: a function for each, as of Dataset.reduce, costs 20 us and two changes of
threads, whoever parses, and training that takes a batch in each step costs both sides the step.

The iterators of a contest stay open, and time goes from batch to batch, as in training, which makes an iterator once. To make one costs tf.data
6 ms, and its end may wait for TensorFlow's thread that tunes datasets.

With several threads ours has turns with two others, too, behind those with TensorFlow: ours on one processor, and as many processes as there are
processors, each with one thread: what the machine gives at that time where nothing is shared. Printed are what threads gain over one processor, what
processes do, and the first over the second, which is what sharing costs. Rates of these two are told beside ours of the turns with TensorFlow.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from typing import Any, Callable, Dict, Iterator, Optional, Tuple, Union

import numpy as np
import tensorflow as tf

import tf_booster
from benchmarks import example_data, harness, processes, tables
from benchmarks.harness import OURS, Result, contest
from tf_booster import parsing

BATCH = 1024
BATCHES = 16  # Of a file, and of a step.
TURN_SECONDS = 0.25
SECONDS = 6.0
GAIN_SECONDS = 12.0  # What disturbs one of two processors disturbs both: these need more turns.
ONE, EACH = "ours on one processor", "a process on each"
Files = Union[str, tf.data.Dataset]
Source = Tuple[str, Dict[str, Any], str]  # Path, features, compression.
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
        sources, sizes = [], []
        for i, (name, kind, compression) in enumerate(CONTESTS):
            records = example_data.records(shapes[name], BATCH)
            path = os.path.join(folder, f"records{i}")
            with tf.io.TFRecordWriter(path, compression) as writer:
                for record in records * BATCHES:
                    writer.write(record)
            _as_read_from_disk(path)
            sources.append((path, example_data.spec(shapes[name], kind), compression))
            sizes.append(sum(map(len, records)) / BATCH)
        with processes.Apart(_turns_of_a_process) if threads > 1 else contextlib.nullcontext() as apart:
            for (name, kind, _), source, size in zip(CONTESTS, sources, sizes):
                yield _contest(f"{name}{'-gz' * bool(source[2])}", kind, source, size, threads, apart)


def _contest(
    name: str, kind: str, source: Source, size: float, threads: int, apart: Optional[processes.Apart]
) -> Result:
    path, features, compression = source

    def stock(files: Files) -> tf.data.Dataset:
        batches = tf.data.TFRecordDataset(files, compression).batch(BATCH)
        return batches.map(lambda s: tf.io.parse_example(s, features), num_parallel_calls=threads)

    with tf.Graph().as_default(), tables.session(threads) as session:
        _require_equal(session, stock(path), _ours(path, source, threads))
        contestants = {OURS: _turns(session, _ours(_for_ever(path), source, threads), False, compression)}
        for peer, our_kernel in (("TensorFlow", False), ("TensorFlow with our kernel", True)):
            contestants[peer] = _turns(session, stock(_for_ever(path)), our_kernel, compression)
        rates = contest(contestants, BATCH, SECONDS, own_clock=True)
        facts = {"bytes a record": round(size), "MB/s": round(rates[OURS] * size)}
        if apart is not None:
            alone = {OURS: contestants[OURS], ONE: lambda _: apart.one(source), EACH: lambda _: apart.each(source)}
            found = contest(alone, BATCH, GAIN_SECONDS, own_clock=True)
            rates.update({who: rates[OURS] * found[who] / found[OURS] for who in (ONE, EACH)})
            gain, bound = (found[who] / found[ONE] for who in (OURS, EACH))
            facts.update(
                {"threads gain": round(gain, 2), "processes": round(bound, 2), "of it": round(gain / bound, 2)}
            )
    parsing.serve_stock_ops(False)
    return Result("file_to_batch", kind, 0, name, threads, "M records/s", rates, facts)


def _for_ever(path: str) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(path).repeat()


def _ours(files: Files, source: Source, threads: int) -> tf.data.Dataset:
    _, features, compression = source
    calls = None if threads == 1 else threads
    return tf_booster.TFRecordExampleDataset(files, features, BATCH, compression, num_parallel_calls=calls)


def _turns_of_a_process(*source: Any) -> Callable[[], float]:
    tf.compat.v1.disable_eager_execution()
    turn = _turns(tables.session(1), _ours(_for_ever(source[0]), source, 1), False, source[2])
    return lambda: turn(0)


def _as_read_from_disk(path: str) -> None:
    """What the kernel reads ahead from a disk lies in large pieces of the page cache, what was written record by record in pages.

    Copies of those run at a third of the speed (6 against 20 GB/s).
    """
    with open(path, "rb") as file:
        data = file.read()
    os.remove(path)
    with open(path, "wb", buffering=0) as file:
        file.write(data)


def _turns(
    session: tf.compat.v1.Session, dataset: tf.data.Dataset, our_kernel: bool, compression: str
) -> Callable[[int], float]:
    """The function that takes batches for a while and returns the seconds of one."""
    options = tf.data.Options()
    # One more would go on with whole steps while others have their turn.
    options.experimental_optimization.inject_prefetch = False
    last_of_step = tf.data.Dataset.shard(dataset.prefetch(2), BATCHES, BATCHES - 1).with_options(options)
    iterator = tf.compat.v1.data.make_initializable_iterator(last_of_step)
    step = tf.nest.flatten(iterator.get_next(), expand_composites=True)[0].op
    session.run(iterator.initializer)

    def turn(_: int) -> float:
        parsing.serve_stock_ops(our_kernel)
        # Batches that lay ready since the last turn; of compressed files the rest of one and all of the next were inflated.
        for _ in range(4 if compression else 1):
            session.run(step)
        start, begin, steps = harness.clock(), time.perf_counter(), 0
        while time.perf_counter() - begin < TURN_SECONDS:
            session.run(step)
            steps += 1
        return (harness.clock() - start) / (steps * BATCHES)

    return turn


def _require_equal(session: tf.compat.v1.Session, theirs: tf.data.Dataset, ours: tf.data.Dataset) -> None:
    both = tf.compat.v1.data.make_one_shot_iterator(tf.data.Dataset.zip((theirs, ours))).get_next()
    fetches = [tf.nest.flatten(side, expand_composites=True) for side in both]
    for a, b in zip(*session.run(fetches)):
        np.testing.assert_array_equal(a, b)
