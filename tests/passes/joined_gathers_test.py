"""Columns that are gathered by the same positions, joined before: one GatherNd, the same bits, and what is left."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import check_same, check_second_run, check_waits, run, running, variable

from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.columns import Columns
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.joined_gathers import JoinedGathers
from tf_booster.passes.known_shapes import KnownShapes
from tf_booster.passes.same_shapes import SameShapes

v1 = tf.compat.v1
LISTS, DOCUMENTS = 3, 5
PASSES = [Columns(), JoinedGathers()]


def numbers(seed, *shape):
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def column(i, width=1, static=False, documents=DOCUMENTS):
    """Numbers of each document of each list."""
    shape = [LISTS, documents, width]
    return v1.placeholder_with_default(numbers(i, *shape), shape if static else [None, None, width])


def reshaped(tensor, leading, gone):
    """As TF-Ranking gives the first `gone` dimensions another shape."""
    return tf.reshape(tensor, tf.concat([leading, tf.shape(tensor)[gone:]], 0))


def positions(static=False, documents=DOCUMENTS):
    lists = np.argsort(numbers(99, LISTS, documents), 1)
    places = np.stack([np.repeat(np.arange(LISTS)[:, None], documents, 1), lists], 2)[:, :, None]
    return v1.placeholder_with_default(places.astype(np.int32), places.shape if static else [None, None, 1, 2])


def gathered(columns, places):
    """The rows [lists * documents, width] of each column, in another order, as TF-Ranking's models of groups of one have them."""
    lists, documents = tf.shape(columns[0])[0], tf.shape(columns[0])[1]
    encoded = [reshaped(tensor, [lists * documents], 2) for tensor in columns]
    listwise = [reshaped(tensor, [lists, documents], 1) for tensor in encoded]
    rows = [reshaped(tf.gather_nd(tensor, places), [lists * tf.shape(places)[1], 1], 3) for tensor in listwise]
    return [tf.squeeze(tensor, 1) for tensor in rows]


def program(count=6, width=1, static=False, before=(), more=lambda parts: []):
    """before: what is joined in front of the gathered columns. more: what else is made of them."""

    def build():
        parts = gathered([column(i, width, static) for i in range(count)], positions(static))
        return [tf.concat([*(make() for make in before), *parts], 1) * 2.0, *more(parts)]

    return build


def gathers(outcome):
    return running(outcome.graph, *outcome.fetches)["GatherNd"]


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("count", [4, 20])
def test_columns_are_gathered_together(count, width, static):
    outcome = check_same(program(count, width, static), PASSES)
    assert gathers(outcome) == 1
    assert running(outcome.graph, outcome.fetches[0])["Squeeze"] == 0
    assert outcome.report.passes[1].changes == [
        f"{count} columns are joined before they are gathered, by one GatherNd a join"
    ]


def test_lists_of_one_length_whose_number_is_not_known():
    """That of the first column has a constant for its shape by then."""

    def build():
        columns = [v1.placeholder_with_default(numbers(i, LISTS, DOCUMENTS, 1), [None, DOCUMENTS, 1]) for i in range(4)]
        lists, places = tf.shape(columns[0])[0], positions()
        listwise = [tf.reshape(tf.reshape(tensor, [-1, 1]), [lists, DOCUMENTS, 1]) for tensor in columns]
        rows = [tf.squeeze(tf.reshape(tf.gather_nd(tensor, places), [-1, 1, 1]), 1) for tensor in listwise]
        return [tf.concat(rows, 1) * 2.0]

    outcome = check_same(build, [KnownShapes(), SameShapes(), *PASSES])
    assert outcome.report.passes[0].modified and gathers(outcome) == 1


def test_reshapes_back_to_a_known_shape_are_left_out():
    outcome = check_same(program(static=True), PASSES)
    assert running(outcome.graph, outcome.fetches[0])["Reshape"] == 1


def test_other_parts_stay_where_they_are():
    beside = [lambda: numbers(7, LISTS * DOCUMENTS, 2), lambda: tf.constant(numbers(8, LISTS * DOCUMENTS, 1))]
    outcome = check_same(program(before=beside), PASSES)
    assert gathers(outcome) == 1
    assert running(outcome.graph, outcome.fetches[0])["TfBoosterConcatColumns"] == 2


def test_two_orders_are_two_gathers():
    def build():
        parts = gathered([column(i, static=True) for i in range(4)], positions(True))
        others = gathered([column(i, static=True) for i in range(4, 9)], 0 * positions(True))
        return [-tf.concat([*parts, *others], 1)]

    assert gathers(check_same(build, PASSES)) == 2


def trained():
    """Embeddings, whose gradients are scattered by the positions; the gradient of the join asks for no shapes of the columns any more."""
    tables = [variable(f"table_{i}", LISTS * DOCUMENTS, 2) for i in range(5)]
    columns = [tf.reshape(table * 1.0, [LISTS, DOCUMENTS, 2]) for table in tables]
    loss = tf.reduce_sum(tf.sin(tf.concat(gathered(columns, positions(True)), 1)))
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    v1.add_to_collection(v1.GraphKeys.TRAIN_OP, train)
    return [loss, train]


def test_columns_that_are_trained():
    assert gathers(check_same(trained, PASSES)) == 1


def of_other_sizes():
    """Positions that are in all columns, of which some have more documents: these cannot be joined."""
    columns = [tf.reshape(column(i, documents=DOCUMENTS + i % 2), [LISTS, -1, 1]) for i in range(6)]
    places = positions()
    return [-tf.concat([tf.reshape(tf.gather_nd(tensor, places), [-1, 1]) for tensor in columns], 1)]


def of_sizes_that_follow():
    """The first size of each column is what its numbers make of the second."""
    given = [np.concatenate([numbers(i, LISTS, DOCUMENTS, 1)] * (1 + i % 2)) for i in range(6)]
    columns = [v1.placeholder_with_default(array, [None, None, 1]) for array in given]
    documents, places = tf.shape(columns[0])[1], positions()
    columns = [tf.reshape(tensor, tf.stack([-1, documents, 1])) for tensor in columns]
    return [-tf.concat([tf.reshape(tf.gather_nd(tensor, places), [-1, 1]) for tensor in columns], 1)]


def of_groups():
    places = positions()
    parts = [tf.reshape(tf.gather_nd(column(i, static=True), places), [-1, 5]) for i in range(6)]
    return [-tf.concat(parts, 1)]


def one_row_of_each():
    places = tf.constant(np.stack([np.arange(LISTS), np.arange(LISTS)], 1).astype(np.int32))
    return [-tf.concat([tf.gather_nd(column(i, static=True), places) for i in range(6)], 1)]


def waiting():
    columns, places = [column(i, static=True) for i in range(6)], positions()
    with tf.control_dependencies([tf.no_op()]):
        rows = [tf.gather_nd(tensor, places) for tensor in columns]
    return [-tf.concat([tf.reshape(tensor, [-1, 1]) for tensor in rows], 1)]


STAY = {
    "few": program(3, before=[lambda: numbers(7, LISTS * DOCUMENTS, 2)]),
    "wide": program(width=17),
    "read elsewhere": program(more=lambda parts: [tf.add_n(parts)]),
    "of other sizes": of_other_sizes,
    "of sizes that follow": of_sizes_that_follow,
    "rows of several documents": of_groups,
    "one row of each list": one_row_of_each,
    "waiting": waiting,
}


@pytest.mark.parametrize("kind", STAY)
def test_others_stay(kind):
    outcome = check_same(STAY[kind], PASSES)
    assert gathers(outcome) >= 3
    assert outcome.report.passes[1].changes == outcome.report.passes[1].skipped == []


def test_no_lists():
    def build():
        empty = [v1.placeholder_with_default(numbers(i, 0, DOCUMENTS, 1), [None, None, 1]) for i in range(4)]
        places = v1.placeholder_with_default(np.zeros([0, DOCUMENTS, 1, 2], np.int32), [None, None, 1, 2])
        return [-tf.concat(gathered(empty, places), 1)]

    outcome = check_same(build, PASSES)
    assert gathers(outcome) == 1 and outcome.values[0].shape == (0, 4)


def test_a_second_run_changes_nothing():
    check_second_run(program(), [Columns()], JoinedGathers())


def test_what_the_join_waits_for():
    def build(parts):
        return [-tf.concat(parts, 1)]

    check_waits(lambda: gathered([column(i) for i in range(4)], positions()), build, PASSES, "TfBoosterConcatColumns")


def test_a_column_can_be_fetched_still():
    with tf.Graph().as_default(), v1.Session() as session:
        parts = gathered([column(i) for i in range(4)], positions())
        end = -tf.concat(parts, 1)
        before = session.run([*parts, end])
    with tf.Graph().as_default() as graph, v1.Session() as session:
        parts = gathered([column(i) for i in range(4)], positions())
        end = -tf.concat(parts, 1)
        assert pipelines.rewrite(graph, Options(), only=PASSES).passes[1].modified
        for mine, theirs in zip(session.run([*parts, end]), before):
            np.testing.assert_array_equal(mine, theirs)
        (join,) = [op for op in GraphView(graph).ops("Reshape") if op.name == "tf_booster/gather/rows"]
        assert "GatherNd" in GraphView(graph).originals(join)


def test_positions_that_are_not_there_fail_still():
    def build():
        places = v1.placeholder_with_default(np.full([1, 1, 1, 2], 9, np.int32), [None, None, 1, 2])
        return [-tf.concat(gathered([column(i) for i in range(4)], places), 1)]

    with pytest.raises(tf.errors.InvalidArgumentError, match="index"):
        run(build)
    with pytest.raises(tf.errors.InvalidArgumentError, match="index"):
        run(build, PASSES)
