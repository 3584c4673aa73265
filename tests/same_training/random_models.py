"""The models of random_estimators.py, by their settings."""

from __future__ import annotations

from typing import Any, Dict

import tensorflow as tf

v1 = tf.compat.v1
fc = tf.feature_column
legacy = tf.keras.optimizers.legacy
OPTIMIZERS = {
    "adagrad": v1.train.AdagradOptimizer,
    "adam": v1.train.AdamOptimizer,
    "sgd": v1.train.GradientDescentOptimizer,
    "momentum": lambda rate: v1.train.MomentumOptimizer(rate, 0.9),
    "nesterov": lambda rate: v1.train.MomentumOptimizer(rate, 0.9, use_nesterov=True),
    "ftrl": lambda rate: v1.train.FtrlOptimizer(rate, l1_regularization_strength=0.01),
    "ftrl_shrinkage": lambda rate: v1.train.FtrlOptimizer(rate, l2_shrinkage_regularization_strength=0.02),
    "rmsprop": lambda rate: v1.train.RMSPropOptimizer(rate, momentum=0.3),
    "centered_rmsprop": lambda rate: v1.train.RMSPropOptimizer(rate, centered=True),
    "proximal_adagrad": lambda rate: v1.train.ProximalAdagradOptimizer(rate, l1_regularization_strength=0.001),
    "adadelta": v1.train.AdadeltaOptimizer,
    "keras_adam": lambda _: legacy.Adam(0.05),
    "keras_amsgrad": lambda _: legacy.Adam(0.05, amsgrad=True),
    "keras_adagrad": lambda _: legacy.Adagrad(0.05),
    "keras_momentum": lambda _: legacy.SGD(0.05, momentum=0.5),
    "keras_rmsprop": lambda _: legacy.RMSprop(0.05),
}
CLIPS = {
    None: lambda gradients: gradients,
    "global norm": lambda gradients: tf.clip_by_global_norm(gradients, 0.5)[0],
    "value": lambda gradients: [tf.clip_by_value(g, -0.02, 0.02) for g in gradients],
    "norm": lambda gradients: [tf.clip_by_norm(g, 0.1) for g in gradients],
}


def categorical(f: Dict[str, Any]) -> Any:
    if f["vocabulary"]:
        words = [f"w{i}" for i in range(f["ids"] // 2 + 1)]
        known = words if f["kind"] == "words" else list(range(len(words)))
        others = {"num_oov_buckets": 3} if f["vocabulary"] == "oov" else {"default_value": 0}
        column = fc.categorical_column_with_vocabulary_list(f["name"], known, **others)
    elif f["kind"] == "words":
        column = fc.categorical_column_with_hash_bucket(f["name"], f["ids"])
    elif f["hashed"]:
        column = fc.categorical_column_with_hash_bucket(f["name"], 2 * f["ids"], tf.int64)
    else:
        column = fc.categorical_column_with_identity(f["name"], f["ids"])
    # TensorFlow without Grappler squares the weights of sqrtn by a power, which has other bits than a product.
    weighted = f["weighted"] and f["combiner"] != "sqrtn"
    return fc.weighted_categorical_column(column, f["name"] + "_weights") if weighted else column


def embedded(f: Dict[str, Any], features: Dict[str, Any], first: str) -> tf.Tensor:
    """One feature as the model sees it."""
    use, ids = f["use"], features[f["name"]]
    in_row = lambda column: v1.feature_column.input_layer(features, [column])
    if use == "indicator":
        return in_row(fc.indicator_column(categorical(f)))
    if use == "crossed" and first != f["name"]:
        return in_row(fc.embedding_column(fc.crossed_column([f["name"], first], 50), f["dim"]))
    if use == "shared":
        return in_row(v1.feature_column.shared_embedding_columns([categorical(f)], f["dim"], f["combiner"])[0])
    if use in ("lookup", "gather") and f["kind"] != "words":
        table = v1.get_variable(f"table_{f['name']}", [f["ids"], f["dim"]])
        if isinstance(ids, tf.SparseTensor):
            return v1.nn.safe_embedding_lookup_sparse(table, ids, combiner=f["combiner"])
        if use == "lookup":
            return tf.reduce_mean(tf.nn.embedding_lookup(table, ids), 1)
        distinct, places = tf.unique(tf.reshape(ids, [-1]))
        rows = tf.gather(tf.nn.embedding_lookup(table, distinct), places)
        return tf.reshape(rows, [-1, ids.shape[1] * f["dim"]])
    column = fc.embedding_column(categorical(f), f["dim"], f["combiner"], max_norm=f["max_norm"])
    return tf.keras.layers.DenseFeatures([column])(features) if use == "v2 column" else in_row(column)


def bucketed(case: Dict[str, Any], features: Dict[str, Any]) -> tf.Tensor:
    """The numbers by their buckets."""
    buckets = fc.bucketized_column(fc.numeric_column("numbers", [case["numbers"]]), [-1.0, 0.0, 0.5])
    if case["buckets"] == "one-hot":
        return v1.feature_column.input_layer(features, [buckets])
    crossed = fc.crossed_column([buckets, case["features"][0]["name"]], 30)
    embedding = fc.embedding_column(buckets if case["buckets"] == "embedded" else crossed, 4)
    return v1.feature_column.input_layer(features, [embedding])


def interaction(case: Dict[str, Any], features: Dict[str, Any]) -> Any:
    """A factorization machine over vectors of all features: what its logit is made of, and what the tower reads."""
    how, columns = case["interaction"], case["interaction"]["columns"]
    width = columns + (how["first_order"] != "none")
    with v1.variable_scope("interaction"):
        rows = [
            v1.feature_column.input_layer(features, [fc.embedding_column(categorical(f), width, f["combiner"])])
            for f in case["features"]
        ]
    if how["laid"] == "stack":
        vectors = tf.stack(rows, 1)
    else:
        vectors = tf.reshape(tf.concat(rows, 1), [-1, len(rows), width])
    logits, tower = [], []
    if how["first_order"] == "in front":
        first, vectors = tf.split(vectors, [1, columns], axis=2)
        logits.append(tf.reduce_sum(first, 1))
    elif how["first_order"] == "behind":
        vectors, first = tf.split(vectors, [columns, 1], axis=-1)
        logits.append(tf.reduce_sum(first, [1, 2])[:, tf.newaxis])
    if how["first_order"] != "none" and case["wiring"]["first_in_tower"] != "no":
        flat = case["wiring"]["first_in_tower"] == "flat"
        tower.append(tf.reshape(first, [-1, len(rows)]) if flat else tf.reduce_sum(first, 1))
    keep = how["written"] == "keepdims"
    total = tf.reduce_sum(vectors, 1, keepdims=keep)
    squares = vectors * vectors if how["written"] == "product" else tf.square(vectors)
    pairs = 0.5 * tf.subtract(tf.square(total), tf.reduce_sum(squares, 1, keepdims=keep))
    pairs = tf.squeeze(pairs, 1) if keep else pairs
    if how["sums_up"]:
        logits.append(tf.reduce_sum(pairs, 1, keepdims=True))
    if not how["sums_up"]:
        tower.append(pairs)
    if how["in_tower"]:
        tower.append(tf.reshape(vectors, [-1, len(rows) * columns]))
    # A tower of its own, as most have it.
    return logits, [tf.concat(tower, 1)] if len(tower) > 1 else tower


def beside(how: str, inputs: Any) -> Any:
    """What a model makes of its features' vectors beside the join that the tower reads, as people do."""
    if how == "joined again":
        return [v1.layers.dense(tf.concat(inputs[::-1], 1), 3, tf.nn.tanh)]
    if how == "crossed":  # A layer of a deep and cross network.
        x = tf.concat(inputs, 1)
        return [x * v1.layers.dense(x, 1, use_bias=False) + x]
    if how == "sliced":
        x = tf.concat(inputs, 1)
        return [x[:, :1] * x[:, -1:], tf.reduce_mean(x, 1, keepdims=True)]
    if how == "gated":
        return [inputs[-1] * v1.layers.dense(inputs[0], inputs[-1].shape[1], tf.nn.sigmoid)]
    if how == "attention":
        projected = tf.stack([v1.layers.dense(x, 4) for x in inputs], 1)
        return [tf.reduce_sum(tf.nn.softmax(v1.layers.dense(projected, 1), 1) * projected, 1)]
    if how == "waits":
        with tf.control_dependencies([tf.debugging.assert_all_finite(inputs[0], "not finite")]):
            return [tf.identity(inputs[-1]), tf.sin(inputs[0])]
    return []


def logits_of(case: Dict[str, Any], features: Dict[str, Any], training: bool) -> Any:
    """(logits, a penalty)"""
    inputs = [embedded(f, features, case["features"][0]["name"]) for f in case["features"]]
    if case["numbers"]:
        inputs.append(features["numbers"])
        if case["buckets"]:
            inputs.append(bucketed(case, features))
    interacting, tower = interaction(case, features) if case["interaction"] else ([], [])
    hidden = tf.concat([*tower, *inputs, *beside(case["wiring"]["beside"], inputs)], 1)
    for i, width in enumerate(case["layers"]):
        hidden = v1.layers.dense(hidden, width, getattr(tf.nn, case["activation"]))
        if case["normalized"]:
            hidden = v1.layers.batch_normalization(hidden, training=training)
        if case["dropout"] and training:
            hidden = tf.nn.dropout(hidden, 0.3, seed=11 + i)
    logits = v1.layers.dense(hidden, case["classes"])
    for part in interacting:
        logits += part
    if case["wide"]:
        f = case["features"][-1]
        ids = fc.categorical_column_with_hash_bucket(f["name"], 40, tf.string if f["kind"] == "words" else tf.int64)
        logits += v1.feature_column.linear_model(features, [ids])
    return logits, 1e-3 * tf.add_n([tf.nn.l2_loss(x) for x in inputs]) if case["l2"] else 0.0


def train_op_of(case: Dict[str, Any], loss: tf.Tensor) -> Any:
    step = v1.train.get_or_create_global_step()
    variables = v1.trainable_variables()
    rate = v1.train.exponential_decay(0.05, step, 5, 0.9) if case["decayed"] else 0.05
    optimizer = OPTIMIZERS[case["optimizer"]](rate)
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        if case["optimizer"].startswith("keras"):
            optimizer.iterations = step
            op = tf.group(optimizer.get_updates(loss, variables))
        else:
            gradients, moved = zip(
                *[pair for pair in optimizer.compute_gradients(loss, variables) if pair[0] is not None]
            )
            op = optimizer.apply_gradients(zip(CLIPS[case["clip"]](gradients), moved), step)
    if not case["averaged"]:
        return op
    with tf.control_dependencies([op]):
        return v1.train.ExponentialMovingAverage(0.9).apply(variables)


def estimator(case: Dict[str, Any], config: tf.estimator.RunConfig, warm_start: Any = None) -> tf.estimator.Estimator:
    def model_fn(features, labels, mode):
        partitioner = v1.fixed_size_partitioner(2) if case["partitioned"] else None
        with v1.variable_scope("model", partitioner=partitioner):
            logits, penalty = logits_of(case, features, mode == tf.estimator.ModeKeys.TRAIN)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, {"logits": logits})
        if case["classes"] > 1:
            loss = v1.losses.sparse_softmax_cross_entropy(labels[:, 0], logits) + penalty
        else:
            labels = tf.cast(labels, tf.float32)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)) + penalty
        v1.add_to_collection(v1.GraphKeys.LOSSES, loss)  # Where LossRecorder looks.
        if case["summaries"]:
            v1.summary.histogram("logits", logits)
        metrics = {"mean": v1.metrics.mean(logits)}
        if case["classes"] == 1:
            metrics["auc"] = v1.metrics.auc(labels, tf.sigmoid(logits))
        train_op = train_op_of(case, loss) if mode == tf.estimator.ModeKeys.TRAIN else None
        return tf.estimator.EstimatorSpec(mode, {"logits": logits}, loss, train_op, metrics)

    return tf.estimator.Estimator(model_fn, config=config, warm_start_from=warm_start)
