"""Two ranks with their tables on a card each, or both on the one that there is."""

import os
import sys

import numpy as np
import pytest
import tensorflow as tf

from tf_booster.parallel import ranks

sys.path.append(os.path.join(os.path.dirname(__file__), os.pardir, "parallel"))
import equal_training as equal  # noqa: E402
import launch  # noqa: E402
import table_training  # noqa: E402

pytestmark = pytest.mark.gpu

STEPS = 2


def train(rank, size):
    data = table_training.records(size, STEPS, batch=8)

    def build(features):
        loss = table_training.mean_loss(features)
        return loss, equal.minimize(equal.OPTIMIZERS["adagrad"](), "norm", loss)

    found = {}
    for device in ("gpu", "cpu"):
        tf.enable_gpu_booster(seed=3, device=device)
        found[device] = table_training.train(build, equal.part(data, rank, size))
    return found


def test_the_same_as_with_tables_in_host_memory():
    cards = len(tf.config.get_visible_devices("GPU"))
    if cards < 2 and ranks.horovod().nccl_built():
        pytest.skip("Horovod was built with NCCL, which wants a card for each rank, and there is one")
    env = {"CUDA_VISIBLE_DEVICES": "0,1" if cards > 1 else "0", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    for outcome in launch.values(train, 2, seconds=400, env=env):
        card, host = outcome["gpu"], outcome["cpu"]
        assert {table["device"] for table in card["report"]["tables"]} == {"gpu"}
        assert card["report"]["collectives_per_step"] == {"tables": 3, "dense": 1, "sparse": 0, "other": 1}
        np.testing.assert_allclose(card["losses"], host["losses"], rtol=1e-6)
        for name, table in card["tables"].items():
            order, wanted = np.argsort(table["keys"]), np.argsort(host["tables"][name]["keys"])
            np.testing.assert_array_equal(table["keys"][order], host["tables"][name]["keys"][wanted])
            for what, rows in table["rows"].items():
                there = host["tables"][name]["rows"][what][wanted]
                np.testing.assert_allclose(rows[order], there, rtol=1e-5, atol=1e-6, err_msg=f"{name} {what}")
