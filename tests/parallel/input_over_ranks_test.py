"""Estimators whose input function knows no ranks: two ranks train, evaluate and predict what one process with joined batches does."""

from __future__ import annotations

import collections
import glob
import itertools
import os
from typing import Any, Callable, Dict, List

import launch
import numpy as np
import pytest
import tensorflow as tf

import tf_booster
from tf_booster.parallel import rank_input

v1 = tf.compat.v1
SIZE, BATCH, RECORDS = 2, 3, 23


def records(number: int = RECORDS) -> Dict[str, np.ndarray]:
    rng = np.random.RandomState(1)
    return {"i": np.arange(number), "x": rng.randn(number, 4).astype(np.float32), "y": rng.rand(number) < 0.4}


def slices(number: int = RECORDS) -> Any:
    return tf.data.Dataset.from_tensor_slices(records(number))


def split(batch: Any) -> Any:
    features = dict(batch)
    return features, tf.cast(features.pop("y"), tf.float32)


def most(values: Any) -> Any:
    """A program's own metric."""
    collections = [v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES]
    variable = v1.get_variable("most", [], initializer=v1.zeros_initializer(), trainable=False, collections=collections)
    return variable.read_value(), variable.assign(tf.maximum(variable, tf.reduce_max(values)))


class Least(tf.keras.metrics.Metric):
    """Another one, whose update is a function."""

    def __init__(self) -> None:
        super().__init__(name="least_of")
        self.least = self.add_weight("least", initializer="ones")

    def update_state(self, values: Any, sample_weight: Any = None) -> Any:
        self.least.assign(tf.minimum(self.least, tf.reduce_min(values)))

    def result(self) -> Any:
        return tf.identity(self.least)


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    x = features["x"]
    if params.get("batch_norm"):
        x = v1.layers.batch_normalization(x, training=mode == "train", momentum=0.5)
    hidden = v1.layers.dense(x, 5, tf.tanh, kernel_initializer=v1.glorot_uniform_initializer(5))
    logits = v1.layers.dense(hidden, 1, kernel_initializer=v1.glorot_uniform_initializer(6))[:, 0]
    p = tf.sigmoid(logits)
    if mode == "infer":
        return tf.estimator.EstimatorSpec(mode, predictions={"i": features["i"], "p": p})
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    step = v1.train.get_global_step()
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        train_op = v1.train.AdagradOptimizer(0.1).minimize(loss, step)
    v1.summary.histogram("p", p)
    mean = tf.keras.metrics.Mean(name="keras_mean")
    mean.update_state(p)
    least = Least()
    least.update_state(p)
    metrics = {
        "auc": v1.metrics.auc(labels, p),
        "precision": v1.metrics.precision(labels, p > 0.5),
        "rmse": v1.metrics.root_mean_squared_error(labels, p),
        "count": v1.metrics.true_negatives(labels, p > 2),
        "mean": mean,
        "most": most(p),
        "least": least,
    }
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def estimator(folder: str, save_every: int = 1000, **params: Any) -> tf.estimator.Estimator:
    session = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config = tf.estimator.RunConfig(
        tf_random_seed=3,
        session_config=session,
        save_summary_steps=2,
        log_step_count_steps=2,
        save_checkpoints_steps=save_every,
    )
    return tf.estimator.Estimator(model_fn, folder, config, params)


def weights(trained: tf.estimator.Estimator) -> Dict[str, np.ndarray]:
    return {name: trained.get_variable_value(name) for name in trained.get_variable_names()}


def write_files(folder: str, counts: Any) -> List[str]:
    data, at, made = records(), 0, []
    for file, count in enumerate(counts):
        made.append(os.path.join(folder, f"{file}.tfrecord"))
        with tf.io.TFRecordWriter(made[-1]) as writer:
            for i in range(at, at + count):
                feature = {
                    "i": tf.train.Feature(int64_list=tf.train.Int64List(value=[i])),
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=data["x"][i])),
                    "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(data["y"][i])])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
        at += count
    return made


def write_lines(folder: str, counts: Any) -> None:
    """Files of the records' values between commas, below a header."""
    data, at = records(), 0
    for file, count in enumerate(counts):
        with open(os.path.join(folder, f"{file}.csv"), "w") as lines:
            lines.write("i,x,x,x,x,y\n")
            for i in range(at, at + count):
                lines.write(",".join([str(i), *(f"{x:.9g}" for x in data["x"][i]), f"{int(data['y'][i])}\n"]))
        at += count


def decode(line: Any) -> Any:
    i, *x, y = tf.io.decode_csv(line, [np.array([0], np.int64), *[[0.0]] * 4, [0.0]])
    return {"i": i, "x": tf.stack(x, -1)}, y


def parse(serialized: Any) -> Any:
    of = tf.io.FixedLenFeature
    features = tf.io.parse_example(serialized, {"i": of([], tf.int64), "x": of([4], tf.float32), "y": of([], tf.int64)})
    return split(features)


# By name: the input function of a rank, and the joined batches of one process, as numbers of records.
def inputs(folder: str) -> Dict[str, Callable[[], Any]]:
    files, texts = (sorted(glob.glob(os.path.join(folder, kind))) for kind in ("*.tfrecord", "*.csv"))
    return {
        "records": lambda: slices().batch(BATCH).map(split).prefetch(1),
        "files": lambda: tf.data.TFRecordDataset(files).batch(BATCH).map(parse),
        "serialized": lambda: tf.data.TFRecordDataset(files)
        .batch(BATCH)
        .map(lambda s: parse(tf.strings.join([s, ""]))),
        "lines": lambda: tf.data.Dataset.from_tensor_slices(texts)
        .interleave(lambda file: tf.data.TextLineDataset(file).skip(1), cycle_length=1)
        .map(decode)
        .batch(BATCH),
        "empty rank": lambda: slices().filter(lambda r: tf.equal(r["i"] % 2, 1)).batch(BATCH).map(split).repeat(2),
        "whole batches": lambda: slices().batch(BATCH).take(5).map(split),
        "tensors": lambda: v1.data.make_one_shot_iterator(slices().batch(BATCH).map(split)).get_next(),
    }


JOINED = {
    "records": [range(i, min(i + 2 * BATCH, RECORDS)) for i in range(0, RECORDS, 2 * BATCH)],
    "files": [[0, 1, 2, 10, 11, 12], [3, 4, 5, 13], [6, 7, 8], [9]],
    "serialized": [[0, 1, 2, 10, 11, 12], [3, 4, 5, 13], [6, 7, 8], [9]],
    "lines": [[0, 1, 2, 10, 11, 12], [3, 4, 5, 13], [6, 7, 8], [9]],
    "empty rank": [range(i, min(i + 6, RECORDS), 2) for i in range(1, RECORDS, 6)] * 2,
    "whole batches": [range(6), range(6, 12), range(12, 15)],
    "tensors": [range(i, min(i + 2 * BATCH, RECORDS)) for i in range(0, RECORDS, 2 * BATCH)],
}


def joined(name: str) -> Callable[[], Any]:
    def input_fn() -> Any:
        data = records()

        def batches() -> Any:
            for of in JOINED[name]:
                yield {key: values[list(of)] for key, values in data.items()}

        types = {key: tf.as_dtype(values.dtype) for key, values in data.items()}
        shapes = {key: [None, *values.shape[1:]] for key, values in data.items()}
        return tf.data.Dataset.from_generator(batches, types, shapes).map(split)

    return input_fn


def train_and_predict(rank, size, folder):
    tf_booster.enable_gpu_booster()
    found: Dict[str, Any] = {}
    for name, input_fn in inputs(folder).items():
        trained = estimator(os.path.join(folder, name))
        trained.train(input_fn)
        found[name] = weights(trained)
        said = tf_booster.report().to_dict()
        found[name, "training"] = said["collectives_per_step"]
        ops = ("TextLineBatchDataset", "TFRecordBatchDataset", "TFRecordExampleDataset")
        found[name, "one op"] = [op for op in ops if op in str(tf_booster.report())]
        found[name, "evaluated"] = trained.evaluate(input_fn)
        found[name, "evaluation"] = tf_booster.report().to_dict()["collectives_per_step"]
        found[name, "predicted"] = [float(p["i"]) for p in trained.predict(input_fn)]
    steps = trained.evaluate(lambda: slices().repeat().batch(BATCH).map(split), steps=2)
    found["two steps"] = steps["count"]
    found["batches"] = [
        b["i"].tolist() for b in trained.predict(inputs(folder)["records"], yield_single_examples=False)
    ]
    first = trained.predict(lambda: slices().repeat().batch(BATCH).map(split))
    found["abandoned"] = [int(p["i"]) for p in (itertools.islice(first, 4) if rank == 0 else first)]
    first.close()
    normed = estimator(os.path.join(folder, "batch norm"), batch_norm=True)
    normed.train(inputs(folder)["files"])
    found["batch norm"] = weights(normed)
    found["passes"] = {}
    for name, reading in inputs(folder).items():
        with tf.Graph().as_default() as graph:
            trained._call_input_fn(reading, "train")
            rank_input.decide(graph, True)
            found["passes"][name] = graph.get_collection(("tf_booster", "rank_input"))
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("run"))
    write_files(folder, (10, 4))
    write_lines(folder, (10, 4))
    return folder, launch.values(train_and_predict, SIZE, folder=folder, seconds=300)


@pytest.mark.parametrize("name", JOINED)
def test_training_is_that_of_one_process_with_joined_batches(run, name, tmp_path):
    _, found = run
    plain = estimator(str(tmp_path))
    plain.train(joined(name))
    wanted = weights(plain)
    assert wanted["global_step"] == len(JOINED[name])
    for values in found:
        for key, value in wanted.items():
            np.testing.assert_allclose(values[name][key], value, rtol=1e-5, atol=1e-6, err_msg=key)


@pytest.mark.parametrize("name", JOINED)
def test_evaluation_is_that_of_the_whole_set(run, name):
    folder, found = run
    plain = estimator(os.path.join(folder, name))
    wanted = plain.evaluate(joined(name), name="plain")
    assert found[0][name, "evaluated"] == found[1][name, "evaluated"]
    wanted["loss"] = mean_loss(plain, name)
    for key, value in wanted.items():
        np.testing.assert_allclose(found[0][name, "evaluated"][key], value, rtol=1e-5, err_msg=key)


def mean_loss(plain: tf.estimator.Estimator, name: str) -> float:
    """The loss of all records in one batch."""
    every = sorted(itertools.chain(*JOINED[name]))
    return plain.evaluate(
        lambda: tf.data.Dataset.from_tensors({key: values[every] for key, values in records().items()}).map(split),
        name="mean",
    )["loss"]


@pytest.mark.parametrize("name", JOINED)
def test_predictions_come_once_and_in_order_on_rank_0(run, name):
    _, (first, second) = run
    one = {
        "files": range(14),
        "serialized": range(14),
        "lines": range(14),
        "empty rank": [*range(1, RECORDS, 2)] * 2,
        "whole batches": range(15),
    }.get(name, range(RECORDS))
    assert first[name, "predicted"] == list(one)
    assert second[name, "predicted"] == []


def test_whole_batches_of_predictions(run):
    _, (first, second) = run
    assert first["batches"] == [list(range(i, min(i + BATCH, RECORDS))) for i in range(0, RECORDS, BATCH)]
    assert second["batches"] == []


def test_rank_0_may_stop_predicting_in_the_middle(run):
    assert [values["abandoned"] for values in run[1]] == [[0, 1, 2, 3], []]


def test_steps_of_an_evaluation_are_those_of_each_rank(run):
    negatives = sum(not records()["y"][i] for i in range(2 * SIZE * BATCH))
    assert [values["two steps"] for values in run[1]] == [negatives] * SIZE


def test_batch_norm_survives_a_rank_that_has_run_dry(run):
    for values in run[1]:
        assert all(np.isfinite(value).all() for value in values["batch norm"].values())


def test_what_was_divided_is_said(run):
    for values in run[1]:
        (records_,), (files,), (serialized,), (lines,), (empty,), (whole,), (tensors,) = values["passes"].values()
        assert "iterator 'OneShotIterator': each rank reads one of 2 records of" in tensors
        assert "one of 2 records of" in records_ and "one of 2 files of" in files
        assert "one of 2 files of" in serialized and "one of 2 files of" in lines
        assert "one of 2 records of" in empty and "one of 2 batches of" in whole


def test_files_of_a_rank_are_read_by_one_op(run):
    wanted = {
        "lines": ["TextLineBatchDataset"],
        "serialized": ["TFRecordBatchDataset"],
        "files": ["TFRecordExampleDataset"],
    }
    for values in run[1]:
        assert {name: values[name, "one op"] for name in JOINED if values[name, "one op"]} == wanted


def test_rows_and_the_end_cost_training_no_collective(run):
    for values in run[1]:
        assert values["records", "training"] == {"tables": 0, "dense": 1, "sparse": 0, "other": 0}
        assert values["records", "evaluation"] == {"tables": 0, "dense": 0, "sparse": 0, "other": 1}


def test_one_rank_writes_event_files(run):
    folder, _ = run
    for written in (f"{folder}/records", f"{folder}/records/eval"):
        assert len(glob.glob(f"{written}/events.out.tfevents.*")) == 1
    tags = collections.Counter(
        value.tag
        for event in v1.train.summary_iterator(glob.glob(f"{folder}/records/events.out.tfevents.*")[0])
        for value in event.summary.value
    )
    assert tags["p"] == tags["loss"] == 2 and tags["global_step/sec"] == 1
