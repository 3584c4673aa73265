"""Tools for TFRecord files of tf.train.Examples: `python -m tf_booster.tfrecord inspect|bench|make`."""
