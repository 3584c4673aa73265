"""TensorFlow's own mixed precision under tf_booster: products in bfloat16 where the program's session asks for them."""

import numpy as np
import tensorflow as tf
from recommendation_data import input_fn
from tensorflow.core.protobuf import rewriter_config_pb2
from training_pair import BOUND, assert_no_pass_failed, boosted, changed_by, session_config, train_estimator

v1 = tf.compat.v1
STEPS = 30


def model_fn(features, labels, mode):
    columns = [
        tf.feature_column.embedding_column(tf.feature_column.categorical_column_with_identity(key, 40), 16)
        for key in ("id", "other_id")
    ]
    hidden = v1.feature_column.input_layer(features, columns)
    for i, units in enumerate((64, 32)):
        hidden = v1.layers.dense(hidden, units, tf.nn.relu, name=f"layer_{i}")
    logits = v1.layers.dense(hidden, 1, name="logits")
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    v1.losses.add_loss(loss)
    train_op = v1.train.AdagradOptimizer(0.05).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def mixed():
    config = session_config()
    config.graph_options.rewrite_options.auto_mixed_precision_onednn_bfloat16 = rewriter_config_pb2.RewriterConfig.ON
    return config


def test_as_near_to_full_precision_as_plain_tensorflow(tmp_path):
    make = lambda config: tf.estimator.Estimator(model_fn, config=config)
    train = lambda name, **how: train_estimator(make, input_fn(), tmp_path / name, STEPS, **how)
    full = train("full").losses
    plain = train("plain", session_config=mixed()).losses
    with boosted():
        mine = train("boosted", session_config=mixed())
    assert_no_pass_failed(mine.report)
    assert "variable_updates" in changed_by(mine.report)
    # Roundings to 8 bits, of which each run has its own: as large as what plain TensorFlow's make. On a processor without bfloat16 there are none.
    apart = np.abs(plain - full).max()
    assert apart == 0 or not np.array_equal(mine.losses, full)
    assert np.abs(mine.losses - full).max() <= max(3 * apart, BOUND)
