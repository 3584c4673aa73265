"""Models that rank items for users, as they are written for stock TensorFlow, and batches of which users repeat."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
fc = tf.feature_column

USER_FEATURES = ("user_id", "user_name", "age", "user_tags", "tag_weights", "user_words", "history")
NAMES = ["ann", "bob", "cat", "dan", ""]


def _ragged(rng, rows, draw):
    """Entries of up to four to a row; some rows have none."""
    return [[draw(rng) for _ in range(rng.randint(0, 5))] for _ in range(rows)]


def _sparse(rows, dtype):
    indices = [(r, c) for r, row in enumerate(rows) for c in range(len(row))]
    values = np.array([value for row in rows for value in row], dtype)
    return v1.SparseTensorValue(np.array(indices, np.int64).reshape(-1, 2), values, np.array([len(rows), 4], np.int64))


def batch(users, seed=0):
    """Features of a batch in which row i is of user users[i]; what is said of a user follows from his number. Items differ in every row."""
    users, count = np.asarray(users, np.int64), len(users)
    rng = np.random.RandomState(7)
    total = int(users.max(initial=0)) + 1
    tags, words = _ragged(rng, total, lambda r: r.randint(-1, 30)), _ragged(rng, total, lambda r: f"w{r.randint(9)}")
    age, history = rng.rand(total) * 60, rng.randint(0, 40, (total, 5))
    items = np.random.RandomState(seed)
    return {
        "user_id": users[:, None],
        "user_name": np.array(NAMES, object)[users % len(NAMES)][:, None],
        "age": age[users][:, None].astype(np.float32),
        "user_tags": _sparse([tags[u] for u in users], np.int64),
        "tag_weights": _sparse([[0.25 * (t % 4) for t in tags[u]] for u in users], np.float32),
        "user_words": _sparse([words[u] for u in users], object),
        "history": history[users].astype(np.int64),
        "item_id": items.randint(0, 40, (count, 1)).astype(np.int64),
        "item_tags": _sparse(_ragged(items, count, lambda r: r.randint(0, 30)), np.int64),
        "price": items.rand(count, 1).astype(np.float32),
    }


def _ids(key, size, hash_tables, dtype=tf.int64):
    if hash_tables:
        return tf_booster.feature_column.categorical_column_with_hash_table(key, dtype)
    if dtype == tf.string:
        return fc.categorical_column_with_hash_bucket(key, size)
    return fc.categorical_column_with_identity(key, size, default_value=0)


def user_columns(hash_tables=False):
    tags = _ids("user_tags", 30, False)
    return [
        fc.embedding_column(_ids("user_id", 1000, hash_tables), 8),
        fc.embedding_column(fc.categorical_column_with_vocabulary_list("user_name", NAMES[:3], num_oov_buckets=2), 4),
        fc.embedding_column(_ids("user_words", 50, hash_tables, tf.string), 8, combiner="sqrtn"),
        fc.embedding_column(fc.weighted_categorical_column(tags, "tag_weights"), 4),
        fc.indicator_column(_ids("user_name", 6, False, tf.string)),
        fc.bucketized_column(fc.numeric_column("age"), [20.0, 40.0]),
        fc.numeric_column("age"),
    ]


def item_columns(hash_tables=False):
    columns = [fc.embedding_column(_ids("item_id", 40, hash_tables), 8), fc.numeric_column("price")]
    return [*columns, fc.embedding_column(_ids("item_tags", 30, hash_tables), 4)]


def linear_columns():
    age = fc.bucketized_column(fc.numeric_column("age"), [20.0, 40.0])
    name = fc.categorical_column_with_vocabulary_list("user_name", NAMES[:3])
    columns = [age, name, fc.categorical_column_with_identity("item_id", 40)]
    columns += [fc.crossed_column([age, "user_name"], 30), fc.crossed_column(["user_name", "item_id"], 30)]
    return [*columns, fc.categorical_column_with_hash_bucket("user_words", 50)]


def _spec(mode, labels, logits, **more):
    predictions = {"score": tf.sigmoid(logits), **more}
    if mode == tf.estimator.ModeKeys.PREDICT:
        outputs = {"serving_default": tf.estimator.export.PredictOutput(predictions)}
        return tf.estimator.EstimatorSpec(mode, predictions, export_outputs=outputs)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.cast(labels, tf.float32), logits=logits))
    train_op = v1.train.AdagradOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    metrics = {"mean": v1.metrics.mean(logits)}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def _tower(x, widths, name, training):
    for i, width in enumerate(widths):
        x = v1.layers.dense(x, width, tf.nn.relu, name=f"{name}_{i}")
        x = v1.layers.batch_normalization(x, training=training, name=f"{name}_{i}/norm")
    return x


def two_towers(features, labels, mode, params):
    """A DSSM: the user's vector is given out, too."""
    training = mode == tf.estimator.ModeKeys.TRAIN
    tables = params.get("hash_tables", False)
    user = v1.feature_column.input_layer(features, user_columns(tables))
    item = v1.feature_column.input_layer(features, item_columns(tables))
    user = tf.nn.l2_normalize(_tower(user, (32, 16), "user", training), 1)
    item = tf.nn.l2_normalize(_tower(item, (32, 16), "item", training), 1)
    return _spec(mode, labels, 3 * tf.reduce_sum(user * item, 1, keepdims=True), user_vector=user)


def deep_fm(features, labels, mode, params):
    """Sums over all fields' vectors, and a tower over these beside each other and the attention of an item over the user's history."""
    del params
    ids = {"user_id": 1000, "item_id": 40}
    vectors = []
    for key, size in ids.items():
        table = v1.get_variable(f"vector_{key}", [size, 8], use_resource=True)
        vectors.append(tf.nn.embedding_lookup(table, features[key][:, 0]))
    items = v1.get_variable("vector_item_id_too", [40, 8], use_resource=True)
    history = tf.nn.embedding_lookup(items, features["history"])  # [batch, 5, 8]
    history = v1.layers.dense(history, 8, tf.nn.tanh, name="history")
    names = tf.strings.to_hash_bucket_fast(features["user_name"], 50)
    vectors.append(tf.reshape(tf.nn.embedding_lookup(items, names % 40), [-1, 8]))
    attention = tf.nn.softmax(tf.einsum("bd,btd->bt", vectors[1], history))
    vectors += [tf.reduce_mean(history, 1), tf.reduce_sum(attention[:, :, None] * history, 1)]
    stacked = tf.stack(vectors, 1)
    sums = 0.5 * tf.reduce_sum(tf.square(tf.reduce_sum(stacked, 1)) - tf.reduce_sum(tf.square(stacked), 1), 1, True)
    age = tf.math.log1p(features["age"])
    deep = tf.concat([tf.reshape(stacked, [-1, 8 * len(vectors)]), age, features["price"]], 1)
    deep = _tower(deep, (32, 16), "deep", mode == tf.estimator.ModeKeys.TRAIN)
    return _spec(mode, labels, sums + v1.layers.dense(deep, 1))


def shared(features, labels, mode, params):
    """One table for the user's tags and the item's, which feature columns make in a graph only."""
    del params
    columns = [fc.categorical_column_with_identity(key, 30, default_value=0) for key in ("user_tags", "item_tags")]
    columns = fc.shared_embeddings(columns, 6)
    dense = tf.keras.layers.DenseFeatures([*columns, fc.numeric_column("price")])(features)
    return _spec(mode, labels, v1.layers.dense(_tower(dense, (16,), "deep", False), 1))


def canned(kind):
    def make(model_dir):
        columns = user_columns() + item_columns()
        if kind == "dnn":
            return tf.estimator.DNNClassifier([32, 16], columns, model_dir)
        return tf.estimator.DNNLinearCombinedClassifier(
            model_dir, linear_feature_columns=linear_columns(), dnn_feature_columns=columns, dnn_hidden_units=[32, 16]
        )

    return make


def custom(model_fn, **params):
    return lambda model_dir: tf.estimator.Estimator(model_fn, model_dir, params=params)


MODELS = {
    "dnn": canned("dnn"),
    "wide and deep": canned("wide and deep"),
    "two towers": custom(two_towers),
    "two towers over hash tables": custom(two_towers, hash_tables=True),
    "deep fm": custom(deep_fm),
    "shared": custom(shared),
}


def train(make, model_dir):
    """An Estimator that was trained for two steps."""
    made = make(model_dir)
    users = np.arange(24) // 4
    features, labels = batch(users), (users % 2)[:, None]
    made.train(lambda: tf.data.Dataset.from_tensors((features, labels)).repeat(2))
    return made
