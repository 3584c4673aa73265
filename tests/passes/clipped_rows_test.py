"""Embeddings with max_norm after the pass: one op for the rows of all, one for their gradients, with TensorFlow's bits."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import as_input, check_same, check_second_run, check_waits, minimized, run, running, v1, variable

import tf_booster
from tf_booster import _native
from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.clipped_rows import ClippedRows
from tf_booster.passes.hash_tables import HashTables
from tf_booster.passes.partitioned_lookups import PartitionedLookups
from tf_booster.passes.sparse_lookups import SparseLookups
from tf_booster.passes.templates import Template
from tf_booster.passes.variable_gathers import VariableGathers
from tf_booster.passes.variable_updates import VariableUpdates

PASS = [ClippedRows()]
# TensorFlow 2.15's Eigen adds rows up in the order that the kernels follow.
EXACT = tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 15)


def ids(seed, size, high):
    return as_input(np.random.RandomState(seed).randint(0, high, size))


def check(program, passes=(), **kwargs):
    if EXACT:
        return check_same(program, passes or PASS, **kwargs)
    expected, outcome = run(program, **kwargs), run(program, passes or PASS, **kwargs)
    for a, b in zip(expected.values, outcome.values):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return outcome


def ops_of(outcome, op_type):
    return [op for op in outcome.graph.get_operations() if op.type == op_type]


@pytest.mark.parametrize("rows", [1, 7, 8, 40, 333])
def test_all_widths_and_sizes_of_batches(rows):
    dims = [1, 2, 3, 7, 8, 9, 16, 17, 24, 31, 32, 33, 64, 130]

    def program():
        tables = [variable(f"v{i}", 50 + i, dim) for i, dim in enumerate(dims)]
        norms = [0.5 * dim**0.5 * (1.0 + i % 3) for i, dim in enumerate(dims)]
        return minimized([tf.nn.embedding_lookup(t, ids(i, rows, 50), norms[i]) for i, t in enumerate(tables)])

    outcome = check(program)
    (forward,), (backward,) = ops_of(outcome, "TfBoosterClipRows"), ops_of(outcome, "TfBoosterClipRowsGrad")
    assert forward.get_attr("N") == backward.get_attr("N") == len(dims)
    counts = running(outcome.graph, outcome.graph.get_operation_by_name("Adagrad"))
    assert counts["RealDiv"] == counts["SqrtGrad"] == counts["Maximum"] == counts["Select"] == 0


def test_rows_of_zeros_and_of_exactly_the_norm():
    values = np.array(
        [[0, 0, 0, 0], [3, 4, 0, 0], [3e-20, 4e-20, 0, 0], [-3, 4, 0, 0], [1e20, 1e20, 0, 0], [6, 8, 0, 0]]
    )

    def program():
        tables = [
            v1.Variable(tf.constant(values * scale, tf.float32), name=f"v{scale}", use_resource=True)
            for scale in (1, 5)
        ]
        return minimized([tf.nn.embedding_lookup(t, ids(i, 40, 6), 5.0) for i, t in enumerate(tables)])

    assert len(ops_of(check(program), "TfBoosterClipRowsGrad")) == 1


@pytest.mark.parametrize("shape", [(5, 3), (0,), (2, 2, 2)])
def test_ids_of_any_rank(shape):
    def program():
        return minimized([tf.nn.embedding_lookup(variable(f"v{i}", 9, 4), ids(i, shape, 9), 1.0) for i in range(3)])

    assert len(ops_of(check(program), "TfBoosterClipRowsGrad")) == 1


def test_lookups_of_all_kinds_with_the_other_passes():
    def program():
        features = {f"f{i}": ids(i, (30, 2), 9) for i in range(5)}
        with v1.variable_scope("whole", use_resource=True):
            columns = [tf.feature_column.categorical_column_with_identity(key, 9) for key in features]
            whole = v1.feature_column.input_layer(
                features, [tf.feature_column.embedding_column(c, 4, max_norm=0.3) for c in columns[:3]]
            )
        with v1.variable_scope("parts", use_resource=True, partitioner=v1.fixed_size_partitioner(2)):
            parts = v1.feature_column.input_layer(
                features, [tf.feature_column.embedding_column(c, 6, max_norm=0.4) for c in columns[3:]]
            )
        return minimized([whole, parts])

    chosen = [SparseLookups(), PartitionedLookups(), VariableGathers(), ClippedRows(), VariableUpdates()]
    outcome = check(program, chosen)
    assert sum(op.get_attr("N") for op in ops_of(outcome, "TfBoosterClipRowsGrad")) == 5
    (train,) = [op for op in outcome.graph.get_operations() if op.name == "Adagrad"]
    assert running(outcome.graph, train)["Sqrt"] == 0


def test_under_a_global_norm_and_where_the_lookup_waits_for_another():
    def program():
        first = tf.nn.embedding_lookup(variable("a", 9, 4), ids(0, 20, 9), 1.0)
        second = tf.nn.embedding_lookup(variable("b", 9, 4), tf.argmax(first, 1), 1.0)
        optimizer = v1.train.AdagradOptimizer(0.1)
        loss = tf.reduce_sum(tf.sin(first)) + tf.reduce_sum(tf.cos(second))
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        clipped, _ = tf.clip_by_global_norm(gradients, 0.5)
        return [first, second, loss, optimizer.apply_gradients(zip(clipped, variables))]

    assert len(ops_of(check(program), "TfBoosterClipRows")) == 2


def test_gradients_that_come_through_a_join():
    """tf.gradients has them wait for those of all that is joined."""

    def program():
        rows = [tf.nn.embedding_lookup(variable(f"v{i}", 9, 4), ids(i, 20, 9), 1.0) for i in range(3)]
        return minimized([tf.concat([*rows, tf.nn.embedding_lookup(variable("x", 9, 4), ids(7, 20, 9))], 1)])

    (backward,) = ops_of(check(program), "TfBoosterClipRowsGrad")
    assert backward.get_attr("N") == 3


def test_where_nothing_trains():
    def program():
        tables = [variable(f"v{i}", 9, 4) for i in range(3)]
        return [tf.nn.embedding_lookup(t, ids(i, 20, 9), 1.0) * 2.0 for i, t in enumerate(tables)]

    outcome = check(program)
    assert len(ops_of(outcome, "TfBoosterClipRows")) == 1 and not ops_of(outcome, "TfBoosterClipRowsGrad")


def test_in_front_of_hash_tables():
    with tf.Graph().as_default() as graph:
        tables = [tf_booster.get_hash_table(f"t{i}", 4, seed=1) for i in range(3)]
        keys = [v1.placeholder_with_default(tf.constant([3, 7, 3], tf.int64), [None]) for _ in tables]
        rows = [tf.clip_by_norm(tf_booster.embedding_lookup(t, k), 0.2, axes=[1]) for t, k in zip(tables, keys)]
        loss, train = minimized(rows)[-2:]
        report = pipelines.rewrite(graph, Options(), only=[HashTables(), ClippedRows()])
        assert report.passes[1].modified
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            losses = [session.run([loss, train])[0] for _ in range(5)]
        assert losses[-1] < losses[0]


def test_what_is_left():
    def by_columns():
        return [tf.clip_by_norm(variable("a", 9, 4), 1.0, axes=[0])]

    def whole():
        return [tf.clip_by_norm(tf.nn.embedding_lookup(variable("a", 9, 4), ids(0, 5, 9)), 1.0)]

    def doubles():
        return [tf.nn.embedding_lookup(variable("a", 9, 4, tf.float64), ids(0, 5, 9), 1.0)]

    def by_hand():  # Not as TensorFlow clips.
        rows = tf.nn.embedding_lookup(variable("a", 9, 4), ids(0, 5, 9))
        return [rows / tf.maximum(tf.norm(rows, axis=1, keepdims=True), 1.0)]

    for program in (by_columns, whole, doubles, by_hand):
        assert not ops_of(check(program), "TfBoosterClipRows")


def test_a_part_of_it_that_is_wanted_stays():
    """A norm that is also in the loss has a gradient of its own, which the new op would not have."""

    def program():
        rows = tf.nn.embedding_lookup(variable("a", 9, 4), ids(0, 20, 9))
        clipped = tf.clip_by_norm(rows, 1.0, axes=[1])
        squares = next(op for op in v1.get_default_graph().get_operations() if op.name.endswith("clip_by_norm/Sum"))
        return minimized([clipped, squares.outputs[0]])

    outcome = check(program)
    assert not ops_of(outcome, "TfBoosterClipRows")
    (skipped,) = outcome.report.passes[0].skipped
    assert "gradient is not only clip_by_norm's" in skipped[1]


def test_a_second_run_changes_nothing():
    def program():
        minimized([tf.nn.embedding_lookup(variable(f"v{i}", 9, 4), ids(i, 5, 9), 1.0) for i in range(2)])

    check_second_run(program, [], ClippedRows())


def test_clipped_rows_wait_for_what_tensorflow_waited_for():
    check_waits(
        lambda: [as_input(np.full([4, 3], i, np.float32)) for i in (1.0, 2.0)],
        lambda rows: [tf.clip_by_norm(tf.ensure_shape(r, [None, 3]), 0.5, axes=[1]) for r in rows],
        [ClippedRows()],
        "TfBoosterClipRows",
    )


def test_a_template_is_met_by_the_same_ops_alone():
    build = lambda x, y: tf.tanh(x * 2.0) + y  # noqa: E731
    template = Template({"x": (tf.float32, [None, 3]), "y": (tf.float32, [3])}, build)
    with tf.Graph().as_default():
        x, y = v1.placeholder(tf.float32, [None, 3]), v1.placeholder(tf.float32, [3])
        match = template.match(tf.identity(build(tf.identity(x), y)))
        assert match.holes["x"] is x and match.holes["y"] is y
        assert sorted(op.type for op in match.ops) == ["AddV2", "Const", "Mul", "Tanh"]
        others = [tf.tanh(x * 3.0) + y, tf.sinh(x * 2.0) + y, tf.tanh(x * 2.0) - y, tf.tanh(2.0 * x) + y]
        assert [template.match(other) for other in others] == [None] * 4
        with tf.control_dependencies([tf.debugging.Assert(x[0, 0] > 0, [x])]):
            assert template.match(build(x, y)) is not None  # Who takes its place waits as well.
    twice = Template({"x": (tf.float32, []), "y": (tf.float32, [])}, lambda x, y: x * y + x)
    with tf.Graph().as_default():
        a, b, c = (v1.placeholder(tf.float32, []) for _ in range(3))
        assert twice.match(a * b + a) is not None and twice.match(a * b + c) is None


@pytest.mark.parametrize(
    "inputs, message",
    [
        (dict(rows=[tf.ones([2, 2])], max_norms=[1.0, 2.0]), "2 max_norms, wanted 1"),
        (dict(rows=[tf.ones([2, 2])], max_norms=[0.0]), r"max_norms\[0\] is 0, wanted above 0"),
        (dict(rows=[tf.ones([])], max_norms=[1.0]), "at least rank 1"),
    ],
)
def test_inputs_that_cannot_be(inputs, message):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=message):
        _native.ops().tf_booster_clip_rows(
            **{k: [tf.constant(t.numpy()) for t in v] if k == "rows" else v for k, v in inputs.items()}
        )


def test_gradients_of_another_shape():
    with tf.Graph().as_default(), v1.Session() as session:
        rows, gradients = (v1.placeholder_with_default(np.ones((n, 2), np.float32), None) for n in (2, 3))
        (made,) = _native.ops().tf_booster_clip_rows_grad([gradients], [rows], max_norms=[1.0])
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"gradients\[0\] has shape \[3,2\], its rows \[2,2\]"):
            session.run(made)
