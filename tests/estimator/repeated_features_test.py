"""Estimators that predict with repeated_features: the numbers of TensorFlow, whoever repeats, and what the report says."""

import numpy as np
import pytest
import tensorflow as tf
from ranking_models import MODELS, USER_FEATURES, batch, train, two_towers

import tf_booster

v1 = tf.compat.v1

BATCHES = {
    "one user": [3] * 20,
    "a few in turn": [1, 2, 1, 3, 2, 1, 4, 4, 9, 1, 2],
    "nobody twice": list(range(17)),
    "one row": [5],
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Estimators by the name of the model, trained once for all tests."""
    made = {}

    def get(model):
        if model not in made:
            tf.enable_gpu_booster()  # Hash tables need it.
            try:
                made[model] = train(MODELS[model], str(tmp_path_factory.mktemp("model")))
            finally:
                tf_booster.disable_gpu_booster()
        return made[model]

    return get


def predict(estimator, users, by_slices=True, **options):
    """Predictions by name. by_slices: the size of the batch is not known when the graph is built."""
    features = batch(users)

    def input_fn():
        dataset = tf.data.Dataset
        return dataset.from_tensor_slices(features).batch(1000) if by_slices else dataset.from_tensors(features)

    if options.pop("booster", True):
        tf.enable_gpu_booster(**options)
    try:
        rows = list(estimator.predict(input_fn))
        report = tf_booster.report() if tf_booster.enable.enabled_options() else None
    finally:
        tf_booster.disable_gpu_booster()
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}, report


def result_of(report):
    return next(p for p in report.passes if p.name == "repeated_features")


def check_close(mine, theirs):
    """Products of other numbers of rows may sum in another order: 2^-24 for each of some 50 terms, seen through two layers."""
    assert mine.keys() == theirs.keys()
    for name, values in theirs.items():
        if values.dtype.kind == "f":
            np.testing.assert_allclose(mine[name], values, rtol=2e-5, atol=2e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(mine[name], values, err_msg=name)


@pytest.mark.parametrize("users, by_slices", zip(BATCHES, (True, False, True, False)))
@pytest.mark.parametrize("model", MODELS)
def test_predictions_are_those_of_tensorflow(trained, model, users, by_slices):
    estimator = trained(model)
    plain, _ = predict(estimator, BATCHES[users], by_slices, booster="tables" in model)
    ours, report = predict(estimator, BATCHES[users], by_slices, repeated_features=USER_FEATURES)
    check_close(ours, plain)
    result = result_of(report)
    assert result.modified, str(report)
    assert not [reason for _, reason in result.skipped if "failed" in reason], result.skipped


def test_nothing_that_is_named_is_there(trained):
    estimator = trained("dnn")
    plain, _ = predict(estimator, BATCHES["one user"], booster=False)
    ours, report = predict(estimator, BATCHES["one user"], repeated_features=["userid", "price"])
    check_close(ours, plain)
    assert any(
        name == "userid" and "no feature of this name; it has 'age'" in reason
        for name, reason in result_of(report).skipped
    )
    ours, report = predict(estimator, BATCHES["one user"], repeated_features=["userid"])
    check_close(ours, plain)
    assert not result_of(report).modified


def test_what_gains_nothing_is_said_behind_a_training(tmp_path, caplog):
    """The report stays the training's, where something was done; a name that is misspelt has to be heard of all the same."""
    users = np.arange(24) // 4

    def input_fn():
        return tf.data.Dataset.from_tensors((batch(users), (users % 2)[:, None]))

    tf.enable_gpu_booster(repeated_features=["usr_id"])
    try:
        estimator = tf.estimator.Estimator(two_towers, str(tmp_path), params={"hash_tables": True})
        estimator.train(input_fn, steps=1)
        assert "computes nothing for fewer rows" not in caplog.text
        list(estimator.predict(input_fn))
    finally:
        tf_booster.disable_gpu_booster()
    assert "computes nothing for fewer rows: usr_id: the graph has no feature of this name" in caplog.text


def test_training_and_evaluation_are_left_alone(tmp_path):
    users = np.arange(24) // 4

    def input_fn():
        return tf.data.Dataset.from_tensors((batch(users), (users % 2)[:, None]))

    tf.enable_gpu_booster(repeated_features=USER_FEATURES)
    try:
        estimator = tf.estimator.Estimator(two_towers, str(tmp_path), params={"hash_tables": True})
        for run in (estimator.train, estimator.evaluate):
            run(input_fn, steps=1)
            result = result_of(tf_booster.report())
            assert not result.modified and not result.skipped
    finally:
        tf_booster.disable_gpu_booster()


@pytest.mark.parametrize("model", ["two towers", "two towers over hash tables"])
def test_an_export_serves_any_batch(trained, model, tmp_path):
    estimator = trained(model)

    def receiver():
        features = {}
        for name, value in batch([0, 0]).items():
            if isinstance(value, v1.SparseTensorValue):
                dtype = tf.string if value.values.dtype == object else tf.as_dtype(value.values.dtype)
                features[name] = v1.sparse_placeholder(dtype, [None, 4], name=name)
            else:
                dtype = tf.string if value.dtype == object else tf.as_dtype(value.dtype)
                features[name] = v1.placeholder(dtype, [None, *value.shape[1:]], name=name)
        return tf.estimator.export.ServingInputReceiver(features, features)

    tf.enable_gpu_booster(repeated_features=USER_FEATURES)
    try:
        exported = estimator.export_saved_model(str(tmp_path), receiver)
        assert result_of(tf_booster.report()).modified
    finally:
        tf_booster.disable_gpu_booster()
    with v1.Session(graph=tf.Graph()) as session:
        outputs = v1.saved_model.load(session, ["serve"], exported).signature_def["serving_default"].outputs
        for users in [*BATCHES.values(), []]:
            feeds = {}
            for name, value in batch(users).items():
                if isinstance(value, v1.SparseTensorValue):
                    feeds.update(
                        {
                            f"{name}/{part}:0": part_value
                            for part, part_value in zip(("indices", "values", "shape"), value)
                        }
                    )
                else:
                    feeds[f"{name}:0"] = value
            found = session.run({name: output.name for name, output in outputs.items()}, feeds)
            if users:
                plain, _ = predict(estimator, users, booster="tables" in model)
                check_close({name: found[name] for name in plain}, plain)
            assert all(len(value) == len(users) for value in found.values())
