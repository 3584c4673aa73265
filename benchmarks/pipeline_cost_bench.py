"""What the pipeline costs where it can win little: steps of MonitoredSession with pipeline "off" and "exact", the default, in turns.

SESSIONS of each, because two equal sessions differ by some percent (where their memory lies). In each round every session has a turn, from another one on,
and each "exact" follows or precedes its "off" at once. The fact "cost" is the mean over the pairs of the median ratio of their turns, "give or take" its
standard error; "of equal ones" says how much the slowest session with "off" takes more than the fastest. How the steps are run is chosen by measurement, as in
programs.

"small step", "1 ms": those of the benchmark `embedding_pipeline`. "no tables": ordinary embeddings, where the input alone runs ahead. "demo": the demo's
DeepFM with its input from files, whose threads fill all cores. "input-bound": the same input for a model that takes next to nothing.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import tempfile
import time
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
import tensorflow as tf

import tf_booster
from benchmarks import embedding_pipeline_bench as pipelines
from benchmarks.harness import OURS, Result
from benchmarks.sessions import config_of
from tf_booster.pipeline.attach import driver_of

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples"))
import deepfm_estimator  # noqa: E402
from criteo_generator import generate  # noqa: E402

v1 = tf.compat.v1
RECORDS, BATCH = 40_000, 512
SESSIONS, ROUNDS = 6, 12
SECONDS = 0.08  # Of a turn.
WARM = 12  # Steps of a turn that are not timed: of an input that has had time to read ahead.

Step = Tuple[tf.Tensor, tf.Operation]


def run(threads: int) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        generate(folder, RECORDS, 1000, show_progress=False)
        files = os.path.join(folder, "train*")
        programs: Dict[str, Callable[[], Step]] = {
            "small step": lambda: pipelines.step_of(pipelines.MODELS["small step"]),
            "1 ms": lambda: pipelines.step_of(pipelines.MODELS["1 ms"]),
            "no tables": _without_tables,
            "demo": lambda: _deepfm(files, [128, 64]),
            "input-bound": lambda: _deepfm(files, [1]),
        }
        for name, program in programs.items():
            yield contest_of(name, program, threads)


def contest_of(name: str, program: Callable[[], Step], threads: int) -> Result:
    """Steps a second with "exact" and with "off"; their losses are made to agree first."""
    config = config_of(threads)
    graphs = {}
    for mode in (OURS, "off"):
        tf.enable_gpu_booster(pipeline="off" if mode == "off" else "exact")
        with tf.Graph().as_default() as graph:
            v1.set_random_seed(1)
            graphs[mode] = graph, program()
            sessions = [v1.train.MonitoredTrainingSession(config=config, summary_dir=None) for _ in range(SESSIONS)]
            graphs[mode] += (sessions,)
    seconds: Dict[str, List[List[float]]] = {mode: [[] for _ in range(SESSIONS)] for mode in graphs}
    losses = {
        mode: [[session.run(step)[0] for _ in range(3)] for session in sessions]
        for mode, (_, step, sessions) in graphs.items()
    }
    assert losses[OURS] == losses["off"], losses
    drivers = [driver_of(session._tf_sess()) for session in graphs[OURS][2]]
    for session, driver in zip(graphs[OURS][2], drivers):
        while driver.manner is None:
            session.run(graphs[OURS][1][1])
    for turn in range(ROUNDS):
        for number in range(SESSIONS):
            number = (number + turn) % SESSIONS
            for mode in (OURS, "off") if turn % 2 else ("off", OURS):
                _, step, sessions = graphs[mode]
                seconds[mode][number].append(_turn(sessions[number], step[1]))
    each = {mode: [statistics.median(turns) for turns in found] for mode, found in seconds.items()}
    ms = {mode: 1e3 * statistics.median(sum(found, [])) for mode, found in seconds.items()}
    costs = [
        100 * (statistics.median(ours / off for ours, off in zip(*turns)) - 1)
        for turns in zip(seconds[OURS], seconds["off"])
    ]
    facts: Dict[str, Any] = {
        "off ms": f"{ms['off']:.3f}",
        "exact ms": f"{ms[OURS]:.3f}",
        "cost": f"{statistics.mean(costs):+.1f} %",
        "give or take": f"{statistics.stdev(costs) / math.sqrt(SESSIONS):.1f} %",
        "of equal ones": f"{100 * (max(each['off']) / min(each['off']) - 1):.1f} %",
        "run": ", ".join(driver.manner for driver in drivers),
    }
    for _, _, sessions in graphs.values():
        for session in sessions:
            session.close()
    tf_booster.disable_gpu_booster()
    rates = {mode: 1e-3 / taken for mode, taken in ms.items()}
    return Result("pipeline_cost", name, 16, "zipf", threads, "M steps/s", rates, facts)


def _turn(session: Any, train: tf.Operation) -> float:
    """Seconds of a step."""
    for _ in range(WARM):
        session.run(train)
    steps, began = 0, time.perf_counter()
    while time.perf_counter() < began + SECONDS:
        for _ in range(10):
            session.run(train)
        steps += 10
    return (time.perf_counter() - began) / steps


def _without_tables() -> Step:
    random = np.random.RandomState(0)
    ids = tf.data.Dataset.from_tensor_slices(random.randint(0, 1000, [8, 32, 4])).repeat()
    batch = v1.data.make_one_shot_iterator(ids).get_next()
    words = v1.get_variable("words", [1000, 16])
    hidden = tf.reshape(tf.nn.embedding_lookup(words, batch), [-1, 64])
    loss = tf.reduce_mean(tf.square(hidden @ v1.get_variable("w", [64, 1]) - 1.0))
    return loss, v1.train.AdagradOptimizer(0.01).minimize(loss, v1.train.get_or_create_global_step())


def _deepfm(files: str, hidden: List[int]) -> Step:
    arguments = ["--data", files, "--model_dir", "", "--batch_size", str(BATCH)]
    args = deepfm_estimator.parse_args(arguments)
    args.hidden = hidden
    v1.train.get_or_create_global_step()
    features, labels = v1.data.make_one_shot_iterator(
        deepfm_estimator.input_fn(files, BATCH, training=True, eval_path=files)()
    ).get_next()
    spec = deepfm_estimator.model_fn(features, labels, tf.estimator.ModeKeys.TRAIN, vars(args))
    return spec.loss, spec.train_op
