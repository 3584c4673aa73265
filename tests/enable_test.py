import gc
import logging
import re
import subprocess
import sys
import weakref

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1_by_import
from tensorflow_estimator.python.estimator import estimator as estimator_lib

import tf_booster
from tf_booster import enable, log
from tf_booster.estimator import sessions
from tf_booster.passes import pipelines
from tf_booster.passes.base import Pass, PassResult

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def off_before_and_after():
    tf_booster.disable_gpu_booster()
    yield
    tf_booster.disable_gpu_booster()


@pytest.fixture
def said(caplog):
    with caplog.at_level(logging.INFO, logger="tensorflow"):
        yield lambda: [record.getMessage() for record in caplog.records if "tf_booster" in record.getMessage()]


def patched():
    return {
        "finalize": v1.train.Scaffold.finalize,
        "__init__": v1.train.MonitoredSession.__mro__[1].__init__,
        "_extend_graph": v1.Session.__mro__[1]._extend_graph,
        "_call_model_fn": estimator_lib.Estimator._call_model_fn,
        "_add_meta_graph_for_mode": estimator_lib.Estimator._add_meta_graph_for_mode,
    }


def finalized_graph():
    """A graph with a lookup, after Scaffold.finalize."""
    with tf.Graph().as_default() as graph:
        tf_booster.embedding_lookup(tf_booster.get_hash_table("t", 4), v1.placeholder(tf.int64, [None]))
        v1.train.Scaffold().finalize()
    return graph


def seeds(graph):
    return [op.get_attr("seeds")[0] for op in graph.get_operations() if op.type == "TfBoosterHashTable"]


def test_the_import_registers_the_one_line():
    assert tf.enable_gpu_booster is v1.enable_gpu_booster is v1_by_import.enable_gpu_booster
    assert tf.enable_gpu_booster is tf_booster.enable_gpu_booster


ONE_LINE_AND_SETTINGS = """
import tensorflow as tf
import tf_booster

tf.enable_gpu_booster()
tf.config.threading.set_intra_op_parallelism_threads(1)
(processor,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * 2)
print(len(tf.config.list_logical_devices("CPU")), "processors")
"""


def test_threads_and_devices_may_be_configured_behind_the_one_line():
    ended = subprocess.run([sys.executable, "-c", ONE_LINE_AND_SETTINGS], capture_output=True, text=True, check=False)
    assert ended.stdout == "2 processors\n", ended.stderr


def test_the_import_alone_rewrites_nothing():
    assert seeds(finalized_graph()) == []


def test_enabled_graphs_are_rewritten_when_they_are_finished():
    tf.enable_gpu_booster(seed=5)
    assert seeds(finalized_graph()) == [5]


def test_options_of_which_one_does_nothing_are_told(said):
    tf.enable_gpu_booster(lazy_adam=True, fuse_sparse_variables=True)
    assert any("lazy_adam=True does nothing here" in line for line in said())


def test_disable_gives_tensorflow_back_as_it_was():
    before = patched()
    tf.enable_gpu_booster()
    assert all(patched()[name] is not before[name] for name in before)
    tf_booster.disable_gpu_booster()
    assert patched() == before and enable.enabled_options() is None
    assert seeds(finalized_graph()) == []


def test_disable_twice_or_without_enable_is_fine():
    before = patched()
    tf_booster.disable_gpu_booster()
    tf.enable_gpu_booster()
    tf_booster.disable_gpu_booster()
    tf_booster.disable_gpu_booster()
    assert patched() == before


def test_again_with_the_same_options_nothing_happens(said):
    tf.enable_gpu_booster(seed=5)
    after_first, messages = patched(), len(said())
    tf.enable_gpu_booster(seed=5)
    assert patched() == after_first and len(said()) == messages


def test_other_options_hold_for_graphs_not_yet_rewritten_and_the_log_says_so(said):
    tf.enable_gpu_booster(seed=5)
    first = finalized_graph()
    methods = patched()
    tf.enable_gpu_booster(seed=6)
    second = finalized_graph()
    assert (seeds(first), seeds(second)) == ([5], [6]) and patched() == methods
    assert any("not rewritten yet" in message and "seed=6 (was 5)" in message for message in said())


def test_a_wrong_option_changes_nothing():
    before = patched()
    with pytest.raises(TypeError, match="known options"):
        tf.enable_gpu_booster(fast=True)
    assert patched() == before and enable.enabled_options() is None
    tf.enable_gpu_booster(seed=5)
    with pytest.raises(ValueError, match="device"):
        tf.enable_gpu_booster(device="tpu")
    assert enable.enabled_options().seed == 5


def test_where_things_run_is_said_once(said, monkeypatch):
    monkeypatch.setattr(log, "_said", set())
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind=None: [])
    for _ in range(3):
        tf.enable_gpu_booster()
        tf_booster.disable_gpu_booster()
    assert len([m for m in said() if "no GPU" in m and "runs on the CPU" in m]) == 1


@pytest.mark.parametrize("enabled", [False, True])
def test_a_table_made_while_off_is_said_once(said, monkeypatch, enabled):
    monkeypatch.setattr(log, "_said", set())
    if enabled:
        tf.enable_gpu_booster()
    with tf.Graph().as_default():
        for name in "aab":
            tf_booster.get_hash_table(name, 4)
    told = [message for message in said() if "tf_booster is off; call tf.enable_gpu_booster()" in message]
    assert len(told) == (0 if enabled else 2)  # Of each table.


def test_tables_of_ranks_that_were_not_to_train_together_are_whole(monkeypatch):
    monkeypatch.setenv("HOROVOD_SIZE", "2")
    tf.enable_gpu_booster(horovod=False)
    with tf.Graph().as_default() as graph:
        rows = tf_booster.embedding_lookup(tf_booster.get_hash_table("t", 4), tf.constant([1], tf.int64))
        v1.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(rows))
        tf_booster.rewrite_graph(graph)
        assert not [op.name for op in graph.get_operations() if op.type.startswith("Horovod")]


def test_a_session_made_again_on_a_finalized_graph_is_left_alone():
    tf.enable_gpu_booster()
    with tf.Graph().as_default() as graph:
        tf_booster.embedding_lookup(tf_booster.get_hash_table("t", 4), v1.placeholder(tf.int64, [None]))
        scaffold = v1.train.Scaffold().finalize()
        operations = len(graph.get_operations())
        assert scaffold.finalize() is scaffold
        assert len(graph.get_operations()) == operations


def test_an_unrewritten_graph_fails_and_names_table_and_remedy():
    with tf.Graph().as_default() as graph:
        values = tf_booster.embedding_lookup(tf_booster.get_hash_table("my_table", 4), tf.constant([1], tf.int64))
        with v1.Session(graph=graph) as session:
            session.run(v1.global_variables_initializer())
            with pytest.raises(tf.errors.FailedPreconditionError, match="my_table.*rewrite_graph"):
                session.run(values)


def test_a_plain_session_after_rewrite_graph():
    with tf.Graph().as_default() as graph:
        table = tf_booster.get_hash_table("t", 4)
        values = tf_booster.embedding_lookup(table, tf.constant([[1, -1], [0, 1]], tf.int64))
        train_op = v1.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(values))
        size = table.size()
        tf_booster.rewrite_graph()
        with v1.Session(graph=graph) as session:
            session.run(v1.global_variables_initializer())
            before, rows = session.run([values, size])
            assert rows == 0 and (before[0, 0] == before[1, 1]).all() and not (before[0, 0] == before[0, 1]).any()
            session.run(train_op)
            after, rows = session.run([values, size])
    assert rows == 3
    assert after[0, 0] == pytest.approx(before[0, 0] - 1.0) and after[0, 1] == pytest.approx(before[0, 1] - 0.5)


def exp_of_neg():
    """A graph for a pass that makes a Neg an Abs, and its end."""
    return tf.exp(tf.negative(tf.constant(-1.0), name="neg"), name="end")


class NegToAbs(Pass):
    name = "neg_to_abs"

    def requires(self, view):
        return any(op.outputs[0].consumers() for op in view.ops("Neg"))

    def run(self, view):
        for op in view.ops("Neg"):
            with view.inserting(None):
                view.redirect(op.outputs[0], tf.abs(op.inputs[0]))
        return PassResult(self.name, True, ["abs"])

    def ensures(self, view):
        pass


@pytest.fixture
def with_neg_to_abs(monkeypatch):
    own = pipelines.passes
    monkeypatch.setattr(pipelines, "passes", lambda options: [*own(options), NegToAbs()])
    tf.enable_gpu_booster()


@pytest.mark.parametrize("graph", ["x", [], 0])
def test_what_is_no_graph_is_refused(graph):
    with pytest.raises(TypeError, match=re.escape(f"rewrite_graph: graph is {graph!r}, wanted a tf.Graph or None")):
        tf_booster.rewrite_graph(graph)


def test_a_graph_without_tables_that_an_open_session_ran_is_left_with_a_reason(with_neg_to_abs, said, monkeypatch):
    monkeypatch.setattr(log, "_said", set())
    with tf.Graph().as_default() as graph:
        end = exp_of_neg()
        with v1.Session() as session:
            session.run(end)
            report = tf_booster.rewrite_graph(graph)
            assert "1 open session(s) ran this graph" in report.note and end.op.inputs[0].op.type == "Neg"
        assert len([m for m in said() if "open session" in m]) == 1
        tf_booster.rewrite_graph(graph)
        assert end.op.inputs[0].op.type == "Abs"


def test_a_graph_with_tables_that_an_open_session_ran_is_refused():
    tf.enable_gpu_booster()
    with tf.Graph().as_default() as graph:
        tf_booster.embedding_lookup(tf_booster.get_hash_table("t", 4), tf.constant([1], tf.int64))
        with v1.Session() as session:
            session.run(tf.constant(1))
            with pytest.raises(tf_booster.RewriteError, match="open session.*before the first session.run"):
                tf_booster.rewrite_graph(graph)
        tf_booster.rewrite_graph(graph)


def test_a_session_that_only_exists_is_no_obstacle(with_neg_to_abs):
    with tf.Graph().as_default() as graph:
        end = exp_of_neg()
        with v1.Session() as session:
            tf_booster.rewrite_graph(graph)
            assert end.op.inputs[0].op.type == "Abs" and session.run(end) == pytest.approx(np.e)


def test_sessions_are_let_go(with_neg_to_abs):
    with tf.Graph().as_default() as graph:
        end = exp_of_neg()
        session = v1.Session()
        session.run(end)
        assert sessions.num_open(graph) == 1
        session.close()
        assert sessions.num_open(graph) == 0
    gone = weakref.ref(graph)
    del graph, session, end
    gc.collect()
    assert gone() is None


def test_graphs_of_an_estimator_are_let_go(tmp_path):
    """Each call makes a graph: a process that predicts again and again would grow by all of them."""
    graphs = []

    def model_fn(features, labels, mode):
        graphs.append(weakref.ref(v1.get_default_graph()))
        output = v1.layers.dense(features["x"], 1)
        loss = tf.reduce_mean(tf.square(output - 1.0))
        train = v1.train.AdamOptimizer().minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, {"y": output}, loss, train)

    def input_fn():
        return tf.data.Dataset.from_tensors({"x": [[1.0], [2.0]]})

    def receiver():
        given = {"x": v1.placeholder(tf.float32, [None, 1])}
        return tf.estimator.export.ServingInputReceiver(given, given)

    tf.enable_gpu_booster()
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    estimator.train(input_fn)
    estimator.evaluate(input_fn)
    list(estimator.predict(input_fn))
    estimator.export_saved_model(str(tmp_path / "export"), receiver)
    gc.collect()
    assert [graph() for graph in graphs] == [None] * 4


def test_graphs_of_an_estimator_without_tables(with_neg_to_abs, said, tmp_path, monkeypatch):
    """Train, evaluate and predict are rewritten; an export stays TensorFlow's; the log tells each once."""
    monkeypatch.setattr(log, "_said", set())
    counted = []

    def model_fn(features, labels, mode):
        output = v1.layers.dense(tf.negative(features["x"]), 1)
        kwargs = {"predictions": {"y": output}}
        if mode != "infer":
            kwargs["loss"] = tf.reduce_mean(tf.square(output - labels))
            kwargs["train_op"] = v1.train.AdamOptimizer().minimize(kwargs["loss"], v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, **kwargs)

    def input_fn():
        return tf.data.Dataset.from_tensors(({"x": tf.ones([4, 2])}, tf.ones([4, 1]))).repeat(4)

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    for _ in range(2):
        estimator.train(input_fn)
        counted.append(tf_booster.report().counted_from)
        estimator.evaluate(input_fn)
        counted.append(tf_booster.report().counted_from)
    list(estimator.predict(input_fn))
    counted.append(tf_booster.report().counted_from)
    train, evaluate = "the Estimator's train_op and loss", "the Estimator's loss and metrics"
    assert counted == [train, evaluate, train, evaluate, "the Estimator's predictions"]
    assert len([m for m in said() if "pass neg_to_abs: changed the graph" in m]) == 3
    last = tf_booster.report()
    receiver = tf.estimator.export.build_raw_serving_input_receiver_fn({"x": tf.ones([1, 2])}, None)
    path = estimator.export_saved_model(str(tmp_path / "export"), receiver)
    assert tf_booster.report() is last
    served = tf.saved_model.load(path.decode() if isinstance(path, bytes) else path)
    types = (
        {op.type for op in served.signatures["serving_default"].graph.get_operations()} if served.signatures else set()
    )
    assert "Abs" not in types
