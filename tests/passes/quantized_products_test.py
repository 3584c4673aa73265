"""Products in integers after the pass: which layers, what stays in float32 and why, and that scores are near those of TensorFlow."""

import re

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import running

from tf_booster import _compat
from tf_booster.options import Options
from tf_booster.passes import fetches as noted
from tf_booster.passes import named_features, pipelines, quantized_products
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.quantized_products import QuantizedProducts
from tf_booster.passes.repeated_features import RepeatedFeatures

v1 = tf.compat.v1
INPUTS = 70
TOLERANCE = {"int8": 0.02, "int16": 0.0015}  # Of the largest score, or of 1: sums of numbers as large as 1 cancel.


def weights(name, shape, dtype=tf.float32, resource=True):
    initializer = v1.random_uniform_initializer(-0.2, 0.25, seed=len(name) + sum(shape))
    return v1.get_variable(name, shape, dtype, initializer, use_resource=resource)


def dense(x, width, name, activation=tf.nn.relu, resource=True):
    with v1.variable_scope(name):
        kernel = weights("kernel", [x.shape[1], width], resource=resource)
        return activation(tf.nn.bias_add(tf.matmul(x, kernel), weights("bias", [width], resource=resource)))


def tower(x, resource=True):
    return dense(dense(dense(x, 64, "first", resource=resource), 32, "second", tf.identity, resource), 1, "logits", tf.identity, resource)  # fmt: skip


def rewrite(graph, precision="int8", more=()):
    report = pipelines.rewrite(graph, Options(), only=[*more, QuantizedProducts(precision)])
    return next(p for p in report.passes if p.name == "quantized_products")


def run(build, precision="int8", rows=(9, 1, 0), more=(), close=True):
    """`build`(x [batch, 70]) -> what is fetched, plain and rewritten, for the same weights. Returns the graph, its fetches and the pass's result."""
    found = []
    for rewritten in (False, True):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            x = v1.placeholder(tf.float32, [None, INPUTS], "x")
            fetches = build(x)
            result = rewrite(graph, precision, more) if rewritten else None
            session.run(v1.global_variables_initializer())
            batches = [np.random.RandomState(n).standard_normal((n, INPUTS)).astype(np.float32) for n in rows]
            found.append([session.run(fetches, {x: batch}) for batch in batches])
    for plain, ours in zip(*found):
        for a, b in zip(tf.nest.flatten(plain), tf.nest.flatten(ours)):
            assert a.shape == b.shape
            if close:
                assert np.abs(a - b).max(initial=0) <= TOLERANCE[precision] * np.abs(a).max(initial=1)
    return graph, fetches, result


@pytest.mark.parametrize("precision", ["int8", "int16"])
def test_layers_become_one_op_each_and_logits_stay(precision):
    graph, out, result = run(tower, precision)
    found = running(graph, out)
    assert found["TfBoosterQuantizedMatMul"] == 2 and found["MatMul"] == found["BiasAdd"] == 1 and found["Relu"] == 0
    assert result.changes[:2] == [
        f"'first/MatMul' [70, 64] in {precision}, with its bias and its Relu",
        f"'second/MatMul' [64, 32] in {precision}, with its bias",
    ]
    assert result.modified and result.other_numbers.startswith(precision) and not result.other_bits
    assert result.skipped == [
        ("logits/MatMul", "its weights are [32, 1]; integers are faster from 64 inputs and 16 outputs on")
    ]


def test_other_numbers_are_said_and_how_to_keep_tensorflows():
    with tf.Graph().as_default() as graph:
        tower(v1.placeholder(tf.float32, [None, INPUTS]))
        report = pipelines.rewrite(graph, Options(scoring_precision="int8"))
    assert "other numbers than TensorFlow's: int8, weights by column and activations by row in 8 bits" in str(report)
    assert next(p for p in report.to_dict()["passes"] if p["name"] == "quantized_products")["other_numbers"]


def test_without_the_option_nothing_is_rounded():
    with tf.Graph().as_default() as graph:
        out = tower(v1.placeholder(tf.float32, [None, INPUTS]))
        report = pipelines.rewrite(graph, Options())
    assert "quantized_products" not in str(report) and running(graph, out)["TfBoosterQuantizedMatMul"] == 0


def test_a_second_run_changes_nothing():
    with tf.Graph().as_default() as graph:
        tower(v1.placeholder(tf.float32, [None, INPUTS]))
        rewrite(graph)
        ops = graph.get_operations()
        assert not QuantizedProducts("int8").run(GraphView(graph)).modified
        assert graph.get_operations() == ops


def _other_forms(x):
    """Transposed weights, a constant, an AddV2, a Relu without bias, no bias, another activation."""
    turned = tf.matmul(x, weights("turned", [64, INPUTS]), transpose_b=True) + weights("b", [64])
    frozen = tf.nn.relu(tf.matmul(x, tf.constant(np.full((INPUTS, 64), 0.1, np.float32))))
    return dense(turned + frozen, 64, "gelu", tf.nn.gelu)


def test_other_forms_of_layers():
    graph, out, result = run(_other_forms)
    assert running(graph, out)["TfBoosterQuantizedMatMul"] == 3 and running(graph, out)["MatMul"] == 0
    assert [change.split("] in int8")[1] for change in result.changes[:3]] == [", with its bias", ", with its Relu", ", with its bias"]  # fmt: skip
    assert result.changes[0] == "'MatMul' [70, 64] in int8, with its bias" and result.skipped == []
    made = [op for op in graph.get_operations() if op.type == "TfBoosterQuantizedMatMul"]
    assert GraphView(graph).originals(made[1]) == ["MatMul_1", "Relu"]


def kept(graph):
    return [op.get_attr("keep_weights") for op in graph.get_operations() if op.type == "TfBoosterQuantizedMatMul"]


def test_weights_are_kept_but_of_reference_variables():
    graph, _, result = run(lambda x: tower(x, resource=False))
    assert kept(graph) == [False, False]
    assert all("at each step, because a reference Variable is written in place" in line for line in result.changes[:2])
    graph, _, _ = run(tower)
    assert kept(graph) == [True, True]


def test_partitions_are_joined_and_rounded_at_each_step():
    def build(x):
        with v1.variable_scope("parts", partitioner=tf.compat.v1.fixed_size_partitioner(3), use_resource=True):
            kernel = v1.get_variable(
                "kernel", [INPUTS, 64], initializer=v1.random_uniform_initializer(-0.2, 0.2, seed=1)
            )
        return tf.nn.tanh(tf.matmul(x, kernel))

    graph, out, result = run(build)
    assert running(graph, out)["MatMul"] == 0 and kept(graph) == [False]
    assert result.changes[0].endswith("because their partitions are joined at each step")


def test_weights_that_change_between_runs():
    """Of both kinds of Variables."""
    for resource in (True, False):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            x = v1.placeholder(tf.float32, [None, INPUTS], "x")
            out = dense(x, 32, "layer", resource=resource)
            kernel, bias = v1.global_variables()
            plain = tf.identity(tf.nn.relu(tf.matmul(x, kernel) + bias), "in_float32")
            new = v1.placeholder(tf.float32, [INPUTS, 32])
            with tf.name_scope("write"):
                write = kernel.assign(new).op
            assert not rewrite(graph).modified  # It writes: who knows whether it trains.
            noted.note_spec(graph, tf.estimator.EstimatorSpec(tf.estimator.ModeKeys.PREDICT, {"p": plain}))
            named_features.note_spec(
                graph, {"x": x}, tf.estimator.EstimatorSpec(tf.estimator.ModeKeys.PREDICT, {"p": plain, "q": out})
            )
            out = tf.identity(out)
            assert rewrite(graph).modified
            session.run(v1.global_variables_initializer())
            for i in range(4):
                session.run(write, {new: np.random.RandomState(i).standard_normal((INPUTS, 32))})
                ours, theirs = session.run([out, plain], {x: np.ones((3, INPUTS), np.float32)})
                assert np.abs(ours - theirs).max() <= 0.02 * np.abs(theirs).max()


def test_what_is_fetched_goes_on_under_its_name_with_the_same_numbers():
    """An Estimator fetches by name; what is behind it reads the same values."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, INPUTS])
        vector = dense(x, 64, "first")  # A Relu.
        product = tf.matmul(vector, weights("w", [64, 32]))
        alone = tf.matmul(vector, weights("w2", [64, 16]))
        predictions = {"vector": vector, "alone": alone, "score": tf.reduce_sum(product + weights("b", [32]), 1)}
        more = tf.reduce_sum(vector, 1) + tf.reduce_sum(alone, 1)
        spec = tf.estimator.EstimatorSpec(tf.estimator.ModeKeys.PREDICT, predictions)
        noted.note_spec(graph, spec)
        named_features.note_spec(graph, {"x": x}, spec)
        result = rewrite(graph)
        assert [change.split("' ")[1] for change in result.changes[:2]] == ["[70, 64] in int8, with its bias", "[64, 32] in int8, with its bias"]  # fmt: skip
        assert result.skipped == [("MatMul_1", "it is fetched itself, under its own name")]
        session.run(v1.global_variables_initializer())
        found, total = session.run([predictions, more], {x: np.ones((2, INPUTS), np.float32)})
        np.testing.assert_allclose(total, found["vector"].sum(1) + found["alone"].sum(1), rtol=1e-5)
        assert running(graph, vector)["TfBoosterQuantizedMatMul"] == 1


def test_what_only_an_export_gives_out_goes_on_too():
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, INPUTS])
        vector = dense(x, 64, "first")
        score = {"score": tf.reduce_sum(vector, 1)}
        outputs = {"vectors": tf.estimator.export.PredictOutput({"vector": vector})}
        spec = tf.estimator.EstimatorSpec(tf.estimator.ModeKeys.PREDICT, score, export_outputs=outputs)
        noted.note_spec(graph, spec)
        named_features.note_spec(graph, {"x": x}, spec)
        assert rewrite(graph).changes[0].endswith("in int8, with its bias")
        assert running(graph, vector)["TfBoosterQuantizedMatMul"] == 1


def test_a_layer_that_nobody_reads_is_left():
    """As a head of a model that predictions do not have."""
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, INPUTS])
        dense(x, 64, "unread")
        spec = tf.estimator.EstimatorSpec(
            tf.estimator.ModeKeys.PREDICT, {"score": tf.reduce_sum(dense(x, 64, "read"), 1)}
        )
        noted.note_spec(graph, spec)
        named_features.note_spec(graph, {"x": x}, spec)
        result = rewrite(graph)
    assert [change.split("'")[1] for change in result.changes] == ["read/MatMul"] and result.skipped == []


def test_an_op_of_before_can_be_fetched_by_name():
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, INPUTS])
        out = tf.reduce_sum(dense(x, 64, "first"), 1)
        assert rewrite(graph).modified
        session.run(v1.global_variables_initializer())
        names = ["first/MatMul:0", "first/BiasAdd:0", "first/Relu:0", "x:0"]
        given = np.ones((2, INPUTS), np.float32)
        product, sums, relu, score = session.run([*names[:3], out], {x: given})
        kernel, bias = session.run(v1.global_variables())
        np.testing.assert_allclose(product, given @ kernel, rtol=1e-5)
        np.testing.assert_allclose(sums, given @ kernel + bias, rtol=1e-5)
        assert np.abs(relu.sum(1) - score).max() <= 0.02 * np.abs(score).max()


def _in_cond(x):
    return v1.cond(
        tf.reduce_sum(x) > -1e30, lambda: tf.matmul(x, weights("w", [INPUTS, 64])), lambda: tf.zeros([1, 64])
    )


REFUSALS = {
    "float64": (lambda x: tf.matmul(tf.cast(x, tf.float64), weights("w", [INPUTS, 64], tf.float64)), "it is float64"),
    "two computed": (lambda x: tf.matmul(x, tf.sin(x), transpose_b=True), "its second matrix is no weights: it is computed, by a Sin"),
    "joined values": (lambda x: tf.matmul(x, tf.concat([weights("w", [INPUTS - 1, 64]), x[:1, :64]], 0)), "it is computed, by a ConcatV2"),
    "computed weights": (lambda x: tf.matmul(x, 2.0 * weights("w", [INPUTS, 64])), "it is computed, by a Mul"),
    "transposed": (lambda x: tf.matmul(weights("v", [64, 64]), weights("w", [64, 64]), transpose_a=True) + x[0, 0], "its first matrix is transposed"),
    "few outputs": (lambda x: tf.matmul(x, weights("w", [INPUTS, 15])), r"its weights are \[70, 15\]"),
    "few outputs, transposed": (lambda x: tf.matmul(x, weights("w", [15, INPUTS]), transpose_b=True), r"its weights are \[70, 15\]"),
    "few inputs": (lambda x: tf.matmul(x[:, :63], weights("w", [63, 64])), r"its weights are \[63, 64\]"),
    "unknown": (lambda x: tf.matmul(x, v1.get_variable("w", initializer=v1.placeholder_with_default(np.ones((INPUTS, 64), np.float32), [None, 64]), validate_shape=False, use_resource=True)), "the shape .* of its weights is not known"),
    "cond": (_in_cond, "is inside a tf.cond or a tf.while_loop|is computed, by a Switch"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_what_stays_in_float32_has_a_reason(name):
    build, reason = REFUSALS[name]
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            tf.reduce_sum(build(v1.placeholder(tf.float32, [None, INPUTS])))
            result = rewrite(graph)
    finally:
        v1.enable_control_flow_v2()
    assert not result.modified
    ((_, told),) = result.skipped
    assert re.search(reason, told), told


def test_a_product_in_a_function_is_told():
    with tf.Graph().as_default() as graph:
        x, w = v1.placeholder(tf.float32, [None, INPUTS]), weights("w", [INPUTS, 64])
        tf.reduce_sum(tf.function(lambda x: tf.matmul(x, w))(x))
        result = rewrite(graph)
    ((name, reason),) = result.skipped
    assert name == "MatMul" and "a tf.function or control flow, into which the pass does not look" in reason


def test_a_graph_that_trains_is_left():
    with tf.Graph().as_default() as graph:
        loss = tf.reduce_mean(tower(v1.placeholder(tf.float32, [None, INPUTS])))
        train = v1.train.AdagradOptimizer(0.1).minimize(loss)
        result = rewrite(graph)
    assert not result.modified and result.note == "found no product with weights in a graph that predicts"
    assert not result.skipped and train.type != "TfBoosterQuantizedMatMul"


def test_what_xla_compiles_is_left():
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, INPUTS])
        with tf.xla.experimental.jit_scope():
            tf.reduce_sum(dense(x, 64, "first"))
        result = rewrite(graph)
    assert result.skipped == [("first/MatMul", "XLA compiles it")] and not result.modified


def test_on_a_gpu_it_stays_in_float32(monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind=None: ["one"])
    monkeypatch.setattr(
        _compat, "_gpu_kernels", lambda op: () if op.startswith("TfBooster") else (_compat.GpuKernel((), frozenset()),)
    )
    for device, reason in (("", "it runs on a GPU, for which there is no kernel in integers"), ("/cpu:0", None)):
        with tf.Graph().as_default() as graph, tf.device(device):
            tf.reduce_sum(dense(v1.placeholder(tf.float32, [None, INPUTS]), 64, "first"))
            result = rewrite(graph)
        assert [told for _, told in result.skipped] == ([reason] if reason else [])
        assert result.modified == (reason is None)


def test_a_processor_without_vnni_is_told(monkeypatch):
    monkeypatch.setattr(quantized_products, "_level", lambda: "avx2")
    with tf.Graph().as_default() as graph:
        tower(v1.placeholder(tf.float32, [None, INPUTS]))
        result = rewrite(graph)
    assert result.modified and "no AVX-512 VNNI: in int8 they take as long as in float32 here" in result.changes[-1]


def test_behind_repeated_features_the_copy_is_in_integers():
    def build(x):
        user = x[:, :INPUTS]
        item = v1.placeholder_with_default(tf.zeros([1]), [None], "item")
        return tf.reduce_sum(dense(dense(user, 64, "a"), 64, "b"), 1) + item

    graph, out, result = run(build, more=[RepeatedFeatures(["x"])], rows=(9,))
    assert result.modified and len(result.changes) >= 2
    found = running(graph, out)
    assert found["TfBoosterTakeRows"] and found["TfBoosterQuantizedMatMul"] == 2 and found["MatMul"] == 0


def test_what_waits_for_a_layer_and_what_a_layer_waits_for():
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, INPUTS])
        check = v1.debugging.assert_less(tf.reduce_max(x), 10.0)
        kernel = weights("w", [INPUTS, 64]).read_value()
        with tf.control_dependencies([check]):
            product = tf.matmul(x, kernel)
        relu = tf.nn.relu(product)
        with tf.control_dependencies([relu]):
            out = tf.reduce_sum(relu) + 1.0
        rewrite(graph)
        session.run(v1.global_variables_initializer())
        assert running(graph, out)["MatMul"] == 0
        session.run(out, {x: np.ones((2, INPUTS), np.float32)})
        with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
            session.run(out, {x: np.full((2, INPUTS), 11, np.float32)})


def test_who_reads_the_shape_of_a_product_does_not_have_it_computed():
    def build(x):
        product = tf.matmul(x, weights("w", [INPUTS, 64]))
        rows = tf.shape(product)[0]
        return tf.nn.bias_add(product, weights("b", [64])) * tf.cast(rows, tf.float32)

    graph, out, result = run(build)
    assert running(graph, out)["MatMul"] == 0 and result.changes[0].endswith("with its bias")


def test_a_rewritten_graph_is_frozen_as_it_was():
    with tf.Graph().as_default() as graph:
        tf.identity(tower(v1.placeholder(tf.float32, [None, INPUTS], "x")), "out")
        report = pipelines.rewrite(graph, Options(scoring_precision="int8"))
        assert report.modified
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            frozen = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["out"])
    assert not [node.op for node in frozen.node if node.op.startswith("TfBooster")]


@pytest.mark.parametrize("user_first", [True, False])
def test_both_parts_of_a_split_product_are_in_integers(user_first):
    """The kernel's rows for either part are picked of the Variable at each step."""
    with tf.Graph().as_default() as graph:
        user, item = (v1.placeholder(tf.int64, [None, 8], name) for name in ("user", "item"))
        tables = [v1.get_variable(name, [9, 16], use_resource=True) for name in ("users", "items")]
        columns = [
            tf.reshape(tf.nn.embedding_lookup(table, ids), [-1, 128]) for table, ids in zip(tables, (user, item))
        ]
        parts = columns if user_first else [columns[1][:, :64], columns[0], columns[1][:, 64:]]
        kernel = v1.get_variable("kernel", [256, 32], use_resource=True)
        out = tf.identity(tf.matmul(tf.concat(parts, 1), kernel))
        ids = np.random.RandomState(1).randint(0, 9, (2, 30, 8))
        feed = {user: ids[0][np.arange(30) // 10], item: ids[1]}
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            saved = session.run([*tables, kernel])
            want = session.run(out, feed)
        report = pipelines.rewrite(graph, Options(repeated_features=("user",), scoring_precision="int16"))
        with v1.Session() as session:
            for variable, value in zip([*tables, kernel], saved):
                variable.load(value, session)
            np.testing.assert_allclose(session.run(out, feed), want, atol=2e-3)
    told = next(p for p in report.passes if p.name == "quantized_products").changes
    assert len(told) >= 2 and sum("picked at each step" in line for line in told) == 2, str(report)
