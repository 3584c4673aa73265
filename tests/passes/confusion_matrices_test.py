"""The pass confusion_matrices: metrics at many thresholds count predictions once; TensorFlow's counts, to the bit."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import running

from tf_booster import _native
from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.confusion_matrices import ConfusionMatrices

v1 = tf.compat.v1
PASSES = [ConfusionMatrices()]
MADE = "TfBoosterConfusionMatrix"
rng = np.random.default_rng(0)


def batch(n, seed=0):
    """(labels, predictions), of which some are thresholds of an AUC by five."""
    some = np.random.default_rng(seed)
    predictions = np.where(some.random((n, 1)) < 0.3, some.integers(0, 5, (n, 1)) / 4, some.random((n, 1)))
    return some.integers(0, 2, (n, 1)).astype(np.float32), predictions.astype(np.float32)


def outcome(metrics, shape, batches, boosted):
    """metrics: makes (value, update) pairs of labels and predictions. All values and updates, step by step, and the counts of ops that run."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        labels, predictions = v1.placeholder(tf.float32, shape), v1.placeholder(tf.float32, shape)
        pairs = metrics(labels, predictions)
        if boosted:
            pipelines.rewrite(graph, Options(), only=PASSES)
        session.run(v1.local_variables_initializer())
        found = []
        for given in batches:
            feed = dict(zip((labels, predictions), given))
            found += session.run([update for _, update in pairs], feed) + session.run([value for value, _ in pairs])
            found += session.run(v1.local_variables())
        return found, running(graph, *(update for _, update in pairs))


METRICS = {
    "auc": lambda labels, p: [v1.metrics.auc(labels, p)],
    "auc of few thresholds": lambda labels, p: [v1.metrics.auc(labels, p, num_thresholds=5)],
    "auc of precision and recall": lambda labels, p: [v1.metrics.auc(labels, p, curve="PR", num_thresholds=1000)],
    "two": lambda labels, p: [v1.metrics.auc(labels, p), v1.metrics.auc(1 - labels, p, summation_method="careful_interpolation", curve="PR")],
    "integer labels": lambda labels, p: [v1.metrics.auc(tf.cast(labels, tf.int64), p)],
    "float64": lambda labels, p: [v1.metrics.auc(labels, tf.cast(p, tf.float64))],
    "squeezed labels": lambda labels, p: [v1.metrics.auc(labels[:, 0], p)],
    "weights of one": lambda labels, p: [v1.metrics.auc(labels, p, weights=1.0)],
    "many weights of one": lambda labels, p: [v1.metrics.auc(labels, p, weights=tf.ones_like(labels))],
    "as a head has them": lambda labels, p: [v1.metrics.auc(labels, p, weights=1.0 * tf.ones_like(p), curve="PR")],
    "precision": lambda labels, p: [v1.metrics.precision_at_thresholds(labels, p, [0.9, 0.25, 0.5, 0.5])],
    "recall": lambda labels, p: [v1.metrics.recall_at_thresholds(labels, p, [0.9, 0.0, 1.0])],
    "sensitivity": lambda labels, p: [v1.metrics.sensitivity_at_specificity(labels, p, 0.5)],
    "specificity": lambda labels, p: [v1.metrics.specificity_at_sensitivity(labels, p, 0.5)],
    "false negatives": lambda labels, p: [v1.metrics.false_negatives_at_thresholds(labels, p, [0.2, 0.4])],
}  # fmt: skip


@pytest.mark.parametrize("shape", [[None, 1], [40, 1]])
@pytest.mark.parametrize("kind", METRICS)
def test_the_same_counts(kind, shape):
    batches = [batch(40, seed) for seed in range(3)] + ([batch(0), batch(1)] if shape[0] is None else [])
    wanted, _ = outcome(METRICS[kind], shape, batches, False)
    found, counts = outcome(METRICS[kind], shape, batches, True)
    assert counts[MADE] == (2 if kind == "two" else 1) and not counts["Tile"]
    for a, b in zip(found, wanted):
        np.testing.assert_array_equal(a, b)


OTHERS = {
    "weights": lambda labels, p: [v1.metrics.auc(labels, p, weights=labels + 1)],
    "one threshold": lambda labels, p: [v1.metrics.true_positives(labels > 0.5, p > 0.5)],
}


@pytest.mark.parametrize("kind", OTHERS)
def test_others_stay(kind):
    batches = [batch(40, seed) for seed in range(2)]
    wanted, _ = outcome(OTHERS[kind], [None, 1], batches, False)
    found, counts = outcome(OTHERS[kind], [None, 1], batches, True)
    assert not counts[MADE]
    for a, b in zip(found, wanted):
        np.testing.assert_array_equal(a, b)


def by_hand(thresholds=(0.5, 0.25), axis=1, **changed):
    """The counts as TensorFlow writes them, with a part of them changed."""
    labels, predictions = (v1.placeholder_with_default(x, [None, 1]) for x in batch(30))
    rows = tf.reshape(predictions, changed.get("column", [-1, 1]))
    times = changed.get("times", tf.stack([1, tf.shape(rows)[0]]))
    tiled = tf.tile(tf.expand_dims(tf.constant(thresholds), [1]), times)
    above = changed.get("compare", tf.greater)(tf.tile(tf.transpose(rows), [len(thresholds), 1]), tiled)
    true = tf.tile(tf.reshape(tf.cast(labels, tf.bool), [1, -1]), [len(thresholds), 1])
    ones = tf.cast(changed.get("both", tf.logical_and)(true, above), changed.get("dtype", tf.float32))
    return [1 * tf.reduce_sum(ones, axis)]


HANDS = {
    "as it is": {},
    "at least": {"compare": tf.greater_equal},
    "below": {"compare": tf.less},
    "either": {"both": tf.logical_or},
    "integers": {"dtype": tf.int32},
    "over thresholds": {"axis": 0},
    "thresholds that are no numbers": {"thresholds": (0.5, np.float32(np.nan))},
}


@pytest.mark.parametrize("kind", HANDS)
def test_counts_by_hand(kind):
    def made(passes):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            ends = by_hand(**HANDS[kind])
            if passes:
                pipelines.rewrite(graph, Options(), only=passes)
            return session.run(ends), running(graph, *ends)

    (wanted,), (found,) = made([])[0], made(PASSES)[0]
    np.testing.assert_array_equal(found, wanted)
    assert bool(made(PASSES)[1][MADE]) == (kind == "as it is")


def test_predictions_that_are_none_are_still_refused():
    with tf.Graph().as_default() as graph, v1.Session() as session:
        labels, predictions = v1.placeholder(tf.float32, [None]), v1.placeholder(tf.float32, [None])
        _, update = v1.metrics.auc(labels, predictions)
        pipelines.rewrite(graph, Options(), only=PASSES)
        session.run(v1.local_variables_initializer())
        assert running(graph, update)[MADE]
        for wrong in (1.5, -0.5, np.nan):
            with pytest.raises(tf.errors.InvalidArgumentError, match="must be in"):
                session.run(update, {labels: [1.0], predictions: [wrong]})


def test_a_second_run_changes_nothing_and_the_report():
    with tf.Graph().as_default() as graph:
        given = [v1.placeholder(tf.float32, [None]) for _ in range(2)]
        kept = [v1.metrics.auc(*given), v1.metrics.auc(*given)]
        report = pipelines.rewrite(graph, Options(), only=PASSES)
        assert report.passes[0].changes == ["2 confusion matrices at many thresholds counted in one pass each"]
        before = len(graph.get_operations())
        pipelines.rewrite(graph, Options(), only=PASSES)
        assert len(graph.get_operations()) == before
    del kept


def call(labels, predictions, thresholds=(0.5,)):
    return _native.ops().tf_booster_confusion_matrix(labels=labels, predictions=predictions, thresholds=thresholds)


@pytest.mark.parametrize("n, m", [(1, 7), (7, 1), (1, 1), (0, 0), (1, 0), (5000, 5000)])
def test_the_op(n, m):
    labels, predictions = rng.random(n) < 0.3, rng.random(m).astype(np.float32)
    thresholds = [0.7, -np.inf, 0.2, 0.2, np.inf]
    above = predictions[None] > np.array(thresholds, np.float32)[:, None]
    for got, true, wanted in zip(
        call(labels, predictions, thresholds), (True, True, False, False), (above, ~above, ~above, above)
    ):
        np.testing.assert_array_equal(got, np.sum((labels == true)[None] & wanted, 1).astype(np.float32))


def test_what_the_op_refuses():
    with pytest.raises(tf.errors.InvalidArgumentError, match="2 labels for 3 predictions, wanted as many, or one"):
        call([True, False], [0.1, 0.2, 0.3])
    with pytest.raises(tf.errors.InvalidArgumentError, match="thresholds has a NaN"):
        call([True], [0.1], [np.nan])
