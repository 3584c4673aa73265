"""Predictions of a batch of candidates in which users repeat: with the option repeated_features, without it, and plain TensorFlow.

Half of the fields are the user's. A model of two towers meets at their ends; a DeepFM joins all fields before its tower, whose first layer is split;
attention multiplies the user's history with each candidate. Features come from memory; predictions are compared first.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

import numpy as np
import tensorflow as tf

from benchmarks import sessions
from benchmarks.harness import OURS, Result, contest
from tf_booster import options
from tf_booster.passes import pipelines

v1 = tf.compat.v1
BATCH = 1000
FIELDS, DIM, ROWS, HISTORY = 20, 16, 100_000, 50  # Of user and item each; ids of a table; items that the user saw.
WITHOUT = "without"
STEPS = 10


def run(threads: int) -> Iterator[Result]:
    v1.enable_resource_variables()
    for model in MODELS:
        for users in (1, 10, 100, BATCH):
            yield contest_of(model, users, threads)


def contest_of(model: str, users: int, threads: int) -> Result:
    data = _batch(users)
    names = [name for name in data if name.startswith("user")]
    made = {OURS: names, WITHOUT: [], "TensorFlow": None}
    turns: Dict[str, Any] = {}
    found: List[np.ndarray] = []
    for contestant, repeated in made.items():
        with tf.Graph().as_default() as graph:
            v1.set_random_seed(1)
            features = {
                name: v1.placeholder(value.dtype, [None, *value.shape[1:]], name) for name, value in data.items()
            }
            score = MODELS[model](features)
            if repeated is not None:
                pipelines.rewrite(graph, options.Options(repeated_features=tuple(repeated)))
            session = sessions.initialized(threads)
        found.append(session.run(score, {features[name]: value for name, value in data.items()}))
        turns[contestant] = _turn(session, score, list(features.values()), list(data.values()))
    for others in found[1:]:
        np.testing.assert_allclose(found[0], others, rtol=1e-4, atol=1e-6)
    rates = contest(turns, STEPS * BATCH, seconds=3.0)
    return Result("repeated_features", model, BATCH, f"{users} users", threads, "M rows/s", rates, {"users": users})


def _turn(session: v1.Session, score: tf.Tensor, placeholders: List[tf.Tensor], values: List[np.ndarray]) -> Any:
    call = session.make_callable(score, placeholders)

    def turn(_: int) -> None:
        for _ in range(STEPS):
            call(*values)

    return turn


def _batch(users: int) -> Dict[str, np.ndarray]:
    rng = np.random.RandomState(1)
    user = np.sort(rng.randint(0, users, BATCH)) if users < BATCH else np.arange(BATCH)
    data: Dict[str, np.ndarray] = {f"user{i}": rng.randint(0, ROWS, BATCH)[user][:, None] for i in range(FIELDS)}
    data["user_history"] = rng.randint(0, ROWS, (BATCH, HISTORY))[user]
    data.update({f"item{i}": rng.randint(0, ROWS, BATCH)[:, None] for i in range(FIELDS)})
    return data


def _embed(features: Dict[str, tf.Tensor], kind: str) -> tf.Tensor:
    vectors = []
    for i in range(FIELDS):
        table = v1.get_variable(f"{kind}{i}", [ROWS, DIM], initializer=v1.random_uniform_initializer(-0.1, 0.1, seed=i))
        vectors.append(tf.nn.embedding_lookup(table, features[f"{kind}{i}"][:, 0]))
    return tf.concat(vectors, 1)


def _history(features: Dict[str, tf.Tensor]) -> tf.Tensor:
    """What the user saw, each item through a layer."""
    table = v1.get_variable("history", [ROWS, DIM], initializer=v1.random_uniform_initializer(-0.1, 0.1, seed=99))
    seen = tf.nn.embedding_lookup(table, features["user_history"])
    return tf.reduce_mean(
        v1.layers.dense(seen, DIM, tf.nn.relu, kernel_initializer=v1.glorot_uniform_initializer(3)), 1
    )


def _tower(x: tf.Tensor, widths: Any, name: str) -> tf.Tensor:
    for i, width in enumerate(widths):
        x = v1.layers.dense(
            x, width, tf.nn.relu, kernel_initializer=v1.glorot_uniform_initializer(i), name=f"{name}_{i}"
        )
    return x


def two_towers(features: Dict[str, tf.Tensor]) -> tf.Tensor:
    """A DSSM whose user is larger than its item, as users are."""
    user = tf.concat([_embed(features, "user"), _history(features)], 1)
    user = _tower(user, (256, 128, 64), "user")
    item = _tower(_embed(features, "item"), (128, 64), "item")
    return tf.sigmoid(tf.reduce_sum(tf.nn.l2_normalize(user, 1) * tf.nn.l2_normalize(item, 1), 1))


def deepfm(features: Dict[str, tf.Tensor]) -> tf.Tensor:
    """All fields meet before the tower."""
    joined = tf.concat([_embed(features, "user"), _history(features), _embed(features, "item")], 1)
    vectors = tf.reshape(joined, [-1, 2 * FIELDS + 1, DIM])
    pairs = tf.square(tf.reduce_sum(vectors, 1)) - tf.reduce_sum(tf.square(vectors), 1)
    deep = v1.layers.dense(_tower(joined, (128, 64), "deep"), 1, kernel_initializer=v1.glorot_uniform_initializer(9))
    return tf.sigmoid(deep[:, 0] + 0.5 * tf.reduce_sum(pairs, 1))


def attention(features: Dict[str, tf.Tensor]) -> tf.Tensor:
    """What the user saw, weighted by how near it is to the candidate, as search-based interest models do."""
    table = v1.get_variable("history", [ROWS, DIM], initializer=v1.random_uniform_initializer(-0.1, 0.1, seed=99))
    keys = tf.nn.embedding_lookup(table, features["user_history"])  # [batch, HISTORY, DIM]
    item = _embed(features, "item")
    query = v1.layers.dense(item, DIM, kernel_initializer=v1.glorot_uniform_initializer(5))[:, None]
    weights = tf.nn.softmax(tf.matmul(query, keys, transpose_b=True))  # [batch, 1, HISTORY]
    seen = tf.matmul(weights, keys)[:, 0]
    joined = tf.concat([_embed(features, "user"), seen, item], 1)
    return v1.layers.dense(_tower(joined, (128, 64), "deep"), 1, kernel_initializer=v1.glorot_uniform_initializer(9))


MODELS = {"two towers": two_towers, "deepfm": deepfm, "attention": attention}
