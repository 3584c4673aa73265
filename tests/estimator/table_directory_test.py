"""table_directory: rows that memory has no room for are on a disk, and nothing else changes.

With table_memory_fraction=0 memory has room for none but those of slabs of less than a page; behind 64 steps rows change places.
"""

import os

import numpy as np
import pytest
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
STEPS, BATCH, DIM = 140, 256, 16


@pytest.fixture(autouse=True)
def off():
    yield
    tf_booster.disable_gpu_booster()


def batches():
    rng = np.random.RandomState(5)
    ids = np.stack([rng.zipf(1.2, (STEPS, BATCH)) % 20_000, rng.randint(-(2**40), 2**40, (STEPS, BATCH))], axis=2)
    return ids, rng.rand(STEPS, BATCH, 1).astype(np.float32)


def input_fn():
    ids, labels = batches()
    return tf.data.Dataset.from_tensor_slices(({"ids": ids}, labels))


def model_fn(features, labels, mode):
    optimizer = v1.train.AdamOptimizer(0.01)
    tables = [tf_booster.get_hash_table(name, DIM, seed=3) for name in ("user", "item")]
    rows = [tf_booster.embedding_lookup(table, features["ids"][:, i]) for i, table in enumerate(tables)]
    out = v1.layers.dense(tf.concat(rows, 1), 1, kernel_initializer=v1.glorot_uniform_initializer(5))
    if mode == tf.estimator.ModeKeys.PREDICT:
        outputs = {"serving_default": tf.estimator.export.PredictOutput({"out": out})}
        return tf.estimator.EstimatorSpec(mode, {"out": out}, export_outputs=outputs)
    loss = tf.reduce_mean(tf.square(out - labels))
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def train(model_dir, **options):
    """Trains, and trains on from the checkpoint; what the checkpoint holds in the order of keys, predictions, and the report."""
    tf_booster.disable_gpu_booster()
    tf.enable_gpu_booster(**options)
    for until in (STEPS // 2, STEPS):
        estimator = tf.estimator.Estimator(model_fn, str(model_dir), tf.estimator.RunConfig(tf_random_seed=1))
        estimator.train(input_fn, max_steps=until)
        report = tf_booster.report()
    predictions = np.concatenate([p["out"] for p in estimator.predict(input_fn)])
    checkpoint = tf.train.load_checkpoint(estimator.latest_checkpoint())
    tensors = {name: checkpoint.get_tensor(name) for name in checkpoint.get_variable_to_shape_map()}
    for table in ("user", "item"):
        order = np.argsort(tensors[f"{table}/keys"])
        for name, value in tensors.items():
            if name.startswith(table + "/") and np.ndim(value) and len(value) == len(order):
                tensors[name] = value[order]
    return tensors, predictions, report, estimator


@pytest.mark.parametrize("options", [{}, {"fuse_tables": False, "pipeline": "off"}])
def test_nothing_changes_but_where_rows_are(tmp_path, options):
    plain, of_plain, report, _ = train(tmp_path / "plain", **options)
    assert all(table["disk_bytes"] == 0 for table in report.tables) and "on a disk" not in str(report)
    folder = tmp_path / "disk"
    folder.mkdir()
    found, predictions, report, _ = train(
        tmp_path / "on_disk", table_directory=str(folder), table_memory_fraction=0, **options
    )
    assert found.keys() == plain.keys()
    for name, value in plain.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    np.testing.assert_array_equal(predictions, of_plain)
    for table in report.tables:
        assert table["rows"] * DIM * 4 < table["disk_bytes"] < table["bytes"]  # With slots most of a row.
    assert "of them rows on a disk" in str(report)
    assert not os.listdir(folder)  # The files have no names.


def test_an_export_knows_nothing_of_the_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    _, predictions, _, estimator = train(tmp_path / "model", table_directory=str(folder), table_memory_fraction=0)

    def receiver():
        features = {"ids": v1.placeholder(tf.int64, [None, 2], "ids")}
        return tf.estimator.export.ServingInputReceiver(features, features)

    exported = estimator.export_saved_model(str(tmp_path / "export"), receiver)
    folder.rmdir()
    with v1.Session(graph=tf.Graph()) as session:
        meta = v1.saved_model.load(session, ["serve"], exported)
        signature = meta.signature_def["serving_default"]
        out = session.run(signature.outputs["out"].name, {signature.inputs["ids"].name: batches()[0][0]})
        np.testing.assert_allclose(out[:, 0], predictions[:BATCH], rtol=1e-6)


def test_a_folder_that_is_none_is_an_error_before_training(tmp_path):
    tf.enable_gpu_booster(table_directory=str(tmp_path / "none"))
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path / "model"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="none': No such file or directory; name a folder"):
        estimator.train(input_fn, max_steps=1)
