"""Updates inside of a tf.cond over ranks: all take a step, or none, and tables and Variables are those of one process with the joined batch."""

import equal_training as equal
import launch
import numpy as np
import pytest
import table_training
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
BAD_STEPS = [1, 4, 5]  # Of the first rank, the last one, and the first.


def records(size, steps=8):
    """With a number for each row that is infinite in one row of some steps."""
    data = table_training.records(size, steps)
    factor = np.ones([steps, size * equal.BATCH], np.float32)
    for step, place in zip(BAD_STEPS, (0, -1, 1)):
        factor[step, place] = np.inf
    return {**data, "factor": factor}


def loss_of(features, tables):
    if tables:
        logits = table_training.logits_of(features)
    else:
        weights = [v1.get_variable(f"w{i}", [30, 3], use_resource=True) for i in range(2)]
        parts = [tf.nn.embedding_lookup(weight, features["id"] + 10) for weight in weights]
        logits = v1.layers.dense(tf.concat(parts, 1), 1)[:, 0]
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=features["label"], logits=logits)
    return tf.reduce_mean(losses * features["factor"])


def with_loss_scale(tables):
    def build(features):
        loss = loss_of(features, tables)
        scale = v1.mixed_precision.DynamicLossScale(initial_loss_scale=16.0, increment_period=2)
        made = v1.mixed_precision.MixedPrecisionLossScaleOptimizer(v1.train.AdagradOptimizer(0.2), scale)
        return loss, made.minimize(loss)

    return build


def under(condition, tables):
    def build(features):
        loss = loss_of(features, tables)
        made = v1.train.AdagradOptimizer(0.2)
        gradients = made.compute_gradients(loss)
        take = condition(features, gradients)
        return loss, tf.cond(take, lambda: made.apply_gradients(gradients), tf.no_op)

    return build


def own_input_is_finite(features, gradients):
    return tf.reduce_all(tf.math.is_finite(features["factor"]))


def rows_of_user(gradients):
    """Of a table's gradient, of which each rank sees its own rows."""
    return next(g.values for g, v in gradients if v.op.name == "user")


def all_rows_are_finite(features, gradients):
    return tf.reduce_all(tf.math.is_finite(rows_of_user(gradients)))


def no_row_is_not_finite(features, gradients):
    return tf.logical_not(tf.reduce_any(tf.logical_not(tf.math.is_finite(rows_of_user(gradients)))))


CASES = {
    "all rows, tables": under(all_rows_are_finite, True),
    "any row, tables": under(no_row_is_not_finite, True),
    "scale, tables": with_loss_scale(True),
    "scale, Variables": with_loss_scale(False),
    "condition, tables": under(own_input_is_finite, True),
    "condition, Variables": under(own_input_is_finite, False),
    "scale, tables, v1": table_training.with_v1_control_flow(with_loss_scale(True)),
    "condition, tables, v1": table_training.with_v1_control_flow(under(own_input_is_finite, True)),
    "condition, Variables, v1": table_training.with_v1_control_flow(under(own_input_is_finite, False)),
}


def train(rank, size):
    found = {}
    data = equal.part(records(size), rank, size)
    for name, build in CASES.items():
        tf_booster.enable_gpu_booster(seed=3)
        found[name] = table_training.train(build, data)
        tf_booster.disable_gpu_booster()
    return found


@pytest.fixture(name="found", scope="module", params=[2, 3])
def _found(request):
    return launch.values(train, request.param, seconds=300)


@pytest.mark.parametrize("name", CASES)
def test_ranks_train_what_one_process_trains(found, name):
    ranks = [rank[name] for rank in found]
    joined = table_training.alone(CASES[name], records(len(found)), seed=3)
    finite = np.isfinite(joined["losses"])  # The average of the ranks' is infinite, too, where one is.
    assert finite.sum() == 8 - len(BAD_STEPS)
    for trained in (joined, *ranks):
        trained["losses"] = trained["losses"][finite]
    assert not table_training.differences(joined, ranks)
    if "tables" in name:
        assert {int(table["step"]) for table in joined["tables"].values()} == {8 - len(BAD_STEPS)}
    by_name = {p["name"]: p for p in ranks[0]["report"]["passes"]}
    assert by_name["conditional_updates"]["modified"]
    assert by_name["agreed_updates"]["modified"] == name.startswith("condition")
    assert ranks[0]["report"]["collectives_per_step"]["other"] == ranks[-1]["report"]["collectives_per_step"]["other"]
