"""Training steps whose halves are equal and mostly wait off the processor, as for a card or a wire: 6 ms each, and what the tables compute.

What is shown is what the pipeline's order costs, on one process and on two ranks that exchange ids, rows and gradients: two ranks alone fill
two cores, so halves that compute could not overlap there. The waits: an input of which each batch takes 6 ms (TensorFlow's SleepDataset) and,
between loss and gradients, 6 ms of a Python function's sleep; TensorFlow has no op for it that costs no processor time.

Sessions take turns, each for itself, since ranks of two sessions at once would mix up their collectives. `--rank FILE` is one rank.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
import tensorflow as tf

from benchmarks.harness import OURS, Result
from tf_booster.pipeline.attach import driver_of
from tf_booster.pipeline.worth import AHEAD

v1 = tf.compat.v1

RANKS = 2
WAIT_MICROSECONDS = 6000
ROUNDS, WARM, STEPS = 5, 10, 30
CONFIG = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)  # A wait holds a thread.

Graph = Tuple[tf.Graph, tf.Tensor, tf.Operation]


def run(threads: int, graph_of: Callable[[str], Graph]) -> Iterator[Result]:
    """graph_of: a graph of the benchmark's, with the waits, for "off" or "exact"."""
    yield _result("halves that wait", threads, measured(graph_of))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "found.json")
        rank = [sys.executable, "-m", "benchmarks.embedding_pipeline_bench", "--rank", path]
        command = [sys.executable, "-m", "tf_booster.run", "-np", str(RANKS), *rank]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_NUM_INTRAOP_THREADS": "1"}
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        with open(path, encoding="utf-8") as file:
            yield _result(f"halves that wait, {RANKS} ranks", threads, json.load(file))


def be_a_rank(path: str, graph_of: Callable[[str], Graph]) -> None:
    """Measures on this rank; rank 0 writes what it found to `path`."""
    import tf_booster
    from tf_booster.parallel import ranks

    tf.enable_gpu_booster(horovod=True)
    found = measured(graph_of)
    if ranks.current().rank == 0:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(found, file)
    tf_booster.disable_gpu_booster()


def waiting_input(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """`dataset`, which waits before each element. Nothing is read ahead of who asks."""
    slept = tf.raw_ops.SleepDataset(
        input_dataset=tf.data.experimental.to_variant(dataset),
        sleep_microseconds=WAIT_MICROSECONDS,
        output_types=tf.nest.flatten(v1.data.get_output_types(dataset)),
        output_shapes=tf.nest.flatten(v1.data.get_output_shapes(dataset)),
    )
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    return tf.data.experimental.from_variant(slept, dataset.element_spec).with_options(options)


def waiting_loss(loss: tf.Tensor) -> tf.Tensor:
    """`loss`, whose gradient begins WAIT_MICROSECONDS later."""
    return loss * tf.numpy_function(_one_later, [loss], tf.float32)


def _one_later(_: Any) -> np.float32:
    time.sleep(1e-6 * WAIT_MICROSECONDS)
    return np.float32(1)


def measured(graph_of: Callable[[str], Graph]) -> Dict[str, float]:
    """Milliseconds of a step: "off", "exact", and of its halves one after the other, "embedding" and "main". Medians over all steps."""
    tf.enable_gpu_booster()
    graphs = {mode: graph_of(mode) for mode in ("off", "exact")}
    times: Dict[str, List[float]] = {"off": [], "exact": [], "embedding": [], "main": []}
    losses: Dict[str, List[Any]] = {}
    for _ in range(ROUNDS):
        for what in ("off", AHEAD, "apart"):
            graph, loss, train = graphs["off" if what == "off" else "exact"]
            with v1.Session(graph=graph, config=CONFIG) as session, graph.as_default():
                session.run(v1.global_variables_initializer())
                losses.setdefault(what, []).append(session.run([loss, train])[0])
                driver = driver_of(session)
                if driver is not None:
                    driver.always(AHEAD, depth=0 if what == "apart" else None)
                for step in range(WARM + STEPS):
                    halves = (driver.timing.embedding, driver.timing.main) if driver else (0.0, 0.0)
                    began = time.perf_counter()
                    session.run(train)
                    seconds = time.perf_counter() - began
                    if step < WARM:
                        continue
                    if what == "apart":
                        times["embedding"].append(driver.timing.embedding - halves[0])
                        times["main"].append(driver.timing.main - halves[1])
                    else:
                        times["off" if what == "off" else "exact"].append(seconds)
    assert losses["off"] == losses[AHEAD] == losses["apart"], losses
    return {name: 1e3 * statistics.median(seconds) for name, seconds in times.items()}


def _result(what: str, threads: int, ms: Dict[str, float]) -> Result:
    longest = max(ms["embedding"], ms["main"])
    facts = {
        "off ms": round(ms["off"], 2),
        "exact ms": f"{ms['exact']:.2f} (EG {ms['embedding']:.2f}, MG {ms['main']:.2f})",
        "exact efficiency": round((ms["off"] - ms["exact"]) / (ms["off"] - longest), 2),
    }
    rates = {OURS: 1e3 / ms["exact"], "off": 1e3 / ms["off"]}
    return Result("embedding_pipeline", what, 16, "zipf", threads, "steps/s", rates, facts)
