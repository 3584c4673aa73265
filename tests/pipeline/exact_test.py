"""pipeline="exact" gives the numbers of pipeline="off" bit for bit, at every step and in every checkpoint."""

import numpy as np
import pytest
import tensorflow as tf
from pipelined import (
    OPTIMIZERS,
    Recorder,
    assert_same,
    assert_same_entries,
    batch,
    booster,
    dataset,
    entries,
    model_fn,
    pipeline_pass,
    train,
    v1,
)

from tf_booster.report import report_of

STEPS = 12


@pytest.fixture(scope="module")
def off(tmp_path_factory):
    """What each optimizer's plain run saw, and its last checkpoint."""
    known = {}

    def get(optimizer):
        if optimizer not in known:
            folder = tmp_path_factory.mktemp("off")
            seen, report = train("off", folder, lambda: dataset(STEPS), optimizer=optimizer, save_checkpoints_steps=5)
            assert not any(p["name"] == "embedding_pipeline" for p in report.to_dict()["passes"])
            known[optimizer] = seen, entries(folder)
        return known[optimizer]

    return get


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_step_and_the_checkpoint(optimizer, off, tmp_path):
    seen, report = train("exact", tmp_path, lambda: dataset(STEPS), optimizer=optimizer, save_checkpoints_steps=5)
    said = pipeline_pass(report)
    assert said["modified"] and said["skipped"] == [] and "probe" in said["changes"][0]
    want, checkpoint = off(optimizer)
    assert len(want) == STEPS
    assert_same(seen, want)
    assert_same_entries(entries(tmp_path), checkpoint)
    evicted = [table["evicted"] for table in report.to_dict()["tables"]]
    assert sum(evicted) > 20 and any(table["pending"] for table in report.to_dict()["tables"]), (
        "the test means to do both"
    )


def test_a_checkpoint_in_the_middle_goes_on_as_an_uninterrupted_run(off, tmp_path):
    """Steps 0 to 4, then a new process's worth of session from the checkpoint on with the batches that are left."""
    first, _ = train("exact", tmp_path, lambda: dataset(STEPS), steps=5)
    second, _ = train("exact", tmp_path, lambda: dataset(STEPS).skip(5))
    want, checkpoint = off("adagrad")
    assert_same(first + second, want)
    assert_same_entries(entries(tmp_path), checkpoint)


def test_a_saved_iterator_goes_on_where_the_checkpoint_was_made(off, tmp_path):
    """Five steps, then a new session that restores model and iterator, and is given all batches again: it takes those that are left."""

    def records():
        parts = [batch(step) for step in range(STEPS)]
        return tf.data.Dataset.from_tensor_slices({name: np.stack([p[name] for p in parts]) for name in parts[0]})

    def part(steps):
        recorder = Recorder()
        config = tf.estimator.RunConfig(str(tmp_path), tf_random_seed=7, save_checkpoints_steps=5)
        with booster("exact"):
            estimator = tf.estimator.Estimator(model_fn, config=config, params={})
            hook = tf.data.experimental.CheckpointInputPipelineHook(estimator)
            estimator.train(records, hooks=[recorder, hook], max_steps=steps)
        return recorder.seen, report_of(recorder.graph)

    first, _ = part(5)
    second, report = part(STEPS)
    assert "saves its input iterator" in pipeline_pass(report)["skipped"][0]["reason"]
    assert_same(first + second, off("adagrad")[0])


def test_train_and_evaluate_in_turns(off, tmp_path):
    results = []
    recorder = Recorder()
    for folder, mode in ((tmp_path / "off", "off"), (tmp_path / "exact", "exact")):
        config = tf.estimator.RunConfig(str(folder), tf_random_seed=7, save_checkpoints_steps=4)
        with booster(mode):
            recorder = Recorder()
            metrics, _ = tf.estimator.train_and_evaluate(
                tf.estimator.Estimator(model_fn, config=config, params={}),
                tf.estimator.TrainSpec(lambda: dataset(STEPS), max_steps=10, hooks=[recorder]),
                tf.estimator.EvalSpec(lambda: dataset(3), steps=None, start_delay_secs=0, throttle_secs=0),
            )
        results.append((metrics, entries(folder)))
        assert_same(recorder.seen, off("adagrad")[0][:10])
    assert results[0][0] == results[1][0]
    assert_same_entries(results[0][1], results[1][1])


def test_summaries_are_of_their_step(tmp_path):
    def values(mode):
        folder = tmp_path / mode
        train(mode, folder, lambda: dataset(6), summaries=1)
        found = []
        for path in sorted(folder.glob("events*")):
            for event in v1.train.summary_iterator(str(path)):
                found += [(event.step, v.tag, v.simple_value) for v in event.summary.value if v.tag == "loss"]
        return found

    want = values("off")
    assert len(want) == 6
    assert values("exact") == want


def test_a_model_without_tables_splits_at_the_input(tmp_path):
    def build():
        features = v1.data.make_one_shot_iterator(dataset(STEPS)).get_next()
        words = v1.get_variable("w", [20, 4])
        rows = tf.nn.embedding_lookup(words, tf.math.floormod(features["ids"], 20))
        loss = tf.reduce_mean(tf.square(tf.reduce_sum(rows, [1, 2]) - features["label"][:, 0]))
        return loss, v1.train.AdamOptimizer(0.1).minimize(loss, v1.train.get_or_create_global_step())

    def run(mode):
        with booster(mode), tf.Graph().as_default():
            v1.set_random_seed(1)
            loss, step = build()
            losses = []
            with v1.train.MonitoredTrainingSession() as session:
                while not session.should_stop():
                    losses.append(session.run([loss, step])[0])
        return losses

    losses = run("off")
    assert len(losses) == STEPS and len(set(losses)) == STEPS
    np.testing.assert_array_equal(run("exact"), losses)
    np.testing.assert_array_equal(run("async"), losses)  # Nothing is stale where there is no table.
