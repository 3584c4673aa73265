"""Products in pairs after the pass: one op and one for the gradient, the same numbers but for the order of sums, and what is left."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from tf_booster import _native
from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.pair_dots import PairDots

v1 = tf.compat.v1
FIELDS, DIM, ROWS = 5, 6, 9
BELOW = [i * FIELDS + j for i in range(FIELDS) for j in range(i)]
ABOVE = [i * FIELDS + j for i in range(FIELDS) for j in range(i + 1, FIELDS)]


def vectors(batch, dtype=tf.float32):
    """A vector for each field, trained."""
    given = np.random.RandomState(3).standard_normal((ROWS, DIM)).astype(dtype.as_numpy_dtype)
    x = v1.placeholder_with_default(given, [batch, DIM])
    weights = v1.get_variable("w", [FIELDS, DIM, DIM], dtype, v1.random_normal_initializer(seed=1), use_resource=True)
    return [tf.tanh(tf.matmul(x, weights[i])) for i in range(FIELDS)]


def interaction(x, pairs=BELOW, axis=1):
    dots = tf.matmul(x, x, transpose_b=True)
    return tf.gather(tf.reshape(dots, [-1, x.shape[1] ** 2]), pairs, axis=axis)


def build(batch=ROWS, pairs=BELOW, beside=False, stack=True, axis=1, dtype=tf.float32, times=1):
    """Returns the loss, the pairs and the train op. beside: the vectors are read otherwise, too."""
    parts = vectors(batch, dtype)
    x = tf.stack(parts, 1) if stack else tf.reshape(tf.concat(parts, 1), [-1, FIELDS, DIM])
    picked = interaction(x, pairs, axis)
    loss = tf.reduce_sum(tf.sin(picked) * tf.cumsum(tf.ones_like(picked), 1))
    for _ in range(times - 1):
        loss += tf.reduce_sum(tf.cos(interaction(tf.stack(parts, 1), pairs)))
    if beside:
        loss += tf.reduce_sum(tf.square(x) * x)
    return [loss, tf.identity(picked), v1.train.GradientDescentOptimizer(0.001).minimize(loss)]


def train(program, boosted, steps=10):
    with tf.Graph().as_default() as graph:
        fetches = program()
        result = pipelines.rewrite(graph, Options(), only=[PairDots()]).passes[0] if boosted else None
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            outcomes = [session.run(fetches)[:2] for _ in range(steps)]
            return outcomes, session.run(v1.trainable_variables()), running(graph, fetches), result


def running(graph, fetches):
    seen, work = set(), [getattr(f, "op", f) for f in fetches]
    while work:
        op = work.pop()
        if op not in seen:
            seen.add(op)
            work += [t.op for t in op.inputs] + list(op.control_inputs)
    assert all(op.graph is graph for op in seen)
    return collections.Counter(op.type for op in seen)


def check(program):
    """Trains plain and boosted; returns what runs, and the pass's result."""
    plain, variables, _, _ = train(program, False)
    mine, my_variables, counts, result = train(program, True)
    for (my_loss, my_pairs), (loss, pairs) in zip(mine, plain):
        np.testing.assert_allclose(my_loss, loss, rtol=1e-5)
        np.testing.assert_allclose(my_pairs, pairs, rtol=1e-4, atol=1e-5)
    for my_variable, variable in zip(my_variables, variables):
        assert np.linalg.norm(my_variable - variable) <= 1e-5 * np.linalg.norm(variable)
    return counts, result


BAND = tf.linalg.band_part
# As DeepRec, HybridBackend and TensorFlow Recommenders have them, and others: each a mask of a product's ones, and its pairs.
MASKS = {
    "below": (lambda ones: tf.cast(ones - BAND(ones, 0, -1), tf.bool), BELOW),
    "floats": (lambda ones: ones - BAND(ones, 0, -1), BELOW),
    "with the diagonal": (lambda ones: BAND(ones, -1, 0), sorted([*BELOW, *range(0, FIELDS**2, FIELDS + 1)])),
    "above": (lambda ones: tf.logical_not(tf.cast(BAND(ones, -1, 0), tf.bool)), ABOVE),
    "neighbours": (lambda ones: tf.not_equal(BAND(ones, 1, 1) * 2.0, 0.0), [i * FIELDS + j for i in range(FIELDS) for j in range(FIELDS) if abs(i - j) < 2]),
}  # fmt: skip


def masked(x, mask, pairs):
    dots = tf.matmul(x, x, transpose_b=True)
    picked = tf.boolean_mask(dots, mask(tf.ones_like(dots)))
    return tf.reshape(picked, (tf.shape(x)[0], pairs))


def build_masked(mask, batch, pairs):
    picked = masked(tf.stack(vectors(batch), 1), mask, pairs)
    loss = tf.reduce_sum(tf.sin(picked) * tf.cumsum(tf.ones_like(picked), 1))
    return [loss, tf.identity(picked), v1.train.GradientDescentOptimizer(0.001).minimize(loss)]


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("batch", [ROWS, None])
def test_pairs_by_a_mask(batch, kind):
    mask, pairs = MASKS[kind]
    counts, result = check(lambda: build_masked(mask, batch, len(pairs)))
    assert counts["TfBoosterPairDots"] == counts["TfBoosterPairDotsGrad"] == 1
    assert not [kind for kind in ("Pack", "BatchMatMulV2", "GatherV2", "Where", "UnsortedSegmentSum") if counts[kind]]
    assert result.changes == [f"'Reshape': {len(pairs)} pairs of 5 vectors by one op, their gradient by one"]


OTHER_MASKS = {
    "of the values": lambda ones, dots: dots > 0.0,
    "of another shape's ones": lambda ones, dots: BAND(tf.ones([ROWS, FIELDS, FIELDS]) * dots[:1, :1, :1], 0, -1) > 0.5,
}


@pytest.mark.parametrize("kind", OTHER_MASKS)
def test_other_masks_stay(kind):
    def program():
        x = tf.stack(vectors(ROWS), 1)
        dots = tf.matmul(x, x, transpose_b=True)
        picked = tf.reshape(tf.boolean_mask(dots, OTHER_MASKS[kind](tf.ones_like(dots), dots)), [1, -1])
        loss = tf.reduce_sum(tf.sin(picked))
        return [loss, tf.identity(picked), v1.train.GradientDescentOptimizer(0.001).minimize(loss)]

    with tf.Graph().as_default() as graph:
        program()
        result = PairDots().run(GraphView(graph))
    assert not result.modified


@pytest.mark.parametrize("pairs", [BELOW, ABOVE, [24, 3, 7, 0, 15, 8]], ids=["below", "above", "some"])
@pytest.mark.parametrize("batch", [ROWS, None])
def test_pairs_and_their_gradient(batch, pairs):
    counts, result = check(lambda: build(batch, pairs))
    assert counts["TfBoosterPairDots"] == counts["TfBoosterPairDotsGrad"] == 1
    gone = ("Pack", "Unpack", "BatchMatMulV2", "GatherV2", "UnsortedSegmentSum")
    assert not [kind for kind in gone if counts[kind]]
    assert result.changes == [f"'GatherV2': {len(pairs)} pairs of 5 vectors by one op, their gradient by one"]
    assert result.other_bits


@pytest.mark.parametrize("stack", [True, False])
@pytest.mark.parametrize("batch", [ROWS, None])
def test_vectors_that_are_read_otherwise(batch, stack):
    counts, _ = check(lambda: build(batch, beside=True, stack=stack))
    assert counts["TfBoosterPairDots"] == counts["TfBoosterPairDotsGrad"] == 1 and counts["BatchMatMulV2"] == 0


def test_without_a_stack_and_with_a_negative_axis():
    counts, _ = check(lambda: build(stack=False, axis=-1))
    assert counts["TfBoosterPairDots"] == counts["TfBoosterPairDotsGrad"] == 1 and counts["BatchMatMulV2"] == 0


def test_two_interactions():
    counts, result = check(lambda: build(None, times=2))
    assert counts["TfBoosterPairDots"] == counts["TfBoosterPairDotsGrad"] == len(result.changes) == 2
    assert counts["BatchMatMulV2"] == 0


def test_products_that_are_read_otherwise_stay():
    def program():
        x = tf.stack(vectors(None), 1)
        dots = tf.matmul(x, x, transpose_b=True)
        picked = tf.gather(tf.reshape(dots, [-1, FIELDS**2]), BELOW, axis=1)
        loss = tf.reduce_sum(tf.square(picked)) + tf.reduce_sum(tf.sin(dots))
        return [loss, dots, v1.train.GradientDescentOptimizer(0.001).minimize(loss)]

    counts, _ = check(program)
    assert counts["BatchMatMulV2"] == 3  # Its gradient is that of two readers, added up.


def test_without_a_gradient():
    with tf.Graph().as_default() as graph:
        read = tf.identity(interaction(tf.stack(vectors(ROWS), 1)))
        report = pipelines.rewrite(graph, Options(), only=[PairDots()])
        assert report.passes[0].changes == ["'GatherV2': 10 pairs of 5 vectors by one op"]
        counts = running(graph, [read])
        assert counts["TfBoosterPairDots"] == 1 and counts["GatherV2"] == counts["Pack"] == 0


@pytest.mark.parametrize(
    "program",
    [
        lambda: build(dtype=tf.float64),
        lambda: build(pairs=[1, 2, 1]),
        lambda: build(pairs=v1.placeholder_with_default(BELOW, [len(BELOW)])),
        lambda: build_other(),
        lambda: build_turned(),
    ],
    ids=["float64", "a pair twice", "pairs that are fed", "two matrices", "columns"],
)
def test_what_is_left(program):
    with tf.Graph().as_default() as graph:
        program()
        before = graph.as_graph_def()
        report = pipelines.rewrite(graph, Options(), only=[PairDots()])
        assert not report.passes[0].modified and graph.as_graph_def() == before


def build_other():
    x = tf.stack(vectors(ROWS), 1)
    return tf.square(tf.gather(tf.reshape(tf.matmul(x, 2 * x, transpose_b=True), [-1, FIELDS**2]), BELOW, axis=1))


def build_turned():
    x = tf.stack(vectors(ROWS), 1)
    return tf.square(tf.gather(tf.reshape(tf.matmul(x, x, transpose_a=True), [-1, DIM**2]), BELOW, axis=1))


def test_in_a_v1_cond_it_is_left():
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            x = tf.stack(vectors(ROWS), 1)
            v1.cond(tf.reduce_sum(x) > 0, lambda: interaction(x) * 2, lambda: tf.zeros([ROWS, len(BELOW)]))
            assert not pipelines.rewrite(graph, Options(), only=[PairDots()]).passes[0].modified
    finally:
        v1.enable_control_flow_v2()


def test_what_waits_and_is_waited_for():
    with tf.Graph().as_default() as graph:
        counter = v1.get_variable("counter", [], initializer=v1.zeros_initializer(), use_resource=True)
        x = tf.stack(vectors(ROWS), 1)
        with tf.control_dependencies([counter.assign_add(1.0)]):
            dots = tf.matmul(x, x, transpose_b=True)
        picked = tf.gather(tf.reshape(dots, [-1, FIELDS**2]), BELOW, axis=1)
        with tf.control_dependencies([picked.op]):
            counted = tf.identity(counter.read_value())
        read = tf.identity(picked)
        assert pipelines.rewrite(graph, Options(), only=[PairDots()]).passes[0].modified
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(read)
            assert session.run(counted) == 2.0


def test_a_second_run_changes_nothing():
    with tf.Graph().as_default() as graph:
        build(None)
        assert pipelines.rewrite(graph, Options(), only=[PairDots()]).passes[0].modified
        ops = graph.get_operations()
        assert not PairDots().requires(GraphView(graph)) and not PairDots().run(GraphView(graph)).modified
        assert graph.get_operations() == ops
        made = next(op for op in ops if op.type == "TfBoosterPairDots")
        assert GraphView(graph).originals(made) == [f"MatMul_{FIELDS}", "GatherV2"]


def test_errors_of_the_ops():
    ops = _native.ops()
    parts = [np.ones((2, 4), np.float32), np.ones((2, 2, 4), np.float32)]
    for changed, message in (
        ({"parts": [parts[0], np.ones((3, 4), np.float32)]}, r"parts\[1\] has shape \[3,4\], wanted as many rows"),
        ({"dim": 3}, r"parts\[0\] has shape \[2,4\].*whole vectors of 3"),
        ({"pairs": [9]}, "pairs has 9, wanted different numbers from 0 to below 9"),
        ({"pairs": [1, 1]}, "pairs has 1, wanted different"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            ops.tf_booster_pair_dots(**{"parts": parts, "dim": 4, "pairs": [1, 2], **changed})
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"gradient has shape \[2,3\], wanted \[2,1\]"):
        ops.tf_booster_pair_dots_grad(gradient=np.ones((2, 3), np.float32), parts=parts, dim=4, pairs=[1])
