"""Batch normalization after the pass: one op and one for the gradient, numbers within rounding of TensorFlow's, and what is left."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import check_second_run, run, running

from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.batch_normalization import BatchNormalization

v1 = tf.compat.v1
ROWS, UNITS = 50, 6

BEFORE = ("Rsqrt", "RsqrtGrad", "SquaredDifference", "StopGradient", "BroadcastTo")


def numbers(*shape, seed=0):
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def given(columns=8, batch=None, rows=ROWS):
    return v1.placeholder_with_default(numbers(rows, columns), [batch, columns])


def matrix(name, rows, columns=UNITS):
    return v1.get_variable(name, initializer=numbers(rows, columns, seed=rows), use_resource=True)


def vector(name, value=1.0):
    return v1.get_variable(name, initializer=value + 0.1 * numbers(UNITS, seed=len(name)), use_resource=True)


def hidden(batch=None):
    return given(batch=batch) @ matrix("w", 8)


def layer(x, **kwargs):
    kwargs.setdefault("gamma_initializer", v1.random_uniform_initializer(0.5, 2.0, seed=1))
    return v1.layers.batch_normalization(x, training=True, **kwargs)


def keras_layer(x, **kwargs):
    made = tf.keras.layers.BatchNormalization(**kwargs)
    y = made(x, training=True)
    for update in made.updates:
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
    return y


def by_hand(x, keepdims=False, gamma=True, beta=True):
    mean, variance = tf.nn.moments(x, list(range(x.shape.rank - 1)), keepdims=keepdims)
    return tf.nn.batch_normalization(x, mean, variance, vector("beta", 0.0) if beta else None, vector("gamma") if gamma else None, 1e-3)  # fmt: skip


def loss_of(y):
    return tf.reduce_sum(tf.sin(1.3 * y) * tf.cos(0.4 * y)) / ROWS


def trained(loss, *fetches, optimizer=None):
    optimizer = optimizer or v1.train.GradientDescentOptimizer(0.1)
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        train = optimizer.minimize(loss)
    v1.add_to_collection(v1.GraphKeys.TRAIN_OP, train)
    with tf.control_dependencies([train]):
        averages = [v.read_value() for v in v1.global_variables() if "moving" in v.name]
    return [loss, *fetches, *averages, train]


def check(build, layers=1, gradients=None, bound=3e-6, steps=3):
    """Numbers as without the pass, within `bound` of each tensor's largest. Returns how often ops run in a step, and what the pass reports.

    The first is the loss, a sum of terms of both signs, of which each may be as large as 1.
    """
    plain, boosted = run(build, steps=steps), run(build, [BatchNormalization()], steps=steps)
    for i, (a, b) in enumerate(zip(plain.values, boosted.values)):
        assert a.shape == b.shape
        least = 1.0 if i == 0 else 1e-3
        np.testing.assert_allclose(
            b, a, rtol=0, atol=bound * max(np.abs(a).max(initial=0), least), err_msg=f"value {i}"
        )
    counts = boosted.running()
    made = counts["TfBoosterBatchNorm"], counts["TfBoosterBatchNormGrad"]
    assert made == (layers, layers if gradients is None else gradients), boosted.report.passes[0]
    return counts, boosted.report.passes[0]


@pytest.mark.parametrize("batch", [None, ROWS])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("make", [layer, keras_layer])
def test_a_layer_and_its_gradient(make, center, scale, batch):
    counts, result = check(lambda: trained(loss_of(make(hidden(batch), center=center, scale=scale))))
    assert not [kind for kind in BEFORE if counts[kind]]
    (change,) = result.changes
    assert change.endswith("batch normalization of 6 units by one op, its gradient by another")
    assert not result.skipped and result.other_bits


@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize("gamma", [True, False])
@pytest.mark.parametrize("beta", [True, False])
def test_moments_by_hand(keepdims, gamma, beta):
    counts, _ = check(lambda: trained(loss_of(by_hand(hidden(), keepdims, gamma, beta))))
    assert not [kind for kind in BEFORE if counts[kind]]


def test_of_sequences():
    """[batch, length, units], as the attention of a DIN has them."""

    def build():
        x = tf.ensure_shape(v1.placeholder_with_default(numbers(10, 5, 8), [None, None, 8]), [None, None, 8])
        return trained(loss_of(layer(tf.tensordot(x, matrix("w", 8), 1))))

    check(build)


@pytest.mark.parametrize("optimizer", ["Adagrad", "Momentum", "Adam"])
def test_layers_one_behind_another(optimizer):
    """Adam divides gradients by their size, so that what is rounding alone, as those of a bias before the layer, moves Variables: there is none here."""
    make = {
        "Adagrad": lambda: v1.train.AdagradOptimizer(0.1),
        "Momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
        "Adam": lambda: v1.train.AdamOptimizer(0.01),
    }[optimizer]

    def build():
        h = tf.nn.relu(layer(hidden(), name="first"))
        h = layer(layer(h @ matrix("v", UNITS), name="second", center=False, scale=False), name="third")
        return trained(loss_of(tf.nn.relu(h @ matrix("u", UNITS))), optimizer=make())

    counts, result = check(build, layers=3, bound=3e-5)
    assert not [kind for kind in BEFORE if counts[kind]] and len(result.changes) == 3


def test_an_input_that_others_read():
    def build():
        x = hidden()
        return trained(loss_of(layer(x)) + tf.reduce_mean(tf.sin(x)) + tf.reduce_mean(tf.cos(0.3 * x)))

    counts, _ = check(build)
    assert counts["AddN"] == 2  # One in loss_of; the other of ours and what else reads x.


def test_two_layers_of_one_input():
    def build():
        x = hidden()
        return trained(loss_of(layer(x, name="a")) + loss_of(2.0 * layer(x, name="b")))

    counts, _ = check(build, layers=2)
    assert counts["AddN"] == 3


def test_two_losses():
    def build():
        y = layer(hidden())
        first = v1.train.GradientDescentOptimizer(0.1).minimize(loss_of(y))
        v1.add_to_collection(v1.GraphKeys.TRAIN_OP, first)
        with tf.control_dependencies([first]):
            return trained(tf.reduce_sum(tf.tanh(y) ** 2) / ROWS)

    check(build, gradients=2, steps=1)


def test_an_input_that_is_not_trained():
    counts, result = check(lambda: trained(loss_of(layer(given()))))
    assert not [kind for kind in ("Rsqrt", "SquaredDifference") if counts[kind]]
    # The gradient of beta is a sum; TensorFlow before 2.15 has it read shapes where the batch has no static one.
    check(lambda: trained(loss_of(layer(given(batch=ROWS), scale=False))), gradients=0)


def test_a_regularizer_of_gamma():
    def build():
        y = layer(hidden(), gamma_regularizer=lambda gamma: 0.01 * tf.nn.l2_loss(gamma))
        return trained(loss_of(y) + v1.losses.get_regularization_loss())

    check(build)


def test_gradients_that_are_clipped_together():
    def build():
        loss = loss_of(layer(hidden()))
        gradients = tf.gradients(loss, v1.trainable_variables())
        clipped, norm = tf.clip_by_global_norm(gradients, 0.5)
        train = v1.train.GradientDescentOptimizer(0.1).apply_gradients(zip(clipped, v1.trainable_variables()))
        v1.add_to_collection(v1.GraphKeys.TRAIN_OP, train)
        return [loss, norm, *gradients, train]

    check(build)


@pytest.mark.parametrize("keepdims", [True, False])
def test_moments_that_others_read(keepdims):
    def build():
        x = hidden()
        moments = tf.nn.moments(x, [0], keepdims=keepdims)
        y = tf.nn.batch_normalization(x, *moments, vector("beta", 0.0), vector("gamma"), 1e-3)
        kept = v1.get_variable("kept", [UNITS], initializer=v1.zeros_initializer(), use_resource=True)
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, kept.assign(tf.squeeze(moments[1])))
        return trained(loss_of(y), moments[0] + 1.0, moments[1] * 2.0)

    counts, _ = check(build)
    assert counts["SquaredDifference"] == 0


def test_a_forward_pass_alone():
    """As a prediction by the batch's moments has it: no gradients, and no op for them."""

    check(lambda: [tf.nn.relu(by_hand(hidden()))], gradients=0)


def test_it_waits_for_what_the_layer_waited_for():
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x, allowed = given(), v1.placeholder_with_default(True, [])
        with tf.control_dependencies([tf.debugging.Assert(allowed, ["not allowed"])]):
            mean, variance = tf.nn.moments(x, [0])
        end = tf.exp(tf.nn.batch_normalization(x, mean, variance, None, None, 1e-3))
        waits = tf.constant(1.0)
        with tf.control_dependencies([variance]):
            waits = waits + 1.0
        pipelines.rewrite(graph, Options(), only=[BatchNormalization()])
        assert running(graph, end)["TfBoosterBatchNorm"] == 1 and not running(graph, end)["Rsqrt"]
        for fetched in (end, waits):
            with pytest.raises(tf.errors.InvalidArgumentError, match="not allowed"):
                session.run(fetched, {allowed: False})
        assert running(graph, waits)["TfBoosterBatchNorm"] == 1


def test_moving_averages_are_written_before_variables_are():
    """minimize in tf.control_dependencies(UPDATE_OPS): the gradient's op waits for them, too."""
    with tf.Graph().as_default() as graph:
        train = trained(loss_of(layer(hidden())))[-1]
        pipelines.rewrite(graph, Options(), only=[BatchNormalization()])
        (gradient,) = [op for op in graph.get_operations() if op.type == "TfBoosterBatchNormGrad"]
        assert {op.type for op in gradient.control_inputs} == {"AssignSubVariableOp"}
        assert running(graph, train)["AssignSubVariableOp"] == 2


def left(build):
    """Nothing changes. Returns the reasons."""
    plain, boosted = run(build), run(build, [BatchNormalization()])
    for a, b in zip(plain.values, boosted.values):
        np.testing.assert_array_equal(a, b)
    assert plain.running() == boosted.running() and not boosted.report.modified
    return [reason for _, reason in boosted.report.passes[0].skipped]


def test_a_loss_of_the_moments_is_left():
    def build():
        x = hidden()
        mean, variance = tf.nn.moments(x, [0])
        y = tf.nn.batch_normalization(x, mean, variance, vector("beta", 0.0), vector("gamma"), 1e-3)
        return trained(loss_of(y) + tf.reduce_mean(tf.sin(variance)))

    (reason,) = left(build)
    assert "a gradient of it that is not the layer's alone" in reason
    (reason,) = left(lambda: trained(*_loss_of_mean()))
    assert "a gradient of it that is not the layer's alone" in reason


def _loss_of_mean():
    x = hidden()
    mean, variance = tf.nn.moments(x, [0])
    return [loss_of(tf.nn.batch_normalization(x, mean, variance, None, vector("gamma"), 1e-3)) + tf.reduce_mean(mean)]


def test_an_inner_tensor_that_somebody_reads_is_left():
    def build():
        y = layer(hidden(), name="bn")
        inverse = tf.identity(v1.get_default_graph().get_tensor_by_name("bn/batchnorm/Rsqrt:0"))
        return trained(loss_of(y) * tf.stop_gradient(tf.reduce_sum(inverse)))

    (reason,) = left(build)
    assert "reads 'bn/batchnorm/Rsqrt'" in reason


def test_other_forms_are_left():
    def chosen():
        return trained(loss_of(v1.layers.batch_normalization(hidden(), training=v1.placeholder_with_default(True, []))))

    (reason,) = left(chosen)
    assert "a tensor says whether it trains" in reason

    def halves():
        x = tf.cast(hidden(), tf.float64)
        return trained(tf.cast(loss_of(tf.nn.batch_normalization(x, *tf.nn.moments(x, [0]), None, None, 1e-3)), tf.float32))  # fmt: skip

    assert left(halves) == ["it is of float64, not of float32"]

    def scaled_otherwise():
        x = hidden()
        mean, variance = tf.nn.moments(x, [0])
        return trained(loss_of((x - mean) * tf.math.rsqrt(variance + 1e-3)))

    assert left(scaled_otherwise) == ["what reads its moments is not what tf.nn.batch_normalization makes"]

    def fed():
        x, gamma = hidden(), v1.placeholder(tf.float32, [UNITS])
        return trained(loss_of(tf.nn.batch_normalization(x, *tf.nn.moments(x, [0]), None, gamma, 1e-3)))

    with tf.Graph().as_default() as graph:
        fed()
        report = pipelines.rewrite(graph, Options(), only=[BatchNormalization()])
        assert [reason for _, reason in report.passes[0].skipped] == ["gamma or beta is not from Variables alone"]


def test_layer_normalization_and_evaluation_are_not_meant():
    def normalized_rows():
        x = hidden()
        return trained(loss_of(tf.nn.batch_normalization(x, *tf.nn.moments(x, [1], keepdims=True), None, None, 1e-3)))

    assert left(normalized_rows) == []
    assert left(lambda: [v1.layers.batch_normalization(hidden(), training=False)]) == []


def test_a_second_run_changes_nothing():
    check_second_run(lambda: trained(loss_of(layer(hidden()))), [], BatchNormalization())


def float64(x, dy, gamma, beta, epsilon=1e-3):
    x, dy, gamma, beta = (np.asarray(t, np.float64) for t in (x, dy, gamma, beta))
    mean, variance = x.mean(0), x.var(0)
    inverse = 1 / np.sqrt(variance + epsilon)
    normal = (x - mean) * inverse
    dgamma, dbeta = (normal * dy).sum(0), dy.sum(0)
    dx = gamma * inverse * (dy - dbeta / len(x) - normal * dgamma / len(x))
    return [normal * gamma + beta, mean, variance, dx, dgamma, dbeta]


@pytest.mark.parametrize("shift, deviation", [(0.0, 1.0), (100.0, 1.0), (3.0, 0.02)])
@pytest.mark.parametrize("rows", [2, 3, 64, 1000])
def test_no_further_from_float64_than_tensorflow(rows, shift, deviation):
    """Whatever the mean: where it is large beside the deviation, TensorFlow's gradient of gamma loses digits that the op keeps."""
    x, dy = shift + deviation * numbers(rows, UNITS, seed=1), numbers(rows, UNITS, seed=2)

    def build():
        given_x, given_dy = (v1.placeholder_with_default(t, [None, UNITS]) for t in (x, dy))
        mean, variance = tf.nn.moments(given_x, [0])
        gamma, beta = vector("gamma"), vector("beta", 0.0)
        y = tf.nn.batch_normalization(given_x, mean, variance, beta, gamma, 1e-3)
        gradients = tf.gradients(y, [given_x, gamma, beta], given_dy)
        fetches = [tf.identity(t) for t in (y, mean, variance, *gradients, gamma, beta)]
        v1.add_to_collection(v1.GraphKeys.TRAIN_OP, tf.group(fetches))
        return fetches

    plain, boosted = run(build, steps=1), run(build, [BatchNormalization()], steps=1)
    assert boosted.running()["TfBoosterBatchNormGrad"] == 1 and not boosted.running()["Rsqrt"]
    exact = float64(x, dy, *plain.values[-2:])
    for name, want, of_tensorflow, got in zip("y mean variance dx dgamma dbeta".split(), exact, plain.values, boosted.values):  # fmt: skip
        few_bits = 1e-6 * np.abs(want).max() + 1e-7
        assert np.abs(got - want).max() <= 1.5 * np.abs(of_tensorflow - want).max() + few_bits, name
