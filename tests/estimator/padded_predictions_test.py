"""Estimators with xla="padded": predictions and exports of batches of any size, and what training and evaluation do."""

import numpy as np
import pytest
import tensorflow as tf

import tf_booster
from tf_booster import _compat

v1 = tf.compat.v1
pytestmark = pytest.mark.skipif(not _compat.xla_leaves_unmarked_ops(), reason="the pass leaves all to this TensorFlow")
COLUMNS = 32


def model(features, labels, mode, params):
    """Gates between layers, and a lookup; a softmax and a name that are predicted beside the score."""
    x, ids = tf.cast(features["numbers"], tf.float32), features["ids"]
    if params["hash_table"]:
        embedded = tf_booster.embedding_lookup(tf_booster.get_hash_table("t", COLUMNS), ids)
    else:
        table = v1.get_variable("t", [50, COLUMNS], initializer=v1.random_normal_initializer(seed=1))
        embedded = tf.nn.embedding_lookup(table, ids)
    x = tf.concat([x, embedded], 1)
    for i in range(2):
        x = v1.layers.dense(x, 64, kernel_initializer=v1.glorot_uniform_initializer(i), name=f"layer{i}")
        for gate in range(6):
            x = tf.tanh(x * 1.5 + 0.1 * gate) * tf.sigmoid(x) + x
    logits = v1.layers.dense(x, 2, kernel_initializer=v1.glorot_uniform_initializer(7), name="logits")
    predictions = {"scores": tf.nn.softmax(logits), "hidden": x, "text": tf.strings.as_string(ids)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        outputs = {"serving_default": tf.estimator.export.PredictOutput(predictions)}
        return tf.estimator.EstimatorSpec(mode, predictions, export_outputs=outputs)
    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    train_op = v1.train.AdagradOptimizer(0.05).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def data(rows, seed=0):
    rng = np.random.RandomState(seed)
    numbers = rng.standard_normal((rows, COLUMNS)).astype(np.float32)
    return {"numbers": numbers, "ids": rng.randint(0, 50, rows)}, (numbers[:, 0] > 0).astype(np.int64)


def dataset(rows, size):
    """Batches of an unknown size, of which the last one is smaller."""
    return tf.data.Dataset.from_tensor_slices(data(rows)).batch(size)


@pytest.fixture(scope="module", params=[False, True], ids=["Variable", "hash table"])
def estimator(request, tmp_path_factory):
    tf.enable_gpu_booster()
    try:
        params = {"hash_table": request.param}
        made = tf.estimator.Estimator(model, str(tmp_path_factory.mktemp("model")), params=params)
        made.train(lambda: dataset(400, 50), steps=8)
    finally:
        tf_booster.disable_gpu_booster()
    return made


def predict(estimator, xla):
    tf.enable_gpu_booster(xla=xla)
    try:
        rows = list(estimator.predict(lambda: dataset(1700, 300)))
        report = tf_booster.report()
    finally:
        tf_booster.disable_gpu_booster()
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}, report


def padding(report):
    return next(p for p in report.passes if p.name == "xla_padding")


def check_close(ours, plain):
    """Two rounds of six gates are some 60 ops of a few units in the last place, whose errors later ones make up to 1.5 times as large; of
    differences the largest number counts."""
    assert ours.keys() == plain.keys()
    for name in plain:
        if plain[name].dtype.kind == "f":
            np.testing.assert_allclose(
                ours[name], plain[name], rtol=2e-5, atol=4e-6 * np.max(np.abs(plain[name]), initial=0), err_msg=name
            )
        else:
            np.testing.assert_array_equal(ours[name], plain[name], err_msg=name)


def test_predictions_are_those_without(estimator):
    plain, _ = predict(estimator, "off")
    ours, report = predict(estimator, "padded")
    check_close(ours, plain)
    result = padding(report)
    assert result.modified and len(plain["scores"]) == 1700, (result.changes, result.skipped)
    assert not [reason for _, reason in result.skipped if "failed" in reason]


def test_training_and_evaluation_keep_tensorflows_ops(estimator):
    tf.enable_gpu_booster(xla="padded")
    try:
        for run in (
            lambda: estimator.evaluate(lambda: dataset(100, 30)),
            lambda: estimator.train(lambda: dataset(60, 30)),
        ):
            run()
            result = padding(tf_booster.report())
            assert not result.modified and "the graph trains or evaluates" in result.skipped[0][1]
    finally:
        tf_booster.disable_gpu_booster()


def test_an_export_serves_batches_of_any_size(estimator, tmp_path):
    def receiver():
        features = {
            "numbers": v1.placeholder(tf.float32, [None, COLUMNS], name="numbers"),
            "ids": v1.placeholder(tf.int64, [None], name="ids"),
        }
        return tf.estimator.export.ServingInputReceiver(features, features)

    found = []
    for xla in ("off", "padded"):
        tf.enable_gpu_booster(xla=xla)
        try:
            exported = estimator.export_saved_model(str(tmp_path / xla), receiver)
            assert xla == "off" or padding(tf_booster.report()).modified
        finally:
            tf_booster.disable_gpu_booster()
        with v1.Session(graph=tf.Graph()) as session:
            outputs = v1.saved_model.load(session, ["serve"], exported).signature_def["serving_default"].outputs
            assert len([op for op in session.graph.get_operations() if op.type == "TfBoosterPadRows"]) == 2 * (
                xla == "padded"
            )
            names = {name: output.name for name, output in outputs.items()}
            for rows in (0, 1, 40, 300):
                features, _ = data(rows, seed=rows)
                feed = {f"{name}:0": value for name, value in features.items()}
                found += [session.run(names, feed) for _ in range(3)]
    for plain, ours in zip(found[: len(found) // 2], found[len(found) // 2 :]):
        check_close(ours, plain)
