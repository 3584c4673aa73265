"""Canned Estimators, v1 and v2, on feature columns of every kind."""

import numpy as np
import pytest
import tensorflow as tf
from recommendation_data import NUM_IDS, NUM_TAGS, WORDS, input_fn, records, reorder_batches
from training_pair import compare_estimators

v1 = tf.compat.v1
fc = tf.feature_column
APIS = {"v1": v1.estimator, "v2": tf.estimator}

api = pytest.mark.parametrize("api", APIS)
kind = pytest.mark.parametrize("kind", ["Classifier", "Regressor"])


def categorical():
    ids = fc.categorical_column_with_identity("id", NUM_IDS)
    words = fc.categorical_column_with_vocabulary_list("word", WORDS, num_oov_buckets=2)
    tags = fc.categorical_column_with_identity("tags", NUM_TAGS)
    return ids, words, tags


def linear_columns():
    ids, words, tags = categorical()
    weighted = fc.weighted_categorical_column(tags, "tag_weights")
    return [ids, words, weighted, fc.crossed_column([words, "other_id"], 30), fc.numeric_column("numbers", 3)]


def deep_columns():
    ids, words, tags = categorical()
    weighted = fc.weighted_categorical_column(tags, "tag_weights")
    return [
        fc.embedding_column(ids, 4),
        fc.embedding_column(weighted, 3, combiner="sqrtn"),
        fc.embedding_column(fc.categorical_column_with_hash_bucket("other_id", 20, tf.int64), 4, max_norm=0.5),
        fc.indicator_column(words),
        fc.numeric_column("numbers", 3),
    ]


def data(kind):
    features, labels = records()
    return features, labels if kind == "Classifier" else labels * 3 + features["numbers"][:, :1]


@api
@kind
def test_linear(api, kind, tmp_path):
    make = lambda config: getattr(APIS[api], f"Linear{kind}")(linear_columns(), config=config)
    # Grappler adds the columns of the two graphs in different orders, and the classifier's bias is a sum that nearly cancels.
    reordered = input_fn(reorder_batches(*data(kind)))
    compare_estimators(make, input_fn(data(kind)), tmp_path, reordered=[reordered])


@api
@kind
def test_dnn(api, kind, tmp_path):
    make = lambda config: getattr(APIS[api], f"DNN{kind}")([8, 4], deep_columns(), config=config)
    compare_estimators(make, input_fn(data(kind)), tmp_path)


@api
@kind
def test_dnn_linear_combined(api, kind, tmp_path):
    make = lambda config: getattr(APIS[api], f"DNNLinearCombined{kind}")(
        linear_feature_columns=linear_columns(),
        dnn_feature_columns=deep_columns(),
        dnn_hidden_units=[8, 4],
        dnn_optimizer="Adam",
        batch_norm=True,
        config=config,
    )
    compare_estimators(make, input_fn(data(kind)), tmp_path)


@api
def test_baseline_classifier(api, tmp_path):
    # Static: in v2 the bias's initializer waits on checks of the batch's size, which are ops where it is not known.
    make = lambda config: APIS[api].BaselineClassifier(config=config)
    compare_estimators(make, input_fn(data("Classifier"), static=True), tmp_path, steps=20)


def test_loss_that_is_a_sum_over_the_batch(tmp_path):
    """The v1 heads' default; the v2 heads divide by the batch."""
    sums = []
    for reduction in (v1.losses.Reduction.SUM, v1.losses.Reduction.SUM_OVER_BATCH_SIZE):
        make = lambda config, reduction=reduction: v1.estimator.DNNClassifier(
            [4], deep_columns(), loss_reduction=reduction, config=config
        )
        outcome = compare_estimators(make, input_fn(data("Classifier")), tmp_path / reduction, steps=20)
        sums.append(outcome.losses[0])
    np.testing.assert_allclose(sums[0], 16 * sums[1], rtol=1e-6)
