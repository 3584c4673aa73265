"""TfBoosterMultiSparseApply… against TensorFlow's own sums of duplicates and sparse applies, bit for bit."""

import numpy as np
import pytest
import tensorflow as tf
from optimizer_cases import OPTIMIZERS, SPARSE, cases_of, initializers_of, values_of, variables

from tf_booster import _native

v1 = tf.compat.v1
raw = tf.raw_ops

CASES, IDS = cases_of(SPARSE)
SHAPES = [
    (50,),
    (50, 1),
    (7, 2),
    (40, 3),
    (40, 7),
    (40, 8),
    (40, 9),
    (30, 16),
    (30, 33),
    (9, 2, 5),
    (0, 4),
    (1, 100),
]


def batches(shapes, dtype, seed, per_variable=60, distinct=False):
    """Indices with duplicates (or `distinct`), some Variables with none, and gradients with odd values in between."""
    rng = np.random.RandomState(seed)
    odd = np.array([0.0, -0.0, 1e-40, -1e-40, 1e30, np.inf, np.nan], np.float64)
    indices, grads = [], []
    for place, shape in enumerate(shapes):
        n = per_variable if shape[0] and (place + seed) % 5 else 0
        n = min(n, shape[0]) if distinct else n
        indices.append(rng.permutation(shape[0])[:n] if distinct else rng.randint(0, max(shape[0], 1), n))
        grad = rng.standard_normal((n, *shape[1:]))
        places = rng.rand(*grad.shape) < 0.05
        grad[places] = rng.choice(odd, places.sum())
        grads.append(grad.astype(dtype.as_numpy_dtype))
    return indices, grads


class Twins:
    """The same Variables twice, updated by TensorFlow's ops and by the fused one."""

    def __init__(self, name, flags, shapes, dtype=tf.float32, index=tf.int64, dedup=True, hyper=None, distinct=None):
        slots, defaults, _ = OPTIMIZERS[name]
        scalars = {k: tf.constant(v, dtype) for k, v in {**defaults, **(hyper or {})}.items()}
        rng = np.random.RandomState(1)
        values = [rng.standard_normal(shape) for shape in shapes]
        self.indices = [v1.placeholder(index, [None]) for _ in shapes]
        self.grads = [v1.placeholder(dtype, [None, *shape[1:]]) for shape in shapes]
        self.ours, self.theirs = variables(values, slots, dtype), variables(values, slots, dtype)
        plain = []
        for v, i, g in zip(self.theirs, self.indices, self.grads):
            plain.append(self._plain(name, v, i, g, scalars, flags, dedup))
        self.plain = plain
        arrays = {key: [v[key].handle for v in self.ours] for key in ["var", *slots]}
        op = getattr(_native.ops(), "tf_booster_multi_sparse_apply_" + snake(name))
        self.fused = op(
            **arrays,
            **scalars,
            **flags,
            indices=self.indices,
            grad=self.grads,
            sum_duplicates=dedup and bool(slots),
            distinct=distinct or [],
        )
        self.distinct = distinct is not None
        self.initializers = initializers_of(self.ours + self.theirs)

    @staticmethod
    def _plain(name, v, indices, grad, scalars, flags, dedup):
        if name == "GradientDescent":
            return raw.ResourceScatterAdd(resource=v["var"].handle, indices=indices, updates=-grad * scalars["lr"])
        if dedup:
            unique, places = tf.unique(indices)
            indices, grad = unique, tf.math.unsorted_segment_sum(grad, places, tf.shape(unique)[0])
        op = getattr(raw, "ResourceSparseApply" + name)
        handles = {key: variable.handle for key, variable in v.items()}
        return op(**handles, **scalars, **flags, grad=grad, indices=indices)

    def check_steps(self, shapes, dtype=tf.float32, threads=1, steps=4, per_variable=60):
        config = v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=1)
        with v1.Session(config=config) as sess:
            sess.run(self.initializers)
            for step in range(steps):
                indices, grads = batches(shapes, dtype, step, per_variable, self.distinct)
                feed = dict(zip(self.indices + self.grads, indices + grads))
                sess.run(self.plain, feed)
                sess.run(self.fused, feed)
                check_equal(*sess.run([values_of(self.theirs), values_of(self.ours)]))


def check_equal(theirs, ours):
    for a, b in zip(theirs, ours):
        for key in a:
            view = {4: np.uint32, 8: np.uint64}[a[key].itemsize]
            same = (a[key].view(view) == b[key].view(view)) | (np.isnan(a[key]) & np.isnan(b[key]))
            assert same.all(), (key, a[key].shape, np.argwhere(~same)[:5], a[key][~same][:5], b[key][~same][:5])


def snake(name):
    return {"RMSProp": "rms_prop", "CenteredRMSProp": "centered_rms_prop", "FtrlV2": "ftrl_v2", "AdagradV2": "adagrad_v2",
            "KerasMomentum": "keras_momentum", "GradientDescent": "gradient_descent"}.get(name, name.lower())  # fmt: skip


@pytest.mark.parametrize("name, flags", CASES, ids=IDS)
@pytest.mark.parametrize("index", [tf.int32, tf.int64], ids=lambda t: t.name)
def test_all_shapes_have_the_bits_of_tensorflow(name, flags, index):
    with tf.Graph().as_default():
        Twins(name, flags, SHAPES, index=index).check_steps(SHAPES)


@pytest.mark.parametrize("name, flags", CASES, ids=IDS)
def test_doubles(name, flags):
    with tf.Graph().as_default():
        Twins(name, flags, SHAPES, tf.float64).check_steps(SHAPES, tf.float64)


@pytest.mark.parametrize("name, flags", CASES, ids=IDS)
def test_duplicates_that_nobody_summed_step_one_by_one(name, flags):
    with tf.Graph().as_default():
        Twins(name, flags, SHAPES, dedup=False).check_steps(SHAPES)


@pytest.mark.parametrize("name, flags", CASES, ids=IDS)
def test_large_batches_on_threads(name, flags):
    shapes = [(5000, 16), (100, 5), (30000, 1)]
    with tf.Graph().as_default():
        Twins(name, flags, shapes).check_steps(shapes, threads=2, steps=2, per_variable=20000)


@pytest.mark.parametrize("name, flags", CASES, ids=IDS)
def test_rows_that_are_known_to_be_distinct(name, flags):
    shapes = [(6000, 16), *SHAPES]
    with tf.Graph().as_default():
        twins = Twins(name, flags, shapes, distinct=[place % 3 != 1 for place in range(len(shapes))])
        twins.check_steps(shapes, threads=2, steps=2, per_variable=5000)


def test_distinct_has_an_entry_for_each_variable():
    with tf.Graph().as_default():
        twins = Twins("Adagrad", {}, [(2, 2), (2, 2)], distinct=[True])
        with pytest.raises(tf.errors.InvalidArgumentError, match="distinct has 1 entries, wanted none or 2"):
            twins.check_steps([(2, 2), (2, 2)])


@pytest.mark.parametrize("multiply", [False, True])
@pytest.mark.parametrize("name", ["Ftrl", "FtrlV2"])
def test_ftrl_with_another_power(name, multiply):
    with tf.Graph().as_default():
        Twins(name, {"multiply_linear_by_lr": multiply}, SHAPES, hyper={"lr_power": -0.7}).check_steps(SHAPES)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64], ids=lambda t: t.name)
def test_gradient_descent_adds_in_order(dtype):
    with tf.Graph().as_default():
        Twins("GradientDescent", {}, SHAPES, dtype).check_steps(SHAPES, dtype)


class Small:
    """Two tables of four rows under Adagrad, and what the fused op is fed."""

    def __init__(self, shape=(4, 3), slot_shape=(4, 3)):
        self.tables = [v1.Variable(tf.ones(shape), use_resource=True) for _ in range(2)]
        slots = [v1.Variable(tf.ones(slot_shape), use_resource=True) for _ in range(2)]
        self.indices = [v1.placeholder_with_default(tf.constant([0], tf.int64), None) for _ in range(2)]
        self.grads = [v1.placeholder_with_default(tf.ones([1, 3]), None) for _ in range(2)]
        self.op = _native.ops().tf_booster_multi_sparse_apply_adagrad(
            var=[t.handle for t in self.tables],
            accum=[s.handle for s in slots],
            lr=0.1,
            indices=self.indices,
            grad=self.grads,
        )

    def fails(self, message, feed=None):
        """Checks the error, and that no row of either table has moved."""
        with v1.Session() as sess:
            sess.run(v1.global_variables_initializer())
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                sess.run(self.op, feed)
            for table in sess.run(self.tables):
                np.testing.assert_array_equal(table, np.ones_like(table))


@pytest.mark.parametrize("index", [4, -1, 2**40, -(2**63)])
def test_indices_out_of_range_are_named_and_nothing_is_applied(index):
    with tf.Graph().as_default():
        small = Small()
        feed = {small.indices[1]: [1, index], small.grads[1]: np.ones([2, 3])}
        small.fails(rf"index {index} at offset 1 is out of range; wanted \[0, 4\)", feed)


def test_wrong_shapes_are_named():
    with tf.Graph().as_default():
        small = Small()
        small.fails(r"have shape \[1,1\]; wanted a vector", {small.indices[0]: [[0]]})
        small.fails(r"gradient has shape \[2,3\]; wanted \[1,3\]", {small.grads[0]: np.ones([2, 3])})
        small.fails(r"gradient has shape \[1,4\]; wanted \[1,3\]", {small.grads[1]: np.ones([1, 4])})
    with tf.Graph().as_default():
        Small(slot_shape=(4, 2)).fails(r"shape \[4,3\], but its slot .* has \[4,2\]")
    with tf.Graph().as_default():
        Small(shape=(), slot_shape=()).fails("is a scalar; wanted rows")


def test_one_table_twice_steps_twice():
    with tf.Graph().as_default(), v1.Session() as sess:
        table = v1.Variable(tf.zeros([4, 2]), use_resource=True)
        op = _native.ops().tf_booster_multi_sparse_apply_gradient_descent(
            var=[table.handle] * 2, lr=1.0, indices=[[1], [1]], grad=[tf.ones([1, 2]), 2 * tf.ones([1, 2])]
        )
        sess.run(table.initializer)
        sess.run(op)
        np.testing.assert_array_equal(sess.run(table)[:2], [[0, 0], [-3, -3]])


def test_a_read_from_before_keeps_its_value():
    """From the first sparse step on reads copy; the buffer of one that came before is left alone."""
    with tf.Graph().as_default(), v1.Session() as sess:
        small = Small()
        sess.run(v1.global_variables_initializer())
        before = small.tables[0].read_value()
        with tf.control_dependencies([before]):
            applied = _native.ops().tf_booster_multi_sparse_apply_gradient_descent(
                var=[small.tables[0].handle], lr=1.0, indices=[tf.constant([0])], grad=[tf.ones([1, 3])]
            )
        with tf.control_dependencies([applied]):
            held, after = tf.identity(before), small.tables[0].read_value()
        values = sess.run([held, after])
        assert values[0][0, 0] == 1 and values[1][0, 0] == 0
