"""Small programs of many kinds, on two ranks, against numbers worked out by hand: linear regression by gradient descent."""

import horovod.tensorflow as hvd
import launch
import numpy as np
import pytest
import tensorflow as tf

from tf_booster.parallel import end_together, loss_reduction, raw_gradients, row_weights
from tf_booster.passes.base import RewriteError
from tf_booster.passes.gradient_plan import plan_gradients
from tf_booster.passes.graph_view import GraphView
from tf_booster.report import report_of

v1 = tf.compat.v1

SIZE, ROWS, RATE, STEPS = 2, 4, 0.1, 5
X = np.random.RandomState(0).randn(SIZE * ROWS, 3)
Y = np.random.RandomState(1).randn(SIZE * ROWS)


def descended(x, y, steps=STEPS, total=np.mean, decay=0.0):
    """The weights after `steps` steps from 0.5 on of the loss total((x·w − y)²) + decay · |w|²."""
    w = np.full(3, 0.5)
    for _ in range(steps):
        gradient = total(2 * (x @ w - y)[:, None] * x, axis=0) + 2 * decay * w
        w = w - RATE * gradient
    return w


class Program:
    """One graph of a rank: features and labels of this rank's rows, one Variable."""

    def __init__(self, rank, dtype=tf.float32):
        self.rows = slice(rank * ROWS, (rank + 1) * ROWS)
        self.x = v1.placeholder(dtype, [None, 3])
        self.y = v1.placeholder(dtype, [None])
        self.w = v1.get_variable("w", [3], dtype, v1.constant_initializer(0.5), use_resource=True)
        self.step = v1.train.get_or_create_global_step()
        self.optimizer = v1.train.GradientDescentOptimizer(RATE)
        self.errors = tf.square(tf.linalg.matvec(self.x, self.w) - self.y)
        self.loss = tf.reduce_mean(self.errors)

    def run(self, train_ops, fetches=None, steps=STEPS, fed=None, **session):
        """The Variables' values, and report and extra fetches, after `steps` steps of `train_ops` in turn."""
        graph = v1.get_default_graph()
        fed = {self.x: X[self.rows], self.y: Y[self.rows], **(fed or {})}
        with v1.train.MonitoredTrainingSession(**session) as open_session:
            variables = {v.op.name: v for v in v1.global_variables()}
            first, last = open_session.run(variables, fed), None
            for i in range(steps):
                op = train_ops[i % len(train_ops)]
                last = open_session.run([op, fetches or {}], fed)[1]
            values = open_session.run(variables, fed)
        return {"first": first, "values": values, "last": last, "report": report_of(graph).to_dict()}


def initial_values(rank, program):
    other = v1.get_variable("other", [2], tf.float64, v1.random_normal_initializer(seed=rank + 1), use_resource=True)
    flag = v1.get_variable("flag", [], tf.bool, v1.constant_initializer(rank == 0), use_resource=True)
    loaded = v1.get_variable("loaded", [], initializer=v1.zeros_initializer(), use_resource=True)
    scaffold = v1.train.Scaffold(init_fn=lambda scaffold, session: loaded.load(3.0 + rank, session))
    del other, flag
    return program.run([program.optimizer.minimize(program.loss, program.step)], scaffold=scaffold)


def many_variables(rank, program):
    """Variables of 8 MiB each, of which every eighth is not trained; `last` has the MiB that they take."""
    many = [v1.get_variable(f"v{i:02}", [1 << 15, 64], use_resource=True, trainable=i % 8 > 0) for i in range(32)]
    loss = program.loss + tf.add_n([tf.reduce_sum(tf.gather(each, [1])) for each in many])
    before = resident_mib()
    taken = tf.numpy_function(lambda: resident_mib() - before, [], tf.float64)
    train = program.optimizer.minimize(loss, program.step)
    with v1.train.MonitoredTrainingSession() as session:
        fed = {program.x: X[program.rows], program.y: Y[program.rows]}
        for _ in range(2):
            session.run(train, fed)
        return {"last": session.run(taken, fed)}


def resident_mib():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(float(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def users_horovod(rank, program):
    optimizer = hvd.DistributedOptimizer(program.optimizer)
    hooks = [hvd.BroadcastGlobalVariablesHook(0)]
    return program.run([optimizer.minimize(program.loss, program.step)], hooks=hooks)


def two_in_turn(rank, program):
    other = v1.get_variable("other", [3], initializer=v1.constant_initializer(0.5), use_resource=True)
    loss = tf.reduce_mean(tf.square(tf.linalg.matvec(program.x, other) - program.y))
    first = program.optimizer.minimize(program.loss, var_list=[program.w])
    second = v1.train.GradientDescentOptimizer(RATE).minimize(loss, var_list=[other])
    return program.run([first, second], steps=2 * STEPS)


def two_as_one(rank, program):
    other = v1.get_variable("other", [3], initializer=v1.constant_initializer(0.5), use_resource=True)
    loss = program.loss + tf.reduce_mean(tf.square(tf.linalg.matvec(program.x, other) - program.y))
    first = program.optimizer.minimize(loss, var_list=[program.w])
    second = v1.train.GradientDescentOptimizer(RATE).minimize(loss, var_list=[other])
    return program.run([tf.group(first, second)])


def one_after_the_other(rank, program):
    """The second train op waits for the first one's update."""
    other = v1.get_variable("other", [3], initializer=v1.constant_initializer(0.5), use_resource=True)
    first = program.optimizer.minimize(program.loss, var_list=[program.w])
    with tf.control_dependencies([first]):
        loss = tf.reduce_mean(tf.square(tf.linalg.matvec(program.x, other) - program.y))
        second = v1.train.GradientDescentOptimizer(RATE).minimize(loss, var_list=[other])
    return program.run([second])


def two_dtypes(rank, program):
    other = v1.get_variable("other", [3], tf.float64, v1.constant_initializer(0.5), use_resource=True)
    x, y = tf.cast(program.x, tf.float64), tf.cast(program.y, tf.float64)
    loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x, other) - y)) + tf.cast(program.loss, tf.float64)
    return program.run([program.optimizer.minimize(loss)])


def by_tape(rank, program):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.linalg.matvec(program.x, program.w) - program.y))
    (gradient,) = tape.gradient(loss, [program.w])
    return program.run([program.optimizer.apply_gradients([(gradient, program.w)])])


def applied_in_a_cond(rank, program):
    pairs = program.optimizer.compute_gradients(program.loss)
    is_finite = tf.reduce_all(tf.math.is_finite(program.x))
    train_op = tf.cond(is_finite, lambda: tf.group(program.optimizer.apply_gradients(pairs)), tf.no_op)
    return program.run([train_op])


def trained_in_a_constant_cond(rank, program):
    """The gradients are taken in a function, of losses inside and outside of it."""
    rows = v1.get_variable("rows", [3, 1], initializer=v1.ones_initializer(), use_resource=True)

    def train():
        loss = program.loss + tf.reduce_sum(tf.square(tf.gather(rows, [rank, 2])))
        return tf.group(program.optimizer.minimize(loss, program.step))

    return program.run([tf.cond(tf.constant(True), train, tf.no_op)])


def trained_in_a_constant_v1_cond(rank, program):
    v1.disable_control_flow_v2()
    try:
        return trained_in_a_constant_cond(rank, program)
    finally:
        v1.enable_control_flow_v2()


def trained_in_a_cond(rank, program):
    """Ranks cannot sum what is inside of a function."""
    flag = v1.placeholder_with_default(True, [])
    try:
        return program.run([tf.cond(flag, lambda: tf.group(program.optimizer.minimize(program.loss)), tf.no_op)])
    except RewriteError as error:
        return {"refused": str(error)}


def by_hand(rank, program):
    gradient = tf.linalg.matvec(program.x, 2 * (tf.linalg.matvec(program.x, program.w) - program.y), transpose_a=True)
    return program.run([program.optimizer.apply_gradients([(gradient / ROWS, program.w)])])


def penalty(rank, program):
    (gradient,) = tf.gradients(program.loss, [program.w])
    return program.run([program.optimizer.minimize(program.loss + 0.1 * tf.reduce_sum(tf.square(gradient)))])


def batch_norm(rank, program):
    normed = v1.layers.batch_normalization(program.x, training=True)
    loss = program.loss + tf.reduce_mean(tf.square(tf.reduce_sum(normed * [1.0, 2.0, 3.0], 1) - program.y))
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        train_op = program.optimizer.minimize(loss)
    return program.run([train_op])


def reference_variable(rank, program):
    w = v1.get_variable("ref", [3], initializer=v1.constant_initializer(0.5 + rank), use_resource=False)
    loss = tf.reduce_mean(tf.square(tf.linalg.matvec(program.x, w) - program.y))
    return program.run([program.optimizer.minimize(loss)])


def rows_that_count(rank, program, total=tf.reduce_mean, counts=(4, 2)):
    rows = v1.placeholder(tf.float32, [])
    has_next = end_together.with_stop(v1.get_default_graph(), tf.constant(1.0 - rank))
    row_weights.register(v1.get_default_graph(), row_weights.RowWeights(rows, has_next))
    train_op = program.optimizer.minimize(total(program.errors) + 0.01 * tf.reduce_sum(tf.square(program.w)))
    program.rows = slice(
        rank * ROWS, rank * ROWS + (counts[rank] or 3)
    )  # Where none counts, some are there all the same.
    fed = {rows: float(counts[rank])}
    graph = v1.get_default_graph()

    class Sums(v1.train.SessionRunHook):
        """Fetches what the pass has registered, once there is a session."""

        def before_run(self, context):
            return v1.train.SessionRunArgs(row_weights.summed_row_weights(graph))

        def after_run(self, context, values):
            self.seen = tuple(float(value) for value in values.results)

    hook = Sums()
    return {**program.run([train_op], fed=fed, hooks=[hook]), "sums": hook.seen}


def dry_sum(rank, program):
    loss_reduction_of_head(program)
    return rows_that_count(rank, program, tf.reduce_sum, (4, 0))


def dry_without_numbers(rank, program):
    program.errors *= np.float32(np.nan if rank else 1)
    return rows_that_count(rank, program, counts=(4, 0))


def dry_lookup(rank, program):
    """Each rank looks up a row of its own; the optimizer moves all rows that it is given, also by a gradient of 0."""
    table = v1.get_variable("table", [SIZE, 3], initializer=v1.constant_initializer(0.5), use_resource=True)
    program.optimizer = v1.train.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=0.5)
    program.errors += tf.reduce_sum(tf.nn.embedding_lookup(table, [rank]))
    return rows_that_count(rank, program, counts=(4, 0))


def loss_reduction_of_head(program):
    class Head:
        _loss_reduction = "weighted_sum"

    loss_reduction.note_head(lambda *args: None)(Head(), None, tf.estimator.ModeKeys.TRAIN)
    program.errors = program.errors / (SIZE * ROWS)


def weights_that_count(rank, program):
    weights = tf.cast(program.y > 0, tf.float32)
    loss = v1.losses.mean_squared_error(program.y, tf.linalg.matvec(program.x, program.w), weights)
    return program.run([program.optimizer.minimize(loss)])


PROGRAMS = [
    initial_values, many_variables, users_horovod, two_in_turn, two_as_one, one_after_the_other, two_dtypes, by_tape, applied_in_a_cond, trained_in_a_constant_cond, trained_in_a_constant_v1_cond, trained_in_a_cond, by_hand, penalty, batch_norm,
    reference_variable, rows_that_count, dry_sum, dry_without_numbers, dry_lookup, weights_that_count,
]  # fmt: skip


def run_programs(rank, size):
    tf.enable_gpu_booster()
    found = {}
    for make in PROGRAMS:
        with tf.Graph().as_default():
            found[make.__name__] = make(rank, Program(rank))
    return found


@pytest.fixture(scope="module")
def outcomes():
    return launch.values(run_programs, SIZE)


def weights(outcomes, program, name="w"):
    first, second = (outcome[program]["values"][name] for outcome in outcomes)
    np.testing.assert_array_equal(first, second)
    return first


def entry(outcomes, program):
    (found,) = [p for p in outcomes[0][program]["report"]["passes"] if p["name"] == "dense_collectives"]
    return found


def dense(outcomes, program):
    return outcomes[0][program]["report"]["collectives_per_step"]["dense"]


def test_all_ranks_begin_with_what_rank_0_has(outcomes):
    first, second = (outcome["initial_values"] for outcome in outcomes)
    for name, value in first["values"].items():
        np.testing.assert_array_equal(value, second["values"][name], err_msg=name)
    assert first["values"]["loaded"] == 3.0 and second["values"]["flag"] and second["values"]["global_step"] == STEPS
    np.testing.assert_allclose(weights(outcomes, "initial_values"), descended(X, Y), rtol=1e-5, atol=1e-7)


def test_variables_are_held_once(outcomes):
    """What was broadcast stayed as a whole, as long as a Variable of it was not updated."""
    assert max(outcome["many_variables"]["last"] for outcome in outcomes) < 2 * 256


def test_the_programs_own_horovod_is_not_doubled(outcomes):
    np.testing.assert_allclose(weights(outcomes, "users_horovod"), descended(X, Y), rtol=1e-5, atol=1e-7)
    assert outcomes[0]["users_horovod"]["report"]["collectives_per_step"] == {
        "tables": 0, "dense": 0, "sparse": 0, "other": 0,
    }  # fmt: skip
    told = {skip["node"]: skip["reason"] for skip in entry(outcomes, "users_horovod")["skipped"]}
    assert (
        "reduces 1 gradients itself" in told["gradients"]
        and "broadcasts its Variables itself" in told["initial values"]
    )


def test_train_ops_that_run_in_turn_have_a_collective_each(outcomes):
    for name in ("w", "other"):
        np.testing.assert_allclose(weights(outcomes, "two_in_turn", name), descended(X, Y), rtol=1e-5, atol=1e-7)
    assert dense(outcomes, "two_in_turn") == 2


def test_train_ops_that_run_together_share_one(outcomes):
    for name in ("w", "other"):
        np.testing.assert_allclose(weights(outcomes, "two_as_one", name), descended(X, Y), rtol=1e-5, atol=1e-7)
    assert dense(outcomes, "two_as_one") == 1


def test_a_train_op_that_waits_for_another_has_a_collective_of_its_own(outcomes):
    for name in ("w", "other"):
        wanted = descended(X, Y)
        np.testing.assert_allclose(weights(outcomes, "one_after_the_other", name), wanted, rtol=1e-5, atol=1e-7)
    assert dense(outcomes, "one_after_the_other") == 2
    assert entry(outcomes, "one_after_the_other")["skipped"] == []


def test_each_dtype_has_a_collective(outcomes):
    np.testing.assert_allclose(weights(outcomes, "two_dtypes"), descended(X, Y), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(weights(outcomes, "two_dtypes", "other"), descended(X, Y), rtol=1e-5, atol=1e-7)
    assert dense(outcomes, "two_dtypes") == 2


def test_gradients_of_a_tape_are_summed(outcomes):
    np.testing.assert_allclose(weights(outcomes, "by_tape"), descended(X, Y), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("program", ["trained_in_a_constant_cond", "trained_in_a_constant_v1_cond"])
def test_gradients_that_are_taken_where_a_constant_leads_are_summed(outcomes, program):
    np.testing.assert_allclose(weights(outcomes, program), descended(X, Y), rtol=1e-5, atol=1e-7)
    one, both = (1 - RATE) ** STEPS, (1 - 2 * RATE) ** STEPS  # Rows of one rank count half in the average.
    np.testing.assert_allclose(weights(outcomes, program, "rows")[:, 0], [one, one, both], rtol=1e-5)


def test_gradients_that_are_taken_inside_of_a_function_are_refused(outcomes):
    for outcome in outcomes:
        assert "'w' is taken inside of 'cond'" in outcome["trained_in_a_cond"]["refused"]
        assert "outside of tf.cond" in outcome["trained_in_a_cond"]["refused"]


def test_gradients_that_a_cond_applies_are_summed(outcomes):
    np.testing.assert_allclose(weights(outcomes, "applied_in_a_cond"), descended(X, Y), rtol=1e-5, atol=1e-7)


def test_a_gradient_made_by_hand_is_left_and_told(outcomes):
    for rank, outcome in enumerate(outcomes):
        own = slice(rank * ROWS, (rank + 1) * ROWS)
        np.testing.assert_allclose(outcome["by_hand"]["values"]["w"], descended(X[own], Y[own]), rtol=1e-5, atol=1e-7)


def test_a_gradient_of_a_gradient_is_of_each_ranks_loss(outcomes):
    weights(outcomes, "penalty")
    assert any("gradient of a gradient" in skip["reason"] for skip in entry(outcomes, "penalty")["skipped"])
    assert dense(outcomes, "penalty") == 1


def test_batch_norm_keeps_its_averages_on_each_rank(outcomes):
    weights(outcomes, "batch_norm", "batch_normalization/gamma")
    first, second = (o["batch_norm"]["values"]["batch_normalization/moving_mean"] for o in outcomes)
    assert not np.allclose(first, second)


def test_reference_variables(outcomes):
    np.testing.assert_allclose(weights(outcomes, "reference_variable", "ref"), descended(X, Y), rtol=1e-5, atol=1e-7)


def test_rows_weigh_a_mean(outcomes):
    counting = np.r_[0:4, 4:6]
    wanted = descended(X[counting], Y[counting], decay=0.01)
    np.testing.assert_allclose(weights(outcomes, "rows_that_count"), wanted, rtol=1e-5, atol=1e-7)
    assert [outcome["rows_that_count"]["sums"] for outcome in outcomes] == [(6.0, 1.0)] * 2
    assert (
        "weighted by rows"
        in entry(outcomes, "rows_that_count")["changes"][-1] + entry(outcomes, "rows_that_count")["changes"][-2]
    )


def test_a_rank_without_rows_adds_nothing_to_a_sum_and_regularisers_count_once(outcomes):
    wanted = descended(X[:4], Y[:4], total=lambda g, axis: g.sum(axis) / (SIZE * ROWS), decay=0.01)
    np.testing.assert_allclose(weights(outcomes, "dry_sum"), wanted, rtol=1e-5, atol=1e-7)


def test_a_rank_without_rows_may_compute_what_is_no_number(outcomes):
    wanted = descended(X[:4], Y[:4], decay=0.01)
    np.testing.assert_allclose(weights(outcomes, "dry_without_numbers"), wanted, rtol=1e-5, atol=1e-7)


def test_a_rank_without_rows_looks_nothing_up_that_is_updated(outcomes):
    first, second = weights(outcomes, "dry_lookup", "table")
    assert (first != 0.5).all() and (second == 0.5).all()


def test_a_divisor_that_differs_between_ranks_is_told(outcomes):
    (told,) = [skip["reason"] for skip in entry(outcomes, "weights_that_count")["skipped"]]
    assert "number of its weights" in told


def test_reductions_of_heads():
    def noted(*reductions):
        with tf.Graph().as_default() as graph:
            for reduction in reductions:
                head = type("Head", (), {"_loss_reduction": reduction})()
                loss_reduction.note_head(lambda *args: None)(head, None, tf.estimator.ModeKeys.TRAIN)
            return loss_reduction.loss_reduction(graph, "sum")

    assert noted().kind == "sum" and noted().inexact == ""
    assert noted("weighted_sum").kind == "sum" and noted("sum_over_batch_size").kind == "average"
    assert "weighted_sum_by_nonzero_weights" in noted("weighted_sum_by_nonzero_weights").inexact
    assert "sum and by sum_over_batch_size" in noted("sum", "sum_over_batch_size").inexact


def test_a_gradient_inside_of_a_cond_is_refused():
    with tf.Graph().as_default() as graph, v1.Graph.control_dependencies(graph, None):
        v1.disable_control_flow_v2()
        w = v1.get_variable("w", [3], use_resource=True)
        mark = raw_gradients.mark_helper(lambda ys, xs: [tf.ones([3])])

        def train():
            return v1.train.GradientDescentOptimizer(RATE).apply_gradients([(mark([], [w])[0], w)])

        v1.cond(v1.placeholder(tf.bool, []), train, tf.no_op)
        v1.enable_control_flow_v2()
        with pytest.raises(RewriteError, match="outside of tf.cond"):
            plan_gradients(GraphView(graph))
