"""tf.io.parse_example by TensorFlow's parser and by ours, in one graph, the switch thrown between the runs.

Several ops one after another in a run of the session: to start one costs 50 us where TensorFlow's thread sleeps on another processor.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Sequence, Tuple

import numpy as np
import tensorflow as tf

from benchmarks import example_data, tables
from benchmarks.harness import OURS, Result, contest
from tf_booster import parsing

v1 = tf.compat.v1
BATCH = 1024
LARGE_BATCH = 4096  # For shapes that LARGE names: what a second thread gains grows with the batch.
LARGE = ("39x1", "39x1-64bit", "26x20", "mixed")
OPS = 8
SECONDS = 2.0


def run(threads: int) -> Iterator[Result]:
    for shape in example_data.SHAPES:
        records = example_data.records(shape, BATCH)
        for kind in example_data.KINDS:
            yield _contest(shape, kind, records, threads)
            if shape.name in LARGE:
                yield _contest(shape, kind, records * (LARGE_BATCH // BATCH), threads)


def _contest(shape: example_data.Shape, kind: str, records: Sequence[bytes], threads: int) -> Result:
    spec = example_data.spec(shape, kind)
    rates, facts = parser_contest(records, lambda r: tf.io.parse_example(r, spec), threads, SECONDS)
    values = sum(shape.lengths.values())
    name = shape.name if len(records) == BATCH else f"{shape.name} batch {len(records)}"
    return Result("parse_example", kind, values, name, threads, "M examples/s", rates, facts)


def parser_contest(
    records: Sequence[bytes], parse: Callable[[tf.Tensor], Any], threads: int, seconds: float
) -> Tuple[Dict[str, float], Dict[str, Any]]:
    """`parse` of all records, by TensorFlow's parser and by ours: million records a second, and facts. Outputs must be equal."""
    with tf.Graph().as_default(), tables.session(threads) as session:
        # Feeding strings from Python costs as much as parsing them, and constants would be folded: so, a Variable.
        held = v1.get_variable("records", initializer=tf.constant(records), use_resource=True, trainable=False)
        session.run(held.initializer)
        read = held.read_value()
        outputs = tf.nest.flatten(parse(read), expand_composites=True)
        last = tf.group(*outputs)
        for _ in range(OPS - 1):
            with tf.control_dependencies([last]):
                last = tf.group(*tf.nest.flatten(parse(tf.identity(read)), expand_composites=True))
        run_ops = session.make_callable(last)

        def by(ours: bool, body: Callable[[], Any]) -> Any:
            parsing.serve_stock_ops(ours)
            return body()

        theirs, mine = (by(ours, lambda: session.run(outputs)) for ours in (False, True))
        for a, b in zip(theirs, mine):
            np.testing.assert_array_equal(a, b)
        contestants = {OURS: lambda _: by(True, run_ops), "TensorFlow": lambda _: by(False, run_ops)}
        rates = contest(contestants, len(records) * OPS, seconds)
        parsing.serve_stock_ops(False)
        bytes_of_one = round(sum(map(len, records)) / len(records))
        return rates, {"batch": len(records), "bytes a record": bytes_of_one, "tensors": len(outputs)}
