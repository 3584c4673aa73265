"""DeepCTR's Estimators, as PyPI has them, on Criteo-like TFRecords."""

import os

import pytest
import tensorflow as tf
from training_pair import compare_estimators

v1 = tf.compat.v1
fc = tf.feature_column
BATCH = 32
BUCKETS = 50


def estimators():
    from deepctr.estimator import (
        AutoIntEstimator,
        DCNEstimator,
        DeepFMEstimator,
        FiBiNETEstimator,
        NFMEstimator,
        WDLEstimator,
        xDeepFMEstimator,
    )

    return {
        "DeepFM": (DeepFMEstimator, {}),
        "xDeepFM": (xDeepFMEstimator, {"cin_layer_size": (6, 4)}),
        "DCN": (DCNEstimator, {}),
        "AutoInt": (AutoIntEstimator, {"att_layer_num": 2, "att_embedding_size": 4}),
        "FiBiNET": (FiBiNETEstimator, {}),
        "NFM": (NFMEstimator, {}),
        "WDL": (WDLEstimator, {}),
    }


def columns(ids, numbers):
    """(linear, deep) columns, as DeepCTR's examples make them."""
    categorical = [fc.categorical_column_with_hash_bucket(name, BUCKETS, tf.int64) for name in ids]
    dense = [fc.numeric_column(name) for name in numbers]
    return [*categorical, *dense], [*(fc.embedding_column(c, 4) for c in categorical), *dense]


def records(folder):
    from criteo.inputs import feature_spec

    def parse(serialized):
        spec = dict(feature_spec(), label=tf.io.FixedLenFeature([], tf.float32))
        features = tf.io.parse_example(serialized, spec)
        label = features.pop("label")
        for name, values in features.items():
            if values.dtype == tf.float32:
                known = tf.where(tf.math.is_nan(values), tf.zeros_like(values), values)
                features[name] = tf.sign(known) * tf.math.log1p(tf.abs(known))
        return features, label

    files = sorted(os.path.join(folder, f) for f in os.listdir(folder) if f.startswith("train"))
    return lambda: tf.data.TFRecordDataset(files).repeat().batch(BATCH).map(parse)


@pytest.mark.parametrize("name", ["DeepFM", "xDeepFM", "DCN", "AutoInt", "FiBiNET", "NFM", "WDL"])
def test_hundred_steps(name, criteo_files, tmp_path):
    make_estimator, settings = estimators()[name]
    linear, deep = columns(["C1", "C6", "C9"], ["I2", "I5"])
    make = lambda config: make_estimator(linear, deep, dnn_hidden_units=(8, 4), config=config, **settings)
    compare_estimators(make, records(criteo_files), tmp_path)
