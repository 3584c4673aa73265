"""A run of both halves is the program's own graph: no queue in it, and nothing waits that would not wait there."""

from typing import Any, Dict, List

import numpy as np
import pytest
import tensorflow as tf
from pipelined import booster, v1

import tf_booster
from tf_booster import _compat
from tf_booster.passes.fetches import note_spec
from tf_booster.pipeline.attach import driver_of
from tf_booster.pipeline.worth import IN_ONE, Worth
from tf_booster.report import report_of


@pytest.fixture(autouse=True)
def in_one(monkeypatch):
    monkeypatch.setattr(Worth, "manner", lambda self, now: IN_ONE)


class Program:
    """Adds one to a row and to a bias at each step. The bias' update waits for no read of it, the labels wait for an assertion: no id is above `biggest`."""

    def __init__(self, ids: List[int], biggest: int = 100):
        batch = v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices(np.int64(ids)).batch(1)).get_next()
        row = tf_booster.embedding_lookup(tf_booster.get_hash_table("t", 1, initializer=tf.zeros_initializer()), batch)
        self.bias = v1.get_variable("bias", [], initializer=tf.zeros_initializer())
        self.read = self.bias.read_value()
        known = tf.raw_ops.Assert(condition=tf.reduce_all(batch <= biggest), data=["an id is too big"])
        number = tf.cast(batch, tf.float32)
        with tf.control_dependencies([known]):
            label = tf.square(number)
        self.loss = tf.reduce_sum(row) + tf.reduce_sum(label + self.read)
        count = v1.train.get_or_create_global_step()
        self.train = v1.train.GradientDescentOptimizer(-1.0).minimize(self.loss, count)
        note_spec(batch.graph, tf.estimator.EstimatorSpec("train", loss=self.loss, train_op=self.train))


def ran(program: Program, session: tf.compat.v1.Session) -> Dict[str, Any]:
    """The nodes, by name, of one more step of both halves in one run, as TensorFlow ran it."""
    split = driver_of(session)._split
    wanted = _compat._config_pb2.CallableOptions(
        target=[program.train.name, split.enqueue.name],
        fetch=[program.loss.name],
        tensor_connection=[{"from_tensor": split.enqueue.outputs[0].name, "to_tensor": split.expected.name}],
        run_options=v1.RunOptions(output_partition_graphs=True),
    )
    metadata = v1.RunMetadata()
    _compat.base_session_class()._make_callable_from_options(session, wanted)(run_metadata=metadata)
    return {node.name: node for graph in metadata.partition_graphs for node in graph.node}


def test_no_queue_between_the_halves():
    with booster("exact"), tf.Graph().as_default():
        program = Program(6 * [1])
        with v1.train.MonitoredTrainingSession() as session:
            # A row, the label, and the bias as it was before the step: each step adds one to row and bias.
            assert [session.run([program.loss, program.train])[0] for _ in range(4)] == [1.0, 3.0, 5.0, 7.0]
            raw = session._tf_sess()
            nodes = ran(program, raw)
            (left,) = raw.run([driver_of(raw)._split.size])
            assert session.run(program.loss) == 1.0 + 2 * 5
    types = {node.op for node in nodes.values()}
    assert {"TfBoosterWholeBatch", "IteratorGetNext", "TfBoosterTableGather"} <= types
    assert not [
        name for name in types if name.startswith("TfBooster") and name.endswith(("queueBatch", "ArrivedBatch"))
    ]
    assert left == 0
    # The read that came before the batch was taken comes before what reads the batch.
    waiting = {name for name, node in nodes.items() if f"^{program.read.op.inputs[0].op.name}" in node.input}
    assert any(nodes[name].op == "Square" for name in waiting), waiting


def test_an_assertion_is_the_error_of_its_step():
    with booster("exact"), tf.Graph().as_default():
        program = Program([1, 1, 101, 2], biggest=100)
        with v1.train.MonitoredTrainingSession() as session:
            raw = session._tf_sess()
            losses = []
            for _ in range(4):
                try:
                    losses.append(float(raw.run([program.loss, program.train])[0]))
                except tf.errors.InvalidArgumentError:
                    losses.append("refused")
            bias = raw.run(program.bias)
    # The step that was refused has written nothing, and the one after it has the batch after its.
    assert losses == [1.0, 3.0, "refused", 0.0 + 4.0 + 2.0] and bias == 3.0


def trained_with_xla(mode: str) -> Any:
    """Losses and the last values of a model with a part that XLA compiles, and the passes that changed its graph."""
    with booster(mode, xla="auto"), tf.Graph().as_default() as graph:
        v1.set_random_seed(4)
        ids = tf.data.Dataset.from_tensor_slices(np.random.RandomState(1).randint(0, 20, [12, 128])).repeat()
        batch = v1.data.make_one_shot_iterator(ids).get_next()
        table = tf_booster.get_hash_table("t", 4, initializer=tf.random_normal_initializer(seed=3))
        dense = tf.exp(tf.cast(batch % 7, tf.float32)[:, None] * -0.3) + 0.1
        hidden = tf.concat([tf_booster.embedding_lookup(table, batch), tf.tanh(tf.sqrt(dense) * 0.7 + dense)], 1)
        weights = v1.get_variable("w", [5, 1])
        loss = tf.reduce_mean(tf.square(tf.tanh(tf.sigmoid(hidden @ weights) * 1.3 - 0.2) - 0.5))
        train = v1.train.AdagradOptimizer(0.1).minimize(loss, v1.train.get_or_create_global_step())
        note_spec(graph, tf.estimator.EstimatorSpec("train", loss=loss, train_op=train))
        with v1.train.MonitoredTrainingSession() as session:
            losses = [session.run([loss, train])[0] for _ in range(12)]
            values = session._tf_sess().run(weights)
    passes = {p["name"] for p in report_of(graph).to_dict()["passes"] if p["modified"]}
    return np.array(losses), values, passes


@pytest.mark.skipif(not _compat.xla_leaves_unmarked_ops(), reason="before 2.14 nothing is marked for XLA")
def test_what_xla_compiles_keeps_its_bits():
    whole, joined = trained_with_xla("off"), trained_with_xla("exact")
    assert "xla" in whole[2] and {"xla", "embedding_pipeline"} <= joined[2]
    np.testing.assert_array_equal(joined[0], whole[0])
    np.testing.assert_array_equal(joined[1], whole[1])
