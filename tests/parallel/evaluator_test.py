"""train_and_evaluate with an evaluator of its own: a process without a launcher that follows the checkpoints that two ranks write."""

import concurrent.futures
import glob
import json

import launch
import tensorflow as tf
from resume_over_ranks_test import STEPS, batches, model_fn

import tf_booster

v1 = tf.compat.v1


def model_with_metrics(features, labels, mode):
    spec = model_fn(features, labels, mode)
    return spec._replace(eval_metric_ops={"label": v1.metrics.mean(labels)})


def train_and_evaluate(rank, size, model_dir):
    """What ranks and evaluator run alike; TF_CONFIG says who does what. Returns loss and step of an evaluation of the last checkpoint."""
    tf_booster.enable_gpu_booster(shard_input=False)
    config = tf.estimator.RunConfig(tf_random_seed=6, save_checkpoints_steps=4, keep_checkpoint_max=None)
    estimator = tf.estimator.Estimator(model_with_metrics, model_dir, config)
    train = tf.estimator.TrainSpec(lambda: batches(rank, size, 0), max_steps=STEPS)
    evaluate = tf.estimator.EvalSpec(lambda: batches(0, 1, 0), steps=None, start_delay_secs=0, throttle_secs=0)
    result = tf.estimator.train_and_evaluate(estimator, train, evaluate)
    return config.task_type, None if result is None else result[0]


def start(size, kind, **options):
    place = {"cluster": {"chief": ["localhost:0"]}, "task": {"type": kind, "index": 0}}
    return launch.values(train_and_evaluate, size, env={"TF_CONFIG": json.dumps(place)}, **options)


def test_an_evaluator_follows_the_checkpoints_of_two_ranks(tmp_path):
    folder = str(tmp_path)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        evaluator = pool.submit(start, 1, "evaluator", launched=False, model_dir=folder)
        trained = start(2, "chief", model_dir=folder)
        ((kind, last),) = evaluator.result()
    assert [kind for kind, _ in trained] == ["chief"] * 2 and kind == "evaluator"
    # A shard of each rank at least; the ranks themselves have evaluated nothing.
    assert (
        len(glob.glob(f"{folder}/model.ckpt-{STEPS}.data-*")) >= 2 and [result for _, result in trained] == [None] * 2
    )
    (events,) = glob.glob(f"{folder}/eval/events*")
    told = {}
    for event in v1.train.summary_iterator(events):
        told.setdefault(event.step, {}).update({v.tag: v.simple_value for v in event.summary.value})
    assert STEPS in told and set(told) <= {0, 4, STEPS}
    tf_booster.enable_gpu_booster()
    estimator = tf.estimator.Estimator(model_with_metrics, folder)
    whole = estimator.evaluate(lambda: batches(0, 1, 0), name="whole")
    tf_booster.disable_gpu_booster()
    for name in ("loss", "label"):
        assert abs(told[STEPS][name] - whole[name]) < 1e-6
    assert whole["global_step"] == STEPS
