"""Predictions with repeated_features on a card: products of what is expanded, and what is expanded there."""

import numpy as np
import pytest
import tensorflow as tf

from tf_booster import _native, options
from tf_booster.passes import pipelines

pytestmark = pytest.mark.gpu

v1 = tf.compat.v1
rng = np.random.RandomState(0)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_gathered_products_have_the_cpus_bits(index):
    """Where the CPU has FMA; a row outside gives zeros on the card, where the CPU refuses it."""
    rows = np.array([2, 0, 1, 1, 2, 2, 0], index)
    forms = [
        (floats(7, 1, 8), floats(3, 6, 8), dict(gathered="y", adj_y=True)),
        (floats(7, 1, 600), floats(3, 600, 8), dict(gathered="y")),
        (floats(3, 5, 9), floats(7, 5, 2), dict(gathered="x", adj_x=True)),
        (floats(3, 2, 4, 5), floats(7, 1, 5, 3), dict(gathered="x")),
        (floats(1, 3, 5), floats(3, 5, 4), dict(gathered="y")),
        (floats(3, 2, 1, 2, 2, 4, 5), floats(7, 2, 3, 2, 1, 5, 3), dict(gathered="x")),
    ]
    for x, y, form in forms:
        found = []
        for device in ("/gpu:0", "/cpu:0"):
            with tf.device(device):
                made = _native.ops().tf_booster_gather_batch_mat_mul(
                    x=tf.constant(x), y=tf.constant(y), rows=tf.constant(rows), **form
                )
                found.append(made.numpy())
        np.testing.assert_array_equal(*found)
    with tf.device("/gpu:0"):
        x, y = tf.constant(forms[0][0]), tf.constant(forms[0][1])
        outside = tf.constant(np.array([0, 3, -1, 0, 0, 0, 0], index))
        product = (
            _native.ops().tf_booster_gather_batch_mat_mul(x=x, y=y, rows=outside, gathered="y", adj_y=True).numpy()
        )
    assert not product[1:3].any() and product[[0, 3]].all()


def model(user, item):
    """Attention over the user's history, and a tower behind the join of all."""

    def table(name, rows, dim):
        return v1.get_variable(name, initializer=floats(rows, dim), use_resource=True)

    keys = tf.nn.embedding_lookup(table("history", 50, 8), user)
    query = tf.nn.embedding_lookup(table("query", 20, 8), item[:, :1])
    weights = tf.nn.softmax(tf.matmul(query, keys, transpose_b=True))
    seen = tf.matmul(weights, keys)[:, 0]
    joined = tf.concat([tf.reshape(keys, [-1, 96]), seen, query[:, 0]], 1)
    hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(joined, table("kernel", 112, 16)), tf.constant(floats(16))))
    return tf.reduce_sum(hidden, 1) + tf.reduce_sum(keys, [1, 2])


def test_a_model_with_its_region_on_the_card():
    data = {"user": rng.randint(0, 50, (3, 12))[[0, 0, 1, 2, 2, 2, 1]], "item": rng.randint(0, 20, (7, 1))}
    scores = []
    for names in ((), ("user",)):
        rng.seed(5)
        with tf.Graph().as_default() as graph:
            user, item = (v1.placeholder(tf.int64, [None, data[name].shape[1]], name) for name in ("user", "item"))
            with tf.device("/gpu:0"):
                score = model(user, item)
            report = pipelines.rewrite(graph, options.Options(repeated_features=names))
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                traced = v1.RunMetadata()
                trace = v1.RunOptions(trace_level=v1.RunOptions.SOFTWARE_TRACE, output_partition_graphs=True)
                scores.append(session.run(score, {user: data["user"], item: data["item"]}, trace, traced))
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-5, atol=1e-5)
    changed = {p.name for p in report.passes if p.modified}
    assert {"repeated_features", "gather_matmul", "split_matmul"} <= changed, str(report)
    on_card = {
        node.op for part in traced.partition_graphs for node in part.node if node.device.lower().endswith("gpu:0")
    }
    assert {"TfBoosterGatherBatchMatMul", "GatherV2"} <= on_card, on_card
    assert not {"TfBoosterTakeRows", "TfBoosterRepeatedRows"} & on_card
