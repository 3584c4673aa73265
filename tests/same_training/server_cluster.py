"""A cluster for tests: the chief in this process, parameter servers and perhaps a worker in others; and what a step moves between them."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence

import tensorflow as tf

v1 = tf.compat.v1


class Cluster:
    """spec: of tf.train.Server. target: the chief's, in this process."""

    def __init__(self, servers: Sequence[bool], workers: int = 0):
        with contextlib.ExitStack() as stack:
            probes = [stack.enter_context(socket.socket()) for _ in range(1 + len(servers) + workers)]
            for probe in probes:
                probe.bind(("localhost", 0))
            places = [f"localhost:{probe.getsockname()[1]}" for probe in probes]
        self.spec = {"chief": places[:1], "ps": places[1 : 1 + len(servers)], "worker": places[1 + len(servers) :]}
        self.spec = {job: tasks for job, tasks in self.spec.items() if tasks}
        program = os.path.join(os.path.dirname(__file__), "server_processes.py")
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
        environment.pop("TF_CONFIG", None)
        self._process = subprocess.Popen(
            [sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._write({"cluster": self.spec, "servers": list(servers)})
        config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        self._server = v1.train.Server(self.spec, job_name="chief", task_index=0, config=config)
        self.target = self._server.target

    def start_worker(self, module: str, function: str, **arguments: Any) -> None:
        """Has a worker run function(**arguments) in a process of its own; wait_for_worker() tells how it ended."""
        self._write({"module": module, "function": function, "arguments": arguments})

    def wait_for_worker(self) -> int:
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def _write(self, line: Dict[str, Any]) -> None:
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()


class Moved(NamedTuple):
    """What one step moves between processes: bytes and tensors by (from, to), such as ("ps:0", "chief:0")."""

    bytes: Dict[Any, int]
    tensors: Dict[Any, int]


def moved(session: Any, fetches: Any) -> Moved:
    """Runs one step of a plain session with a trace, which has each tensor that a process received."""
    options, metadata = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), v1.RunMetadata()
    session.run(fetches, options=options, run_metadata=metadata)
    found = Moved(collections.Counter(), collections.Counter())
    for stats in (
        s for device in metadata.step_stats.dev_stats for s in device.node_stats if s.node_name == "RecvTensor"
    ):
        ends = re.findall(r" (?:from|to) /job:(\w+)/replica:0/task:(\d+)", stats.timeline_label)
        key = tuple(":".join(end) for end in ends)
        found.bytes[key] += stats.output[0].tensor_description.allocation_description.requested_bytes
        found.tensors[key] += 1
    return found


@contextlib.contextmanager
def cluster_of(*servers: bool, workers: int = 0) -> Iterator[Cluster]:
    """servers: for each parameter server whether it has the library."""
    made = Cluster(servers, workers)
    try:
        yield made
    finally:
        made.close()


def devices_of(graph: tf.Graph, start: str = "TfBooster") -> Dict[str, List[str]]:
    """The devices of the ops whose type begins so, by type."""
    found: Dict[str, List[str]] = collections.defaultdict(list)
    for op in graph.get_operations():
        if op.type.startswith(start):
            found[op.type].append(op.device)
    return found
