"""Weak scaling from one process to two: the demo's DeepFM, batch 1,024 a process, one core and one thread each.

python -m benchmarks.weak_scaling [--rounds 3] [--steps 300]

Every process is held to one core, with its reading, Horovod's threads and all else: one that is alone would otherwise read ahead on the other core, and two
would not be twice of it. Contestants take turns, each in fresh processes: one process; two ranks (shared memory); two ranks by Horovod; and two processes
that train apart, which is what two cores can give at most. Wall time needs a quiet machine; processor time a step says more on a busy one.
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
from typing import Any, Dict, List, Sequence

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXAMPLES = os.path.join(ROOT, "examples")
BATCH, RECORDS, WARM_UP = 1024, 100_000, 100
ALONE, RANKS, BY_HOROVOD, APART = "one process", "two ranks", "two ranks by Horovod", "two apart"
ONE_THREAD = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1", "OMP_NUM_THREADS": "1"}


def train(folder: str, out: str, core: int, steps: int) -> None:
    """One process: trains, and writes seconds and processor seconds of a step to `out`.<pid>."""
    core += int(os.environ.get("HOROVOD_LOCAL_RANK", 0))
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[core]})
    sys.path.insert(0, EXAMPLES)
    import tensorflow as tf

    import deepfm_estimator
    import tf_booster

    tf_booster.enable_gpu_booster()
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    model_dir = out if "HOROVOD_RANK" in os.environ else f"{out}-{core}"
    argv = ["--data", os.path.join(folder, "train-*"), "--model_dir", model_dir, "--batch_size", str(BATCH)]
    args = deepfm_estimator.parse_args([*argv, "--threads", "1", "--eval_every", str(10**9)])
    clock = _hook(tf, steps)
    input_fn = deepfm_estimator.input_fn(args.data, BATCH, training=True, eval_path=args.data)
    deepfm_estimator.make_estimator(args).train(input_fn, max_steps=WARM_UP + steps + 1, hooks=[clock])
    with open(f"{out}.{os.getpid()}.json", "w", encoding="utf-8") as file:
        json.dump({"seconds": clock.seconds / steps, "processor": clock.processor / steps}, file)


def _hook(tf: Any, steps: int) -> Any:
    class Clock(tf.estimator.SessionRunHook):
        """Times the steps behind the warm-up."""

        count, seconds, processor = 0, 0.0, 0.0

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.count += 1
            if self.count in (WARM_UP, WARM_UP + steps):
                self.seconds = time.perf_counter() - self.seconds
                self.processor = time.process_time() - self.processor

    return Clock()


def contestant(name: str, folder: str, steps: int) -> List[Dict[str, float]]:
    """Runs it once; what each of its processes found."""
    with tempfile.TemporaryDirectory() as place:
        out = os.path.join(place, "model")

        def program(core: int) -> List[str]:
            return [sys.executable, "-m", __spec__.name, "--train", folder, out, str(core), "--steps", str(steps)]

        environment = {**os.environ, **ONE_THREAD, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
        environment["TF_BOOSTER_SHARED_MEMORY"] = "0" if name == BY_HOROVOD else "1"
        if name in (ALONE, APART):
            commands = [program(core) for core in range(1 if name == ALONE else 2)]
        else:
            commands = [[sys.executable, "-m", "tf_booster.run", "-np", "2", *program(0)]]
        with open(os.path.join(place, "log"), "w+", encoding="utf-8") as log:
            streams = {"stdout": log, "stderr": log}
            running = [subprocess.Popen(command, env=environment, cwd=ROOT, **streams) for command in commands]
            if any([process.wait() for process in running]):
                log.seek(0)
                raise RuntimeError(f"{name}: a process failed:\n{log.read()[-3000:]}")
        found = [os.path.join(place, each) for each in os.listdir(place) if each.endswith(".json")]
        return [json.load(open(each, encoding="utf-8")) for each in found]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.weak_scaling")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300, help="timed steps of a run")
    parser.add_argument("--train", nargs=3, metavar=("DATA", "OUT", "CORE"), help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.train:
        train(args.train[0], args.train[1], int(args.train[2]), args.steps)
        return 0
    if len(os.sched_getaffinity(0)) < 2:
        parser.error("it needs two cores")
    sys.path.insert(0, EXAMPLES)
    from criteo_generator import generate

    found: Dict[str, List[List[Dict[str, float]]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        generate(folder, RECORDS, 1000, 2026)
        for _ in range(args.rounds):
            for name in (ALONE, RANKS, BY_HOROVOD, APART):
                found.setdefault(name, []).append(contestant(name, folder, args.steps))
    rates = {}
    print("| | samples/s | times one process | a step, ms | processor time a step, ms |\n|---|---|---|---|---|")
    for name, runs in found.items():
        seconds = statistics.median(statistics.mean(each["seconds"] for each in run) for run in runs)
        processor = statistics.median(statistics.mean(each["processor"] for each in run) for run in runs)
        rates[name] = len(runs[0]) * BATCH / seconds
        times = f"{rates[name]:,.0f} | {rates[name] / rates[ALONE]:.2f}"
        print(f"| {name} | {times} | {seconds * 1e3:.2f} | {processor * 1e3:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
