"""Training with two parameter servers, each a process: with the pass server_lookups, without it, and plain TensorFlow.

26 tables, looked up by one id an example or by bags of ids. All processes share this machine's processors and its loopback, which has no price
for bytes, so the figure to look at is what a step moves; the last losses are compared first.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import tensorflow as tf

from benchmarks.harness import OURS, Result, contest
from benchmarks.sessions import turn_of
from tf_booster import options
from tf_booster.passes import pipelines, servers

v1 = tf.compat.v1
BATCH, FIELDS, DIM, ROWS, SERVERS, STEPS = 512, 26, 16, 100_000, 2, 5
WITHOUT = "without"
BAGS = {"one id": 1, "bags of 20": 20}


def run(threads: int) -> Iterator[Result]:
    v1.enable_resource_variables()
    with _cluster() as (cluster, target):
        for name, most in BAGS.items():
            yield contest_of(name, most, cluster, target, threads)


def contest_of(name: str, most: int, cluster: Dict[str, List[str]], target: str, threads: int) -> Result:
    turns: Dict[str, Any] = {}
    facts: Dict[str, Any] = {}
    losses = []
    for contestant, disabled in ((OURS, ()), (WITHOUT, ("server_lookups",)), ("TensorFlow", None)):
        with (
            tf.Graph().as_default() as graph,
            v1.device(v1.train.replica_device_setter(SERVERS, worker_device="/job:chief/task:0")),
        ):
            v1.set_random_seed(1)
            loss, train = _model(most)
            initialize = v1.global_variables_initializer()
            if disabled is not None:
                with servers.session_of(servers.Master(target, None)):
                    pipelines.rewrite(graph, options.Options(disable_passes=disabled))
            session = v1.Session(target)
        session.run(initialize)
        losses.append([session.run([loss, train])[0] for _ in range(3)])
        facts[f"KB {contestant}"], facts[f"tensors {contestant}"] = _moved(session, train)
        turns[contestant] = turn_of(session, train, STEPS)
    np.testing.assert_allclose(losses[0], losses[2], rtol=1e-4)
    rates = contest(turns, STEPS * BATCH, seconds=4.0)
    return Result("parameter_servers", "step", BATCH, name, threads, "M rows/s", rates, facts)


def _model(most: int) -> Tuple[tf.Tensor, tf.Operation]:
    random = np.random.RandomState(1)
    pooled = []
    for i in range(FIELDS):
        counts = random.randint(1, most + 1, BATCH)
        rows = np.repeat(np.arange(BATCH), counts)
        places = np.stack([rows, np.concatenate([np.arange(count) for count in counts])], 1).astype(np.int64)
        ids = tf.SparseTensor(
            v1.placeholder_with_default(places, [None, 2]),
            v1.placeholder_with_default(random.randint(0, ROWS, len(rows)), [None]),
            v1.placeholder_with_default(np.array([BATCH, most]), [2]),
        )
        table = v1.get_variable(f"table{i}", [ROWS, DIM], initializer=v1.random_uniform_initializer(-0.1, 0.1, seed=i))
        pooled.append(v1.nn.safe_embedding_lookup_sparse([table], ids, combiner="mean"))
    x = tf.concat(pooled, 1)
    for i, width in enumerate((64, 1)):
        x = v1.layers.dense(x, width, tf.nn.tanh, kernel_initializer=v1.glorot_uniform_initializer(i), name=f"layer{i}")
    loss = tf.reduce_mean(tf.square(x - 0.5))
    return loss, v1.train.AdagradOptimizer(0.1).minimize(loss)


def _moved(session: v1.Session, fetch: Any) -> Tuple[float, int]:
    """Kilobytes and tensors that a step moves between processes."""
    metadata = v1.RunMetadata()
    session.run(fetch, options=v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), run_metadata=metadata)
    devices = metadata.step_stats.dev_stats
    received = [stats for device in devices for stats in device.node_stats if stats.node_name == "RecvTensor"]
    size = sum(stats.output[0].tensor_description.allocation_description.requested_bytes for stats in received)
    return round(size / 1e3, 1), len(received)


@contextlib.contextmanager
def _cluster() -> Iterator[Tuple[Dict[str, List[str]], str]]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(1 + SERVERS)]
        for probe in probes:
            probe.bind(("localhost", 0))
        places = [f"localhost:{probe.getsockname()[1]}" for probe in probes]
    cluster = {"chief": places[:1], "ps": places[1:]}
    command = [sys.executable, "-m", "benchmarks.server", json.dumps(cluster)]
    processes = [subprocess.Popen([*command, str(task)], stdin=subprocess.PIPE) for task in range(SERVERS)]
    try:
        yield cluster, v1.train.Server(cluster, job_name="chief", task_index=0).target
    finally:
        for process in processes:
            process.stdin.close()
            process.wait()
