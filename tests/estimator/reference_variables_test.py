"""Programs with reference Variables (disable_v2_behavior, disable_resource_variables) train tables under Estimators too."""

import pytest
import tensorflow as tf

import tf_booster
from tf_booster.embedding import feature_column

v1 = tf.compat.v1
column = tf_booster.feature_column.categorical_column_with_hash_table


@pytest.fixture(autouse=True)
def booster_among_reference_variables():
    tf.enable_gpu_booster()
    v1.disable_resource_variables()
    yield
    v1.enable_resource_variables()
    tf_booster.disable_gpu_booster()


def input_fn():
    ids = tf.constant([[1], [2], [3], [-4]], tf.int64)
    return tf.data.Dataset.from_tensors(({"a": ids}, tf.constant([[1.0], [0.0], [1.0], [0.0]]))).repeat()


def model_fn(features, labels, mode):
    rows = v1.feature_column.input_layer(features, [tf.feature_column.embedding_column(column("a"), 4)])
    logits = v1.layers.dense(rows, 1, name="head")
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
    train_op = v1.train.AdamOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_a_custom_model_with_input_layer(tmp_path):
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    estimator.train(input_fn, steps=30)
    reader = tf.train.load_checkpoint(str(tmp_path))
    assert sorted(reader.get_tensor("input_layer/a_embedding/embedding_weights/keys")) == [-4, 1, 2, 3]
    assert reader.has_tensor("head/kernel") and not reader.has_tensor("input_layer/a_embedding/embedding_weights")
    assert estimator.evaluate(input_fn, steps=1)["loss"] < 0.3


@pytest.mark.parametrize("kind", ["linear", "deep"])
def test_canned_models(tmp_path, kind):
    config = tf.estimator.RunConfig(str(tmp_path), tf_random_seed=1)  # Of 49 starts one came to 0.59.
    if kind == "linear":
        estimator = v1.estimator.LinearClassifier([column("a")], config=config)
    else:
        columns = [tf.feature_column.embedding_column(column("a"), 4)]
        estimator = v1.estimator.DNNClassifier([4], columns, config=config)
    estimator.train(input_fn, steps=20)
    (table,) = tf_booster.report().tables
    assert table["optimizer"] == ("ftrl" if kind == "linear" else "adagrad")
    assert estimator.evaluate(input_fn, steps=1)["average_loss"] < 0.6  # log(2) is where it starts.


def test_other_variables_stay_what_they_are(tmp_path):
    kinds = {}

    def spying(features, labels, mode):
        spec = model_fn(features, labels, mode)
        kinds.update({v.op.name: v.op.type for v in v1.trainable_variables()})
        return spec

    tf.estimator.Estimator(spying, str(tmp_path)).train(input_fn, steps=1)
    assert kinds["head/kernel"] == "VariableV2" and kinds["input_layer/a_embedding/embedding_weights"] == "VarHandleOp"


def test_without_columns_of_hash_tables_variables_of_one_row_stay_what_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(feature_column, "_shape_was_asked", False)  # By the other tests.

    def counting(features, labels, mode):
        loss = tf.reduce_mean(v1.layers.dense(labels, 4, name="head"))
        seen = v1.get_variable("seen", [1, 1], initializer=v1.zeros_initializer(), trainable=False)
        with tf.control_dependencies([tf.raw_ops.AssignAdd(ref=seen, value=[[1.0]])]):
            train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = tf.estimator.Estimator(counting, str(tmp_path))
    estimator.train(input_fn, steps=3)
    assert estimator.get_variable_value("seen") == 3
