"""Moving averages in the pass variable_updates: all of a step by one op, with TensorFlow's bits, and what is left with which reason."""

import os

import numpy as np
import pytest
import tensorflow as tf
from update_programs import Program, check_same, minimize

from tf_booster import _native
from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.batch_normalization import BatchNormalization
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.variable_updates import VariableUpdates

v1 = tf.compat.v1
KEYS = v1.GraphKeys
AVERAGE = "ApplyMovingAverage"


def sgd():
    return v1.train.GradientDescentOptimizer(0.1)


def layer(x, **kwargs):
    return v1.layers.batch_normalization(x, training=True, **kwargs)


def keras_layer(x, **kwargs):
    made = tf.keras.layers.BatchNormalization(**kwargs)
    y = made(x, training=True)
    for update in made.updates:
        v1.add_to_collection(KEYS.UPDATE_OPS, update)
    return y


def tower(x, make=layer, widths=(13, 7, 5), dropout=0.0, **kwargs):
    with v1.variable_scope("tower", use_resource=True):
        for i, width in enumerate(widths):
            x = make(x @ v1.get_variable(f"kernel_{i}", [x.shape[1], width]), **kwargs)
            x = tf.nn.relu(x)
            if dropout:
                x = tf.nn.dropout(x, rate=dropout, seed=i)
    return tf.reduce_mean(tf.square(x - 0.5))


def trained(loss, optimizer=None):
    """As users write it."""
    with tf.control_dependencies(v1.get_collection(KEYS.UPDATE_OPS)):
        return loss, minimize(optimizer or sgd(), loss)


def variable(name, value, **kwargs):
    return v1.get_variable(name, initializer=tf.constant(value, kwargs.pop("dtype", tf.float32)), use_resource=True, **kwargs)  # fmt: skip


def average(name, value, decay=0.9, dtype=tf.float32):
    """Of `value`, written by hand; returns the Variable and the op that updates it."""
    with tf.control_dependencies(None):
        kept = variable(name, np.zeros(value.shape.as_list()), trainable=False, dtype=dtype)
    rate = tf.constant(np.asarray(1.0 - decay, dtype.as_numpy_dtype))
    return kept, tf.raw_ops.AssignSubVariableOp(resource=kept.handle, value=(kept.read_value() - value) * rate)


def averages(fused):
    """Of how many Variables each op keeps averages, sorted."""
    ops = [op for op in fused.graph.get_operations() if op.type == "TfBoosterMultiApplyMovingAverage"]
    return sorted(op.get_attr("N") for op in ops)


@pytest.mark.parametrize("make", [layer, keras_layer])
def test_all_of_a_step_are_one_op(make):
    fused = check_same(lambda x, ids: trained(tower(x, make)))
    assert fused.fused() == ["ApplyGradientDescent", AVERAGE] and averages(fused) == [6]
    assert "AssignSubVariableOp" not in fused.executed() and not fused.reasons()
    (change,) = [c for c in fused.result.changes if "MovingAverage" in c]
    assert change.startswith("6 MovingAverage updates became op 'tf_booster/tower/")


def test_layers_behind_dropout():
    """Other random numbers are before each layer; whoever runs one runs all."""

    def build(x, ids):
        return trained(tower(x, dropout=0.3))

    assert averages(check_same(build)) == [6]


def test_other_updates_wait_for_them():
    """In `control_dependencies(UPDATE_OPS)` all that minimize makes does, constants of sparse updates among it."""

    def build(x, ids):
        tables = [variable(f"table_{i}", np.ones([9, 3 + i])) for i in range(2)]
        rows = tf.concat([tf.nn.embedding_lookup(table, ids % 9) for table in tables], 1)
        return trained(tower(x) + tf.reduce_mean(tf.square(rows)), v1.train.AdamOptimizer(0.1))

    fused = check_same(build)
    assert averages(fused) == [6] and "SparseApplyAdam" in fused.fused()


def test_one_layer():
    assert averages(check_same(lambda x, ids: trained(tower(x, widths=(4,))))) == [2]


@pytest.mark.parametrize("by_tensor", [False, True])
def test_layers_of_images(by_tensor):
    """TensorFlow's own fused kernel gives moments there. Where a tensor says whether a layer trains, its rate is computed, and 0 if not."""

    def build(x, ids):
        training = v1.placeholder_with_default(True, []) if by_tensor else True
        images = tf.reshape(x, [-1, 2, 2, 1])
        for i in range(2):
            images = v1.layers.batch_normalization(images, training=training, name=f"images_{i}")
            images = tf.concat([images, 2.0 * images], 3)
        return trained(tf.reduce_mean(tf.square(images - 0.5)))

    assert averages(check_same(build)) == ([2, 2] if by_tensor else [4])


def test_momenta_divide():
    def named(x, name=None, **kwargs):
        return layer(x, **kwargs)

    def both(x, ids):
        loss = tower(x, named, momentum=0.99)
        with v1.variable_scope("second"):
            return trained(loss + tower(2.0 * x, named, widths=(3,), momentum=0.5))

    assert averages(check_same(both)) == [2, 6]


def test_who_waits_divides():
    """Two train ops, each behind the averages of its own tower, as those of a GAN."""

    def build(x, ids):
        trains = []
        for name in ("a", "b"):
            with v1.variable_scope(name):
                loss = tower(x)
            with tf.control_dependencies(v1.get_collection(KEYS.UPDATE_OPS, scope=name)):
                trains.append(minimize(sgd(), loss, v1.trainable_variables(name)))
        return loss, trains

    fused = check_same(build)
    assert averages(fused) == [6, 6]
    assert fused.fused(0) == fused.fused(1) == ["ApplyGradientDescent", AVERAGE]


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.bfloat16])
def test_exponential_moving_averages(dtype):
    """Of all trained Variables; of the first steps the decay is computed."""

    def build(x, ids):
        kernels = [variable(f"kernel_{i}", np.ones([4, 3]) * (i + 1), dtype=dtype) for i in range(3)]
        loss = tf.reduce_mean(tf.square(tf.add_n([tf.cast(x, dtype) @ k for k in kernels])))
        train = minimize(sgd(), loss)
        mean = v1.train.ExponentialMovingAverage(0.9, num_updates=v1.train.get_or_create_global_step())
        with tf.control_dependencies([train]):
            return loss, mean.apply(kernels)

    fused = check_same(build)
    assert averages(fused) == [3] and fused.fused() == ["ApplyGradientDescent", AVERAGE]


def test_scalars_empty_ones_and_nan():
    def build(x, ids):
        values = [tf.reduce_mean(x), tf.zeros([0, 3]), tf.reduce_mean(x, 0) / 0.0, tf.reduce_max(x, 0) * 1e-39]
        updates = [average(f"kept_{i}", value)[1] for i, value in enumerate(values)]
        return tf.reduce_mean(x), tf.group(updates)

    plain, fused = Program(build), Program(build, True)
    assert averages(fused) == [4]
    for a, b in zip(plain.train()[1].values(), fused.train()[1].values()):
        np.testing.assert_array_equal(a, b)


def test_what_waits_for_an_update_reads_the_new_value():
    def build(x, ids):
        kept = [average(f"kept_{i}", tf.reduce_mean(x + i, 0)) for i in range(2)]
        with tf.control_dependencies([op for _, op in kept]):
            after = [v.read_value() for v, _ in kept]
        return tf.add_n([tf.reduce_sum(a) for a in after]), tf.group([op for _, op in kept])

    fused = check_same(build)
    assert averages(fused) == [2]


def test_a_read_that_waits_for_nothing_sees_the_old_value():
    """As where a program has two batch normalizations of the same averages, of which a tf.cond takes one. A Saver's reads are none of a step."""

    def build(x, ids):
        kept = [average(f"kept_{i}", tf.reduce_mean(x + i, 0)) for i in range(2)]
        w = variable("w", np.ones([4], np.float32))
        loss = tf.reduce_mean(tf.square((x - kept[0][0].read_value()) * w - kept[1][0].read_value()))
        v1.train.Saver()
        with tf.control_dependencies([op for _, op in kept]):
            return loss, minimize(sgd(), tf.identity(loss))

    fused = check_same(build)
    assert averages(fused) == [2]
    (op,) = [op for op in fused.graph.get_operations() if op.type == "TfBoosterMultiApplyMovingAverage"]
    assert sorted(read.inputs[0].op.name for read in op.control_inputs) == ["kept_0", "kept_1"]


def test_a_read_behind_several_updates_sees_them():
    """One that nothing in the graph uses, as whoever fetches it has it; it is none of those that assign_sub() gives back."""

    def build(x, ids):
        kept = [average(f"kept_{i}", tf.reduce_mean(x + i, 0)) for i in range(2)]
        with tf.control_dependencies([op for _, op in kept]):
            after = tf.raw_ops.ReadVariableOp(resource=kept[0][0].handle, dtype=tf.float32)
            return after, tf.no_op()

    fused = check_same(build)
    assert averages(fused) == [2]


@pytest.mark.parametrize("rate_alone", [False, True])
def test_what_the_chain_waited_for(rate_alone):
    """An assertion before one of them: before its read, or before the constant alone that it is multiplied by."""

    def build(x, ids):
        values = [tf.reduce_mean(x, 0), tf.reduce_max(x, 0)]
        _, first = average("first", values[0])
        kept = variable("second", np.zeros(4), trainable=False)
        difference = kept.read_value() - values[1]
        with tf.control_dependencies([tf.debugging.assert_less(tf.reduce_max(x), 1e3)]):
            if not rate_alone:
                difference = kept.read_value() - values[1]
            second = tf.raw_ops.AssignSubVariableOp(resource=kept.handle, value=difference * np.float32(1.0 - 0.9))
        assert bool(second.inputs[1].op.inputs[1].op.control_inputs) and not second.control_inputs
        return tf.reduce_sum(values[0]), tf.group(first, second)

    fused = Program(build, True)
    assert averages(fused) == [2]
    with v1.Session(graph=fused.graph) as session:
        session.run(fused.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(fused.trains[0], {fused.x: np.full([2, 4], 1e4)})
        before = session.run(fused.values("first", "second"))
        np.testing.assert_array_equal(before, np.zeros([2, 4]))


def test_a_chain_that_leads_back_is_left():
    """The second layer's input waits for the average of the first, as where the update is made before the output is."""

    def build(x, ids):
        mean = tf.reduce_mean(x, 0)
        first, update = average("first", mean)
        with tf.control_dependencies([update]):
            y = tf.identity(x * first.read_value())
        _, second = average("second", tf.reduce_mean(y, 0))
        return tf.reduce_mean(y), tf.group(update, second)

    fused = check_same(build)
    assert averages(fused) == [1, 1]


def test_moments_of_our_own_op():
    """The averages read what pass batch_normalization makes; no op of a layer's own is left of them."""
    program = Program(lambda x, ids: trained(tower(x)))
    pipelines.rewrite(program.graph, Options(), only=[VariableUpdates(), BatchNormalization()])
    (update,) = [op for op in program.graph.get_operations() if op.type == "TfBoosterMultiApplyMovingAverage"]
    assert [t.op.type for t in list(update.inputs)[7:]] == ["TfBoosterBatchNorm"] * 6
    types = program.executed()
    assert not {"AssignSubVariableOp", "Mean", "Squeeze"}.intersection(types[: types.index("TfBoosterBatchNorm")])
    gradients = [op for op in program.graph.get_operations() if op.type == "TfBoosterBatchNormGrad"]
    assert len(gradients) == 3 and all(update in op.control_inputs for op in gradients)
    losses, values = program.train()
    want_losses, want = Program(lambda x, ids: trained(tower(x))).train()
    np.testing.assert_allclose(losses, want_losses, rtol=1e-4)
    for name, value in want.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-3, atol=1e-5)


def test_all_default_passes_and_checkpoints(tmp_path):
    """Of the passes that sum in another order none: checkpoints are the same, bit for bit."""

    def saved(boosted):
        program = Program(lambda x, ids: trained(tower(x), v1.train.AdamOptimizer(0.01)))
        if boosted:
            others = ("batch_normalization", "small_matmuls", "pair_dots")
            report = pipelines.rewrite(program.graph, Options(disable_passes=others))
            assert averages(program) == [6]
            assert {v["optimizer"] for v in report.variables if v["fused_into"]} == {"Adam", "MovingAverage"}
        config = v1.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        rng = np.random.RandomState(0)
        with program.graph.as_default(), v1.Session(config=config) as session:
            session.run(program.initializer)
            for _ in range(5):
                session.run(program.trains[0], {program.x: rng.standard_normal([32, 4])})
            path = v1.train.Saver().save(session, os.path.join(tmp_path, str(boosted)))
        reader = tf.train.load_checkpoint(path)
        return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}

    plain, ours = saved(False), saved(True)
    assert plain.keys() == ours.keys() and sum("moving" in name for name in plain) == 6
    for name, value in plain.items():
        np.testing.assert_array_equal(ours[name], value, name)


def test_the_original_can_still_be_fetched_by_itself():
    fused = Program(lambda x, ids: trained(tower(x, widths=(4, 4))), True)
    original = fused.graph.get_operation_by_name("tower/batch_normalization/AssignMovingAvg/AssignSubVariableOp")
    with v1.Session(graph=fused.graph) as session:
        session.run(fused.initializer)
        session.run(original, {fused.x: np.random.RandomState(0).standard_normal([8, 4])})
        mine, other = session.run(fused.values("tower/batch_normalization/moving_mean", "tower/batch_normalization_1/moving_mean"))  # fmt: skip
        assert np.any(mine) and not np.any(other)


def test_a_second_run_changes_nothing():
    program = Program(lambda x, ids: trained(tower(x)), True)
    before = program.graph.get_operations()
    assert not VariableUpdates().requires(GraphView(program.graph))
    assert not VariableUpdates().run(GraphView(program.graph)).modified
    assert program.graph.get_operations() == before


def left(build):
    """The reasons by Variable of a program whose averages all stay."""
    fused = check_same(build)
    assert not averages(fused)
    return fused.reasons()


def test_a_part_that_somebody_reads_is_left():
    def build(x, ids):
        loss, train = trained(tower(x, widths=(4,)))
        parts = [op for op in train.graph.get_operations() if op.name.endswith(("AssignMovingAvg/sub", "AssignMovingAvg_1/mul"))]  # fmt: skip
        return loss + tf.add_n([tf.reduce_sum(op.outputs[0]) for op in parts]), train

    reasons = left(build)
    assert "reads 'tower/batch_normalization/AssignMovingAvg/sub'" in reasons["tower/batch_normalization/moving_mean"]
    assert "AssignMovingAvg_1/mul'" in reasons["tower/batch_normalization/moving_variance"]


def test_a_layer_that_is_used_twice_is_left():
    """Both uses write the same Variables, in an order that TensorFlow leaves open."""

    def build(x, ids):
        made = tf.keras.layers.BatchNormalization(name="shared")
        loss = tf.reduce_mean(tf.square(made(x, training=True) * made(x, training=True) - 0.5))
        with tf.control_dependencies([tf.group(*made.updates)]):
            return loss, minimize(sgd(), loss)

    program = Program(build, True)
    assert not averages(program)
    assert all("writes it, too" in program.reasons()[f"shared/moving_{name}"] for name in ("mean", "variance"))


def test_an_update_that_nothing_waits_on_is_left():
    def build(x, ids):
        loss = tower(x, widths=(4,))
        return loss, minimize(sgd(), loss)

    assert set(left(build).values()) == {"no op waits on its update, so a fetch may want it alone"}


def test_other_forms_are_left():
    def of_scalar(x, ids):
        kept = variable("kept", [0.0, 1.0], trainable=False)
        update = kept.assign_sub((kept.read_value() - tf.reduce_mean(x)) * 0.1)
        return tf.reduce_mean(x), tf.group(update)

    assert "its shape is (2,), and that of 'Mean'" in left(of_scalar)["kept"]

    def by_vector(x, ids):
        kept = variable("kept", np.zeros(4), trainable=False)
        update = kept.assign_sub((kept.read_value() - tf.reduce_mean(x, 0)) * tf.constant([0.1, 0.2, 0.3, 0.4]))
        return tf.reduce_mean(x), tf.group(update)

    assert "is no scalar" in left(by_vector)["kept"]

    def backwards(x, ids):
        kept = variable("kept", np.zeros(4), trainable=False)
        update = kept.assign_sub((tf.reduce_mean(x, 0) - kept.read_value()) * 0.1)
        return tf.reduce_mean(x), tf.group(update, minimize(sgd(), tf.reduce_mean(tf.square(x @ variable("k", np.ones([4, 1]))))))  # fmt: skip

    assert "kept" not in left(backwards)

    def of_another(x, ids):
        kept, other = (variable(name, np.ones(4), trainable=False) for name in ("kept", "other"))
        update = kept.assign_sub((other.read_value() - tf.reduce_mean(x, 0)) * 0.1)
        return tf.reduce_mean(x), tf.group(update, average("third", tf.reduce_mean(x, 0))[1])

    assert averages(check_same(of_another)) == [1]


def test_integers_and_control_flow_and_reference_variables_have_reasons():
    def build(x, ids):
        inside = variable("inside", np.zeros(4), trainable=False)
        v1.disable_control_flow_v2()
        try:
            step = lambda: tf.group(inside.assign_sub((inside - tf.ones([4])) * 0.1))  # noqa: E731
            update = v1.cond(tf.reduce_sum(x) > 0, step, tf.no_op)
        finally:
            v1.enable_control_flow_v2()
        old = v1.get_variable("old", [4], use_resource=False)
        second = v1.assign_sub(old, (old - tf.reduce_mean(x, 0)) * 0.1)
        _, counted = average("counted", tf.constant([2, 3]), decay=-1.0, dtype=tf.int32)
        return tf.reduce_mean(x), tf.group(update, second, counted)

    fused = check_same(build)
    reasons = fused.reasons()
    assert not fused.result.modified
    assert "tf.cond" in reasons["inside"] and "reference Variable" in reasons["old"] and "int32" in reasons["counted"]


def test_a_gather_of_the_library_writes_nothing():
    def build(x, ids):
        tables = [v1.get_variable(f"table_{i}", [23, 4], use_resource=True) for i in range(2)]
        gathered = _native.ops().tf_booster_multi_gather([t.handle for t in tables], [ids, ids], dtype=tf.float32)
        loss = tf.reduce_mean([tf.reduce_mean(tf.nn.embedding_lookup(t, ids) ** 2) for t in tables])
        train = minimize(sgd(), loss + tf.stop_gradient(tf.reduce_sum(gathered)))
        with tf.control_dependencies([train]):
            return loss, tf.group(v1.train.ExponentialMovingAverage(0.9).apply(tables))

    fused = check_same(build)
    assert AVERAGE in fused.fused() and averages(fused) == [2] and not fused.reasons()
