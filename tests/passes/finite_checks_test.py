"""The pass finite_checks: one op asks all gradients of a step whether they are finite."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import check_second_run, check_waits, running

from tf_booster import _native
from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.finite_checks import FiniteChecks

v1 = tf.compat.v1
PASSES = [FiniteChecks()]
MADE = "TfBoosterAllFinite"
OTHERS = [np.inf, -np.inf, np.nan]
DTYPES = [tf.float32, tf.float64, tf.float16, tf.bfloat16]


def asked(given, of=tf.reduce_all):
    return tf.reduce_all([of(tf.math.is_finite(tensor)) for tensor in given])


def answers(build, shapes, dtypes, passes):
    """The answer where all is finite, and with each other number in each tensor; and which ops run."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        given = [v1.placeholder(dtype, [None] * len(shape)) for dtype, shape in zip(dtypes, shapes)]
        end = tf.identity(build(given))
        if passes:
            pipelines.rewrite(graph, Options(), only=passes)
        fine = [np.full(shape, 1.5) for shape in shapes]
        found = [session.run(end, dict(zip(given, fine)))]
        for i, numbers in enumerate(fine):
            for other in OTHERS if numbers.size else []:
                wrong = numbers.copy()
                wrong.reshape(-1)[-1] = other
                found.append(session.run(end, {**dict(zip(given, fine)), given[i]: wrong}))
        return list(map(bool, found)), running(graph, end)


def check(build, shapes, dtypes):
    wanted, _ = answers(build, shapes, dtypes, [])
    found, counts = answers(build, shapes, dtypes, PASSES)
    assert found == wanted
    return counts


SHAPES = [(3, 4), (5,), (), (0, 2), (70, 70)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_op_asks_all(dtype):
    counts = check(asked, SHAPES, [dtype] * len(SHAPES))
    assert counts[MADE] == 1 and not counts["IsFinite"] and not counts["All"]


def test_one_for_each_type():
    counts = check(asked, SHAPES * 2, [tf.float32, tf.float64] * 5)
    assert counts[MADE] == 2 and counts["All"] == 1 and not counts["IsFinite"]


def test_what_else_must_be_true_stays():
    build = lambda given: tf.reduce_all(  # noqa: E731
        [
            tf.reduce_all(tf.math.is_finite(given[0])),
            tf.reduce_all(given[1] < 2.0),
            tf.reduce_all(tf.math.is_finite(given[2])),
        ]
    )
    counts = check(build, SHAPES[:3], [tf.float32] * 3)
    assert counts[MADE] == 1 and counts["Less"] == 1 and not counts["IsFinite"]


LEFT = {
    "any": lambda given: asked(given, tf.reduce_any),
    "along one dimension": lambda given: tf.reduce_all([tf.reduce_all(tf.math.is_finite(x), 0)[0] for x in given]),
    "any of them": lambda given: tf.reduce_any([tf.reduce_all(tf.math.is_finite(x)) for x in given]),
    "one": lambda given: asked(given[:1]),
}


@pytest.mark.parametrize("kind", LEFT)
def test_others_stay(kind):
    assert not check(LEFT[kind], [(3, 4), (2, 2)], [tf.float32] * 2)[MADE]


def test_it_waits_for_what_the_ops_before_waited_for():
    given = lambda: [v1.placeholder_with_default(np.ones(3, np.float32), [None]) for _ in range(2)]  # noqa: E731
    check_waits(given, lambda tensors: [tf.logical_not(asked(tensors))], PASSES, MADE)


def test_a_second_run_changes_nothing():
    check_second_run(lambda: tf.identity(asked([v1.placeholder(tf.float32, [3])] * 2)), [], FiniteChecks())


def test_a_loss_scale():
    with tf.Graph().as_default() as graph:
        weights = [v1.get_variable(f"w{i}", [3, 2], use_resource=True) for i in range(4)]
        scale = v1.mixed_precision.DynamicLossScale(16.0)
        made = v1.mixed_precision.MixedPrecisionLossScaleOptimizer(v1.train.AdagradOptimizer(0.1), scale)
        train = made.minimize(tf.add_n([tf.reduce_sum(w * w) for w in weights]))
        report = pipelines.rewrite(graph, Options(), only=PASSES)
        assert report.passes[0].changes == ["4 tensors are asked for numbers that are not finite by 1 op"]
        assert running(graph, train)[MADE] == 1
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(train)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [0, 1, 4095, 4097, 100_000])
def test_the_op(dtype, size):
    numbers = np.full(size, 1e4)
    assert _native.ops().tf_booster_all_finite(numbers=[tf.cast(numbers, dtype)] * 2)
    for place in {0, size // 2, size - 1} if size else ():
        for other in OTHERS:
            wrong = numbers.copy()
            wrong[place] = other
            assert not _native.ops().tf_booster_all_finite(numbers=[tf.cast(numbers, dtype), tf.cast(wrong, dtype)])
