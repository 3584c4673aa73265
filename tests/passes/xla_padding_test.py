"""What the pass xla_padding compiles for padded batches: the numbers for batches of any size, what stays out and why, and how often is compiled."""

import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import running, variable

from tf_booster import _compat
from tf_booster import options as booster_options
from tf_booster.passes import pipelines, xla_padding_plan
from tf_booster.passes.columns import Columns
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.xla import Xla
from tf_booster.passes.xla_clusters import clusters
from tf_booster.passes.xla_padding import XlaPadding

v1 = tf.compat.v1
pytestmark = pytest.mark.skipif(not _compat.xla_leaves_unmarked_ops(), reason="the pass leaves all to this TensorFlow")
SIZES = (0, 1, 20, 33, 100)
# XLA's exponentials are a few ulp from TensorFlow's, its sums are in another order, a product and a sum are one op: 2^-24 for each of some
# 20 terms and ops, of numbers around 1, of which differences are taken.
CLOSE = dict(rtol=4e-6, atol=1e-6)


@pytest.fixture(autouse=True)
def _small_clusters_are_made(monkeypatch):
    """Small ones do not pay; of 16 rows and more they are compiled here all the same."""
    monkeypatch.setattr(xla_padding_plan, "_LAUNCH_NS", 0.0)
    monkeypatch.setattr(xla_padding_plan, "_PADDING_NS", 0.0)
    monkeypatch.setattr(xla_padding_plan, "_SUM_NS", 0.0)


def rewrite(graph, *more):
    return pipelines.rewrite(graph, booster_options.Options(), only=[XlaPadding(), *more]).passes[0]


def rows_of(sizes=SIZES, columns=8):
    rng = np.random.RandomState(7)
    return [rng.standard_normal((size, columns)).astype(np.float32) for size in sizes]


def values(build, rewritten, batches, feed=lambda x, rows: {x: rows}):
    """What `build`(x [None, 8]) gives for each batch, each run three times: XLA compiles a size when it comes again. And the graph and the result."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        v1.set_random_seed(3)
        x = v1.placeholder(tf.float32, [None, 8], "x")
        fetches = build(x)
        result = rewrite(graph) if rewritten else None
        session.run(v1.global_variables_initializer())
        runs = [[session.run(fetches, feed(x, rows)) for _ in range(3)] for rows in batches]
    return runs, graph, fetches, result


def check_same(build, exact=False, sizes=SIZES, modified=True):
    plain, _, _, _ = values(build, False, rows_of(sizes))
    ours, graph, fetches, result = values(build, True, rows_of(sizes))
    for expected, found in zip(plain, ours):
        for run in found:
            for a, b in zip(tf.nest.flatten(expected[0]), tf.nest.flatten(run)):
                assert a.shape == b.shape and a.dtype == b.dtype
                if exact or a.dtype.kind != "f":
                    np.testing.assert_array_equal(b, a)
                else:
                    np.testing.assert_allclose(b, a, **CLOSE)
    assert result.modified == modified, (result.changes, result.skipped)
    return graph, fetches, result


def dense(x, columns):
    kernel = tf.constant(np.random.RandomState(5).standard_normal((x.shape[-1], columns)) / 3, tf.float32)
    return tf.matmul(x, kernel) + tf.constant(0.1, shape=[columns])


def layer(x, columns):
    """Of a tensor of rank 3."""
    return v1.layers.dense(x, columns, kernel_initializer=v1.glorot_uniform_initializer(1))


def attention(x):
    """A product of rank 3 by tensordot, whose shapes are computed of the batch's size."""
    keys = tf.reshape(tf.tanh(x), [tf.shape(x)[0], 4, 2])
    hidden = tf.nn.sigmoid(layer(keys, 3) * 2.0)
    weights = tf.nn.softmax(tf.reduce_sum(hidden, 2))
    return tf.reduce_sum(keys * weights[:, :, None], 1)


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
        y = tf.identity(tf.tanh(x) * 2.0 + x, "y")
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


def out(name, build, reason):
    return pytest.param(build, reason, id=name)


@pytest.mark.parametrize(
    "build, reason",
    [
        out("product", lambda x: tf.matmul(x, tf.ones([8, 4])), "TensorFlow's kernels of products and"),
        out("softmax", tf.nn.softmax, "and of softmax are faster"),
        out("sum over the batch", lambda x: tf.reduce_sum(x, 0), "it goes along the rows"),
        out("softmax over the batch", lambda x: tf.nn.softmax(x[:, 0]), "it goes along the rows"),
        out("reverse", lambda x: tf.reverse(x, [0]), None),
        out("first rows", lambda x: x[:2], "it is not known to take all rows"),
        out("rows of two", lambda x: tf.reshape(tf.concat([x, x], 0), [-1, 16]), "its rows are of more than one"),
        out("random", lambda x: tf.random.uniform(tf.shape(x)), None),
        out("gather", lambda x: tf.gather(x, tf.cast(x[:, 0], tf.int32) * 0, axis=1), None),
        out("gather of rows", lambda x: tf.gather(variable("v", 9, 4), tf.cast(x[:, 0] > 0, tf.int32)), None),
        out("to integers", lambda x: tf.cast(x, tf.int32), "casts to integers"),
        out("integer division", lambda x: tf.cast(x, tf.int32) // 3, None),
        out("checks", lambda x: tf.debugging.check_numerics(x, "message"), None),
        out("strings", lambda x: tf.strings.to_hash_bucket_fast(tf.as_string(x), 9), None),
        out("waits", lambda x: waiting(x), "it waits for other ops"),
        out("python", lambda x: v1.py_func(lambda v: v, [x], tf.float32), None),
        out("unknown columns", lambda x: x[:, : tf.cast(tf.size(x) * 0 + 3, tf.int32)], "shape of a row is not known"),
        out("cond", lambda x: inside(lambda y: tf.cond(tf.size(x) > 3, y, lambda: x), x), "inside a tf.cond"),
        out(
            "loop",
            lambda x: inside(lambda y: tf.while_loop(lambda i, _: i < 3, lambda i, _: (i + 1, y()), [0, x]), x),
            "inside a tf.cond or a tf.while_loop",
        ),
    ],
)
def test_what_does_not_go_by_row_or_computes_otherwise_stays_out(build, reason):
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 8], "x")
        made = build(tf.tanh(tf.exp(x * 2.0) + 1.0))
        if not _compat.in_control_flow(made.op):
            tf.identity(made)
        result = rewrite(graph)
        assert result.modified
        copied = {
            op.name[len("tf_booster/padded") :].split("/", 1)[-1]
            for op in graph.get_operations()
            if "/padded" in op.name
        }
        assert made.op.name not in copied and "Tanh" in copied
        assert reason is None or any(reason in said for _, said in result.skipped), result.skipped


def waiting(x):
    with tf.control_dependencies([tf.debugging.assert_greater(tf.size(x), -1)]):
        return tf.abs(x)


def inside(construct, x):
    """What a branch or a body of v1 control flow makes of x."""
    made = []
    v1.disable_control_flow_v2()
    try:
        construct(lambda: made.append(tf.exp(x)) or made[-1])
    finally:
        v1.enable_control_flow_v2()
    return made[0]


def test_graphs_that_train_are_left_and_say_why():
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 8])
        loss = tf.reduce_mean(tf.square(tf.exp(x) * variable("w", 1, 8) + tf.tanh(x)))
        v1.train.AdagradOptimizer(0.1).minimize(loss)
        result = rewrite(graph)
    assert not result.modified and "the graph trains" in result.skipped[0][1]


def test_a_tensorflow_that_compiles_more_than_is_marked_gets_no_padding(monkeypatch):
    monkeypatch.setattr(_compat, "xla_leaves_unmarked_ops", lambda: False)
    with tf.Graph().as_default() as graph:
        tf.exp(tf.tanh(v1.placeholder(tf.float32, [None, 8])) * 2.0)
        assert "2.14 and later do not" in rewrite(graph).skipped[0][1]


def test_ops_on_a_gpu_are_left(monkeypatch):
    with tf.Graph().as_default() as graph:
        tf.exp(tf.tanh(v1.placeholder(tf.float32, [None, 8])) * 2.0)
        monkeypatch.setattr(GraphView, "runs_on_cpu", lambda self, op: False)
        result = rewrite(graph)
    assert not result.modified and "no kernels yet" in result.skipped[0][1]


def test_what_would_not_pay_is_left(monkeypatch):
    monkeypatch.undo()
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 8])
        tf.identity(tf.abs(tf.exp(tf.tanh(x) * 2.0) + 1.0))
        result = rewrite(graph)
    assert not result.modified and "more than 4096 rows" in result.skipped[-1][1]


def test_parts_of_static_shape_are_the_other_passs_and_a_second_run_changes_nothing():
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x, fixed = v1.placeholder(tf.float32, [None, 8]), v1.placeholder(tf.float32, [8, 8])
        scale = tf.tanh(tf.exp(tf.sigmoid(tf.square(fixed))))
        y = tf.identity(tf.exp(tf.tanh(x) * scale[0]) + 1.0, "out")
        report = pipelines.rewrite(graph, booster_options.Options(), only=[XlaPadding(), Xla()])
        assert [p.modified for p in report.passes] == [True, True]
        # What xla_padding made or replaced has no batch whose size anybody should make known.
        assert [node for node, _ in report.passes[1].skipped] == ["out"]
        before = graph.as_graph_def()
        assert not XlaPadding().requires(GraphView(graph))
        pipelines.rewrite(graph, booster_options.Options(), only=[XlaPadding(), Xla()])
        assert graph.as_graph_def() == before
        for _ in range(3):
            assert session.run(y, {x: np.ones((40, 8)), fixed: np.ones((8, 8))}).shape == (40, 8)


def test_a_pass_that_fails_when_its_edits_are_done_leaves_tensorflows_graph():
    class Fails(XlaPadding):
        def ensures(self, view):
            raise RuntimeError("after the edits")

    with tf.Graph().as_default() as graph, v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 8], "x")
        y = tf.identity(attention(tf.exp(x) * 2.0), "y")
        before = running(graph, y)
        report = pipelines.rewrite(graph, booster_options.Options(), only=[Fails()])
        assert "after the edits" in report.passes[0].skipped[0][1]
        assert running(graph, y) == before and not before["TfBoosterPadRows"]
        view = GraphView(graph)
        assert not any(view.is_superseded(op) for op in graph.get_operations())
        session.run(v1.global_variables_initializer())
        assert session.run(y, {x: rows_of([40])[0]}).shape == (40, 2)


def test_clusters_of_two_devices_do_not_wait_for_each_other_in_a_circle():
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 8])
        with tf.device("/cpu:0"):
            a, b = tf.exp(x), tf.tanh(x)
        with tf.device("/cpu:1"):
            c, d = tf.exp(a), tf.tanh(x + 1.0)
            c = c + tf.sigmoid(d)
        with tf.device("/cpu:0"):
            e = tf.exp(d) + b + a
        view = GraphView(graph)
        index = view.index()
        found = clusters(index, set(view.ops("Exp", "Tanh", "AddV2", "Sigmoid")))
        number = {op: i for i, cluster in enumerate(found) for op in cluster}
        assert number[c.op] != number[a.op]
        reads = {(number[t.op], n) for op, n in number.items() for t in op.inputs if number.get(t.op, n) != n}
        assert reads and not any((b, a) in reads for a, b in reads), reads
        assert e.op in number


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

PROGRAM = """
import numpy as np, psutil, tensorflow as tf, tf_booster
v1 = tf.compat.v1
v1.disable_eager_execution()
tf.enable_gpu_booster(xla="padded")
with tf.Graph().as_default():
    x = v1.placeholder(tf.float32, [None, 256])
    y = x
    for _ in range(20):
        y = tf.tanh(y * 1.5 + 0.5) - y
    y = tf.reduce_sum(y, 1)
    report = tf_booster.rewrite_graph()
    rng, process, seen = np.random.RandomState(0), psutil.Process(), []
    with v1.Session() as session:
        for run in range(1600):
            session.run(y, {x: rng.rand(1 + run % 400, 256)})
            if run % 400 == 399:
                seen.append(process.memory_info().rss)
changes = next(p for p in report.passes if p.name == "xla_padding").changes
print("RESULT", seen[-1] - seen[1], len(changes) - 1, changes[0])
"""


def test_compilations_are_bounded_and_memory_is_flat():
    """400 batch sizes, four times: buckets of 48 to 512 rows. Compiled for each size, the process grew by some 100 KB for each."""
    environment = {"TF_CPP_VMODULE": "device_compilation_profiler=1", "TF_CPP_MIN_LOG_LEVEL": "0", "PATH": ""}
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=True
    )
    growth, made, said = re.search(r"RESULT (-?\d+) (\d+) (.*)", process.stdout).groups()
    fewest = int(re.search(r"less than (\d+) rows", said)[1])
    buckets = [b for b in (32, 48, 64, 96, 128, 192, 256, 384, 512) if b >= fewest]
    times = [int(n) for n in re.findall(r"Compiled \w+ (\d+) times", process.stderr)]
    assert made == "1" and 16 <= fewest <= 100, said
    assert times == list(range(1, len(buckets) + 1)), (times, process.stderr[-2000:])
    assert int(growth) < 4 * 2**20
