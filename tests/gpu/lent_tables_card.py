"""Evaluations within a training whose tables are on a card. `tools/gpu_check.sh python` and `make test-card` run them; others do not collect them."""

import os
import sys

import pytest
import tensorflow as tf

import tf_booster

sys.path.append(os.path.join(os.path.dirname(__file__), os.pardir, "estimator"))
import lent_variables_test as variables  # noqa: E402
from lent_tables_test import (  # noqa: E402
    Evaluations,
    Tables,
    check_found,
    estimator,
    in_memory,
    receiver,
    same,
    tensors,
    training_input,
)

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def booster():
    tf_booster.enable_gpu_booster(device="gpu")
    yield
    tf_booster.disable_gpu_booster()


def test_tables_are_read_where_the_training_has_them(tmp_path):
    made = estimator(tmp_path)
    listener, memory = Evaluations(made), Tables()
    made.train(training_input, hooks=[in_memory(made, memory)], saving_listeners=[listener])
    assert listener.tables.evicted[1] < listener.tables.evicted[3] == memory.evicted[3]
    check_found(listener, tmp_path)


def test_a_training_on_a_card_and_an_evaluation_in_host_memory(tmp_path):
    def evaluate():
        tf_booster.enable_gpu_booster(device="cpu")
        found = listener.evaluate()
        tf_booster.enable_gpu_booster(device="gpu")
        return found

    made = estimator(tmp_path)
    listener = Evaluations(made, evaluate)
    made.train(training_input, saving_listeners=[listener])
    assert set(listener.tables.evicted) == {0}
    tf_booster.enable_gpu_booster(device="cpu")
    check_found(listener, tmp_path)


def test_variables(tmp_path, caplog):
    caplog.set_level("INFO", "tensorflow")
    made = variables.estimator(tmp_path)
    listener = variables.Evaluations(made)
    made.train(variables.input_fn, saving_listeners=[listener])
    assert sum("are read where the training has them" in record.getMessage() for record in caplog.records) == 3
    variables.check(listener, tmp_path)


def test_exports(tmp_path):
    made = estimator(tmp_path / "model")
    within = Evaluations(made, lambda: made.export_saved_model(str(tmp_path / "within"), receiver).decode())
    made.train(training_input, saving_listeners=[within])
    after = made.export_saved_model(str(tmp_path / "after"), receiver).decode()
    same(*(tensors(f"{path}/variables/variables") for path in (within.found[12], after)))
    assert tf.saved_model.contains_saved_model(after)


def test_an_evaluation_that_trains_leaves_the_training_alone(tmp_path):
    class Train(tf.compat.v1.train.SessionRunHook):
        def before_run(self, run_context):
            train_ops = run_context.session.graph.get_collection(tf.compat.v1.GraphKeys.TRAIN_OP)
            return tf.compat.v1.train.SessionRunArgs(train_ops)

    made, alone = variables.estimator(tmp_path / "beside", careless=True), variables.estimator(tmp_path / "alone")
    made.train(variables.input_fn, saving_listeners=[variables.Evaluations(made, hooks=[Train()])])
    alone.train(variables.input_fn)
    assert variables.tensors(tmp_path / "alone") == variables.tensors(tmp_path / "beside")
