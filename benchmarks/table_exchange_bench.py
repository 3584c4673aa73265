"""The collectives of partitioned tables, between two ranks on this machine: 26 tables, 2,048 distinct ids each, dim 16.

A step sends ids to their owners, rows back, and gradients to the owners. Contestants: all tables in three messages (ours), an hvd.alltoall for
each table and each of the three, and three of the same bytes whose sizes never change. The number of ids changes from step to step but for the
last, which sends 3% more. What the tables compute in between is left out; the fact `whole ms` is a training step's lookups and update with it.

Starts its ranks itself, through `python -m tf_booster.run`; `--rank FILE` is one of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any, Dict, Iterator, List

import numpy as np
import tensorflow as tf

from benchmarks.harness import OURS, Result, contest

v1 = tf.compat.v1

RANKS, TABLES, IDS, DIM = 2, 26, 2048, 16
ROUNDS, STEPS = 15, 4
PER_TABLE, RAW = "an hvd.alltoall a table", "the same bytes"
WORDS = {"ids": 3, "rows": DIM, "gradients": DIM}  # Of 4 bytes, an id: a key and its sightings; a row.


def run(threads: int) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rates.json")
        command = [sys.executable, "-m", "tf_booster.run", "-np", str(RANKS), sys.executable, "-m", __name__, "--rank"]
        environment = {**os.environ, "TF_NUM_INTRAOP_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": ""}
        environment["HOROVOD_CYCLE_TIME"] = (
            "0.1"  # As short as it pays: where ranks share memory, it would be chosen longer.
        )
        subprocess.run([*command, path], check=True, env=environment, stdout=subprocess.DEVNULL)
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    facts = {"collectives": f"{found['collectives']} for {TABLES} tables", "whole ms": f"{found['whole_ms']:.1f}"}
    yield Result("table_exchange", f"{TABLES}x{IDS}", DIM, "distinct", threads, "M ids/s", found["rates"], facts)


def be_a_rank(path: str) -> None:
    """Measures on this rank; rank 0 writes what it found to `path`."""
    import tf_booster
    from tf_booster.parallel import ranks

    tf.enable_gpu_booster(horovod=True)
    with tf.Graph().as_default():
        count = v1.placeholder(tf.int32, [])
        steps = {OURS: _packed(count), PER_TABLE: _per_table(count), RAW: _raw()}
        with v1.Session() as session:
            rng = np.random.RandomState(0)  # The same on all ranks, which must run the same contestants in turn.

            def contestant(step: tf.Operation) -> Any:
                def steps_of_round(_: int) -> None:
                    for _ in range(STEPS):
                        session.run(step, {count: IDS - rng.randint(0, IDS // 16)})

                return steps_of_round

            rates = contest({n: contestant(s) for n, s in steps.items()}, STEPS * TABLES * IDS, rounds=ROUNDS)
    whole, collectives = _whole(rng)
    if ranks.current().rank == 0:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"rates": rates, "whole_ms": whole, "collectives": collectives}, file)
    tf_booster.disable_gpu_booster()


def _halves(words: tf.Tensor) -> tf.Tensor:
    return tf.stack([words // 2, words - words // 2])


def _message(words: int, after: tf.Tensor) -> tf.Tensor:
    """A buffer that is there already; it waits for `after`, as a message is made of what came before."""
    with tf.control_dependencies([after]):
        return tf.identity(_buffers()[:words])


def _buffers() -> tf.Tensor:
    """One constant for all messages of this graph."""
    graph = tf.compat.v1.get_default_graph()
    made = graph.get_collection("buffers")
    if not made:
        with tf.control_dependencies(None):
            graph.add_to_collection("buffers", tf.zeros([TABLES * IDS * DIM * 5 // 4], tf.int32))
    return graph.get_collection("buffers")[0]


def _all_to_all(message: tf.Tensor, words: tf.Tensor, name: str) -> tf.Tensor:
    """Between pins in all contestants, for TensorFlow's optimizers would drop what only the next message's control edge needs."""
    from tf_booster.parallel import collectives

    return collectives.all_to_all(message, _halves(words), "tables", name)[0]


def _by_horovod(message: tf.Tensor, words: tf.Tensor, name: str) -> tf.Tensor:
    from tf_booster.parallel import collectives, ranks

    received, _ = ranks.horovod().alltoall(collectives.pin(message), collectives.pin(_halves(words)), name=name)
    return collectives.pin(received)


def _packed(count: tf.Tensor) -> tf.Operation:
    last = count
    for kind, words in WORDS.items():
        message = _message(TABLES * IDS * words * 5 // 4, last)  # Longer than what is sent, and always the same.
        last = _all_to_all(message, TABLES * count * words, f"packed_{kind}")
    return last.op


def _per_table(count: tf.Tensor) -> tf.Operation:
    ends: List[tf.Tensor] = []
    for table in range(TABLES):
        last = count
        for kind, words in WORDS.items():
            last = _by_horovod(_message(IDS * words, last)[: count * words], count * words, f"table_{table}_{kind}")
        ends.append(last[:1])
    return tf.concat(ends, 0).op


def _raw() -> tf.Operation:
    last = tf.constant(0)
    for kind, words in WORDS.items():
        size = TABLES * IDS * words
        last = _all_to_all(_message(size, last), tf.constant(size), f"raw_{kind}")
    return last.op


def _whole(rng: np.random.RandomState) -> Any:
    """(milliseconds a step of lookups and Adagrad on all tables, collectives in it)."""
    import tf_booster

    with tf.Graph().as_default():
        ids = [v1.placeholder(tf.int64, [None]) for _ in range(TABLES)]
        tables = [tf_booster.get_hash_table(f"table_{i}", DIM) for i in range(TABLES)]
        loss = tf.add_n([tf.reduce_sum(tf_booster.embedding_lookup(t, i)) for t, i in zip(tables, ids)])
        train_op = v1.train.AdagradOptimizer(0.1).minimize(loss)
        counts = tf_booster.rewrite_graph().to_dict()["collectives_per_step"]
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())

            def step(_: int) -> None:
                session.run(train_op, {feed: rng.randint(0, 10**6, IDS) for feed in ids})

            rates: Dict[str, float] = contest({OURS: step}, 1, rounds=ROUNDS)
    return 1e-3 / rates[OURS], counts["tables"]


if __name__ == "__main__":
    be_a_rank(sys.argv[sys.argv.index("--rank") + 1])
