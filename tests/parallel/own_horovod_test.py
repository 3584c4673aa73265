"""Estimators of programs that use Horovod themselves: each rank reads what the program gives it, as without tf_booster."""

from __future__ import annotations

import functools
import os
from typing import Any, Dict, List

import launch
import numpy as np
import pytest
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
RECORDS, BATCH, RATE = 16, 2, 0.001
X = np.arange(RECORDS, dtype=np.float32)


def every_other(rank: int, size: int) -> Any:
    return tf.data.Dataset.from_generator(lambda: iter(X[rank::size]), tf.float32, []).batch(BATCH)


# How programs divide their input, other than by Dataset.shard.
DIVISIONS = {
    "skip and take": lambda rank, size: tf.data.Dataset.from_tensor_slices(X).skip(rank * 8).take(8).batch(BATCH),
    "a generator": every_other,
    "slices of batches": lambda rank, size: tf.data.Dataset.from_tensor_slices(X)
    .batch(2 * BATCH)
    .map(lambda x: x[rank * BATCH : (rank + 1) * BATCH]),
    "other tensors": lambda rank, size: tf.data.Dataset.from_tensor_slices(X[rank::size]).batch(BATCH),
    "its own order": lambda rank, size: tf.data.Dataset.from_tensor_slices([str(x) for x in X[:: 1 - 2 * rank]])
    .map(lambda x: tf.strings.to_number(x))
    .batch(BATCH),
    "not at all": lambda rank, size: tf.data.Dataset.from_tensor_slices(X).batch(BATCH),
}


class Seen(v1.train.SessionRunHook):
    def __init__(self, tensor: Any) -> None:
        self.tensor, self.seen = tensor, []

    def before_run(self, run_context: Any) -> Any:
        return v1.train.SessionRunArgs(self.tensor)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.seen += run_values.results.tolist()


def run(rank: int, size: int, folder: str, how: str, read: str = "dataset", own: bool = True) -> Dict[str, Any]:
    import horovod.tensorflow as hvd

    tf_booster.enable_gpu_booster()
    hvd.init()
    seen: List[float] = []

    def input_fn() -> Any:
        dataset = DIVISIONS[how](rank, size).map(lambda x: ({"x": x}, x))
        if read == "dataset":
            return dataset
        make = v1.data.make_one_shot_iterator if read == "one shot" else v1.data.make_initializable_iterator
        iterator = make(dataset)
        if read != "one shot":
            v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        return iterator.get_next()

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(tf.square(w * features["x"] - labels))
        optimizer = v1.train.GradientDescentOptimizer(RATE)
        if own:
            optimizer = hvd.DistributedOptimizer(optimizer)
        hook = Seen(features["x"])
        hook.seen = seen
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        metrics = {"mean": v1.metrics.mean(features["x"])}
        return tf.estimator.EstimatorSpec(mode, None, loss, train_op, metrics, training_hooks=[hook])

    estimator = tf.estimator.Estimator(model_fn, folder)
    estimator.train(input_fn, hooks=[hvd.BroadcastGlobalVariablesHook(0)] if own else [])
    trained = {"seen": seen, "w": float(estimator.get_variable_value("w"))}
    if how != "its own order":
        trained["evaluated"] = estimator.evaluate(input_fn)["mean"]
    return trained


def descended(batches: Any) -> float:
    w = np.float32(0)
    for of_ranks in batches:
        w -= np.float32(RATE) * np.mean([np.mean(2 * (w * x - x) * x) for x in of_ranks])
    return w


# A one-shot iterator captures no generator.
CASES = [(how, read) for how in DIVISIONS for read in ("dataset", "one shot", "initializable")]
CASES.remove(("a generator", "one shot"))


@pytest.mark.parametrize("how, read", CASES)
def test_each_rank_reads_what_the_program_gives_it(how: str, read: str, tmp_path: Any) -> None:
    both = launch.values(run, 2, folder=str(tmp_path), how=how, read=read)
    with tf.Graph().as_default(), v1.Session() as session:
        want = []
        for rank in range(2):
            iterator = v1.data.make_initializable_iterator(DIVISIONS[how](rank, 2))
            batch, batches = iterator.get_next(), []
            session.run(iterator.initializer)
            while True:
                try:
                    batches.append(session.run(batch))
                except tf.errors.OutOfRangeError:
                    break
            want.append(batches)
    for rank in range(2):
        assert both[rank]["seen"] == np.concatenate(want[rank]).tolist()
        np.testing.assert_allclose(both[rank]["w"], descended(zip(*want)), rtol=1e-5)
        if "evaluated" in both[rank]:
            np.testing.assert_allclose(both[rank]["evaluated"], np.concatenate(want[rank]).mean(), rtol=1e-6)


def test_without_horovod_of_its_own_other_tensors_are_refused(tmp_path: Any) -> None:
    for outcome in launch.outcomes(run, 2, folder=str(tmp_path), how="other tensors", own=False):
        assert "the dataset of rank 1 begins with other files or tensors than rank 0's" in outcome.error


def test_without_horovod_of_its_own_input_is_divided(tmp_path: Any) -> None:
    both = launch.values(run, 2, folder=str(tmp_path), how="not at all", own=False)
    assert sorted(both[0]["seen"] + both[1]["seen"]) == X.tolist()


PARTS = (X[:10], X[10:])


def join(rank: int, size: int, folder: str, how: str) -> Dict[str, Any]:
    """Ranks have 5 and 3 batches, and hvd.join() where one's have ended.

    how: "own set": rank 1 alone makes a collective, of a process set; "measures": tf_booster sums the gradients, the program a measure.
    """
    import horovod.tensorflow as hvd

    own_sets = [hvd.ProcessSet([0]), hvd.ProcessSet([1])] if how == "own set" else None
    hvd.init(process_sets=own_sets)
    tf_booster.enable_gpu_booster()

    class Join(v1.train.SessionRunHook):
        def begin(self) -> None:
            self.join = hvd.join()

        def end(self, session: Any) -> None:
            session.run(self.join)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(tf.square(w * features - labels))
        optimizer, others, hooks = v1.train.GradientDescentOptimizer(RATE), [], []
        if how == "measures":
            others = [hvd.allreduce(loss)]
        else:
            optimizer, hooks = hvd.DistributedOptimizer(optimizer), [Join()]
        if own_sets and own_sets[1].included():
            others = [hvd.allreduce(loss, process_set=own_sets[1], op=hvd.Sum)]
        with tf.control_dependencies(others):
            train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, None, loss, train_op, training_hooks=hooks)

    estimator = tf.estimator.Estimator(model_fn, folder if how == "measures" else folder + str(rank))
    read = functools.partial(tf.data.Dataset.from_generator, lambda: iter(PARTS[rank]), tf.float32, [])
    estimator.train(lambda: read().map(lambda x: (x, x)).batch(BATCH))
    return {"step": estimator.get_variable_value("global_step"), "w": estimator.get_variable_value("w")}


@pytest.mark.parametrize("how", ["joins", "own set", "measures"])
def test_a_rank_whose_input_ends_first(how: str, tmp_path: Any) -> None:
    """The one that has ended counts as zeros for Horovod, and not at all for tf_booster."""
    w, after = 0.0, []
    for i in range(0, 10, BATCH):
        gradients = [np.mean(2 * x * (w * x - x)) for x in (part[i : i + BATCH] for part in PARTS) if x.size]
        w -= RATE * sum(gradients) / (len(gradients) if how == "measures" else 2)
        after.append(w)
    ends = (4, 4) if how == "measures" else (4, 2)
    found = launch.values(join, 2, folder=str(tmp_path / "of"), how=how)
    for rank, end in zip(found, ends):
        assert rank["step"] == end + 1
        np.testing.assert_allclose(rank["w"], after[end], rtol=1e-6)


ROWS = 3  # Of the table; a batch is of as many records, so that those at the ends have fewer.


def with_a_table(rank: int, size: int, folder: str) -> Dict[str, Any]:
    """w * x + table[x % ROWS], averaged by the program's Horovod; ranks have 4 batches, the last of one record, and 2."""
    import horovod.tensorflow as hvd

    tf_booster.enable_gpu_booster()
    hvd.init()

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        table = tf_booster.get_hash_table("table", 1, initializer=v1.zeros_initializer())
        rows = tf_booster.embedding_lookup(table, tf.cast(features, tf.int64) % ROWS)[:, 0]
        loss = tf.reduce_mean(tf.square(w * features + rows - labels))
        optimizer = hvd.DistributedOptimizer(v1.train.MomentumOptimizer(RATE, 0.5))
        return tf.estimator.EstimatorSpec(mode, None, loss, optimizer.minimize(loss, v1.train.get_global_step()))

    estimator = tf.estimator.Estimator(model_fn, folder)
    read = functools.partial(tf.data.Dataset.from_generator, lambda: iter(PARTS[rank]), tf.float32, [])
    estimator.train(lambda: read().map(lambda x: (x, x)).batch(ROWS))
    reader = tf.train.load_checkpoint(folder)
    rows = dict(zip(reader.get_tensor("table/keys"), reader.get_tensor("table/values")[:, 0]))
    return {"w": reader.get_tensor("w"), "table": [rows[i] for i in range(ROWS)]}


def test_beside_a_table_a_rank_whose_input_has_ended_counts_as_zeros(tmp_path: Any) -> None:
    w, w_moment, table, moment = 0.0, 0.0, np.zeros(ROWS), np.zeros(ROWS)
    for i in range(0, len(PARTS[0]), ROWS):
        of_w, of_table, seen = 0.0, np.zeros(ROWS), set()
        for x in (part[i : i + ROWS] for part in PARTS if i < len(part)):
            keys = x.astype(int) % ROWS
            errors = 2 * (w * x + table[keys] - x) / len(x)
            of_w += np.sum(errors * x) / 2
            np.add.at(of_table, keys, errors / 2)
            seen |= set(keys)
        w_moment = 0.5 * w_moment + of_w
        w -= RATE * w_moment
        here = sorted(seen)
        moment[here] = 0.5 * moment[here] + of_table[here]
        table[here] -= RATE * moment[here]
    for found in launch.values(with_a_table, 2, folder=str(tmp_path)):
        np.testing.assert_allclose(found["w"], w, rtol=1e-5)
        np.testing.assert_allclose(found["table"], table, rtol=1e-5)


def refused(rank: int, size: int, horovod: Any, sparse_as_dense: bool) -> str:
    import horovod.tensorflow as hvd

    hvd.init()
    tf_booster.enable_gpu_booster(horovod=horovod)
    with tf.Graph().as_default():
        table = tf_booster.get_hash_table("table", 1)
        loss = tf.reduce_sum(tf_booster.embedding_lookup(table, tf.constant([1, 2])))
        hvd.DistributedOptimizer(v1.train.AdagradOptimizer(RATE), sparse_as_dense=sparse_as_dense).minimize(loss)
        with pytest.raises(ValueError) as error:
            tf_booster.rewrite_graph()
    return str(error.value)


@pytest.mark.parametrize(
    "horovod, sparse_as_dense, remedy",
    [("auto", True, "sparse_as_dense=True: leave it False"), (False, False, "without horovod=False")],
)
def test_refusals_of_tables_name_the_option(horovod: Any, sparse_as_dense: bool, remedy: str) -> None:
    for words in launch.values(refused, 2, horovod=horovod, sparse_as_dense=sparse_as_dense):
        assert "Table 'table'" in words and remedy in words


def saves_otherwise(rank: int, size: int, folder: str, how: str) -> List[str]:
    """behind: rank 0 has a saver of the program's, behind its broadcast; rank 1 Estimator's own, before it. names, folders: each rank has its own.
    more: rank 0 saves more often, and something else besides. v1: in that format. The checkpoints that are there when a rank has trained."""
    import horovod.tensorflow as hvd

    tf_booster.enable_gpu_booster()
    hvd.init()
    own = os.path.join(folder, str(rank)) if how == "folders" else folder
    savers = {
        "folders": [{"save_steps": 2}],
        "behind": [{"save_steps": 2}] if rank == 0 else [],
        "names": [{"save_steps": 2, "checkpoint_basename": f"rank-{rank}"}],
        "v1": [{"save_steps": 2}],
        "more": [{"save_steps": 1, "checkpoint_basename": "best"}, {"save_steps": 1}]
        if rank == 0
        else [{"save_steps": 2}],
    }

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(tf.square(w * features - labels))
        optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(RATE))
        train = optimizer.minimize(loss, v1.train.get_global_step())
        saver = v1.train.Saver(write_version=v1.train.SaverDef.V1) if how == "v1" else None
        hooks = [v1.train.CheckpointSaverHook(own, saver=saver, **options) for options in savers[how]]
        hooks = [hvd.BroadcastGlobalVariablesHook(0), *hooks]
        return tf.estimator.EstimatorSpec(mode, None, loss, train, training_hooks=hooks)

    estimator = tf.estimator.Estimator(model_fn, folder)
    estimator.train(lambda: tf.data.Dataset.from_tensors((X, X)).repeat(), max_steps=3)
    return [name.replace(".index", "") for name in os.listdir(own)]


@pytest.mark.parametrize(
    "how, last",
    [
        ("behind", ["model.ckpt"]),
        ("folders", ["model.ckpt"]),
        ("names", ["rank-0", "rank-1"]),
        ("more", ["model.ckpt"]),
        ("v1", ["model.ckpt"]),
    ],
)
def test_ranks_that_save_otherwise_do_not_wait_for_each_other(how: str, last: List[str], tmp_path: Any) -> None:
    for rank, outcome in enumerate(launch.outcomes(saves_otherwise, 2, folder=str(tmp_path), how=how)):
        assert outcome.status == 0 and "hangs" not in outcome.output, outcome.output
        found = last[rank : rank + 1] if how == "names" else last
        assert {f"{name}-3" for name in found} <= set(outcome.value)
        assert how != "behind" or ("saves by itself what rank 0 does not" in outcome.output) == (rank == 1)
