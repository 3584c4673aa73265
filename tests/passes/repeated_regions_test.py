"""The pass repeated_features on graphs of its own: which ops go by row, where a region ends, and who goes on reading what."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import running, variable

from tf_booster import options as booster_options
from tf_booster.passes import fetches as noted
from tf_booster.passes import named_features, pipelines
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.repeated_features import RepeatedFeatures
from tf_booster.passes.small_matmuls import SmallMatMuls
from tf_booster.passes.sparse_lookups import SparseLookups
from tf_booster.passes.variable_gathers import VariableGathers

v1 = tf.compat.v1
USERS = [[4, 9, 4, 4, 7, 9], [1], [], [3, 2, 1, 0]]


def passes(*names, more=()):
    return [SparseLookups(), VariableGathers(), RepeatedFeatures(names or ["user"]), *more]


def run(build, names=("user",), users=USERS, more=(), apart=True, atol=1e-6):
    """`build`(user [batch, 2], item [batch, 2]) -> what is fetched. Plain and rewritten give the same. Returns the graph, its fetches and the pass's result.

    apart: features are placeholders of their own. Otherwise they come from one source, as an Estimator's do, and lookups of both may be one op.
    """
    values, graphs = [], []
    for rewritten in (False, True):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            v1.set_random_seed(3)
            if apart:
                user = v1.placeholder(tf.int64, [None, 2], "user")
                item = v1.placeholder(tf.int64, [None, 2], "item")
            else:
                both = v1.placeholder(tf.int64, [None, 4])
                user, item = tf.split(both, 2, 1)
            fetches = build(user, item)
            report = None
            if not apart:
                predictions = {str(i): fetch for i, fetch in enumerate(fetches)}
                spec = tf.estimator.EstimatorSpec(tf.estimator.ModeKeys.PREDICT, predictions)
                noted.note_spec(graph, spec)
                named_features.note_spec(graph, {"user": user, "item": item}, spec)
            if rewritten:
                report = pipelines.rewrite(graph, booster_options.Options(), only=passes(*names, more=more))
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            for rows in users:
                ids = np.array(rows, np.int64)
                given = np.stack([ids, ids // 2], 1), np.arange(2 * len(rows)).reshape(-1, 2) % 10
                feed = dict(zip([user, item], given)) if apart else {both: np.concatenate(given, 1)}
                values.append(session.run(fetches, feed))
            graphs.append((graph, fetches, report))
    half = len(values) // 2
    for plain, ours in zip(values[:half], values[half:]):
        for a, b in zip(tf.nest.flatten(plain), tf.nest.flatten(ours)):
            if a.dtype.kind == "f":
                np.testing.assert_allclose(b, a, rtol=2e-6, atol=atol)
            else:
                np.testing.assert_array_equal(b, a)
    graph, fetches, report = graphs[1]
    return graph, fetches, next(p for p in report.passes if p.name == "repeated_features")


def vectors(ids):
    """[batch, 2, 8] of a Variable."""
    return tf.nn.embedding_lookup(variable("vectors", 10, 8), ids)


def matrix():
    return tf.constant(np.random.RandomState(5).standard_normal((8, 4)), tf.float32)


# From x [batch, 2, 8], which is looked up for users, to what is expanded.
BY_ROW = {
    "reduce": lambda x: tf.reduce_sum(x, [1, -1]),
    "reduce and keep": lambda x: tf.reduce_max(x, 2, keepdims=True),
    "product": lambda x: tf.matmul(x[:, 0], matrix()),
    "products": lambda x: tf.matmul(x, x, transpose_b=True),
    "einsum": lambda x: tf.einsum("bij,bkj->bik", x, x) + tf.einsum("bij,jk->bik", x, matrix()[:, :2]),
    "tensordot": lambda x: tf.tensordot(x, matrix(), 1),
    "join": lambda x: tf.concat([x[:, 0], x[:, 1]], -1),
    "stack and unstack": lambda x: tf.add_n(tf.unstack(tf.stack([x, 2 * x], 1), axis=2)),
    "split": lambda x: tf.split(x, [3, 5], 2)[1] + tf.split(x, 8, 2)[0],
    "slices": lambda x: x[..., 1:] * x[:, :, :-1] + tf.slice(x, [0, 0, 1], [-1, 2, 7]),
    "reshape to rows": lambda x: tf.reshape(x, [-1, 16]),
    "reshape by the batch": lambda x: tf.reshape(x, [tf.shape(x)[0], -1]),
    "more rows and back": lambda x: tf.reshape(tf.nn.relu(tf.reshape(x, [-1, 8])), [-1, 2, 8]),
    "more rows and back by shapes": lambda x: tf.reshape(
        tf.reshape(x, [tf.shape(x)[0] * tf.shape(x)[1], 8]), tf.shape(x)
    ),
    "transpose": lambda x: tf.transpose(x, [0, 2, 1]),
    "tile": lambda x: tf.tile(x, [1, 3, 1]),
    "squeeze": lambda x: tf.squeeze(x[:, :1], [1]),
    "fill": lambda x: x[:, 0, :1] + tf.fill([tf.shape(x)[0], 1], 2.0) + tf.zeros_like(x[:, 1, :1]),
    "norm": lambda x: tf.nn.l2_normalize(x, -1),
    "softmax": lambda x: tf.nn.softmax(x),
    "largest": lambda x: tf.argmax(x, 2),
    "where": lambda x: tf.where(x > 0, x, tf.exp(x)),
    "gather of columns": lambda x: tf.gather(x, [1, 0, 1], axis=1),
    "one hot": lambda x: tf.one_hot(tf.cast(x[:, :, 0] > 0, tf.int32), 3),
    "constant operands": lambda x: tf.maximum(
        x * tf.constant([[[1.0]]]) + tf.constant(np.ones((2, 8), np.float32)), 0.1
    ),
    "batch norm": lambda x: tf.nn.batch_normalization(x, 0.1, 2.0, 0.3, 0.4, 1e-3),
    "strings": lambda x: tf.strings.to_hash_bucket_fast(tf.strings.as_string(x[:, 0, 0] > 0), 7),
}


@pytest.mark.parametrize("name", BY_ROW)
def test_ops_that_go_by_row_are_computed_for_few(name):
    graph, fetches, result = run(lambda user, item: [tf.identity(BY_ROW[name](vectors(user)), "out")])
    assert result.skipped == [] and len(result.changes) == 2, result
    assert result.changes[1].endswith("for 'out' (Identity)")
    counts = running(graph, *fetches)
    assert counts["TfBoosterTakeRows"] == 2 and counts["TfBoosterRepeatedRows"] == 1
    # Nothing but what is expanded reads all rows.
    assert running(graph, *fetches)["ResourceGather"] == 1


# What rows of other examples, or their number, may show in.
NOT_BY_ROW = {
    "sum over the batch": lambda x: x - tf.reduce_mean(x, 0),
    "sum over all": lambda x: tf.reduce_sum(x, [0, 1, 2]),
    "moments": lambda x: tf.nn.batch_normalization(x, *tf.nn.moments(x, [0]), None, None, 1e-3),
    "cumulative": lambda x: tf.cumsum(x, 0),
    "product of transposed": lambda x: tf.matmul(x[:, 0], x[:, 0], transpose_b=True),
    "einsum over rows": lambda x: tf.einsum("bij,bij->ij", x, x),
    "einsum of all with all": lambda x: tf.einsum("bij,cij->bc", x, x),
    "einsum of a trace": lambda x: tf.einsum(
        "bbj->bj", tf.linalg.matmul(x[:, 0], x[:, 0], transpose_b=True)[:, :, None]
    ),
    "join of rows": lambda x: tf.concat([x, x], 0),
    "transpose": lambda x: tf.transpose(x, [1, 0, 2]),
    "tile of rows": lambda x: tf.tile(x, [2, 1, 1]),
    "reverse": lambda x: tf.reverse(x, [0]),
    "first rows": lambda x: x[:2],
    "every second": lambda x: x[::2],
    "all in one row": lambda x: tf.reshape(x, [1, -1]),
    "rows of two examples": lambda x: tf.reshape(tf.concat([x, x], 0), [-1, 32]),
    "softmax over the batch": lambda x: tf.nn.softmax(x[:, 0, 0]),
    "broadcast of a vector": lambda x: x[:, 0, 0] + x[:, 0, :1],
    "gather of rows": lambda x: tf.gather(x, [0, 0]),
    "sort": lambda x: tf.sort(x, 0),
}


@pytest.mark.parametrize("name", NOT_BY_ROW)
def test_other_ops_end_the_region(name):
    users = [rows for rows in USERS if rows]  # Some of them fail for an empty batch.
    graph, fetches, result = run(lambda user, item: [tf.identity(NOT_BY_ROW[name](vectors(user)), "out")], users=users)
    assert result.modified and result.skipped
    assert all("here its inputs are expanded to all rows" in reason for _, reason in result.skipped)


def test_random_numbers_end_it():
    with tf.Graph().as_default() as graph:
        user = v1.placeholder(tf.int64, [None, 2], "user")
        x = vectors(user)
        out = x[:, 0] * tf.random.uniform(tf.shape(x[:, 0]))
        pipelines.rewrite(graph, booster_options.Options(), only=passes())
        counts = running(graph, out)
        assert counts["RandomUniform"] == 1 and counts["TfBoosterRepeatedRows"] == 1
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            value = session.run(out, {user: [[1, 1]] * 3})
    assert len({row.tobytes() for row in value}) == 3  # Each row has numbers of its own.


def mix(user, item):
    """A user's tower and an item's, with one Variable for both, so that one op serves both lookups."""
    x, y = vectors(user), tf.nn.embedding_lookup(variable("of_items", 10, 8), item)
    hidden = tf.nn.relu(tf.matmul(tf.reshape(x, [-1, 16]), tf.ones([16, 4])), name="hidden")
    return [tf.concat([hidden, y[:, 0]], 1, name="joined"), tf.identity(hidden, "user_vector")]


def test_lookups_of_users_and_items_stay_one_op():
    graph, fetches, result = run(mix, apart=False)
    counts = running(graph, *fetches)
    assert counts["TfBoosterMultiGather"] == 1 and counts["MatMul"] == 1
    assert result.changes[1] == "'hidden' is expanded to all rows for 'joined' (ConcatV2) and 1 more", result.changes


def test_what_is_held_by_name_keeps_its_value():
    values = []
    for rewritten in (False, True):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            user = v1.placeholder(tf.int64, [None, 2], "user")
            item = v1.placeholder(tf.int64, [None, 2], "item")
            mix(user, item)
            if not rewritten:
                names = [
                    t.name for op in graph.get_operations() for t in op.outputs if t.dtype in (tf.float32, tf.int32)
                ]
            elif not pipelines.rewrite(graph, booster_options.Options(), only=passes()).passes[-1].modified:
                raise AssertionError("nothing was rewritten")
            session.run(v1.global_variables_initializer())
            feed = {user: [[1, 2], [3, 4], [1, 2]], item: [[0, 1], [2, 3], [4, 5]]}
            values.append(session.run(names, feed))
    for name, plain, ours in zip(names, *values):
        np.testing.assert_allclose(ours, plain, rtol=1e-6, err_msg=name)


def test_what_is_left_is_not_merged_with_what_runs():
    """Four towers of users: their layers for all rows stay behind, and must not become part of one op with those for few."""

    def build(user, item):
        x = tf.reshape(vectors(user), [-1, 16])
        return [tf.identity(tf.nn.relu(tf.matmul(x, tf.ones([16, 4]) * i)), f"out_{i}") for i in range(5)]

    graph, fetches, result = run(build, more=[SmallMatMuls()])
    assert result.modified
    (layers,) = [op for op in graph.get_operations() if op.type == "TfBoosterMultiMatMul"]
    assert layers.get_attr("N") == 5
    assert running(graph, *fetches)["MatMul"] == 0


def test_early_and_late_values_are_not_expanded_by_one_op():
    """A hash of the user leads to an id of both, whose lookup is one op with the user's own; one op for all that is expanded would wait for itself."""

    def build(user, item):
        hashed = tf.strings.to_hash_bucket_fast(tf.strings.as_string(user), 10)
        both = (hashed + item) % 10
        x = tf.nn.embedding_lookup(variable("a", 10, 8), hashed)
        y = tf.nn.embedding_lookup(variable("b", 10, 8), both)
        return [tf.concat([tf.reduce_sum(x, 1), tf.reduce_sum(y, 1)], 1)]

    graph, fetches, result = run(build, apart=False)
    assert running(graph, *fetches)["TfBoosterMultiGather"] == 1
    assert not [reason for _, reason in result.skipped if "failed" in reason]
    assert running(graph, *fetches)["TfBoosterTakeRows"] == 3


def test_a_second_run_changes_nothing():
    with tf.Graph().as_default() as graph:
        mix(v1.placeholder(tf.int64, [None, 2], "user"), v1.placeholder(tf.int64, [None, 2], "item"))
        assert pipelines.rewrite(graph, booster_options.Options(), only=passes()).passes[-1].modified
        ops = graph.get_operations()
        assert not RepeatedFeatures(["user"]).requires(GraphView(graph))
        pipelines.rewrite(graph, booster_options.Options(), only=passes())
        assert graph.get_operations() == ops


def test_a_fetch_does_not_come_to_need_another_feed():
    def build(user, item):
        return [tf.reduce_sum(vectors(user), 1), tf.reduce_sum(tf.nn.embedding_lookup(variable("b", 10, 8), item), 1)]

    graph, fetches, result = run(build, names=["user", "item"])
    assert not result.modified
    assert [reason for _, reason in result.skipped] == ["a fetch of it would need features that it does not need now"]


def test_sparse_placeholders_and_graphs_that_train():
    with tf.Graph().as_default() as graph, v1.Session() as session:
        tags = v1.sparse_placeholder(tf.int64, [None, None], "tags")
        pooled = v1.nn.safe_embedding_lookup_sparse(variable("tags_table", 10, 8), tags)
        out = tf.nn.relu(pooled, name="out")
        report = pipelines.rewrite(graph, booster_options.Options(), only=passes("tags"))
        assert report.passes[-1].modified, str(report)
        session.run(v1.global_variables_initializer())
        table = session.run(graph.get_collection("trainable_variables")[0])
        feed = v1.SparseTensorValue([[0, 0], [0, 1], [2, 0], [2, 1], [3, 0]], [1, 2, 1, 2, 2], [5, 2])
        value = session.run(out, {tags: feed})
    mean = np.maximum((table[1] + table[2]) * np.float32(0.5), 0)
    np.testing.assert_allclose(value, [mean, 0 * mean, mean, np.maximum(table[2], 0), 0 * mean], rtol=1e-6)
    with tf.Graph().as_default() as graph:
        x = vectors(v1.placeholder(tf.int64, [None, 2], "user"))
        v1.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(x))
        assert not RepeatedFeatures(["user"]).requires(GraphView(graph))


@pytest.mark.parametrize("shape, reason", [(None, "has no dimension that is known"), ([], "has no dimension")])
def test_features_of_unknown_shape_are_left(shape, reason):
    with tf.Graph().as_default() as graph:
        user = v1.placeholder(tf.int64, shape, "user")
        tf.nn.embedding_lookup(variable("a", 10, 8), tf.reshape(user, [-1]))
        report = pipelines.rewrite(graph, booster_options.Options(), only=passes())
    ((name, said),) = report.passes[-1].skipped
    assert name == "user" and reason in said


def test_lookups_whose_last_rows_may_be_missing_are_left():
    with tf.Graph().as_default() as graph:
        tags = v1.sparse_placeholder(tf.int64, [None, None], "tags")
        tf.identity(tf.nn.embedding_lookup_sparse(variable("a", 10, 8), tags, None), "out")
        report = pipelines.rewrite(graph, booster_options.Options(), only=passes("tags"))
    result = report.passes[-1]
    assert not result.modified and "rows without ids at the batch's end are left out" in result.skipped[0][1]


@pytest.mark.parametrize(
    "build, reason",
    [
        (lambda x: x + tf.constant(np.arange(4.0)[:, None, None], tf.float32), "may have a row for each example"),
        (lambda x: tf.where(tf.constant([[[True]], [[False]]] * 2), x, -x), "may have a row for each example"),
        (lambda x: tf.reshape(x, [2, 32]), "its rows are of more than one example"),
        (lambda x: tf.reshape(x, [-1, 32]), "its rows are of more than one example"),
        (lambda x: tf.reshape(x, [4, 16]), ""),
        (lambda x: tf.reshape(tf.reshape(x, [8, 8]), [4, 16]), ""),
    ],
)
def test_a_batch_of_static_size(build, reason):
    """Constants may have a number for each example, or the batch's size in a shape."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        user = v1.placeholder(tf.int64, [4, 2], "user")
        x = vectors(user)
        out = tf.identity(build(x), "out")
        plain = tf.identity(build(vectors_of(graph, user)), "plain")
        report = pipelines.rewrite(graph, booster_options.Options(), only=[RepeatedFeatures(["user"])])
        (result,) = report.passes
        session.run(v1.global_variables_initializer())
        a, b = session.run([out, plain], {user: [[1, 2], [3, 4], [1, 2], [1, 2]]})
        np.testing.assert_array_equal(a, b)
    assert result.modified
    assert [reason in text for _, text in result.skipped] == [True] * bool(reason)


def vectors_of(graph, user):
    """The same rows by an op that has no rule, so that they stay TensorFlow's."""
    table = graph.get_collection(v1.GraphKeys.GLOBAL_VARIABLES)[0]
    return tf.gather_nd(table.read_value(), user[:, :, None])


def test_rows_that_would_be_of_two_examples():
    graph, fetches, result = run(
        lambda user, item: [tf.identity(tf.reshape(vectors(user), [-1, 32]))], users=[[1, 1, 2, 1], [3, 4]]
    )
    assert "its rows are of more than one example" in result.skipped[0][1]


@pytest.mark.parametrize("moved", [False, True])
def test_weights_that_pair_up_with_ids_over_the_ends_of_rows(moved):
    """TensorFlow pairs entry i with weight i, whatever rows they are in."""
    ids = v1.SparseTensorValue([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [3, 0]], [1, 2, 1, 2, 3, 3], [4, 2])
    weights_of = ids._replace(values=[0.1, 0.2, 0.1, 0.2, 0.3, 0.3])
    if moved:
        places = [[0, 0], [1, 0], [2, 0], [2, 1], [3, 0], [3, 1]]
        weights_of = v1.SparseTensorValue(places, [0.1, 0.1, 0.2, 0.3, 0.2, 0.3], [4, 2])
    values = []
    for rewritten in (False, True):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            tags, weights = (
                v1.sparse_placeholder(tf.int64, [None, 2], "tags"),
                v1.sparse_placeholder(tf.float32, [None, 2], "weights"),
            )
            out = tf.identity(v1.nn.safe_embedding_lookup_sparse(variable("a", 10, 8), tags, weights), "out")
            if rewritten:
                report = pipelines.rewrite(graph, booster_options.Options(), only=passes("tags", "weights"))
                # So they are looked up for all rows: entries of two features need not be in the same ones.
                assert not report.passes[-1].modified and "its weights are not of the same feature" in str(report)
            session.run(v1.global_variables_initializer())
            values.append(session.run(out, {tags: ids, weights: weights_of}))
    assert values[0].tobytes() == values[1].tobytes()
