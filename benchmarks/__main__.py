"""python -m benchmarks [name …] [--threads 1,2] [--out results.json]: each peer beside ours, from one run.

Every benchmark runs in a process of its own for each number of threads: TensorFlow's pool is made once a process.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, Iterator, List

NAMES = (
    "find",
    "find_or_insert",
    "adagrad",
    "adam",
    "unique",
    "small_batches",
    "sparse_lookup",
    "graph_rewrite",
    "end_to_end",
    "graph_passes",
    "variable_updates",
    "batch_normalization",
    "table_fusion",
    "table_exchange",
    "embedding_pipeline",
    "pipeline_cost",
    "dense_columns",
    "partitioned_variables",
    "increments",
    "evaluation",
    "auc",
    "start_up",
    "direct_lookups",
    "repeated_features",
    "gather_matmul",
    "xla_padding",
    "quantized_scoring",
    "parameter_servers",
    "file_to_batch",
    "input_pipelines",
    "parse_example",
    "parse_sequence_example",
)
PROCESS_SECONDS = 900


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(NAMES)}; all by default")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, with commas between (default 1,2)")
    parser.add_argument("--out", default="build/benchmarks.json", help="where the results go (default %(default)s)")
    parser.add_argument(
        "--cpu-time", action="store_true", help="measure processor time; for one thread on a busy machine"
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)  # The file for the results of one process.
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if args.worker:
        return work(args.names[0], int(args.threads), args.cpu_time, args.worker)
    if args.cpu_time and args.threads != "1":
        parser.error("--cpu-time adds up all threads; it needs --threads 1")

    from benchmarks import contests, machine, page, peers, two_threads

    failed = peers.install()
    if failed:
        print(f"TFRA is left out, it could not be installed: {failed}")
    threads = list(dict.fromkeys(map(int, args.threads.split(","))))
    probe: Dict[str, Any] = {
        **machine.processor(),
        **machine.probe(),
        "date": time.strftime("%Y-%m-%d"),
        "threads": threads,
    }
    print(contests.machine_line(probe))
    results, broken = [], []
    for name in dict.fromkeys(args.names or NAMES):
        for count in threads:
            lines = run_process(name, count, ["--cpu-time"] if args.cpu_time else [])
            results += lines
            if not lines:
                broken.append(f"{name} with {count} threads")
    lines = two_threads.gains(results)
    if lines:
        probe["two_processes"] = two_threads.two_processes()
        gains = ", ".join(f"{name} {gain:.2f}x" for name, gain in probe["two_processes"].items())
        print(f"two threads over one (two processes that share nothing: {gains}):", *lines, sep="\n")
    os.makedirs(os.path.dirname(os.path.abspath(args.out)), exist_ok=True)
    with open(args.out, "w") as file:
        json.dump({"machine": probe, "results": results}, file, indent=1)
    print(f"written to {args.out}, with charts to {page.write(args.out)}")
    if broken:
        print(f"failed: {', '.join(broken)}")
    return 1 if broken else 0


def run_process(name: str, threads: int, options: List[str]) -> List[Dict]:
    """The results of one benchmark with so many threads; printed as they come. Empty if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "results.json")
        command = [sys.executable, "-m", "benchmarks", name, "--threads", str(threads), "--worker", path, *options]
        env = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3")
        try:
            code = subprocess.run(command, env=env, timeout=PROCESS_SECONDS).returncode
        except subprocess.TimeoutExpired:
            code = f"no end after {PROCESS_SECONDS} s"
        if code != 0:
            print(f"{name} with {threads} threads failed: {code}")
            return []
        with open(path) as file:
            return json.load(file)


def work(name: str, threads: int, cpu_time: bool, path: str) -> int:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import tensorflow as tf

    from benchmarks import harness
    from benchmarks.harness import Result, table

    tf.compat.v1.disable_eager_execution()
    tf.get_logger().setLevel("ERROR")
    if cpu_time:
        harness.clock = time.process_time
    results: List[Result] = []
    for result in benchmark(name, threads):
        results.append(result)
        print(table([result]), flush=True)
    made = [dataclasses.asdict(r) for r in results]
    harness.require_distinct(made)
    with open(path, "w") as file:
        json.dump(made, file)
    return 0


def benchmark(name: str, threads: int) -> Iterator:
    if name in ("adagrad", "adam"):
        from benchmarks import optimizer_bench

        return optimizer_bench.run_optimizer(name, threads)
    import importlib

    return importlib.import_module(f"benchmarks.{name}_bench").run(threads)


if __name__ == "__main__":
    sys.exit(main())
