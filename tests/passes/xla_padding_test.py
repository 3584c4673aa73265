"""What the pass xla_padding compiles for padded batches: the numbers for batches of any size, and which ops run."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import running, variable
from padded_pair import CLOSE, SIZES, attention, check_same, dense, layer, make_small_clusters, rewrite, rows_of, values

from tf_booster import _compat
from tf_booster import options as booster_options
from tf_booster.passes import pipelines
from tf_booster.passes.columns import Columns
from tf_booster.passes.xla_padding import XlaPadding

v1 = tf.compat.v1
pytestmark = pytest.mark.skipif(not _compat.xla_leaves_unmarked_ops(), reason="the pass leaves all to this TensorFlow")


@pytest.fixture(autouse=True)
def _small_clusters_are_made(monkeypatch):
    make_small_clusters(monkeypatch)


# From x [None, 8] to what is fetched.
BY_ROW = {
    "gates": lambda x: tf.sigmoid(x) * tf.tanh(x) + tf.nn.softplus(x) * 0.5,
    "between products": lambda x: dense(tf.nn.relu(tf.exp(-tf.square(dense(x, 6)))), 3),
    "attention": attention,
    "norm of a layer": lambda x: (x - tf.reduce_mean(x, 1, keepdims=True))
    * tf.math.rsqrt(tf.reduce_mean(tf.square(x), 1, keepdims=True) + 1e-3),
    "cross": lambda x: x * tf.reduce_sum(x * variable("w", 1, 8)[0], 1, keepdims=True) + x,
    "more rows and back": lambda x: tf.reshape(tf.exp(tf.reshape(tf.tanh(x), [-1, 4])) * 2.0, [-1, 8]) + x,
    "join, split, slices": lambda x: tf.add_n(tf.split(tf.concat([x, tf.tanh(x)], 1), 2, 1)) * x[:, 2:3] + x[:, ::-1],
    "stack and unstack": lambda x: tf.add_n(tf.unstack(tf.stack([tf.exp(x), x * 2.0], 1), axis=1)),
    "two results": lambda x: [tf.exp(x) * 2.0 + 1.0, tf.reduce_max(tf.tanh(x) - x, 1)],
    "statistics of the batch": lambda x: tf.exp(x - tf.reduce_mean(tf.tanh(x) * 2.0, 0)) * 3.0,
    "logarithms": lambda x: tf.where(x > 0, tf.math.log(tf.abs(x) + 1e-7), tf.zeros_like(x)) / (1.0 + x * x),
    "numbers of rows": lambda x: tf.exp(x) * 2.0 / (1.0 + tf.cast(tf.shape(x)[0], tf.float32)),
}


@pytest.mark.parametrize("name", BY_ROW)
def test_batches_of_any_size_have_the_numbers_of_tensorflow(name):
    graph, fetches, result = check_same(BY_ROW[name], sizes=SIZES[1:] if "statistics" in name else SIZES)
    assert result.other_bits and running(graph, *tf.nest.flatten(fetches))["TfBoosterPadRows"] >= 1


def test_what_computes_each_number_by_itself_has_the_same_bits():
    """Sums, products, comparisons and roots are rounded as IEEE says; a product and a sum that XLA makes one op are not among these."""
    check_same(
        lambda x: [
            tf.nn.relu(tf.maximum(x + 1.0, 0.25) - x) + tf.abs(x),
            tf.where(x > 0.5, tf.sqrt(x * x), tf.minimum(-x, 3.0)),
            tf.concat([x / 3.0, tf.nn.leaky_relu(x)], 1),
        ],
        exact=True,
    )


def test_what_is_no_number_stays_none():
    def build(x):
        # NaN in the first of four columns, infinities in the next.
        bad = tf.concat([x[:, :1] * 0.0 / 0.0, x[:, 1:3] * 1e38 * 1e38, x[:, 3:]], 1)
        maxima = [tf.reduce_max(bad, 1), tf.reduce_min(-bad, 1), tf.maximum(bad, bad[:, ::-1]), tf.minimum(x, bad)]
        clipped = [tf.clip_by_value(bad, -1.0, 2.0), tf.nn.relu6(bad), tf.nn.relu(bad), tf.nn.leaky_relu(bad)]
        curves = [tf.math.erf(bad), tf.nn.gelu(bad), tf.tanh(bad), tf.sigmoid(bad), tf.nn.softplus(bad), tf.nn.elu(bad)]
        return [tf.identity(y) for y in [*maxima, *clipped, *curves, tf.nn.selu(bad), tf.sign(bad), tf.exp(-bad)]]

    check_same(build)


def test_shapes_made_of_the_number_of_rows_do_not_part_a_cluster():
    def build(x):
        y = tf.tanh(x)
        return tf.reshape(tf.exp(tf.reshape(y, [tf.shape(y)[0], 4, 2])) * 2.0, tf.shape(y)) + 1.0

    _, _, result = check_same(build)
    assert len(result.changes) == 2 and "1 tensor(s) padded, 1 cut back" in result.changes[0]


def ran(session, fetches, feed):
    """The types of ops that ran, of those that are of one branch alone."""
    metadata = v1.RunMetadata()
    session.run(fetches, feed, v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), metadata)
    labels = [node.timeline_label for device in metadata.step_stats.dev_stats for node in device.node_stats]
    return {
        kind for kind in ("_XlaRun", "TfBoosterTakeFirstRows", "Tanh") if any(f"= {kind}(" in label for label in labels)
    }


def test_small_batches_and_large_ones_take_their_own_branch():
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 8], "x")
        y = tf.identity(tf.reshape(tf.tanh(x) * 2.0 + x, [tf.shape(x)[0], 2, 4]) + 1.0, "y")
        assert "less than 16 rows" in rewrite(graph).changes[0]
        for _ in range(3):
            session.run(y, {x: np.ones((16, 8))})
        assert ran(session, y, {x: np.ones((16, 8))}) == {"_XlaRun", "TfBoosterTakeFirstRows"}
        assert ran(session, y, {x: np.ones((15, 8))}) == {"Tanh"}


def test_a_row_does_not_depend_on_others_nor_on_padding():
    """To the last bit, for batches of one bucket; rows of the batch, the last one that is repeated among them, are not numbers."""

    def build(x):
        return tf.reduce_sum(tf.sigmoid(x) * tf.math.log(tf.abs(x)) + tf.exp(x), 1)

    rows = rows_of([40])[0]
    batches = [rows, rows[:35], np.concatenate([rows[:38], [[np.nan] * 8, [np.inf] * 8]])]
    (whole, less, broken), _, _, result = values(build, True, batches)
    assert result.modified and np.all(np.isfinite(whole[2]))
    assert less[2].tobytes() == whole[2][:35].tobytes()
    assert broken[2][:38].tobytes() == whole[2][:38].tobytes() and not np.any(np.isfinite(broken[2][38:]))


def test_what_is_held_by_name_keeps_its_value():
    def build(x):
        y = attention(x)
        ops = [op for op in x.graph.get_operations() if "Initializer" not in op.name]
        return [y, [t.name for op in ops for t in op.outputs if t.dtype in (tf.float32, tf.int32)]]

    check_same(build)


OTHER_ROWS = {
    "one row for all": (lambda x, y: tf.exp(x) * tf.tanh(y) + y, [(40, 1), (40, 40), (1, 40), (1, 1), (0, 1)]),
    "rows of several examples": (
        # 80 rows of 4 numbers become 40 of 8 where y has 40.
        lambda x, y: tf.tanh(tf.reshape(tf.exp(x) * 2.0, [tf.shape(y)[0], 8])) * 2.0 + 1.0,
        [(80, 40), (34, 17)],
    ),
    "each by itself": (lambda x, y: [tf.exp(x) * 2.0, tf.exp(y) * 2.0], [(40, 20), (3, 50)]),
}


@pytest.mark.parametrize("name", OTHER_ROWS)
def test_values_with_different_numbers_of_rows(name):
    build, sizes = OTHER_ROWS[name]
    found = []
    for rewritten in (False, True):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            x, y = (v1.placeholder(tf.float32, [None, 4], name) for name in "xy")
            fetches = build(x, y)
            if rewritten:
                assert rewrite(graph).modified
            for size in sizes:
                feed = {p: rows_of([n], 4)[0] for p, n in zip((x, y), size)}
                found += [session.run(fetches, feed) for _ in range(3)]
    for a, b in zip(found[: len(found) // 2], found[len(found) // 2 :]):
        for plain, ours in zip(tf.nest.flatten(a), tf.nest.flatten(b)):
            np.testing.assert_allclose(ours, plain, **CLOSE)


def test_a_fetch_does_not_come_to_need_another_feed():
    """Two towers that meet: the user's vector can be had without an item."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        user, item = (v1.placeholder(tf.float32, [None, 8], name) for name in ("user", "item"))
        towers = [tf.tanh(tf.exp(x * 2.0) + 1.0) for x in (user, item)]
        score = tf.identity(tf.reduce_sum(tf.square(towers[0] * towers[1] + 1.0), 1), "score")
        vector = tf.identity(towers[0], "vector")
        result = rewrite(graph)
        assert len(result.changes) == 4  # Of each tower, and of both; and their number.
        # For large batches and for small ones; those of before run for nobody.
        assert running(graph, score)["Exp"] == 4
        rows = rows_of([40])[0]
        expected = np.tanh(np.exp(rows * 2) + 1)
        for _ in range(3):
            np.testing.assert_allclose(session.run(vector, {user: rows}), expected, **CLOSE)
            np.testing.assert_allclose(
                session.run(score, {user: rows, item: rows}), np.sum((expected**2 + 1) ** 2, 1), **CLOSE
            )


def test_what_runs_in_one_of_two_branches_is_merged_with_nothing():
    def build(x):
        return tf.concat([tf.tanh(x[:, i : i + 2]) * 2.0 for i in range(0, 8, 2)], 1)

    for passes, count in (([Columns()], 1), ([XlaPadding(), Columns()], 0)):
        with tf.Graph().as_default() as graph:
            y = tf.identity(build(v1.placeholder(tf.float32, [None, 8], "x")))
            pipelines.rewrite(graph, booster_options.Options(), only=passes)
            assert running(graph, y)["TfBoosterConcatColumns"] == count


@pytest.mark.parametrize("seed", range(6))
def test_graphs_put_together_at_random(seed):
    """Ops that go by row and ops that do not, in any order, with results in between."""

    def build(x):
        rng = np.random.RandomState(seed)
        known = [x]
        for _ in range(40):
            a, b = (known[-1 - min(len(known) - 1, rng.geometric(0.4) - 1)] for _ in range(2))
            known.append(_STEPS[rng.randint(len(_STEPS))](a, b))
        return [tf.identity(known[i]) for i in rng.choice(len(known), 4, replace=False)] + [known[-1] * 2.0]

    check_same(build, sizes=(1, 20, 33, 100))


_STEPS = [
    lambda a, b: tf.tanh(a) * b,
    lambda a, b: tf.nn.softmax(tf.tanh(a) * 2.0) + tf.sigmoid(b),
    lambda a, b: tf.concat([a[:, :4], b[:, 4:]], 1),
    lambda a, b: tf.tanh(a - tf.reduce_mean(b, 1, keepdims=True)),
    lambda a, b: tf.tanh(dense(a, 8)) + b,
    lambda a, b: tf.tanh(a) - tf.reduce_mean(tf.tanh(b), 0),
    lambda a, b: tf.reshape(tf.tanh(tf.reshape(a, [-1, 2, 4])) * tf.reshape(b, [tf.shape(b)[0], 2, 4]), [-1, 8]),
    lambda a, b: tf.reverse(tf.reverse(tf.sigmoid(a), [0]), [0]) * tf.tanh(b),
    lambda a, b: tf.where(a > b, tf.tanh(a), tf.sin(b)),
    lambda a, b: tf.add_n(tf.unstack(tf.stack([tf.tanh(a), tf.abs(b)], 2), axis=2)) / 2.0,
    lambda a, b: tf.reshape(layer(tf.reshape(tf.tanh(a), [-1, 4, 2]), 2), [-1, 8]) + tf.tanh(b),
]
