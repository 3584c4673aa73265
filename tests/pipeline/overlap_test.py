"""What overlaps: how old rows are, that two halves run at once, and when they do not."""

import itertools
import json
import threading

import numpy as np
import pytest
import tensorflow as tf
from pipelined import booster, v1

import tf_booster
from tf_booster.pipeline import worth
from tf_booster.pipeline.attach import driver_of
from tf_booster.pipeline.timing import Timing
from tf_booster.pipeline.worth import AHEAD, IN_ONE, Worth
from tf_booster.report import Report, report_of


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
        manners.append([AHEAD, IN_ONE][random.randint(2)])
        return manners[-1]

    random = np.random.RandomState(3)
    monkeypatch.setattr(Worth, "manner", manner)
    for mode in ("exact", "async"):
        seen, report = counting(mode, 100)
        assert set((np.arange(100) - seen).tolist()) <= ({0.0} if mode == "exact" else {0.0, 1.0})
        assert 5 < report["in_one_run"] < 40  # Those with a batch ahead of them take that one.


@pytest.mark.parametrize("manner", [AHEAD, IN_ONE])
def test_steps_of_hooked_sessions_are_prepared_runs(manner, monkeypatch):
    """MonitoredSession gives each run options, which mostly ask for nothing; what they ask for, they get."""
    monkeypatch.setattr(Worth, "manner", lambda self, now: manner)
    with booster("exact"), tf.Graph().as_default():
        ids = v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensors(np.int64([3])).repeat(20)).get_next()
        row = tf_booster.embedding_lookup(tf_booster.get_hash_table("t", 1, initializer=tf.zeros_initializer()), ids)
        step = v1.train.get_or_create_global_step()
        train = v1.train.GradientDescentOptimizer(-1.0).minimize(tf.reduce_sum(row), step)
        with v1.train.MonitoredTrainingSession() as session:
            assert session.run([row, train])[0] == 0
            driver, asked = driver_of(session._tf_sess()), []
            original = driver._original_run
            driver._original_run = lambda *args: asked.append(args) or original(*args)
            assert [session.run([row, train])[0] for _ in range(4)] == [1, 2, 3, 4]
            assert not asked
            options, metadata = v1.RunOptions(trace_level=v1.RunOptions.SOFTWARE_TRACE), v1.RunMetadata()
            assert session.run([row, train], options=options, run_metadata=metadata)[0] == 5
            assert len(asked) == 1 and metadata.step_stats.dev_stats
            assert session.run([row, train])[0] == 6


def test_what_is_in_a_branch_that_is_not_taken_is_an_error():
    with booster("exact"), tf.Graph().as_default():
        ids = v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensors(np.int64([3])).repeat(20)).get_next()
        row = tf_booster.embedding_lookup(tf_booster.get_hash_table("t", 1, initializer=tf.zeros_initializer()), ids)
        train = v1.train.GradientDescentOptimizer(-1.0).minimize(tf.reduce_sum(row))
        sides = [tf.identity(side) for side in tf.raw_ops.Switch(data=row, pred=tf.reduce_all(row > 2))]
        with v1.train.MonitoredTrainingSession() as session:
            assert session.run([sides[0], train])[0] == 0
            assert session.run([sides[0], train])[0] == 1
            with pytest.raises(tf.errors.InvalidArgumentError, match="does not have value"):
                session.run([sides[1], train])


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


@pytest.fixture(autouse=True)
def some_cores(monkeypatch, begins_ahead):
    """As a program chooses on a machine with cores enough."""
    monkeypatch.setattr(worth, "num_cores", lambda: 4)
    monkeypatch.setattr(worth, "BEGINS", IN_ONE)


def clocked(seconds, steps, time=lambda usual, step: usual * (1.0 + 0.01 * (step % 3)), **kwargs):
    """The manners of `steps` steps that take time(`seconds` of their manner, number of the step) each."""
    choice, now, manners = Worth(**kwargs), 0.0, []
    for step in range(steps):
        manners.append(choice.manner(now))
        now += time(seconds[manners[-1]], step)
    return manners


def test_what_is_worth_two_runs():
    wins = clocked({AHEAD: 6, IN_ONE: 10}, 2500)
    assert wins[:9] == 8 * [IN_ONE] + [AHEAD] and wins.count(IN_ONE) < 40, "one short turn tells"
    loses = clocked({AHEAD: 12.8, IN_ONE: 10}, 2500)
    assert 0 < loses[:100].count(AHEAD) < 10, "one short turn tells"
    assert 0 < loses[100:].count(AHEAD) < 50, "it looks again"
    little = clocked({AHEAD: 9.2, IN_ONE: 10}, 2500)
    assert little.count(AHEAD) > 2300 and 0 < little.count(IN_ONE) < 140
    assert Worth(AHEAD).manner(0.0) is AHEAD


@pytest.mark.parametrize("usual", [1e-2, 1e-4])
@pytest.mark.parametrize("ahead", [0.55, 0.8, 1.15, 1.28, 2.0])
def test_what_choosing_costs_short_programs(ahead, usual):
    """2 % of 500 steps, whatever each manner takes."""
    seconds = {AHEAD: ahead * usual, IN_ONE: usual}
    manners = clocked(seconds, 500)
    assert sum(seconds[manner] for manner in manners) < 1.02 * 500 * min(seconds.values())


LOSES, WINS, EQUAL = (
    {AHEAD: 11.5, IN_ONE: 10},
    {AHEAD: 6, IN_ONE: 9.9},
    {AHEAD: 9.95, IN_ONE: 10},
)


@pytest.mark.parametrize("seconds", [LOSES, WINS, EQUAL])
@pytest.mark.parametrize("what", ["steady", "slow at first", "growing", "noisy", "sometimes long"])
def test_what_choosing_costs(seconds, what):
    """Less than 2 % more than the best manner from the first step to the last, and its mind changes once at most."""
    random = np.random.RandomState(4)
    time = {
        "steady": lambda usual, step: usual,
        "slow at first": lambda usual, step: usual * (1 + 9 * 0.7**step),
        "growing": lambda usual, step: usual * (1 + step / 1000),
        "noisy": lambda usual, step: usual * random.lognormal(0, 0.15),
        "sometimes long": lambda usual, step: usual * (20 if random.rand() < 0.1 else 1),
    }[what]
    manners = clocked(seconds, 20000, time)
    assert sum(seconds[manner] for manner in manners) < 1.02 * 20000 * min(seconds[AHEAD], seconds[IN_ONE])
    long = [manner for manner, run in itertools.groupby(manners) if len(list(run)) > 100]
    assert sum(one is not next_one for one, next_one in zip(long, long[1:])) <= 1


def test_on_one_core_overlap_has_to_win_more(monkeypatch):
    seconds = {AHEAD: 0.94, IN_ONE: 1}
    assert clocked(seconds, 300)[-1] is AHEAD
    monkeypatch.setattr(worth, "num_cores", lambda: 1)
    assert clocked(seconds, 300)[-1] is IN_ONE
    assert clocked({AHEAD: 0.6, IN_ONE: 1}, 300)[-1] is AHEAD, "a half that waits"


def test_later_turns_of_short_steps_are_longer():
    manners = clocked({AHEAD: 2.2e-4, IN_ONE: 2e-4}, 30000, lambda usual, _: usual)
    turns = [len(list(run)) for manner, run in itertools.groupby(manners) if manner is AHEAD]
    assert turns[0] == 8 and turns[-1] == worth._TURN_AT_MOST, turns


def test_another_manner_is_chosen_when_another_is_better():
    manners = clocked({AHEAD: 1, IN_ONE: 3}, 9000, lambda usual, step: usual if step < 3000 else 4 - usual)
    assert manners[2900:3000] == 100 * [AHEAD] and manners[-100:] == 100 * [IN_ONE]


def test_the_report_says_what_was_measured():
    choice, now = Worth(), 0.0
    assert choice.to_dict() == {"manner": None, "measured_ms": {}}
    for _ in range(1200):
        now += {AHEAD: 2e-3, IN_ONE: 1e-3}[choice.manner(now)]
    assert choice.to_dict() == {"manner": "in one", "measured_ms": {"ahead": 2.0, "in one": 1.0}}
    said = str(Report(pipeline={"mode": "exact", **Timing(steps=200).to_dict(), **choice.to_dict()}))
    assert "both halves in one run (measured, ms a step: " in said


def test_ranks_that_measure_otherwise_run_alike():
    said = []

    def rank_0(mine):
        said.append(json.dumps(mine))
        return mine

    wins, loses = {AHEAD: 6, IN_ONE: 9.9}, {AHEAD: 10.5, IN_ONE: 9.9}
    for mine, other in ((wins, loses), (loses, wins)):
        want = clocked(mine, 4500, agreed=rank_0)
        assert want != clocked(other, 4500)
        assert clocked(other, 4500, agreed=lambda _: json.loads(said.pop(0))) == want
        assert not said


def test_the_first_steps_do_not_say_what_bounds_those_in_one_run():
    timing, now = Timing(), 0.0
    for step in range(100):
        ahead = step < 8
        ended = now + (0.5 if step == 0 else 2e-3)
        timing.add(now, 0.4 if step == 0 else 0.0, ended, (0.4 if step == 0 else 1e-3) if ahead else None)
        now = ended
    found = timing.to_dict()
    assert found["bound_by"] == "main" and found["embedding_ms"] > 10 * found["main_ms"]
    assert "(in 8 of the first steps)" in str(Report(pipeline={"mode": "exact", **found, **Worth().to_dict()}))
