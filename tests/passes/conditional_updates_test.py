"""The pass conditional_updates: updates of a tf.cond are ops of the graph, which run under its condition, with the same bits."""

import numpy as np
import pytest
import tensorflow as tf
from fused_pairs import OPTIMIZERS

import tf_booster
from tf_booster import _compat
from tf_booster.embedding import registry
from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.conditional_updates import ConditionalUpdates
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.variable_updates import VariableUpdates

v1 = tf.compat.v1
EXACT = v1.ConfigProto()  # Grappler regroups the factors of sparse Adam, and others in a function than in the graph.
EXACT.graph_options.rewrite_options.disable_meta_optimizer = True
STEPS = [True, False, True, True, False, False, True]
KINDS = ["sgd", "momentum", "adagrad", "adam", "ftrl", "rmsprop"]


pytestmark = pytest.mark.usefixtures("control_flow")


def conditional(program):
    """What is left of a tf.cond with updates in it: an If, or updates that TensorFlow says to be in one."""
    types = program.live()
    within = [op.name for op in program.graph.get_operations() if _compat.in_control_flow(op) and "Apply" in op.type]
    return ["If"] if "If" in types else within


class Program:
    """Variables of several kinds, updated in the steps that are told to, and a count of all steps."""

    def __init__(self, optimizer="adagrad", passes=(), apply=None, table=False):
        with tf.Graph().as_default() as self.graph:
            v1.set_random_seed(3)
            self.flag, self.ids = v1.placeholder(tf.bool, []), v1.placeholder(tf.int64, [None])
            embeddings = [v1.get_variable(f"emb_{i}", [20, 3], use_resource=True) for i in range(3)]
            kernels = [v1.get_variable(f"kernel_{i}", [3, 2], use_resource=True) for i in range(2)]
            rows = [tf.gather(emb, self.ids) for emb in embeddings]
            self.table = tf_booster.get_hash_table("table", 3, seed=2) if table else None
            if table:
                rows.append(tf_booster.embedding_lookup(self.table, self.ids))
            self.loss = tf.add_n([tf.reduce_sum(tf.square(row @ kernel)) for row in rows for kernel in kernels])
            made = OPTIMIZERS[optimizer]()
            self.step = v1.train.get_or_create_global_step()
            gradients = made.compute_gradients(self.loss)
            do = lambda: made.apply_gradients(gradients, self.step)  # noqa: E731
            self.train = apply(self.flag, do) if apply else tf.cond(self.flag, do, tf.no_op)
            self.report = pipelines.rewrite(self.graph, Options(), only=list(passes)) if passes else None
            self.variables = v1.global_variables()
            if table and passes:
                self.held = self.table.export()
            init = v1.global_variables_initializer()
        self.session = v1.Session(graph=self.graph, config=EXACT)
        self.session.run(init)

    def run(self, steps=tuple(STEPS)):
        """What there is after each step, as bytes."""
        found = []
        for i, flag in enumerate(steps):
            ids = np.random.RandomState(i).randint(0, 20, 12)
            loss, _ = self.session.run([self.loss, self.train], {self.flag: flag, self.ids: ids})
            found.append([loss, *self.session.run(self.variables)])
        return [[np.asarray(value).tobytes() for value in step] for step in found]

    def live(self):
        """Types of the ops that a step runs."""
        view = GraphView(self.graph)
        numbers = view.index().upstream([self.train if isinstance(self.train, tf.Operation) else self.train.op])
        return [view.index().ops[number].type for number in numbers]


BOTH = [ConditionalUpdates(), VariableUpdates(False, False)]


@pytest.mark.parametrize("optimizer", KINDS)
def test_updates_run_under_their_condition(optimizer):
    program = Program(optimizer, BOTH)
    assert program.run() == Program(optimizer).run()
    types = program.live()
    assert not conditional(program) and not [t for t in types if t.startswith("Resource") and "Apply" in t]
    fused = [t for t in types if t.startswith(("TfBoosterMultiApply", "TfBoosterMultiSparseApply"))]
    assert len(fused) == 2 if optimizer != "adam" else len(fused) >= 1, types
    again = pipelines.rewrite(program.graph, Options(), only=[ConditionalUpdates()])
    assert not any(p.modified for p in again.passes if p.name == "conditional_updates") or again is program.report


def test_all_passes_together():
    program = Program("adam", pipelines.passes(Options(disable_passes=("small_matmuls", "pair_dots"))))
    assert program.run() == Program("adam").run()
    assert {p.name for p in program.report.passes if p.modified} >= {"conditional_updates", "variable_updates"}


def test_updates_where_the_condition_is_false():
    build = lambda flag, do: tf.cond(flag, tf.no_op, do)  # noqa: E731
    program = Program(passes=BOTH, apply=build)
    assert program.run() == Program(apply=build).run()
    assert not conditional(program)


def test_results_of_the_branches_go_on():
    def build(flag, do):
        def one():
            with tf.control_dependencies([do()]):
                return tf.constant(3.0), tf.identity(flag)

        number, same = tf.cond(flag, one, lambda: (tf.constant(4.0), tf.identity(flag)))
        count = v1.get_variable("count", [], initializer=v1.zeros_initializer(), use_resource=True)
        return v1.assign_add(count, number + tf.cast(same, tf.float32)).op

    program = Program(passes=BOTH, apply=build)
    assert program.run() == Program(apply=build).run()
    assert not conditional(program)


def test_two_conditions_stay_apart():
    """Updates under different conditions do not become one op."""

    def build(flag, do):
        others = [
            v1.get_variable(f"other_{i}", [4], initializer=v1.ones_initializer(), use_resource=True) for i in range(4)
        ]
        made = v1.train.AdagradOptimizer(0.3)
        pairs = made.compute_gradients(tf.add_n([tf.reduce_sum(tf.square(other)) for other in others]), others)
        apart = tf.cond(tf.logical_not(flag), lambda: made.apply_gradients(pairs[:2]), tf.no_op)
        always = made.apply_gradients(pairs[2:])
        return tf.group(tf.cond(flag, do, tf.no_op), apart, always)

    program = Program(passes=BOTH, apply=build)
    assert program.run() == Program(apply=build).run()
    assert program.live().count("TfBoosterMultiApplyAdagrad") == 3


def test_what_no_result_needs():
    """Without automatic control dependencies TensorFlow does not run it."""

    def build(flag, do):
        kept = v1.get_variable("kept", [2], initializer=v1.zeros_initializer(), use_resource=True)

        def one():
            v1.assign_add(kept, [1.0, 2.0])
            return do()

        return tf.cond(flag, one, tf.no_op)

    program = Program(passes=BOTH, apply=build)
    assert program.run() == Program(apply=build).run()
    assert not conditional(program)


def test_the_other_branch_counts():
    def build(flag, do):
        counter = v1.get_variable("counter", [], initializer=v1.zeros_initializer(), use_resource=True)
        return tf.cond(flag, lambda: tf.group(do()), lambda: tf.group(v1.assign_add(counter, 1.0)))

    program = Program(passes=BOTH, apply=build)
    assert program.run() == Program(apply=build).run()
    assert not any("Apply" in op for op in conditional(program)) and "If" not in program.live()


@pytest.mark.parametrize("optimizer", KINDS)
def test_updates_in_both_branches(optimizer):
    """Of the same Variables, by one optimizer or another one: in each step those of one branch run."""

    def build(flag, do):
        trained = v1.trainable_variables()
        made = OPTIMIZERS[optimizer]()
        after_the_loss = v1.get_default_graph().get_tensor_by_name("AddN:0") * 0.0
        pairs = [(tf.ones_like(each) * (0.5 + after_the_loss), each) for each in trained]
        return tf.cond(flag, lambda: tf.group(do()), lambda: tf.group(made.apply_gradients(pairs)))

    program = Program(optimizer, passes=BOTH, apply=build)
    assert program.run() == Program(optimizer, apply=build).run()
    assert not conditional(program)
    types = program.live()
    assert not [
        op_type for op_type in types if op_type.startswith(("ResourceApply", "ResourceSparse", "ResourceScatter"))
    ]


def test_one_adam_in_both_branches():
    """Each multiplies the powers of beta; neither waits for the other one, which does not run."""

    def build(flag, do):
        kernels = [each for each in v1.trainable_variables() if each.name.startswith("kernel")]
        made = v1.train.AdamOptimizer(0.1)
        rates = [v1.get_default_graph().get_tensor_by_name("AddN:0") * 0.0 + rate for rate in (0.5, 0.25)]
        pairs = [[(tf.ones_like(each) * rate, each) for each in kernels] for rate in rates]
        return tf.cond(flag, lambda: made.apply_gradients(pairs[0]), lambda: made.apply_gradients(pairs[1]))

    program = Program(passes=BOTH, apply=build)
    assert program.run() == Program(apply=build).run()
    assert not conditional(program)
    powers = [v for v in program.variables if "beta1_power" in v.name]
    np.testing.assert_allclose(program.session.run(powers), [0.9 ** (len(STEPS) + 1)], rtol=1e-5)


def left_alone(build):
    """Why the If stays."""
    program = Program(passes=BOTH, apply=build)
    assert program.run() == Program(apply=build).run()
    assert conditional(program)
    ((_, reason),) = next(p for p in program.report.passes if p.name == "conditional_updates").skipped
    return reason


def test_what_is_left():
    def calls(flag, do):
        return tf.cond(
            flag, lambda: tf.group(do(), tf.cond(flag, lambda: tf.constant(1), lambda: tf.constant(2))), tf.no_op
        )

    def more_than_updates(flag, do):
        weight = v1.get_variable("weight", [3, 3], use_resource=True)
        made = v1.train.GradientDescentOptimizer(0.1)
        return tf.group(
            do(), tf.cond(flag, lambda: made.minimize(tf.reduce_sum(weight @ weight), var_list=[weight]), tf.no_op)
        )

    assert "beside updates it computes" in left_alone(calls)
    assert "beside updates it computes" in left_alone(more_than_updates)


def test_a_pass_that_is_undone_leaves_the_condition():
    class Broken(ConditionalUpdates):
        def ensures(self, view):
            raise RuntimeError("after the edits")

    program = Program("adam", [Broken(), VariableUpdates(False, False)])
    assert conditional(program)
    assert program.run() == Program("adam").run()


def test_a_table_takes_the_steps_that_are_to_be_taken():
    passes = pipelines.passes(Options(pipeline="off"))
    skipping, taking = (Program("adagrad", passes, table=True) for _ in range(2))
    skipping.run()
    for i, flag in enumerate(STEPS):
        if flag:
            ids = np.random.RandomState(i).randint(0, 20, 12)
            taking.session.run(taking.train, {taking.flag: True, taking.ids: ids})
    one, other = skipping.session.run(skipping.held), taking.session.run(taking.held)
    assert one.step == sum(STEPS) and len(one.keys) > 10
    for mine, its in zip(tf.nest.flatten(one), tf.nest.flatten(other)):
        np.testing.assert_array_equal(mine, its)
    assert registry.rewritten(skipping.graph)["table"].slot_names == ("accumulator",)


# --- Loss scales, in Estimators ---


def model_fn(features, labels, mode, params):
    ids = tf.feature_column.categorical_column_with_identity("id", 50)
    columns = [
        tf.feature_column.embedding_column(ids, 4, initializer=v1.random_normal_initializer(seed=i)) for i in range(2)
    ]
    if params.get("table"):
        ids = tf_booster.feature_column.categorical_column_with_hash_table("id")
        columns = [tf.feature_column.embedding_column(ids, 4)]
    x = tf.concat([v1.feature_column.input_layer(features, [column]) for column in columns], 1)
    x = v1.layers.dense(x, 8, tf.nn.relu, kernel_initializer=v1.random_normal_initializer(seed=3))
    logit = v1.layers.dense(x, 1, kernel_initializer=v1.random_normal_initializer(seed=4))[:, 0]
    loss = tf.reduce_mean(tf.square(logit - labels))
    if params.get("accumulate"):
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=accumulated(loss, params["accumulate"]))
    # Overflows in the first steps, and whenever it has grown again.
    scale = v1.mixed_precision.DynamicLossScale(initial_loss_scale=2.0**127, increment_period=4)
    optimizer = v1.mixed_precision.enable_mixed_precision_graph_rewrite(v1.train.AdamOptimizer(0.05), scale)
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def accumulated(loss, batches):
    """Updates each Variable by the sum of its gradients of several batches, in a tf.cond of its own, which reads that in both branches."""
    variables = v1.trainable_variables()
    count = v1.get_variable("count", [], tf.int64, v1.zeros_initializer(), trainable=False)
    optimizer = v1.train.AdagradOptimizer(0.1)
    optimizer._create_slots(variables)
    optimizer._prepare()

    def of_one(variable, gradient):
        total = v1.get_variable(
            f"{variable.op.name}/total", variable.shape, initializer=v1.zeros_initializer(), trainable=False
        )

        def apply():
            update = optimizer._resource_apply_dense((total + gradient) / batches, variable)
            with tf.control_dependencies([update]):
                return tf.group(total.assign(tf.zeros_like(total), read_value=False))

        return tf.cond(
            tf.equal(count.read_value() % batches, batches - 1),
            apply,
            lambda: tf.group(total.assign_add(gradient, read_value=False)),
        )

    pairs = zip(variables, map(tf.convert_to_tensor, tf.gradients(loss, variables)))
    with tf.control_dependencies([of_one(*pair) for pair in pairs]):
        return tf.group(count.assign_add(1), v1.train.get_global_step().assign_add(1))


def trained(folder, **params):
    random = np.random.RandomState(0)
    ids = random.randint(0, 50, [640, 1]).astype(np.int64)
    batches = lambda: tf.data.Dataset.from_tensor_slices(({"id": ids}, np.sin(ids[:, 0]).astype(np.float32))).batch(16)  # noqa: E731
    estimator = tf.estimator.Estimator(
        model_fn, str(folder), tf.estimator.RunConfig(tf_random_seed=1, session_config=EXACT), params
    )
    estimator.train(batches)
    reader = tf.train.load_checkpoint(str(folder))
    tensors = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    for table in [name[: -len("/keys")] for name in tensors if name.endswith("embedding_weights/keys")]:
        order = np.argsort(tensors[f"{table}/keys"])
        for name in tensors:
            if name.startswith(table) and np.ndim(tensors[name]) and len(tensors[name]) == len(order):
                tensors[name] = tensors[name][order]
    return {name: np.asarray(value).tobytes() for name, value in tensors.items()}, tensors


@pytest.fixture(name="off_afterwards", autouse=True)
def _off_afterwards():
    yield
    tf_booster.disable_gpu_booster()


@pytest.mark.parametrize("pipeline", ["exact", "off"])
def test_a_dynamic_loss_scale_trains_as_in_tensorflow(tmp_path, pipeline):
    plain, tensors = trained(tmp_path / "plain")
    assert 20 < tensors["global_step"] < 40  # Some steps were left out.
    tf_booster.enable_gpu_booster(pipeline=pipeline, disable_passes=["small_matmuls"])
    boosted, _ = trained(tmp_path / "boosted")
    assert boosted == plain
    changed = {p["name"] for p in tf_booster.report().to_dict()["passes"] if p["modified"]}
    assert changed >= {"conditional_updates", "variable_updates"}


@pytest.mark.parametrize("pipeline", ["exact", "off"])
def test_gradients_of_several_batches_train_as_in_tensorflow(tmp_path, pipeline):
    plain, tensors = trained(tmp_path / "plain", accumulate=3)
    assert tensors["global_step"] == 40 and np.abs(tensors["dense/kernel/total"]).max() > 0
    tf_booster.enable_gpu_booster(pipeline=pipeline, disable_passes=["small_matmuls"])
    boosted, _ = trained(tmp_path / "boosted", accumulate=3)
    assert boosted == plain
    passes = {p["name"]: p for p in tf_booster.report().to_dict()["passes"]}
    assert passes["conditional_updates"]["modified"]


def test_tables_under_a_dynamic_loss_scale(tmp_path):
    found = []
    for pipeline in ("off", "exact"):
        tf_booster.enable_gpu_booster(pipeline=pipeline)
        try:
            found.append(trained(tmp_path / pipeline, table=True))
        except tf_booster.RewriteError as error:
            # TensorFlow 2.12's loss scale makes sparse gradients dense to look at them, which no table can serve.
            assert "op 'IsFinite/x'" in str(error) and "into a dense tensor" in str(error)
            assert tf.__version__.startswith("2.12.")
            return
    assert found[0][0] == found[1][0]
    tensors = found[0][1]
    table = "input_layer/id_embedding/embedding_weights"
    assert 20 < tensors["global_step"] < 40 and tensors[f"{table}/step"] == tensors["global_step"]
