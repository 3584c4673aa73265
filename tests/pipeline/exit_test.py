"""A program that ends with its session open: an error, and the end of the process, are as without the pipeline."""

import os
import subprocess
import sys

import pytest

# Its handler runs after those of whatever is imported later, and still uses the session.
_PROGRAM = """
import atexit, sys, time
atexit.register(lambda: print("steps:", *(session.run(step) or session.run(count) for _ in range(2))))
import tensorflow as tf
import tf_booster
from pipelined import batch, dataset, loss_of, v1
from tf_booster.pipeline import worth

worth.BEGINS = worth.AHEAD

def read(step):
    time.sleep(0.3)
    return batch(step)

v1.disable_eager_execution()
tf_booster.enable_gpu_booster(pipeline=sys.argv[1])
count = v1.train.get_or_create_global_step()
features = v1.data.make_one_shot_iterator(dataset(10**6, read)).get_next()
step = v1.train.AdagradOptimizer(0.1).minimize(loss_of(features), count)
tf_booster.rewrite_graph()
init = v1.global_variables_initializer()
session = v1.Session()
session.run(init)
for _ in range(3):
    session.run(step)
raise ValueError("an error of the program")
"""


@pytest.mark.parametrize("mode", ["off", "exact", "async"])
def test_a_session_left_open(mode):
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, mode],
        cwd=os.path.dirname(os.path.abspath(__file__)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 1 and ended.stderr.rstrip().endswith("ValueError: an error of the program"), ended
    assert ended.stdout == "steps: 4 5\n", ended
