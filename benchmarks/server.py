"""python -m benchmarks.server CLUSTER TASK: a parameter server with the library, until its input ends."""

from __future__ import annotations

import json
import os
import sys

import tensorflow as tf

import tf_booster


def main() -> None:
    tf_booster.enable_gpu_booster()
    server = tf.compat.v1.train.Server(json.loads(sys.argv[1]), job_name="ps", task_index=int(sys.argv[2]))
    sys.stdin.read()
    del server
    os._exit(0)


if __name__ == "__main__":
    main()
