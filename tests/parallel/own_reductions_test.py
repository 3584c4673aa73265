"""Programs that train by their own Horovod, in whatever way: with tf_booster each rank ends with the same bits as without."""

from __future__ import annotations

import os
from typing import Any, Dict, List

import launch
import numpy as np
import pytest
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
IDS, STEPS = 10, 6
EXACT = ["small_matmuls", "batch_normalization", "pair_dots"]
# Collectives in the loss and beside it, in programs whose gradients tf_booster sums; without it a DistributedOptimizer does.
LOSSES = ("contrast", "mean of losses", "rate by hand")
KINDS = ("averaged", "grouped", "rows in a group", "hybrid", "local", "accumulated", "weighted loss", *LOSSES)
TABLES = ("averaged", "summed", "broadcast", "by hand", "dense apart", "grouped")


def input_fn(rank: int, size: int, kind: str) -> tf.data.Dataset:
    """Batches of 4 and of 3 rows, which Horovod's mean counts alike; tf_booster's is weighted by rows."""
    random = np.random.RandomState(0)
    ids, x = random.randint(0, IDS, [64]), random.randn(64, 3).astype(np.float32)
    labels = (random.rand(64, 1) < 0.5).astype(np.float32)
    return (
        tf.data.Dataset.from_tensor_slices(({"id": ids, "x": x}, labels))
        .shard(size, rank)
        .batch(4 if kind in LOSSES else 4 - rank)
    )


class Average(v1.train.SessionRunHook):
    """Ranks train apart, and average their Variables after every second step."""

    def begin(self) -> None:
        import horovod.tensorflow as hvd

        self._op = tf.group(*[v1.assign(v, hvd.allreduce(v, op=hvd.Average)) for v in v1.trainable_variables()])
        self._runs = 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._runs += 1
        if self._runs % 2 == 0:
            run_context.session.run(self._op)


class Kept(v1.train.SessionRunHook):
    """The trained Variables at the end, of this rank."""

    def end(self, session: Any) -> None:
        self.values = session.run({v.op.name: v for v in v1.trainable_variables()})


class ClippedFirst(v1.train.AdagradOptimizer):
    """Clips before Horovod reduces."""

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        return [(tf.clip_by_norm(g, 0.1), v) for g, v in super().compute_gradients(*args, **kwargs)]


def train_op(kind: str, loss: tf.Tensor, embedding: Any, dense: tf.Variable) -> Any:
    import horovod.tensorflow as hvd

    step = v1.train.get_global_step()
    adagrad = lambda: v1.train.AdagradOptimizer(0.5)  # noqa: E731
    if kind == "hybrid":
        own = adagrad().minimize(loss, var_list=[embedding])
        return tf.group(own, hvd.DistributedOptimizer(adagrad()).minimize(loss, step, var_list=[dense]))
    if kind == "dense apart":
        rows = [v for v in v1.trainable_variables() if v is not dense]
        own = adagrad().minimize(loss, var_list=[dense])
        return tf.group(own, hvd.DistributedOptimizer(adagrad()).minimize(loss, step, var_list=rows))
    if kind == "grouped":
        return hvd.DistributedOptimizer(adagrad(), groups=[[dense]]).minimize(loss, step)
    if kind == "rows in a group":
        return hvd.DistributedOptimizer(adagrad(), num_groups=1).minimize(loss, step, var_list=[embedding])
    if kind == "clipped first":
        return hvd.DistributedOptimizer(ClippedFirst(0.5)).minimize(loss, step)
    if kind == "local":
        return adagrad().minimize(loss, step)
    if kind == "accumulated":
        optimizer = hvd.DistributedOptimizer(adagrad(), backward_passes_per_step=3, sparse_as_dense=True)
        return optimizer.minimize(loss, step)
    if kind == "by hand":
        pairs = adagrad().compute_gradients(loss)
        return adagrad().apply_gradients([(hvd.allreduce(g, op=hvd.Average), v) for g, v in pairs], step)
    if kind in LOSSES:
        return library_sums(kind, loss, step)
    return hvd.DistributedOptimizer(adagrad(), op=hvd.Sum if kind == "summed" else hvd.Average).minimize(loss, step)


def library_sums(kind: str, loss: tf.Tensor, step: tf.Variable) -> Any:
    import horovod.tensorflow as hvd

    optimizer = v1.train.GradientDescentOptimizer(1.0) if kind == "rate by hand" else v1.train.AdagradOptimizer(0.5)
    if tf_booster.enable.enabled_options() is None:
        optimizer = hvd.DistributedOptimizer(optimizer, sparse_as_dense=True)
    mean = hvd.allreduce(loss, op=hvd.Average, name="mean_of_losses")
    pairs = optimizer.compute_gradients(loss)
    if kind == "rate by hand":
        rate = 0.3 * tf.minimum(tf.stop_gradient(mean), 1.0)
        return tf.group(*[v.assign_sub(rate * tf.convert_to_tensor(g)) for g, v in pairs], step.assign_add(1))
    average = v1.get_variable("average", [], initializer=v1.zeros_initializer(), trainable=False)
    with tf.control_dependencies([average.assign(0.9 * average + 0.1 * mean)]):
        return optimizer.apply_gradients(pairs, step)


def model_fn(features: Any, labels: Any, mode: str, params: Dict[str, Any]) -> Any:
    import horovod.tensorflow as hvd

    initial = v1.constant_initializer(0.3)
    if params["table"]:
        embedding = tf_booster.get_hash_table("embedding", 4, initializer=initial)
        rows = tf_booster.embedding_lookup(embedding, features["id"])
    else:
        embedding = v1.get_variable("embedding", [IDS, 4], initializer=initial)
        rows = tf.gather(embedding, features["id"])
    dense = v1.get_variable("dense", [7, 1], initializer=v1.random_uniform_initializer(-1, 1, seed=4))
    logits = tf.matmul(tf.concat([rows, features["x"]], 1), dense)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    if params["kind"] == "contrast":
        all_rows = hvd.allgather(rows)
        mine = tf.range(tf.shape(rows)[0]) + hvd.rank() * tf.shape(rows)[0]
        products = tf.matmul(rows, all_rows, transpose_b=True)
        loss += tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=mine, logits=products))
    if params["kind"] == "weighted loss":  # In the loss, not behind the gradients.
        loss *= tf.stop_gradient(hvd.allreduce(loss, op=hvd.Average))
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op(params["kind"], loss, embedding, dense))


def run(rank: int, size: int, folder: str, boosted: bool, table: bool, kinds: List[str]) -> Dict[str, Any]:
    if boosted:
        tf_booster.enable_gpu_booster(disable_passes=EXACT)
    import horovod.tensorflow as hvd

    hvd.init()
    session = v1.ConfigProto()
    session.graph_options.rewrite_options.disable_meta_optimizer = True
    found = {}
    for kind in kinds:
        kept = Kept()
        hooks = [*([Average()] if kind == "local" else []), kept]
        if kind != "by hand":
            hooks.append(hvd.BroadcastGlobalVariablesHook(0))
        # Of tables all ranks save their rows, into one folder.
        path = os.path.join(folder, kind if table else f"{kind}-{boosted}-{rank}")
        config = tf.estimator.RunConfig(path, tf_random_seed=7, session_config=session)
        estimator = tf.estimator.Estimator(model_fn, config=config, params={"kind": kind, "table": table})
        estimator.train(lambda: input_fn(rank, size, kind), steps=STEPS, hooks=hooks)  # noqa: B023
        found[kind] = kept.values
        if table:
            reader = tf.train.load_checkpoint(path)
            rows = np.full([IDS, 4], 0.3, np.float32)
            rows[reader.get_tensor("embedding/keys")] = reader.get_tensor("embedding/values")
            found[kind]["embedding"] = rows
    return found


@pytest.fixture(name="plain", scope="module")
def _plain(tmp_path_factory):
    kinds = sorted({*KINDS, *TABLES} - {"broadcast"})
    folder = str(tmp_path_factory.mktemp("plain"))
    return launch.values(run, 2, folder=folder, boosted=False, table=False, kinds=kinds, seconds=300)


def test_variables_end_with_the_same_bits(tmp_path, plain):
    found = launch.values(run, 2, folder=str(tmp_path), boosted=True, table=False, kinds=KINDS, seconds=300)
    for rank, (ours, theirs) in enumerate(zip(found, plain)):
        for kind in KINDS:
            for name, value in theirs[kind].items():
                # What tf_booster sums it may sum in another order.
                tolerance = {"rtol": 2e-5, "atol": 1e-6} if kind in LOSSES else {"rtol": 0}
                np.testing.assert_allclose(ours[kind][name], value, **tolerance, err_msg=f"{kind}, rank {rank}, {name}")
    assert np.any(plain[0]["hybrid"]["embedding"] != plain[1]["hybrid"]["embedding"])  # Each rank's own.


def refusal(rank: int, size: int, folder: str) -> str:
    with pytest.raises(tf_booster.RewriteError) as error:
        run(rank, size, folder, boosted=True, table=True, kinds=["clipped first"])
    return str(error.value)


def test_what_is_reduced_of_a_table_but_its_gradient_is_refused_with_the_remedy(tmp_path):
    for said in launch.values(refusal, 2, folder=str(tmp_path), seconds=120):
        assert "clipping, behind that optimizer's compute_gradients" in said


def test_tables_are_reduced_as_the_program_reduces_variables(tmp_path, plain):
    found = launch.values(run, 2, folder=str(tmp_path), boosted=True, table=True, kinds=TABLES, seconds=300)
    for ours, theirs in zip(found, plain):
        for kind in TABLES:
            wanted = theirs["averaged" if kind == "broadcast" else kind]
            for name in ("embedding", "dense"):
                np.testing.assert_allclose(
                    ours[kind][name], wanted[name], rtol=2e-5, atol=1e-6, err_msg=f"{kind}, {name}"
                )
    assert np.any(plain[0]["dense apart"]["dense"] != plain[1]["dense apart"]["dense"])  # Each rank's own.
    assert np.abs(plain[0]["summed"]["embedding"] - plain[0]["averaged"]["embedding"]).max() > 0.01
