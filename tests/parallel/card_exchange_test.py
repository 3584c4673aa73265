"""Tables on cards exchange as those in host memory do, to the bit: the ops for a card, run by their kernels for the CPU. tests/gpu runs the others."""

import equal_training as equal
import launch
import numpy as np
import table_training
import tensorflow as tf
from simulated_card import simulated_card

import tf_booster

v1 = tf.compat.v1

# Sums of equal keys; rows one by one, in another order of owners; Adam on tables that are not fused.
CASES = [("adagrad", "norm", "hash", True), ("momentum", "value", "mod", True), ("adam", "none", "hash", False)]


def program(optimizer, clip):
    def build(features):
        loss = table_training.mean_loss(features)
        return loss, equal.minimize(equal.OPTIMIZERS[optimizer](), clip, loss)

    return build


def train_both(rank, size):
    data = table_training.records(size)
    found = {}
    for optimizer, clip, partition, fuse in CASES:
        for device in ("cpu", "gpu"):
            with simulated_card(device == "gpu"):
                tf.enable_gpu_booster(partition=partition, fuse_tables=fuse, seed=3, device=device)
                trained = table_training.train(program(optimizer, clip), equal.part(data, rank, size))
            found[optimizer, device] = trained
    return found


def test_the_same_bits_as_in_host_memory():
    for outcome in launch.values(train_both, 2):
        for optimizer, _, _, _ in CASES:
            host, card = outcome[optimizer, "cpu"], outcome[optimizer, "gpu"]
            assert {table["device"] for table in card["report"]["tables"]} == {"gpu"}
            assert card["report"]["collectives_per_step"] == host["report"]["collectives_per_step"]
            np.testing.assert_equal(card["losses"], host["losses"])
            np.testing.assert_equal(card["variables"], host["variables"])
            np.testing.assert_equal(card["tables"], host["tables"])


def placed():
    """A rewritten graph of a training step with a limited table, and where its ops were put."""
    with tf.Graph().as_default() as graph:
        ids = v1.placeholder(tf.int64, [None])
        table = tf_booster.get_hash_table("t", 8, max_rows=10)
        loss = tf.reduce_sum(tf.square(tf_booster.embedding_lookup(table, ids)))
        v1.train.AdagradOptimizer(0.1).minimize(loss)
        tf_booster.rewrite_graph(graph)
        return {
            op.type: op.device for op in graph.get_operations() if op.type.startswith(("TfBoosterTable", "Horovod"))
        }


def ask_where(rank, size):
    del rank, size
    with simulated_card():
        tf.enable_gpu_booster(device="gpu")
        return placed()


def test_rows_stay_on_the_card_and_keys_on_the_host():
    host, card = "/device:CPU:0", "/device:GPU:0"
    for devices in launch.values(ask_where, 2):
        for op in ("ServeRows", "TakeRows", "SendRows", "ReceiveHeads", "ReceiveRows", "ApplyAdagrad"):
            assert devices.pop(f"TfBoosterTable{op}") == card, op
        for op in ("Route", "Merge", "ExpandPlan", "SendPlan", "ReceivePlan"):
            assert devices.pop(f"TfBoosterTable{op}") == host, op
        for op in ("Serve", "Expand", "SendGradients", "ReceiveGradients"):
            assert f"TfBoosterTable{op}" not in devices, op


def fill(device, rank, size):
    """Trains until a table of 40 rows over all ranks is full. Returns the step, and what is said."""
    with simulated_card(device == "gpu"), tf.Graph().as_default() as graph:
        tf.enable_gpu_booster(device=device, seed=3)
        ids = v1.placeholder(tf.int64, [None])
        table = tf_booster.get_hash_table("t", 4, max_rows=40)
        loss = tf.reduce_sum(tf.square(tf_booster.embedding_lookup(table, ids)))
        train = v1.train.AdagradOptimizer(0.1).minimize(loss)
        tf_booster.rewrite_graph(graph)
        with v1.Session(config=v1.ConfigProto(allow_soft_placement=True)) as session:
            session.run(v1.global_variables_initializer())
            for step in range(10):
                try:
                    session.run(train, {ids: np.arange(6) + 6 * (size * step + rank)})
                except tf.errors.ResourceExhaustedError as error:
                    return step, error.message
    return None


def fill_both(rank, size):
    return {device: fill(device, rank, size) for device in ("cpu", "gpu")}


def test_a_limit_over_all_ranks():
    """All ranks fail at the same step, before any changes."""
    for outcome in launch.values(fill_both, 2):
        for device, op in (("cpu", "TableReceiveGradients"), ("gpu", "TableReceivePlan")):
            step, message = outcome[device]
            assert step == 3 and f"{op} 't': the table has 36 rows on 2 ranks and needs 12 more, above" in message
