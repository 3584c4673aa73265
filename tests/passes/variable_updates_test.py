"""The pass variable_updates: which ops become one, the same bits before and after, and what is left with which reason."""

import numpy as np
import pytest
import tensorflow as tf
from update_programs import OPTIMIZERS, Program, check_same, dense_model, embeddings, minimize

from tf_booster.passes.graph_view import GraphView, originals
from tf_booster.passes.variable_updates import VariableUpdates

v1 = tf.compat.v1
KEYS = v1.GraphKeys


def dense(optimizer):
    def build(x, ids):
        loss = tf.reduce_mean(tf.square(dense_model(x) - 0.5))
        return loss, minimize(OPTIMIZERS[optimizer](), loss)

    return build


def both(optimizer):
    def build(x, ids):
        loss = tf.reduce_mean(tf.square(dense_model(tf.concat([x, embeddings(ids)], 1)) - 0.5))
        return loss, minimize(OPTIMIZERS[optimizer](), loss)

    return build


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_dense_updates_become_one_op_with_the_same_bits(optimizer):
    fused = check_same(dense(optimizer))
    assert len(fused.fused()) == 1
    assert not [t for t in fused.executed() if t.startswith("ResourceApply")]
    assert not fused.reasons()
    assert [e["fused_into"] for e in fused.result.variables] == [fused.result.variables[0]["fused_into"]] * 8


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_sparse_updates_become_one_op_with_the_same_bits(optimizer, threads):
    fused = check_same(both(optimizer), threads=threads)
    assert len(fused.fused()) == 2, fused.fused()
    left = [
        t for t in fused.executed() if t.startswith(("ResourceApply", "ResourceSparse", "ResourceScatter", "Unsorted"))
    ]
    assert left == [] and "Unique" not in fused.executed()
    assert not fused.reasons()


@pytest.mark.parametrize("optimizer", ["adam", "keras adam", "keras rmsprop"])
def test_chains_of_rows_are_close_to_what_grappler_makes_of_them(optimizer):
    plain, fused = Program(both(optimizer)), Program(both(optimizer), True)
    (losses, want), (my_losses, have) = plain.train(50, grappler=True), fused.train(50, grappler=True)
    np.testing.assert_allclose(my_losses, losses, rtol=1e-5, atol=1e-6)  # They fall from 0.5 to 0.002.
    for name in want:
        assert np.linalg.norm(have[name] - want[name]) <= 1e-5 * np.linalg.norm(want[name]), name


def test_entries_of_the_report():
    program = Program(both("adam"), True)
    entry = next(e for e in program.result.variables if e["name"] == "dense/kernel_1")
    assert entry == {
        "name": "dense/kernel_1",
        "shape": [13, 7],
        "optimizer": "Adam",
        "fused_into": "tf_booster/Adam/apply_Adam",
        "reason": "",
    }
    assert len(program.result.variables) == 11
    assert program.result.modified and len(program.result.changes) == 2
    assert any(
        change.startswith("8 Adam updates became op 'tf_booster/Adam/apply_Adam'") for change in program.result.changes
    )
    assert any(change.startswith("3 sparse Adam updates became op") for change in program.result.changes)


def test_a_second_run_changes_nothing():
    program = Program(both("adam"), True)
    view = GraphView(program.graph)
    assert not VariableUpdates().requires(view)
    before = len(program.graph.get_operations())
    again = VariableUpdates().run(view)
    assert not again.modified and not again.changes and not again.variables
    assert len(program.graph.get_operations()) == before


def edges_of(op):
    return [t.name for t in op.inputs], sorted(c.name for c in op.control_inputs)


def test_rollback_gives_the_graph_back():
    program = Program(both("adam"))
    before = {op.name: edges_of(op) for op in program.graph.get_operations()}
    view = GraphView(program.graph)
    assert VariableUpdates().run(view).modified
    changed = {name: edges_of(program.graph.get_operation_by_name(name)) for name in before}
    assert changed != before
    view.rollback()
    assert before == {name: edges_of(program.graph.get_operation_by_name(name)) for name in before}
    assert VariableUpdates().requires(GraphView(program.graph))


def test_the_original_update_can_still_be_fetched_by_itself():
    program = Program(dense("sgd"), True)
    original = program.graph.get_operation_by_name("GradientDescent/update_dense/bias_3/ResourceApplyGradientDescent")
    with v1.Session(graph=program.graph) as sess:
        sess.run(program.initializer)
        feed = {program.x: np.ones([3, 4])}
        before = sess.run(program.values("dense/bias_3", "dense/bias_2"))
        sess.run(original, feed)
        after = sess.run(program.values("dense/bias_3", "dense/bias_2"))
    assert (before[0] != after[0]).all()
    np.testing.assert_array_equal(before[1], after[1])


def test_schedules_and_variables_as_hyperparameters():
    def build(x, ids):
        loss = tf.reduce_mean(tf.square(dense_model(tf.concat([x, embeddings(ids)], 1)) - 0.5))
        step = v1.train.get_or_create_global_step()
        rate = v1.train.exponential_decay(0.1, step, 3, 0.5)
        return loss, v1.train.AdagradOptimizer(rate).minimize(loss, step)

    assert check_same(build).fused() == ["ApplyAdagrad", "SparseApplyAdagrad"]


def test_gradients_clipped_by_their_global_norm():
    def build(x, ids):
        loss = tf.reduce_mean(tf.square(dense_model(tf.concat([x, embeddings(ids)], 1)) - 0.5))
        variables = v1.trainable_variables()
        grads, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 0.01)
        return loss, v1.train.AdamOptimizer(0.1).apply_gradients(zip(grads, variables))

    assert check_same(build).fused() == ["ApplyAdam", "SparseApplyAdam"]


def test_two_optimizers_stay_two():
    def build(x, ids):
        a, b = dense_model(x, scope="a"), dense_model(x, scope="b")
        loss = tf.reduce_mean(tf.square(a + b - 0.5))
        first = v1.train.AdamOptimizer(0.1).minimize(loss, var_list=v1.trainable_variables("a"))
        second = v1.train.AdagradOptimizer(0.1).minimize(loss, var_list=v1.trainable_variables("b"))
        third = tf.group(first, second)
        return loss, third

    # Gradients of one optimizer may read what the other has written: TensorFlow leaves their order open.
    assert Program(build, True).fused() == ["ApplyAdagrad", "ApplyAdam"]


def test_updates_that_run_in_turn_are_not_joined():
    def build(x, ids):
        a, b = dense_model(x, scope="a"), dense_model(x, scope="b")
        loss = tf.reduce_mean(tf.square(a * b - 0.5))
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        steps = [optimizer.minimize(loss, var_list=v1.trainable_variables(s)) for s in "ab"]
        return loss, steps

    fused = check_same(build)
    assert fused.fused(0) == fused.fused(1) == ["ApplyGradientDescent"]


def test_hyperparameters_divide():
    def build(x, ids):
        h = dense_model(x)
        loss = tf.reduce_mean(tf.square(h - 0.5))
        variables = v1.trainable_variables()
        grads = tf.gradients(loss, variables)
        train = [
            tf.raw_ops.ResourceApplyGradientDescent(var=v.handle, alpha=0.1 if "kernel" in v.name else 0.2, delta=g)
            for v, g in zip(variables, grads)
        ]
        return loss, tf.group(*train)

    assert check_same(build).fused() == ["ApplyGradientDescent"] * 2


def test_constraints_stay_apart():
    def build(x, ids):
        kernel = v1.get_variable("free", [4, 3], use_resource=True)
        other = v1.get_variable("other", [3, 3], use_resource=True)
        bound = v1.get_variable("bound", [3, 1], use_resource=True, constraint=lambda v: tf.clip_by_value(v, -0.1, 0.1))
        loss = tf.reduce_mean(tf.square(x @ kernel @ other @ bound - 0.5))
        return loss, minimize(OPTIMIZERS["sgd"](), loss)

    fused = check_same(build)
    assert fused.fused() == ["ApplyGradientDescent"]
    assert list(fused.reasons()) == ["bound"] and "constraint" in fused.reasons()["bound"]


def test_reads_after_the_update_see_it():
    def build(x, ids):
        loss = tf.reduce_mean(tf.square(dense_model(x) - 0.5))
        train = minimize(OPTIMIZERS["momentum"](), loss)
        with tf.control_dependencies([train]):
            after = [v.read_value() for v in v1.trainable_variables()]
            average = v1.train.ExponentialMovingAverage(0.5)
            shadow = average.apply(v1.trainable_variables())
        return loss + tf.add_n([tf.reduce_sum(a) for a in after]), tf.group(train, shadow)

    assert check_same(build).fused() == ["ApplyMomentum", "ApplyMovingAverage"]


def test_update_ops_of_batch_norm_run_before():
    def build(x, ids):
        mean = v1.get_variable("mean", [4], trainable=False, use_resource=True, initializer=tf.zeros_initializer())
        update = mean.assign(0.9 * mean + 0.1 * tf.reduce_mean(x, 0))
        loss = tf.reduce_mean(tf.square(dense_model(x - mean) - 0.5))
        with tf.control_dependencies([update]):
            return loss, minimize(OPTIMIZERS["adam"](), loss)

    fused = Program(build, True)
    assert fused.fused() == ["ApplyAdam"] and "AssignVariableOp" in fused.executed()


@pytest.mark.parametrize("optimizer", ["adam", "keras adam", "adagrad", "sgd"])
def test_sparse_updates_behind_those_of_batch_norm_are_one_op(optimizer):
    """Made in that scope, the op that gathers a chain of Adam's waits on the scope's ops as well."""

    def build(x, ids):
        mean = v1.get_variable("mean", [4], trainable=False, use_resource=True, initializer=tf.zeros_initializer())
        update = mean.assign(0.9 * mean + 0.1 * tf.reduce_mean(x, 0))
        loss = tf.reduce_mean(tf.square(dense_model(tf.concat([x - mean, embeddings(ids)], 1)) - 0.5))
        with tf.control_dependencies([update]):
            return loss, minimize(OPTIMIZERS[optimizer](), loss)

    fused = check_same(build)
    assert len([name for name in fused.fused() if name.startswith("Sparse")]) == 1
    assert "AssignVariableOp" in fused.executed()
    (op,) = [op for op in fused.graph.get_operations() if op.type.startswith("TfBoosterMultiSparse")]
    upstream = GraphView(fused.graph).index().upstream([op])
    assert any(fused.graph.get_operations()[number].type == "AssignVariableOp" for number in upstream)


def test_what_gathers_a_chain_and_something_else_stays():
    def build(x, ids):
        count = v1.get_variable("count", [], trainable=False, use_resource=True, initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(dense_model(tf.concat([x, embeddings(ids)], 1)) - 0.5))
        train = minimize(OPTIMIZERS["adam"](), loss)
        (chain,) = [op for op in train.graph.get_operations() if op.name == "Adam/update_table_8/group_deps"]
        with tf.control_dependencies([*chain.control_inputs, count.assign_add(1.0)]):
            both = tf.no_op("both")
        return loss, tf.group(train, both)

    fused = check_same(build)
    (both,) = [op for op in fused.graph.get_operations() if op.name == "both"]
    assert "AssignAddVariableOp" in [op.type for op in both.control_inputs]


@pytest.mark.parametrize("dtype", [tf.float64, tf.bfloat16], ids=lambda t: t.name)
def test_dtypes_divide(dtype):
    def build(x, ids):
        a = v1.get_variable("a", [4, 3], use_resource=True)
        b = v1.get_variable("b", [3], use_resource=True)
        c = v1.get_variable("c", [3, 1], dtype, use_resource=True)
        d = v1.get_variable("d", [1], dtype, use_resource=True)
        loss = tf.reduce_mean(tf.square(tf.cast(x @ a + b, dtype) @ c + d))
        return tf.cast(loss, tf.float32), minimize(OPTIMIZERS["adam"](), loss)

    assert check_same(build).fused() == ["ApplyAdam", "ApplyAdam"]


def test_scalars_empty_variables_and_nan():
    def build(x, ids):
        scalar = v1.get_variable("scalar", [], use_resource=True, initializer=tf.ones_initializer())
        empty = v1.get_variable("empty", [0, 3], use_resource=True)
        kernel = v1.get_variable("kernel", [4, 1], use_resource=True)
        loss = tf.reduce_mean(x @ kernel) * tf.sqrt(scalar - 0.9) + tf.reduce_sum(empty)
        return loss, minimize(OPTIMIZERS["adagrad"](), loss)

    fused = check_same(build, steps=40)
    assert fused.fused() == ["ApplyAdagrad"] and fused.result.variables[1]["shape"] == [0, 3]
    assert np.isnan(fused.train(40)[1]["scalar:0"])


def test_partitioned_variables():
    def build(x, ids):
        with v1.variable_scope("parts", partitioner=tf.compat.v1.fixed_size_partitioner(2), use_resource=True):
            table = v1.get_variable("table", [24, 5])
            found = v1.nn.embedding_lookup(table, ids, partition_strategy="div")
            loss = tf.reduce_mean(tf.square(dense_model(found) - 0.5))
        return loss, minimize(OPTIMIZERS["adam"](), loss)

    fused = check_same(build)
    assert fused.fused() == ["ApplyAdam", "SparseApplyAdam"]
    assert {"parts/table/part_0", "parts/table/part_1"} <= {e["name"] for e in fused.result.variables}


def test_an_update_that_nothing_waits_on_is_left():
    def build(x, ids):
        kernels = [v1.get_variable(f"k{i}", [4, 1], use_resource=True) for i in range(2)]
        loss = tf.reduce_mean(x @ kernels[0] + x @ kernels[1])
        grads = tf.gradients(loss, kernels)
        return loss, [
            tf.raw_ops.ResourceApplyGradientDescent(var=k.handle, alpha=0.1, delta=g) for k, g in zip(kernels, grads)
        ]

    fused = check_same(build)
    assert not fused.result.modified
    assert set(fused.reasons().values()) == {"no op waits on its update, so a fetch may want it alone"}


def test_one_variable_in_two_updates_is_left():
    def build(x, ids):
        kernel, other, third = (v1.get_variable(n, [4, 1], use_resource=True) for n in "kot")
        loss = tf.reduce_mean(x @ kernel + x @ other + x @ third)
        grads = tf.gradients(loss, [kernel, kernel, other, third])
        ops = [
            tf.raw_ops.ResourceApplyGradientDescent(var=k.handle, alpha=0.1, delta=g)
            for k, g in zip([kernel, kernel, other, third], grads)
        ]
        return loss, tf.group(*ops)

    fused = check_same(build)
    assert fused.fused() == ["ApplyGradientDescent"]
    assert fused.reasons() == {"k": "several updates write the same Variable or slot"}


def test_reference_variables_and_control_flow_have_reasons():
    def build(x, ids):
        old = v1.get_variable("old", [4, 1], use_resource=False)
        new = [v1.get_variable(f"new_{i}", [4, 1], use_resource=True) for i in range(2)]
        loss = tf.reduce_mean(x @ old + x @ new[0] + x @ new[1])
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=[old])

        def update():
            grads = tf.gradients(loss, new)
            return tf.group(
                *(tf.raw_ops.ResourceApplyGradientDescent(var=v.handle, alpha=0.1, delta=g) for v, g in zip(new, grads))
            )

        v1.disable_control_flow_v2()
        try:
            chosen = v1.cond(tf.reduce_sum(x) > 0, update, tf.no_op)
        finally:
            v1.enable_control_flow_v2()
        return loss, tf.group(train, chosen)

    fused = check_same(build)
    assert not fused.result.modified
    assert "reference Variable" in fused.reasons()["old"]
    assert "tf.cond" in fused.reasons()["new_0"]


def test_lazy_adam_moves_rows_with_a_gradient_only():
    plain, lazy = Program(both("adam")).train(2), Program(both("adam"), True, lazy_adam=True)
    assert lazy.fused() == ["ApplyAdam", "SparseApplyAdam"]
    assert any("lazy_adam" in change for change in lazy.result.changes)
    with v1.Session(graph=lazy.graph) as sess:
        sess.run(lazy.initializer)
        feed = {lazy.x: np.ones([2, 4]), lazy.ids: [3, 5]}
        sess.run(lazy.trains[0], feed)
        before = sess.run(lazy.values("table_8"))[0]
        sess.run(lazy.trains[0], {lazy.x: np.ones([2, 4]), lazy.ids: [5, 9]})
        after = sess.run(lazy.values("table_8"))[0]
    moved = np.flatnonzero((before != after).any(1))
    np.testing.assert_array_equal(moved, [5, 9])
    assert plain  # TensorFlow's moves row 3 too: the bits of the non-lazy op are checked above.


@pytest.mark.parametrize("optimizer", ["adam", "keras adam", "adagrad", "sgd", "ftrl", "momentum", "rmsprop"])
def test_sparse_variables_join_the_dense_ones(optimizer):
    plain, joined = Program(both(optimizer)), Program(both(optimizer), True, fuse_sparse=True)
    assert len(joined.fused()) == 1 and not joined.fused()[0].startswith("Sparse")
    assert any("became dense ones" in change for change in joined.result.changes)
    losses, mine = plain.train(1)[0], joined.train(1)[0]
    np.testing.assert_allclose(mine, losses)
    # Adam and plain gradient descent touch every row already, or move none that has no gradient.
    if optimizer in ("adam", "keras adam", "sgd", "adagrad"):
        want, have = plain.train(12)[1], joined.train(12)[1]
        for name in want:
            np.testing.assert_allclose(have[name], want[name], rtol=2e-4, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("optimizer", ["adam", "adagrad", "sgd", "keras rmsprop"])
def test_what_comes_before_the_updates_still_does(optimizer):
    """Gradients made outside of the scope: only the optimizer's first ops, its Unique among them, wait on the assign."""

    def build(x, ids):
        loss = tf.reduce_mean(tf.square(dense_model(tf.concat([x, embeddings(ids)], 1)) - 0.5))
        variables = v1.trainable_variables()
        grads = tf.gradients(loss, variables)
        with tf.control_dependencies([loss, *grads]):
            # Large, so that it would come too late if nothing waited on it.
            before = [v.assign(v * 0.5, name="halve").op for v in variables if v.name.startswith("table")]
        with tf.control_dependencies(before):
            chosen = OPTIMIZERS[optimizer]()
            train = chosen.apply_gradients(zip(grads, variables))
        return loss, train

    fused = Program(build, True)
    assert not [name for name in fused.reasons() if name.startswith("table")]
    fused_ops = [op for op in fused.graph.get_operations() if op.type.startswith("TfBoosterMultiSparse")]
    assert fused_ops
    for op in fused_ops:
        upstream = {
            name
            for other in map(fused.graph.get_operations().__getitem__, GraphView(fused.graph).index().upstream([op]))
            for name in originals(other)
        }
        assert len([name for name in upstream if name.startswith("halve")]) >= 3
    check_same(build, 4)


def test_what_only_the_unique_waited_for():
    def build(x, ids):
        rate = tf.constant(0.1)
        tables = [v1.get_variable(f"t{i}", [23, 4], use_resource=True) for i in range(2)]
        slots = [
            v1.get_variable(f"s{i}", [23, 4], use_resource=True, initializer=tf.ones_initializer()) for i in range(2)
        ]
        loss = tf.reduce_mean([tf.reduce_mean(tf.nn.embedding_lookup(t, ids) ** 2) for t in tables])
        grads = tf.gradients(loss, tables)
        with tf.control_dependencies([g.values for g in grads]):
            before = [t.assign(t * 0.5).op for t in tables]
        updates = []
        for table, slot, grad in zip(tables, slots, grads):
            with tf.control_dependencies(before):
                rows, places = tf.unique(grad.indices)
                total = tf.math.unsorted_segment_sum(grad.values, places, tf.shape(rows)[0])
                apply = tf.raw_ops.ResourceSparseApplyAdagrad(
                    var=table.handle, accum=slot.handle, lr=rate, grad=total, indices=rows
                )
            assert not apply.control_inputs
            updates.append(apply)
        return loss, tf.group(*updates)

    fused = Program(build, True)
    assert fused.fused() == ["ApplyFormula", "SparseApplyAdagrad"]
    (op,) = [op for op in fused.graph.get_operations() if op.type == "TfBoosterMultiSparseApplyAdagrad"]
    assert [other.type for other in op.control_inputs] == ["TfBoosterMultiApplyFormula"]
    check_same(build)
