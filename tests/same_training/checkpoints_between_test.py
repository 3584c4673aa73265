"""Checkpoints, exports and evaluations of boosted Estimators are TensorFlow's own, and go both ways."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from recommendation_data import BATCH, NUM_IDS, NUM_TAGS, input_fn, records
from training_pair import BOUND, Outcome, assert_same, boosted, distance, entries_of, run_config, train_estimator

import tf_booster

v1 = tf.compat.v1
fc = tf.feature_column
HALF = 20


def columns():
    tags = fc.categorical_column_with_identity("tags", NUM_TAGS)
    ids = fc.categorical_column_with_identity("id", NUM_IDS)
    return [fc.embedding_column(ids, 4), fc.embedding_column(tags, 3), fc.numeric_column("numbers", 3)]


def make(config, warm_start=None):
    optimizer = lambda: tf.keras.optimizers.legacy.Adam(0.01)
    return tf.estimator.DNNClassifier([8, 5], columns(), optimizer=optimizer, config=config, warm_start_from=warm_start)


def half(number):
    """The first or the second half of the records."""
    features, labels = records()
    part = slice(number * HALF * BATCH, (number + 1) * HALF * BATCH)
    return input_fn(({name: values[part] for name, values in features.items()}, labels[part]))


def train(folder, number, boost):
    with boosted(enabled=boost):
        return train_estimator(make, half(number), folder, HALF)


@pytest.mark.parametrize("first", [True, False], ids=["boosted first", "plain first"])
def test_training_goes_on_from_the_others_checkpoint(first, tmp_path):
    mine = Outcome(
        np.concatenate([train(tmp_path / "mixed", 0, first).losses, train(tmp_path / "mixed", 1, not first).losses]),
        entries_of(tmp_path / "mixed"),
    )
    plain = Outcome(
        np.concatenate([train(tmp_path / "plain", number, False).losses for number in (0, 1)]),
        entries_of(tmp_path / "plain"),
    )
    assert plain.entries["global_step"] == 2 * HALF
    assert_same(plain, mine)


def test_values_evaluations_and_predictions(tmp_path):
    train(tmp_path / "plain", 0, False)

    def results():
        estimator = make(run_config(tmp_path / "plain"))
        names = estimator.get_variable_names()
        values = {name: estimator.get_variable_value(name) for name in names}
        predictions = [p["logits"] for p in estimator.predict(half(1))]
        return values, estimator.evaluate(half(1)), np.array(predictions)

    want_values, want_metrics, want_predictions = results()
    with boosted():
        values, metrics, predictions = results()
    assert sorted(values) == sorted(want_values)
    for name, value in want_values.items():
        np.testing.assert_array_equal(values[name], value)
    assert metrics.keys() == want_metrics.keys()
    for name, value in want_metrics.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-5, err_msg=name)
    assert distance(predictions, want_predictions) <= BOUND


def test_warm_start_from_a_boosted_checkpoint(tmp_path):
    train(tmp_path / "first", 0, True)
    settings = tf.estimator.WarmStartSettings(str(tmp_path / "first"), vars_to_warm_start=".*(kernel|weights).*")
    start = lambda config: make(config, settings)
    plain = train_estimator(start, half(1), tmp_path / "plain", HALF)
    with boosted():
        mine = train_estimator(start, half(1), tmp_path / "boosted", HALF)
    assert_same(plain, mine)
    cold = train(tmp_path / "cold", 1, False)
    assert cold.losses[0] != plain.losses[0]


def test_train_and_evaluate(tmp_path):
    def run(name):
        tf.keras.utils.set_random_seed(7)
        estimator = make(run_config(tmp_path / name, save_checkpoints_steps=10))
        return tf.estimator.train_and_evaluate(
            estimator,
            tf.estimator.TrainSpec(half(0), max_steps=HALF),
            tf.estimator.EvalSpec(half(1), steps=None, start_delay_secs=0, throttle_secs=0),
        )[0]

    plain = run("plain")
    with boosted():
        mine = run("boosted")
    assert mine["global_step"] == plain["global_step"] == HALF
    for name in plain:
        np.testing.assert_allclose(mine[name], plain[name], rtol=1e-4, err_msg=name)


SERVE = """
import sys
import numpy as np
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
assert "tf_booster" not in sys.modules
spec = {"id": [[3], [5]], "tags": [[1, -1, -1], [-1, -1, -1]], "numbers": [[0.5, 1.0, -1.0], [0.0, 0.0, 1.0]]}
inputs = {n: tf.constant(v, tf.float32 if n == "numbers" else tf.int64) for n, v in spec.items()}
np.save(sys.argv[2], model.signatures["predict"](**inputs)["logits"].numpy())
"""


def test_export_is_served_by_tensorflow_alone(tmp_path):
    """A process without tf_booster loads the exported model: it holds none of its ops."""
    train(tmp_path / "model", 0, True)
    example = {"id": tf.zeros([1, 1], tf.int64), "tags": tf.zeros([1, 3], tf.int64), "numbers": tf.zeros([1, 3])}
    receiver = tf.estimator.export.build_raw_serving_input_receiver_fn(example)
    logits = {}
    for name in ("plain", "boosted"):
        with boosted(enabled=name == "boosted"):
            exported = make(run_config(tmp_path / "model")).export_saved_model(str(tmp_path / name), receiver)
        output = str(tmp_path / f"{name}.npy")
        command = [sys.executable, "-c", SERVE, exported.decode(), output]
        subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
        logits[name] = np.load(output)
    assert logits["plain"].shape == (2, 1)
    np.testing.assert_allclose(logits["boosted"], logits["plain"], rtol=1e-5)
    assert not tf_booster.report().to_dict()["tables"]
