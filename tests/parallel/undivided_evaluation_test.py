"""Evaluations that ranks make together, of what cannot be divided, and with metrics whose Variables no collection has."""

import launch
import numpy as np
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
ROWS, BATCH = 48, 4
X = np.arange(ROWS, dtype=np.float32)
Y = np.sin(X).astype(np.float32)


def own_metric(values, update):
    variable = v1.get_local_variable("own", [], initializer=v1.zeros_initializer())
    return {"own": (variable.read_value(), update(variable, values))}


UPDATES = {
    "added": lambda v, x: v.assign_add(tf.reduce_sum(x)),
    "largest": lambda v, x: v.assign(tf.maximum(v, tf.reduce_max(x))),
    "decayed": lambda v, x: v.assign(0.9 * v + tf.reduce_sum(x)),
}


def model_fn(features, labels, mode, params):
    x = features["x"][:, None]
    y = v1.layers.dense(x / ROWS, 1, kernel_initializer=v1.ones_initializer())[:, 0]
    if mode == "infer":
        return tf.estimator.EstimatorSpec(mode, predictions=y)
    loss = tf.reduce_mean((y - labels) ** 2)
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    metrics = {"mean": v1.metrics.mean(labels), **own_metric(labels, params["update"])}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def numpy_input(rank=0, size=1):
    x, y = X[rank::size], Y[rank::size]
    return v1.estimator.inputs.numpy_input_fn({"x": x}, y, BATCH, shuffle=False)


def dataset():
    return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).batch(BATCH)


def estimator(folder, name):
    return tf.estimator.Estimator(model_fn, folder, params={"update": UPDATES[name]})


def evaluate(rank, size, folder):
    tf_booster.enable_gpu_booster()
    first = estimator(folder, "added")
    first.train(numpy_input(rank, size))
    found = {
        "divided": first.evaluate(numpy_input(rank, size), name="divided"),
        "whole": first.evaluate(numpy_input(), name="whole"),
        "notes": str(tf_booster.report()),
        "added": first.evaluate(dataset, name="added"),
        "largest": estimator(folder, "largest").evaluate(dataset, name="largest"),
        "predicted": len(list(first.predict(numpy_input()))),
    }
    try:
        estimator(folder, "decayed").evaluate(dataset, name="decayed")
    except ValueError as error:
        found["refused"] = str(error)
    return found


def test_evaluations_of_two_ranks(tmp_path):
    first, second = ended = launch.values(evaluate, 2, folder=str(tmp_path))
    tf_booster.disable_gpu_booster()
    for name, input_fn in (("whole", numpy_input()), ("added", dataset), ("largest", dataset)):
        plain = estimator(str(tmp_path), name if name in UPDATES else "added").evaluate(input_fn, name=f"plain_{name}")
        for values in ended:
            for key, value in plain.items():
                np.testing.assert_allclose(values[name][key], value, rtol=1e-5, err_msg=f"{name}: {key}")
    assert first["divided"] != second["divided"]
    assert (first["predicted"], second["predicted"]) == (ROWS, 0)
    assert "give all ranks the whole of it; or return a tf.data.Dataset" in first["notes"]
    for values in ended:
        assert "the metric's Variable 'own' is not only added to" in values["refused"]
