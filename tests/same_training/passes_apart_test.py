"""One model under every choice of passes: each left out, each alone, each failing when its edits are done, and with XLA."""

import pytest
import tensorflow as tf
from recommendation_data import NUM_IDS, NUM_TAGS, input_fn
from training_pair import EXACT, XLA, assert_same, boosted, changed_by, compare_estimators, train_estimator

from tf_booster import _compat
from tf_booster.options import PASSES
from tf_booster.passes import pipelines

v1 = tf.compat.v1
fc = tf.feature_column
STEPS = 20
EDITING = {
    "constant_conditions",
    "conditional_updates",
    "clipped_rows",
    "indicator_columns",
    "crossed_columns",
    "vocabulary_ids",
    "bucketized_columns",
    "confusion_matrices",
    "finite_checks",
    "known_shapes",
    "same_shapes",
    "columns",
    "joined_gathers",  # Looks at this model's gathers, and joins none.
    "sparse_features",
    "sparse_lookups",
    "partitioned_lookups",
    "variable_gathers",
    "variable_updates",
    "unique",
    "input_pipeline",  # Reads this model's rows.
    "embedding_pipeline",
    "small_matmuls",  # Looks at this model's layers, and merges none.
    "xla",
}  # Those that this model has work for.
ON_BY_DEFAULT = [name for name in PASSES if name not in ("xla", "xla_padding")]


def model_fn(features, labels, mode):
    ids = fc.embedding_column(fc.categorical_column_with_identity("id", NUM_IDS), 4)
    tags = fc.embedding_column(fc.categorical_column_with_identity("tags", NUM_TAGS), 3)
    ones = fc.indicator_column(fc.categorical_column_with_identity("tags", NUM_TAGS))
    clipped = fc.embedding_column(fc.categorical_column_with_identity("id", NUM_IDS), 2, max_norm=0.5)
    buckets = fc.bucketized_column(fc.numeric_column("numbers", [3]), [0.0])
    crosses = fc.embedding_column(fc.crossed_column(["id", "other_id"], 30), 3)
    words = fc.indicator_column(fc.categorical_column_with_vocabulary_list("word", ["apple", "fig"], num_oov_buckets=2))
    columns = [ids, tags, ones, buckets, crosses, words]
    columns = [v1.feature_column.input_layer(features, [column]) for column in columns]
    with v1.variable_scope("parts", partitioner=v1.fixed_size_partitioner(2)):
        columns.append(v1.feature_column.input_layer(features, [clipped]))
    hidden = tf.concat([*columns, features["numbers"]], 1)
    for width in (8, 5):
        hidden = v1.layers.dense(hidden, width, tf.tanh)
    logits = v1.layers.dense(hidden, 1)
    logits = tf.cond(tf.constant(mode == "train"), lambda: logits * 1.5, lambda: logits)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    _, auc = v1.metrics.auc(labels, tf.sigmoid(logits))
    loss += 0.01 * tf.stop_gradient(auc)
    are_finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(column)) for column in columns])
    is_odd = tf.logical_and(tf.equal(v1.train.get_global_step() % 2, 1), are_finite)
    with tf.control_dependencies([is_odd]):  # Read before it is counted on.
        train_op = v1.train.AdamOptimizer(0.01).minimize(loss, global_step=v1.train.get_global_step())
    at_times = v1.get_variable("at_times", [4], initializer=v1.ones_initializer())
    optimizer = v1.train.AdamOptimizer(0.1)
    gradients = optimizer.compute_gradients(tf.reduce_sum(at_times) * loss, [at_times])
    train_op = tf.group(train_op, tf.cond(is_odd, lambda: optimizer.apply_gradients(gradients), tf.no_op))
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def make(config):
    return tf.estimator.Estimator(model_fn, config=config)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return train_estimator(make, input_fn(static=True), tmp_path_factory.mktemp("plain"), STEPS)


def train(tmp_path, **options):
    with boosted(**options):
        return train_estimator(make, input_fn(static=True), tmp_path, STEPS)


ALONE = [name for name in ON_BY_DEFAULT if name in EDITING]


@pytest.mark.parametrize("name", ALONE)
def test_without_one_pass(name, plain, tmp_path):
    outcome = train(tmp_path, disable_passes=[name])
    assert_same(plain, outcome)
    assert set(changed_by(outcome.report)) <= set(ON_BY_DEFAULT) - {name}


def test_without_the_passes_that_have_no_work_here(plain, tmp_path):
    outcome = train(tmp_path, disable_passes=[name for name in ON_BY_DEFAULT if name not in EDITING])
    assert_same(plain, outcome)


@pytest.mark.parametrize("name", ALONE)
def test_one_pass_alone(name, plain, tmp_path):
    outcome = train(tmp_path, disable_passes=[other for other in ON_BY_DEFAULT if other != name])
    assert_same(plain, outcome)
    assert changed_by(outcome.report) in ([name], [])


def test_with_xla(plain, tmp_path):
    outcome = train(tmp_path, xla="auto")
    assert_same(plain, outcome, XLA)
    assert ("xla" in changed_by(outcome.report)) == _compat.xla_leaves_unmarked_ops()


def test_hundred_steps_with_xla(tmp_path):
    compare_estimators(make, input_fn(static=True), tmp_path, bound=XLA, options={"xla": "auto"})


def test_passes_that_fail_when_their_edits_are_done_leave_tensorflows_graph(plain, tmp_path, monkeypatch):
    """Every pass edits, fails, and is undone: the bits of the plain program, though the graph was edited six times."""

    def fail(view):
        raise RuntimeError("after the edits")

    def failing(options, own=pipelines.passes):
        made = own(options)
        for p in made:
            if not p.essential:
                p.ensures = fail
        return made

    monkeypatch.setattr(pipelines, "passes", failing)
    outcome = train(tmp_path, xla="auto")
    failed = [
        p["name"] for p in outcome.report["passes"] if any("after the edits" in skip["reason"] for skip in p["skipped"])
    ]
    assert set(failed) == EDITING
    assert_same(plain, outcome, EXACT)
