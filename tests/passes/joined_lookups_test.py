"""Lookups that write where they are joined, and gradients read where they would be split: the same bits, and what is left."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import check_second_run, lookup_passes, ragged_ids, run, running, sparse_input, variable

from tf_booster.passes.columns import Columns
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.joined_lookups import JoinedLookups

v1 = tf.compat.v1
BATCH, ROWS = 70, 30
TYPES = ("TfBoosterJoinedPoolLookups", "TfBoosterPoolLookups", "TfBoosterConcatColumns", "TfBoosterSplitColumns")


def before():
    return [*lookup_passes(), Columns()]


def embed(i, dim, dtype=tf.float32, weighted=False, combiner="mean"):
    ids = sparse_input(ragged_ids(i, BATCH, ROWS, longest=13))
    weights = ids.with_values(tf.cast(ids.values % 5, tf.float32) * 0.3) if weighted else None
    return v1.nn.safe_embedding_lookup_sparse(variable(f"table_{i}", ROWS, dim, dtype), ids, weights, combiner=combiner)


def joined(features=6, dtype=tf.float32, weighted=False, numbers=True, apart=0, stacked=False, more=None):
    """Lookups of several widths, numbers among them, joined. apart: lookups that are not. more: what else is made of lookups and joined, for the loss."""

    def build():
        dims = [8] * features if stacked else [(1, 3, 8, 16)[i % 4] for i in range(features)]
        combiners = ("sum", "mean", "sqrtn")
        parts = [embed(i, dim, dtype, weighted, combiners[i % 3]) for i, dim in enumerate(dims)]
        single = [embed(features + i, 4, dtype, weighted) for i in range(apart)]
        values = np.random.RandomState(0).standard_normal((BATCH, 5))
        x = v1.placeholder_with_default(values.astype(dtype.as_numpy_dtype), [None, 5])
        if stacked:
            wide = tf.reshape(tf.stack(parts, 1), [-1, 8 * features])
        else:
            wide = tf.concat([*parts[:2], x, *parts[2:]] if numbers else parts, 1)
        loss = tf.reduce_sum(tf.square(wide) * tf.cumsum(tf.ones_like(wide) * 0.01, 1))
        loss += tf.add_n([tf.reduce_sum(tf.sin(rows)) for rows in [*single, tf.zeros([1], dtype)]])
        loss = loss if more is None else loss + more(parts, wide)
        train = v1.train.AdagradOptimizer(0.1).minimize(loss)
        v1.add_to_collection(v1.GraphKeys.TRAIN_OP, train)
        return [loss, wide, train]

    return build


def check(built, want):
    """Bits are those of TensorFlow; `want`: how often each of TYPES runs in the training step."""
    plain, outcome = run(built), run(built, [*before(), JoinedLookups()])
    assert len(plain.values) == len(outcome.values)
    for mine, theirs in zip(outcome.values, plain.values):
        assert mine.tobytes() == theirs.tobytes()
    counts = running(outcome.graph, outcome.graph.get_collection(v1.GraphKeys.TRAIN_OP)[0])
    assert tuple(counts[op_type] for op_type in TYPES) == want
    return outcome.report.passes[-1].changes


@pytest.mark.parametrize("dtype, weighted", [(tf.float32, False), (tf.float32, True), (tf.float64, False)])
def test_both_ways(dtype, weighted):
    changes = check(joined(dtype=dtype, weighted=weighted), (1, 0, 0, 0))
    assert changes == ["1 joins, to which lookups write", "1 splits, which are read where they lie"]


@pytest.mark.parametrize("features, kwargs", [(20, {"numbers": False}), (5, {"apart": 3}), (7, {"stacked": True})])
def test_shapes_of_models(features, kwargs):
    check(joined(features, **kwargs), (1, 0, 0, 0))


def test_a_lookup_that_is_read_elsewhere_keeps_its_tensor():
    def more(parts, _):
        scale = v1.get_variable("scale", [], initializer=v1.ones_initializer(), use_resource=True)
        return tf.reduce_sum(tf.stop_gradient(parts[1]) * scale)

    assert check(joined(more=more), (0, 1, 1, 0)) == ["1 splits, which are read where they lie"]


def test_a_gradient_that_is_added_to_keeps_its_split():
    def more(parts, _):
        return tf.reduce_sum(tf.sin(parts[0]))

    assert check(joined(more=more), (0, 1, 1, 1)) == []


def test_what_leads_back_into_the_join():
    """The numbers beside the lookups are made of a lookup that stands apart, so the two cannot be one op."""

    def build():
        parts = [embed(i, 8) for i in range(6)]
        wide = tf.concat([*parts[1:], parts[0] * 2.0], 1)
        loss = tf.reduce_sum(tf.square(wide))
        train = v1.train.AdagradOptimizer(0.1).minimize(loss)
        v1.add_to_collection(v1.GraphKeys.TRAIN_OP, train)
        return [loss, train]

    check(build, (0, 1, 1, 1))


def test_the_wider_of_two_joins():
    def build():
        parts = [embed(i, 8) for i in range(9)]
        wide, narrow = tf.concat(parts[:5], 1), tf.concat(parts[5:], 1)
        loss = tf.reduce_sum(tf.sin(wide)) + tf.reduce_sum(tf.cos(narrow))
        train = v1.train.AdagradOptimizer(0.1).minimize(loss)
        v1.add_to_collection(v1.GraphKeys.TRAIN_OP, train)
        return [loss, wide, narrow, train]

    changes = check(build, (1, 0, 1, 0))
    assert changes == ["1 joins, to which lookups write", "2 splits, which are read where they lie"]


def test_a_lookup_and_a_part_of_the_gradient_can_be_fetched_still():
    def build():
        fetches = joined()()
        ops = v1.get_default_graph().get_operations()
        concat = next(op for op in ops if op.type == "ConcatV2")
        part = next(op for op in ops if op.type == "Slice" and "gradients" in op.name)
        return [*fetches[:2], concat.inputs[0], part.outputs[0], fetches[2]]

    check(build, (1, 0, 0, 0))


def test_a_second_run_changes_nothing():
    check_second_run(joined(), before(), JoinedLookups())


def test_names_lead_back():
    outcome = run(joined(), [*before(), JoinedLookups()], steps=1)
    view = GraphView(outcome.graph)
    (made,) = view.ops("TfBoosterJoinedPoolLookups")
    names = view.originals(made)
    assert "concat" in names and any("embedding_lookup_sparse" in name for name in names)
