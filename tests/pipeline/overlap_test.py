"""What overlaps: how old rows are, that two halves run at once, and when they do not."""

import threading

import numpy as np
import pytest
import tensorflow as tf
from pipelined import booster, v1

import tf_booster
from tf_booster.pipeline import worth
from tf_booster.pipeline.worth import Worth
from tf_booster.report import report_of


def counting(mode, steps):
    """What a row is at each step that every step's update makes larger by one: how many updates were seen. And the report."""
    with booster(mode), tf.Graph().as_default() as graph:
        ids = v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensors(np.int64([3])).repeat(steps)).get_next()
        row = tf_booster.embedding_lookup(tf_booster.get_hash_table("t", 1, initializer=tf.zeros_initializer()), ids)
        train = v1.train.GradientDescentOptimizer(-1.0).minimize(
            tf.reduce_sum(row), v1.train.get_or_create_global_step()
        )
        seen = []
        with v1.train.MonitoredTrainingSession() as session:
            while not session.should_stop():
                seen.append(float(session.run([row, train])[0][0, 0]))
    return np.array(seen), report_of(graph).to_dict()["pipeline"]


@pytest.fixture
def always_apart(monkeypatch):
    monkeypatch.setattr(worth, "WORTH_SECONDS", 0.0)


def test_rows_are_at_most_one_update_old(always_apart):
    steps = np.arange(200)
    np.testing.assert_array_equal(counting("off", 200)[0], steps)
    np.testing.assert_array_equal(counting("exact", 200)[0], steps)
    seen, report = counting("async", 200)
    assert set((steps - seen).tolist()) <= {0.0, 1.0}
    assert report["mode"] == "async" and report["steps"] == 200 and report["in_one_run"] == 0


def test_small_halves_run_in_one_and_change_nothing(monkeypatch):
    monkeypatch.setattr(worth, "WORTH_SECONDS", 60.0)
    for mode in ("exact", "async"):
        seen, report = counting(mode, 60)
        np.testing.assert_array_equal(seen[30:], np.arange(30, 60))
        assert report["in_one_run"] == 39  # 20 are measured, and one is ahead by then.


def test_the_next_batch_is_asked_for_while_the_main_graph_runs(always_apart):
    """The main graph of step t waits until batch t + 1 is asked for; without overlap it would wait in vain."""
    asked, main_waited = threading.Semaphore(0), []

    def ask(x):
        asked.release()
        return x

    def wait(x):
        main_waited.append(asked.acquire(timeout=20))
        return x

    with booster("exact"), tf.Graph().as_default():
        batches = tf.data.Dataset.range(5).batch(1)
        batches = batches.map(lambda x: tf.ensure_shape(tf.numpy_function(ask, [x], tf.int64), [1]))
        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False
        batch = v1.data.make_one_shot_iterator(batches.with_options(options)).get_next()
        row = tf_booster.embedding_lookup(tf_booster.get_hash_table("t", 2), batch)
        waited = tf.numpy_function(wait, [batch], tf.int64)
        with tf.control_dependencies([waited]):
            loss = tf.reduce_sum(tf.identity(row))
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_or_create_global_step())
        # Threads of its own: both functions block one, and in the process's pool others' may be blocked, too.
        config = v1.ConfigProto(inter_op_parallelism_threads=4, use_per_session_threads=True)
        with v1.train.MonitoredTrainingSession(config=config) as session:
            assert session.run(batch) == 0
            assert asked.acquire(timeout=20) and asked.acquire(timeout=20)  # Of this batch, and of the next one.
            for _ in range(3):
                session.run([train, loss])
    assert main_waited == [True, True, True]


def test_what_is_worth_two_runs():
    small, large, always = Worth(), Worth(), Worth(always=True)
    for _ in range(20):
        assert small.overlap() and large.overlap() and always.overlap()
        small.note(1e-5)
        large.note(1.0)
        always.note(1e-5)
    assert not small.overlap() and large.overlap() and always.overlap()
    for _ in range(1000):
        assert not small.overlap()
        small.note(None)
    assert small.overlap(), "it looks again"
