"""Updates that read the loss or the batch besides their gradients, over ranks: all ranks have the same Variables, which are those of the joined batch."""

import equal_training as equal
import launch
import numpy as np
import pytest
import table_training
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
SIZE = 2


def records():
    """What is fed as "rate" is the same everywhere."""
    data = table_training.records(SIZE, 6)
    return {**data, "rate": np.linspace(0.1, 0.9, 6, dtype=np.float32)}


def part(rank):
    data = records()
    rate = data.pop("rate")
    return {**equal.part(data, rank, SIZE), "rate": rate}


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


def under(condition, otherwise):
    def build(features):
        loss = loss_of(features)
        step = v1.train.get_or_create_global_step()
        made = v1.train.AdagradOptimizer(0.5 * loss)
        pairs = made.compute_gradients(loss)
        return loss, tf.cond(
            condition(loss, features), lambda: made.apply_gradients(pairs, step), lambda: otherwise(step)
        )

    return build


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


def with_v1_control_flow(build):
    def built(features):
        v1.disable_control_flow_v2()
        try:
            return build(features)
        finally:
            v1.enable_control_flow_v2()

    return built


CASES = {
    "rate by the loss": with_rate(lambda loss, features: 0.5 * tf.minimum(tf.square(loss), 1.0)),
    "rate by the loss, tables": with_rate(lambda loss, features: 0.5 * tf.square(loss), tables=True),
    "rate by an average of losses": with_rate(by_average_of_losses),
    "rate that is fed": with_rate(lambda loss, features: features["rate"]),
    "rate that is fed, of any shape": with_rate(
        lambda loss, features: v1.placeholder_with_default(features["rate"], None) * 1.0
    ),
    "rate by the batch": with_rate(lambda loss, features: 0.2 + tf.reduce_mean(features["label"])),
    "scaled by the loss": scaled(lambda loss, features: tf.exp(-loss)),
    "skipped by the loss": under(where_small, nothing),
    "counted by the loss": under(where_small, count),
    "skipped by the loss, v1": with_v1_control_flow(under(where_small, nothing)),
    "counted by the loss, v1": with_v1_control_flow(under(where_small, count)),
}
ALIKE = {
    # Not what one process computes, and the same on all ranks.
    "noise": scaled(lambda loss, features: 1.0 + tf.random.normal([], seed=None)),
    "size of the batch": scaled(lambda loss, features: 4.0 / tf.cast(tf.shape(features["id"])[0], tf.float32)),
    "square of the batch": scaled(lambda loss, features: tf.square(tf.reduce_mean(features["label"]))),
    "skipped by the batch": under(lambda loss, features: tf.reduce_mean(features["label"]) > 0.4, count),
}
APART = {  # What ranks cannot agree on.
    "by one row": scaled(lambda loss, features: tf.reshape(features["label"][:1], [1])),
}


def train(rank, size):
    found = {}
    for name, build in {**CASES, **ALIKE, **APART}.items():
        tf_booster.enable_gpu_booster(seed=3)
        found[name] = table_training.train(build, part(rank))
        tf_booster.disable_gpu_booster()
    return found


@pytest.fixture(name="found", scope="module")
def _found():
    return launch.values(train, SIZE, seconds=300)


def told(rank):
    return next(p for p in rank["report"]["passes"] if p["name"] == "agreed_updates")


@pytest.mark.parametrize("name", CASES)
def test_ranks_train_what_one_process_trains(found, name):
    ranks = [rank[name] for rank in found]
    joined = table_training.alone(CASES[name], records(), seed=3)
    assert not table_training.differences(joined, ranks)
    assert told(ranks[0])["modified"]
    if "loss" in name:
        assert not told(ranks[0])["skipped"]


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
