"""The queue that keeps rows in blocks beside TensorFlow's FIFOQueue and RandomShuffleQueue: the same ops in the same order."""

import re
import resource
import threading

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_booster import _native

v1 = tf.compat.v1
DTYPES = [tf.int64, tf.float32, tf.string, tf.bool]
SHAPES = [[], [3], [], [2, 2]]
KINDS = pytest.mark.parametrize("shuffle", [False, True], ids=["fifo", "shuffle"])


def rows_of(first, count):
    """Component tensors of the rows that have these numbers."""
    n = np.arange(first, first + count)
    return [
        n - 5,
        np.stack([n, n * 0.5, -n], 1).astype(np.float32),
        np.array([b"row %d " % i * (i % 7) for i in n], object),
        np.tile((n % 3 == 0)[:, None, None], [1, 2, 2]),
    ]


class Queue:
    """A queue of `capacity` in a session of its own, TensorFlow's or ours."""

    def __init__(self, ours, shuffle, capacity=10, least=0, seed=3):
        with tf.Graph().as_default():
            shape = dict(component_types=DTYPES, shapes=SHAPES, capacity=capacity, shared_name="q")
            of_shuffle = dict(min_after_dequeue=least, seed=seed, seed2=seed + 1)
            raw = tf.raw_ops
            if ours:
                handle = _native.ops().tf_booster_row_queue(shuffle=shuffle, **shape, **(of_shuffle if shuffle else {}))
            else:
                handle = raw.RandomShuffleQueueV2(**shape, **of_shuffle) if shuffle else raw.FIFOQueueV2(**shape)
            self.one = [v1.placeholder(dtype, shape) for dtype, shape in zip(DTYPES, SHAPES)]
            self.many = [v1.placeholder(dtype, None) for dtype in DTYPES]
            self.count = v1.placeholder(tf.int32, [])
            batch = dict(handle=handle, n=self.count, component_types=DTYPES)
            self.ops = {
                "put one": raw.QueueEnqueueV2(handle=handle, components=self.one),
                "put": raw.QueueEnqueueManyV2(handle=handle, components=self.many),
                "take one": raw.QueueDequeueV2(handle=handle, component_types=DTYPES),
                "take": raw.QueueDequeueManyV2(**batch),
                "take up to": raw.QueueDequeueUpToV2(**batch),
                "size": raw.QueueSizeV2(handle=handle),
                "is closed": raw.QueueIsClosedV2(handle=handle),
                "close": raw.QueueCloseV2(handle=handle),
                "cancel": raw.QueueCloseV2(handle=handle, cancel_pending_enqueues=True),
            }
            self.session = v1.Session()
        self.next = 0

    def run(self, what, count=0, ms=0, rows=None):
        """What the op gives, or its error as text."""
        feed = {}
        if what.startswith("put"):
            rows = rows_of(self.next, count) if rows is None else rows
            self.next += count
            feed = dict(zip(self.one, [row[0] for row in rows]) if what == "put one" else zip(self.many, rows))
        elif what in ("take", "take up to"):
            feed = {self.count: count}
        try:
            return self.session.run(self.ops[what], feed, v1.RunOptions(timeout_in_ms=ms) if ms else None)
        except tf.errors.OpError as error:
            told = re.search(r"Node: .*\n(.*)", error.message)  # Behind where the op was made, which differs.
            return type(error).__name__, told.group(1) if told else error.message

    def start(self, what, count=0):
        """The same in a thread of its own, which waits: [thread, what it gives]."""
        given = []
        thread = threading.Thread(target=lambda: given.append(self.run(what, count)))
        thread.start()
        thread.join(0.15)
        return thread, given


def check(script, shuffle, **options):
    """`script` does the same with both, and gives what is to be compared."""
    theirs, ours = (script(Queue(is_ours, shuffle, **options)) for is_ours in (False, True))
    assert repr(theirs) == repr(ours)
    return ours


def steps(capacity, least):
    """Ops none of which waits: an op and a number each."""
    return st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "put one",
                    "put",
                    "put",
                    "take one",
                    "take",
                    "take",
                    "take up to",
                    "size",
                    "is closed",
                    "close",
                    "cancel",
                ]
            ),  # fmt: skip
            st.integers(0, capacity),
        ),
        max_size=25,
    )


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_ops(data):
    shuffle = data.draw(st.booleans())
    capacity = data.draw(st.sampled_from([1, 4, 10, 300, 600]))
    least = data.draw(st.integers(0, capacity - 1)) if shuffle else 0
    script = data.draw(steps(capacity, least))

    def run(queue):
        found, closed = [], False
        for what, count in script:
            size = int(queue.run("size"))
            room, there = capacity - size, size - (0 if closed else least)
            count = 1 if what.endswith("one") else count
            if not closed and (what.startswith("put") and count > room or what.startswith("take") and count > there):
                continue
            found.append((what, count, queue.run(what, count)))
            closed = closed or what in ("close", "cancel")
        return found

    check(run, shuffle, capacity=capacity, least=least)


@KINDS
def test_who_waits_is_served_in_turn(shuffle):
    def run(queue):
        more, first = queue.start("put", 7), queue.run("take", 3)
        last, rest = queue.start("put one", 1), queue.run("take", 3)
        for thread, _ in (more, last):
            thread.join()
        return first, rest, queue.run("size"), queue.run("take", 2)

    check(run, shuffle, capacity=4)


@KINDS
def test_a_batch_that_waits_gets_rows_as_they_come(shuffle):
    def run(queue):
        batch, found = queue.start("take", 5), []
        for count in (2, 2, 3):
            queue.run("put", count)
            found.append(queue.run("size"))
        batch[0].join()
        return found, batch[1]

    check(run, shuffle)


@KINDS
@pytest.mark.parametrize("what", ["take", "take up to"])
def test_rows_of_a_batch_that_will_not_be_full_go_back(shuffle, what):
    def run(queue):
        queue.run("put", 4)
        batch = queue.start(what, 7)
        queue.run("close")
        batch[0].join()
        return batch[1], queue.run("size"), [queue.run("take one", 1) for _ in range(5)]

    check(run, shuffle)


@KINDS
def test_closing_waits_for_who_came_before_and_cancelling_does_not(shuffle):
    def run(queue, how):
        puts = [queue.start("put", 6), queue.start("put", 3)]
        close = queue.start(how)
        found = [queue.run("take up to", 3) for _ in range(4)]
        for thread, _ in (*puts, close):
            thread.join()
        return puts[0][1], puts[1][1], close[1], found, queue.run("put", 1), queue.run(how), queue.run("take up to", 3)

    for how in ("close", "cancel"):
        check(lambda queue, how=how: run(queue, how), shuffle, capacity=4)


@KINDS
@pytest.mark.parametrize("what", ["take", "put"])
def test_who_is_cancelled_while_he_waits(shuffle, what):
    """What a batch has taken is lost then, and what of a put has found room stays, as in TensorFlow."""

    def run(queue):
        queue.run("put", 2)
        given = queue.run(what, 5, ms=200)
        size = queue.run("size")
        left = queue.run("take", size)
        return given, size, left, queue.run("put", 1), queue.run("take", 1)

    check(run, shuffle, capacity=5)


@KINDS
def test_rows_of_another_shape(shuffle):
    def run(queue):
        good = rows_of(0, 2)
        wrong = [
            [*good[:1], good[1][:1], *good[2:]],
            [*good[:3], np.zeros([2, 2, 3], bool)],
            [good[0][:1], *good[1:]],
        ]
        return [queue.run("put", 2, rows=rows) for rows in wrong], queue.run("take", 0), queue.run("size")

    check(run, shuffle)


def test_a_scalar_in_place_of_rows_is_an_error():
    """TensorFlow's queue ends the process."""
    queue = Queue(True, False)
    kind, message = queue.run("put", 1, rows=[row[0] for row in rows_of(0, 1)])
    assert kind == "InvalidArgumentError" and "Expected [1], got []" in message


def test_a_shuffle_without_a_seed_is_another_each_time():
    orders = set()
    for _ in range(2):
        with tf.Graph().as_default(), v1.Session() as session:
            handle = _native.ops().tf_booster_row_queue(component_types=[tf.int64], shapes=[[]], shuffle=True)
            put = tf.raw_ops.QueueEnqueueManyV2(handle=handle, components=[tf.range(100, dtype=tf.int64)])
            take = tf.raw_ops.QueueDequeueManyV2(handle=handle, n=100, component_types=[tf.int64])
            session.run(put)
            orders.add(tuple(session.run(take)[0]))
    assert len(orders) == 2 and all(sorted(order) == list(range(100)) for order in orders)


def test_memory_is_of_the_rows_that_are_there():
    """Rows that come and go use the slots of others: a queue that never holds more than ten needs a block."""
    with tf.Graph().as_default(), v1.Session() as session:
        handle = _native.ops().tf_booster_row_queue(component_types=[tf.float32], shapes=[[100000]], capacity=10)
        put = tf.raw_ops.QueueEnqueueManyV2(handle=handle, components=[tf.zeros([5, 100000])])
        take = tf.raw_ops.QueueDequeueManyV2(handle=handle, n=5, component_types=[tf.float32])
        for turn in range(300):
            session.run(put)
            session.run(take)
            if turn == 20:
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KB; all rows would be 600 MB.


@pytest.mark.parametrize(
    "attrs, message",
    [
        (dict(component_types=[tf.int64], shapes=[[], []]), "2 shapes for 1 component_types"),
        (dict(component_types=[tf.variant], shapes=[[]]), "a component is variant; wanted numbers, bool or string"),
    ],
)
def test_what_it_does_not_hold(attrs, message):
    with tf.Graph().as_default(), v1.Session() as session:
        handle = _native.ops().tf_booster_row_queue(**attrs)
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            session.run(tf.raw_ops.QueueSizeV2(handle=handle))
