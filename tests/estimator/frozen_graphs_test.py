"""Programs that freeze a graph of which tf_booster has merged the lookups: convert_variables_to_constants."""

import numpy as np
import pytest
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
IDS = np.array([3, 1, 4, 1], np.int64)


@pytest.fixture(autouse=True)
def switched_off():
    yield
    tf_booster.disable_gpu_booster()


def build(lookup):
    """Trains two embeddings of the same ids and a sum over a bag of them; `answer` is what is frozen."""
    v1.set_random_seed(3)
    ids = v1.placeholder(tf.int64, [None], "ids")
    rows = [lookup(name, ids) for name in ("left", "right")]
    there = tf.reshape(tf.range(tf.size(ids, tf.int64)), [-1, 1])
    places = tf.concat([there, tf.zeros_like(there)], 1)
    bag = tf.SparseTensor(places, ids, tf.stack([tf.size(ids, tf.int64), 1]))
    rows.append(v1.nn.safe_embedding_lookup_sparse(v1.get_variable("bag", [9, 4]), bag))
    answer = tf.tanh(v1.layers.dense(tf.concat(rows, 1), 2, name="answers"), "answer")
    train_op = v1.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(answer), v1.train.get_or_create_global_step())
    return answer, train_op


def of_variable(name, ids):
    return tf.nn.embedding_lookup(v1.get_variable(name, [9, 4]), ids)


def freeze(session):
    definition = session.graph.as_graph_def()
    return v1.graph_util.convert_variables_to_constants(session, definition, ["answer"])


def served(definition):
    with tf.Graph().as_default(), v1.Session() as session:
        tf.import_graph_def(definition, name="")
        return session.run("answer:0", {"ids:0": IDS})


class Freeze(v1.train.SessionRunHook):
    def end(self, session):
        self.wanted = session.run("answer:0", {"ids:0": IDS})
        self.frozen = freeze(session)


def test_at_the_end_of_training_it_is_tensorflows_graph():
    tf.enable_gpu_booster()
    hook = Freeze()
    with tf.Graph().as_default() as graph:
        _, train_op = build(of_variable)
        with v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
            for _ in range(3):
                session.run(train_op, {"ids:0": IDS})
        assert any(op.type == "TfBoosterMultiGather" for op in graph.get_operations())
    assert not [node.op for node in hook.frozen.node if node.op.startswith("TfBooster")]
    np.testing.assert_allclose(served(hook.frozen), hook.wanted, rtol=1e-5)


def test_a_graph_that_was_rewritten_by_hand():
    """tf_booster is off; what is frozen is looked at as long as the graph lives."""
    with tf.Graph().as_default():
        answer, _ = build(of_variable)
        tf_booster.rewrite_graph()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            wanted = session.run(answer, {"ids:0": IDS})
            np.testing.assert_allclose(served(freeze(session)), wanted, rtol=1e-5)


def test_a_graph_that_was_cut_down_before():
    with tf.Graph().as_default() as graph:
        answer, _ = build(of_variable)
        tf_booster.rewrite_graph()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            cut = v1.graph_util.extract_sub_graph(graph.as_graph_def(), ["answer"])
            frozen = v1.graph_util.convert_variables_to_constants(session, cut, ["answer"])
            np.testing.assert_allclose(served(frozen), session.run(answer, {"ids:0": IDS}), rtol=1e-5)


def test_a_table_is_refused():
    """It would be empty where the frozen graph is served, and answer with first values."""
    tf.enable_gpu_booster()
    with tf.Graph().as_default():
        build(lambda name, ids: tf_booster.embedding_lookup(tf_booster.get_hash_table(name, 4), ids))
        with v1.train.MonitoredTrainingSession() as session:
            with pytest.raises(ValueError, match="answer needs op .* reads a hash table.*export_saved_model"):
                freeze(session)


def test_a_graph_that_another_process_rewrote_is_refused(tmp_path):
    tf.enable_gpu_booster()
    with tf.Graph().as_default():
        build(of_variable)
        tf_booster.rewrite_graph()
        v1.train.export_meta_graph(str(tmp_path / "graph.meta"))
    with tf.Graph().as_default():
        v1.train.import_meta_graph(str(tmp_path / "graph.meta"))
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            with pytest.raises(ValueError, match="TfBoosterMultiGather of a graph that another process rewrote"):
                freeze(session)
