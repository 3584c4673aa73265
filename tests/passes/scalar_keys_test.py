"""Which tensors count as surely equal, and which do not."""

import tensorflow as tf

from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.scalar_keys import ScalarKeys

v1 = tf.compat.v1


def same(graph, a, b):
    keys = ScalarKeys(GraphView(graph))
    return keys.key(a) == keys.key(b)


def test_constants_and_what_is_computed_of_them():
    with tf.Graph().as_default() as g:
        assert same(g, tf.constant(0.5), tf.constant(0.5))
        assert not same(g, tf.constant(0.5), tf.constant(0.25))
        assert not same(g, tf.constant(0.5), tf.constant(0.5, tf.float64))
        assert not same(g, tf.constant(0.0), tf.constant(-0.0))
        x = v1.placeholder(tf.float32, [])
        assert same(g, tf.sqrt(1.0 - x), tf.sqrt(tf.identity(1.0 - x)))
        assert not same(g, tf.sqrt(1.0 - x), tf.sqrt(2.0 - x))
        assert not same(g, tf.cast(x, tf.float64), tf.cast(x, tf.float16))
        assert not same(g, x, v1.placeholder(tf.float32, []))


def test_random_numbers_are_not_equal():
    with tf.Graph().as_default() as g:
        assert not same(g, tf.random.uniform([]), tf.random.uniform([]))


def test_reads_before_the_same_writes():
    with tf.Graph().as_default() as g:
        power = v1.get_variable("power", [], use_resource=True)
        other = v1.get_variable("other", [], use_resource=True)
        assert same(g, power.read_value(), power.read_value())
        assert not same(g, power.read_value(), other.read_value())


def test_reads_on_two_sides_of_a_write():
    with tf.Graph().as_default() as g:
        power = v1.get_variable("power", [], use_resource=True)
        first, second = power.read_value(), power.read_value()
        with tf.control_dependencies([first]):
            write = power.assign_add(1.0, read_value=False)
        with tf.control_dependencies([write]):
            third = power.read_value()
        # The write waits for the first read, for the second it may come first.
        assert not same(g, first, second)
        assert not same(g, first, third)


def test_what_a_tensor_waits_for_is_part_of_its_key():
    with tf.Graph().as_default() as g:
        x = v1.placeholder(tf.float32, [])
        counter = v1.get_variable("counter", [], use_resource=True)
        with tf.control_dependencies([counter.assign_add(1.0).op]):
            late, later = tf.identity(x), tf.identity(x)
        assert same(g, late, later)
        assert not same(g, x, late)


def test_reads_of_reference_variables():
    with tf.Graph().as_default() as g:
        old = v1.get_variable("old", [], use_resource=False)
        assert same(g, old.value(), old.value())  # One op, made with the Variable.
        assert not same(g, tf.identity(old._ref()), tf.identity(old._ref()))
