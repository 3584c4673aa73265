"""Processes that have imported TensorFlow, and become ranks by forking: an import takes 2.5 s of processor time, and tests start 60 ranks.

There is one for each number of a rank, started by itself, since ranks of a job differ in what is hashed how and lies where in memory.
Nothing runs in them but imports, so they have one thread, and a fork is a whole process.

As a program, it is such a process: requests, a line of JSON each, come by stdin, answers go by stdout.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any, Dict, List, Mapping, Optional


class Rank:
    """A forked process, as subprocess.Popen shows one. It leads a session of its own."""

    def __init__(self, server: Server, pid: int):
        self._server, self.pid = server, pid
        self.returncode: Optional[int] = None

    def poll(self) -> Optional[int]:
        """The exit status, or minus the signal; None while it runs."""
        if self.returncode is None:
            self.returncode = self._server.ask({"poll": self.pid})
        return self.returncode

    def wait(self) -> int:
        """The exit status, once it has ended."""
        while self.poll() is None:
            time.sleep(0.01)
        return self.returncode


class Server:
    """One process that forks; for use by several threads."""

    def __init__(self, environment: Mapping[str, str]):
        """`environment`: as it is while TensorFlow is imported."""
        self._lock = threading.Lock()
        command = [sys.executable, os.path.abspath(__file__)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(environment))

    def start(self, arguments: List[str], environment: Mapping[str, str], output: str) -> Rank:
        """A process in which launch.be_a_rank(*arguments) runs; `output`: a file for what it prints."""
        return Rank(self, self.ask({"arguments": arguments, "environment": dict(environment), "output": output}))

    def ask(self, request: Dict[str, Any]) -> Any:
        """The answer. Raises BrokenPipeError or ValueError if the process is gone."""
        with self._lock:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())


@functools.cache
def server(rank: int, environment: Any) -> Server:
    """The process that `rank` is forked from; it ends with this one. `environment`: items of its environment."""
    del rank
    return Server(dict(environment))


def _serve() -> Optional[Dict[str, Any]]:
    """Answers requests; returns, in a forked process, what that is to do, and None at the end."""
    while True:
        line = _read_line()
        if not line:
            return None
        request = json.loads(line)
        if "poll" in request:
            pid, status = os.waitpid(request["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            answer = os.fork()
            if answer == 0:
                return request
        os.write(1, json.dumps(answer).encode() + b"\n")


def _read_line() -> bytes:
    # Without a buffer: a fork would have it, too.
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return b""
        line += byte
    return line


def _become(request: Dict[str, Any]) -> None:
    os.setsid()
    with open(request["output"], "wb") as file, open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.clear()
    os.environ.update(request["environment"])
    np.random.seed()  # As Python's own numbers are after a fork.
    launch.be_a_rank(*request["arguments"])


if __name__ == "__main__":
    import horovod.tensorflow  # noqa: F401
    import launch
    import numpy as np

    import tf_booster  # noqa: F401

    gc.freeze()  # What was imported stays, and stays shared with the forks.
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, f"{len(threads)} threads after the imports: a fork would lack them"
    todo = _serve()
    if todo is not None:
        _become(todo)
