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


WORDS = np.array(["a", "b", "zz", "y", "b", "a", "x", "b"])


def of_words():
    """Ids of words that stand for StaticVocabularyTable's, in a column and read besides; what may be fed, and the loss."""
    tf.keras.utils.set_random_seed(3)
    features = {key: v1.placeholder_with_default(WORDS[None].T, [None, 1]) for key in ("left", "right")}
    lists = {key: fc.categorical_column_with_vocabulary_list(key, ["a", "b"], num_oov_buckets=3) for key in features}
    vectors = v1.feature_column.input_layer(features, [fc.embedding_column(column, 4) for column in lists.values()])
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([0, 1], tf.int64)), 3
    )
    ids = table.lookup(features["left"])
    loss = tf.reduce_mean(tf.square(v1.layers.dense(vectors, 1)) * (1 + tf.cast(ids, tf.float32)))
    train = v1.train.AdagradOptimizer(0.1).minimize(loss, v1.train.get_or_create_global_step())
    return features["left"], ids, loss, train


def steps_on_words(feeds, rewritten):
    """Losses of steps, each with a feed that feeds(words, ids) gives."""
    with tf.Graph().as_default() as graph:
        words, ids, loss, train = of_words()
        if rewritten:
            tf_booster.rewrite_graph()
            made = [op for op in graph.get_operations() if op.type == "TfBoosterVocabularyIds"]
            assert sum(len(op.outputs) for op in made) == 3
        config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        with v1.Session(config=config) as session:
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            return [session.run([loss, ids, train], feed)[:2] for feed in feeds(words, ids)]


def test_what_stands_for_a_fed_tensor_is_fed():
    """By the tensor, by its name, beside a placeholder and without; nothing is left of it in the next run."""

    def feeds(words, ids):
        given = np.arange(ROWS)[None].T
        yield {ids: given + 7}
        yield None
        yield {ids.name: given * 2, words: WORDS[::-1, None]}
        yield {words: WORDS[::-1, None]}
        yield {ids: given[5:6]}

    tf.enable_gpu_booster(disable_passes=["small_matmuls"])
    try:
        mine = steps_on_words(feeds, rewritten=True)
    finally:
        tf_booster.disable_gpu_booster()
    for got, wanted in zip(mine, steps_on_words(feeds, rewritten=False)):
        for one, other in zip(got, wanted):
            np.testing.assert_array_equal(one, other)


def test_a_feed_that_cannot_be_handed_on_is_refused():
    """Under a key of several tensors, and in a partial run, whose feeds TensorFlow knows before."""
    tf.enable_gpu_booster()
    try:
        with tf.Graph().as_default():
            words, ids, loss, _ = of_words()
            tf_booster.rewrite_graph()
            given = np.arange(ROWS)[None].T
            with v1.Session() as session:
                session.run([v1.global_variables_initializer(), v1.tables_initializer()])
                with pytest.raises(ValueError, match="the value would be lost"):
                    session.run(loss, {(ids, words): (given, WORDS[None].T)})
                handle = session.partial_run_setup([loss], [ids])
                with pytest.raises(ValueError, match="the value would be lost"):
                    session.partial_run(handle, loss, {ids: given})
    finally:
        tf_booster.disable_gpu_booster()


def of_lists():
    """Two layers of lists, whose gradients read shapes of what is between; by name."""
    x = v1.placeholder_with_default(np.arange(ROWS * 10, dtype=np.float32).reshape(ROWS, 5, 2) / 50, [None, 5, 2])
    kernels = [v1.get_variable(f"kernel_{i}", [2, 2], initializer=v1.ones_initializer()) for i in range(2)]
    hidden = tf.tensordot(x, kernels[0], axes=[[2], [0]])
    scaled = hidden * v1.get_variable("scale", [2], initializer=v1.ones_initializer())
    logits = tf.tensordot(scaled, kernels[1], axes=[[2], [0]])
    train = v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(logits))
    v1.add_to_collection(v1.GraphKeys.TRAIN_OP, train)
    return {"hidden": hidden, "scaled": scaled, "logits": logits}, train


@pytest.mark.parametrize("name", ["hidden", "scaled", "logits"])
def test_shapes_that_are_constant_are_no_loss(name):
    """Gradients read no more than the shape of some, which is what they reshape has, too."""
    found = []
    for rewritten in (False, True):
        with tf.Graph().as_default(), v1.Session() as session:
            tensors, train = of_lists()
            if rewritten:
                tf_booster.rewrite_graph()
            session.run(v1.global_variables_initializer())
            session.run(train, {tensors[name]: np.full([ROWS, 5, 2], 0.25, np.float32)})
            found.append(session.run(v1.trainable_variables()))
    for plain, mine in zip(*found):
        np.testing.assert_allclose(mine, plain, rtol=1e-6)
