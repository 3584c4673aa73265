"""Slots of an optimizer that are below 1.2e-38: TensorFlow's threads take them for zero, and so do the pipeline's."""

import numpy as np
import pytest
import tensorflow as tf

import tf_booster
from tf_booster.pipeline.denormals import flushing

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def off():
    yield
    tf_booster.disable_gpu_booster()


def input_fn():
    return tf.data.Dataset.from_tensors({"ids": np.array([[0], [1], [2]], np.int64)}).repeat()


def model_fn(features, labels, mode):
    del labels
    scale = np.float32(10.0) ** -np.arange(15, 31, dtype=np.float32)  # Squares of gradients from 1e-30 to 1e-60.
    weight = v1.get_variable("weight", [16], initializer=v1.ones_initializer())
    rows = v1.get_variable("rows", [3, 16], initializer=v1.ones_initializer())
    looked_up = tf.nn.embedding_lookup(rows, features["ids"])
    loss = tf.reduce_sum(weight * scale) + tf.reduce_sum(looked_up * scale)
    train_op = v1.train.AdamOptimizer(0.001).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def trained(folder, threads):
    config = v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    config.graph_options.rewrite_options.disable_meta_optimizer = True  # Which regroups sparse Adam's factors.
    estimator = tf.estimator.Estimator(
        model_fn, str(folder), tf.estimator.RunConfig(tf_random_seed=7, session_config=config)
    )
    estimator.train(input_fn, steps=4)
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


@pytest.mark.parametrize("threads", [1, 2])
def test_they_are_zero_as_in_plain_training(tmp_path, threads):
    plain = trained(tmp_path / "plain", threads)
    assert not any(np.any((value != 0) & (np.abs(value) < 1.17e-38)) for value in plain.values())
    tf.enable_gpu_booster()
    boosted = trained(tmp_path / "boosted", threads)
    assert tf_booster.report().pipeline
    assert boosted.keys() == plain.keys()
    for name, value in plain.items():
        assert boosted[name].tobytes() == value.tobytes(), name


def test_the_thread_is_as_it_was():
    product = lambda: float(np.multiply(np.float32(1e-30), np.float32(1e-10)))
    assert product() > 0
    assert flushing(product)() == 0
    assert product() > 0
    assert flushing(flushing(product))() == 0
    with pytest.raises(ZeroDivisionError):
        flushing(lambda: 1 // 0)()
    assert product() > 0
