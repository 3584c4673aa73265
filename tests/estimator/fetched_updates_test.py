"""Updates, and what they give, that are fetched beside the train op that does them: each is done once."""

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf

import tf_booster
from tf_booster import _compat

v1 = tf.compat.v1
ROWS = np.random.RandomState(0).randn(64, 3).astype(np.float32)


def batch_norms(x):
    """Two layers, and the updates of their averages, which the train op waits for."""
    hidden = x
    for _ in range(2):
        hidden = v1.layers.batch_normalization(v1.layers.dense(hidden, 4), training=True)
    return tf.reduce_mean(tf.square(hidden - 1.0)), v1.get_collection(v1.GraphKeys.UPDATE_OPS)


def keras_batch_norms(x):
    layers = [tf.keras.layers.BatchNormalization() for _ in range(2)]
    hidden = layers[1](layers[0](x, training=True), training=True)
    return tf.reduce_mean(tf.square(hidden - 1.0)), [update for layer in layers for update in layer.updates]


def averages_by_hand(x):
    """The program uses what the updates give, too."""
    averages = [v1.get_variable(f"average_{i}", [3], trainable=False, use_resource=True) for i in range(2)]
    given = [a.assign_sub((a - tf.reduce_mean(x, 0)) * 0.1) for a in averages]
    weight = v1.get_variable("weight", [3, 1], use_resource=True)
    return tf.reduce_mean(tf.square(x @ weight)), given


def moving_averages_of_variables(x):
    weight = v1.get_variable("weight", [3, 1], use_resource=True)
    averages = tf.train.ExponentialMovingAverage(0.9)
    other = v1.get_variable("other", [3, 1], use_resource=True)
    return tf.reduce_mean(tf.square(x @ (weight + other))), [averages.apply([weight, other])]


def rows_by_hand(x):
    tables = [v1.get_variable(f"table_{i}", [9, 3], use_resource=True) for i in range(2)]
    ids = tf.constant([1, 5, 1, 7])
    given = [v1.scatter_add(table, ids, -x[:4] * 0.1) for table in tables]
    weight = v1.get_variable("weight", [3, 1], use_resource=True)
    return tf.reduce_mean(tf.square(x @ weight)), given


PROGRAMS = {f.__name__: f for f in (batch_norms, keras_batch_norms, averages_by_hand, moving_averages_of_variables, rows_by_hand)}  # fmt: skip


def run(program, fetch, boosted, by_callable=False):
    """What three steps give, and the Variables behind them. fetch: of (train op, loss, updates), what a step fetches."""
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(1)
        tf.keras.utils.set_random_seed(3)  # Of layers.
        x = v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices(ROWS).batch(16)).get_next()
        loss, updates = program(x)
        with tf.control_dependencies([u for u in updates]):
            train = v1.train.AdamOptimizer(0.01).minimize(loss, v1.train.get_or_create_global_step())
        fetched = fetch(train, loss, updates)
        if boosted:
            report = tf_booster.rewrite_graph()
            assert "TfBoosterMulti" in str(graph.as_graph_def(add_shapes=False)), report
        config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        with v1.Session(config=config) as session:
            session.run(v1.global_variables_initializer())
            step = session.make_callable(fetched) if by_callable else lambda: session.run(fetched)
            given = [step() for _ in range(3)]
            return given, {v.name: session.run(v) for v in v1.global_variables()}


FETCHES = {
    "train and updates": lambda train, loss, updates: [train, updates, loss],
    "by names": lambda train, loss, updates: [train.name, [u.name for u in updates]],
    "one of them": lambda train, loss, updates: {"a": updates[-1], "b": (train, loss)},
    "updates alone": lambda train, loss, updates: updates,
    "grouped": lambda train, loss, updates: [tf.group(*updates), train],
}


@pytest.fixture
def last_bits():
    """Options without the passes that change last bits."""
    tf_booster.enable_gpu_booster(disable_passes=["small_matmuls", "batch_normalization", "pair_dots"])
    yield
    tf_booster.disable_gpu_booster()


@pytest.mark.parametrize("fetch", FETCHES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_updates_are_done_once(program, fetch, last_bits):
    plain = run(PROGRAMS[program], FETCHES[fetch], False)
    np.testing.assert_equal(run(PROGRAMS[program], FETCHES[fetch], True), plain)


def test_callables_do_them_once_too(last_bits):
    plain = run(batch_norms, FETCHES["train and updates"], False, by_callable=True)
    np.testing.assert_equal(run(batch_norms, FETCHES["train and updates"], True, by_callable=True), plain)


def test_the_updates_of_the_optimizer_itself(last_bits):
    """The ops that the train op gathers, which give nothing."""

    def fetch(train, loss, updates):
        applied = [op for op in train.graph.get_operations() if op.type == "ResourceApplyAdam"]
        assert len(applied) > 1
        return [applied[0], train, applied]

    np.testing.assert_equal(run(batch_norms, fetch, True), run(batch_norms, fetch, False))


def test_a_hook_that_logs_what_an_update_gives(last_bits, tmp_path):
    """Every second step only."""

    def model_fn(features, labels, mode):
        loss, updates = averages_by_hand(features)
        with tf.control_dependencies(updates):
            train = v1.train.AdamOptimizer(0.01).minimize(loss, v1.train.get_global_step())
        hook = v1.train.LoggingTensorHook({"average": updates[0]}, every_n_iter=2)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train, training_hooks=[hook])

    def train(where):
        config = tf.estimator.RunConfig(str(tmp_path / where), tf_random_seed=1)
        estimator = tf.estimator.Estimator(model_fn, config=config)
        estimator.train(lambda: tf.data.Dataset.from_tensor_slices(ROWS).repeat().batch(16), steps=7)
        return estimator.get_variable_value("average_0")

    ours = train("ours")
    tf_booster.disable_gpu_booster()
    np.testing.assert_array_equal(ours, train("theirs"))


class OwnAdam(v1.train.AdamOptimizer):
    """Says what it gave."""

    def _resource_apply_sparse(self, grad, var, indices):
        applied = super()._resource_apply_sparse(grad, var, indices)
        (last,) = [op for op in applied.control_inputs if op.type == "AssignSubVariableOp"]
        self.given = next(op for op in _compat.control_outputs(last) if op.type == "ReadVariableOp").outputs[0]
        return applied


def test_what_the_last_write_of_a_chain_gives(last_bits):
    def run_it(boosted):
        with tf.Graph().as_default():
            tf.keras.utils.set_random_seed(3)
            v1.set_random_seed(1)
            tables = [v1.get_variable(f"table_{i}", [9, 3], use_resource=True) for i in range(2)]
            loss = tf.add_n([tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, [1, 2]))) for table in tables])
            optimizer = OwnAdam(0.01)
            train = optimizer.minimize(loss)
            if boosted:
                assert "2 sparse Adam updates became op" in str(tf_booster.rewrite_graph().passes)
            config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
            config.graph_options.rewrite_options.disable_meta_optimizer = True
            with v1.Session(config=config) as session:
                session.run(v1.global_variables_initializer())
                return [session.run([train, optimizer.given])[1] for _ in range(3)]

    np.testing.assert_array_equal(run_it(True), run_it(False))


def test_what_lies_between_the_ops_of_an_update_is_refused(last_bits):
    """A tensor within Adam's chain of a table: to compute it TensorFlow's ops would move the moments again."""
    with tf.Graph().as_default() as graph:
        tables = [v1.get_variable(f"table_{i}", [9, 3], use_resource=True) for i in range(2)]
        loss = tf.add_n([tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, [1, 2]))) for table in tables])
        train = v1.train.AdamOptimizer(0.01).minimize(loss)
        (step, _) = [op.outputs[0] for op in graph.get_operations() if op.name.endswith("truediv_1")]
        tf_booster.rewrite_graph()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            with pytest.raises(
                ValueError, match="truediv_1:0' is fetched in a run of 'tf_booster.*apply_Adam_rows'.*twice"
            ):
                session.run([train, step])
            decayed = next(
                op for op in graph.get_operations() if op.type == "AssignVariableOp" and "/update_" in op.name
            )
            reads = [op for op in _compat.control_outputs(decayed) if op.type == "ReadVariableOp"]
            with pytest.raises(
                ValueError, match="would be done twice"
            ):  # It is what was there before the gradient came.
                session.run([train, reads[0].outputs[0]])
            before = session.run(tables[0])
            session.run(train)
            assert session.run(step).shape == (9, 3)  # By itself.
            assert np.any(session.run(tables[0]) != before)


def test_a_graph_is_not_kept(last_bits):
    graphs = []

    def fetch(train, loss, updates):
        graphs.append(weakref.ref(train.graph))
        return [train, updates]

    run(batch_norms, fetch, True)
    gc.collect()
    assert graphs[0]() is None
