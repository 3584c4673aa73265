"""Where TensorFlow's Unique is replaced, and where somebody would see its order."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import as_input, check_same, minimized, v1, variable

from tf_booster.passes.order_free_unique import OrderFreeUnique

PASS = [OrderFreeUnique()]


def ids(dtype=np.int64, n=200, high=30):
    return as_input(np.random.RandomState(1).randint(-high, high, n).astype(dtype))


def uniques(outcome):
    return len([op for op in outcome.graph.get_operations() if op.type == "TfBoosterUnique"])


def reasons(outcome):
    return [reason for _, reason in outcome.report.passes[0].skipped]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("out_idx", [tf.int32, tf.int64])
def test_gather_by_distinct_values_and_back(dtype, out_idx):
    def program():
        y, idx = tf.unique(ids(dtype), out_idx=out_idx)
        rows = tf.gather(tf.range(100.0), tf.abs(y))
        return [tf.gather(rows * 2.0, idx), tf.size(y) * 1]

    assert uniques(check_same(program, PASS)) == 1


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("out_idx", [tf.int32, tf.int64])
@pytest.mark.parametrize("second", [False, True])
def test_counts_of_distinct_values(dtype, out_idx, second):
    """As a user sums each id up and divides by its number."""

    def program():
        x = ids(dtype)
        unique = (
            (lambda: tf.raw_ops.UniqueWithCountsV2(x=x, axis=tf.zeros([0], tf.int32), out_idx=out_idx))
            if second
            else (lambda: tf.unique_with_counts(x, out_idx))
        )
        y, idx, count = unique()
        rows = tf.gather(tf.range(100.0), tf.abs(y)) / tf.cast(count, tf.float32)
        return [tf.gather(rows, idx)]

    outcome = check_same(program, PASS)
    assert [op.type for op in outcome.graph.get_operations() if op.type.startswith("TfBooster")] == [
        "TfBoosterUniqueWithCounts"
    ]


def test_counts_whose_order_is_seen_stay():
    def program():
        _, idx, count = tf.unique_with_counts(ids())
        return [tf.gather(count, idx), tf.cumsum(count) * 1]

    assert reasons(check_same(program, PASS)) != []


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: v1.train.AdagradOptimizer(0.1),
        lambda: v1.train.MomentumOptimizer(0.1, 0.9),
        lambda: v1.train.AdamOptimizer(0.01),
        lambda: tf.keras.optimizers.legacy.RMSprop(0.01),
    ],
)
def test_sums_of_duplicates_in_front_of_updates(optimizer):
    def program():
        table = variable("v", 31, 3)
        made = optimizer()
        loss = tf.reduce_sum(tf.sin(tf.gather(table, tf.abs(ids()) % 31)))
        if isinstance(made, v1.train.Optimizer):
            return [loss, made.minimize(loss)]
        return [loss, tf.group(*made.get_updates(loss, [table]))]

    outcome = check_same(program, PASS)
    assert uniques(outcome) == 1 and reasons(outcome) == []


def test_updates_of_reference_variables():
    def program():
        table = v1.get_variable("v", [31, 3], initializer=v1.ones_initializer(), use_resource=False)
        loss = tf.reduce_sum(tf.sin(tf.gather(table, tf.abs(ids()) % 31)))
        return [loss, v1.train.AdagradOptimizer(0.1).minimize(loss)]

    outcome = check_same(program, PASS)
    assert uniques(outcome) == 1 and reasons(outcome) == []


@pytest.mark.parametrize(
    "show",
    [
        lambda y, idx: y * 1,
        lambda y, idx: idx * 1,
        lambda y, idx: tf.gather(tf.range(200), idx),
        lambda y, idx: tf.math.cumsum(y),
        lambda y, idx: y[:3] * 1,
        lambda y, idx: tf.concat([y, y], 0) * 1,
        lambda y, idx: tf.reduce_sum(tf.cast(y, tf.float32)),
        lambda y, idx: tf.gather(tf.range(2000), y[0] % 7 + tf.cast(y, tf.int64) * 0),
    ],
)
def test_order_that_can_be_seen_stays(show):
    def program():
        y, idx = tf.unique(tf.abs(ids()))
        return [show(y, idx) * 1]

    outcome = check_same(program, PASS)
    assert uniques(outcome) == 0
    assert all("may see its order" in reason for reason in reasons(outcome))


def test_what_may_be_fetched_goes_on_reading_the_old_op():
    def program():
        y, idx = tf.unique(tf.abs(ids()))
        return [tf.gather(tf.gather(tf.range(100.0), y), idx) * 1.0, tf.multiply(y, 1, name="shown")]

    outcome = check_same(program, PASS)
    assert uniques(outcome) == 1
    assert outcome.graph.get_tensor_by_name("shown:0").op.inputs[0].op.type == "Unique"


def test_rows_that_are_both_put_back_and_shown_stay():
    def program():
        y, idx = tf.unique(tf.abs(ids()))
        rows = tf.gather(tf.range(100.0), y)
        return [tf.gather(rows, idx) * 1.0, rows * 2.0]

    outcome = check_same(program, PASS)
    assert uniques(outcome) == 0 and "may see its order" in reasons(outcome)[0]


def test_floats_axes_and_control_flow_stay_with_a_reason():
    def program():
        y, idx = tf.unique(tf.cast(ids(), tf.float32))
        z, where = tf.raw_ops.UniqueV2(x=tf.reshape(ids(), [20, 10]), axis=[0])
        return [tf.gather(tf.identity(y), idx) * 1.0, tf.gather(z, where) * 1]

    outcome = check_same(program, PASS)
    assert uniques(outcome) == 0
    assert "float32" in reasons(outcome)[0] and "axis" in reasons(outcome)[1]


def test_trained_lookup_keeps_its_bits():
    def program():
        return minimized([tf.gather(variable(f"v{i}", 31, 3), tf.abs(ids()) % 31) for i in range(2)])

    assert uniques(check_same(program, PASS)) == 2
