"""Lookups, updates, inserts and exports of one table from several threads of one session."""

import threading

import numpy as np
import tensorflow as tf
from table_session import int64

from tf_booster.checkpoint import layout

DIM, IDS, STEPS = 32, 500, 40


def run_beside(*bodies):
    """Runs all bodies at once, until the first of them ends; the others get `done` and stop."""
    errors, done = [], threading.Event()

    def guarded(body):
        try:
            body(done)
        except BaseException as error:  # Raised again below, in the test's own thread.
            errors.append(error)
        finally:
            done.set()

    threads = [threading.Thread(target=guarded, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_readers_see_whole_rows_while_the_table_trains(table):
    """All columns of a row move together, so a reader that sees two values in one row has seen half an update."""
    t = table(dim=DIM, optimizer="sgd")
    ids = np.arange(IDS)
    with t.session.graph.as_default():
        probe = t.ops.tf_booster_table_probe(t.handle, [ids])
        grad = tf.repeat(tf.reshape(tf.range(1.0, IDS + 1), [-1, 1]), DIM, 1)
        step = t.apply_op("gradient_descent")(
            t.handle, [probe.keys], [probe.key_fields], [probe.counts], [probe.handles], probe.codes, [grad], 1.0
        )
        gathered = t.ops.tf_booster_table_gather(
            t.handle, probe.codes, probe.keys, probe.key_fields, probe.handles, dim=DIM
        )[0]
        found = t.ops.tf_booster_table_find(t.handle, ids, dim=DIM).values
        (exported,) = layout.tables_of(t.ops.tf_booster_table_export(t.handle, N=1, S=0, dim=DIM))
        new_ids = tf.random.uniform([64], 10**6, 10**9, tf.int64)
        other = t.ops.tf_booster_table_find_or_insert(t.handle, new_ids, dim=DIM)
    t.session.graph.finalize()
    reads = [0]

    def whole(values):
        np.testing.assert_array_equal(values, np.repeat(values[:, :1], values.shape[1], 1))

    def read(done):
        while not done.is_set():
            for values in t.session.run([gathered, found]):
                whole(values)
            reads[0] += 1

    def grow(done):
        while not done.is_set():
            t.session.run(other)

    def export(done):
        while not done.is_set():
            e = t.session.run(exported)
            whole(e.values)
            # One moment of the table: every trained row has had the same number of updates.
            order = np.argsort(e.keys)
            keys, values = e.keys[order], e.values[order, 0]
            trained = keys < IDS
            updates = (0.5 - values[trained]) / (keys[trained] + 1)
            np.testing.assert_array_equal(updates, np.full(trained.sum(), float(e.step)))

    def train(done):
        for _ in range(STEPS):
            if done.is_set():
                break
            t.session.run(step)

    run_beside(train, read, grow, export)
    assert reads[0] > 0
    np.testing.assert_array_equal(t.session.run(found)[:, 0], 0.5 - STEPS * (ids + 1.0))


def test_two_updates_at_once_lose_nothing(table):
    t = table(dim=DIM, optimizer="sgd")
    with t.session.graph.as_default():
        ids = tf.compat.v1.placeholder(tf.int64, [None])
        p = t.ops.tf_booster_table_probe(t.handle, [ids])
        grad = tf.ones([tf.size(ids), DIM])
        step = t.apply_op("gradient_descent")(
            t.handle, [p.keys], [p.key_fields], [p.counts], [p.handles], p.codes, [grad], 1.0
        )
    a, b = np.arange(0, 300), np.arange(200, 500)

    def train(batch):
        def body(_):
            for _ in range(STEPS):
                t.session.run(step, {ids: batch})

        return body

    run_beside(train(a), train(b))
    contents = t.contents()
    for key in range(500):
        times = STEPS * ((key < 300) + (key >= 200))
        values, _, frequency, _ = contents[key]
        np.testing.assert_array_equal(values, np.full(DIM, 0.5 - times))
        assert frequency == times
    assert t("stats")[3] == 2 * STEPS


def test_erase_beside_gather_gives_old_or_initial_values(table):
    t = table(dim=DIM)
    ids = np.arange(IDS)
    rows = np.repeat(ids[:, None] + 1.0, DIM, 1)
    with t.session.graph.as_default():
        p = t.ops.tf_booster_table_probe(t.handle, [ids])
        values = t.ops.tf_booster_table_gather(t.handle, p.codes, p.keys, p.key_fields, p.handles, dim=DIM)[0]
        erase = t.ops.tf_booster_table_erase(t.handle, int64(ids[::2]))
        assign = t.ops.tf_booster_table_insert_or_assign(t.handle, ids, rows.astype(np.float32))

    def change(done):
        for _ in range(STEPS):
            t.session.run(assign)
            t.session.run(erase)

    def read(done):
        while not done.is_set():
            got = t.session.run(values)
            assert (np.all(got == rows, 1) | np.all(got == 0.5, 1)).all()

    run_beside(change, read)
