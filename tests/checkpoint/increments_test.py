"""Increments: a served model that takes them is the model that a newer export would be, bit for bit, or says why it cannot."""

import os
import re

import numpy as np
import pytest
import tensorflow as tf
from increment_model import NAMES, Job, Served, batches, increment, same

import tf_booster
from tf_booster.checkpoint import increments, publishing
from tf_booster.embedding import registry

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def booster():
    tf.enable_gpu_booster(updatable_exports=True)
    yield
    tf_booster.disable_gpu_booster()


@pytest.mark.parametrize("by_session", [False, True])
@pytest.mark.parametrize("fuse", [False, True])
def test_a_served_model_follows_its_training(tmp_path, fuse, by_session):
    tf.enable_gpu_booster(updatable_exports=True, fuse_tables=fuse)
    job = Job(tmp_path)
    job.train(0, 10)
    served = Served(job.export(), by_session)
    before = served.predict()
    assert served.apply(job.increments) == 3  # All of them are in the export.
    assert same(served.predict(), before)
    last = 3
    for first in (10, 21, 26):
        job.train(first, first + 11 if first < 26 else 32)
        newest = Served(job.export(), by_session).predict()
        assert not same(served.predict(), newest)
        last = served.apply(job.increments)
        assert same(served.predict(), newest)
    assert last == increments.numbers_in(job.increments)[-1] == 3 + 3 + 3 + 2
    assert served.apply(job.increments) == last


@pytest.mark.parametrize("pipeline", ["exact", "async", "off"])
def test_an_increment_has_the_rows_of_its_steps_alone(tmp_path, pipeline):
    tf.enable_gpu_booster(updatable_exports=True, pipeline=pipeline)
    job = Job(tmp_path, save_steps=4)
    job.train(0, 8)
    job.train(8, 16)
    before = set()
    for number in range(1, 5):
        saved = tf.train.load_checkpoint(f"{job.estimator.model_dir}/model.ckpt-{4 * number}")
        tensors = increment(job.increments, number)
        for name in NAMES:
            keys, steps = saved.get_tensor(f"{name}/keys"), saved.get_tensor(f"{name}/last_use_steps")
            rows = dict(zip(keys, saved.get_tensor(f"{name}/values")))
            assert set(tensors[f"{name}/keys"]) == set(keys[steps > 4 * number - 4])
            assert len(tensors[f"{name}/keys"]) < len(keys) or number == 1 or name == NAMES[2]
            for key, row in zip(tensors[f"{name}/keys"], tensors[f"{name}/values"]):
                np.testing.assert_array_equal(row, rows[key])
            steps = (tensors[f"{name}/since_step"], tensors[f"{name}/step"], tensors[f"{name}/increment"])
            assert steps == (4 * number - 4, 4 * number, number)
        left, before = before - set(saved.get_tensor("user_emb/keys")), set(saved.get_tensor("user_emb/keys"))
        assert left <= set(tensors.get("user_emb/left_keys", ())) and "user_emb/all_keys" not in tensors
        assert not [name for name in tensors if name.endswith(("all_keys", "left_keys")) and "user" not in name]
        np.testing.assert_array_equal(tensors["kernel"], saved.get_tensor("kernel"))
    assert left  # Some became idle.


def test_rows_that_left_leave_where_they_are_served(tmp_path):
    job = Job(tmp_path, idle=3)
    job.train(0, 8)
    served = Served(job.export(), by_session=True)
    tables = [t for t in served.model.graph.get_operations() if t.type == "TfBoosterHashTable"]
    with served.model.graph.as_default():
        field = [t.outputs[0].consumers() for t in tables]
        handle = next(
            op.outputs[0]
            for ops in field
            for op in ops
            if op.type == "TfBoosterTableField" and op.get_attr("field") == 0
        )
        size = tf_booster._native.ops().tf_booster_table_size(handle)  # pylint: disable=protected-access
    had = served.model.run(size)
    job.train(8, 40)
    served.apply(job.increments)
    keys = tf.train.load_checkpoint(job.estimator.latest_checkpoint()).get_tensor("user_emb/keys")
    assert served.model.run(size) == len(keys)
    assert had > 0 and increment(job.increments, 10)["user_emb/left_keys"].size > 0


def test_increments_are_applied_in_their_order(tmp_path):
    job = Job(tmp_path)
    job.train(0, 8)
    path = job.export()
    job.train(8, 20)
    newest = Served(job.export(), False).predict()
    served = Served(path, False)
    before = served.predict()
    with pytest.raises(tf.errors.FailedPreconditionError, match="increment 4 .* goes on from step 12, .* is at step 8"):
        served.apply_one(job.increments, 4)
    assert same(served.predict(), before)
    assert served.apply_one(job.increments, 3) > 0
    with pytest.raises(tf.errors.AlreadyExistsError, match="is in the tables already"):
        served.apply_one(job.increments, 3)
    with pytest.raises(
        tf.errors.FailedPreconditionError, match="increment 5 .* follows 4, but the table has increment 3"
    ):
        served.apply_one(job.increments, 5)
    for number in (4, 5):
        served.apply_one(job.increments, number)
    with pytest.raises(tf.errors.AlreadyExistsError):
        served.apply_one(job.increments, 1)
    assert same(served.predict(), newest)
    late = Served(job.export(), False)  # Variables of older increments are passed over, too.
    for number in range(1, 6):
        with pytest.raises(tf.errors.AlreadyExistsError):
            late.apply_one(job.increments, number)
    assert same(late.predict(), newest)


class Stop(v1.train.SessionRunHook):
    """Ends a training as a killed process does: no hook comes to its end."""

    def __init__(self, runs):
        self._runs = runs

    def after_run(self, run_context, run_values):
        self._runs -= 1
        if self._runs == 0:
            raise ConnectionAbortedError


def test_steps_that_were_lost_with_a_process(tmp_path):
    job = Job(tmp_path, save_steps=10)
    job.train(0, 10)
    path = job.export()
    followed = Served(path, False)
    with pytest.raises(ConnectionAbortedError):
        job.train(10, 30, [Stop(18)])  # Saved at step 20, killed behind the increment of step 26.
    assert followed.apply(job.increments) == 7
    lost = followed.predict()
    job.train(50, 56)  # Other batches: what the lost steps changed must not stay.
    assert tf.train.load_variable(job.estimator.model_dir, "global_step") == 26
    tensors = increment(job.increments, 8)
    assert tensors["global_step"] == 20 and tensors["item_emb/since_step"] == -1
    assert set(tensors["item_emb/all_keys"]) == set(tensors["item_emb/keys"])
    newest = Served(job.export(), False).predict()
    assert followed.apply(job.increments) == 10
    assert same(followed.predict(), newest) and not same(lost, newest)
    fresh = Served(path, False)
    assert fresh.apply(job.increments) == 10
    assert same(fresh.predict(), newest)


def test_training_between_without_the_hook(tmp_path):
    job = Job(tmp_path)
    job.train(0, 8)
    served = Served(job.export(), True)
    job.train(8, 13, increments=False)
    job.train(13, 15)
    assert increment(job.increments, 3)["user_emb/since_step"] == -1
    served.apply(job.increments)
    assert same(served.predict(), Served(job.export(), True).predict())


@pytest.mark.parametrize("only_tables", [False, True])
def test_as_many_steps_as_were_lost_without_the_hook(tmp_path, only_tables):
    """The tables are at the step of the newest increment, by other batches."""
    job = Job(tmp_path, save_steps=10, only_tables=only_tables)
    job.train(0, 10)
    followed = Served(job.export(), False)
    with pytest.raises(ConnectionAbortedError):
        job.train(10, 30, [Stop(16)])  # Saved at step 20, killed behind the increment of step 24.
    newest = max(increments.numbers_in(job.increments))
    followed.apply(job.increments)
    step = increment(job.increments, newest)["item_emb/step"]
    job.train(50, 50 + step - 20, increments=False)
    job.train(60, 62)
    assert increment(job.increments, newest + 1)["item_emb/since_step"] == -1
    followed.apply(job.increments)
    assert same(followed.predict(), Served(job.export(), False).predict())


class Edit(v1.train.SessionRunHook):
    """Changes tables by hand behind each step."""

    def begin(self):
        tables = registry.tables(v1.get_default_graph())
        assign = tables["item_emb"].insert_or_assign([7, 1000], np.ones([2, 5], np.float32))
        self._edit = tf.group(assign, tables["user_emb"].erase([3, 4, 5, 6, 7, 8]))

    def after_run(self, run_context, run_values):
        run_context.session.run(self._edit)


def test_tables_that_the_program_edits(tmp_path):
    job = Job(tmp_path)
    job.train(0, 8)
    served = Served(job.export(), False)
    job.train(8, 14, [Edit()])
    assert increment(job.increments, 3)["item_emb/since_step"] == -1
    served.apply(job.increments)
    assert same(served.predict(), Served(job.export(), False).predict())


def test_a_corrupt_increment_changes_nothing(tmp_path):
    job = Job(tmp_path)
    job.train(0, 8)
    served = Served(job.export(), False)
    job.train(8, 12)
    before, newest = served.predict(), Served(job.export(), False).predict()
    files = [f"{job.increments}/{name}" for name in os.listdir(job.increments) if name.startswith("increment-3.data")]
    for file in files:
        whole = open(file, "rb").read()
        for broken in (bytes(byte ^ 1 for byte in whole), whole[: len(whole) // 2]):
            with open(file, "wb") as to:
                to.write(broken)
            with pytest.raises((tf.errors.DataLossError, tf.errors.OutOfRangeError)):
                served.apply(job.increments)
            assert same(served.predict(), before)
        with open(file, "wb") as to:
            to.write(whole)
    assert served.apply(job.increments) == 3
    assert same(served.predict(), newest)


def test_an_increment_that_lacks_a_variable_changes_nothing(tmp_path):
    job = Job(tmp_path)
    job.train(0, 8)
    served = Served(job.export(), True)
    job.train(8, 12)
    before = served.predict()
    tensors = {name: value for name, value in increment(job.increments, 3).items() if name != "kernel"}
    tf.raw_ops.SaveV2(
        prefix=f"{job.increments}/increment-3",
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )
    with pytest.raises(tf.errors.NotFoundError, match="kernel"):
        served.apply(job.increments)
    assert same(served.predict(), before)


def test_a_save_that_fails_leaves_the_chain_as_it_was(tmp_path, monkeypatch):
    job = Job(tmp_path)
    job.train(0, 8)
    served = Served(job.export(), False)

    def fail(stage):
        if stage == "shard written":
            raise tf.errors.ResourceExhaustedError(None, None, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "at", fail)
        with pytest.raises(tf.errors.ResourceExhaustedError):
            job.train(8, 14)
    assert increments.numbers_in(job.increments) == [1, 2]
    job.train(8, 14)
    served.apply(job.increments)
    assert same(served.predict(), Served(job.export(), False).predict())


def test_averages_in_place_of_variables(tmp_path):
    job = Job(tmp_path, average=True)
    job.train(0, 8)
    served = Served(job.export(), False)
    job.train(8, 14)
    served.apply(job.increments)
    assert same(served.predict(), Served(job.export(), False).predict())
    tensors = increment(job.increments, 4)
    assert not (tensors["kernel/ExponentialMovingAverage"] == tensors["kernel"]).any()


def test_old_increments_go(tmp_path):
    job = Job(tmp_path, max_to_keep=2)
    job.train(0, 8)
    path = job.export()
    job.train(8, 20)
    assert increments.numbers_in(job.increments) == [4, 5]
    assert not [name for name in os.listdir(job.increments) if "-3" in name]
    with pytest.raises(tf.errors.FailedPreconditionError, match="or load a newer export"):
        Served(path, False).apply(job.increments)


def test_what_is_no_increment_and_what_takes_none(tmp_path):
    job = Job(tmp_path)
    job.train(0, 6)
    served = Served(job.export(), True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="is no increment"):
        served.model.run(
            "tf_booster_increment/rows:0", {"tf_booster_increment/path:0": job.estimator.latest_checkpoint()}
        )
    assert tf.train.latest_checkpoint(job.increments) is None
    with pytest.raises(tf.errors.InvalidArgumentError, match="is an increment, with the rows alone"):
        list(job.estimator.predict(lambda: batches(0, 1), checkpoint_path=f"{job.increments}/increment-2"))
    tf.enable_gpu_booster(updatable_exports=False)
    plain = tf.saved_model.load(job.export())
    assert list(plain.signatures) == ["serving_default"]
    for model in (plain, v1.Session(graph=tf.Graph())):
        with pytest.raises(ValueError, match="no signature 'apply_increment'; export it with hash tables"):
            tf_booster.apply_increments(model, job.increments)
    assert served.apply(str(tmp_path / "nowhere")) == 0


def test_arguments_and_a_training_that_is_not_rewritten(tmp_path):
    for steps, seconds in ((None, None), (1, 2.0)):
        with pytest.raises(ValueError, match="give one of the two"):
            tf_booster.IncrementHook(str(tmp_path), save_steps=steps, save_secs=seconds)
    for name, value, error in (
        ("save_steps", 0, ValueError),
        ("save_steps", "2", TypeError),
        ("save_steps", 2.5, TypeError),
        ("save_steps", True, TypeError),
        ("save_secs", -1.0, ValueError),
        ("save_secs", float("nan"), ValueError),
        ("max_to_keep", -1, ValueError),
        ("max_to_keep", None, TypeError),
        ("directory", 5, TypeError),
        ("directory", "", ValueError),
    ):
        arguments = {"directory": str(tmp_path), **({} if name == "save_secs" else {"save_steps": 2}), name: value}
        with pytest.raises(
            error, match=f"IncrementHook: {name} is {re.escape(repr(value)) if value != '' else 'empty'}, wanted"
        ):
            tf_booster.IncrementHook(**arguments)
    with pytest.raises(TypeError, match="apply_increments: directory is None, wanted a path"):
        tf_booster.apply_increments(None, None)
    tf_booster.disable_gpu_booster()
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        train_op = v1.assign_add(step, 1)
        with pytest.raises(RuntimeError, match="call tf.enable_gpu_booster"):
            with v1.train.MonitoredTrainingSession(
                hooks=[tf_booster.IncrementHook(str(tmp_path), save_steps=1)]
            ) as session:
                session.run(train_op)


def test_a_model_without_tables(tmp_path):
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        weight = v1.get_variable("weight", initializer=[1.0, 2.0])
        train_op = tf.group(v1.assign_add(step, 1), v1.assign_add(weight, [1.0, 1.0]))
        hook = tf_booster.IncrementHook(str(tmp_path / "new" / "folder"), save_secs=0.0)
        for steps in (1, 3):  # The second session's Variables are new.
            with v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
                for _ in range(steps):
                    session.run(train_op)
    numbers = increments.numbers_in(str(tmp_path / "new" / "folder"))
    assert numbers == list(range(1, len(numbers) + 1)) and numbers
    np.testing.assert_array_equal(increment(str(tmp_path / "new" / "folder"), numbers[-1])["weight"], [4, 5])
