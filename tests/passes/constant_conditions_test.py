"""The pass constant_conditions: the branch that is always taken is in the place of the tf.cond, with the same bits and the same side effects."""

import random

import numpy as np
import pytest
import tensorflow as tf

from tf_booster import _compat
from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.conditional_updates import ConditionalUpdates
from tf_booster.passes.constant_conditions import ConstantConditions
from tf_booster.passes.fetches import executed_ops
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.variable_updates import VariableUpdates

v1 = tf.compat.v1
EXACT = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
EXACT.graph_options.rewrite_options.disable_meta_optimizer = True
ASKING = ("If", "StatelessIf", "Switch", "RefSwitch", "Merge", "RefMerge")


pytestmark = pytest.mark.usefixtures("control_flow")


class Outcome:
    """What a program's runs gave, and the graph that gave it; values: of the Variables afterwards."""

    def __init__(self, graph, report, results, values):
        self.graph, self.report, self.results, self.values = graph, report, results, values

    def asking(self):
        """The ops of what is run that ask for a condition."""
        return [op.name for op in executed_ops(GraphView(self.graph)) if op.type in ASKING]


def run(build, passes=(), feeds=({},)):
    """build() returns (fetches, feeds by name -> placeholder)."""
    with tf.Graph().as_default() as graph:
        fetches, places = build()
        initialize, variables = v1.global_variables_initializer(), v1.global_variables()
        values = {v.name: v.read_value() if hasattr(v, "read_value") else v for v in variables}
        for op in tf.nest.flatten(fetches):
            graph.add_to_collection(v1.GraphKeys.TRAIN_OP, op)  # Which says what is run.
        report = pipelines.rewrite(graph, Options(), only=list(passes)) if passes else None
        with v1.Session(config=EXACT) as session:
            session.run(initialize)
            results = [session.run(fetches, {places[name]: value for name, value in fed.items()}) for fed in feeds]
            return Outcome(graph, report, results, session.run(values))


def check(build, feeds=({},), passes=None):
    """The outcome of the program with the pass, which is that of the program without."""
    plain, boosted = run(build, feeds=feeds), run(build, passes or [ConstantConditions()], feeds)
    tf.nest.map_structure(np.testing.assert_array_equal, plain.results, boosted.results)
    tf.nest.map_structure(np.testing.assert_array_equal, plain.values, boosted.values)
    return boosted


def changes(outcome):
    (entry,) = [p for p in outcome.report.to_dict()["passes"] if p["name"] == "constant_conditions"]
    assert not entry["skipped"], "the pass has failed"
    return entry["changes"]


def variable(name, value=1.0, by_reference=False):
    return v1.get_variable(name, [2], initializer=v1.constant_initializer(value), use_resource=not by_reference)


CONDITIONS = {
    "constant": lambda: (tf.constant(True), True),
    "cast": lambda: (tf.cast(0, tf.bool), False),
    "cast of a float": lambda: (tf.cast(tf.constant(0.5), tf.bool), True),
    "cast to an integer": lambda: (tf.equal(tf.cast(tf.constant(0.5), tf.int32), 0), True),
    "not": lambda: (tf.logical_not(tf.constant(True)), False),
    "text": lambda: (tf.equal(tf.constant("train"), "train"), True),
    "other text": lambda: (tf.not_equal(tf.constant("train"), "train"), False),
    "number": lambda: (tf.greater(tf.constant(3), 2), True),
    "both": lambda: (tf.logical_and(tf.constant(True), tf.less(1.0, 0.5)), False),
    "identity": lambda: (tf.identity(tf.constant(False)), False),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_what_follows_from_constants_is_not_asked_for(name):
    def build():
        condition, _ = CONDITIONS[name]()
        x = v1.placeholder(tf.float32, [2], "x")
        return tf.cond(condition, lambda: x + 1, lambda: x * 3, name="choice"), {"x": x}

    made = check(build, [{"x": [1.0, 5.0]}])
    assert not [op for op in made.asking() if not op.startswith(("choice/Merge", "tf_booster/choice/Merge"))]
    assert changes(made) == ["'choice' takes the same branch at every run, which runs without asking"]
    x = made.graph.get_operation_by_name("x").outputs[0]
    assert not {op.type for op in x.consumers()}.intersection(ASKING), (
        "who follows x finds that it leads into a tf.cond"
    )
    assert not GraphView(made.graph).functions_with("AddV2", "Mul")
    with tf.Graph().as_default():
        _, taken = CONDITIONS[name]()
    np.testing.assert_array_equal(made.results[0], [2, 6] if taken else [3, 15])


@pytest.mark.parametrize(
    "make",
    [
        lambda: v1.placeholder_with_default(True, []),
        lambda: tf.equal(tf.random.uniform([], 0, 1, tf.int32, seed=1), 0),
        lambda: tf.cast(variable("v")[0], tf.bool),
    ],
    ids=["default", "random", "Variable"],
)
def test_what_may_be_another_at_another_run_is_asked_for(make):
    made = run(lambda: (tf.cond(make(), lambda: 1.0, lambda: 2.0), {}), [ConstantConditions()])
    assert changes(made) == [] and made.asking()


def test_a_placeholder_with_a_default_is_fed():
    def build():
        flag = v1.placeholder_with_default(True, [])
        return tf.cond(flag, lambda: 1.0, lambda: 2.0), {"flag": flag}

    assert check(build, [{"flag": False}, {"flag": True}, {}]).results == [2.0, 1.0, 1.0]


def layers(x, train, how):
    """Two layers with batch normalization as programs write them that are told by a number whether they train."""
    for i in range(2):
        x = v1.layers.dense(x, 4, name=f"dense{i}", kernel_initializer=v1.glorot_uniform_initializer(i))
        norm = lambda on, x=x, i=i: v1.layers.batch_normalization(x, training=on, name=f"bn{i}", reuse=v1.AUTO_REUSE)
        if how == "outside":
            known = {on: norm(on) for on in (True, False)}
            x = tf.cond(tf.cast(train, tf.bool), lambda known=known: known[True], lambda known=known: known[False])
        else:
            with v1.variable_scope("", use_resource=True):
                norm(False)  # In control flow v2 a Variable cannot be made in a branch.
            x = tf.cond(tf.cast(train, tf.bool), lambda norm=norm: norm(True), lambda norm=norm: norm(False))
        x = tf.nn.relu(x)
    return x


@pytest.mark.parametrize("train", [1, 0])
@pytest.mark.parametrize("how", ["outside", "inside"])
def test_batch_normalization_by_a_number(how, train, control_flow):
    def build():
        with v1.variable_scope("", use_resource=True):
            x = tf.constant(np.random.RandomState(0).randn(8, 3), tf.float32)
            loss = tf.reduce_mean(tf.square(layers(x, train, how)))
            updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
            # In control flow v2 a branch is another graph; what waits for ops of the branch that is not taken would not run, and averages
            # that are read without an order beside their updates would be what they were or what they will be.
            updates = [op for op in updates if train and op.graph is v1.get_default_graph()]
            with tf.control_dependencies(updates):
                op = v1.train.AdamOptimizer(0.01).minimize(loss)
        return [op, loss], {}

    made = check(build, [{}] * 3)
    assert not made.asking() and not [op for op in executed_ops(GraphView(made.graph)) if "Optional" in op.type]
    fused = check(build, [{}] * 3, [ConstantConditions(), VariableUpdates()])
    left = {v["name"]: v["reason"] for v in fused.report.variables if v["optimizer"] and not v["fused_into"]}
    # In control flow v2 TensorFlow does not run an update of a branch that nothing in it waits for.
    waited_for = train and (control_flow, how) != ("v2", "inside")
    assert not left if waited_for else all("moving" in name for name in left)


@pytest.mark.parametrize("train", [True, False])
def test_training_in_a_cond(train):
    def build():
        x = v1.placeholder(tf.float32, [None, 2])
        w = [variable(f"w{i}", 0.1 * i) for i in range(3)]
        step = v1.train.get_or_create_global_step()
        loss = tf.add_n([tf.reduce_mean(tf.square(x * each - 1)) for each in w])
        rows = v1.get_variable("rows", [5, 2], initializer=v1.ones_initializer(), use_resource=True)
        loss += tf.reduce_sum(tf.square(tf.gather(rows, [1, 3])))

        def minimize():
            looked_up = tf.reduce_sum(tf.square(tf.gather(others, [[0], [3]])))
            return tf.group(v1.train.AdagradOptimizer(0.1).minimize(loss + looked_up, step))

        others = v1.get_variable("others", [4, 1], initializer=v1.ones_initializer(), use_resource=True)
        return [tf.cond(tf.constant(train), minimize, lambda: tf.group()), loss], {"x": x}

    feeds = [{"x": np.random.RandomState(i).randn(3, 2)} for i in range(3)]
    made = check(build, feeds, [ConstantConditions(), VariableUpdates()])
    assert made.values["global_step:0"] == 3 * train
    if train:
        assert (
            len(
                {
                    v["fused_into"]
                    for v in made.report.variables
                    if v["optimizer"] and "Sparse" not in v["optimizer"] and v["name"].startswith("w")
                }
            )
            == 1
        )


def test_a_merge_that_is_fetched_by_name_gives_what_it_gave():
    """As a hook does that logs the result of a tf.cond."""

    def build():
        x = v1.placeholder(tf.float32, [])
        y = tf.cond(tf.constant(False), lambda: x + 1, lambda: x - 1, name="choice")
        hidden = y * 2
        return [hidden], {"x": x}

    with tf.Graph().as_default() as graph:
        fetches, places = build()
        graph.add_to_collection(v1.GraphKeys.TRAIN_OP, fetches[0])
        choice = [op for op in graph.get_operations() if op.name in ("choice/Merge", "choice/Identity")]
        pipelines.rewrite(graph, Options(), only=[ConstantConditions()])
        with v1.Session() as session:
            assert session.run([choice[0].outputs[0], fetches], {places["x"]: 5.0}) == [4.0, [8.0]]


def test_a_merge_tells_which_branch_was_taken():
    def build():
        x = v1.placeholder(tf.float32, [])
        sides = tf.raw_ops.Switch(data=x, pred=tf.constant(True))
        merged = tf.raw_ops.Merge(inputs=[sides.output_false - 1, sides.output_true + 1])
        return [merged.output * 2, merged.value_index + 10], {"x": x}

    assert check(build, [{"x": 3.0}]).results == [[8.0, 11]]


def test_what_waits_for_a_branch_that_is_not_taken_does_not_run():
    def build():
        counter = v1.get_variable("counter", [], initializer=v1.zeros_initializer(), use_resource=True)
        sides = tf.raw_ops.Switch(data=tf.constant(1.0), pred=tf.constant(True))
        dead, live = tf.identity(sides.output_false).op, tf.identity(sides.output_true).op
        with tf.control_dependencies([dead]):
            never = counter.assign_add(100.0, read_value=False)
            late = tf.raw_ops.Switch(data=tf.constant(1.0), pred=tf.constant(True)).output_true
            also_never = counter.assign_add(tf.identity(late), read_value=False)
        with tf.control_dependencies([live]):
            always = counter.assign_add(1.0, read_value=False)
        return [never, also_never, always], {}

    assert check(build, [{}, {}]).values == {"counter:0": 2.0}


def test_a_switch_that_waits_for_a_branch_that_is_not_taken_gives_nothing():
    def build():
        counter = v1.get_variable("counter", [], initializer=v1.zeros_initializer(), use_resource=True)
        pred, data = tf.constant(True), tf.constant(1.0)
        sides = tf.raw_ops.Switch(data=data, pred=pred)
        with tf.control_dependencies([tf.identity(sides.output_false).op]):
            late = tf.raw_ops.Switch(data=data, pred=pred).output_true
        return [counter.assign_add(late + 1.0, read_value=False), sides.output_true + 2.0], {}

    made = check(build, [{}, {}])
    assert made.values == {"counter:0": 0.0} and made.results == [[None, 3.0]] * 2


def test_a_merge_of_what_waits_for_a_branch_that_is_not_taken():
    def build():
        sides = tf.raw_ops.Switch(data=tf.constant(1.0), pred=tf.constant(True))
        with tf.control_dependencies([tf.identity(sides.output_false).op]):
            dead = tf.constant(5.0) + 1
        live = sides.output_true + 1
        merged, threefold = tf.raw_ops.Merge(inputs=[dead, live]).output, live * 3
        with tf.control_dependencies([dead.op]):  # A Merge runs all the same.
            other = tf.raw_ops.Merge(inputs=[dead, threefold]).output
        return [merged * 2, other * 2], {}

    made = check(build, [{}])
    assert made.results == [[4.0, 12.0]] and not made.asking()


def test_a_function_in_a_branch_of_the_graph_stays_there():
    """Control flow v2 in v1, as where a library switches it on for its own layers."""

    def build():
        flag = v1.placeholder(tf.bool, [])
        counter = v1.get_variable("counter", [], initializer=v1.zeros_initializer(), use_resource=True)

        def count():
            with tf.control_dependencies([counter.assign_add(1.0, read_value=False)]):
                return tf.identity(1.0)

        def branch():
            v1.enable_control_flow_v2()
            result = tf.cond(tf.constant(True), count, lambda: 2.0)
            v1.disable_control_flow_v2()
            return result + 1.0

        v1.disable_control_flow_v2()
        return [tf.cond(flag, branch, lambda: 5.0)], {"flag": flag}

    made = check(build, [{"flag": True}, {"flag": False}])
    assert made.values == {"counter:0": 1.0}


def test_what_waits_for_a_tf_cond_waits_for_all_of_its_branch():
    def build():
        counter = v1.get_variable("counter", [], initializer=v1.zeros_initializer(), use_resource=True)

        def count():
            with tf.control_dependencies([counter.assign_add(1.0, read_value=False)]):
                return tf.identity(counter.read_value()) * 10.0

        result = tf.cond(tf.constant(True), count, lambda: 2.0)
        asks = result.op.inputs[0].op if result.op.type == "Identity" else result.op  # The If or the Merge itself.
        with tf.control_dependencies([asks]):
            return [counter.read_value()], {}

    # TensorFlow itself may let what waits for an If run once it is known which branch is taken.
    made = run(build, [ConstantConditions()], [{}, {}])
    assert made.results == [[1.0], [2.0]] and not made.asking()


def test_branches_of_other_shapes():
    def build():
        x = v1.placeholder(tf.float32, [3, 1])
        sides = tf.raw_ops.Switch(data=x, pred=tf.constant(False))
        merged = tf.raw_ops.Merge(inputs=[sides.output_true, tf.gather(sides.output_false, [0, 2])]).output
        return [merged * 2], {"x": x}

    made = check(build, [{"x": [[1.0], [2.0], [3.0]]}])
    assert changes(made) and not made.asking()


def test_a_reference_that_becomes_a_value():
    def build():
        v = variable("v", 1.0, by_reference=True)
        before = tf.raw_ops.Switch(data=v, pred=tf.constant(True)).output_true
        with tf.control_dependencies([before.op]):
            assigned = v1.assign(v, [7.0, 8.0])
        with tf.control_dependencies([assigned]):
            return [before * 2], {}

    assert changes(check(build, [{}]))


def test_updates_under_a_condition_in_a_branch_that_is_taken():
    """Pass conditional_updates takes them out of a tf.cond that is in no other."""

    def build():
        flag = v1.placeholder(tf.bool, [])
        w = [variable(f"w{i}", 0.1 * i) for i in range(3)]
        optimizer = v1.train.AdagradOptimizer(0.1)
        pairs = optimizer.compute_gradients(tf.add_n([tf.reduce_sum(tf.square(each - 1)) for each in w]))
        inner = lambda: tf.cond(flag, lambda: tf.group(optimizer.apply_gradients(pairs)), tf.no_op)  # noqa: E731
        return [tf.cond(tf.constant(True), inner, lambda: True)], {"flag": flag}

    feeds = [{"flag": True}, {"flag": False}, {"flag": True}]
    made = check(build, feeds, [ConstantConditions(), ConditionalUpdates(), VariableUpdates()])
    assert all(v["fused_into"] for v in made.report.variables if v["optimizer"])


def test_a_frozen_graph_is_that_of_the_program():
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [2], "x")
        result = tf.cond(tf.constant(True), lambda: x * variable("v", 3.0), lambda: x, name="choice")
        result = tf.identity(result, "result")
        graph.add_to_collection(v1.GraphKeys.TRAIN_OP, result)
        pipelines.rewrite(graph, Options(), only=[ConstantConditions()])
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            frozen = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["result"])
    with tf.Graph().as_default():
        (result,) = tf.graph_util.import_graph_def(frozen, return_elements=["result:0"], name="")
        with v1.Session() as session:
            np.testing.assert_array_equal(session.run(result, {"x:0": [1.0, 2.0]}), [3.0, 6.0])


def test_a_dead_loop():
    def build():
        x = v1.placeholder(tf.float32, [])
        more = lambda: tf.while_loop(lambda i: i < 10, lambda i: [i * 2], [x])  # noqa: E731
        return tf.cond(tf.constant(False), more, lambda: [x])[0] + 1, {"x": x}

    assert not check(build, [{"x": 2.0}]).asking()


def test_a_condition_within_a_loop_stays(control_flow):
    def build():
        body = lambda i, x: (i + 1, tf.cond(tf.constant(True), lambda: x + 1, lambda: x * 2))  # noqa: E731
        return tf.while_loop(lambda i, x: i < 3, body, [0, v1.placeholder_with_default(1.0, [])])[1], {}

    made = run(build, [ConstantConditions()])
    assert made.results == [4.0] and changes(made) == []


@pytest.mark.parametrize("computed", [False, True])
def test_a_constant_that_is_fed_is_refused(computed):
    with tf.Graph().as_default() as graph:
        flag = tf.cast(tf.constant(1), tf.bool) if computed else tf.constant(True)
        result = tf.cond(flag, lambda: 1.0, lambda: 2.0) + 1
        graph.add_to_collection(v1.GraphKeys.TRAIN_OP, result)
        pipelines.rewrite(graph, Options(), only=[ConstantConditions()])
        with v1.Session() as session:
            assert session.run(result) == 2.0
            with pytest.raises(ValueError, match="disable_passes"):
                session.run(result, {flag: False})


def test_a_second_run_changes_nothing():
    with tf.Graph().as_default() as graph:
        x = variable("x")
        result = tf.cond(tf.constant(True), lambda: x + 1, lambda: x * 2)
        graph.add_to_collection(v1.GraphKeys.TRAIN_OP, result)
        view = GraphView(graph)
        assert ConstantConditions().run(view).modified
        view.commit()
        count = len(graph.get_operations())
        assert not ConstantConditions().requires(view) and not ConstantConditions().run(view).modified
        ConstantConditions().ensures(view)
        assert len(graph.get_operations()) == count


def test_a_pass_that_fails_leaves_the_tf_conds(monkeypatch):
    def build():
        x = variable("x")
        inner = lambda: tf.cond(tf.cast(x[0], tf.bool), lambda: x - 5, lambda: x)  # noqa: E731
        return tf.cond(tf.constant(True), inner, lambda: x * 2), {}

    def fail(self, view):
        raise ValueError("on purpose")

    contexts = lambda graph: {op.name: _compat.control_flow_context(op) for op in graph.get_operations()}  # noqa: E731
    monkeypatch.setattr(ConstantConditions, "ensures", fail)
    with tf.Graph().as_default() as graph:
        fetches, _ = build()
        graph.add_to_collection(v1.GraphKeys.TRAIN_OP, fetches)
        before, definition = contexts(graph), graph.as_graph_def()
        pipelines.rewrite(graph, Options(), only=[ConstantConditions()])
        assert {name: contexts(graph)[name] for name in before} == before
        nodes = {node.name: node for node in graph.as_graph_def().node}
        assert all(list(nodes[node.name].input) == list(node.input) for node in definition.node)


def test_an_imported_graph_with_loops_that_does_not_say_where_stays(control_flow):
    if control_flow == "v2":
        return  # Loops are functions there.
    with tf.Graph().as_default() as made:
        body = lambda i: tf.cond(tf.constant(True), lambda: i + 1, lambda: i * 2)  # noqa: E731
        tf.identity(tf.while_loop(lambda i: i < 3, body, [0]), name="result")
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(made.as_graph_def(), name="")
        assert not ConstantConditions().requires(GraphView(graph))


# --- Programs put together at random ---


class Program:
    """Arithmetic, reads and writes of Variables, tf.conds in each other by constants and by what is fed, loops; each side effect waits for the one before."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.by_reference = not v1.control_flow_v2_enabled()  # A function cannot write these.
        self.flags = {f"flag{i}": v1.placeholder(tf.bool, [], name=f"flag{i}") for i in range(2)}
        self.variables = [
            variable(f"v{i}", 0.5 + i, self.by_reference and self.random.random() < 0.3) for i in range(3)
        ]
        self.last = None
        self.count = 0

    def build(self):
        x = v1.placeholder_with_default(tf.constant([0.3, -0.7]), [2])
        given = [x]
        outputs = self.block(given, 3, 4)
        loss = tf.reduce_sum(tf.add_n([tf.sin(o) for o in outputs]))
        gradients = [g for g in tf.gradients(loss, [x, *self.variables]) if g is not None]
        return [loss, *outputs, *[tf.convert_to_tensor(g) for g in gradients]], self.flags

    def block(self, given, depth, size):
        """Two values of what `size` statements make."""
        values = list(given)
        for _ in range(size):
            values.append(self.statement(values, depth))
        with self.after():
            return [tf.identity(values[-1]), tf.identity(self.random.choice(values))]

    def after(self):
        return tf.control_dependencies([] if self.last is None else [self.last])

    def statement(self, values, depth):
        pick = lambda: self.random.choice(values)  # noqa: E731
        kind = self.random.choice(["add", "mul", "tanh", "read", "write", "cond", "cond", "cond", "loop"])
        if kind == "add":
            return pick() + pick()
        if kind == "mul":
            return pick() * pick()
        if kind == "read":
            with self.after():
                read = tf.identity(self.random.choice(self.variables)) * 1.0
                self.last = read.op
            return read
        if kind == "write":
            with self.after():
                written = self.random.choice(self.variables).assign_add(0.1 * pick())
                with tf.control_dependencies([written]):
                    self.last = tf.no_op()
            return tf.tanh(pick())
        if kind == "cond" and depth:
            return self.cond(values, depth)
        if kind == "loop" and depth == 3:
            start = pick()
            body = lambda i, x: (i + 1, tf.cond(tf.constant(True), lambda: x * 0.5, lambda: x))  # noqa: E731
            return tf.while_loop(lambda i, x: i < 2, body, [0, start])[1]
        return tf.tanh(pick())

    def cond(self, values, depth):
        early = self.condition()
        with self.after():
            pred = early if self.random.random() < 0.5 else self.condition()
            made = tf.cond(pred, lambda: self.branch(values, depth), lambda: self.branch(values, depth))
        if made:
            self.last = tf.group(*made)
        return self.random.choice(made)

    def branch(self, values, depth):
        outside, self.last = self.last, None
        if self.random.random() < 0.2:
            made = [values[-1], values[0]]
        else:
            made = self.block(values, depth - 1, self.random.randint(1, 3))
        self.last = outside
        return made

    def condition(self):
        kind = self.random.choice(["true", "false", "cast", "text", "fed", "mixed"])
        flag = self.random.choice(list(self.flags.values()))
        return {
            "true": lambda: tf.constant(True),
            "false": lambda: tf.constant(False),
            "cast": lambda: tf.cast(self.random.randint(0, 1), tf.bool),
            "text": lambda: tf.equal(tf.constant(self.random.choice("ab")), "a"),
            "fed": lambda: flag,
            "mixed": lambda: tf.logical_and(flag, tf.constant(True)),
        }[kind]()


FEEDS = [{"flag0": a, "flag1": b} for a, b in [(True, True), (False, True), (True, False), (False, False)]]


@pytest.mark.seeds(*range(12))
def test_programs_put_together_at_random(seed):
    check(lambda: Program(seed).build(), FEEDS)


@pytest.mark.parametrize("train", [0, 1])
@pytest.mark.parametrize("shared", [False, True])
def test_updates_that_only_the_branch_that_is_not_taken_reads_go_on(train, shared):
    """Both normalizations are built outside, one moves the averages. shared: what is read by both branches waits for them."""

    def build():
        mean = variable("mean")
        x = v1.placeholder(tf.float32, [3], "x")
        with tf.control_dependencies([mean.assign_sub((mean - tf.reduce_mean(x)) * 0.1)]):
            moving = tf.identity(x - tf.reduce_mean(x))
        fixed = moving * 2.0 if shared else x * 2.0
        chosen = tf.cond(tf.cast(train, tf.bool), lambda: moving * 3.0, lambda: fixed - 1.0)
        return tf.identity(chosen), {"x": x}

    outcome = check(build, feeds=[{"x": [1.0, 2.0, 4.0]}] * 3)
    assert bool(outcome.asking()) == (not train and not shared)


def test_the_pass_can_be_left_out():
    assert "constant_conditions" in [p.name for p in pipelines.passes(Options())]
    left = Options(disable_passes=("constant_conditions",))
    assert "constant_conditions" not in [p.name for p in pipelines.passes(left)]


def test_branches_that_hand_on_what_others_give():
    def build():
        x = v1.placeholder(tf.float32, [2])
        first = tf.cond(tf.constant(True), lambda: x * 2.0, lambda: x)
        second = tf.cond(tf.constant(True), lambda: first, lambda: x + 1.0)
        third = tf.cond(tf.constant(False), lambda: x, lambda: second)
        return [first * 2.0, second * 3.0, third + 1.0], {"x": x}

    outcome = check(build, [{"x": [1.0, -3.0]}])
    assert len(changes(outcome)) == 3 and not outcome.asking()


def test_branches_that_wait_for_what_they_are_given():
    def build():
        x = v1.placeholder(tf.float32, [2])
        kept = variable("kept")
        added = kept.assign_add(x)

        def waiting():
            with tf.control_dependencies([added]):
                return x * 3.0

        return [tf.cond(tf.constant(True), waiting, lambda: x)], {"x": x}

    outcome = check(build, [{"x": [1.0, -3.0]}, {"x": [2.0, 2.0]}])
    assert len(changes(outcome)) == 1
