"""What programs do between lookup and update: sampled classes, ragged ids, several tasks, gradients that are masked, gathered up or made anew.

Grappler regroups arithmetic in one graph and not in the other, so its two passes that do are off, and the bits are equal.
"""

import pytest
import tensorflow as tf
from recommendation_data import NUM_IDS, NUM_TAGS, input_fn
from training_pair import EXACT, compare_estimators

v1 = tf.compat.v1
STEPS, WIDTH = 20, 6


def embedding(name, rows=NUM_IDS, **options):
    return v1.get_variable(name, [rows, WIDTH], **options)


def rows_of(features, name="ids", key="id"):
    return tf.nn.embedding_lookup(embedding(name), features[key][:, 0])


def inputs_of(features):
    return rows_of(features), rows_of(features, "others", "other_id"), features["numbers"]


def log_loss(labels, *parts):
    hidden = v1.layers.dense(tf.concat(parts, 1), 8, tf.tanh)
    return tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=v1.layers.dense(hidden, 1, use_bias=False))
    )


def plain_loss(features, labels):
    return log_loss(labels, *inputs_of(features))


def ragged_tags(features):
    return tf.RaggedTensor.from_tensor(features["tags"], tf.reduce_sum(tf.cast(features["tags"] >= 0, tf.int64), 1))


def sampled_classes(features, labels):
    """The weights of classes are looked up by labels and samples, in three partitions."""
    weights = embedding("classes", partitioner=v1.fixed_size_partitioner(3))
    biases = v1.get_variable("biases", [NUM_IDS])
    users = v1.layers.dense(tf.concat([rows_of(features), features["numbers"]], 1), WIDTH)
    classes = features["other_id"]
    losses = v1.nn.sampled_softmax_loss(weights, biases, classes, users, 10, NUM_IDS, seed=4, partition_strategy="div")
    return tf.reduce_mean(losses)


def contrasted_classes(features, labels):
    weights, biases = embedding("classes"), v1.get_variable("biases", [NUM_IDS])
    return tf.reduce_mean(v1.nn.nce_loss(weights, biases, features["other_id"], rows_of(features), 5, NUM_IDS))


def ragged_rows(features, labels):
    rows = tf.nn.embedding_lookup(embedding("tags", NUM_TAGS), ragged_tags(features))
    return log_loss(labels, tf.reduce_sum(rows, 1), rows_of(features))


def limited_norms(features, labels):
    tags = tf.sparse.from_dense(features["tags"] + 1)
    table = embedding("tags", NUM_TAGS + 1)
    rows = tf.nn.safe_embedding_lookup_sparse(table, tags, combiner="sqrtn", max_norm=1.0)
    return log_loss(labels, tf.reshape(rows, [-1, WIDTH]), rows_of(features))


def one_table_three_times(features, labels):
    """Looked up, gathered, and read as a whole by a penalty."""
    table = embedding("ids")
    a = tf.nn.embedding_lookup(table, features["id"][:, 0])
    b = tf.gather(table, (features["other_id"][:, 0] * 7 + 1) % NUM_IDS)
    return log_loss(labels, a * b, a - b) + 0.01 * tf.nn.l2_loss(table)


def own_gradient(features, labels):
    @tf.custom_gradient
    def clipped(rows):
        return tf.identity(rows), lambda gradients: tf.clip_by_norm(gradients, 0.01, axes=[1])

    return log_loss(labels, clipped(rows_of(features)), features["numbers"])


def computed_again(features, labels):
    kernel = v1.get_variable("kernel", [WIDTH + 3, 8])

    @tf.recompute_grad
    def block(inputs):
        return tf.tanh(tf.matmul(inputs, kernel))

    return log_loss(labels, block(tf.concat([rows_of(features), features["numbers"]], 1)))


def in_a_loop(features, labels):
    table = embedding("ids")
    ids = features["id"] + 0 * features["tags"]
    rows = tf.map_fn(lambda one: tf.nn.embedding_lookup(table, one), ids, fn_output_signature=tf.float32)
    return log_loss(labels, tf.reduce_sum(rows, 1), features["numbers"])


def click_and_buy(features, labels):
    """Two labels: a purchase needs a click."""
    return labels, labels * tf.cast(features["other_id"] % 2, tf.float32)


def probability(inputs):
    hidden = v1.layers.dense(inputs, 8, tf.nn.relu)
    return tf.sigmoid(v1.layers.dense(hidden, 1, use_bias=False))


def two_tasks_by_a_product(features, labels):
    """As ESMM: the towers share embeddings, and the second task's probability is a product."""
    click, buy = click_and_buy(features, labels)
    shared = tf.concat(inputs_of(features), 1)
    of_click = probability(shared)
    return v1.losses.log_loss(click, of_click) + v1.losses.log_loss(buy, of_click * probability(shared))


def two_tasks_by_experts(features, labels):
    """As MMoE: each task has gates over common experts, and its loss a weight that is trained."""
    shared = tf.concat(inputs_of(features), 1)
    experts = tf.stack([v1.layers.dense(shared, 6, tf.nn.relu) for _ in range(3)], 1)
    loss = 0.0
    for i, label in enumerate(click_and_buy(features, labels)):
        gates = v1.layers.dense(shared, 3, tf.nn.softmax)
        weight = v1.get_variable("weight_%d" % i, [], initializer=v1.zeros_initializer())
        loss += tf.exp(-weight) * log_loss(label, tf.reduce_sum(experts * gates[:, :, None], 1)) + weight
    return loss


def estimator_of(loss_fn, train):
    def model_fn(features, labels, mode):
        loss = loss_fn(features, labels)
        train_op = train(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, {"none": tf.zeros([1])}, loss, train_op)

    return lambda config: tf.estimator.Estimator(model_fn, config=config)


def minimize(loss, step):
    return v1.train.AdamOptimizer(0.01).minimize(loss, global_step=step)


@pytest.mark.parametrize(
    "loss_fn",
    [
        sampled_classes,
        contrasted_classes,
        ragged_rows,
        limited_norms,
        one_table_three_times,
        own_gradient,
        computed_again,
        in_a_loop,
        two_tasks_by_a_product,
        two_tasks_by_experts,
    ],
)
def test_a_loss(loss_fn, tmp_path, in_order):
    make = estimator_of(loss_fn, minimize)
    compare_estimators(make, input_fn(), tmp_path, STEPS, EXACT, session_config=in_order)


def of_even_ids(loss, step):
    """Rows of odd ids are left out of sparse gradients."""
    optimizer, kept = v1.train.AdamOptimizer(0.01), []
    for gradient, variable in optimizer.compute_gradients(loss):
        if isinstance(gradient, tf.IndexedSlices):
            even = tf.where(tf.equal(gradient.indices % 2, 0))[:, 0]
            values, indices = tf.gather(gradient.values, even), tf.gather(gradient.indices, even)
            gradient = tf.IndexedSlices(values, indices, gradient.dense_shape)
        kept.append((gradient, variable))
    return optimizer.apply_gradients(kept, global_step=step)


def of_four_steps(loss, step):
    """Gradients are gathered up in Variables, and applied at every fourth step."""
    optimizer = v1.train.AdagradOptimizer(0.1)
    gradients = optimizer.compute_gradients(loss)
    sums = [
        v1.get_variable(f"sum_{i}", initializer=tf.zeros(variable.shape), trainable=False)
        for i, (_, variable) in enumerate(gradients)
    ]
    add = [total.assign_add(tf.convert_to_tensor(gradient)) for total, (gradient, _) in zip(sums, gradients)]

    def apply():
        pairs = [(total.read_value() / 4, variable) for total, (_, variable) in zip(sums, gradients)]
        with tf.control_dependencies([optimizer.apply_gradients(pairs)]):
            clear = [total.assign(tf.zeros_like(total)) for total in sums]
        with tf.control_dependencies(clear):
            return tf.constant(True)

    with tf.control_dependencies(add):
        applied = tf.cond(tf.equal(step % 4, 3), apply, lambda: tf.constant(False))
    with tf.control_dependencies([applied]):
        return v1.assign_add(step, 1).op


@pytest.mark.parametrize("train", [of_even_ids, of_four_steps])
def test_gradients_that_the_program_handles(train, tmp_path, in_order):
    compare_estimators(estimator_of(plain_loss, train), input_fn(), tmp_path, STEPS, EXACT, session_config=in_order)
