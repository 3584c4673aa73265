"""A custom Estimator with hash tables: train, evaluate, predict, resume, train_and_evaluate, MonitoredTrainingSession."""

import numpy as np
import pytest
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
RNG = np.random.RandomState(3)
IDS = RNG.randint(-(2**62), 2**62, 40)
LABELS = (np.arange(40) % 2).astype(np.float32)


@pytest.fixture(autouse=True)
def booster():
    tf.enable_gpu_booster(seed=17)
    yield
    tf_booster.disable_gpu_booster()


def input_fn(repeat=None, batch=8):
    data = tf.data.Dataset.from_tensor_slices(({"id": IDS}, LABELS)).repeat(repeat).batch(batch, drop_remainder=True)
    return data


def model_fn(features, labels, mode, params):
    table = tf_booster.get_hash_table("user", 4, min_frequency=params.get("min_frequency", 0))
    rows = tf_booster.embedding_lookup(table, features["id"])
    bias = v1.get_variable("bias", [], initializer=v1.zeros_initializer())
    logits = tf.reduce_sum(rows, 1) + bias
    if mode == tf.estimator.ModeKeys.PREDICT:
        outputs = {"logits": logits, "rows": rows}
        return tf.estimator.EstimatorSpec(mode, predictions=outputs)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
    size = table.size()
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = {"accuracy": v1.metrics.accuracy(labels, logits > 0), "size": v1.metrics.mean(size)}
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    train_op = v1.train.AdagradOptimizer(0.5).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def estimator(folder, **params):
    config = tf.estimator.RunConfig(str(folder), save_checkpoints_steps=10, log_step_count_steps=1000)
    return tf.estimator.Estimator(model_fn, config=config, params=params)


def logits_of(est):
    found = est.predict(lambda: tf.data.Dataset.from_tensor_slices({"id": IDS}).batch(8))
    return np.array([row["logits"] for row in found])


def test_train_evaluate_predict(tmp_path):
    est = estimator(tmp_path)
    est.train(input_fn, steps=30)
    found = est.evaluate(lambda: input_fn(1))
    assert (found["accuracy"], found["size"], found["global_step"]) == (1.0, 40, 30)
    assert ((logits_of(est) > 0) == (LABELS > 0)).all()


def test_evaluation_and_prediction_neither_count_nor_insert(tmp_path):
    est = estimator(tmp_path, min_frequency=3)
    est.train(input_fn, steps=10)  # Two epochs: each id was seen twice.
    for _ in range(2):
        found = est.evaluate(lambda: input_fn(4))
        logits_of(est)
        assert found["size"] == 0
    est.train(input_fn, steps=5)
    assert est.evaluate(lambda: input_fn(1))["size"] == 40


def test_training_goes_on_where_it_stopped(tmp_path):
    def rows(folder, *steps):
        est = estimator(folder)
        for done, n in zip(np.cumsum([0, *steps]), steps):
            est.train(lambda done=done: input_fn().skip(done), steps=n)
        return np.array([row["rows"] for row in est.predict(lambda: tf.data.Dataset.from_tensors({"id": IDS}))])

    in_one = rows(tmp_path / "one", 20)
    in_two = rows(tmp_path / "two", 13, 7)
    np.testing.assert_array_equal(in_one, in_two)


def test_train_and_evaluate(tmp_path):
    est = estimator(tmp_path)
    train = tf.estimator.TrainSpec(input_fn, max_steps=20)
    evaluate = tf.estimator.EvalSpec(lambda: input_fn(1), steps=None, start_delay_secs=0, throttle_secs=0)
    found, _ = tf.estimator.train_and_evaluate(est, train, evaluate)
    assert (found["global_step"], found["size"], found["accuracy"]) == (20, 40, 1.0)


def test_early_stopping(tmp_path):
    est = estimator(tmp_path)
    hook = tf.estimator.experimental.stop_if_no_decrease_hook(est, "loss", 5, run_every_secs=None, run_every_steps=10)
    est.train(input_fn, hooks=[hook], max_steps=20)
    assert est.get_variable_value("global_step") == 20


def test_hooks_hold_what_they_made_before_the_rewrite(tmp_path):
    seen = []

    class Hook(v1.train.SessionRunHook):
        def begin(self):
            graph = v1.get_default_graph()
            self.rows = graph.get_tensor_by_name("embedding_lookup/embedding_lookup/Identity:0")
            self.norm = tf.norm(self.rows)

        def before_run(self, run_context):
            return v1.train.SessionRunArgs([self.rows, self.norm])

        def after_run(self, run_context, run_values):
            seen.append(run_values.results)

    estimator(tmp_path).train(input_fn, steps=2, hooks=[Hook()])
    assert [rows.shape for rows, _ in seen] == [(8, 4)] * 2
    assert all(norm == pytest.approx(np.linalg.norm(rows), rel=1e-5) for rows, norm in seen)


def test_monitored_training_session_without_an_estimator(tmp_path):
    with tf.Graph().as_default():
        v1.train.create_global_step()
        table = tf_booster.get_hash_table("user", 4)
        loss = tf.reduce_sum(tf_booster.embedding_lookup(table, tf.constant([1, 2, 2], tf.int64)) ** 2)
        train_op = v1.train.AdagradOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        size = table.size()
        with v1.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path)) as session:
            losses = [session.run([loss, train_op])[0] for _ in range(5)]
            assert session.run(size) == 2
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]
    reader = tf.train.load_checkpoint(str(tmp_path))
    assert sorted(reader.get_tensor("user/keys")) == [1, 2] and not reader.has_tensor("user")


def test_the_report_of_the_last_graph(tmp_path):
    est = estimator(tmp_path)
    est.train(input_fn, steps=1)
    assert [(t["name"], t["optimizer"]) for t in tf_booster.report().tables] == [("user", "adagrad")]
    est.evaluate(lambda: input_fn(1))
    assert [(t["name"], t["optimizer"]) for t in tf_booster.report().tables] == [("user", None)]


def test_an_error_in_the_model_is_raised_by_train_and_names_the_remedy(tmp_path):
    def wrong(features, labels, mode):
        table = tf_booster.get_hash_table("user", 4)
        loss = tf.reduce_sum(tf_booster.embedding_lookup(table, features["id"])) + tf.nn.l2_loss(table.variable)
        train_op = v1.train.AdagradOptimizer(0.5).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with pytest.raises(tf_booster.RewriteError, match="'user'.*regularise the looked-up embeddings"):
        tf.estimator.Estimator(wrong, str(tmp_path)).train(input_fn, steps=1)
