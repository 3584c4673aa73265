"""What overlaps: how old rows are, that two halves run at once, and when they do not."""

import json
import threading

import numpy as np
import pytest
import tensorflow as tf
from pipelined import booster, v1

import tf_booster
from tf_booster.pipeline.worth import AHEAD, APART, IN_ONE, Worth
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
def always_ahead(monkeypatch):
    monkeypatch.setattr(Worth, "manner", lambda self, now: AHEAD)


def test_rows_are_at_most_one_update_old(always_ahead):
    steps = np.arange(200)
    np.testing.assert_array_equal(counting("off", 200)[0], steps)
    np.testing.assert_array_equal(counting("exact", 200)[0], steps)
    seen, report = counting("async", 200)
    assert set((steps - seen).tolist()) <= {0.0, 1.0}
    assert report["mode"] == "async" and report["steps"] == 200 and report["in_one_run"] == 0


def test_steps_may_run_in_another_manner_each_time(monkeypatch):
    manners = []

    def manner(self, now):
        manners.append([AHEAD, APART, IN_ONE][random.randint(3)])
        return manners[-1]

    random = np.random.RandomState(3)
    monkeypatch.setattr(Worth, "manner", manner)
    for mode in ("exact", "async"):
        seen, report = counting(mode, 100)
        assert set((np.arange(100) - seen).tolist()) <= ({0.0} if mode == "exact" else {0.0, 1.0})
        assert 10 < report["in_one_run"] < 40  # Those with a batch ahead of them take that one.


def test_the_next_batch_is_asked_for_while_the_main_graph_runs(always_ahead):
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
        first = [batch, v1.assign_add(v1.get_variable("steps", [], initializer=tf.zeros_initializer()), 1)]
        # Threads of its own: both functions block one, and in the process's pool others' may be blocked, too.
        config = v1.ConfigProto(inter_op_parallelism_threads=4, use_per_session_threads=True)
        with v1.train.MonitoredTrainingSession(config=config) as session:
            assert session.run(first)[0] == 0
            assert asked.acquire(timeout=20) and asked.acquire(timeout=20)  # Of this batch, and of the next one.
            for _ in range(3):
                session.run([train, loss])
    assert main_waited == [True, True, True]


def clocked(seconds, steps, **kwargs):
    """The manners of `steps` steps that take `seconds` each, by their manner."""
    worth, now, manners = Worth(**kwargs), 0.0, []
    for step in range(steps):
        manners.append(worth.manner(now))
        now += seconds[manners[-1]] * (1.0 + 0.01 * (step % 3))
    return manners


def test_what_is_worth_two_runs():
    wins = clocked({AHEAD: 6, APART: 10, IN_ONE: 9.9}, 2500)
    assert IN_ONE not in wins and wins.count(APART) < 30  # One run is not tried: to make its executor would take long.
    short = clocked({AHEAD: 0.16e-3, APART: 0.27e-3, IN_ONE: 0.11e-3}, 2500)
    assert short.count(IN_ONE) > 2400, "the second run alone costs what overlap seems to win"
    little = clocked({AHEAD: 9.5, APART: 10, IN_ONE: 9.9}, 2500)
    assert little.count(AHEAD) > 2400 and 0 < little.count(IN_ONE) < 30
    loses = clocked({AHEAD: 10.5, APART: 10, IN_ONE: 9.9}, 2500)
    assert loses[:10] == 10 * [AHEAD] and loses.count(IN_ONE) > 2400
    assert loses[2040:].count(AHEAD) > 10, "it looks again"
    assert Worth(AHEAD).manner(0.0) is AHEAD


def test_ranks_that_measure_otherwise_run_alike():
    said = []

    def rank_0(mine):
        said.append(json.dumps(mine))
        return mine

    wins, loses = {AHEAD: 6, APART: 10, IN_ONE: 9.9}, {AHEAD: 10.5, APART: 10, IN_ONE: 9.9}
    for mine, other in ((wins, loses), (loses, wins)):
        want = clocked(mine, 4500, agreed=rank_0)
        assert want != clocked(other, 4500)
        assert clocked(other, 4500, agreed=lambda _: json.loads(said.pop(0))) == want
        assert not said
