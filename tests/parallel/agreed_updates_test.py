"""Updates that read the loss or the batch besides their gradients, over ranks: all ranks have the same Variables, which are those of the joined batch."""

import equal_training as equal
import launch
import numpy as np
import pytest
import table_training
import tensorflow as tf

import tf_booster
from tf_booster.parallel import ranks, row_weights

v1 = tf.compat.v1
SIZE = 2


def records():
    """What is fed as "rate" is the same everywhere."""
    data = table_training.records(SIZE, 6)
    return {**data, "rate": np.linspace(0.1, 0.9, 6, dtype=np.float32)}


def part(rank, name):
    data = records()
    rate = data.pop("rate")
    rows = slice(11) if rank == 0 else slice(11, None)
    uneven = {feature: values[:, rows] for feature, values in data.items()}
    return {**(uneven if "uneven" in name else equal.part(data, rank, SIZE)), "rate": rate}


def loss_of(features, tables=False):
    """Mean over the rows; the second half of them, which is rank 1's, has a larger one."""
    if tables:
        return table_training.mean_loss({name: value for name, value in features.items() if name != "rate"})
    weights = [v1.get_variable(f"w{i}", [30, 3], use_resource=True) for i in range(2)]
    parts = [tf.nn.embedding_lookup(weight, features["id"] + 10) for weight in weights]
    logits = v1.layers.dense(tf.concat(parts, 1), 1)[:, 0]
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=features["label"], logits=logits))


def with_rate(rate, tables=False):
    """Of an optimizer whose learning rate is rate(loss, features)."""

    def build(features):
        loss = loss_of(features, tables)
        return loss, v1.train.AdagradOptimizer(rate(loss, features)).minimize(loss)

    return build


def scaled(scale):
    """Gradients times scale(loss, features)."""

    def build(features):
        loss = loss_of(features)
        made = v1.train.GradientDescentOptimizer(0.5)
        pairs = [(g, v) for g, v in made.compute_gradients(loss) if not isinstance(g, tf.IndexedSlices)]
        return loss, made.apply_gradients([(g * scale(loss, features), v) for g, v in pairs])

    return build


def under(condition, otherwise, rate=lambda loss, features: 0.5 * loss):
    """Updates in a tf.cond."""

    def build(features):
        loss = loss_of(features)
        step = v1.train.get_or_create_global_step()
        made = v1.train.AdagradOptimizer(rate(loss, features))
        pairs = made.compute_gradients(loss)
        return loss, tf.cond(
            condition(loss, features), lambda: made.apply_gradients(pairs, step), lambda: otherwise(step)
        )

    return build


def two_losses(features):
    """What the rate is made of is differentiated, and so is what that is made of."""
    loss = loss_of(features)
    other = 3.0 * loss
    tables = [v for v in v1.trainable_variables() if v.op.name.startswith("w")]
    layer = [v for v in v1.trainable_variables() if v not in tables]
    first = v1.train.GradientDescentOptimizer(0.2).minimize(loss, var_list=tables)
    return loss, tf.group(
        first, v1.train.GradientDescentOptimizer(0.03 * tf.square(other)).minimize(other, var_list=layer)
    )


def of_uneven_batches(features):
    """As the input of an Estimator over ranks has them, which says how many rows a rank's batch has."""
    if ranks.current().size > 1:
        rows = tf.cast(tf.shape(features["label"])[0], tf.float32)
        row_weights.register(tf.compat.v1.get_default_graph(), row_weights.RowWeights(rows, tf.ones([])))
    rate = with_rate(lambda loss, features: tf.square(loss) + 0.1 * tf.reduce_mean(features["label"]))
    return rate(features)


def sum_with_regulariser(features):
    """Of the joined batch's loss the regulariser is a part once."""
    weight = v1.get_variable("w", [30, 3], use_resource=True)
    rows = tf.nn.embedding_lookup(weight, features["id"] + 10)
    loss = tf.reduce_sum(tf.square(tf.reduce_sum(rows, 1) - features["label"])) + 0.5 * tf.nn.l2_loss(weight)
    return loss, v1.train.GradientDescentOptimizer(1e-4 * loss).minimize(loss)


def by_labels(loss, features):
    return 0.2 + tf.reduce_mean(features["label"])


def count(step):
    return tf.group(v1.assign_add(step, 1))


def nothing(step):
    return tf.no_op()


def by_average_of_losses(loss, features):
    """A rate that follows a moving average, which is a Variable that no gradient moves."""
    average = v1.get_variable("average", [], initializer=v1.zeros_initializer(), trainable=False, use_resource=True)
    with tf.control_dependencies([v1.assign(average, 0.7 * average + 0.3 * loss)]):
        return 0.5 * tf.square(average.read_value())


def where_small(loss, features):
    return loss < 0.69


CASES = {
    "rate by the loss": with_rate(lambda loss, features: 0.5 * tf.minimum(tf.square(loss), 1.0)),
    "rate by the loss, tables": with_rate(lambda loss, features: 0.5 * tf.square(loss), tables=True),
    "rate by an average of losses": with_rate(by_average_of_losses),
    "rate that is fed": with_rate(lambda loss, features: features["rate"]),
    "rate that is fed, of any shape": with_rate(
        lambda loss, features: v1.placeholder_with_default(features["rate"], None) * 1.0
    ),
    "rate by the batch": with_rate(by_labels),
    "rate by the batch, in a v1 cond": table_training.with_v1_control_flow(under(where_small, count, by_labels)),
    "rate by one of two losses": two_losses,
    "rate by the loss of uneven batches": of_uneven_batches,
    "rate by the loss, a sum": sum_with_regulariser,
    "scaled by the loss": scaled(lambda loss, features: tf.exp(-loss)),
    "skipped by the loss": under(where_small, nothing),
    "counted by the loss": under(where_small, count),
    "skipped by the loss, v1": table_training.with_v1_control_flow(under(where_small, nothing)),
    "counted by the loss, v1": table_training.with_v1_control_flow(under(where_small, count)),
}
ALIKE = {
    # Not what one process computes, and the same on all ranks.
    "noise": scaled(lambda loss, features: 1.0 + tf.random.normal([], seed=None)),
    "size of the batch": scaled(lambda loss, features: 4.0 / tf.cast(tf.shape(features["id"])[0], tf.float32)),
    "square of the batch": scaled(lambda loss, features: tf.square(tf.reduce_mean(features["label"]))),
    "skipped by the batch": under(lambda loss, features: tf.reduce_mean(features["label"]) > 0.4, count),
    "skipped by the batch, v1": table_training.with_v1_control_flow(
        under(lambda loss, features: tf.reduce_mean(features["label"]) > 0.4, count)
    ),
}
APART = {  # What ranks cannot agree on.
    "by one row": scaled(lambda loss, features: tf.reshape(features["label"][:1], [1])),
}


def train(rank, size):
    found = {}
    for name, build in {**CASES, **ALIKE, **APART}.items():
        tf_booster.enable_gpu_booster(seed=3, gradient_reduction="sum" if "sum" in name else "average")
        found[name] = table_training.train(build, part(rank, name))
        tf_booster.disable_gpu_booster()
    return found


@pytest.fixture(name="found", scope="module")
def _found():
    return launch.values(train, SIZE, seconds=300)


def told(rank):
    return next(p for p in rank["report"]["passes"] if p["name"] == "agreed_updates")


@pytest.mark.parametrize("name", CASES)
def test_ranks_train_what_one_process_trains(found, name):
    trained = [rank[name] for rank in found]
    joined = table_training.alone(CASES[name], records(), seed=3)
    wrong = table_training.differences(joined, trained)
    if "uneven" in name or "sum" in name:
        wrong.pop("losses")  # Each rank's own, neither whose mean nor whose sum is the joined batch's.
    assert not wrong
    assert told(trained[0])["modified"]
    if "loss" in name:
        assert "uneven" in name or not told(trained[0])["skipped"]


@pytest.mark.parametrize("name", ALIKE)
def test_ranks_stay_alike(found, name):
    first, second = (rank[name] for rank in found)
    for variable, value in first["variables"].items():
        np.testing.assert_array_equal(value, second["variables"][variable], variable)
    mean = any("mean of all" in left["reason"] for left in told(first)["skipped"])
    assert told(first)["modified"] and mean == name.endswith("of the batch")


@pytest.mark.parametrize("name", APART)
def test_what_stays_each_ranks_own_is_told(found, name):
    left = told(found[0][name])["skipped"]
    assert left and all("differ between ranks" in each["reason"] for each in left)


def in_turn(rank, size):
    """Two train ops, each of a loss of its own batch, and with a rate of it; a run feeds what its own needs."""
    tf_booster.enable_gpu_booster()
    with tf.Graph().as_default() as graph:
        fed = [v1.placeholder(tf.float32, [None], f"fed_{i}") for i in range(2)]
        weights = [
            v1.get_variable(f"w{i}", [], initializer=v1.zeros_initializer(), use_resource=True) for i in range(2)
        ]
        trains = []
        for x, w in zip(fed, weights):
            loss = tf.reduce_mean(tf.square(w - x))
            rate = 0.1 + tf.reduce_mean(x) * 0.1
            trains.append(v1.train.GradientDescentOptimizer(rate).minimize(loss))
        tf_booster.rewrite_graph(graph)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for step in range(4):
                session.run(trains[step % 2], {fed[step % 2]: [1.0 + rank, 2.0]})
            return session.run(weights)


def test_train_ops_in_turn_do_not_wait_for_each_others():
    want = 0.0
    for _ in range(2):  # The mean over the four rows is 1.75, and so is that of the ranks' means.
        want -= (0.1 + 0.175) * 2 * (want - 1.75)
    for values in launch.values(in_turn, SIZE):
        np.testing.assert_allclose(values, [want, want], rtol=1e-6)
