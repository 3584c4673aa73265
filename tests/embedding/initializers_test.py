"""Every supported initializer is read alike from its object and from the graph that it builds."""

import numpy as np
import pytest
import tensorflow as tf

from tf_booster.embedding.initializers import from_initial_value_op, from_initializer
from tf_booster.embedding.table_spec import InitializerSpec

v1 = tf.compat.v1
keras = tf.keras.initializers

# What makes the initializer, what it means, and the seed that the user gave it.
SUPPORTED = {
    "v1 zeros": (v1.zeros_initializer, ("constant", 0, 0), None),
    "v1 ones": (v1.ones_initializer, ("constant", 1, 0), None),
    "v1 constant": (lambda: v1.constant_initializer(3.5), ("constant", 3.5, 0), None),
    "v1 constant of an array": (lambda: v1.constant_initializer(np.array([2.0])), ("constant", 2, 0), None),
    "v1 random_uniform": (lambda: v1.random_uniform_initializer(-0.1, 0.2), ("uniform", -0.1, 0.2), None),
    "v1 random_uniform's defaults": (v1.random_uniform_initializer, ("uniform", 0, 1), None),
    "v1 random_uniform from 0": (lambda: v1.random_uniform_initializer(0, 3), ("uniform", 0, 3), None),
    "v1 random_uniform's seed": (lambda: v1.random_uniform_initializer(0, 1, seed=3), ("uniform", 0, 1), 3),
    "v1 random_normal": (lambda: v1.random_normal_initializer(1, 2, seed=4), ("normal", 1, 2), 4),
    "v1 truncated_normal": (lambda: v1.truncated_normal_initializer(0.5, 0.25), ("truncated_normal", 0.5, 0.25), None),
    "v2 zeros": (tf.zeros_initializer, ("constant", 0, 0), None),
    "v2 ones": (tf.ones_initializer, ("constant", 1, 0), None),
    "v2 constant": (lambda: tf.constant_initializer(2), ("constant", 2, 0), None),
    "v2 random_uniform": (lambda: tf.random_uniform_initializer(-1, 2, seed=7), ("uniform", -1, 2), 7),
    "v2 random_normal": (lambda: tf.random_normal_initializer(1, 0.1), ("normal", 1, 0.1), None),
    "Keras zeros": (keras.Zeros, ("constant", 0, 0), None),
    "Keras ones": (keras.Ones, ("constant", 1, 0), None),
    "Keras constant": (lambda: keras.Constant(0.3), ("constant", 0.3, 0), None),
    "Keras RandomUniform": (keras.RandomUniform, ("uniform", -0.05, 0.05), None),
    "Keras RandomNormal": (lambda: keras.RandomNormal(seed=9), ("normal", 0, 0.05), 9),
    "Keras TruncatedNormal": (lambda: keras.TruncatedNormal(0.1, 0.3), ("truncated_normal", 0.1, 0.3), None),
    "Keras v1 RandomUniform": (v1.keras.initializers.RandomUniform, ("uniform", -0.05, 0.05), None),
    "Keras v1 RandomNormal": (v1.keras.initializers.RandomNormal, ("normal", 0, 0.05), None),
    "Keras v1 TruncatedNormal": (v1.keras.initializers.TruncatedNormal, ("truncated_normal", 0, 0.05), None),
}
supported = pytest.mark.parametrize("name", SUPPORTED)


def same(spec, wanted):
    kind, a, b = wanted
    return (spec.kind, np.float32(spec.a), np.float32(spec.b)) == (kind, np.float32(a), np.float32(b))


@supported
def test_object(name):
    make, wanted, seed = SUPPORTED[name]
    read = from_initializer(make(), "test")
    assert same(read.spec, wanted) and read.seed == seed


@supported
@pytest.mark.parametrize("shape", [[1, 4], [1, 3000]], ids=["small", "larger than a Const of zeros"])
def test_graph(name, shape):
    make, wanted, _ = SUPPORTED[name]
    with tf.Graph().as_default():
        variable = v1.get_variable("v", shape, initializer=make(), use_resource=True)
        read = from_initial_value_op(variable.initial_value.op, "test")
    assert same(read.spec, wanted)


@supported
def test_graph_of_a_partitioned_variable(name):
    make, wanted, _ = SUPPORTED[name]
    with tf.Graph().as_default():
        (variable,) = v1.get_variable(
            "v", [1, 4], initializer=make(), partitioner=v1.fixed_size_partitioner(1), use_resource=True
        )
        read = from_initial_value_op(variable.initial_value.op, "test")
    assert same(read.spec, wanted)


def test_seed_in_a_graph_counts_where_it_must_be_the_users():
    def read(initializer, graph_seed=None):
        with tf.Graph().as_default():
            v1.set_random_seed(graph_seed)
            variable = v1.get_variable("v", [1, 4], initializer=initializer, use_resource=True)
            return from_initial_value_op(variable.initial_value.op, "test").seed

    assert read(v1.truncated_normal_initializer(seed=5)) == 5
    assert read(v1.truncated_normal_initializer()) is None
    assert read(v1.truncated_normal_initializer(), graph_seed=3) is None  # The op's seed is then a count of ops.
    assert read(keras.RandomNormal()) is None  # Keras draws one in each process.


def test_classes_names_and_numbers():
    assert from_initializer(v1.ones_initializer, "test").spec == InitializerSpec("constant", 1.0)
    assert from_initializer("zeros", "test").spec == InitializerSpec("constant", 0.0)
    assert from_initializer(0.25, "test").spec == InitializerSpec("constant", 0.25)
    spec = InitializerSpec("normal", 0.0, 2.0)
    assert from_initializer(spec, "test").spec == spec


class OwnZeros(tf.keras.initializers.Zeros):
    """May do anything in __call__."""


@pytest.mark.parametrize(
    "initializer",
    [
        keras.GlorotUniform(),
        v1.variance_scaling_initializer,
        lambda shape, dtype=None, partition_info=None: tf.zeros(shape),
        OwnZeros(),
        "he_normal",
        True,
    ],
)
def test_others_are_refused_by_name(initializer):
    with pytest.raises(
        ValueError, match="get_hash_table 'user': initializer is .* wanted one of zeros, ones, constant"
    ):
        from_initializer(initializer, "get_hash_table 'user'")


def test_a_constant_must_be_one_number():
    with pytest.raises(ValueError, match=r"^test: initializer .*: value is \[1, 2\], wanted a number that is known"):
        from_initializer(tf.constant_initializer([1, 2]), "test")


@pytest.mark.parametrize(
    "build, op_type",
    [
        (lambda: tf.constant([[1.0, 2.0]]), "Const"),
        (lambda: tf.exp(tf.random.normal([1, 2])), "Exp"),
        (lambda: v1.placeholder(tf.float32, [1, 2]), "Placeholder"),
        (lambda: tf.random.normal([1, 2]) * tf.random.normal([1, 2]), "Mul"),
        (lambda: 1.0 - tf.random.uniform([1, 2]), "Sub"),
    ],
)
def test_graphs_of_others_are_refused_by_name(build, op_type):
    with (
        tf.Graph().as_default(),
        pytest.raises(ValueError, match=f"Table 't': the initial value comes from {op_type} "),
    ):
        from_initial_value_op(build().op, "Table 't'")
