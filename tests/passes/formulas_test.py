"""Updates that programs put together of elementwise ops: one op for many Variables, with the same bits."""

import numpy as np
import pytest
import tensorflow as tf
from update_programs import OPTIMIZERS, Program, check_same, dense_model, minimize

from tf_booster.estimator import fetched_updates
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.variable_updates import VariableUpdates

v1 = tf.compat.v1


def variable(name, value, trainable=False):
    return v1.get_variable(name, initializer=tf.convert_to_tensor(value), trainable=trainable, use_resource=True)


def slots(var, *names):
    return [variable(f"{var.op.name}/{name}", tf.zeros(var.shape, var.dtype.base_dtype)) for name in names]


def count_step(*updates):
    return tf.group(*updates, v1.assign_add(v1.train.get_or_create_global_step(), 1))


class OwnOptimizer(v1.train.Optimizer):
    """One whose `rule(optimizer, gradient, var)` gives a Variable's updates. Sparse gradients become dense, and all are clipped."""

    def __init__(self, rule, rate=0.01):
        super().__init__(False, "own")
        self._rule, self.rate = rule, rate

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        grads, variables = zip(*grads_and_vars)
        grads, _ = tf.clip_by_global_norm([tf.convert_to_tensor(grad) for grad in grads], 1.0)
        updates = [self._rule(self, grad, var) for grad, var in zip(grads, variables)]
        with tf.control_dependencies(tf.nest.flatten(updates)):  # A schedule reads the step.
            return tf.group(*([global_step.assign_add(1)] if global_step is not None else []))


def adam_with_decay(optimizer, grad, var):
    m, v = slots(var, "adam_m", "adam_v")
    next_m = tf.multiply(0.9, m) + tf.multiply(1.0 - 0.9, grad)
    next_v = tf.multiply(0.999, v) + tf.multiply(1.0 - 0.999, tf.square(grad))
    update = next_m / (tf.sqrt(next_v) + 1e-6)
    if "bias" not in var.name:
        update += 0.01 * var
    return [var.assign(var - optimizer.rate * update), m.assign(next_m), v.assign(next_v)]


def lion(optimizer, grad, var):
    (m,) = slots(var, "m")
    step = tf.sign(m * 0.9 + grad * 0.1)
    with tf.control_dependencies([step]):
        return [m.assign(m * 0.99 + grad * 0.01), var.assign_sub(optimizer.rate * (step + 0.1 * var))]


def yogi(optimizer, grad, var):
    m, v = slots(var, "m", "v")
    square = tf.square(grad)
    new_m = m.assign(0.9 * m + 0.1 * grad)
    new_v = v.assign_sub(0.001 * tf.sign(v - square) * square)
    return [var.assign_sub(optimizer.rate * new_m / (tf.sqrt(tf.abs(new_v)) + 1e-3))]


def amsgrad_by_hand(optimizer, grad, var):
    m, v, largest = slots(var, "m", "v", "largest")
    new_v = 0.99 * v + 0.01 * grad * grad
    peak = tf.maximum(largest, new_v)
    new_m = 0.9 * m + 0.1 * grad
    step = -optimizer.rate * new_m * tf.math.rsqrt(peak + 1e-6)
    return [var.assign_add(step), m.assign(new_m), v.assign(new_v), largest.assign(peak)]


def adagrad_by_hand(optimizer, grad, var):
    (sums,) = slots(var, "sums")
    with tf.control_dependencies([sums.assign_add(tf.square(grad))]):
        root = tf.sqrt(sums + 1e-6)
    return [var.assign_sub(optimizer.rate * grad / root)]


RULES = (adam_with_decay, lion, yogi, amsgrad_by_hand, adagrad_by_hand)


def model(rule, rate=0.01, rows=()):
    def build(x, ids):
        tables = [v1.get_variable(f"rows_{n}", [n, 3], use_resource=True) for n in rows]
        x = tf.concat([x, *(tf.nn.embedding_lookup(table, ids % table.shape[0]) for table in tables)], 1)
        loss = tf.reduce_mean(tf.square(dense_model(x) - 0.5))
        step = v1.train.get_or_create_global_step()
        speed = rate(step) if callable(rate) else rate
        return loss, OwnOptimizer(rule, speed).minimize(loss, step)

    return build


def formulas(program):
    return [op for op in program.graph.get_operations() if op.type == "TfBoosterMultiApplyFormula"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rule", RULES)
def test_optimizers_by_hand_become_one_op_with_the_same_bits(rule, threads):
    fused = check_same(model(rule), threads=threads)
    assert set(fused.fused()) == {"ApplyFormula"} and not fused.reasons()
    # Kernels decay, biases do not.
    assert len(fused.fused()) == (2 if rule is adam_with_decay else 1)
    assert not [t for t in fused.executed() if t in ("AssignVariableOp", "AssignSubVariableOp")]
    assert sum(op.get_attr("N") for op in formulas(fused)) == 8


@pytest.mark.parametrize("rule", RULES)
def test_gradients_of_rows(rule):
    """tf.multiply and the like make dense ones of them."""
    fused = check_same(model(rule, rows=(7, 9, 11)), steps=6)
    assert set(fused.fused()) == {"ApplyFormula"} and not fused.reasons()


def test_a_schedule_is_shared():
    def rate(step):
        return v1.train.polynomial_decay(0.01, step, 8, 0.001)

    fused = check_same(model(adam_with_decay, rate))
    assert fused.fused() == ["ApplyFormula"] * 2


def test_a_second_run_changes_nothing():
    fused = Program(model(adam_with_decay), True)
    assert fused.result.modified and not VariableUpdates().requires(GraphView(fused.graph))
    into = {entry["fused_into"] for entry in fused.result.variables}
    assert into == {op.name for op in formulas(fused)}
    assert {entry["name"] for entry in fused.result.variables} == {v.op.name for v in fused.trainable()}


def test_norms_of_updates_are_computed_as_before():
    """LAMB: what the norms read is an input, and moments that others read are written by TensorFlow's ops."""

    def lamb(optimizer, grad, var):
        m, v = slots(var, "m", "v")
        next_m, next_v = 0.9 * m + 0.1 * grad, 0.99 * v + 0.01 * tf.square(grad)
        update = next_m / (tf.sqrt(next_v) + 1e-6) + 0.01 * var
        ratio = tf.norm(var + 1e-3) / (tf.norm(update) + 1e-3)
        return [var.assign(var - optimizer.rate * ratio * update), m.assign(next_m), v.assign(next_v)]

    fused = check_same(model(lamb))
    assert "AssignVariableOp" in fused.executed()
    reasons = {name: reason for name, reason in fused.reasons().items() if name.endswith(("/m", "/v"))}
    assert len(reasons) == 16 and all("other ops than those of its update" in reason for reason in reasons.values())


@pytest.mark.parametrize("optimizer", ["adam", "adagrad", "keras adam"])
def test_decays_before_an_optimizer(optimizer):
    def build(x, ids):
        loss = tf.reduce_mean(tf.square(dense_model(x) - 0.5))
        variables = v1.trainable_variables()
        grads = tf.gradients(loss, variables)
        with tf.control_dependencies(grads):
            decays = [v.assign_sub(0.01 * v).op for v in variables]
        with tf.control_dependencies(decays):
            chosen = OPTIMIZERS[optimizer]()
            train = chosen.apply_gradients(zip(grads, variables))
        return loss, count_step(train)

    fused = check_same(build)
    assert fused.fused().count("ApplyFormula") == 1 and len(fused.fused()) == 2
    (op,) = formulas(fused)
    assert op.get_attr("N") == 8


def test_each_decay_before_its_own_update():
    """Each update waits for its own Variable's decay: those are one op once the updates are."""

    def build(x, ids):
        rate = tf.constant(0.1)
        loss = tf.reduce_mean(tf.square(dense_model(x) - 0.5))
        variables = v1.trainable_variables()
        updates = []
        for var, grad in zip(variables, tf.gradients(loss, variables)):
            with tf.control_dependencies([grad]):
                decay = var.assign_sub(0.01 * var).op
            with tf.control_dependencies([decay]):
                updates.append(tf.raw_ops.ResourceApplyGradientDescent(var=var.handle, alpha=rate, delta=grad))
        return loss, count_step(*updates)

    fused = check_same(build)
    assert fused.fused() == ["ApplyFormula", "ApplyGradientDescent"]


def test_a_second_network_follows_the_first():
    def build(x, ids):
        loss = tf.reduce_mean(tf.square(dense_model(x) - 0.5))
        variables = v1.trainable_variables()
        others = [variable(f"{v.op.name}/target", tf.zeros(v.shape)) for v in variables]
        train = minimize(OPTIMIZERS["adam"](), loss, variables)
        with tf.control_dependencies([train]):
            follow = [o.assign(0.9 * o + 0.1 * v) for v, o in zip(variables, others)]
        return loss, tf.group(*follow)

    fused = check_same(build)
    assert fused.fused() == ["ApplyAdam", "ApplyFormula"] and not fused.reasons()


def test_averages_behind_an_optimizer_by_hand():
    """What is read behind the train op is later than its writes, by way of the op that gathers them."""

    def build(x, ids):
        loss, train = model(adam_with_decay)(x, ids)
        variables = v1.trainable_variables()
        others = [variable(f"{v.op.name}/mean", tf.zeros(v.shape)) for v in variables]
        with tf.control_dependencies([train]):
            follow = [o.assign(0.9 * o + 0.1 * v) for v, o in zip(variables, others)]
        return loss, tf.group(*follow)

    fused = check_same(build)
    assert fused.fused() == ["ApplyFormula"] * 3 and not fused.reasons()


def test_an_average_right_behind_each_write():
    def rule(optimizer, grad, var):
        (mean,) = slots(var, "mean")
        new = var.assign_sub(optimizer.rate * grad)
        with tf.control_dependencies([new]):
            return [mean.assign(0.9 * mean + 0.1 * new)]

    fused = check_same(model(rule))
    assert fused.fused() == ["ApplyFormula"] and not fused.reasons()


def test_weights_of_the_step_before_are_kept():
    """What a Variable was is read by another update, before it changes."""

    def rule(optimizer, grad, var):
        old, change = slots(var, "old", "change")
        now, before = var.read_value(), old.read_value()
        step = optimizer.rate * grad + 0.1 * (before - now)
        with tf.control_dependencies([step]):
            return [var.assign_sub(step), old.assign(1.0 * now), change.assign(0.5 * change + tf.abs(now - before))]

    fused = check_same(model(rule))
    assert fused.fused() == ["ApplyFormula"] and not fused.reasons()
    assert formulas(fused)[0].get_attr("V") == 3 * 8


@pytest.mark.parametrize("ordered", [True, False])
def test_batch_norm_by_assigns(ordered):
    """What others read in no order with the update, TensorFlow may read before or behind it: that is left to it."""
    weight = 1.0 if ordered else 0.0  # Numbers that do not depend on which of both comes first.

    def build(x, ids):
        x = tf.concat([x, tf.square(x)], 1)
        updates, norms = [], []
        for i in range(3):
            mean, variance = variable(f"mean_{i}", tf.zeros(8)), variable(f"variance_{i}", tf.ones(8))
            of_batch = tf.nn.moments(x, 0)
            norms.append((x - weight * mean) * tf.math.rsqrt(weight * variance + 1e-3))
            with tf.control_dependencies(norms if ordered else []):
                updates += [v.assign(v * 0.9 + b * 0.1) for v, b in zip((mean, variance), of_batch)]
        loss = tf.reduce_mean(tf.square(dense_model(tf.concat(norms, 1)) - 0.5))
        with tf.control_dependencies(updates):
            return loss, minimize(OPTIMIZERS["adagrad"](), loss)

    fused = check_same(build)
    assert fused.fused() == ["ApplyAdagrad", *["ApplyFormula"] * ordered]
    assert all("in no order with its update" in reason for reason in fused.reasons().values())
    assert len(fused.reasons()) == (0 if ordered else 6)


@pytest.mark.parametrize(
    "what", ["shape", "rank", "writer", "twice", "read before", "many arrays", "long", "tensors", "devices"]
)
def test_what_is_left(what):
    def build(x, ids):
        loss = tf.reduce_mean(tf.square(dense_model(x, (3, 1)) - 0.5))
        a, b = variable("a", tf.ones([4, 3])), variable("b", tf.ones([4, 3]))
        value, updates = tf.reduce_mean(x) * tf.ones([4, 3]), []
        if what == "shape":
            updates = [v.assign(tf.reshape(x[0], [4, 1]) * v) for v in (a, b)]
        elif what == "rank":
            s, t = variable("s", 1.0), variable("t", 2.0)
            updates = [v.assign(0.5 * v + loss) for v in (s, t)]
        elif what == "writer":
            for v in (a, b):
                first = v1.scatter_add(v, [2], value[1:2])
                with tf.control_dependencies([first]):
                    updates.append(v.assign(v.read_value() * 0.5 - 0.1 * value))
        elif what == "twice":
            for v in (a, b):
                with tf.control_dependencies([v.assign(v * 0.5 + value).op]):
                    updates.append(v.assign(v.read_value() * 0.7 + value))
        elif what == "read before":
            for v in (a, b):
                old = v.read_value()
                with tf.control_dependencies([old]):
                    scatter = v1.scatter_add(v, [1], value[:1])
                with tf.control_dependencies([scatter]):
                    updates.append(v.assign(old * 0.5 - 0.1 * value))
        elif what == "many arrays":
            many = [variable(f"many_{i}", tf.ones([4, 3]) * i) for i in range(7)]
            total = many[0] * 0.5
            for v in many[1:]:
                total += 0.01 * v
            updates = [v.assign(v * 0.5 + total) for v in many]
        elif what == "devices":
            with tf.device("/cpu:0"):
                c = variable("c", tf.ones([4, 3]))
            moved = 0.5 * a + c
            updates = [a.assign(moved), c.assign(0.5 * moved)]
        elif what == "long":
            total = a * 0.5
            for i in range(40):
                total = total * 0.9 + 0.01 * i
            updates = [a.assign(total)]
        else:
            total = a * 0.5
            for i in range(7):
                total += tf.tanh(value + i)
            updates = [a.assign(total)]
        return loss, tf.group(minimize(OPTIMIZERS["sgd"](), loss), *updates)

    fused = check_same(build)
    assert fused.fused() == ["ApplyGradientDescent"]
    reason = {"writer": "writes it, too", "twice": "several ops write it", "read before": "writes it, too",
              "many arrays": "writes 7 Variables together", "long": "numbers, more than 24", "tensors": "of 7 tensors", "devices": "on several devices: '', '/device:CPU:0'"}  # fmt: skip
    assert all(reason[what] in told for told in fused.reasons().values())
    assert bool(fused.reasons()) == (what in reason)


@pytest.mark.parametrize("dtype", [tf.float64, tf.float16, tf.bfloat16], ids=lambda t: t.name)
def test_dtypes(dtype):
    def build(x, ids):
        kernels = [v1.get_variable(f"k{i}", [4, 4], dtype, use_resource=True) for i in range(2)]
        x = tf.cast(x, dtype)
        for kernel in kernels:
            x = tf.tanh(x @ kernel)
        loss = tf.reduce_mean(tf.square(x - 0.5))
        updates = []
        for kernel, grad in zip(kernels, tf.gradients(loss, kernels)):
            (m,) = slots(kernel, "m")
            next_m = 0.875 * m + 0.125 * grad
            updates += [m.assign(next_m), kernel.assign(kernel - 0.1 * next_m / (tf.sqrt(tf.abs(next_m)) + 0.01))]
        return tf.cast(loss, tf.float32), count_step(*updates)

    assert check_same(build).fused() == ["ApplyFormula"]


def test_others_read_before_and_behind():
    """Reads that are ordered before the write, behind it, and not at all."""

    def build(x, ids):
        a, b, c = (variable(name, tf.ones([4, 3]) * i) for i, name in enumerate("abc"))
        tf.reduce_sum(c, name="loose")
        read = a.read_value()
        updates = [v.assign(r * 0.5 + tf.reduce_mean(x)) for v, r in ((a, read), (b, b), (c, c))]
        with tf.control_dependencies(updates):
            late = tf.reduce_sum(a.read_value()) - tf.reduce_sum(b.read_value())
        return tf.reduce_sum(read) * 3 + late * 5, count_step(*updates)

    fused = check_same(build)
    assert fused.fused() == ["ApplyFormula"] and list(fused.reasons()) == ["c"]


def test_metrics_stay_as_they_are():
    def build(x, ids):
        metrics = [v1.metrics.mean_tensor(tf.ones([4, 3]) * tf.reduce_mean(x) * i) for i in range(3)]
        kept = [variable(f"a{i}", tf.ones([4, 3])) for i in range(2)]
        updates = [v.assign(v * 0.5 + 1.0) for v in kept]
        return tf.reduce_mean(x), count_step(*updates, *(update for _, update in metrics))

    with tf.Graph().as_default():
        program = Program(build, True)
    assert program.fused() == ["ApplyFormula"] and formulas(program)[0].get_attr("V") == 2
    assert "AssignAddVariableOp" in program.executed() and not program.reasons()


def test_what_leads_back_is_left():
    """Something reads one of two Variables behind its write, and the other one's write needs that."""

    def build(x, ids):
        pairs = [[variable(f"{n}{i}", tf.ones([4, 3]) * i) for n in "ab"] for i in range(2)]
        updates = []
        for a, b in pairs:
            with tf.control_dependencies([a.assign(a * 0.5 + tf.reduce_mean(x)).op]):
                far = tf.reduce_sum(a.read_value())
            updates.append(b.assign(a.read_value() * b * 0.1 + far))
        return tf.reduce_mean(x), count_step(*updates)

    check_same(build)


def test_constants_that_wait_for_a_write():
    def build(x, ids):
        updates = []
        for i in range(3):
            a, b = variable(f"a{i}", tf.ones([4, 3]) * i), variable(f"b{i}", tf.ones([4, 3]))
            with tf.control_dependencies([a.assign(a * 0.5 + tf.reduce_mean(x)).op]):
                updates.append(b.assign(b * tf.constant(0.25) + a * tf.constant(0.75)))
        return tf.reduce_mean(x), count_step(*updates)

    fused = check_same(build)
    assert fused.fused() == ["ApplyFormula"] and not fused.reasons()


def test_fetching_what_is_inside():
    fused = Program(model(adam_with_decay), True)
    graph = fused.graph
    fetched_updates.watch(graph)
    (first, _) = formulas(fused)
    names = GraphView(graph).originals(first)
    inner = [n for n in names if graph.get_operation_by_name(n).type == "Square"][0]
    write = [n for n in names if graph.get_operation_by_name(n).type == "AssignVariableOp"][0]
    feed = {fused.x: np.ones([3, 4]), fused.ids: [1, 2, 3]}
    with v1.Session(graph=graph) as sess:
        sess.run(fused.initializer)
        assert np.isfinite(sess.run(f"{inner}:0", feed)).all()
        with pytest.raises(
            ValueError, match="fetched in a run of 'tf_booster/.*apply_Formula.*Fetch it in a run of its own"
        ):
            sess.run([f"{inner}:0", fused.trains[0]], feed)
        before = sess.run(v1.trainable_variables()[0])
        sess.run([write, fused.trains[0]], feed)
        assert (sess.run(v1.trainable_variables()[0]) != before).any()
