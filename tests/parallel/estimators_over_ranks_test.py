"""Estimators, canned and custom, with batch B on each rank against one process with the joined batch."""

import os

import equal_training as equal
import launch
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
fc = tf.feature_column
SIZE = 3


def columns():
    ids = fc.categorical_column_with_identity("id", equal.NUM_IDS)
    other = fc.categorical_column_with_hash_bucket("other_id", 20, tf.int64)
    tags = fc.categorical_column_with_identity("tags", equal.NUM_TAGS)
    numbers = fc.numeric_column("numbers", 3)
    deep = [
        fc.embedding_column(ids, 4),
        fc.embedding_column(tags, 3, combiner="sqrtn"),
        fc.indicator_column(other),
        numbers,
    ]
    return [ids, tags, fc.crossed_column([ids, "other_id"], 30), numbers], deep


def canned(api):
    def make(config):
        linear, deep = columns()
        estimators = v1.estimator if api == "v1" else tf.estimator
        return estimators.DNNLinearCombinedClassifier(
            linear_feature_columns=linear, dnn_feature_columns=deep, dnn_hidden_units=[8, 4], config=config
        )

    return make


def custom(total, optimizer=lambda: v1.train.AdamOptimizer(0.01)):
    """A loss of data and of Variables: by a regularizer, by hand, and over a whole table, which makes its gradient dense."""

    def model_fn(features, labels, mode):
        regularizer = tf.keras.regularizers.l2(0.02)
        with v1.variable_scope("", regularizer=regularizer):
            logits = equal.logits_of(features)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels[:, 0], logits=logits)
        data = tf.reduce_sum(losses) if total == "sum" else tf.reduce_mean(losses)
        tags = [v for v in v1.trainable_variables() if v.op.name == "tags"]
        loss = 0.5 * (data + v1.losses.get_regularization_loss()) + 0.03 * tf.nn.l2_loss(tags[0])
        v1.add_to_collection(v1.GraphKeys.LOSSES, loss)
        train_op = equal.minimize(optimizer(), "global norm" if total == "mean" else "norm", loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return lambda config: tf.estimator.Estimator(model_fn, config=config)


def in_turn(config):
    """The dense part is trained behind the embeddings, by another optimizer."""

    def model_fn(features, labels, mode):
        logits = equal.logits_of(features)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels[:, 0], logits=logits))
        embeddings = [v for v in v1.trainable_variables() if v.op.name in ("ids", "tags")]
        dense = [v for v in v1.trainable_variables() if v.op.name not in ("ids", "tags")]
        with tf.control_dependencies([v1.train.AdagradOptimizer(0.1).minimize(loss, var_list=embeddings)]):
            train_op = v1.train.AdamOptimizer(0.01).minimize(loss, v1.train.get_global_step(), var_list=dense)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return tf.estimator.Estimator(model_fn, config=config)


CASES = {
    "canned v1": (canned("v1"), "average"),
    "canned v2": (canned("v2"), "average"),
    "mean": (custom("mean"), "average"),
    "in turn": (in_turn, "average"),
    "sum": (custom("sum", lambda: v1.train.MomentumOptimizer(0.005, 0.9)), "sum"),
}


def data_of(size):
    data = equal.records(size)
    return {**data, "label": data["label"][..., None]}


def train_cases(rank, size, folder):
    data = data_of(size)
    found, joined = {}, {}
    for name, (make, reduction) in CASES.items():
        tf.enable_gpu_booster(gradient_reduction=reduction, shard_input=False)
        path = os.path.join(folder, name.replace(" ", "_"))
        found[name] = equal.train_estimator(make, equal.part(data, rank, size), path)
    tf_booster.disable_gpu_booster()
    for i, (name, (make, _)) in enumerate(CASES.items()):
        if i % size == rank:  # Plain TensorFlow knows no ranks: each trains some of the cases.
            path = os.path.join(folder, f"plain{i}")
            one = lambda d, make=make, path=path: equal.train_estimator(make, d, f"{path}_{id(d)}")
            joined[name] = equal.reference(one, data, found[name])
    return found, joined


def test_estimators_train_as_one_process(tmp_path):
    outcomes = launch.values(train_cases, SIZE, folder=str(tmp_path), seconds=400)
    wrong, collectives = {}, {}
    for i, name in enumerate(CASES):
        found = [outcome[0][name] for outcome in outcomes]
        joined, noise = outcomes[i % SIZE][1][name]
        assert joined["step"] == equal.STEPS
        wrong[name] = equal.worst(joined, found, noise)
        for each in found:  # Every rank's Estimator tells the loss of the joined batch.
            wrong[name] += equal.worst(joined, [each], noise)
        collectives[name] = found[0]["report"]["collectives_per_step"]
    assert {name: reason for name, reason in wrong.items() if reason} == {}
    assert collectives == {
        "canned v1": {"tables": 0, "dense": 1, "sparse": 1, "other": 0},
        "canned v2": {"tables": 0, "dense": 1, "sparse": 1, "other": 0},
        "mean": {"tables": 0, "dense": 1, "sparse": 0, "other": 0},
        "in turn": {"tables": 0, "dense": 1, "sparse": 1, "other": 1},
        "sum": {"tables": 0, "dense": 1, "sparse": 0, "other": 0},
    }
    told = {name: str(outcomes[0][0][name]["report"]) for name in CASES}
    assert "summed: its head reduces the loss by weighted_sum" in told["canned v1"]
    assert "averaged, weighted by rows: its head reduces the loss by sum_over_batch_size" in told["canned v2"]
    assert "counts once" in told["sum"] and "gradient_reduction='sum'" in told["sum"]
