"""DeepCTR's own input function, which parses records one by one and makes a one-shot iterator, under its DeepFM."""

import os

import pytest
import tensorflow as tf
from deepctr_models_test import BATCH, columns
from training_pair import changed_by, compare_estimators


@pytest.mark.parametrize("shuffle_factor", [0, 10])
def test_deepfm_on_input_fn_tfrecord(criteo_files, tmp_path, shuffle_factor):
    from deepctr.estimator import DeepFMEstimator
    from deepctr.estimator.inputs import input_fn_tfrecord

    ids, numbers = ["C1", "C6", "C9"], ["I2", "I5"]
    features = {name: tf.io.FixedLenFeature([], tf.int64, -1) for name in ids}
    features.update({name: tf.io.FixedLenFeature([], tf.float32, 0.0) for name in numbers})
    features["label"] = tf.io.FixedLenFeature([], tf.float32)
    files = sorted(os.path.join(criteo_files, f) for f in os.listdir(criteo_files) if f.startswith("train"))
    input_fn = input_fn_tfrecord(
        files, features, "label", batch_size=BATCH, num_epochs=2, shuffle_factor=shuffle_factor
    )
    linear, deep = columns(ids, numbers)
    make = lambda config: DeepFMEstimator(linear, deep, dnn_hidden_units=(8, 4), config=config)
    backwards = lambda: tf.nest.map_structure(lambda rows: tf.reverse(rows, [0]), input_fn())
    rolled = lambda: tf.nest.map_structure(lambda rows: tf.roll(rows, 7, 0), input_fn())
    mine = compare_estimators(make, input_fn, tmp_path, steps=120, reordered=[backwards, rolled])
    assert "input_pipeline" in changed_by(mine.report)
    (change,) = [p["changes"] for p in mine.report["passes"] if p["name"] == "input_pipeline"]
    assert len(change) == 1 and change[0].startswith("OneShotIterator: BatchDatasetV2: files, parse,")
