"""Evaluations and exports within a training read its tables where they are: same numbers as from the checkpoint, and no copy."""

import os
import threading

import numpy as np
import pytest
import tensorflow as tf

import tf_booster
from tf_booster.embedding import registry
from tf_booster.report import report_of

v1 = tf.compat.v1
STEPS = 12
MODES = tf.estimator.ModeKeys


@pytest.fixture(autouse=True, params=["exact", "off"])
def booster(request):
    tf.enable_gpu_booster(pipeline=request.param)
    yield
    tf_booster.disable_gpu_booster()


def model_fn(features, labels, mode, params):
    """Tables of two dims and two optimizers; `hidden` adds one that evaluations have not."""
    tables = {
        "user": tf_booster.get_hash_table(
            "user", 4, params.get("begin") if mode == MODES.EVAL else None, seed=3, eviction={"max_idle_steps": 3}
        ),
        "item": tf_booster.get_hash_table("item", 4, seed=4, min_frequency=2),
        "tag": tf_booster.get_hash_table("tag", 1, seed=5, key_dtype=tf.string),
    }
    if mode == (MODES.TRAIN if params.get("hidden") else MODES.EVAL if params.get("new") else None):
        tables["new"] = tf_booster.get_hash_table("new", 4, seed=6)
        features = dict(features, new=features["user"])
    rows = {name: tf_booster.embedding_lookup(table, features[name]) for name, table in tables.items()}
    kernel = v1.get_variable("kernel", [4, 1], initializer=v1.ones_initializer())
    logit = tf.matmul(tf.add_n([r for r in rows.values() if r.shape[1] == 4]), kernel)[:, 0] + rows["tag"][:, 0]
    if mode == MODES.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"logit": logit})
    loss = tf.reduce_mean(tf.square(logit - labels))
    for name, r in rows.items():
        tf.identity(r, f"{name}_rows")
    metrics = {"logit": v1.metrics.mean(logit)} if mode == MODES.EVAL else None
    if params.get("edits") and mode == MODES.EVAL:
        with tf.control_dependencies([logit]):
            erased = tables["user"].erase(features["user"])
        with tf.control_dependencies([erased]):
            again = tf.identity(logit)
        metrics["again"] = v1.metrics.mean(again)
    train_op = None
    if mode == MODES.TRAIN or params.get("careless"):
        tag = [v for v in v1.trainable_variables() if v.name.startswith("tag")]
        rest = [v for v in v1.trainable_variables() if not v.name.startswith("tag")]
        train_op = tf.group(
            v1.train.AdagradOptimizer(0.1).minimize(loss, v1.train.get_global_step(), rest),
            v1.train.FtrlOptimizer(0.1).minimize(loss, var_list=tag),
        )
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def training_input():
    random = np.random.RandomState(1)
    users = random.randint(-3, 20, [STEPS, 16]) + 4 * np.arange(STEPS)[:, None]
    features = {"user": users, "item": random.randint(-3, 60, [STEPS, 16])}
    return batches(features)


def evaluation_input():
    """Ids that the training sees, some that are evicted or pending, and some that nobody has seen."""
    return batches({"user": np.arange(-5, 91).reshape(6, 16), "item": np.arange(-5, 91).reshape(6, 16)})


def batches(features):
    features = {name: ids.astype(np.int64) for name, ids in features.items()}
    features["tag"] = np.char.add("tag ", (features["user"] % 11).astype(str)).astype(object)
    return tf.data.Dataset.from_tensor_slices((features, (features["user"] % 2).astype(np.float32)))


def receiver():
    types = {"user": tf.int64, "item": tf.int64, "tag": tf.string}
    ids = {name: v1.placeholder(dtype, [None], f"{name}_ids") for name, dtype in types.items()}
    return tf.estimator.export.ServingInputReceiver(ids, ids)


class Tables(v1.train.SessionRunHook):
    """Of each evaluation: how many rows were evicted from its table `user` so far, none if it was restored; which checkpoint it is lent from;
    and what is looked up."""

    def __init__(self):
        self.evicted, self.lent, self.rows, self.report = [], [], [], ""

    def after_create_session(self, session, coord):
        self.report = self.report or str(report_of(session.graph))
        table = registry.rewritten(session.graph)["user"]
        self.evicted.append(int(session.run(table.stats)[2]))
        self.lent.append(table.resource.op.get_attr("lent_checkpoint").decode())
        self.rows.append([])

    def before_run(self, run_context):
        return v1.train.SessionRunArgs([f"{name}_rows:0" for name in ("user", "item", "tag")])

    def after_run(self, run_context, run_values):
        self.rows[-1].append(np.concatenate(run_values.results, 1))


class Evaluations(v1.train.CheckpointSaverListener):
    """Evaluates each checkpoint that was just saved."""

    def __init__(self, estimator, evaluate=None):
        self.tables, self.found = Tables(), {}
        self._estimator, self._evaluate = estimator, evaluate or self.evaluate

    def evaluate(self, checkpoint=None):
        metrics = self._estimator.evaluate(evaluation_input, hooks=[self.tables], checkpoint_path=checkpoint)
        return {**metrics, "rows": np.concatenate(self.tables.rows[-1])}

    def after_save(self, session, global_step_value):
        self.found[global_step_value] = self._evaluate()


def estimator(tmp_path, **params):
    config = tf.estimator.RunConfig(save_checkpoints_steps=4, tf_random_seed=6, keep_checkpoint_max=100)
    return tf.estimator.Estimator(model_fn, str(tmp_path), config, params)


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], name)


def tensors(checkpoint):
    """Those of a checkpoint, with rows in the order of their keys."""
    reader = tf.train.load_checkpoint(checkpoint)
    found = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    for name, value in list(found.items()):
        table, _, array = name.partition("/")
        keys = f"{table}/{'pending_' if array.startswith('pending') else ''}keys"
        if keys in reader.get_variable_to_shape_map() and np.ndim(value) > 0:
            found[name] = value[np.argsort(reader.get_tensor(keys))]
    return found


def check_found(listener, tmp_path, steps=(0, 4, 8, 12)):
    """Against evaluations of the same checkpoints when nothing is trained."""
    assert tuple(listener.found) == steps
    for step, found in listener.found.items():
        same(found, listener.evaluate(f"{tmp_path}/model.ckpt-{step}"))


@pytest.mark.parametrize("params", [{}, {"careless": True}])
def test_tables_are_read_where_the_training_has_them(tmp_path, params):
    made = estimator(tmp_path, **params)
    listener = Evaluations(made)
    made.train(training_input, saving_listeners=[listener])
    evicted = listener.tables.evicted
    assert evicted[0] == 0 and evicted[1] < evicted[2] < evicted[3]
    assert listener.tables.lent == [f"{tmp_path}/model.ckpt-{step}" for step in (0, 4, 8, 12)]
    check_found(listener, tmp_path)
    assert listener.tables.evicted[4:] == [0] * 4 and listener.tables.lent[4:] == [""] * 4
    assert len(np.unique(listener.found[12]["rows"])) > 300


def test_the_training_goes_on_as_without_evaluations(tmp_path):
    alone, beside = estimator(tmp_path / "alone"), estimator(tmp_path / "beside")
    alone.train(training_input)
    listener = Evaluations(beside)
    beside.train(training_input, saving_listeners=[listener])
    assert listener.tables.evicted[3] > 0
    same(*(tensors(f"{tmp_path}/{name}/model.ckpt-12") for name in ("alone", "beside")))


def test_train_and_evaluate_and_its_exports(tmp_path):
    made, tables = estimator(tmp_path / "model"), Tables()
    exporter = tf.estimator.LatestExporter("latest", receiver, exports_to_keep=None)
    found, exported = tf.estimator.train_and_evaluate(
        made,
        tf.estimator.TrainSpec(training_input, max_steps=STEPS),
        tf.estimator.EvalSpec(evaluation_input, None, hooks=[tables], exporters=[exporter], throttle_secs=0),
    )
    assert tables.lent[-1] == f"{tmp_path}/model/model.ckpt-12" and tables.evicted[-1] > 0
    same(found, made.evaluate(evaluation_input))
    (path,) = exported
    wanted = made.export_saved_model(str(tmp_path / "again"), receiver)
    one, other = (tensors(os.path.join(p.decode(), "variables", "variables")) for p in (path, wanted))
    same(one, other)
    assert len(one["user/values"]) > 10 and len(one["item/pending_keys"]) > 5
    for folder in (path, wanted):
        with open(os.path.join(folder.decode(), "saved_model.pb"), "rb") as file:
            assert b"model.ckpt" not in file.read()


def test_an_older_checkpoint_is_restored(tmp_path):
    made = estimator(tmp_path)
    listener = Evaluations(made, lambda: listener.evaluate(f"{tmp_path}/model.ckpt-0"))
    made.train(training_input, saving_listeners=[listener])
    assert listener.tables.lent == [f"{tmp_path}/model.ckpt-0", "", "", ""] and set(listener.tables.evicted) == {0}
    for found in listener.found.values():
        same(found, listener.found[0])


def test_another_thread_restores(tmp_path):
    """The training does not wait for it, whatever this listener does."""

    def evaluate():
        found = []
        thread = threading.Thread(target=lambda: found.append(listener.evaluate()))
        thread.start()
        thread.join()
        return found[0]

    made = estimator(tmp_path)
    listener = Evaluations(made, evaluate)
    made.train(training_input, saving_listeners=[listener])
    assert set(listener.tables.lent) == {""} and set(listener.tables.evicted) == {0}
    check_found(listener, tmp_path)


def test_a_table_that_was_changed_after_the_save_is_restored(tmp_path):
    def with_clear(features, labels, mode, params):
        spec = model_fn(features, labels, mode, params)
        if mode == MODES.TRAIN:
            cleared.append(tf_booster.get_hash_table("user", 4, seed=3, eviction={"max_idle_steps": 3}).clear())
        return spec

    class Listener(Evaluations):
        def after_save(self, session, global_step_value):
            session.run(cleared[0])
            super().after_save(session, global_step_value)

    cleared = []
    config = tf.estimator.RunConfig(save_checkpoints_steps=4, tf_random_seed=6, keep_checkpoint_max=100)
    made = tf.estimator.Estimator(with_clear, str(tmp_path), config, {})
    listener = Listener(made)
    made.train(training_input, saving_listeners=[listener])
    assert all(listener.tables.lent) and set(listener.tables.evicted) == {0}
    check_found(listener, tmp_path)


def test_tables_that_the_evaluation_does_not_have(tmp_path):
    """The training has them fused with those that it has."""
    made = estimator(tmp_path, hidden=True)
    listener = Evaluations(made)
    made.train(training_input, saving_listeners=[listener])
    assert listener.tables.evicted[3] > 0
    check_found(listener, tmp_path)


@pytest.mark.parametrize("params,why", [
    ({"hidden": True, "careless": True}, "fused with others"),
    ({"begin": 0.5}, "begin with other values"),
    ({"edits": True}, "changes them by hand"),
])  # fmt: skip
def test_what_cannot_be_lent_is_restored_and_reported(tmp_path, params, why):
    made = estimator(tmp_path, **params)
    listener = Evaluations(made)
    made.train(training_input, saving_listeners=[listener])
    check_found(listener, tmp_path)
    assert set(listener.tables.evicted) == {0} and set(listener.tables.lent) == {""}
    assert why in listener.tables.report


def test_a_table_that_the_training_has_not(tmp_path):
    made = estimator(tmp_path, new=True)
    with pytest.raises(tf.errors.NotFoundError, match="has no tensor 'new/keys'"):
        made.train(training_input, saving_listeners=[Evaluations(made)])


def in_memory(made, tables, every=4):
    return tf.estimator.experimental.InMemoryEvaluatorHook(made, evaluation_input, hooks=[tables], every_n_iter=every)


def test_in_memory_evaluation(tmp_path):
    made, tables = estimator(tmp_path), Tables()
    made.train(training_input, hooks=[in_memory(made, tables)])
    assert tables.evicted[0] == 0 < tables.evicted[1] < tables.evicted[2] < tables.evicted[3]
    assert len(tables.rows) == 5  # At the end once more.
    for step, rows in zip((0, 4, 8, 12, 12), tables.rows[:]):
        metrics = made.evaluate(evaluation_input, hooks=[tables], checkpoint_path=f"{tmp_path}/model.ckpt-{step}")
        np.testing.assert_array_equal(np.concatenate(rows), np.concatenate(tables.rows[-1]))
        logged = [value for event in events(tmp_path / "eval") if event.step == step for value in event.summary.value]
        assert {value.simple_value for value in logged if value.tag == "loss"} == {metrics["loss"]}


def test_two_in_memory_evaluations_and_one_of_checkpoints(tmp_path):
    made, tables = estimator(tmp_path), [Tables(), Tables()]
    listener = Evaluations(made)
    made.train(training_input, hooks=[in_memory(made, one, 6) for one in tables], saving_listeners=[listener])
    for one in tables:
        assert len(one.rows) == 4 and one.evicted[3] > 0
        np.testing.assert_array_equal(one.rows[0], tables[0].rows[0])
        np.testing.assert_array_equal(np.concatenate(one.rows[3]), listener.found[12]["rows"])
    check_found(listener, tmp_path)


def test_in_memory_evaluation_that_changes_tables_is_refused(tmp_path):
    made = estimator(tmp_path, edits=True)
    with pytest.raises(ValueError, match="InMemoryEvaluatorHook evaluates with the tables of the training.*by hand"):
        made.train(training_input, hooks=[in_memory(made, Tables())])


def events(folder):
    return [event for file in os.listdir(folder) for event in tf.compat.v1.train.summary_iterator(str(folder / file))]
