"""What the collectives of a step cost: a model on paper, and two processes of this machine to check it against.

python -m benchmarks.scaling_model            # The tables of docs/scaling.md.
python -m benchmarks.scaling_model --measure  # Two processes: latency and rate are fitted, then a whole step is foretold and timed.
TF_BOOSTER_SHARED_MEMORY=0 python -m benchmarks.scaling_model --measure  # The same by Horovod and Gloo, as between hosts.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import subprocess
import sys
import time
from typing import List, Sequence, Tuple


@dataclasses.dataclass(frozen=True)
class Link:
    """latency: seconds of one collective without data. rate: bytes per second that a rank sends while it receives as many."""

    latency: float
    rate: float


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of one rank. ids: different ids of all features of its batch; dense: values of all dense Variables."""

    ids: int
    dim: int
    dense: int


def table_messages(step: Step, ranks: int) -> Tuple[float, float, float]:
    """Bytes that a rank sends to others, in the three collectives of the tables; key 8, sightings 4, place of a row 4, values 4 each."""
    away = step.ids * (ranks - 1) / ranks
    return away * 12, away * 4 * step.dim, away * 4 * (1 + step.dim)


def table_seconds(step: Step, ranks: int, link: Link) -> float:
    """The three all-to-alls, one after the other; a collective costs its latency and its bytes."""
    return sum(link.latency + sent / link.rate for sent in table_messages(step, ranks))


def dense_seconds(step: Step, ranks: int, link: Link) -> float:
    """The one all-reduce, as a ring: every byte is sent twice, but for a rank's own share."""
    return link.latency + 2 * (ranks - 1) / ranks * 4 * step.dense / link.rate


def bound_by_bytes(step: Step, ranks: int, link: Link) -> float:
    """The share of the tables' time that is bytes, not latency."""
    sent = sum(table_messages(step, ranks)) / link.rate
    return sent / (sent + 3 * link.latency)


# Latencies: half a cycle of 0.1 ms, the negotiation (0.3 ms between two ranks, 0.05 ms more for each doubling), the exchange of splits.
# Rates: what NCCL's all-to-all and all-reduce are known to reach, of NVLink's 450 GB/s, and of a 400 Gbit/s adapter for two cards.
PLACES = {
    "8 cards, one host": (8, Link(0.7e-3, 300e9)),
    "8 x 16 cards, 8 hosts": (128, Link(0.9e-3, 20e9)),
}
JOBS = {
    "26 features, batch 8,192 a card, dim 16": Step(ids=85_000, dim=16, dense=600_000),
    "100 features, batch 16,384 a card, dim 32": Step(ids=650_000, dim=32, dense=5_000_000),
    "26 features, batch 65,536 a card, dim 128": Step(ids=500_000, dim=128, dense=5_000_000),
}


def paper() -> None:
    """Prints the model's tables, as rows of Markdown."""
    for place, (ranks, link) in PLACES.items():
        for job, step in JOBS.items():
            sent = sum(table_messages(step, ranks)) / 1e6
            tables, dense = (f(step, ranks, link) * 1e3 for f in (table_seconds, dense_seconds))
            share = bound_by_bytes(step, ranks, link)
            print(f"| {place} | {job} | {sent:.1f} MB | {tables:.2f} ms | {dense:.2f} ms | {share:.0%} |")


MEASURED = Step(ids=26 * 2048, dim=16, dense=600_000)


def rank() -> None:
    """One of two processes."""
    import numpy as np
    import tensorflow as tf

    import tf_booster
    from tf_booster.parallel import collectives, ranks

    tf_booster.enable_gpu_booster()
    size = ranks.current().size
    graph = tf.Graph()
    with graph.as_default(), tf.compat.v1.Session() as session:
        sizes = [0, 1 << 16, 1 << 18, 1 << 20, 1 << 22]  # Bytes that leave the rank.
        messages = [int(sent) for sent in table_messages(MEASURED, size)]
        raw = [_all_to_all(tf, collectives, size, sent, f"raw{i}") for i, sent in enumerate(sizes)]
        before: List[tf.Operation] = []
        for i, sent in enumerate(messages):
            before = [_all_to_all(tf, collectives, size, sent, f"step{i}", before)]
        vector = tf.Variable(np.zeros(MEASURED.dense, np.float32), use_resource=True)
        session.run(tf.compat.v1.global_variables_initializer())
        reduced = collectives.all_reduce_packed([vector.read_value()], "dense", "step")[0].op
        timed = {f"raw {sent}": op for sent, op in zip(sizes, raw)}
        timed.update(tables=before[0], dense=reduced)
        seconds = {name: [] for name in timed}
        for turn in range(60):
            for name, op in timed.items():
                begin = time.perf_counter()
                session.run(op)
                if turn >= 10:
                    seconds[name].append(time.perf_counter() - begin)
        if ranks.current().rank == 0:
            median = {name: statistics.median(values) for name, values in seconds.items()}
            rate, latency = np.polyfit(sizes, [median[f"raw {sent}"] for sent in sizes], 1)
            link = Link(latency, 1 / rate)
            print(f"a collective: {latency * 1e3:.2f} ms, {link.rate / 1e9:.2f} GB/s")
            for name, foretold in (("tables", table_seconds), ("dense", dense_seconds)):
                model = foretold(MEASURED, size, link)
                print(
                    f"{name}: model {model * 1e3:.2f} ms, measured {median[name] * 1e3:.2f} ms, ratio {median[name] / model:.2f}"
                )


def _all_to_all(tf, collectives, size: int, sent: int, name: str, before=()):
    """An op that waits for `before`, and then sends `sent` bytes to the other ranks together and each one's share to itself."""
    words = sent // 4 // max(1, size - 1)
    tensor = tf.Variable(tf.zeros([words * size], tf.int32), use_resource=True)
    splits = tf.Variable([words] * size, use_resource=True)
    with tf.control_dependencies(before):
        received, _ = collectives.all_to_all(tensor.read_value(), splits.read_value(), "other", name)
    return received.op


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling_model")
    parser.add_argument("--measure", action="store_true", help="two processes on this machine")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.rank:
        rank()
    elif args.measure:
        return subprocess.call(
            [
                sys.executable,
                "-m",
                "tf_booster.run",
                "-np",
                "2",
                sys.executable,
                "-m",
                "benchmarks.scaling_model",
                "--rank",
            ]
        )
    else:
        paper()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
