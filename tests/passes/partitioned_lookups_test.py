"""Lookups of partitioned Variables after the pass: one gather of whole ids, updates by whole gradients, the same bits and errors."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import (
    as_input,
    check_same,
    check_second_run,
    lookup_passes,
    minimized,
    ragged_ids,
    run,
    running,
    sparse_input,
    v1,
)

from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.order_free_unique import OrderFreeUnique
from tf_booster.passes.partitioned_lookups import PartitionedLookups
from tf_booster.passes.sparse_lookups import SparseLookups
from tf_booster.passes.variable_gathers import VariableGathers
from tf_booster.passes.variable_updates import VariableUpdates

ROWS = 11


def passes():
    return [SparseLookups(), PartitionedLookups(), VariableGathers(), VariableUpdates(), OrderFreeUnique()]


def table(name, rows=ROWS, dim=3, parts=3, dtype=tf.float32):
    """A partitioned Variable; of numbers in place of rows if dim is 0."""
    values = np.random.RandomState(rows + dim).standard_normal((rows, dim)[: 2 if dim else 1])

    def initializer(shape, dtype, partition_info):
        first = partition_info.var_offset[0]
        return tf.constant(values[first : first + shape[0]], dtype)

    return v1.get_variable(
        name,
        values.shape,
        dtype,
        initializer,
        partitioner=v1.fixed_size_partitioner(parts),
        use_resource=True,
    )


def ids(seed, shape, high=ROWS, dtype=np.int64):
    return as_input(np.random.RandomState(seed).randint(0, high, shape).astype(dtype))


def lookup(params, keys, strategy="mod", **kwargs):
    return v1.nn.embedding_lookup(params, keys, partition_strategy=strategy, **kwargs)


def loss_of(outputs):
    """As `minimized` has it, without a train op."""
    return tf.add_n([tf.reduce_sum(tf.sin(x * (1.0 + 0.1 * i)) * tf.cos(0.3 * x)) for i, x in enumerate(outputs)])


def check(program, optimizer="", **kwargs):
    """Bit for bit; by TensorFlow's own Adam, whose ops Grappler rounds otherwise, nearly."""
    if optimizer != "Adam":
        return check_same(program, passes(), **kwargs)
    expected, outcome = run(program, **kwargs), run(program, passes(), **kwargs)
    for a, b in zip(expected.values, outcome.values):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return outcome


def ops_of(outcome, op_type):
    return [op for op in outcome.graph.get_operations() if op.type == op_type]


OPTIMIZERS = {
    "Adagrad": lambda: v1.train.AdagradOptimizer(0.1),
    "Adam": lambda: v1.train.AdamOptimizer(0.1),
    "SGD": lambda: v1.train.GradientDescentOptimizer(0.1),
    "Momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
    "Ftrl": lambda: v1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    "RMSProp": lambda: v1.train.RMSPropOptimizer(0.1),
    "KerasAdam": lambda: tf.keras.optimizers.legacy.Adam(0.1),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_nothing_is_taken_apart(strategy, optimizer):
    def program():
        made = [table(f"v{i}", ROWS + i, 2 + i, 2 + i) for i in range(3)]
        rows = [lookup(params, ids(i, (40,)), strategy) for i, params in enumerate(made)]
        if optimizer != "KerasAdam":
            return minimized(rows, OPTIMIZERS[optimizer]())
        loss = loss_of(rows)
        return [*rows, loss, OPTIMIZERS[optimizer]().get_updates(loss, v1.trainable_variables())]

    outcome = check(program, optimizer)
    (gather,) = ops_of(outcome, "TfBoosterPartitionedGather")
    assert gather.get_attr("parts") == [2, 3, 4] and gather.get_attr("mod") == [strategy == "mod"] * 3
    updates = [op for op in outcome.graph.get_operations() if op.type.startswith("TfBoosterMultiSparseApply")]
    assert updates[0].get_attr("part") == [0, 1, 0, 1, 2, 0, 1, 2, 3]
    counts = running(outcome.graph, gather, *updates)
    assert counts["DynamicPartition"] == counts["ResourceGather"] == counts["ParallelDynamicStitch"] == 0
    assert counts["GatherV2"] == counts["Unique"] == counts["FloorMod"] == 0


@pytest.mark.parametrize("shape", [(5,), (4, 3), (2, 3, 4), (0, 3)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_ids_of_any_rank(shape, dtype):
    def program():
        return minimized([lookup(table(f"v{i}"), ids(i, shape, dtype=dtype), ("mod", "div")[i % 2]) for i in range(4)])

    (gather,) = ops_of(check_same(program, passes()), "TfBoosterPartitionedGather")
    assert gather.get_attr("M") == 4


@pytest.mark.parametrize("static", [(6,), (2, 3)])
def test_ids_of_known_shape(static):
    def program():
        keys = tf.constant(np.random.RandomState(0).randint(0, ROWS, static))
        return minimized([lookup(table("a"), keys, "div"), lookup(table("b"), keys + 0)])

    assert len(ops_of(check_same(program, passes()), "TfBoosterPartitionedGather")) == 1


def test_parts_of_one_row_and_rows_of_one_number():
    def program():
        return minimized([lookup(table("v", 5, 1, 5), ids(0, (9,), 5)), lookup(table("s", 7, 0, 3), ids(1, (9,), 7))])

    assert len(ops_of(check_same(program, passes()), "TfBoosterPartitionedGather")) == 1


@pytest.mark.parametrize("dtype", [tf.float64, tf.float16, tf.bfloat16])
def test_other_dtypes(dtype):
    def program():
        rows = [lookup(table(f"v{i}", dtype=dtype), ids(i, (20,))) for i in range(2)]
        if dtype == tf.float64:
            return minimized([tf.cast(r, tf.float64) for r in rows])
        return [tf.cast(r, tf.float32) for r in rows]

    assert len(ops_of(check_same(program, passes()), "TfBoosterPartitionedGather")) == 1


@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_bags_are_summed_up_by_one_op(strategy):
    def program():
        outputs = []
        for i in range(4):
            bags = sparse_input(ragged_ids(i, 30, ROWS))
            weights = None
            combiner = ("sum", "mean", "sqrtn")[i % 3]
            outputs.append(
                v1.nn.safe_embedding_lookup_sparse(
                    list(table(f"v{i}", ROWS, 4, 2 + i % 2)), bags, weights, combiner, partition_strategy=strategy
                )
            )
        return minimized(outputs)

    outcome = check_same(program, passes())
    (update,) = ops_of(outcome, "TfBoosterMultiSparseApplyAdagrad")
    assert all(update.get_attr("distinct")) and len(ops_of(outcome, "TfBoosterPartitionedGather")) == 1
    counts = running(outcome.graph, update)
    assert counts["TfBoosterPoolLookups"] == counts["TfBoosterPrepareLookups"] == 1
    assert counts["DynamicPartition"] == counts["ResourceGather"] == counts["GatherV2"] == 0


def test_columns_under_a_partitioner():
    def program():
        features = {f"f{i}": ids(i, (20, 1)) for i in range(4)}
        identity = [tf.feature_column.categorical_column_with_identity(key, ROWS) for key in features]
        columns = [
            tf.feature_column.embedding_column(c, 4, max_norm=0.5 if i == 3 else None) for i, c in enumerate(identity)
        ]
        with v1.variable_scope("m", partitioner=v1.fixed_size_partitioner(2), use_resource=True):
            deep = v1.feature_column.input_layer(features, columns)
            wide = v1.feature_column.linear_model(features, identity)
        return minimized([deep, wide])

    outcome = check_same(program, passes())
    assert sum(op.get_attr("M") for op in ops_of(outcome, "TfBoosterPartitionedGather")) == 8


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("optimizer", ["Adagrad", "Adam", "SGD"])
def test_a_table_that_is_looked_up_again(strategy, optimizer):
    def program():
        shared = table("v")
        rows = [lookup(shared, ids(i, (20 + i,)), strategy) for i in range(3)]
        return minimized([*rows, lookup(table("other"), ids(9, (7,)), strategy)], OPTIMIZERS[optimizer]())

    outcome = check(program, optimizer)
    updates = [op for op in outcome.graph.get_operations() if op.type.startswith("TfBoosterMultiSparseApply")]
    assert running(outcome.graph, *updates)["DynamicPartition"] == 0


def test_of_some_parts_the_others_stay():
    def program():
        params = list(table("v", parts=4))
        rows = lookup(params, ids(1, (30,)))
        trained = [params[0], params[2]]
        return [rows, v1.train.AdagradOptimizer(0.1).minimize(loss_of([rows]), var_list=trained)]

    outcome = check_same(program, passes())
    (update,) = ops_of(outcome, "TfBoosterMultiSparseApplyAdagrad")
    assert update.get_attr("part") == [0, 2]


def test_clipped_gradients_stay_apart():
    def program():
        rows = [lookup(table(f"v{i}"), ids(i, (30,))) for i in range(2)]
        optimizer = v1.train.AdagradOptimizer(0.1)
        grads, trained = zip(*optimizer.compute_gradients(loss_of(rows)))
        clipped, _ = tf.clip_by_global_norm(grads, 0.5)
        return [*rows, optimizer.apply_gradients(zip(clipped, trained))]

    outcome = check_same(program, passes())
    (update,) = ops_of(outcome, "TfBoosterMultiSparseApplyAdagrad")
    assert update.get_attr("part") == [] and len(ops_of(outcome, "TfBoosterPartitionedGather")) == 1


def test_two_optimizers_and_a_lookup_that_waits_for_another():
    def program():
        first = lookup(table("a"), ids(1, (8,)))
        second = lookup(table("b"), tf.argmax(first, axis=1))
        loss = loss_of([first, second])
        by_table = [[v for v in v1.trainable_variables() if v.name.startswith(name)] for name in "ab"]
        trains = [v1.train.AdagradOptimizer(0.1 * (i + 1)).minimize(loss, var_list=v) for i, v in enumerate(by_table)]
        return [first, second, tf.group(*trains)]

    assert len(ops_of(check_same(program, passes()), "TfBoosterPartitionedGather")) == 2


def test_what_is_held_is_read_before_the_update():
    """The stitched rows and those of each part, fetched with the train op, are those that the step computed with."""

    def program():
        fetches = minimized([lookup(table("v"), ids(1, (300,)), "div", name="rows")])
        graph = v1.get_default_graph()
        stitched = [op for op in graph.get_operations() if op.type == "ParallelDynamicStitch"]
        assert [op.name for op in stitched] == ["rows"]
        parts = [tensor for tensor in stitched[0].inputs if tensor.dtype == tf.float32]
        return [*fetches, stitched[0].outputs[0], *(tf.identity(part) for part in parts)]

    check_same(program, passes(), steps=10)


def test_where_nothing_trains():
    def program():
        return [lookup(table(f"v{i}"), ids(i, (30, 2)), ("mod", "div")[i % 2]) for i in range(4)]

    assert len(ops_of(check_same(program, passes()), "TfBoosterPartitionedGather")) == 1


@pytest.mark.parametrize("bad", [-1, ROWS, 2**40])
@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_ids_outside_are_errors(bad, strategy):
    def program():
        keys = as_input(np.array([0, bad, 3]))
        return [lookup(table("a"), keys, strategy), lookup(table("b", 2**10), keys * 0, strategy)]

    for chosen in ((), passes()):
        with pytest.raises(tf.errors.InvalidArgumentError):
            run(program, chosen)


def reasons(program):
    with tf.Graph().as_default() as graph:
        program()
        report = pipelines.rewrite(graph, Options(), only=[PartitionedLookups()])
        assert not ops_of(type("Outcome", (), {"graph": graph}), "TfBoosterPartitionedGather")
        return [reason for _, reason in report.passes[0].skipped]


def plain(name, rows, use_resource=True):
    return v1.get_variable(name, [rows, 3], use_resource=use_resource)


def test_what_is_left_and_why():
    keys = lambda: ids(0, (5,), 4)
    (reason,) = reasons(lambda: lookup([plain("a", 2), plain("b", 9)], keys()))
    assert "how its ids are divided" in reason  # No strategy leaves such parts.
    (reason,) = reasons(lambda: lookup([plain("a", 2, False), plain("b", 2, False)], keys()))
    assert "reference Variable" in reason

    def on_devices():
        made = []
        for place in range(2):
            with tf.device(f"/cpu:{place}"):
                made.append(plain(f"v{place}", 2))
        lookup(made, keys())

    assert reasons(on_devices) == ["its parts are on several devices"]

    def in_a_branch():
        params = [plain("a", 2), plain("b", 2)]
        v1.cond(tf.reduce_any(keys() > 0), lambda: lookup(params, keys()), lambda: tf.zeros([5, 3]))

    assert all("tf.cond" in reason for reason in reasons(in_a_branch))

    def other_order():
        flat = keys()
        choice = tf.cast(flat % 2, tf.int32)
        parts = tf.dynamic_partition(flat // 2, choice, 2)
        places = tf.dynamic_partition(4 - tf.range(tf.size(flat)), choice, 2)
        rows = [tf.gather(params, part) for params, part in zip([plain("a", 2), plain("b", 2)], parts)]
        return tf.identity(tf.raw_ops.ParallelDynamicStitch(indices=places, data=rows))

    assert reasons(other_order) == ["its rows are not in the order of the ids"]

    def by_hand(flat, change=tf.identity):
        choice = tf.cast(flat % 2, tf.int32)
        parts = tf.dynamic_partition(flat // 2, choice, 2)
        places = tf.dynamic_partition(tf.reshape(tf.range(tf.size(flat)), tf.shape(flat)), choice, 2)
        first, second = (tf.gather(params, part) for params, part in zip([plain("a", 2), plain("b", 2)], parts))
        tf.identity(tf.raw_ops.ParallelDynamicStitch(indices=places, data=[change(first), second]))

    (reason,) = reasons(lambda: by_hand(tf.reshape(keys(), [5, 1])))
    assert "how its ids are divided" in reason  # They are no vector.
    (reason,) = reasons(lambda: by_hand(keys(), lambda rows: rows * 2.0))
    assert "not rows of Variables alone" in reason


def test_uneven_parts_that_look_like_div():
    """Of [3, 4] rows "div" would want [4, 3]: TensorFlow reads a row that is another one's, and so it stays."""

    def program():
        keys = as_input(np.array([0, 1, 2, 4, 5, 4]))
        return [lookup([plain_rows("a", 3), plain_rows("b", 4)], keys, "div")]

    assert not ops_of(check_same(program, passes()), "TfBoosterPartitionedGather")


def plain_rows(name, rows):
    values = np.random.RandomState(rows).standard_normal((rows, 2))
    return v1.get_variable(name, initializer=tf.constant(values, tf.float32), use_resource=True)


def test_a_second_run_changes_nothing():
    check_second_run(
        lambda: minimized([lookup(table(f"v{i}"), ids(i, (5,))) for i in range(2)]), [], PartitionedLookups()
    )


def test_all_passes_of_lookups_side_by_side():
    def program():
        whole = v1.get_variable("w", initializer=tf.ones([ROWS, 3]), use_resource=True)
        other = v1.get_variable("x", initializer=tf.ones([ROWS, 3]), use_resource=True)
        dense = [tf.nn.embedding_lookup(v, ids(i, (7,))) for i, v in enumerate([whole, other])]
        return minimized([*dense, lookup(table("v"), ids(4, (7,)))])

    outcome = check_same(program, [*lookup_passes()[:1], PartitionedLookups(), VariableGathers(), VariableUpdates()])
    (update, others) = sorted(
        ops_of(outcome, "TfBoosterMultiSparseApplyAdagrad"), key=lambda op: -len(op.get_attr("part"))
    )
    assert update.get_attr("part") == [0, 1, 2] and others.get_attr("N") == 2
