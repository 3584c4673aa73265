"""graph.pbtxt and the check of exports, by what stands in for TensorFlow's functions that take minutes in large graphs."""

import random

import pytest
import tensorflow as tf
from google.protobuf import text_format

import tf_booster
from tf_booster import _compat
from tf_booster.estimator import large_graphs

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def _enabled():
    yield
    tf_booster.disable_gpu_booster()


def random_graph(seed):
    """Ops with up to three inputs among those before, some with two outputs or a control input."""
    drawn = random.Random(seed)
    tensors = [tf.constant([1.0, 2.0]) for _ in range(4)]
    for _ in range(150):
        with tf.control_dependencies([drawn.choice(tensors)] if drawn.random() < 0.2 else []):
            inputs = [drawn.choice(tensors) for _ in range(drawn.randint(1, 3))]
            made = tf.add_n(inputs)
            tensors += list(tf.unique(made))[:1] if drawn.random() < 0.3 else [made]
    return drawn, tensors


@pytest.mark.parametrize("seed", range(5))
def test_an_export_sees_the_ops_that_tensorflow_sees(seed):
    original = _compat.op_selector().get_backward_walk_ops
    ours = large_graphs.get_backward_walk_ops(original)
    with tf.Graph().as_default():
        drawn, tensors = random_graph(seed)
        for _ in range(10):
            seeds = drawn.sample(tensors, drawn.randint(0, 3))
            stops = drawn.sample(tensors, drawn.randint(0, 8))
            found = ours(seeds, stop_at_ts=stops)
            assert len(found) == len(set(found))
            assert set(found) == set(original(seeds, stop_at_ts=stops))
        # Asked for otherwise, it is TensorFlow's.
        assert set(ours([tensors[-1].op])) == set(original([tensors[-1].op]))
        assert ours(tensors[-1], control_inputs=True) == original(tensors[-1], control_inputs=True)


def test_the_text_of_a_graph_is_the_same_message():
    numbers = [0.1, 1 / 3, 1e-45, 3.4e38, 16777217.0, -0.0, float("nan"), float("inf"), -float("inf")]
    with tf.Graph().as_default() as graph:
        for dtype in (tf.float32, tf.float64):
            for number in numbers:
                tf.constant(number, dtype)
            tf.constant(numbers, dtype)
        tf.raw_ops.Bucketize(input=[1.0], boundaries=[0.1, 1 / 3, 1e10])
        for text in (b"a\x00\xff\xfe'\"\\\n\t", "中文", b"\x7f\x80"):
            tf.constant([text, b"b"])
        tf.constant([2**63 - 1, -(2**63)])
        tf.function(lambda x: x * 0.3 + 1)(tf.constant(2.0))
        definition = graph.as_graph_def(add_shapes=True)
    text = large_graphs.TextFormat(text_format).MessageToString(definition, float_format="")
    again = text_format.Parse(text, v1.GraphDef())
    assert again.SerializeToString(deterministic=True) == definition.SerializeToString(deterministic=True)


def model_fn(features, labels, mode):
    logits = v1.layers.dense(features["x"], 1)
    loss = tf.reduce_mean(tf.square(logits - features["x"]))
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_or_create_global_step())
    logits += v1.placeholder(tf.float32, [], "forgotten") if mode == "infer" and "y" in features else 0.0
    return tf.estimator.EstimatorSpec(mode, {"logits": logits}, loss, train_op)


def test_an_estimator_writes_its_graph_and_exports(tmp_path):
    tf_booster.enable_gpu_booster()
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    graphs = []

    class Keep(v1.train.SessionRunHook):
        def after_create_session(self, session, coord):
            graphs.append(session.graph.as_graph_def(add_shapes=True))

    estimator.train(lambda: tf.data.Dataset.from_tensors({"x": [[0.1], [0.2]]}), hooks=[Keep()])
    written = text_format.Parse((tmp_path / "graph.pbtxt").read_text(), v1.GraphDef())
    assert {node.name: node.op for node in written.node} == {node.name: node.op for node in graphs[0].node}
    exported = {"x": tf.constant([[0.1]])}
    assert signatures(estimator, exported, tmp_path / "served") == ["serving_default"]
    assert signatures(estimator, {**exported, "y": tf.constant([1.0])}, tmp_path / "not served") == []


def signatures(estimator, features, folder):
    receive = tf.estimator.export.build_raw_serving_input_receiver_fn(features)
    exported = estimator.export_saved_model(str(folder), receive)
    with tf.Graph().as_default(), v1.Session() as session:
        return list(v1.saved_model.load(session, ["serve"], exported.decode()).signature_def)


def test_tensorflows_own_come_back():
    before = _compat.graph_io().text_format, _compat.op_selector().get_backward_walk_ops
    tf_booster.enable_gpu_booster()
    assert _compat.graph_io().text_format is not before[0]
    tf_booster.disable_gpu_booster()
    assert (_compat.graph_io().text_format, _compat.op_selector().get_backward_walk_ops) == before
