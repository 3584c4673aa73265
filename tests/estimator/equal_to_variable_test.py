"""A hash table trains to the same numbers as an ordinary Variable that holds the same rows.

Both models start from the same constant rows and see the same batches. Where an optimizer moves only the rows that have a
gradient, losses and rows must be equal; TensorFlow's Adam and Keras's RMSprop on a Variable move every row at every step, so
for these each batch holds every id.

Tolerance: forward and backward are the same ops in the same order. The update sums duplicates first and may round
differently by some ulp a step, so after 20 steps float32 values of size 1 may be apart by about 20 * 4 * 6e-8 = 5e-6.
"""

import numpy as np
import pytest
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
keras = tf.keras.optimizers.legacy

NUM_IDS, DIM, BATCH, STEPS = 23, 5, 64, 20

OPTIMIZERS = {
    "sgd": (lambda: v1.train.GradientDescentOptimizer(0.1), False),
    "momentum": (lambda: v1.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True), False),
    "adagrad": (lambda: v1.train.AdagradOptimizer(0.1), False),
    "adam": (lambda: v1.train.AdamOptimizer(0.01), True),
    "ftrl": (lambda: v1.train.FtrlOptimizer(0.1, l1_regularization_strength=1e-3), False),
    "rmsprop": (lambda: v1.train.RMSPropOptimizer(0.01, momentum=0.5), False),
    "centered rmsprop": (lambda: v1.train.RMSPropOptimizer(0.01, centered=True), False),
    "keras sgd": (lambda: keras.SGD(0.1), False),
    "keras momentum": (lambda: keras.SGD(0.05, 0.9, True), False),
    "keras adagrad": (lambda: keras.Adagrad(0.1), False),
    "keras adam": (lambda: keras.Adam(0.01), True),
    "keras ftrl": (lambda: keras.Ftrl(0.1), False),
    "keras rmsprop": (lambda: keras.RMSprop(0.01), True),
    "keras rmsprop centered": (lambda: keras.RMSprop(0.01, centered=True), True),
}


@pytest.fixture(autouse=True)
def booster():
    tf.enable_gpu_booster()
    yield
    tf_booster.disable_gpu_booster()


def batches(every_id):
    rng = np.random.RandomState(7)
    for _ in range(STEPS):
        ids = rng.zipf(1.3, BATCH) % NUM_IDS
        if every_id:
            ids[:NUM_IDS] = np.arange(NUM_IDS)
        yield ids.astype(np.int64), rng.rand(BATCH).astype(np.float32)


def minimize(optimizer, loss, clip):
    step = v1.train.get_or_create_global_step()
    if isinstance(optimizer, v1.train.Optimizer):
        pairs = optimizer.compute_gradients(loss)
        if clip:
            clipped, _ = tf.clip_by_global_norm([g for g, _ in pairs], 0.05)
            pairs = [(g, v) for g, (_, v) in zip(clipped, pairs)]
        return optimizer.apply_gradients(pairs, global_step=step)
    optimizer.iterations = step
    return optimizer.get_updates(loss, v1.trainable_variables())[0]


def train(embeddings, make_optimizer, every_id, clip=False):
    """Losses of all steps, and the final rows of ids 0 … NUM_IDS−1."""
    graph = tf.Graph()
    with graph.as_default():
        v1.set_random_seed(1)
        ids = v1.placeholder(tf.int64, [None])
        labels = v1.placeholder(tf.float32, [None])
        initializer = v1.constant_initializer(0.25)
        if embeddings == "hash":
            table = tf_booster.get_hash_table("rows", DIM, initializer=initializer)
            rows = tf_booster.embedding_lookup(table, ids)
            probe = tf_booster.embedding_lookup(table, tf.range(NUM_IDS, dtype=tf.int64))
        else:
            variable = v1.get_variable("rows", [NUM_IDS, DIM], initializer=initializer, use_resource=True)
            rows = tf.nn.embedding_lookup(variable, ids)
            probe = tf.nn.embedding_lookup(variable, tf.range(NUM_IDS, dtype=tf.int64))
        hidden = v1.layers.dense(rows, 4, tf.nn.relu, kernel_initializer=v1.constant_initializer(0.3))
        logits = v1.layers.dense(hidden, 1, kernel_initializer=v1.random_normal_initializer(seed=3))[:, 0]
        loss = tf.reduce_mean(tf.square(logits - labels * 3.0))
        train_op = minimize(make_optimizer(), loss, clip)
        losses = []
        with v1.train.MonitoredTrainingSession() as session:
            for batch_ids, batch_labels in batches(every_id):
                losses.append(session.run([loss, train_op], {ids: batch_ids, labels: batch_labels})[0])
            final = session.run(probe, {ids: [], labels: []})
    return np.array(losses), final


@pytest.mark.parametrize("clip", [False, True], ids=["", "clipped"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_same_losses_and_rows(name, clip):
    make_optimizer, every_id = OPTIMIZERS[name]
    if clip and name.startswith("keras"):
        clip = False
    want_losses, want_rows = train("variable", make_optimizer, every_id, clip)
    losses, rows = train("hash", make_optimizer, every_id, clip)
    assert want_losses[-1] != want_losses[0]
    np.testing.assert_allclose(losses, want_losses, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(rows, want_rows, rtol=2e-5, atol=5e-6)


@pytest.mark.parametrize("name", ["adagrad", "sgd", "momentum", "ftrl"])
def test_first_step_is_equal_to_the_bit_without_duplicates(name):
    """With distinct ids nothing is summed: one step must give the bits of TensorFlow's own kernel, or be within 4 ulp."""
    make_optimizer, _ = OPTIMIZERS[name]

    def one_step(embeddings):
        graph = tf.Graph()
        with graph.as_default():
            ids = tf.constant(np.arange(NUM_IDS), tf.int64)
            if embeddings == "hash":
                table = tf_booster.get_hash_table("rows", DIM, initializer=v1.constant_initializer(0.25))
                rows = tf_booster.embedding_lookup(table, ids)
            else:
                variable = v1.get_variable(
                    "rows", [NUM_IDS, DIM], initializer=v1.constant_initializer(0.25), use_resource=True
                )
                rows = tf.nn.embedding_lookup(variable, ids)
            weights = tf.constant(np.random.RandomState(0).randn(NUM_IDS, DIM), tf.float32)
            train_op = minimize(make_optimizer(), tf.reduce_sum(rows * rows * weights), clip=False)
            with v1.train.MonitoredTrainingSession() as session:
                session.run(train_op)
                return session.run(rows)

    np.testing.assert_array_almost_equal_nulp(one_step("hash"), one_step("variable"), nulp=4)
