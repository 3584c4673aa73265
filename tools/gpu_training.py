"""Estimators on a card: WDL, DeepFM and DLRM by plain TensorFlow, with the one line, with hash tables, and with both but for batches that are sent ahead.

    python tools/gpu_training.py [--models wdl,deepfm,dlrm] [--batch 65536] [--rounds 5] [--steps 20]

A process each, all on the card; they train in turns, a few steps each, so that all are timed under the same load. A line a model and manner: thousands
of examples a second, milliseconds of a step (the medians of the turns), the rate over plain TensorFlow's, and how far the first losses are from
plain TensorFlow's. Batches come from host memory through a tf.data dataset. The models are those of the benchmark `end_to_end`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, Tuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(ROOT)

ROWS = 200_000  # Of a table; ids by the power law of the benchmarks.
BATCHES = 6  # Different ones.
TOLD = 8  # Losses that are compared.
WARM = 12  # Steps before the first turn.

# What enable_gpu_booster gets, or None without it, and whether embeddings are in hash tables.
MANNERS: Dict[str, Tuple[Any, bool]] = {
    "TensorFlow": (None, False),
    "boosted": ({}, False),
    "boosted, not ahead": ({"prefetch_to_device": False}, False),
    "tables": ({}, True),
    "tables, not ahead": ({"prefetch_to_device": False}, True),
}


def work(model: str, manner: str, batch: int, rounds: int, steps: int) -> None:
    """Trains; tells of the first losses, then waits for a line before each turn, and answers with its seconds."""
    import numpy as np
    import tensorflow as tf

    import tf_booster
    from benchmarks import data as drawn
    from benchmarks import end_to_end_models as models
    from benchmarks import graph_models

    v1 = tf.compat.v1
    v1.enable_resource_variables()
    answers, sys.stdout = sys.stdout, sys.stderr  # What others print is no answer.
    tell = lambda answer: print(json.dumps(answer), file=answers, flush=True)
    options, hashed = MANNERS[manner]
    built: Dict[str, Any] = {}
    losses: List[float] = []
    models.SHAPE = graph_models.Shape(tables=models.FIELDS, variables=0, rows=ROWS)
    random = np.random.RandomState(1)
    # Frequent ids are not neighbours.
    data = {
        f"C{i}": (drawn.ranks("zipf", ROWS, BATCHES * batch, i) * 2_654_435_761 % ROWS).reshape(BATCHES, batch, 1)
        for i in range(models.FIELDS)
    }
    data["numbers"] = random.normal(size=(BATCHES, batch, 13)).astype(np.float32)
    data["label"] = (random.uniform(size=(BATCHES, batch, 1)) < 0.25).astype(np.float32)

    def column(name: str, shape: Any) -> Any:
        if hashed:
            return tf_booster.feature_column.categorical_column_with_hash_table(name)
        return tf.feature_column.categorical_column_with_identity(name, shape.rows)

    def model_fn(features: Dict[str, Any], mode: str) -> Any:
        lookup = graph_models.column_lookup(column, 0.02)
        train, loss, _ = models.build(model, features, lookup, lambda optimizer: optimizer)
        built["loss"] = loss
        step = tf.group(train, v1.assign_add(v1.train.get_or_create_global_step(), 1))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)

    def input_fn() -> Any:
        return tf.data.Dataset.from_tensor_slices(data).cache().repeat().prefetch(2)

    class Turns(tf.estimator.SessionRunHook):
        def begin(self) -> None:
            self.done, self.start = 0, 0.0

        def before_run(self, _: Any) -> Any:
            timed = self.done - WARM
            if timed >= 0 and timed % steps == 0:
                sys.stdin.readline()
                self.start = time.perf_counter()
            return tf.estimator.SessionRunArgs(built["loss"]) if self.done < TOLD else None

        def after_run(self, _: Any, values: Any) -> None:
            self.done += 1
            timed = self.done - WARM
            if self.done <= TOLD:
                losses.append(float(values.results))
            if timed == 0:
                tell({"losses": losses, "gpus": len(tf.config.list_physical_devices("GPU")), "tables": places()})
            elif timed > 0 and timed % steps == 0:
                tell({"seconds": time.perf_counter() - self.start})

    def places() -> List[str]:
        return sorted({table["device"] for table in tf_booster.report().tables}) if options is not None else []

    if options is not None:
        tf.enable_gpu_booster(**options)
    with tempfile.TemporaryDirectory() as folder:
        config = tf.estimator.RunConfig(
            folder, tf_random_seed=1, save_checkpoints_secs=10**6, log_step_count_steps=None
        )
        trained = tf.estimator.Estimator(model_fn, config=config)
        trained.train(input_fn, hooks=[Turns()], max_steps=WARM + rounds * steps)


class Worker:
    def __init__(self, model: str, manner: str, args: argparse.Namespace) -> None:
        self.name, self.manner = f"{model}, {manner}", manner
        self.log = tempfile.TemporaryFile("w+")
        command = [sys.executable, os.path.abspath(__file__), "--work", model, manner]
        for option in ("batch", "rounds", "steps"):
            command += [f"--{option}", str(getattr(args, option))]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.log, text=True)
        self.milliseconds: List[float] = []

    def answer(self) -> Dict[str, Any]:
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            raise SystemExit(f"{self.name} ended with status {self.process.wait()}:\n{self.log.read()[-3000:]}")
        return json.loads(line)

    def turn(self, steps: int) -> None:
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.milliseconds.append(self.answer()["seconds"] / steps * 1e3)


def measure(args: argparse.Namespace) -> None:
    workers = {
        model: [Worker(model, manner, args) for manner in args.manners.split(";")] for model in args.models.split(",")
    }
    first: Dict[Worker, Dict[str, Any]] = {}
    try:
        for some in workers.values():
            first.update((worker, worker.answer()) for worker in some)
        for _ in range(args.rounds):
            for worker in first:
                worker.turn(args.steps)
    except KeyboardInterrupt:
        print("interrupted; the turns so far:")
    finally:
        for some in workers.values():
            for worker in some:
                worker.process.kill()
    for model, some in workers.items():
        plain = some[0]
        for worker in some:
            if worker.milliseconds and plain.milliseconds:
                print(line(model, worker, plain, first, args.batch), flush=True)


def line(model: str, worker: Worker, plain: Worker, first: Dict[Worker, Dict[str, Any]], batch: int) -> str:
    step, of_plain = statistics.median(worker.milliseconds), statistics.median(plain.milliseconds)
    pairs = zip(first[worker]["losses"], first[plain]["losses"])
    apart = max(abs(loss / other - 1) for loss, other in pairs)
    facts = f"tables: {', '.join(first[worker]['tables']) or 'none'}; {first[worker]['gpus']} GPU"
    return (
        f"{model:7} {worker.manner:19} {batch / step:8,.0f} k examples/s {step:7.2f} ms"
        f" ({min(worker.milliseconds):.2f} to {max(worker.milliseconds):.2f}) {of_plain / step:5.2f}x"
        f"   losses apart by {apart:.0e}; {facts}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="wdl,deepfm,dlrm")
    parser.add_argument("--manners", default=";".join(MANNERS), help="the first one is what others are compared with")
    parser.add_argument("--batch", type=int, default=65536)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="of a turn")
    parser.add_argument("--work", nargs=2, metavar=("MODEL", "MANNER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(*args.work, args.batch, args.rounds, args.steps)
    else:
        measure(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
