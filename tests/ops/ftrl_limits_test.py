"""Hyperparameters that TensorFlow's FTRL on rows refuses: the fused ops refuse them, too, and nothing is applied."""

import numpy as np
import pytest
import tensorflow as tf

import tf_booster
from tf_booster import _native

v1 = tf.compat.v1
GOOD = {"lr": 0.1, "l1": 0.0, "l2": 0.0, "l2_shrinkage": 0.0, "lr_power": -0.5}
CASES = [
    {"lr": 0.0}, {"lr": -0.1}, {"lr": np.nan}, {"l1": -1.0}, {"l2": -1.0}, {"l2_shrinkage": -1.0}, {"lr_power": 0.5},
    {"lr": 0.0, "by_lr": True}, {"lr": -0.1, "by_lr": True}, {"lr_power": 0.0}, {},
]  # fmt: skip


@pytest.mark.parametrize("change", CASES, ids=str)
def test_updates_of_rows_of_variables(change):
    scalars = {**GOOD, **change}
    by_lr = scalars.pop("by_lr", False)
    with tf.Graph().as_default(), v1.Session() as sess:
        arrays = [[v1.Variable(np.full([5, 3], 0.5, np.float32), use_resource=True) for _ in range(3)] for _ in "ab"]
        var, accum, linear = ([v.handle for v in each] for each in zip(*arrays))
        indices, grad = tf.constant([1, 3]), tf.ones([2, 3])
        theirs = tf.raw_ops.ResourceSparseApplyFtrlV2(
            var=var[0],
            accum=accum[0],
            linear=linear[0],
            grad=grad,
            indices=indices,
            multiply_linear_by_lr=by_lr,
            **scalars,
        )
        ours = _native.ops().tf_booster_multi_sparse_apply_ftrl_v2(
            var=var[1:], accum=accum[1:], linear=linear[1:], indices=[indices], grad=[grad], multiply_linear_by_lr=by_lr,
            name="ours", **scalars
        )  # fmt: skip
        sess.run(v1.global_variables_initializer())
        errors = []
        for op in (theirs, ours):
            try:
                sess.run(op)
            except tf.errors.InvalidArgumentError as error:
                errors.append(str(error))
        assert len(errors) in (0, 2)
        if errors:
            name = next(name for name in change if name != "by_lr")
            assert f"TfBoosterMultiSparseApplyFtrlV2 'ours': {name} is " in errors[1]
        first, second = sess.run(arrays)
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("rate", [0.0, -0.1])
def test_updates_of_tables(rate):
    with tf.Graph().as_default():
        table = tf_booster.get_hash_table("T", 4, initializer=v1.ones_initializer())
        found = tf_booster.embedding_lookup(table, tf.constant([1, 2, 3], tf.int64))
        given = v1.placeholder_with_default(rate, [])
        train = v1.train.FtrlOptimizer(given).minimize(tf.reduce_sum(found**2))
        tf_booster.rewrite_graph()
        with v1.Session() as sess:
            sess.run(v1.global_variables_initializer())
            with pytest.raises(tf.errors.InvalidArgumentError, match="'T'.*lr is not above 0"):
                sess.run(train)
            np.testing.assert_array_equal(sess.run(found), np.ones([3, 4]))
            sess.run(train, {given: 0.1})
            assert np.isfinite(sess.run(found)).all() and (sess.run(found) != 1).all()
