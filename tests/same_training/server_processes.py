"""Parameter servers and workers in processes of their own, forked from one that has imported TensorFlow and used nothing of it.

    python server_processes.py < a line of JSON: {"cluster": …, "servers": [has task 0 the library, …]}

Each further line has a worker run `function` of module `module`, in a process of its own: {"module": …, "function": …, "arguments": …}; a line "0" tells that
it ended well. Everything ends with the input.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import traceback
from typing import Any, Callable, Dict, List

import tensorflow as tf

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.abspath(os.path.join(__file__, "../../.."))]
v1 = tf.compat.v1


def _fork(function: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        function()
        os._exit(0)
    except BaseException:  # pylint: disable=broad-except
        traceback.print_exc()
        os._exit(1)


def _serve(cluster: Dict[str, List[str]], task: int, has_library: bool) -> None:
    if has_library:
        import tf_booster  # pylint: disable=import-outside-toplevel

        tf_booster.enable_gpu_booster()
    config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    v1.train.Server(cluster, job_name="ps", task_index=task, config=config).join()


def _call(order: Dict[str, Any]) -> None:
    getattr(importlib.import_module(order["module"]), order["function"])(**order["arguments"])


def _main() -> None:
    first = json.loads(sys.stdin.readline())
    servers = [
        _fork(lambda task=task, has=has: _serve(first["cluster"], task, has))
        for task, has in enumerate(first["servers"])
    ]
    try:
        for line in sys.stdin:
            status = os.waitpid(_fork(lambda line=line: _call(json.loads(line))), 0)[1]
            print(status, flush=True)
    finally:
        for server in servers:
            os.kill(server, signal.SIGKILL)
        os._exit(0)  # TensorFlow's threads did not outlive the forks, and its ends would wait for them.


if __name__ == "__main__":
    _main()
