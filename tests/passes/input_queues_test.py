"""The pass input_queues: queues that hand over rows of several tensors keep them in blocks; same rows, same ends, same errors."""

import numpy as np
import pytest
import tensorflow as tf

from tf_booster.passes import servers
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.input_queues import InputQueues

v1 = tf.compat.v1
inputs = tf.compat.v1.estimator.inputs
N = 23
IDS, NUMBERS, LABELS = np.arange(N) * 7, np.random.RandomState(0).rand(N, 2).astype(np.float32), np.arange(N) % 2
WORDS = np.array([b"word%d" % i for i in range(N)], object)


def run(make, rewrite, times=None, after=None):
    """What make() gives until its end, or `times` times, and what the pass said."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        v1.set_random_seed(4)
        fetched = tf.nest.flatten(make())
        view = GraphView(graph)
        said = None
        if rewrite and InputQueues().requires(view):
            said = InputQueues().run(view)
            InputQueues().ensures(GraphView(graph))
        extra = after() if after else []
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        coordinator, found = tf.train.Coordinator(), []
        threads = v1.train.start_queue_runners(session, coordinator)
        try:
            while len(found) != times:
                found.append(session.run(fetched))
        except tf.errors.OutOfRangeError:
            found.append(["ended"])
        found.append(session.run(extra) if extra else [])
        coordinator.request_stop()
        coordinator.join(threads, ignore_live_threads=True)
        return found, said


def assert_replaced(make, times=None, sort=False):
    """sort: the order is of threads."""
    (theirs, _), (ours, said) = run(make, False, times), run(make, True, times)
    assert said.modified and not said.skipped, said
    if sort:
        theirs, ours = (sorted(np.concatenate([np.ravel(f[0]) for f in found[:-2]])) for found in (theirs, ours))
    np.testing.assert_equal(ours, theirs)
    return said


def refused(make, reason):
    with tf.Graph().as_default() as graph:
        make()
        view = GraphView(graph)
        result = InputQueues().run(view)
        assert not result.modified and [why for _, why in result.skipped if reason in why], result


def features():
    return {"id": IDS, "number": NUMBERS, "word": WORDS}


@pytest.mark.parametrize("epochs, size", [(1, 4), (2, 5), (3, 23)])
def test_numpy_input_fn(epochs, size):
    make = inputs.numpy_input_fn(features(), LABELS, batch_size=size, num_epochs=epochs, shuffle=False)
    said = assert_replaced(make)
    assert said.changes == ["enqueue_input/fifo_queue: rows are kept in blocks (5 tensors a row)"]


def test_numpy_input_fn_that_shuffles_gives_each_row_once_an_epoch():
    """Whom a shuffle may draw depends on how far the thread has come that fills it."""
    make = inputs.numpy_input_fn(features(), LABELS, batch_size=4, num_epochs=2, shuffle=True, queue_capacity=9)
    assert_replaced(make, sort=True)


@pytest.mark.parametrize("enqueue_many", [True, False])
def test_train_batch(enqueue_many):
    def make():
        row = v1.train.slice_input_producer([IDS, NUMBERS, LABELS], num_epochs=2, shuffle=False)
        row = [tf.stack([tensor, tensor]) for tensor in row] if enqueue_many else row
        return v1.train.batch(row, 4, enqueue_many=enqueue_many, allow_smaller_final_batch=True)

    assert_replaced(make)


def test_shuffle_batch():
    def make():
        row = v1.train.slice_input_producer([IDS, NUMBERS, LABELS], num_epochs=2, shuffle=False)
        return v1.train.shuffle_batch(row, 4, 30, 10, allow_smaller_final_batch=True)

    assert_replaced(make, sort=True)


def test_a_full_shuffle_draws_the_same_rows():
    """Of a queue that holds all rows before anybody takes one the order is the seed's."""

    def make():
        queue = tf.queue.RandomShuffleQueue(50, 0, [tf.int64, tf.float32], [[], [2]], seed=3)
        put = queue.enqueue_many([IDS, NUMBERS])
        with tf.control_dependencies([put]):
            close = queue.close()
        with tf.control_dependencies([close]):
            return queue.dequeue_many(N)

    assert_replaced(make, times=1)


def test_ops_that_are_made_later_ask_the_same_queue():
    queues = []

    def make():
        queue = tf.queue.FIFOQueue(50, [tf.int64, tf.float32], [[], [2]])
        queues.append(queue)
        with tf.control_dependencies([queue.enqueue_many([IDS, NUMBERS])]):
            return queue.dequeue_many(3)

    later = lambda: [queues[-1].size(), queues[-1].dequeue_many(2)[0]]  # noqa: E731
    (theirs, _), (ours, said) = run(make, False, 1, later), run(make, True, 1, later)
    assert said.modified
    np.testing.assert_equal(ours, theirs)


def test_a_queue_that_ops_made_later_ask_first():
    """The queue is TensorFlow's then, and who reads by the rewritten ops reads from that."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        queue = tf.queue.FIFOQueue(50, [tf.int64, tf.float32], [[], [2]])
        batch = queue.dequeue_many(3)
        assert InputQueues().run(GraphView(graph)).modified
        session.run(queue.enqueue_many([IDS, NUMBERS]))
        np.testing.assert_equal(session.run(batch), [IDS[:3], NUMBERS[:3]])
        assert session.run(queue.size()) == N - 3


def test_two_sessions_of_a_graph_have_a_queue_each():
    with tf.Graph().as_default() as graph:
        queue = tf.queue.FIFOQueue(50, [tf.int64, tf.float32], [[], [2]])
        put, batch, size = queue.enqueue_many([IDS, NUMBERS]), queue.dequeue_many(3), queue.size()
        assert InputQueues().run(GraphView(graph)).modified
        with v1.Session() as one, v1.Session() as other:
            one.run(put)
            one.run(batch)
            assert (one.run(size), other.run(size)) == (N - 3, 0)
            other.run(queue.close())
            one.run(put)


def queue_of(dtypes=(tf.int64, tf.float32), shapes=((), (2,)), **options):
    queue = tf.queue.FIFOQueue(50, dtypes, shapes, **options)
    if shapes is None:
        return queue
    queue.dequeue_many(3)
    return queue


def test_queues_of_one_tensor_and_those_of_which_no_batches_are_taken_stay():
    with tf.Graph().as_default() as graph:
        queue_of([tf.string], [[]])
        queue = tf.queue.FIFOQueue(50, [tf.int64, tf.float32], [[], [2]])
        queue.dequeue()
        assert not InputQueues().requires(GraphView(graph))


def test_refusals(monkeypatch):
    refused(lambda: queue_of(shared_name="ours"), "may share it by its name")

    def in_a_condition():
        queue = queue_of()
        v1.disable_control_flow_v2()
        tf.cond(v1.placeholder(tf.bool, []), lambda: queue.enqueue([1, [2.0, 3.0]]), tf.no_op)

    before = v1.control_flow_v2_enabled()
    refused(in_a_condition, "Switch (")
    if before:
        v1.enable_control_flow_v2()

    def without_shapes():
        types = [tf.int64, tf.float32]
        tf.raw_ops.QueueDequeueManyV2(handle=tf.raw_ops.FIFOQueueV2(component_types=types), n=2, component_types=types)

    refused(without_shapes, "no batches can be made")

    def of_variants():
        types, shapes = [tf.int64, tf.variant], [[], []]
        handle = tf.raw_ops.FIFOQueueV2(component_types=types, shapes=shapes)
        tf.raw_ops.QueueDequeueManyV2(handle=handle, n=2, component_types=types)

    refused(of_variants, "its rows hold variant")

    def on_a_server():
        with tf.device("/job:ps/task:0"):
            queue_of()

    refused(on_a_server, "in a process of a cluster")
    with servers.session_of(servers.Master("grpc://localhost:1", None)):
        refused(queue_of, "in a process of a cluster")


def test_queues_of_padded_rows_stay():
    with tf.Graph().as_default() as graph:
        queue = tf.queue.PaddingFIFOQueue(50, [tf.int64, tf.float32], [[], [None]])
        queue.dequeue_many(3)
        assert not InputQueues().requires(GraphView(graph))
