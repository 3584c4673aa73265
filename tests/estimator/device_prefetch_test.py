"""prefetch_to_device: a no-op with a word in the report on the CPU; the way through packed batches, tried on the CPU."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import tensorflow as tf

import tf_booster
from tf_booster import _compat
from tf_booster.estimator import device_prefetch

v1 = tf.compat.v1


@pytest.fixture
def booster(monkeypatch):
    # Else report() keeps that of an earlier test's graph, in which more was changed.
    monkeypatch.setattr(sys.modules["tf_booster.report"], "_last", None)
    tf.enable_gpu_booster(prefetch_to_device=True)
    yield
    tf_booster.disable_gpu_booster()


def input_fn():
    numbers = tf.data.Dataset.range(40).batch(4).repeat()
    return numbers.map(lambda x: ({"x": tf.cast(x, tf.float32), "s": tf.as_string(x)}, tf.cast(x % 2, tf.float32)))


def model_fn(features, labels, mode):
    weight = v1.get_variable("w", [], initializer=v1.zeros_initializer())
    loss = tf.reduce_mean(tf.square(features["x"] * weight / 40 - labels))
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def trained(folder):
    estimator = tf.estimator.Estimator(model_fn, str(folder))
    estimator.train(input_fn, steps=15)
    return estimator.get_variable_value("w")


def test_on_the_cpu_it_changes_nothing_and_says_so(booster, tmp_path):
    weight = trained(tmp_path / "boosted")
    entry = {p["name"]: p for p in tf_booster.report().to_dict()["passes"]}["prefetch_to_device"]
    assert not entry["changes"] and "no GPU" in entry["skipped"][0]["reason"]
    tf_booster.disable_gpu_booster()
    np.testing.assert_array_equal(weight, trained(tmp_path / "plain"))


def test_batches_by_way_of_a_packed_buffer(booster, tmp_path, monkeypatch):
    """A CPU in the place of the card: packed, copied ahead, taken apart, trained on."""
    monkeypatch.setattr(device_prefetch, "_device", lambda: "/cpu:0")
    weight = trained(tmp_path / "packed")
    entry = {p["name"]: p for p in tf_booster.report().to_dict()["passes"]}["prefetch_to_device"]
    assert "2 batches ahead" in entry["changes"][0]
    tf_booster.disable_gpu_booster()
    np.testing.assert_array_equal(weight, trained(tmp_path / "plain"))


def numbers():
    return input_fn().map(lambda features, label: ({"x": features["x"]}, label))


@pytest.mark.parametrize(
    "options, data, sent",
    [
        ({}, numbers, True),
        ({}, input_fn, False),  # Strings.
        ({"device": "cpu"}, numbers, False),
        ({"prefetch_to_device": False}, numbers, False),
    ],
)
def test_auto(options, data, sent, tmp_path, monkeypatch):
    """Where nobody asks: dense numbers, which nothing wants in host memory."""
    monkeypatch.setattr(device_prefetch, "_device", lambda: "/cpu:0")
    monkeypatch.setattr(sys.modules["tf_booster.report"], "_last", None)
    tf.enable_gpu_booster(**options)
    tf.estimator.Estimator(model_fn, str(tmp_path)).train(data, steps=5)
    entries = {p["name"]: p for p in tf_booster.report().to_dict()["passes"]}
    assert bool(entries.get("prefetch_to_device", {}).get("changes")) == sent
    tf_booster.disable_gpu_booster()


def test_features_alone_sparse_and_ragged():
    def data():
        ids = tf.data.Dataset.range(12).batch(3)
        return ids.map(
            lambda x: {"sparse": tf.sparse.from_dense(x[:, None]), "ragged": tf.ragged.range(x), "s": tf.as_string(x)}
        )

    def run(parse):
        with tf.Graph().as_default(), v1.Session() as session:
            features, labels, hooks = parse(data())
            assert labels is None
            for hook in hooks:
                hook.begin()
                hook.after_create_session(session, None)
            flat = tf.nest.flatten(features, expand_composites=True)
            return [session.run(flat) for _ in range(4)]

    stock = _compat.estimator_util().parse_input_fn_result
    packed = run(lambda dataset: device_prefetch.on_device(stock, dataset, "/cpu:0"))
    for a, b in zip(packed, run(stock)):
        for x, y in zip(a, b):
            np.testing.assert_array_equal(x, y)
