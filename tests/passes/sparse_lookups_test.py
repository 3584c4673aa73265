"""Sparse lookups after the passes: the same bits as TensorFlow's, forward, backward and after training, by three ops."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import (
    as_input,
    check_same,
    lookup_passes,
    minimized,
    ragged_ids,
    run,
    running,
    sparse_input,
    sparse_tensor,
    v1,
    variable,
)

from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.sparse_lookups import SparseLookups

GONE = ["SparseFillEmptyRows", "Unique", "GatherV2", "Where", "Select", "SparseReshape", "SegmentSum",
        "SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentMeanGrad"]  # fmt: skip
COMBINERS = ("sum", "mean", "sqrtn")


def safe(*args, **kwargs):
    return tf.nn.safe_embedding_lookup_sparse(*args, **kwargs)


def lookups_of(outcome):
    (result,) = [p for p in outcome.report.passes if p.name == "sparse_lookups"]
    return result


def check_fused(outcome, lookups, gradients=True):
    """All `lookups` are one unit of each kind, and nothing of TensorFlow's chain runs any more."""
    assert lookups_of(outcome).skipped == []
    made = [op for op in outcome.graph.get_operations() if op.type == "TfBoosterPoolLookups"]
    assert [op.get_attr("N") for op in made] == [lookups]
    train = [op for op in outcome.graph.get_operations() if op.type == "NoOp" and op.name in ("Adagrad", "Momentum")]
    assert train
    counts = running(outcome.graph, *train)
    assert counts["TfBoosterPrepareLookups"] == counts["TfBoosterPoolLookups"] == 1
    assert counts["TfBoosterPoolLookupsGrad"] == (1 if gradients else 0)
    assert not [kind for kind in GONE if counts[kind]]


@pytest.mark.parametrize("combiner", COMBINERS)
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_safe_lookups(combiner, dtype):
    def program():
        return minimized(
            [
                safe(variable("a", 40, 7), sparse_input(ragged_ids(1, 30, 40), dtype), combiner=combiner),
                safe(variable("b", 9, 16), sparse_input(ragged_ids(2, 30, 9), dtype), combiner=combiner),
                safe(variable("c", 5, 1), sparse_input([[], [3], [], [4, 4, 4], []], dtype), combiner=combiner),
            ]
        )

    check_fused(check_same(program), 3)


def test_the_same_ids_are_prepared_once():
    def program():
        ids, others = sparse_input(ragged_ids(1, 30, 9)), sparse_input(ragged_ids(2, 30, 9))
        return minimized(
            [
                safe(variable("wide", 9, 1), ids),
                safe(variable("deep", 9, 4), ids, combiner="sum"),
                safe(variable("filled", 9, 2), ids, default_id=3),
                safe(variable("others", 9, 3), others),
            ]
        )

    outcome = check_same(program)
    assert lookups_of(outcome).skipped == []
    (prepare,) = [op for op in outcome.graph.get_operations() if op.type == "TfBoosterPrepareLookups"]
    assert prepare.get_attr("N") == 3 and list(prepare.get_attr("default_ids")) == [0, 3, 0]


@pytest.mark.parametrize("combiner", COMBINERS)
def test_weights_below_zero_nan_and_zero(combiner):
    def weighted(seed, rows, ids):
        ids = sparse_input(ragged_ids(seed, rows, ids, longest=40))
        with v1.Session() as session:
            n = len(session.run(ids.values))
        weights = np.random.RandomState(seed).standard_normal(n).astype(np.float32)
        weights[:6] = [0.0, -0.0, np.nan, 1e-30, -1.0, 2.0]
        if combiner == "sum":
            weights[2] = 0.5  # Weights are not pruned for a sum, and NaN is unequal to itself.
        return ids, tf.SparseTensor(ids.indices, as_input(weights), ids.dense_shape)

    def program():
        outputs = []
        for i, dim in enumerate((3, 8, 20)):
            ids, weights = weighted(i, 25, 30)
            outputs.append(safe(variable(f"v{i}", 30, dim), ids, weights, combiner=combiner))
        return minimized(outputs)

    check_fused(check_same(program), 3)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("combiner", COMBINERS)
def test_lookups_without_filling(combiner, weighted):
    rows = [[1, 1, 2], [0], [5] * 17 + [3], list(range(9)), list(range(10))]

    def program():
        ids = sparse_input(rows)
        weights = as_input(np.linspace(-1, 2, sum(map(len, rows))).astype(np.float32))
        sparse_weights = tf.SparseTensor(ids.indices, weights, ids.dense_shape) if weighted else None
        lookup = tf.nn.embedding_lookup_sparse
        return minimized(
            [lookup(variable(f"v{i}", 10, 5 + i), ids, sparse_weights, combiner=combiner) for i in range(2)]
        )

    check_fused(check_same(program), 2)


@pytest.mark.parametrize("rows", [[], [[], [], []], [[-1], [-7, -2]]], ids=["no rows", "empty rows", "pruned rows"])
def test_batches_without_ids(rows):
    def program():
        return minimized([safe(variable("v", 6, 4), sparse_input(rows))], v1.train.MomentumOptimizer(0.1, 0.9))

    check_fused(check_same(program), 1)


def test_ids_of_rank_three_and_of_rows_out_of_order():
    indices = np.array([[1, 1, 0], [0, 0, 0], [1, 1, 2], [0, 2, 1], [1, 0, 0], [0, 0, 2]], np.int64)

    def program():
        ids = sparse_tensor(indices, np.array([4, 1, 4, -1, 3, 0]), [2, 3, 4])
        outputs = [safe(variable("a", 6, 4), ids), safe(variable("b", 6, 3), ids, combiner="sum")]
        flat = sparse_tensor(indices[:, :2], np.array([4, 1, 4, 2, 3, 0]), [2, 3])
        outputs.append(safe(variable("c", 6, 3), flat, combiner="sqrtn"))
        return minimized(outputs)

    outcome = check_same(program)
    check_fused(outcome, 3)
    assert outcome.values[0].shape == (2, 3, 4)


def test_ids_that_the_program_reshaped_itself():
    """As TF-Ranking does: lists of documents with some tokens each become documents with some tokens each."""
    indices = np.array([[0, 0, 0], [0, 0, 2], [0, 2, 1], [1, 0, 0], [1, 1, 0], [1, 1, 2]], np.int64)

    def lists():
        ids = sparse_tensor(indices, np.array([4, 1, 4, -1, 3, 0]), [2, 3, 4])
        documents = tf.shape(ids)[:1] * tf.shape(ids)[1:2]
        ids = tf.sparse.reshape(ids, tf.concat([tf.cast(documents, tf.int64), tf.shape(ids, tf.int64)[2:]], 0))
        return minimized([safe(variable("a", 6, 4), ids), safe(variable("b", 6, 3), ids, combiner="sum")])

    def rank_unknown():
        ids = sparse_input([[1], [2, 3]])
        dense_shape = v1.placeholder_with_default(np.array([2, 2]), [None])
        places = v1.placeholder_with_default(np.array([[0, 0], [1, 0], [1, 1]]), [None, None])
        return minimized([safe(variable("v", 20, 4), tf.SparseTensor(places, ids.values, dense_shape))])

    for program, lookups in ((lists, 2), (rank_unknown, 1)):
        outcome = check_same(program)
        assert lookups_of(outcome).skipped == []
        assert [op.get_attr("N") for op in outcome.graph.get_operations() if op.type == "TfBoosterPoolLookups"] == [
            lookups
        ]


def test_default_id_keeps_its_embedding():
    def program():
        ids = sparse_input([[1], [], [2, 2], []])
        return minimized([safe(variable("a", 6, 4), ids, default_id=5), safe(variable("b", 6, 4), ids, default_id=3)])

    check_fused(check_same(program), 2)


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("max_norm", [None, 0.7])
def test_max_norm_and_partitions_stay_in_the_middle(partitions, max_norm):
    def program():
        partitioner = v1.fixed_size_partitioner(partitions)
        outputs = []
        for i in range(2):
            with v1.variable_scope(f"s{i}", use_resource=True):
                table = v1.get_variable(
                    "v", [20, 6], partitioner=partitioner, initializer=v1.random_normal_initializer(seed=i)
                )
            outputs.append(
                v1.nn.safe_embedding_lookup_sparse(table, sparse_input(ragged_ids(i, 12, 20)), max_norm=max_norm)
            )
        return minimized(outputs)

    outcome = check_same(program)
    assert lookups_of(outcome).skipped == []
    assert [op.get_attr("N") for op in outcome.graph.get_operations() if op.type == "TfBoosterPoolLookups"] == [2]


def test_shared_variable_and_doubles():
    def program():
        shared = variable("shared", 30, 5)
        doubles = variable("doubles", 30, 5, tf.float64)
        outputs = [safe(shared, sparse_input(ragged_ids(i, 10, 30)), combiner="sum") for i in range(2)]
        outputs.append(tf.cast(safe(doubles, sparse_input(ragged_ids(5, 10, 30))), tf.float32))
        return minimized(outputs)

    outcome = check_same(program)
    made = [op.get_attr("N") for op in outcome.graph.get_operations() if op.type == "TfBoosterPoolLookups"]
    assert made == [2, 1]


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: v1.train.AdamOptimizer(0.01),
        lambda: v1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
        lambda: v1.train.RMSPropOptimizer(0.01, momentum=0.5),
        lambda: v1.train.GradientDescentOptimizer(0.1),
    ],
)
def test_optimizers_see_the_same_slices(optimizer):
    def program():
        return minimized(
            [safe(variable(f"v{i}", 20, 4), sparse_input(ragged_ids(i, 12, 20))) for i in range(3)], optimizer()
        )

    check_same(program)


def test_clipping_by_global_norm_sees_the_same_values():
    def program():
        outputs = [safe(variable(f"v{i}", 20, 4), sparse_input(ragged_ids(i, 12, 20))) for i in range(3)]
        loss = tf.add_n([tf.reduce_sum(x * x * x) for x in outputs])
        variables = v1.trainable_variables()
        grads = tf.gradients(loss, variables)
        clipped, norm = tf.clip_by_global_norm(grads, 0.5)
        train = v1.train.AdagradOptimizer(0.1).apply_gradients(zip(clipped, variables))
        return [*outputs, norm, *[g.values for g in grads], *[g.indices for g in grads], train]

    check_same(program)


def test_two_gradients_through_one_lookup():
    def program():
        table = variable("v", 20, 4)
        x = safe(table, sparse_input(ragged_ids(0, 12, 20)))
        first, second = tf.reduce_sum(tf.sin(x)), tf.reduce_sum(x * x)
        a, b = v1.train.AdagradOptimizer(0.1), v1.train.MomentumOptimizer(0.1, 0.9)
        grads = [tf.gradients(loss, [table])[0] for loss in (first, second)]
        with tf.control_dependencies([a.apply_gradients([(grads[0], table)])]):
            train = b.apply_gradients([(tf.IndexedSlices(grads[1].values * 2.0, grads[1].indices), table)])
        return [first, second, grads[0].values, grads[1].values, train]

    outcome = check_same(program)
    assert [op.get_attr("N") for op in outcome.graph.get_operations() if op.type == "TfBoosterPoolLookupsGrad"] == [2]


def test_fetched_by_name_everything_goes_on_computing_the_same():
    def program():
        x = safe(variable("v", 20, 4), sparse_input(ragged_ids(0, 12, 20)), name="mine")
        minimized([x])
        graph = v1.get_default_graph()
        inner = [op for op in graph.get_operations() if op.name.startswith(("mine", "gradients/mine"))]
        fetched = [t for op in inner for t in op.outputs if t.dtype not in (tf.resource, tf.variant)]
        return [t for t in fetched if t.op.type != "VarHandleOp"] + [graph.get_operation_by_name("Adagrad")]

    assert len(check_same(program).values) > 100


def test_second_run_changes_nothing():
    with tf.Graph().as_default() as graph:
        minimized([safe(variable(f"v{i}", 20, 4), sparse_input(ragged_ids(i, 12, 20))) for i in range(2)])
        first = pipelines.rewrite(graph, Options(), only=lookup_passes())
        assert all(p.modified for p in first.passes)
        before = graph.as_graph_def()
        again = [p.run(GraphView(graph)) for p in lookup_passes()]
        assert [(p.modified, p.skipped) for p in again] == [(False, [])] * 3
        assert graph.as_graph_def() == before


def test_asserts_in_front_of_a_lookup_still_run():
    def program(ids):
        values = as_input(np.array(ids))
        with tf.control_dependencies([v1.assert_less(values, np.int64(10), message="too large")]):
            values = tf.identity(values)
        indices = as_input(np.array([[0, 0], [1, 0]]))
        sparse = tf.SparseTensor(tf.ensure_shape(indices, [None, 2]), values, tf.constant([2, 1], tf.int64))
        return minimized([safe(variable("v", 20, 4), sparse)])

    check_fused(check_same(lambda: program([3, 4])), 1)
    for passes in ((), lookup_passes()):
        with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
            run(lambda: program([3, 14]), passes)


def test_control_dependencies_around_a_lookup_are_kept():
    def program():
        counter = v1.get_variable("counter", initializer=0, use_resource=True, trainable=False)
        table = variable("v", 20, 4)
        with tf.control_dependencies([counter.assign_add(1)]):
            x = safe(table, sparse_input([[1], [2, 3]]))
        with tf.control_dependencies([x]):
            after = counter.read_value()
        return [*minimized([x]), after]

    outcome = check_same(program)
    check_fused(outcome, 1)
    pool = next(op for op in outcome.graph.get_operations() if op.type == "TfBoosterPoolLookups")
    assert [op.type for op in pool.control_inputs] == ["AssignAddVariableOp"]


@pytest.mark.parametrize("bad", [20, 10**12])
def test_id_out_of_range_is_the_same_error(bad):
    def program():
        return minimized(
            [safe(variable("v", 20, 4), sparse_input([[1], [2, bad]])), safe(variable("w", 30, 4), sparse_input([[1]]))]
        )

    for passes in ((), lookup_passes()):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"{bad}.* is not in \\[0, 20\\)"):
            run(program, passes)


def test_row_outside_of_the_batch_and_falling_rows_are_the_same_errors():
    def outside():
        return minimized(
            [safe(variable("v", 20, 4), sparse_tensor(np.array([[0, 0], [2, 0]]), np.array([1, 2]), [2, 1]))]
        )

    def falling():
        ids = sparse_tensor(np.array([[1, 0], [0, 0]]), np.array([1, 2]), [2, 1])
        return minimized([tf.nn.embedding_lookup_sparse(variable("v", 20, 4), ids, None)])

    for passes in ((), lookup_passes()):
        with pytest.raises(tf.errors.InvalidArgumentError, match="is invalid"):
            run(outside, passes)
        with pytest.raises(tf.errors.InvalidArgumentError, match="segment ids are not increasing"):
            run(falling, passes)


def refusals_of(program):
    outcome = check_same(program)
    assert not [op for op in outcome.graph.get_operations() if op.type.startswith("TfBoosterP")]
    return [reason for _, reason in lookups_of(outcome).skipped]


def test_control_flow_around_a_lookup_is_left():
    def in_cond():
        table, ids = variable("v", 20, 4), sparse_input([[1], [], [2, 3]])
        x = v1.cond(as_input(np.array(True)), lambda: safe(table, ids) * 2.0, lambda: tf.zeros([3, 4]))
        return [x, tf.reduce_sum(x)]

    v1.disable_control_flow_v2()
    try:
        (reason,) = refusals_of(in_cond)
    finally:
        v1.enable_control_flow_v2()
    assert "tf.cond" in reason
    assert refusals_of(in_cond) == []  # In a function; nothing of it is in the graph.


def test_what_is_not_understood_is_left_with_a_reason():
    def half():
        return minimized([tf.cast(safe(variable("v", 20, 4, tf.float16), sparse_input([[1], [2, 3]])), tf.float32)])

    (reason,) = refusals_of(half)
    assert "float16" in reason


def test_inputs_that_are_fed_apart_stay_apart():
    def program():
        outputs = []
        for i in range(2):
            ids = tf.SparseTensor(
                v1.placeholder(tf.int64, [None, 2], f"i{i}"), v1.placeholder(tf.int64, [None], f"v{i}"), [3, 2]
            )
            outputs.append(tf.reduce_sum(safe(variable(f"t{i}", 20, 4), ids)))
        return outputs

    with tf.Graph().as_default() as graph:
        first, _ = program()
        pipelines.rewrite(graph, Options(), only=[SparseLookups()])
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(first, {"i0:0": [[0, 0]], "v0:0": [1]})  # Needs no feed of the other.
    assert [op.get_attr("N") for op in graph.get_operations() if op.type == "TfBoosterPoolLookups"] == [1, 1]


def test_originals_lead_back():
    outcome = check_same(lambda: minimized([safe(variable("v", 20, 4), sparse_input([[1], [2, 3]]), name="mine")]))
    for op in outcome.graph.get_operations():
        if op.type.startswith("TfBoosterP"):
            assert op.name.startswith("tf_booster/")
            assert all("mine" in name.decode() for name in op.get_attr("_tf_booster_originals"))
