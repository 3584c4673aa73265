"""Read-modify-writes of one Variable: they come one behind the other where a program leaves their order open, and else stay as they are."""

import numpy as np
import pytest
import tensorflow as tf
from update_programs import Program, dense_model, embeddings

from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.read_modify_writes import put_in_order

v1 = tf.compat.v1


def halves(join):
    """A dense part and tables, trained by two minimize() of one Adam."""

    def build(x, ids):
        optimizer = v1.train.AdamOptimizer(0.01)
        dense = tf.reduce_mean(tf.square(dense_model(x) - 0.5))
        rows = tf.reduce_mean(tf.square(embeddings(ids) - 0.5))
        names = {v.name for v in v1.trainable_variables() if v.name.startswith("table")}
        return dense + rows, join(
            lambda: optimizer.minimize(dense, var_list=[v for v in v1.trainable_variables() if v.name not in names]),
            lambda: optimizer.minimize(rows, var_list=[v for v in v1.trainable_variables() if v.name in names]),
        )

    return build


def together(*trains):
    return tf.group(*(train() for train in trains))


def one_behind_the_other(first, second):
    with tf.control_dependencies([first()]):
        return second()


def in_turns(*trains):
    return [train() for train in trains]


def ordered(program):
    return [change for change in program.result.changes if "one behind the other" in change]


@pytest.mark.parametrize("threads", [1, 2])
def test_two_minimize_of_one_adam_lose_no_product(threads):
    program = Program(halves(together), True)
    assert ordered(program) == [
        f"2 read-modify-writes of Variable '{name}' come one behind the other"
        for name in ("beta1_power", "beta2_power")
    ]
    for _ in range(5):  # Which powers of beta an update reads is left open, in TensorFlow as well.
        _, have = program.train(steps=20, threads=threads)
        np.testing.assert_allclose(have["beta1_power:0"], 0.9**41, rtol=1e-5)


@pytest.mark.parametrize("join", [one_behind_the_other, in_turns])
def test_what_is_in_order_or_runs_alone_stays(join):
    assert not ordered(Program(halves(join), True))


def changed(*functions, waits=True):
    """A graph in which each function of a Variable's value is written back behind an op of its own, and what is fetched."""
    graph = tf.Graph()
    with graph.as_default():
        v1.enable_resource_variables()
        value = v1.get_variable("value", [], initializer=tf.ones_initializer(), use_resource=True)
        assigns = []
        for i, function in enumerate(functions):
            with tf.control_dependencies([tf.no_op(f"work_{i}")] if waits else []):
                assigns.append(value.assign(function(value), read_value=False))
        everything = tf.group(*assigns, name="everything")
    return graph, value, assigns, everything


def run(graph, value, fetch):
    with v1.Session(graph=graph) as session:
        session.run(value.initializer)
        session.run(fetch)
        return session.run(value)


def test_any_number_of_them_is_done_in_the_order_in_which_they_were_made():
    graph, value, _, everything = changed(
        lambda v: v * 2, lambda v: v + 3, lambda v: 5 - v, lambda v: tf.cast(tf.cast(v, tf.float64) * 2, tf.float32)
    )
    assert put_in_order(GraphView(graph)) == ["4 read-modify-writes of Variable 'value' come one behind the other"]
    assert put_in_order(GraphView(graph)) == []
    for _ in range(50):
        assert run(graph, value, everything) == (5 - (1 * 2 + 3)) * 2


def test_reads_that_wait_for_nothing_come_before_all_writes():
    graph, *_ = changed(lambda v: v * 2, lambda v: v * 3, waits=False)
    assert put_in_order(GraphView(graph)) == []


def test_one_that_somebody_else_runs_alone_stays_alone():
    graph, value, assigns, _ = changed(lambda v: v * 2, lambda v: v * 3)
    with graph.as_default(), tf.control_dependencies([assigns[1]]):
        alone = tf.no_op("alone")
    assert put_in_order(GraphView(graph)) == []
    assert run(graph, value, alone) == 3


def test_one_that_another_one_waits_for_is_not_made_to_wait():
    graph = tf.Graph()
    with graph.as_default():
        value = v1.get_variable("value", [], initializer=tf.ones_initializer(), use_resource=True)
        with tf.control_dependencies([tf.no_op("work")]):
            later = value.read_value()
        with tf.control_dependencies([later]):
            first = value.assign(value * 2, read_value=False)
        second = value.assign(later * 3, read_value=False)
        tf.group(first, second, name="everything")
    before = graph.as_graph_def()
    assert put_in_order(GraphView(graph)) == []
    assert graph.as_graph_def() == before


def test_a_value_that_is_read_twice_is_left():
    graph, *_ = changed(lambda v: v * v.read_value(), lambda v: v * 3)
    assert put_in_order(GraphView(graph)) == []


def test_initial_values_and_what_a_saver_restores_are_no_updates():
    graph, value, *_ = changed(lambda v: v * 2)
    with graph.as_default():
        v1.train.Saver()
        with tf.control_dependencies([tf.no_op()]):
            twice = v1.get_variable("twice", initializer=lambda: value.read_value() * 1, use_resource=True)
        tf.group(value.initializer, twice.initializer, twice.assign(twice * 2), name="begin")
    assert put_in_order(GraphView(graph)) == []
