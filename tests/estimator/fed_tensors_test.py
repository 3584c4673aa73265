"""Programs that feed tensors which the graph computes: each gets TensorFlow's numbers, or an error that says what would be lost."""

import numpy as np
import pytest
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
fc = tf.feature_column
ROWS, IDS = 8, 50
KEYS = ("user", "item", "hist")
GIVEN = {"user": np.arange(ROWS), "item": np.arange(ROWS) * 3, "hist": np.arange(4 * ROWS).reshape(ROWS, 4) % IDS}


def built(from_dataset):
    """Three columns, joined, and a tower: a few tensors of it by name. The batch is fed, or a dataset's."""
    tf.keras.utils.set_random_seed(3)
    if from_dataset:
        features = v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensors(GIVEN).repeat()).get_next()
    else:
        features = {key: v1.placeholder_with_default(value, [None, *value.shape[1:]]) for key, value in GIVEN.items()}
    columns = {key: fc.embedding_column(fc.categorical_column_with_identity(key, IDS), 4) for key in KEYS}
    vectors = {key: v1.feature_column.input_layer(features, [column]) for key, column in columns.items()}
    table = v1.get_variable("table", [IDS, 4])
    looked_up = tf.nn.embedding_lookup(table, features["item"])
    joined = tf.concat([*vectors.values(), looked_up, looked_up * vectors["user"]], 1)
    hidden = v1.layers.dense(joined, 6, tf.nn.relu)
    loss = tf.reduce_mean(tf.square(v1.layers.dense(hidden, 1)))
    rate = tf.constant(0.1)
    train = v1.train.AdagradOptimizer(rate).minimize(loss, v1.train.get_or_create_global_step())
    found = {"looked_up": looked_up, "joined": joined, "hidden": hidden, "rate": rate, "item": features["item"]}
    return {**vectors, **found}, loss, train


def answers(from_dataset, rewritten=True):
    """By what is fed: the loss before a step that is fed it, in the step, and behind it; or the error's message."""
    found = {}
    with tf.Graph().as_default():
        tensors, loss, train = built(from_dataset)
        if rewritten:
            tf_booster.rewrite_graph()
        init = v1.global_variables_initializer()
        config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        with v1.Session(config=config) as session:
            for name, value in FEEDS.items():
                session.run(init)
                fed = {tensors[name]: value(tensors[name])}
                try:
                    found[name] = [session.run(loss, fed), session.run([train, loss], fed)[1], session.run(loss)]
                except ValueError as error:
                    found[name] = str(error)
    return found


def half(tensor):
    return np.full([ROWS, tensor.shape[1]], 0.5, np.float32)


FEEDS = {
    "rate": lambda _: 0.7,
    "item": lambda _: np.full([ROWS], 7),
    "hidden": half,
    "user": half,
    "hist": half,
    "joined": half,
    "looked_up": half,
}


@pytest.mark.parametrize("from_dataset", [False, True], ids=["placeholders", "dataset"])
def test_what_is_fed_is_computed_with_or_refused(from_dataset):
    tf.enable_gpu_booster(disable_passes=["small_matmuls"])
    try:
        mine = answers(from_dataset)
    finally:
        tf_booster.disable_gpu_booster()
    plain = answers(from_dataset, rewritten=False)
    served = [name for name in FEEDS if not isinstance(mine[name], str)]
    assert {"rate", "item", "hidden"} <= set(served)
    for name in served:
        np.testing.assert_array_equal(mine[name], plain[name], err_msg=name)
    for name in set(FEEDS) - set(served):
        assert "the value would be lost" in mine[name], mine[name]
    assert set(served) < set(FEEDS)  # Else the columns would be fused no more, and the test would test nothing.
