"""Estimators on a card, from training to an export that is served, where nothing is placed elsewhere by itself."""

import numpy as np
import pytest
import tensorflow as tf
from tables_card import input_fn, model_fn

import tf_booster
from tf_booster.report import report_of

pytestmark = pytest.mark.gpu

v1 = tf.compat.v1
STRICT = v1.ConfigProto(allow_soft_placement=False)


@pytest.fixture(autouse=True)
def off():
    yield
    tf_booster.disable_gpu_booster()


def estimator(folder):
    config = tf.estimator.RunConfig(str(folder), tf_random_seed=3, session_config=STRICT)
    return tf.estimator.Estimator(model_fn, config=config)


def serving_input():
    features = {name: v1.placeholder(tf.int64, [None, 3], name) for name in ("user", "item")}
    return tf.estimator.export.ServingInputReceiver(features, features)


@pytest.mark.parametrize("options", [{}, {"pipeline": "async"}])
def test_training_goes_on_and_is_exported(options, tmp_path):
    """Trained, trained on from the checkpoint, evaluated, exported; the export answers as predict does."""
    tf.enable_gpu_booster(device="gpu", **options)
    trained = estimator(tmp_path)
    trained.train(lambda: input_fn(1), steps=20)
    trained.train(lambda: input_fn(1), steps=12)
    assert {table["device"] for table in tf_booster.report().tables} == {"gpu"}
    assert trained.evaluate(input_fn)["global_step"] == 32
    want = next(trained.predict(input_fn))
    features, _ = next(iter(input_fn()))
    exported = tf.saved_model.load(trained.export_saved_model(str(tmp_path / "export"), serving_input))
    serve = exported.signatures["serving_default"]
    (got,) = serve(**{name: tensor[:1] for name, tensor in features.items()}).values()
    np.testing.assert_allclose(got, [want], rtol=1e-5)


def numbers():
    def batch(i):
        x = tf.cast(i, tf.float32)
        others = {dtype.name: tf.cast(i, dtype) for dtype in (tf.int32, tf.uint8, tf.float64, tf.float16, tf.int64)}
        return {**others, "bool": tf.equal(i % 3, 0), "x": x}, tf.cast(i % 2, tf.int32)

    return tf.data.Dataset.range(60).batch(4).repeat().map(batch)


def of_all_numbers(features, labels, mode):
    weight = v1.get_variable("w", [7], initializer=v1.zeros_initializer())
    x = tf.stack([tf.cast(features[name], tf.float32) for name in sorted(features)], 1) / 40
    loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x, weight) - tf.cast(labels, tf.float32)))
    step = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)


def test_batches_are_sent_ahead(tmp_path):
    """All types of numbers, without being asked; trained as without."""
    weights, graphs = [], []

    def model(features, labels, mode):
        graphs.append(v1.get_default_graph())
        return of_all_numbers(features, labels, mode)

    for wanted in ("auto", False):
        tf.enable_gpu_booster(prefetch_to_device=wanted)
        trained = tf.estimator.Estimator(model, str(tmp_path / str(wanted)))
        trained.train(numbers, steps=15)
        passes = {p.name: p for p in report_of(graphs[-1]).passes}
        assert ("prefetch_to_device" in passes and passes["prefetch_to_device"].modified) == (wanted == "auto")
        weights.append(trained.get_variable_value("w"))
    np.testing.assert_array_equal(*weights)


def test_a_canned_estimator(tmp_path):
    """Its linear part and its tower have tables on the card beside Variables."""
    names = ("user", "item")
    keys = [tf_booster.feature_column.categorical_column_with_hash_table(name) for name in names]
    tf.enable_gpu_booster(device="gpu")
    canned = v1.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=keys,
        dnn_feature_columns=[tf.feature_column.embedding_column(key, 8) for key in keys],
        dnn_hidden_units=[16],
        linear_optimizer=v1.train.FtrlOptimizer(0.1),
        dnn_optimizer=v1.train.AdagradOptimizer(0.1),
        model_dir=str(tmp_path),
    )
    canned.train(lambda: input_fn(1), steps=20)
    assert {table["device"] for table in tf_booster.report().tables} == {"gpu"}
    metrics = canned.evaluate(input_fn)
    assert metrics["global_step"] == 20 and np.isfinite(metrics["loss"])
