"""How pipelined training ends, goes on and fails: no batch is lost or used twice, the first error is shown, no thread stays."""

import gc
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from pipelined import batch, booster, dataset, loss_of, threads, v1

from tf_booster import _compat
from tf_booster.passes.graph_view import GraphView
from tf_booster.pipeline import attach, driver, worker, worth
from tf_booster.pipeline.split import split_of


class Steps:
    """A graph, its fetches, and which batches tf.data was asked for."""

    def __init__(self, steps=1000, mode="exact", read=batch, make_iterator=v1.data.make_one_shot_iterator):
        self.read = []
        self.graph = tf.Graph()

        def noted(step):
            self.read.append(step)
            return read(step)

        with self.graph.as_default():
            v1.set_random_seed(1)
            self.iterator = make_iterator(dataset(steps, noted))
            self.features = self.iterator.get_next()
            known = tf.debugging.assert_non_negative(self.features["step"], "a step before the first")
            with tf.control_dependencies([known]):
                self.features["ids"] = tf.identity(self.features["ids"])
            self.doubled = 2 * self.features["step"]
            self.poison = v1.placeholder_with_default(0.0, [], "poison")
            checked = tf.debugging.check_numerics(loss_of(self.features) + self.poison, "poisoned")
            self.loss = checked
            self.train = v1.train.AdagradOptimizer(0.1).minimize(checked, v1.train.get_or_create_global_step())
        self.mode = mode

    def session(self, **kwargs):
        return v1.train.MonitoredTrainingSession(**kwargs)

    def __enter__(self):
        self._booster = booster(self.mode)
        self._booster.__enter__()
        self._default = self.graph.as_default()
        self._default.__enter__()
        return self

    def __exit__(self, *error):
        self._default.__exit__(*error)
        self._booster.__exit__(*error)


def run(session, steps, *more):
    return session.run([steps.features["step"], steps.loss, steps.train, *more])[0]


def test_end_of_data():
    with Steps(5) as steps:
        seen = []
        with steps.session() as session:
            while not session.should_stop():
                seen.append(run(session, steps))
    assert seen == steps.read == [0, 1, 2, 3, 4]
    assert threads() == []


def test_what_needs_no_batch_runs_at_the_end_as_well():
    """TensorFlow has begun a step by then: counters, draws and metrics of Variables alone have changed."""
    with Steps(3, make_iterator=v1.data.make_initializable_iterator) as steps:
        counter = v1.get_variable("counter", initializer=0.0, trainable=False)
        draws = v1.get_variable("draws", initializer=0.0, trainable=False)
        with tf.control_dependencies([steps.features["step"]]):
            batches = v1.get_variable("batches", initializer=0.0, trainable=False)
            count_batches = batches.assign_add(1.0)
        queue = tf.queue.FIFOQueue(8, [tf.float32], [[]])  # A run that waits for it would wait for ever.
        fill, dequeued = queue.enqueue(0.0), counter.assign_add(queue.dequeue())
        with tf.control_dependencies([dequeued]):
            counts = [counter.assign_add(1.0)]
        more = [counter.assign_add(1.0), draws.assign_add(tf.random.uniform([], seed=2)), count_batches]
        draw = tf.random.uniform([], seed=2)
        with v1.Session() as session:
            expected = np.cumsum([session.run(draw) for _ in range(8)])
        with steps.session() as session:
            raw = session._tf_sess()
            attach.driver_of(raw).always(worth.AHEAD)
            for epoch in range(1, 3):
                raw.run(steps.iterator.initializer)
                for _ in range(3):
                    raw.run(fill)
                    run(raw, steps, *more, *counts)
                with pytest.raises(tf.errors.OutOfRangeError):
                    run(raw, steps, *more, *counts)
                assert raw.run([counter, batches]) == [7 * epoch, 3 * epoch]
                np.testing.assert_allclose(raw.run(draws), expected[4 * epoch - 1], rtol=1e-6)


def test_the_end_of_data_is_the_error_that_a_plain_session_raises():
    with Steps(2) as steps:
        with steps.session() as session:
            raw = session._tf_sess()
            run(raw, steps), run(raw, steps)
            for _ in range(2):
                with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
                    run(raw, steps)


def test_a_hook_that_stops():
    with Steps() as steps:
        with steps.session(hooks=[v1.train.StopAtStepHook(num_steps=3)]) as session:
            while not session.should_stop():
                last = run(session, steps)
    assert last == 2
    assert threads() == []


def test_an_error_of_the_input_comes_at_its_step():
    def broken(step):
        if step == 3:
            raise ValueError("batch three is broken")
        return batch(step)

    with Steps(read=broken) as steps:
        seen = []
        with pytest.raises(tf.errors.InvalidArgumentError, match="batch three is broken"):
            with steps.session() as session:
                while not session.should_stop():
                    seen.append(run(session, steps))
    assert seen == [0, 1, 2]
    assert threads() == []


def test_an_error_of_the_embedding_graph_comes_at_its_step():
    """An assertion that the lookups wait for refuses batch three; the ones before train."""

    def broken(step):
        return {**batch(step), "step": np.int64(-step if step == 3 else step)}

    with Steps(read=broken) as steps:
        seen = []
        with pytest.raises(tf.errors.InvalidArgumentError, match="a step before the first"):
            with steps.session() as session:
                assert "If" in ahead_of(steps.graph)
                while not session.should_stop():
                    seen.append(run(session, steps))
    assert seen == [0, 1, 2]
    assert threads() == []


def ahead_of(graph):
    """The op types of the embedding graph."""
    index = GraphView(graph).index()
    return [index.ops[number].type for number in index.upstream([split_of(graph).enqueue])]


def test_an_error_of_the_main_graph_is_the_one_that_is_shown():
    def broken(step):
        if step == 2:
            raise ValueError("nobody has come so far")
        return batch(step)

    with Steps(read=broken) as steps:
        with pytest.raises(tf.errors.InvalidArgumentError, match="poisoned"):
            with steps.session() as session:
                run(session, steps)
                session.run([steps.loss, steps.train], {steps.poison: np.nan})
    assert threads() == []


def test_an_error_of_the_program_between_two_steps():
    with Steps() as steps:
        with pytest.raises(KeyboardInterrupt):
            with steps.session() as session:
                run(session, steps)
                raise KeyboardInterrupt
    assert threads() == []


def test_a_step_that_fails_loses_its_own_batch_at_most():
    with Steps(8) as steps, steps.session() as session:
        raw = session._tf_sess()
        seen = [run(raw, steps), run(raw, steps)]
        with pytest.raises(tf.errors.InvalidArgumentError, match="poisoned"):
            raw.run([steps.loss, steps.train], {steps.poison: np.nan})
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                seen.append(run(raw, steps))
    assert seen in ([0, 1, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7])


def test_the_interpreter_ends_when_sessions_are_closed(monkeypatch):
    """Later than close() waits for that. A thread that came back from TensorFlow while the interpreter ends would abort the process."""
    monkeypatch.setattr(driver, "_PATIENCE_SECONDS", 0.05)
    closing = worker.in_background(lambda: time.sleep(1.0))
    driver._closing.append(closing)
    driver._finish_ahead()
    assert closing.wait(0.0)


def test_closing_does_not_wait_for_an_input_that_hangs(monkeypatch):
    monkeypatch.setattr(driver, "_PATIENCE_SECONDS", 0.05)
    free = threading.Event()

    def hanging(step):
        if step == 2:
            free.wait(60)
        return batch(step)

    with Steps(3, read=hanging) as steps:
        with steps.session() as session:
            run(session, steps), run(session, steps)
        del session
    gc.collect()  # TensorFlow's part must stay: the run that hangs still uses it.
    free.set()
    for _ in range(200):
        if not threads():
            break
        time.sleep(0.05)
    assert threads() == []


def test_an_input_that_begins_anew_loses_what_was_read_ahead_of_it():
    with Steps(4, make_iterator=v1.data.make_initializable_iterator) as steps:
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, steps.iterator.initializer)
        with steps.session() as session:
            raw = session._tf_sess()
            assert [run(raw, steps) for _ in range(2)] == [0, 1]
            raw.run(steps.iterator.initializer)
            seen = []
            with pytest.raises(tf.errors.OutOfRangeError):
                while True:
                    seen.append(run(raw, steps))
            assert seen == [0, 1, 2, 3]
            raw.run(steps.iterator.initializer)
            assert run(raw, steps) == 0


def test_runs_that_need_no_batch_take_none():
    with Steps(3) as steps, steps.session() as session:
        raw = session._tf_sess()
        counter = v1.train.get_global_step()
        assert [raw.run(counter), run(raw, steps), raw.run(counter), run(raw, steps)] == [0, 0, 1, 1]
        # A run of its own that fetches the input takes a batch, as it does without a pipeline.
        assert raw.run(steps.features["step"]) == 2
        with pytest.raises(tf.errors.OutOfRangeError):
            run(raw, steps)


def test_feeding_the_input():
    """A feed of what the embedding graph does not look at is a part of its step, beside the batch."""
    with Steps(3) as steps, steps.session() as session:
        fed = {steps.features["step"]: 41}
        for step in range(2):
            doubled, numbers, _ = session.run([steps.doubled, steps.features["numbers"], steps.train], fed)
            assert doubled == 82
            np.testing.assert_array_equal(numbers, batch(step)["numbers"])
        assert session.run(steps.doubled, fed) == 82  # Needs no batch, and takes none.
        assert run(session, steps) == 2


def test_make_callable_is_a_run():
    with Steps(3) as steps, steps.session() as session:
        call = session._tf_sess().make_callable([steps.features["step"], steps.train])
        assert [call()[0], call()[0]] == [0, 1]


def test_threads_that_share_a_session_share_the_batches():
    with Steps(40) as steps, steps.session() as session:
        raw, seen = session._tf_sess(), []

        def work():
            try:
                while True:
                    seen.append(int(run(raw, steps)))
            except tf.errors.OutOfRangeError:
                pass

        workers = [threading.Thread(target=work) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert sorted(seen) == list(range(40))


def test_a_session_that_is_made_anew_goes_on():
    """An AbortedError makes MonitoredSession begin a new session on the same graph."""
    with Steps(make_iterator=v1.data.make_initializable_iterator) as steps:
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, steps.iterator.initializer)
        aborted = []

        class Abort(v1.train.SessionRunHook):
            def after_run(self, run_context, run_values):
                if not aborted:
                    aborted.append(True)
                    raise tf.errors.AbortedError(None, None, "once")

        with v1.train.MonitoredSession(hooks=[Abort()]) as session:
            assert [run(session, steps) for _ in range(3)] == [0, 1, 2]
        assert aborted
    assert threads() == []


def test_disabling_while_a_session_is_open():
    with Steps(4) as steps, steps.session() as session:
        assert run(session, steps) == 0
        steps._booster.__exit__(None, None, None)
        assert [run(session, steps) for _ in range(3)] == [1, 2, 3]


def test_sessions_that_begin_after_disabling():
    """A split graph stays so; each session on it takes its batches, whichever way it runs first."""
    with Steps(4, make_iterator=v1.data.make_initializable_iterator) as steps:
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, steps.iterator.initializer)
        with steps.session() as session:
            assert run(session, steps) == 0
        steps._booster.__exit__(None, None, None)
        tables = v1.get_collection(v1.GraphKeys.TABLE_INITIALIZERS)
        begin = [v1.global_variables_initializer(), v1.local_variables_initializer(), *tables]
        with v1.Session() as session:
            session.run(begin)
            assert [run(session, steps) for _ in range(4)] == [0, 1, 2, 3]
            with pytest.raises(tf.errors.OutOfRangeError):
                run(session, steps)
        with v1.Session() as session:
            session.make_callable(begin)()
            call = session.make_callable([steps.features["step"], steps.train])
            assert [call()[0], call()[0]] == [0, 1]
        with steps.session() as session:
            assert [run(session, steps), run(session, steps)] == [0, 1]


def test_what_gives_sessions_their_drivers_goes_with_the_last_split_graph():
    def train():
        with Steps(2) as steps, steps.session() as session:
            run(session, steps)
        return len(attach.split_graphs)

    for _ in range(3):  # Graphs of other tests; some go in a second round only.
        gc.collect()
    before = len(attach.split_graphs)
    assert train() > before
    for _ in range(3):
        gc.collect()
    assert len(attach.split_graphs) <= before


def test_a_session_that_nobody_closes_leaves_no_thread():
    with Steps(4) as steps:
        with steps.session():
            pass  # Rewrites the graph.
        session = v1.Session()
        session.run([v1.global_variables_initializer(), *v1.get_collection(v1.GraphKeys.TABLE_INITIALIZERS)])
        assert [run(session, steps), run(session, steps)] == [0, 1]
        assert threads()
        del session
    for _ in range(200):
        gc.collect()
        if not threads():
            break
        time.sleep(0.05)
    assert threads() == []


def test_running_the_embedding_graph_by_hand_is_refused():
    """A batch that no step takes would fill the queue, until a run waited for room in it for ever."""
    with Steps(8) as steps, steps.session() as session:
        assert run(session, steps) == 0
        with pytest.raises(RuntimeError, match="tf_booster/pipeline/send.*pipeline='off'"):
            session.run(steps.graph.get_operation_by_name("tf_booster/pipeline/send"))
        assert [run(session, steps) for _ in range(3)] == [1, 2, 3]


def exported(folder):
    """The MetaGraph that a training session wrote beside its checkpoint, the names of the input's step and of the train op, and its graph, with which
    the Python function of its Dataset lives."""
    with Steps(4, make_iterator=v1.data.make_initializable_iterator) as steps:
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, steps.iterator.initializer)
        with steps.session(checkpoint_dir=str(folder), save_checkpoint_steps=1) as session:
            run(session, steps)
        names = [steps.features["step"].name, steps.train.name]
        return str(folder / "model.ckpt-0.meta"), names, steps.train.graph


def begun(session):
    session.run([v1.global_variables_initializer(), v1.local_variables_initializer(), v1.tables_initializer()])
    return session


def test_an_imported_graph_is_driven(tmp_path):
    """Its batches come from the Python function of the Dataset, which lives in this process."""
    path, fetches, _living = exported(tmp_path)
    with booster("off"), tf.Graph().as_default():
        v1.train.import_meta_graph(path)
        with begun(v1.Session()) as session:
            assert [session.run(fetches)[0] for _ in range(4)] == [0, 1, 2, 3]
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(fetches)


def test_an_imported_graph_without_tf_booster_raises(tmp_path, monkeypatch):
    path, fetches, _living = exported(tmp_path)
    for (
        name,
        original,
    ) in attach._originals.items():  # Graphs of other tests may live, and sessions be looked at for them.
        monkeypatch.setattr(_compat.base_session_class(), name, original)
    with tf.Graph().as_default():
        v1.train.import_meta_graph(path)
        with begun(v1.Session()) as session:
            with pytest.raises(tf.errors.InvalidArgumentError, match="enable_gpu_booster"):
                session.run(fetches)


def test_a_step_without_a_batch_raises(monkeypatch):
    """Whatever should go wrong with the count of the batches: an error, and no wait for a batch that nobody makes."""

    def pretend(self):
        job = worker.Job(lambda: None)
        job.run()
        return job

    with Steps(8) as steps, steps.session() as session:
        assert run(session, steps) == 0
        monkeypatch.setattr(driver.Driver, "_start", pretend)
        with pytest.raises(tf.errors.InvalidArgumentError, match="found no batch"):
            for _ in range(4):
                run(session, steps)
