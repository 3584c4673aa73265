"""What the pass xla_padding leaves out and why, that it is undone whole, and how often is compiled."""

import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import running, variable
from padded_pair import attention, make_small_clusters, rewrite, rows_of

from tf_booster import _compat
from tf_booster import options as booster_options
from tf_booster.passes import pipelines
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.xla import Xla
from tf_booster.passes.xla_clusters import clusters
from tf_booster.passes.xla_padding import XlaPadding

v1 = tf.compat.v1
pytestmark = pytest.mark.skipif(not _compat.xla_leaves_unmarked_ops(), reason="the pass leaves all to this TensorFlow")


@pytest.fixture(autouse=True)
def _small_clusters_are_made(monkeypatch):
    make_small_clusters(monkeypatch)


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
        out("maximum", lambda x: tf.maximum(x, 0.5), "makes a number of a NaN"),
        out("maximum of a row", lambda x: tf.reduce_max(x, 1), "makes a number of a NaN"),
        out("error function", tf.math.erf, "makes a number of a NaN"),
        out("integer division", lambda x: tf.cast(x, tf.int32) // 3, None),
        out("checks", lambda x: tf.debugging.check_numerics(x, "message"), None),
        out("strings", lambda x: tf.strings.to_hash_bucket_fast(tf.as_string(x), 9), None),
        out("static rows", lambda x: static_rows(x), "its number of rows is static"),
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
        copied = {op.name.partition("/large/")[2] for op in graph.get_operations()}
        assert made.op.name not in copied and "Tanh" in copied
        assert reason is None or any(reason in said for _, said in result.skipped), result.skipped


def static_rows(x):
    """As a program sets them that knows better; TensorFlow then makes constants of shapes."""
    y = tf.abs(x)
    y.set_shape([40, 8])
    tf.identity(tf.reshape(tf.exp(y) * 2.0, tf.shape(y) * tf.constant([2, 1]) // tf.constant([1, 2])))
    return y


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
