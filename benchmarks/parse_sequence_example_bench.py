"""tf.io.parse_sequence_example by TensorFlow's parser and by ours, in one graph, the switch thrown between the runs."""

from __future__ import annotations

from typing import Iterator, Sequence

import tensorflow as tf

from benchmarks import sequence_data
from benchmarks.harness import Result
from benchmarks.parse_example_bench import parser_contest

BATCH, LARGE_BATCH = 512, 4096
LARGE = ("3x10 small", "3x50 small", "3x10 hashed")
SECONDS = 1.0


def run(threads: int) -> Iterator[Result]:
    for shape in sequence_data.SHAPES:
        records = sequence_data.records(shape, BATCH)
        for kind in sequence_data.KINDS:
            yield _contest(shape, kind, records, threads)
            if shape.name in LARGE:
                yield _contest(shape, kind, records * (LARGE_BATCH // BATCH), threads)


def _contest(shape: sequence_data.Sequences, kind: str, records: Sequence[bytes], threads: int) -> Result:
    context, lists = sequence_data.specs(shape, kind)
    rates, facts = parser_contest(records, lambda r: tf.io.parse_sequence_example(r, context, lists), threads, SECONDS)
    values = shape.context + shape.histories * shape.steps
    name = shape.name if len(records) == BATCH else f"{shape.name} batch {len(records)}"
    return Result("parse_sequence_example", kind, values, name, threads, "M examples/s", rates, facts)
