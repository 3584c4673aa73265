"""Custom Estimators with every optimizer, v1's and Keras-legacy's, on dense layers and on embeddings."""

import pytest
import tensorflow as tf
from recommendation_data import NUM_IDS, NUM_TAGS, input_fn
from training_pair import CLOSE, EXACT, changed_by, compare_estimators

v1 = tf.compat.v1
keras = tf.keras.optimizers.legacy

OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.02, 0.9),
    "nesterov": lambda: v1.train.MomentumOptimizer(0.02, 0.9, use_nesterov=True),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.1),
    "adam": lambda: v1.train.AdamOptimizer(0.01),
    "ftrl": lambda: v1.train.FtrlOptimizer(0.1, l1_regularization_strength=1e-3, l2_regularization_strength=1e-3),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(0.01, momentum=0.5),
    "centered rmsprop": lambda: v1.train.RMSPropOptimizer(0.01, centered=True),
    "keras sgd": lambda: keras.SGD(0.1),
    "keras momentum": lambda: keras.SGD(0.02, 0.9, nesterov=True),
    "keras adagrad": lambda: keras.Adagrad(0.1),
    "keras adam": lambda: keras.Adam(0.01),
    "keras amsgrad": lambda: keras.Adam(0.01, amsgrad=True),
    "keras ftrl": lambda: keras.Ftrl(0.1),
    "keras rmsprop": lambda: keras.RMSprop(0.01),
    "keras nadam": lambda: keras.Nadam(0.01),
}


def minimize(optimizer, loss):
    step = v1.train.get_or_create_global_step()
    if isinstance(optimizer, v1.train.Optimizer):
        return optimizer.minimize(loss, global_step=step)
    optimizer.iterations = step
    return optimizer.get_updates(loss, v1.trainable_variables())[0]


def embeddings(features):
    ids = v1.get_variable("ids", [NUM_IDS, 5])
    tags = v1.get_variable("tags", [NUM_TAGS, 5])
    there = tf.where(features["tags"] >= 0)
    bag = tf.SparseTensor(there, tf.gather_nd(features["tags"], there), tf.shape(features["tags"], tf.int64))
    return [
        tf.nn.embedding_lookup(ids, features["id"][:, 0]),
        tf.nn.embedding_lookup(ids, features["other_id"][:, 0]),
        tf.nn.safe_embedding_lookup_sparse(tags, bag, combiner="mean"),
    ]


def model_fn(features, labels, mode, params):
    inputs = [features["numbers"]] + (embeddings(features) if params["embeddings"] else [])
    # Widths that are no multiple of a vector's length, and biases of one element.
    hidden = tf.concat(inputs, 1)
    for width in (13, 7, 8):
        hidden = v1.layers.dense(hidden, width, tf.tanh)
    logits = v1.layers.dense(hidden, 1)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=minimize(OPTIMIZERS[params["optimizer"]](), loss))


def make(optimizer, with_embeddings):
    params = {"optimizer": optimizer, "embeddings": with_embeddings}
    return lambda config: tf.estimator.Estimator(model_fn, params=params, config=config)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_dense_layers_train_to_the_same_bits(optimizer, tmp_path):
    """Nothing but the layout of the updates changes."""
    outcome = compare_estimators(make(optimizer, False), input_fn(), tmp_path, bound=EXACT)
    assert changed_by(outcome.report) == ["variable_updates", "input_pipeline", "embedding_pipeline"]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_embeddings_train_to_the_same_weights(optimizer, tmp_path):
    outcome = compare_estimators(make(optimizer, True), input_fn(), tmp_path, bound=CLOSE)
    assert {"sparse_lookups", "variable_gathers"} <= set(changed_by(outcome.report))
