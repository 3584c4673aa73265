"""What the pass `xla` marks, what it leaves and why, and that it bounds compilations and memory."""

import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import tf_booster
from tf_booster import _compat
from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.base import Pass
from tf_booster.passes.graph_view import GraphView, is_marked_for_compilation
from tf_booster.passes.xla import Xla
from tf_booster.passes.xla_clusters import clusters
from tf_booster.passes.xla_ops import COMPILED

v1 = tf.compat.v1
pytestmark = pytest.mark.skipif(not _compat.xla_leaves_unmarked_ops(), reason="the pass leaves all to this TensorFlow")


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def scope_of(tensor):
    op = tensor if isinstance(tensor, tf.Operation) else tensor.op
    return op.get_attr("_XlaScope").decode() if is_marked_for_compilation(op) else None


def long_chain(x):
    """Four ops that compute, in order."""
    return tf.tanh(tf.exp(tf.sigmoid(tf.square(x))))


def run(graph):
    return Xla().run(GraphView(graph))


def test_is_off_by_default():
    assert "xla" not in [p.name for p in pipelines.passes(Options())]
    assert "xla" in [p.name for p in pipelines.passes(Options(xla="auto"))]


def test_a_static_region_becomes_one_cluster_with_its_constants(graph):
    x = v1.placeholder(tf.float32, [8, 4])
    factor = tf.constant(2.0)
    total = tf.reduce_sum(long_chain(x) * factor, axis=[1])
    result = run(graph)
    scopes = {scope_of(op) for op in graph.get_operations() if op.type != "Placeholder"}
    assert len(scopes) == 1 and None not in scopes
    assert scope_of(x) is None and scope_of(factor) == scope_of(total)
    assert result.modified and "1 cluster(s)" in result.changes[-1] and "1 compilation(s)" in result.changes[-1]


def test_a_tensorflow_that_compiles_more_than_is_marked_gets_no_marks(graph, monkeypatch):
    monkeypatch.setattr(_compat, "xla_leaves_unmarked_ops", lambda: False)
    result = (long_chain(v1.placeholder(tf.float32, [8, 4])), run(graph))[1]
    assert not result.modified and not any(map(is_marked_for_compilation, graph.get_operations()))
    assert "2.14 and later do not" in result.skipped[0][1]


def test_an_unknown_batch_stays_out_with_the_remedy(graph):
    x = v1.placeholder(tf.float32, [None, 4])
    inner = long_chain(x)
    weights = long_chain(v1.placeholder(tf.float32, [4, 4]))
    product = tf.matmul(inner, weights)
    result = run(graph)
    assert scope_of(weights) and not scope_of(inner) and not scope_of(product)
    reasons = [reason for _, reason in result.skipped if "is not known" in reason]
    assert len(reasons) == 1 and "drop_remainder=True" in reasons[0]
    assert any(node.endswith("and 4 more") for node, _ in result.skipped)


def left_out(name, build):
    return pytest.param(build, id=name)


@pytest.mark.parametrize(
    "build",
    [
        left_out("random", lambda x: tf.random.uniform([8, 4])),
        left_out("gather", lambda x: tf.gather(x, [0, 3])),
        left_out("integer division", lambda x: tf.cast(x, tf.int32) // 3),
        left_out("cast to integers", lambda x: tf.cast(x, tf.int32)),
        left_out("axes of the input", lambda x: tf.reduce_sum(x, axis=tf.cast(x[0, 0], tf.int32))),
        left_out("checks", lambda x: tf.debugging.check_numerics(x, "message")),
        left_out("strings", lambda x: tf.strings.length(tf.as_string(x))),
        left_out("unique", lambda x: tf.unique(tf.reshape(x, [-1]))[0]),
        left_out("sparse labels", lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(tf.zeros(8, tf.int64), x)),
        left_out("python", lambda x: v1.py_func(lambda v: v, [x], tf.float32)),
    ],
)
def test_what_computes_otherwise_in_xla_stays_out(graph, build):
    made = build(long_chain(v1.placeholder(tf.float32, [8, 4])))
    result = run(graph)
    assert result.modified and not scope_of(made)


def test_variables_stay_out_and_what_is_read_from_them_goes_in(graph):
    variable = v1.get_variable("v", [4, 4])
    update = variable.assign_sub(long_chain(variable))
    run(graph)
    kinds = {op.type for op in graph.get_operations() if is_marked_for_compilation(op)}
    assert {"Square", "Sigmoid", "Exp", "Tanh"} <= kinds
    assert not kinds & {"VarHandleOp", "ReadVariableOp", "AssignVariableOp", "AssignSubVariableOp"}
    assert not any(scope_of(op) for op in graph.get_operations() if "Initializer" in op.name)
    with v1.Session() as session:
        session.run(variable.initializer)
        before = session.run(variable)
        after = session.run(update)
    np.testing.assert_allclose(after, before - np.tanh(np.exp(1 / (1 + np.exp(-(before**2))))), rtol=1e-5)


def test_control_flow_stays_out(graph):
    v1.disable_control_flow_v2()
    try:
        x = v1.placeholder(tf.float32, [8, 4])
        inside = []
        branch = lambda: inside.append(long_chain(x)) or inside[-1]
        tf.cond(x[0, 0] > 0, branch, lambda: x)
        tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, branch()), [0, x])
    finally:
        v1.enable_control_flow_v2()
    assert not run(graph).modified
    assert len(inside) == 2 and not any(scope_of(tensor) for tensor in inside)


def test_marks_of_the_user_are_left_as_they_are(graph):
    x = v1.placeholder(tf.float32, [8, 4])
    with tf.xla.experimental.jit_scope():
        compiled = long_chain(x)
    with tf.xla.experimental.jit_scope(compile_ops=False):
        not_compiled = long_chain(x)
    scope = scope_of(compiled)
    assert not run(graph).modified
    assert scope_of(compiled) == scope and not_compiled.op.get_attr("_XlaCompile") is False


def test_a_path_out_of_a_cluster_and_back_cuts_it(graph):
    x = v1.placeholder(tf.float32, [8, 4])
    first = long_chain(x)
    outside = tf.gather(first, [0, 1, 2, 3, 4, 5, 6, 7])
    second = long_chain(first + outside)
    aside = tf.exp(first)
    run(graph)
    assert scope_of(first) == scope_of(aside) and scope_of(second)
    assert scope_of(first) != scope_of(second) and not scope_of(outside)


@pytest.mark.parametrize("seed", range(5))
def test_clusters_of_any_graph_are_convex(graph, seed):
    rng = np.random.RandomState(seed)
    tensors = [v1.placeholder(tf.float32, [2])]
    for _ in range(120):
        inputs = [tensors[i] for i in rng.randint(max(0, len(tensors) - 12), len(tensors), 2)]
        with tf.control_dependencies([tensors[rng.randint(len(tensors))]] if rng.rand() < 0.1 else []):
            tensors.append(tf.add(*inputs) if rng.rand() < 0.7 else tf.math.floordiv(*inputs))
    view = GraphView(graph)
    index = view.index()
    found = clusters(index, set(view.ops("AddV2", "Add")))
    assert sorted(op.name for c in found for op in c) == sorted(op.name for op in view.ops("AddV2", "Add"))
    assert any(len(cluster) > 1 for cluster in found)
    for cluster in found:
        members = {index.number[op] for op in cluster}
        outside = [n for n in index.upstream(cluster) if n not in members]
        assert not any(members & index.upstream([index.ops[n]]) for n in outside if members & set(index.before[n]))


def test_small_groups_are_not_worth_a_compilation(graph):
    tf.exp(v1.placeholder(tf.float32, [8]))
    result = run(graph)
    assert not result.modified and "fewer than 4" in result.skipped[-1][1]


def test_a_second_run_changes_nothing_and_a_failure_takes_the_marks_off(graph):
    long_chain(v1.placeholder(tf.float32, [8, 4]))
    view = GraphView(graph)
    before = graph.as_graph_def()
    assert Xla().run(view).modified
    marked = graph.as_graph_def()
    assert marked != before
    assert not Xla().run(view).modified and graph.as_graph_def() == marked
    view.rollback()
    assert graph.as_graph_def() == before


def test_of_a_pass_that_fails_behind_it_nothing_stays(graph):
    class Fails(Pass):
        name = "fails"

        def requires(self, view):
            return True

        def run(self, view):
            Xla().run(view)
            raise RuntimeError("midway")

    long_chain(v1.placeholder(tf.float32, [8, 4]))
    before = graph.as_graph_def()
    report = pipelines.rewrite(graph, Options(), only=[Fails()])
    assert "midway" in report.passes[0].skipped[0][1] and graph.as_graph_def() == before


PROGRAM = """
import sys
import numpy as np, psutil, tensorflow as tf, tf_booster
v1 = tf.compat.v1
tf.enable_gpu_booster(xla="auto")
with tf.Graph().as_default():
    x, fixed = v1.placeholder(tf.float32, [None, 6]), v1.placeholder(tf.float32, [16, 6])
    kernel = v1.get_variable("kernel", [6, 6])
    # The batch's part has an unknown size; the decorrelated kernel and the fixed part are static.
    weights = tf.tanh(tf.matmul(kernel, kernel, transpose_b=True) * 0.1 + tf.eye(6))
    loss = tf.reduce_mean(tf.square(tf.matmul(x, weights))) + tf.reduce_mean(tf.exp(-tf.square(tf.matmul(fixed, weights))))
    train_op = v1.train.AdamOptimizer(0.001).minimize(loss, global_step=v1.train.get_or_create_global_step())
    rng, process, seen = np.random.RandomState(0), psutil.Process(), []
    with v1.train.MonitoredTrainingSession() as session:
        for step in range(2600):
            batch = rng.rand(1 + step % 200, 6)
            session.run(train_op, {x: batch, fixed: rng.rand(16, 6)})
            if step in (599, 2599):
                seen.append(process.memory_info().rss)
changes = next(p for p in tf_booster.report().to_dict()["passes"] if p["name"] == "xla")["changes"]
print("RESULT", seen[1] - seen[0], changes[-1])
"""


def test_compilations_are_as_many_as_the_report_says_and_memory_is_flat():
    """200 batch sizes in 2,600 steps. Each compilation that TensorFlow kept would cost some 100 KB."""
    environment = {"TF_CPP_VMODULE": "device_compilation_profiler=1", "TF_CPP_MIN_LOG_LEVEL": "0", "PATH": ""}
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=True)
    growth, said = re.search(r"RESULT (-?\d+) (.*)", ran.stdout).groups()
    compiled = re.findall(r"Compiled (\w+) (\d+) times", ran.stderr)
    assert compiled, ran.stderr[-2000:]
    promised = int(re.search(r"(\d+) compilation", said)[1])
    assert 0 < len(compiled) <= promised and all(times == "1" for _, times in compiled)
    assert int(growth) < 4 * 2**20


def test_xla_has_a_kernel_for_every_op_that_is_marked():
    """Kernels of the compiler are registered when it is used first."""
    from tensorflow.python.framework import kernels

    with tf.xla.experimental.jit_scope():
        y = long_chain(v1.placeholder_with_default(tf.zeros([4]), [4]))
    with v1.Session() as session:
        session.run(y)
    missing = []
    for kind in sorted(COMPILED):
        devices = {kernel.device_type for kernel in kernels.get_registered_kernels_for_op(kind).kernel}
        if "XLA_CPU_JIT" not in devices:
            missing.append(kind)
    assert missing == []


def test_names_the_disabled_pass():
    with pytest.raises(ValueError):
        tf_booster.enable_gpu_booster(xla="always")
