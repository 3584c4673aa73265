"""TfBoosterMultiApply… against TensorFlow's ResourceApply…, or the ops of a moving average, bit for bit."""

import numpy as np
import pytest
import tensorflow as tf
from optimizer_cases import AVERAGE, OPTIMIZERS, cases_of, initializers_of, values_of, variables

from tf_booster import _native

v1 = tf.compat.v1

CASES, IDS = cases_of(OPTIMIZERS)
# What is left behind packets of 8, behind 4 packets together, and behind blocks.
SMALL = [*range(0, 18), 31, 32, 33, 39, 40, 63, 64, 65, 1000, 1001, 4095, 4096, 4097, 12345]


def gradients(sizes, dtype, seed=0):
    """Normal ones, with zeros, negative zeros, denormals, huge ones, infinities and NaN in between."""
    rng = np.random.RandomState(seed)
    odd = np.array([0.0, -0.0, 1e-40, -1e-40, 1e-30, 1e30, np.inf, -np.inf, np.nan], np.float64)
    result = []
    for size in sizes:
        grad = rng.standard_normal(size)
        places = rng.rand(size) < 0.1
        grad[places] = rng.choice(odd, places.sum())
        with np.errstate(over="ignore"):
            result.append(grad.astype(dtype.as_numpy_dtype))
    return result


class Twins:
    """The same Variables several times, updated by TensorFlow's ops and by fused ones, for each of `packed` one: whether their gradients are one tensor."""

    def __init__(self, name, flags, sizes, dtype=tf.float32, packed=(False,), hyper=None):
        slots, defaults, _ = OPTIMIZERS[name]
        hyper = {**defaults, **(hyper or {})}
        rng = np.random.RandomState(1)
        values = [rng.standard_normal(size) for size in sizes]
        self.grads = [tf.compat.v1.placeholder(dtype, [size]) for size in sizes]
        self.ours = [variables(values, slots, dtype) for _ in packed]
        self.theirs = variables(values, slots, dtype)
        scalars = {key: tf.constant(value, dtype) for key, value in hyper.items()}
        self.plain = [self._plain(name, v, g, scalars, flags) for v, g in zip(self.theirs, self.grads)]
        op = getattr(_native.ops(), "tf_booster_multi_apply_" + snake(name))
        self.fused = []
        for one, ours in zip(packed, self.ours):
            arrays = {key: [v[key].handle for v in ours] for key in ["var", *slots]}
            grad = [tf.concat(self.grads, 0)] if one else self.grads
            self.fused.append(op(**arrays, **scalars, **flags, grad=grad))
        self.initializers = [initializers_of(entries) for entries in (*self.ours, self.theirs)]

    @staticmethod
    def _plain(name, variables, grad, scalars, flags):
        if name == AVERAGE:
            handle, dtype = variables["var"].handle, grad.dtype
            step = (tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype) - grad) * scalars["rate"]
            return tf.raw_ops.AssignSubVariableOp(resource=handle, value=step)
        names = {"lr": "alpha"} if name in ("GradientDescent", "ProximalGradientDescent") else {}
        grads = {"delta" if names else "grad": grad}
        op = getattr(tf.raw_ops, "ResourceApply" + name)
        handles = {key: v.handle for key, v in variables.items()}
        return op(**handles, **{names.get(k, k): v for k, v in scalars.items()}, **grads, **flags)

    def run(self, sess, grads):
        feed = dict(zip(self.grads, grads))
        sess.run(self.plain, feed)
        sess.run(self.fused, feed)

    def check(self, sess):
        theirs, ours = sess.run([values_of(self.theirs), [values_of(one) for one in self.ours]])
        for a, b in ((a, b) for one in ours for a, b in zip(theirs, one)):
            for key in a:
                same = (bits(a[key]) == bits(b[key])) | (np.isnan(a[key]) & np.isnan(b[key]))
                assert same.all(), (key, a[key].size, np.flatnonzero(~same)[:5], a[key][~same][:5], b[key][~same][:5])


def bits(array):
    return array.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[array.itemsize])


def snake(name):
    return {"Adam": "adam", "AdaMax": "ada_max", "RMSProp": "rms_prop", "CenteredRMSProp": "centered_rms_prop",
            "FtrlV2": "ftrl_v2", "AdagradV2": "adagrad_v2", "KerasMomentum": "keras_momentum",
            "GradientDescent": "gradient_descent", "ProximalGradientDescent": "proximal_gradient_descent",
            AVERAGE: "moving_average", "ProximalAdagrad": "proximal_adagrad", "AdamWithAmsgrad": "adam_with_amsgrad"}.get(name, name.lower())  # fmt: skip


def two_threads():
    # Without a pool of its own a session has that of the first one in the process.
    return v1.ConfigProto(intra_op_parallelism_threads=2, inter_op_parallelism_threads=1, use_per_session_threads=True)


def check_steps(twins, sizes, dtype=tf.float32, config=None, steps=3):
    with v1.Session(config=config) as sess:
        sess.run(twins.initializers)
        for step in range(steps):
            twins.run(sess, gradients(sizes, dtype, step))
            twins.check(sess)


@pytest.mark.parametrize("name, flags", CASES, ids=IDS)
def test_all_sizes_have_the_bits_of_tensorflow(name, flags):
    with tf.Graph().as_default():
        check_steps(Twins(name, flags, SMALL, packed=(False, True)), SMALL)


@pytest.mark.parametrize("name, flags", CASES, ids=IDS)
def test_large_tensors_on_threads(name, flags):
    """Some 0.4 ms of work, which two threads divide; the second step begins with what the first one wrote."""
    sizes = [150_003, 5, 60_000, 20_001]
    with tf.Graph().as_default():
        check_steps(Twins(name, flags, sizes, packed=(True,)), sizes, config=two_threads(), steps=2)


def has_kernel(name, dtype):
    """TensorFlow has these for fewer dtypes than the others."""
    if name.startswith("Proximal"):
        return dtype == tf.float64
    return name != "AdaMax" or dtype != tf.bfloat16


DTYPES = [(n, f, t) for n, f in CASES for t in (tf.float64, tf.half, tf.bfloat16) if has_kernel(n, t)]


@pytest.mark.parametrize("name, flags, dtype", DTYPES, ids=[f"{n}{list(f.values())}-{t.name}" for n, f, t in DTYPES])
def test_other_dtypes(name, flags, dtype):
    sizes = [0, 1, 7, 8, 9, 17, 33, 70, 1001, 5000]
    with tf.Graph().as_default():
        check_steps(Twins(name, flags, sizes, dtype), sizes, dtype)


@pytest.mark.parametrize("name", ["Ftrl", "FtrlV2"])
@pytest.mark.parametrize("multiply", [False, True])
def test_ftrl_with_another_power(name, multiply):
    with tf.Graph().as_default():
        twins = Twins(name, {"multiply_linear_by_lr": multiply}, SMALL, hyper={"lr_power": -0.7})
        check_steps(twins, SMALL)


class Small:
    """Two Variables under Momentum, as the fused op sees them."""

    def __init__(self, grads=None, slot_shapes=((2, 3), (4,)), dtype=tf.float32):
        self.variables = [v1.Variable(tf.ones(shape, dtype), use_resource=True) for shape in ((2, 3), (4,))]
        self.slots = [v1.Variable(tf.zeros(shape), use_resource=True) for shape in slot_shapes]
        grads = [tf.ones([2, 3]), tf.ones([4])] if grads is None else grads
        self.lr = v1.placeholder_with_default(0.5, None)
        self.op = _native.ops().tf_booster_multi_apply_momentum(
            var=[v.handle for v in self.variables],
            accum=[v.handle for v in self.slots],
            lr=self.lr,
            momentum=0.9,
            grad=grads,
            name="fused",
        )

    def run(self, feed=None, initialize=True):
        with v1.Session() as sess:
            if initialize:
                sess.run(v1.global_variables_initializer())
            sess.run(self.op, feed)
            return sess.run(self.variables)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(grads=3), "grad is 3 tensors for 2 variables"),
        (dict(slot_shapes=((2, 3), (5,))), r"but its slot .* has \[5\]"),
        (dict(dtype=tf.float64), "is double, wanted float"),
    ],
)
def test_bad_inputs_are_named(options, message):
    with tf.Graph().as_default():
        if "grads" in options:
            options = dict(grads=[tf.zeros([4])] * options["grads"])
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
            Small(**options).run()


def test_bad_gradients_are_named():
    with tf.Graph().as_default():
        hidden = v1.placeholder_with_default(tf.ones([3]), None)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"has shape \[4\], but its gradient has \[3\]"):
            Small(grads=[tf.ones([2, 3]), hidden]).run()
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"packed gradient has shape \[9\], wanted \[10\]"):
            Small(grads=[tf.ones([9])]).run()
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"packed gradient has shape \[2,5\], wanted \[10\]"):
            Small(grads=[tf.ones([2, 5])]).run()


def test_nothing_is_applied_after_a_bad_input():
    with tf.Graph().as_default():
        hidden = v1.placeholder_with_default(tf.ones([3]), None)
        small = Small(grads=[tf.ones([2, 3]), hidden])
        with v1.Session() as sess:
            sess.run(v1.global_variables_initializer())
            with pytest.raises(tf.errors.InvalidArgumentError):
                sess.run(small.op)
            np.testing.assert_array_equal(sess.run(small.variables[0]), np.ones([2, 3]))


def test_uninitialized_variables_and_vectors_for_scalars():
    with tf.Graph().as_default():
        small = Small()
        with pytest.raises(tf.errors.FailedPreconditionError):
            small.run(initialize=False)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"lr has shape \[2\]; wanted a scalar"):
            small.run({small.lr: [0.1, 0.2]})


def test_a_read_from_before_keeps_its_value():
    """The update copies a buffer that a read still holds."""
    with tf.Graph().as_default():
        small = Small()
        with tf.control_dependencies(None):
            before = small.variables[0].read_value()
        fused = small.op
        with v1.Session() as sess:
            sess.run(v1.global_variables_initializer())
            with tf.control_dependencies([fused]):
                held = tf.identity(before)
            value, _ = sess.run([held, fused])
            assert sess.run(small.variables[0])[0, 0] == 0.5
            assert value[0, 0] in (1.0, 0.5)


def test_one_variable_twice_is_updated_twice():
    with tf.Graph().as_default(), v1.Session() as sess:
        v = v1.Variable(tf.zeros([10000]), use_resource=True)
        op = _native.ops().tf_booster_multi_apply_gradient_descent(
            var=[v.handle, v.handle], lr=1.0, grad=[tf.ones([10000]), 2 * tf.ones([10000])]
        )
        sess.run(v.initializer)
        sess.run(op)
        np.testing.assert_array_equal(sess.run(v), -3 * np.ones([10000]))
