"""Evaluations within a training share its Variables' memory: same numbers as from the checkpoint, whatever either of them does next."""

import logging
import threading

import numpy as np
import pytest
import tensorflow as tf

import tf_booster
from tf_booster.checkpoint import lent_variables

v1 = tf.compat.v1
MODES = tf.estimator.ModeKeys
STEPS = 8
SWAPPED = []  # The Saver of a training that has the tables under each other's names.


@pytest.fixture(autouse=True)
def booster():
    tf.enable_gpu_booster()
    yield
    tf_booster.disable_gpu_booster()


@pytest.fixture(name="borrowed")
def _borrowed(caplog):
    """The checkpoints that were not read, so far."""
    caplog.set_level(logging.INFO, "tensorflow")

    def found():
        said = [record.getMessage() for record in caplog.records]
        return [line.split()[2] for line in said if line.endswith("are read where the training has them")]

    return found


def input_fn(seed=0):
    random = np.random.RandomState(seed)
    ids, numbers = random.randint(0, 40, [STEPS, 16]), random.rand(STEPS, 16, 3)
    features = {"id": ids.astype(np.int64), "numbers": numbers.astype(np.float32)}
    return tf.data.Dataset.from_tensor_slices((features, np.sin(ids).astype(np.float32)))


def model_fn(features, labels, mode, params):
    """Embeddings whole and in parts, batch norm, and averages of Variables if asked for."""
    tables = [v1.get_variable("whole", [40, 4])]
    # variables_to_restore() knows no parts.
    parts = None if params.get("average") else v1.fixed_size_partitioner(3)
    tables.append(v1.get_variable("parts", [40, 4], partitioner=parts))
    if params.get("twin"):
        tables.append(v1.get_variable("twin", [40, 4]))
    rows = [v1.nn.embedding_lookup(table, features["id"], partition_strategy="div") for table in tables]
    begin = v1.random_normal_initializer(seed=3)
    hidden = v1.layers.dense(tf.concat([*rows, features["numbers"]], 1), 5, name="hidden", kernel_initializer=begin)
    hidden = v1.layers.batch_normalization(hidden, training=mode == MODES.TRAIN, momentum=0.5)
    logit = v1.layers.dense(hidden, 1, name="out", kernel_initializer=begin)[:, 0]
    if mode == MODES.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"logit": logit})
    loss = tf.reduce_mean(tf.square(logit - labels))
    metrics, scaffold, train_op = {"mean": v1.metrics.mean(logit)}, None, None
    if params.get("new") and mode == MODES.EVAL:
        v1.get_variable("new", [2])
    if params.get("assigns") and mode == MODES.EVAL:
        out = next(v for v in v1.trainable_variables() if v.op.name == "out/kernel")
        with tf.control_dependencies([logit]):  # In each step what is read is read before.
            assigned = [v1.assign_add(out, tf.ones_like(out)), v1.scatter_update(tables[0], [1, 2], tf.ones([2, 4]))]
        with tf.control_dependencies(assigned):
            metrics["again"] = (metrics["mean"][0], tf.identity(metrics["mean"][1]))
    average = v1.train.ExponentialMovingAverage(0.5) if params.get("average") else None
    if mode == MODES.TRAIN or params.get("careless"):
        with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
            train_op = v1.train.AdagradOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        if average is not None:
            with tf.control_dependencies([train_op]):
                train_op = average.apply(tables[:1])
        if params.get("twin"):
            swapped = {v.op.name: v for v in v1.global_variables() if "parts" not in v.op.name}
            swapped.update(whole=tables[2], twin=tables[0], parts=tables[1])
            SWAPPED[:] = [v1.train.Saver(swapped)]
    elif average is not None:
        scaffold = v1.train.Scaffold(saver=v1.train.Saver(average.variables_to_restore(tables[:1])))
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops=metrics if mode == MODES.EVAL else None, scaffold=scaffold
    )


class Evaluations(v1.train.CheckpointSaverListener):
    """Evaluates each checkpoint that was just saved, and reads its Variables as the evaluation has them."""

    def __init__(self, made, before=lambda session: None, hooks=()):
        self.found = {}
        self._made, self._before, self._hooks = made, before, hooks

    def evaluate(self, checkpoint=None):
        return self._made.evaluate(lambda: input_fn(1), hooks=self._hooks, checkpoint_path=checkpoint)

    def after_save(self, session, global_step_value):
        self._before(session)
        self.found[global_step_value] = self.evaluate()


def estimator(folder, **params):
    config = tf.estimator.RunConfig(save_checkpoints_steps=4, tf_random_seed=6, keep_checkpoint_max=100)
    return tf.estimator.Estimator(model_fn, str(folder), config, params)


def check(listener, folder, steps=(0, 4, 8)):
    assert tuple(listener.found) == steps
    for step, found in listener.found.items():
        assert found == listener.evaluate(f"{folder}/model.ckpt-{step}")


def tensors(folder, step=STEPS):
    reader = tf.train.load_checkpoint(f"{folder}/model.ckpt-{step}")
    return {name: reader.get_tensor(name).tobytes() for name in reader.get_variable_to_shape_map()}


@pytest.mark.parametrize("params", [{}, {"average": True}, {"careless": True}])
@pytest.mark.parametrize("pipeline", ["exact", "off"])
def test_evaluations_within_and_after_a_training(tmp_path, borrowed, params, pipeline):
    tf.enable_gpu_booster(pipeline=pipeline)
    made, alone = estimator(tmp_path / "beside", **params), estimator(tmp_path / "alone", **params)
    listener = Evaluations(made)
    made.train(input_fn, saving_listeners=[listener])
    paths = [f"{tmp_path}/beside/model.ckpt-{step}" for step in (0, 4, 8)]
    assert borrowed() == paths
    check(listener, tmp_path / "beside")
    assert borrowed() == paths
    alone.train(input_fn)
    assert tensors(tmp_path / "alone") == tensors(tmp_path / "beside")


def test_an_evaluation_that_assigns_leaves_the_training_alone(tmp_path, borrowed):
    made, alone = estimator(tmp_path / "beside", assigns=True), estimator(tmp_path / "alone")
    listener = Evaluations(made)
    made.train(input_fn, saving_listeners=[listener])
    assert len(borrowed()) == 3
    check(listener, tmp_path / "beside")
    alone.train(input_fn)
    assert tensors(tmp_path / "alone") == tensors(tmp_path / "beside")


@pytest.mark.parametrize(
    "left_out", [[], ["variable_updates"], ["variable_updates", "variable_gathers", "partitioned_lookups"]]
)
def test_an_evaluation_that_trains_leaves_the_training_alone(tmp_path, borrowed, left_out):
    tf.enable_gpu_booster(disable_passes=left_out)

    class Train(v1.train.SessionRunHook):
        def begin(self):
            self._train = v1.get_default_graph().get_collection(v1.GraphKeys.TRAIN_OP)
            assert self._train

        def before_run(self, run_context):
            return v1.train.SessionRunArgs(self._train)

    made, alone = estimator(tmp_path / "beside", careless=True), estimator(tmp_path / "alone")
    listener = Evaluations(made, hooks=[Train()])
    made.train(input_fn, saving_listeners=[listener])
    assert len(borrowed()) == 3
    alone.train(input_fn)
    assert tensors(tmp_path / "alone") == tensors(tmp_path / "beside")


def test_a_training_that_goes_on_before_the_evaluation(tmp_path, borrowed):
    """What was saved is evaluated: dense and sparse updates copy what is lent."""

    def train_more(session):
        if session.run(v1.train.get_global_step(session.graph)) == 4:
            session.run(session.graph.get_collection(v1.GraphKeys.TRAIN_OP))

    made = estimator(tmp_path)
    listener = Evaluations(made, train_more)
    made.train(input_fn, saving_listeners=[listener])
    assert len(borrowed()) == 3
    check(listener, tmp_path, tuple(listener.found))
    assert len(set(found["loss"] for found in listener.found.values())) == 3


def test_another_saver_with_other_names(tmp_path, borrowed):
    """What is lent is what that Saver has saved under its names."""

    class Swapped(Evaluations):
        def after_save(self, session, global_step_value):
            path = SWAPPED[0].save(
                session, f"{tmp_path}/swapped-{global_step_value}", write_meta_graph=False, write_state=False
            )
            self.found[global_step_value] = (self.evaluate(path), self.evaluate())

    made = estimator(tmp_path, twin=True)
    listener = Swapped(made)
    made.train(input_fn, saving_listeners=[listener])
    # The checkpoint that is not the last one any more is read.
    assert borrowed() == [f"{tmp_path}/swapped-{step}" for step in (0, 4, 8)]
    for step, (swapped, own) in listener.found.items():
        assert swapped == listener.evaluate(f"{tmp_path}/swapped-{step}")
        assert own == listener.evaluate(f"{tmp_path}/model.ckpt-{step}")
        assert swapped["loss"] != own["loss"]


def test_another_thread_restores(tmp_path, borrowed):
    class InThread(Evaluations):
        def evaluate(self, checkpoint=None):
            found = []
            thread = threading.Thread(target=lambda: found.append(Evaluations.evaluate(self, checkpoint)))
            thread.start()
            thread.join()
            return found[0]

    made = estimator(tmp_path)
    listener = InThread(made)
    made.train(input_fn, saving_listeners=[listener])
    assert not borrowed()
    check(listener, tmp_path)


def test_an_older_checkpoint_is_read(tmp_path, borrowed):
    class First(Evaluations):
        def evaluate(self, checkpoint=None):
            return super().evaluate(f"{tmp_path}/model.ckpt-0")

    made = estimator(tmp_path)
    listener = First(made)
    made.train(input_fn, saving_listeners=[listener])
    assert borrowed() == [f"{tmp_path}/model.ckpt-0"]
    assert listener.found[0] == listener.found[4] == listener.found[8]


def test_a_variable_that_the_training_has_not(tmp_path, borrowed):
    made = estimator(tmp_path, new=True)
    with pytest.raises(tf.errors.NotFoundError, match="new"):
        made.train(input_fn, saving_listeners=[Evaluations(made)])
    assert not borrowed()


def test_train_and_evaluate_exports_for_plain_tensorflow(tmp_path, borrowed):
    def receiver():
        ids, numbers = v1.placeholder(tf.int64, [None], "ids"), v1.placeholder(tf.float32, [None, 3], "numbers")
        return tf.estimator.export.ServingInputReceiver(
            {"id": ids, "numbers": numbers}, {"id": ids, "numbers": numbers}
        )

    made = estimator(tmp_path)
    exporter = tf.estimator.LatestExporter("latest", receiver)
    found, (path,) = tf.estimator.train_and_evaluate(
        made,
        tf.estimator.TrainSpec(input_fn, max_steps=STEPS),
        tf.estimator.EvalSpec(lambda: input_fn(1), None, exporters=[exporter], throttle_secs=0),
    )
    assert borrowed()[-1] == f"{tmp_path}/model.ckpt-{STEPS}"
    assert found == made.evaluate(lambda: input_fn(1))
    with open(f"{path.decode()}/saved_model.pb", "rb") as file:
        assert b"TfBooster" not in file.read()


def test_the_evaluation_at_the_end_of_a_training(tmp_path, borrowed):
    """Of the checkpoint that was saved after the last step, when the throttle let none be evaluated."""
    found, _ = tf.estimator.train_and_evaluate(
        estimator(tmp_path),
        tf.estimator.TrainSpec(input_fn, max_steps=STEPS),
        tf.estimator.EvalSpec(lambda: input_fn(1), None, throttle_secs=10_000, start_delay_secs=10_000),
    )
    assert borrowed() == [f"{tmp_path}/model.ckpt-{step}" for step in (4, STEPS)]
    assert found == estimator(tmp_path).evaluate(lambda: input_fn(1))


def test_a_training_that_fails_gives_back(tmp_path, borrowed):
    class Fails(Evaluations):
        def after_save(self, session, global_step_value):
            super().after_save(session, global_step_value)
            if global_step_value == 4:
                raise ValueError("enough")

    made = estimator(tmp_path)
    with pytest.raises(ValueError, match="enough"):
        made.train(input_fn, saving_listeners=[Fails(made)])
    assert len(borrowed()) == 2
    listener = Evaluations(made)
    made.train(input_fn, max_steps=STEPS, saving_listeners=[listener])
    assert len(borrowed()) == 4
    check(listener, tmp_path, (4, 8))


def test_two_evaluations_of_one_checkpoint(tmp_path, borrowed):
    class Twice(Evaluations):
        def evaluate(self, checkpoint=None):
            one, other = super().evaluate(checkpoint), super().evaluate(checkpoint)
            assert one == other
            return one

    made = estimator(tmp_path)
    listener = Twice(made)
    made.train(input_fn, saving_listeners=[listener])
    assert len(borrowed()) == 6
    check(listener, tmp_path)


def test_a_program_with_a_saver_hook_of_its_own(tmp_path, borrowed):
    """Whose before_run and end do not call those of the class, as EasyRec's: what is lent is given back before each step all the same."""
    lent, graphs = [], []

    class Own(v1.train.CheckpointSaverHook):
        def before_run(self, run_context):
            return v1.train.SessionRunArgs(self._global_step_tensor)

        def end(self, session):
            self._save(session, int(session.run(self._global_step_tensor)))

    class Looks(v1.train.SessionRunHook):
        """In front of the other, so that it sees what a step has seen."""

        def after_run(self, run_context, run_values):
            graphs.append(run_context.session.graph)
            lent.append(graphs[-1] in lent_variables._lent)

    def own_model_fn(features, labels, mode, params):
        spec = model_fn(features, labels, mode, params)
        if mode != MODES.TRAIN:
            return spec
        scaffold = v1.train.Scaffold(saver=v1.train.Saver(max_to_keep=100))
        saves = Own(str(tmp_path), save_steps=4, listeners=[listener], scaffold=scaffold)
        return spec._replace(scaffold=scaffold, training_chief_hooks=[Looks(), saves])

    made = tf.estimator.Estimator(own_model_fn, str(tmp_path), tf.estimator.RunConfig(tf_random_seed=6), {})
    listener = Evaluations(made)
    made.train(input_fn)
    assert len(borrowed()) >= 3 and lent == [False] * STEPS
    assert graphs[0] not in lent_variables._lent
    check(listener, tmp_path)
