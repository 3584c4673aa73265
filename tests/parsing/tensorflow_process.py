"""TensorFlow's parser in a process of its own, which may die: of some broken records it does.

A server imports TensorFlow and forks; the child parses. When a child dies the server tells so and forks the next one,
which takes milliseconds.
"""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import struct
import subprocess
import sys
from typing import Any, BinaryIO, Callable, Sequence

# Of address space beyond TensorFlow's own. It allocates by a length field alone: floats of 4 GiB, as a length says, would
# be cleared first (10 s) and then be fatal all the same.
MEMORY = 2 << 30
SECONDS = 120  # A child that says nothing for so long hangs, and is killed.


class TensorFlowProcess:
    """with TensorFlowProcess() as stock: stock.outcome("parse_example_v2", features, records)"""

    def __enter__(self) -> TensorFlowProcess:
        self._server = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1"),
        )
        receive(self._server.stdout)  # It is ready.
        return self

    def __exit__(self, *exc: Any) -> None:
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()

    def outcome(self, op: str, *args: Any) -> Any:
        """example_compare.outcome of the function `op` of example_compare, or ("died", signal)."""
        # Asked twice before it counts as dead: a child that has answered thousands may die of its memory limit instead.
        reply = self._ask(op, args)
        return self._ask(op, args) if reply[0] == "died" else reply

    def _ask(self, op: str, args: Any) -> Any:
        send(self._server.stdin, (op, args))
        return receive(self._server.stdout)


def send(file: BinaryIO, message: Any) -> None:
    data = pickle.dumps(message)
    file.write(struct.pack("<q", len(data)) + data)
    file.flush()


def receive(file: BinaryIO) -> Any:
    head = file.read(8)
    if len(head) < 8:
        raise EOFError
    return pickle.loads(file.read(struct.unpack("<q", head)[0]))


def serve(requests: BinaryIO, replies: BinaryIO, run: Callable[[str, Sequence[Any]], Any]) -> None:
    send(replies, "ready")
    while True:
        to_child, from_child = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            os.close(to_child[1]), os.close(from_child[0])
            with open("/proc/self/statm") as file:
                used = int(file.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            with open(to_child[0], "rb") as questions, open(from_child[1], "wb") as answers:
                try:
                    while True:
                        send(answers, run(*receive(questions)))
                finally:  # Without Python's own way out, which waits for threads.
                    os._exit(0)
        os.close(to_child[0]), os.close(from_child[1])
        with open(to_child[1], "wb") as questions, open(from_child[0], "rb") as answers:
            try:
                while True:
                    request = receive(requests)
                    try:
                        send(questions, request)
                        if not select.select([answers], [], [], SECONDS)[0]:
                            break
                        reply = receive(answers)
                    except (EOFError, BrokenPipeError):
                        break
                    send(replies, reply)
            except EOFError:
                return
        os.kill(child, signal.SIGKILL)  # Nothing, if it is dead.
        send(replies, ("died", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    import example_compare

    serve(
        sys.stdin.buffer, output, lambda op, args: example_compare.outcome(lambda: getattr(example_compare, op)(*args))
    )
