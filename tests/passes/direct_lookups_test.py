"""Lookups that read rows of Variables where they lie: TensorFlow's bits, and what keeps its gathers."""

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
    variable,
)

import tf_booster
from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.columns import Columns
from tf_booster.passes.direct_lookups import DirectLookups
from tf_booster.passes.joined_lookups import JoinedLookups

v1 = tf.compat.v1
BATCH, ROWS = 70, 30
TYPES = (
    "TfBoosterPoolVariables",
    "TfBoosterMultiGather",
    "ResourceGather",
    "TfBoosterPoolLookups",
    "TfBoosterConcatColumns",
)


def passes():
    return [*lookup_passes(), Columns(), JoinedLookups(), DirectLookups()]


def embed(i, dim=8, dtype=tf.float32, weighted=False, combiner="mean", ids=np.int64, rows=ROWS, low=-2):
    found = sparse_input(ragged_ids(i, BATCH, rows, low=low, longest=13), ids)
    weights = found.with_values(tf.cast(found.values % 5, tf.float32) * 0.3) if weighted else None
    return v1.nn.safe_embedding_lookup_sparse(
        variable(f"table_{i}", rows, dim, dtype), found, weights, combiner=combiner
    )


def check(build, want):
    """The same bits; `want`: how often each of TYPES runs."""
    outcome = check_same(build, passes(), steps=2)
    counts = running(outcome.graph, *[op for op in outcome.graph.get_operations() if op.name.startswith("fetched")])
    return outcome.report.passes[-1], tuple(counts[op_type] for op_type in TYPES), want


def fetched(tensor):
    return tf.identity(tensor, name="fetched")


@pytest.mark.parametrize("ids", [np.int32, np.int64])
@pytest.mark.parametrize("dtype, weighted", [(tf.float32, False), (tf.float32, True), (tf.float64, False)])
def test_joined_and_apart(dtype, weighted, ids):
    """Of several widths and combiners; of some the result is read elsewhere."""

    def build():
        dims, combiners = (1, 3, 8, 16, 7, 65), ("sum", "mean", "sqrtn")
        parts = [embed(i, dim, dtype, weighted, combiners[i % 3], ids) for i, dim in enumerate(dims)]
        numbers = as_input(np.random.RandomState(0).standard_normal((BATCH, 5)).astype(dtype.as_numpy_dtype))
        wide = tf.concat([*parts[:2], tf.ensure_shape(numbers, [None, 5]), *parts[2:5]], 1)
        return [fetched(wide), fetched(parts[5] * 2)]

    result, found, want = check(build, (1, 0, 0, 0, 0))
    assert found == want and result.changes == ["6 lookups read in Variables by 1 op"]


def test_ids_of_both_types():
    """As buckets of a number, int32, beside identities, int64."""

    def build():
        return [fetched(tf.concat([embed(i, ids=(np.int32, np.int64)[i % 2]) for i in range(4)], 1))]

    result, found, want = check(build, (1, 0, 0, 0, 0))
    assert found == want and result.changes == ["4 lookups read in Variables by 1 op"]


def test_dense_ids_one_a_row_and_several():
    def build():
        parts = []
        for i, width in enumerate((1, 1, 4)):
            ids = as_input(np.random.RandomState(i).randint(-1, ROWS, (BATCH, width)))
            column = tf.feature_column.embedding_column(
                tf.feature_column.categorical_column_with_identity("id", ROWS), 8
            )
            initialized = v1.random_uniform_initializer(seed=i)
            with v1.variable_scope(f"scope_{i}", initializer=initialized, use_resource=True):
                parts.append(v1.feature_column.input_layer({"id": tf.ensure_shape(ids, [None, width])}, [column]))
        return [fetched(part) for part in parts]

    _, found, want = check(build, (1, 0, 0, 0, 0))
    assert found == want


def test_ids_that_are_as_given_share_their_memory():
    """All ids stay, in order, none is filled in: with sparse ones, too."""

    def build():
        ids = [list(np.random.RandomState(r).randint(0, ROWS, 1 + r % 4)) for r in range(BATCH)]
        return [fetched(v1.nn.safe_embedding_lookup_sparse(variable("t", ROWS, 8), sparse_input(ids)))]

    _, found, want = check(build, (1, 0, 0, 0, 0))
    assert found == want


@pytest.mark.parametrize("batch", [0, 1, 33])
def test_batches_without_rows_and_rows_without_ids(batch):
    def build():
        empty = sparse_input([[]] * batch)
        return [fetched(v1.nn.safe_embedding_lookup_sparse(variable("t", ROWS, 8), empty, combiner="sum"))]

    _, found, want = check(build, (1, 0, 0, 0, 0))
    assert found == want


def test_wide_and_deep_look_up_the_same_ids():
    def build():
        ids = sparse_input(ragged_ids(3, BATCH, ROWS))
        look = v1.nn.safe_embedding_lookup_sparse
        return [
            fetched(look(variable("deep", ROWS, 8), ids)),
            fetched(look(variable("wide", ROWS, 1), ids, combiner="sum")),
        ]

    _, found, want = check(build, (1, 0, 0, 0, 0))
    assert found == want


def test_what_trains_keeps_distinct_ids():
    outcome = check_same(lambda: minimized([embed(0), embed(1)]), passes())
    assert not outcome.report.passes[-1].modified


def test_rows_or_distinct_ids_that_something_reads_stay():
    def build():
        ids = sparse_input(ragged_ids(3, BATCH, ROWS, low=0))
        table = variable("t", ROWS, 8)
        first = v1.nn.safe_embedding_lookup_sparse(table, ids)
        graph = v1.get_default_graph()
        rows = next(op for op in graph.get_operations() if op.type == "ResourceGather").outputs[0]
        norm = tf.reduce_sum(tf.square(rows.op.outputs[0].consumers()[0].outputs[0]))
        return [fetched(first), fetched(norm)]

    result, found, want = check(build, (0, 0, 1, 1, 0))
    assert found == want and not result.modified


def test_a_max_norm_and_what_is_not_summed_up_keep_their_gather():
    def build():
        ids = sparse_input(ragged_ids(3, BATCH, ROWS))
        limited = v1.nn.safe_embedding_lookup_sparse(variable("t", ROWS, 8), ids, max_norm=0.5)
        history = tf.nn.embedding_lookup(variable("history", ROWS, 8), as_input(np.arange(12).reshape(4, 3)))
        return [fetched(limited), fetched(embed(4)), fetched(embed(5)), fetched(tf.reduce_sum(history, 1))]

    _, found, want = check(build, (1, 1, 0, 1, 0))
    assert found == want


def test_hash_tables_keep_their_gathers_beside_variables_that_do_not():
    def build():
        ids = tf.SparseTensor([[0, 0], [1, 0]], [3, 4], [BATCH, 1])
        table = tf_booster.get_hash_table("hashed", 8, initializer=tf.ones_initializer())
        return [tf_booster.embedding_lookup_sparse(table, ids), embed(1), embed(2)]

    with tf.Graph().as_default() as graph:
        parts = build()
        tf.concat(parts, 1, name="fetched")
        pipelines.rewrite(graph, Options())
        counts = running(graph, graph.get_operation_by_name("fetched").inputs[0].op, *[part.op for part in parts])
        made = [op for op in graph.get_operations() if op.type == "TfBoosterPoolVariables"]
        assert len(made) == 1 and made[0].get_attr("N") == 2, counts


@pytest.mark.parametrize("bad, said", [(ROWS, str(ROWS)), (2**40 + 3, str(2**40 + 3))])
def test_an_id_outside_is_an_error_with_the_id(bad, said):
    def build():
        return [fetched(v1.nn.safe_embedding_lookup_sparse(variable("t", ROWS, 8), sparse_input([[1], [2, bad]])))]

    with pytest.raises(
        tf.errors.InvalidArgumentError, match=rf"lookup 0: id {said}, the one at place 2, is not in \[0, {ROWS}\)"
    ):
        run(build, passes())
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(build)


def test_a_variable_without_a_value_is_told():
    with tf.Graph().as_default() as graph:
        fetch = embed(0)
        pipelines.rewrite(graph, Options())
        with v1.Session() as session, pytest.raises(tf.errors.NotFoundError, match="table_0"):
            session.run(fetch)


def test_what_waits_waits():
    """An assertion before the gather still stops the lookup."""

    def build():
        ids = sparse_input([[1], [2]])
        with tf.control_dependencies([v1.assert_less(tf.reduce_sum(ids.values), tf.constant(3, tf.int64))]):
            return [fetched(v1.nn.safe_embedding_lookup_sparse(variable("t", ROWS, 8), ids))]

    with pytest.raises(tf.errors.InvalidArgumentError, match="x < y did not hold"):
        run(build, passes())


def test_old_results_can_be_fetched_by_name():
    def build():
        pooled = embed(2, low=0)
        ops = v1.get_default_graph().get_operations()
        unique = next(op for op in ops if op.type == "Unique")
        rows = next(op for op in ops if op.type == "ResourceGather")
        return [fetched(pooled), unique.outputs[0], unique.outputs[1], rows.outputs[0]]

    check_same(build, passes())


def test_a_second_run_changes_nothing():
    check_second_run(lambda: [fetched(embed(0)), fetched(embed(1))], passes()[:-1], DirectLookups())
