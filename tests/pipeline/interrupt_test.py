"""Ctrl-C while a program trains with the pipeline: KeyboardInterrupt where it trains, no thread left, and the process ends."""

import os
import signal
import subprocess
import sys
import threading

# It is interrupted twice: while a step waits for its batch, and while one trains.
_PROGRAM = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # A background job's children ignore it.
import tensorflow as tf
from tf_booster.pipeline import worth
from pipelined import batch, booster, dataset, loss_of, threads, v1

def say(what):
    print(what, flush=True)

def train(slow_input):
    def read(step):
        if slow_input and step > 2:
            time.sleep(0.3)
        return batch(step)

    def work(loss):
        say("trains")
        time.sleep(0.3)
        return loss

    with tf.Graph().as_default():
        loss = loss_of(v1.data.make_one_shot_iterator(dataset(10**6, read)).get_next())
        step = v1.train.AdagradOptimizer(0.1).minimize(loss, v1.train.get_or_create_global_step())
        slow = tf.numpy_function(work, [loss], tf.float32)
        try:
            with v1.train.MonitoredTrainingSession() as session:
                for _ in range(3):
                    session.run(step)
                assert threads()
                if slow_input:
                    say("waits")
                while True:
                    session.run(step if slow_input else [step, slow])
        except KeyboardInterrupt:
            say("interrupted, threads left: %s" % threads())
            raise

worth.BEGINS = worth.AHEAD
with booster("exact"):
    try:
        train(slow_input=True)
    except KeyboardInterrupt:
        train(slow_input=False)
"""


def test_ctrl_c_ends_training():
    job = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        cwd=os.path.dirname(os.path.abspath(__file__)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    hangs = threading.Timer(120, job.kill)
    hangs.start()
    said = []
    try:
        for line in job.stdout:
            said.append(line.strip())
            if said[-1] == "waits" or (said[-1] == "trains" and said.count("trains") == 1):
                job.send_signal(signal.SIGINT)
        _, errors = job.communicate()
    finally:
        hangs.cancel()
        job.kill()
    assert [line for line in said if line != "trains"] == ["waits", *2 * ["interrupted, threads left: []"]], errors
    assert said[1].startswith("interrupted") and said[-1].startswith("interrupted"), said
    # Python shows the error, and ends by the signal itself.
    assert job.returncode == -signal.SIGINT and errors.rstrip().endswith("KeyboardInterrupt"), errors
