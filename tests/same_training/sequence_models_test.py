"""Models that read a history in order: recurrent cells in a loop, attention on the target, Keras models turned into Estimators.

Grappler regroups arithmetic in one graph and not in the other, so its two passes that do are off, and the bits are equal.
"""

import pytest
import tensorflow as tf
from recommendation_data import BATCH, MAX_TAGS, NUM_IDS, NUM_TAGS, input_fn
from training_pair import EXACT, compare_estimators

v1 = tf.compat.v1
STEPS, WIDTH = 40, 6


def recurrent(history, lengths):
    cell = v1.nn.rnn_cell.GRUCell(WIDTH)
    return v1.nn.dynamic_rnn(cell, history, sequence_length=lengths, dtype=tf.float32)


def keras_layer(history, lengths):
    layer = tf.keras.layers.GRU(WIDTH, return_sequences=True, return_state=True)
    return layer(history, mask=tf.sequence_mask(lengths, MAX_TAGS))


def attended(history, lengths, target):
    """The history's mean, weighted by how well each step fits the target."""
    targets = tf.tile(target[:, None], [1, MAX_TAGS, 1])
    scores = tf.concat([targets, history, targets - history, targets * history], 2)
    scores = v1.layers.dense(v1.layers.dense(scores, 8, tf.sigmoid), 1, use_bias=False)[..., 0]
    there = tf.sequence_mask(lengths, MAX_TAGS)
    weights = tf.nn.softmax(tf.where(there, scores, tf.fill(tf.shape(scores), -1e9)))
    return tf.reduce_sum(weights[..., None] * history, 1)


def model_of(sequence):
    def model_fn(features, labels, mode):
        tags = v1.get_variable("tags", [NUM_TAGS, WIDTH])
        ids = v1.get_variable("ids", [NUM_IDS, WIDTH])
        lengths = tf.reduce_sum(tf.cast(features["tags"] >= 0, tf.int32), 1)
        steps, state = sequence(tf.nn.embedding_lookup(tags, tf.maximum(features["tags"], 0)), lengths)
        target = tf.nn.embedding_lookup(ids, features["id"][:, 0])
        hidden = tf.concat([attended(steps, lengths, target), state, target, features["numbers"]], 1)
        hidden = tf.cond(tf.reduce_sum(features["numbers"]) > 0, lambda: hidden, lambda: hidden * 0.5)
        logits = v1.layers.dense(v1.layers.dense(hidden, 8, tf.nn.relu), 1)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
        optimizer = v1.train.AdamOptimizer(0.01)
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        clipped, _ = tf.clip_by_global_norm(gradients, 1.0)
        train_op = optimizer.apply_gradients(zip(clipped, variables), global_step=v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, {"logits": logits}, loss, train_op)

    return lambda config: tf.estimator.Estimator(model_fn, config=config)


@pytest.mark.parametrize("sequence", [recurrent, keras_layer])
def test_a_recurrent_history_under_attention(sequence, tmp_path, in_order):
    compare_estimators(model_of(sequence), input_fn(), tmp_path, STEPS, EXACT, session_config=in_order)


def keras_estimator(config):
    keras = tf.keras
    keras.backend.clear_session()  # Names of layers begin anew.
    inputs = {
        "id": keras.Input((1,), BATCH, dtype=tf.int64, name="id"),
        "tags": keras.Input((MAX_TAGS,), BATCH, dtype=tf.int64, name="tags"),
        "numbers": keras.Input((3,), BATCH, name="numbers"),
    }
    tags = keras.layers.Embedding(NUM_TAGS + 1, WIDTH, name="of_tags")(inputs["tags"] + 1)
    rows = keras.layers.Flatten()(keras.layers.Embedding(NUM_IDS, WIDTH, name="of_ids")(inputs["id"]))
    hidden = keras.layers.Concatenate()([keras.layers.GRU(WIDTH)(tags), rows, inputs["numbers"]])
    hidden = keras.layers.Dense(8, "relu")(keras.layers.BatchNormalization()(hidden))
    model = keras.Model(inputs, keras.layers.Dense(1, "sigmoid")(hidden))
    model.compile(keras.optimizers.legacy.Adam(0.01), "binary_crossentropy")
    return keras.estimator.model_to_estimator(model, config=config, checkpoint_format="saver")


def inputs_of_keras():
    names = ("id", "tags", "numbers")
    return input_fn(static=True)().map(lambda features, labels: ({name: features[name] for name in names}, labels))


def test_a_keras_model_that_was_made_an_estimator(tmp_path, in_order):
    options = {"disable_passes": ["batch_normalization"]}  # Which sums over the batch in another order.
    compare_estimators(
        keras_estimator, inputs_of_keras, tmp_path, STEPS, EXACT, session_config=in_order, options=options
    )
