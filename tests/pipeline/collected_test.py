"""Sessions that nobody closes: the garbage collector, wherever it comes, does not wait for what closes them, and all is freed."""

import contextlib
import gc
import threading
import time
import weakref

import tensorflow as tf
from pipelined import batch, booster, loss_of, threads, v1

import tf_booster


class SlowToEnd:
    """An input whose iterator takes long to go: it waits in the middle of TensorFlow's freeing of the session."""

    def __init__(self):
        self.free, self.ended = threading.Event(), []

    def batches(self):
        """Without end; each iterator holds what waits when it goes."""
        held = self._Held(self)
        step = 0
        while held:
            yield batch(step)
            step += 1

    class _Held:
        def __init__(self, owner):
            self._owner = owner

        def __del__(self):
            self._owner.ended.append(self._owner.free.wait(10))


def begun(data):
    """A session on a split graph, that has trained for some steps and works on none ahead."""
    one = batch(0)
    signature = {n: tf.TensorSpec([None, *v.shape[1:]] if v.ndim else [], v.dtype) for n, v in one.items()}
    with booster("exact"), tf.Graph().as_default():
        features = v1.data.make_one_shot_iterator(
            tf.data.Dataset.from_generator(data.batches, output_signature=signature)
        ).get_next()
        step = v1.train.AdagradOptimizer(0.1).minimize(loss_of(features), v1.train.get_or_create_global_step())
        tf_booster.rewrite_graph()
        session = v1.Session()
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        for _ in range(3):
            session.run(step)
    for job in list(session._tf_booster_driver._ahead):
        job.wait()
    return session


def until(reached):
    """Whether it comes to that."""
    for _ in range(200):
        if reached():
            return True
        gc.collect()
        time.sleep(0.05)
    return False


@contextlib.contextmanager
def refused_threads(monkeypatch):
    """As if the collector came while its own thread holds the lock of `threading`: to start a thread would wait for ever."""
    refused = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused.append)
        yield refused


def test_a_collected_session_keeps_nobody_waiting(monkeypatch):
    data = SlowToEnd()
    session = begun(data)
    graph = session.graph  # With it the Python code of the input would go, and nothing be slow.
    assert threads() and not data.ended
    known = weakref.ref(session)
    with refused_threads(monkeypatch) as refused:
        del session
        for _ in range(100):  # Its thread may hold the last job for a moment.
            gc.collect()
            if known() is None or known()._closed:
                break
            time.sleep(0.05)
    assert data.ended == [] and refused == []
    data.free.set()
    assert until(lambda: data.ended == [True] and not threads() and known() is None)
    del graph


def test_a_session_that_is_closed_waits_for_its_end_and_is_freed():
    data = SlowToEnd()
    session = begun(data)
    data.free.set()
    session.close()
    assert data.ended == [True] and threads() == []
    known = weakref.ref(session)
    del session
    assert until(lambda: known() is None)
