"""export_saved_model: it serves with tf_booster and with the op library alone, and holds no stand-in."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import tf_booster
from tf_booster import _native

v1 = tf.compat.v1
IDS = [3, 5, 5, -8, 99]
UNSEEN = [1234567, -4]


@pytest.fixture(autouse=True)
def booster():
    tf.enable_gpu_booster()
    yield
    tf_booster.disable_gpu_booster()


def input_fn():
    ids = np.asarray(IDS, np.int64)[:, None]
    return tf.data.Dataset.from_tensors(({"user": ids}, np.ones_like(ids, np.float32))).repeat(100)


def model_fn(features, labels, mode, params):
    table = tf_booster.get_hash_table("user_emb", 4, seed=1)
    column = tf_booster.feature_column.categorical_column_with_hash_table("user")
    rows = tf_booster.embedding_lookup(table, features["user"][:, 0])
    wide = v1.feature_column.input_layer(features, [tf.feature_column.embedding_column(column, 2)])
    # Without a seed of its own the layer begins elsewhere in each run, and from some places Adam overshoots.
    out = v1.layers.dense(tf.concat([rows, wide], 1), 1, kernel_initializer=v1.glorot_uniform_initializer(5))
    if mode == tf.estimator.ModeKeys.PREDICT:
        scaffold = v1.train.Scaffold(saver=v1.train.Saver()) if params.get("own_saver") else None
        outputs = {"serving_default": tf.estimator.export.PredictOutput({"out": out, "rows": rows})}
        return tf.estimator.EstimatorSpec(mode, {"out": out, "rows": rows}, export_outputs=outputs, scaffold=scaffold)
    loss = tf.reduce_mean(tf.square(out - labels))
    train_op = v1.train.AdamOptimizer(params.get("rate", 0.1)).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops={"mean": v1.metrics.mean(out)}
    )


def receiver():
    features = {"user": v1.placeholder(tf.int64, [None, 1], name="user")}
    return tf.estimator.export.ServingInputReceiver(features, features)


def supervised_receiver():
    features = {"user": tf.zeros([2, 1], tf.int64)}  # Only shapes and dtypes count.
    return tf.estimator.experimental.build_raw_supervised_input_receiver_fn(features, tf.zeros([2, 1]))()


@pytest.fixture
def trained(tmp_path):
    made = tf.estimator.Estimator(model_fn, str(tmp_path / "model"), params={})
    made.train(input_fn, steps=3)
    return made


def predictions(made, ids=IDS):
    def predict_fn():
        return tf.data.Dataset.from_tensors({"user": np.asarray(ids, np.int64)[:, None]})

    return np.stack([p["out"] for p in made.predict(predict_fn)])


def export(made, folder, **kwargs):
    return tf.compat.as_str(made.export_saved_model(str(folder), receiver, **kwargs))


def serve(path, ids=IDS):
    loaded = tf.saved_model.load(path)
    feed = tf.constant(np.asarray(ids, np.int64)[:, None])
    return loaded, loaded.signatures["serving_default"](user=feed)["out"].numpy()


def graph_def(path, place=0):
    with open(os.path.join(path, "saved_model.pb"), "rb") as file:
        return saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs[place].graph_def


def test_serves_in_this_process(trained, tmp_path):
    path = export(trained, tmp_path / "export")
    for ids in (IDS, UNSEEN):
        np.testing.assert_allclose(serve(path, ids)[1], predictions(trained, ids), rtol=1e-6)
        with tf.Graph().as_default(), v1.Session() as session:
            signature = v1.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
            feed = {signature.inputs["user"].name: np.asarray(ids)[:, None]}
            np.testing.assert_allclose(
                session.run(signature.outputs["out"].name, feed), predictions(trained, ids), rtol=1e-6
            )


SERVER = """
    import sys
    import numpy as np
    import tensorflow as tf
    library, path, ids = sys.argv[1], sys.argv[2], eval(sys.argv[3])
    tf.load_op_library(library)
    feed = np.asarray(ids, np.int64)[:, None]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        signature = tf.compat.v1.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        once = session.run(signature.outputs["out"].name, {signature.inputs["user"].name: feed})
    loaded = tf.saved_model.load(path)
    again = loaded.signatures["serving_default"](user=tf.constant(feed))["out"].numpy()
    assert "tf_booster" not in sys.modules and "horovod" not in sys.modules
    print("RESULT", once.ravel().tolist(), "|", again.ravel().tolist())
"""


def test_serves_in_a_process_with_the_op_library_alone(trained, tmp_path):
    path = export(trained, tmp_path / "export")
    ids = IDS + UNSEEN
    arguments = [sys.executable, "-c", textwrap.dedent(SERVER), _native.shared_object(), path, str(ids)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    once, again = done.stdout.split("RESULT")[1].split("|")
    want = predictions(trained, ids).ravel()
    np.testing.assert_allclose(eval(once), want, rtol=1e-6)
    np.testing.assert_allclose(eval(again), want, rtol=1e-6)


def test_without_its_checkpoint_it_does_not_answer(trained, tmp_path):
    """With first values it would, where its graph is frozen, or imported without the rest."""
    path = export(trained, tmp_path / "export")
    with tf.Graph().as_default(), v1.Session() as session:
        v1.import_graph_def(graph_def(path), name="")
        rows = next(op.outputs[0] for op in session.graph.get_operations() if op.type == "TfBoosterTableGather")
        with pytest.raises(
            tf.errors.FailedPreconditionError, match="'user_emb': the table has no rows of a checkpoint"
        ):
            session.run(rows, {"user:0": np.asarray(IDS)[:, None]})


@pytest.mark.parametrize("own_saver", [False, True])
def test_no_stand_in_is_exported(tmp_path, own_saver):
    made = tf.estimator.Estimator(model_fn, str(tmp_path / "model"), params={"own_saver": own_saver})
    made.train(input_fn, steps=1)
    path = export(made, tmp_path / "export")
    nodes = graph_def(path).node
    assert not [n.name for n in nodes if "StandIn" in n.op]
    tables = {"user_emb", "input_layer/user_embedding/embedding_weights"}
    assert not [n.name for n in nodes if n.op == "VarHandleOp" and n.name in tables]
    assert {n.attr["table_name"].s.decode() for n in nodes if n.op == "TfBoosterHashTable"} == tables
    constants = {n.name: n for n in nodes if n.op == "Const"}
    asked = {
        tf.compat.as_str(name)
        for n in nodes
        if n.op == "RestoreV2"
        for name in tf.make_ndarray(constants[n.input[1]].attr["value"].tensor)
    }
    assert asked - {f"{table}/seed" for table in tables} == {"dense/kernel", "dense/bias", "global_step"}
    for name, _ in tf.train.list_variables(os.path.join(path, "variables", "variables")):
        assert not any(name.startswith(t) and name[len(t) :] in ("", "/Adam", "/Adam_1") for t in tables)
        assert "/slots/" not in name  # Nothing that only training needs.
    np.testing.assert_allclose(serve(path)[1], predictions(made), rtol=1e-6)


def test_two_exports_in_one_process_are_two_models(trained, tmp_path):
    first = export(trained, tmp_path / "export")
    before = predictions(trained)
    trained.train(input_fn, steps=3)
    second = export(trained, tmp_path / "export")
    old, answer = serve(first)
    np.testing.assert_allclose(answer, before, rtol=1e-6)
    _, newer = serve(second)
    np.testing.assert_allclose(newer, predictions(trained), rtol=1e-6)
    assert (np.abs(newer - before) > 1e-3).any()
    feed = tf.constant(np.asarray(IDS, np.int64)[:, None])
    np.testing.assert_allclose(old.signatures["serving_default"](user=feed)["out"].numpy(), before, rtol=1e-6)


def test_all_modes_in_one_export(trained, tmp_path):
    receivers = {
        tf.estimator.ModeKeys.TRAIN: supervised_receiver,
        tf.estimator.ModeKeys.EVAL: supervised_receiver,
        tf.estimator.ModeKeys.PREDICT: receiver,
    }
    path = tf.compat.as_str(trained.experimental_export_all_saved_models(str(tmp_path / "export"), receivers))
    assert [n.name for place in range(3) for n in graph_def(path, place).node if "StandIn" in n.op] == []
    with tf.Graph().as_default(), v1.Session() as session:
        signature = v1.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        feed = {signature.inputs["user"].name: np.asarray(IDS)[:, None]}
        np.testing.assert_allclose(session.run(signature.outputs["out"].name, feed), predictions(trained), rtol=1e-6)
    with tf.Graph().as_default(), v1.Session() as session:  # The training graph goes on training.
        meta_graph = v1.saved_model.load(session, ["train"], path)
        signature = meta_graph.signature_def["train"]
        feed = {signature.inputs["user"].name: [[3], [77]], signature.inputs["label"].name: [[1.0], [1.0]]}
        loss = signature.outputs["loss"].name
        before = session.run(loss, feed)
        session.run(v1.get_collection("saved_model_train_op")[0], feed)
        assert session.run(loss, feed) < before


def test_an_export_without_tables_is_as_tensorflow_made_it(tmp_path):
    def plain_fn(features, labels, mode):
        out = v1.layers.dense(tf.cast(features["user"], tf.float32), 1)
        loss = None if labels is None else tf.reduce_mean(tf.square(out - labels))
        train_op = (
            None if loss is None else v1.train.GradientDescentOptimizer(1e-6).minimize(loss, v1.train.get_global_step())
        )
        outputs = {"serving_default": tf.estimator.export.PredictOutput({"out": out})}
        return tf.estimator.EstimatorSpec(mode, {"out": out}, loss, train_op, export_outputs=outputs)

    made = tf.estimator.Estimator(plain_fn, str(tmp_path / "model"))
    made.train(input_fn, steps=1)
    with_booster = graph_def(export(made, tmp_path / "one"))
    tf_booster.disable_gpu_booster()
    without = graph_def(export(made, tmp_path / "two"))
    assert [(n.name, n.op, list(n.input)) for n in with_booster.node] == [
        (n.name, n.op, list(n.input)) for n in without.node
    ]


class NoMore(tf.estimator.SessionRunHook):
    """Counts steps, to see early stopping at work."""

    def __init__(self):
        self.steps = 0

    def after_run(self, run_context, run_values):
        self.steps += 1


def test_exporters_and_early_stopping(tmp_path):
    made = tf.estimator.Estimator(
        model_fn,
        str(tmp_path / "model"),
        tf.estimator.RunConfig(save_checkpoints_steps=5, keep_checkpoint_max=2),
        params={"rate": 0.01},
    )
    stop = tf.estimator.experimental.stop_if_no_decrease_hook(
        made, "loss", max_steps_without_decrease=1, min_steps=10, run_every_secs=None, run_every_steps=5
    )
    exporters = [
        tf.estimator.LatestExporter("latest", receiver, exports_to_keep=1),
        tf.estimator.BestExporter("best", receiver),
        tf.estimator.FinalExporter("final", receiver),
    ]
    train_spec = tf.estimator.TrainSpec(input_fn, max_steps=15, hooks=[stop])
    eval_spec = tf.estimator.EvalSpec(input_fn, steps=1, exporters=exporters, throttle_secs=0)
    tf.estimator.train_and_evaluate(made, train_spec, eval_spec)
    assert made.latest_checkpoint().endswith("model.ckpt-15")
    kept = sorted(n for n in os.listdir(made.model_dir) if n.endswith(".index"))
    assert kept == ["model.ckpt-10.index", "model.ckpt-15.index"]
    for exporter in ("latest", "best", "final"):
        folder = os.path.join(made.model_dir, "export", exporter)
        exports = sorted(os.listdir(folder))
        assert len(exports) == 1 or exporter == "best"
        np.testing.assert_allclose(serve(os.path.join(folder, exports[-1]))[1], predictions(made), rtol=1e-5)


def test_early_stopping_stops(tmp_path):
    made = tf.estimator.Estimator(
        model_fn, str(tmp_path / "model"), tf.estimator.RunConfig(save_checkpoints_steps=2), params={"rate": 0.0}
    )
    stop = tf.estimator.experimental.stop_if_no_decrease_hook(
        made, "loss", max_steps_without_decrease=3, run_every_secs=None, run_every_steps=1
    )
    counter = NoMore()
    train_spec = tf.estimator.TrainSpec(input_fn, max_steps=50, hooks=[stop, counter])
    tf.estimator.train_and_evaluate(made, train_spec, tf.estimator.EvalSpec(input_fn, steps=1, throttle_secs=0))
    assert 3 <= counter.steps < 50


def test_variable_names_and_values(trained):
    names = trained.get_variable_names()
    assert {"user_emb/keys", "user_emb/values", "user_emb/slots/m", "user_emb/slots/v"} <= set(names)
    assert "user_emb" not in names
    assert sorted(trained.get_variable_value("user_emb/keys")) == sorted(set(IDS))
    assert trained.get_variable_value("user_emb/values").shape == (4, 4)
