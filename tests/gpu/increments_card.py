"""Increments of tables on a card, and served ones that take them. `tools/gpu_check.sh python` and `make test-card` run them; others do not collect them."""

import os
import sys

import pytest
import tensorflow as tf

import tf_booster
from tf_booster.embedding import registry

sys.path.append(os.path.join(os.path.dirname(__file__), os.pardir, "checkpoint"))
from increment_model import Job, Served, increment, same  # noqa: E402

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def booster():
    yield
    tf_booster.disable_gpu_booster()


class Kinds(tf.compat.v1.train.SessionRunHook):
    """Where the tables are."""

    def begin(self):
        self._graph = tf.compat.v1.get_default_graph()

    def end(self, session):
        self.found = {table.kind for table in registry.rewritten(self._graph).values()}


@pytest.mark.parametrize("trained,exported", [("gpu", "gpu"), ("gpu", "cpu"), ("cpu", "gpu")])
def test_a_served_model_follows_its_training(tmp_path, trained, exported):
    def train(first, last):
        tf_booster.enable_gpu_booster(device=trained, updatable_exports=True)
        kinds = Kinds()
        job.train(first, last, [kinds])
        assert kinds.found == {trained}
        tf_booster.enable_gpu_booster(device=exported, updatable_exports=True)
        return job.export()

    job = Job(tmp_path, idle=4)
    served = Served(train(0, 8), by_session=True)
    newest = Served(train(8, 22), by_session=True).predict()
    assert not same(served.predict(), newest)
    assert served.apply(job.increments) == 6
    assert same(served.predict(), newest)
    tensors = increment(job.increments, 6)
    assert len(tensors["user_emb/left_keys"]) > 0 and len(tensors["user_emb/keys"]) > 0
