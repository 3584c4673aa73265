"""TfBoosterQuantizedMatMul against float64 within half a step of each factor, and that what it keeps of weights is never old. The integers themselves are tested in cc/core/products."""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_booster import _native

v1 = tf.compat.v1
INVALID = tf.errors.InvalidArgumentError
STEPS = {"int8": (255, 127), "int16": (4095, 2047)}  # Of a row, of half a column.


def quantized(a, b, bias=None, precision="int8", **attrs):
    biases = [] if bias is None else [bias]
    return _native.ops().tf_booster_quantized_mat_mul(a=a, b=b, bias=biases, precision=precision, **attrs)


def bound(a, b, precision):
    """Half a step of either factor, seen through the other, for all terms together."""
    row_steps, column_steps = STEPS[precision]
    width = np.maximum(a.max(1, initial=0), 0) - np.minimum(a.min(1, initial=0), 0)
    row, column = width / row_steps / 2, np.abs(b).max(0, initial=0) / column_steps / 2
    bounds = row[:, None] * np.abs(b).sum(0)[None] + np.abs(a).sum(1)[:, None] * column[None]
    return 1.001 * (bounds + a.shape[1] * row[:, None] * column[None]) + 1e-5


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.tuples(st.integers(0, 60), st.integers(0, 700), st.integers(0, 150)),
    precision=st.sampled_from(["int8", "int16"]),
    transpose=st.booleans(),
    with_bias=st.booleans(),
    relu=st.booleans(),
    positive=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_any_size_is_within_half_a_step_and_goes_by_row(sizes, precision, transpose, with_bias, relu, positive, seed):
    m, k, n = sizes
    random = np.random.RandomState(seed)
    a = random.standard_normal((m, k)).astype(np.float32)
    a = np.maximum(a, 0) if positive else a
    b = random.standard_normal((k, n)).astype(np.float32)
    bias = random.standard_normal(n).astype(np.float32) if with_bias else None
    attrs = {"precision": precision, "transpose_b": transpose, "relu": relu}
    mine = quantized(a, b.T if transpose else b, bias, **attrs).numpy()
    want = a.astype(np.float64) @ b + (bias if with_bias else 0)
    want = np.maximum(want, 0) if relu else want
    assert mine.shape == (m, n)
    assert (np.abs(mine - want) <= bound(a, b, precision)).all()
    some = random.permutation(m)[: m // 2]
    np.testing.assert_array_equal(quantized(a[some], b.T if transpose else b, bias, **attrs), mine[some])


@pytest.mark.parametrize("precision", ["int8", "int16"])
def test_what_is_not_finite_is_as_in_float32(precision):
    random = np.random.RandomState(1)
    a, b = random.standard_normal((9, 64)).astype(np.float32), random.standard_normal((64, 20)).astype(np.float32)
    a[2, 3], a[4, 5], b[7, 11], b[0, 13] = np.nan, np.inf, -np.inf, np.nan
    want = tf.matmul(a, b).numpy()
    mine = quantized(a, b, precision=precision).numpy()
    np.testing.assert_array_equal(np.isnan(mine), np.isnan(want))
    np.testing.assert_array_equal(np.isposinf(mine), np.isposinf(want))
    np.testing.assert_array_equal(np.isneginf(mine), np.isneginf(want))


@pytest.mark.parametrize(
    "a, b, bias, message",
    [
        ([1], [1, 1], None, r"a has shape \[1\], wanted rank 2"),
        ([2, 3], [3], None, r"b has shape \[3\], wanted rank 2"),
        ([2, 3], [4, 5], None, r"b has shape \[4,5\], wanted 3 rows, as a of shape \[2,3\] has columns"),
        ([2, 3], [3, 5], [4], r"bias has shape \[4\], wanted \[5\]"),
        ([2, 3], [3, 5], [1, 5], r"bias\[0\] has shape \[1,5\], wanted rank 1"),
    ],
)
def test_what_does_not_fit_is_named(a, b, bias, message):
    with pytest.raises(INVALID, match=message):
        quantized(np.ones(a, np.float32), np.ones(b, np.float32), None if bias is None else np.ones(bias, np.float32))


def test_shapes_are_known_when_the_graph_is_built():
    with tf.Graph().as_default():
        a, b = v1.placeholder(tf.float32, [None, 3]), v1.placeholder(tf.float32, [5, 3])
        assert quantized(a, b, transpose_b=True).shape.as_list() == [None, 5]
        with pytest.raises(ValueError, match="must be equal"):
            quantized(a, b)


class Kept:
    """A graph with one layer whose weights are kept and one whose are not, on one Variable."""

    def __init__(self):
        self.graph = tf.Graph()
        with self.graph.as_default():
            random = np.random.RandomState(0)
            self.a = tf.constant(random.standard_normal((5, 70)).astype(np.float32))
            self.first = random.standard_normal((70, 33)).astype(np.float32)
            self.weights = v1.get_variable("w", initializer=self.first, use_resource=True)
            self.read = self.weights.read_value()
            self.both = [quantized(self.a, self.read, keep_weights=keep) for keep in (True, False)]
        self.session = v1.Session(graph=self.graph)
        self.session.run(self.weights.initializer)

    def check(self, feed=None):
        """Returns the product, which must not be of old weights."""
        kept, fresh = self.session.run(self.both, feed)
        np.testing.assert_array_equal(kept, fresh)
        return kept


def _momentum(k):
    return v1.train.MomentumOptimizer(0.1, 0.9).apply_gradients([(tf.ones_like(k.read), k.weights)])


def _sparse_momentum(k):
    gradient = tf.IndexedSlices(tf.ones([2, 33]), [1, 5], [70, 33])
    return v1.train.MomentumOptimizer(0.1, 0.9).apply_gradients([(gradient, k.weights)])


WRITES = {
    "assign": lambda k: k.weights.assign(tf.random.normal([70, 33])).op,
    "assign_add": lambda k: k.weights.assign_add(k.first).op,
    "assign_sub": lambda k: k.weights.assign_sub(k.first * 0.5).op,
    "scatter_update": lambda k: k.weights.scatter_update(tf.IndexedSlices(tf.random.normal([1, 33]), [3])).op,
    "scatter_add": lambda k: v1.scatter_add(k.weights, [2, 2], tf.ones([2, 33])).op,
    "strided assign": lambda k: k.weights[4].assign(tf.random.normal([33])).op,
    "momentum": _momentum,
    "sparse momentum": _sparse_momentum,
    "reads by rows, then assign_add": lambda k: k.weights.assign_add(
        tf.reduce_sum(tf.gather(k.weights, [0, 1])) * k.first
    ).op,
}


@pytest.mark.parametrize("write", WRITES)
def test_kept_weights_follow_each_write(write):
    k = Kept()
    with k.graph.as_default():
        op = WRITES[write](k)
        others = [v for v in v1.global_variables() if v is not k.weights]
        k.session.run([v.initializer for v in others])
    for _ in range(3):
        before = k.check()
        k.session.run(op)
        assert not np.array_equal(k.check(), before)
        np.testing.assert_array_equal(k.check(), k.check())


def test_kept_weights_follow_a_restore_and_a_value_from_the_program(tmp_path):
    k = Kept()
    with k.graph.as_default():
        saver = v1.train.Saver([k.weights])
        path = saver.save(k.session, str(tmp_path / "w"))
        first = k.check()
        k.weights.load(k.first * 3, k.session)
        assert not np.array_equal(k.check(), first)
        saver.restore(k.session, path)
        np.testing.assert_array_equal(k.check(), first)


def test_an_array_that_the_program_feeds_and_writes_to_is_not_kept():
    """TensorFlow uses a fed array's own memory where it is aligned, so its address tells nothing."""
    k = Kept()
    memory = np.zeros(70 * 33 + 64, np.float32)
    start = -memory.ctypes.data % 64 // 4
    fed = memory[start : start + 70 * 33].reshape(70, 33)
    fed[:] = k.first
    for _ in range(3):
        before = k.check({k.read: fed})
        fed *= -2
        assert not np.array_equal(k.check({k.read: fed}), before)


def test_what_is_kept_is_not_made_again():
    """Of one row the product is some 30 us; to round the weights is 20 times that."""
    with tf.Graph().as_default():
        weights = v1.get_variable("w", [1024, 1024], use_resource=True)
        products = [quantized(tf.ones([1, 1024]), weights, keep_weights=keep).op for keep in (True, False)]
        with v1.Session() as session:
            session.run(weights.initializer)
            kept, fresh = (session.make_callable(op) for op in products)
            seconds = {kept: [], fresh: []}
            for _ in range(20):
                for call, found in seconds.items():
                    start = time.process_time()
                    call()
                    found.append(time.process_time() - start)
    assert np.median(seconds[kept]) < np.median(seconds[fresh]) / 2


def test_runs_beside_each_other_may_keep_and_write():
    """While another thread writes, each run has one whole value of the weights."""
    k = Kept()
    with k.graph.as_default():
        value = v1.placeholder(tf.float32, [])
        assign = k.weights.assign(tf.fill([70, 33], value)).op
        ones = quantized(tf.ones([4, 70]), k.weights.read_value(), keep_weights=True)

    def write():
        for i in range(200):
            k.session.run(assign, {value: float(1 + i % 7)})

    k.session.run(assign, {value: 1.0})
    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        found = k.session.run(ones)
        assert (found == found[0, 0]).all() and round(found[0, 0] / 70) in range(1, 8)
    writer.join()
