"""Training that stops and goes on gives the same bits as training that does not stop."""

import numpy as np
import pytest
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
keras = tf.keras.optimizers.legacy

OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.1),
    "adam": lambda: v1.train.AdamOptimizer(0.01),
    "ftrl": lambda: v1.train.FtrlOptimizer(0.1, l1_regularization_strength=1e-3),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(0.01, momentum=0.5),
    "centered rmsprop": lambda: v1.train.RMSPropOptimizer(0.01, centered=True),
    "keras sgd": lambda: keras.SGD(0.1, 0.9),
    "keras adagrad": lambda: keras.Adagrad(0.1),
    "keras adam": lambda: keras.Adam(0.01),
    "keras ftrl": lambda: keras.Ftrl(0.1),
    "keras rmsprop": lambda: keras.RMSprop(0.01),
}
BATCHES = [np.random.RandomState(step).zipf(1.3, 32) % 40 - 5 for step in range(6)]


@pytest.fixture(autouse=True)
def booster():
    tf.enable_gpu_booster()
    yield
    tf_booster.disable_gpu_booster()


def make_estimator(model_dir, make_optimizer, **table_options):
    def model_fn(features, labels, mode):
        table = tf_booster.get_hash_table("user_emb", 5, seed=3, **table_options)
        rows = tf_booster.embedding_lookup(table, features)
        out = v1.layers.dense(rows, 1, kernel_initializer=v1.random_normal_initializer(seed=3))[:, 0]
        loss = tf.reduce_mean(tf.square(out - labels))
        optimizer, step = make_optimizer(), v1.train.get_global_step()
        if isinstance(optimizer, v1.train.Optimizer):
            train_op = optimizer.minimize(loss, step)
        else:
            optimizer.iterations = step
            train_op = tf.group(*optimizer.get_updates(loss, v1.trainable_variables()))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return tf.estimator.Estimator(model_fn, str(model_dir), tf.estimator.RunConfig(tf_random_seed=1))


def train(made, first, last):
    def input_fn():
        ids = np.stack(BATCHES[first:last]).astype(np.int64)
        return tf.data.Dataset.from_tensor_slices((ids, np.sin(ids).astype(np.float32)))

    made.train(input_fn)


def everything(made):
    """All tensors of the latest checkpoint as bytes, the tables' rows in the order of their keys."""
    reader = tf.train.load_checkpoint(made.latest_checkpoint())
    tensors = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    for group, keys in (("", "keys"), ("pending_", "pending_keys")):
        order = np.argsort(tensors[f"user_emb/{keys}"])
        for name in tensors:
            part = name[len("user_emb/") :] if name.startswith("user_emb/") else None
            is_row = part in ("keys", "values", "frequencies", "last_use_steps") or str(part).startswith("slots/")
            if part is not None and (part.startswith("pending_") if group else is_row):
                tensors[name] = tensors[name][order]
    return {name: np.asarray(value).tobytes() for name, value in tensors.items()}


def check(tmp_path, make_optimizer, **options):
    whole = make_estimator(tmp_path / "whole", make_optimizer, **options)
    train(whole, 0, 6)
    parts = make_estimator(tmp_path / "parts", make_optimizer, **options)
    train(parts, 0, 3)
    halfway = everything(parts)
    train(make_estimator(tmp_path / "parts", make_optimizer, **options), 3, 6)
    assert everything(parts) == everything(whole) != halfway
    return tf.train.load_checkpoint(whole.latest_checkpoint())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_same_bits(tmp_path, name):
    reader = check(tmp_path, OPTIMIZERS[name])
    assert len(reader.get_tensor("user_emb/keys")) > 10


def test_same_bits_with_a_filter(tmp_path):
    reader = check(tmp_path, OPTIMIZERS["adagrad"], min_frequency=4)
    assert len(reader.get_tensor("user_emb/pending_keys")) > 5 < len(reader.get_tensor("user_emb/keys"))
    counts = reader.get_tensor("user_emb/pending_counts")
    assert (counts >= 1).all() and (counts < 4).all()
    sightings = sum(len(batch) for batch in BATCHES)
    assert counts.sum() + reader.get_tensor("user_emb/frequencies").sum() == sightings


@pytest.mark.parametrize(
    "eviction", [{"max_idle_steps": 2}, {"max_rows": 12, "order": "lru"}, {"max_rows": 12, "order": "lfu"}]
)
def test_same_bits_with_eviction(tmp_path, eviction):
    reader = check(tmp_path, OPTIMIZERS["adam"], eviction=eviction)
    assert 0 < len(reader.get_tensor("user_emb/keys")) < len(np.unique(BATCHES))


def test_another_optimizer_goes_on_from_the_same_rows(tmp_path):
    first = make_estimator(tmp_path / "m", OPTIMIZERS["adagrad"])
    train(first, 0, 3)
    before = everything(first)
    second = make_estimator(tmp_path / "m", lambda: v1.train.MomentumOptimizer(0.0, 0.9))
    with pytest.raises(tf.errors.NotFoundError, match="dense/(kernel|bias)/Momentum"):
        train(second, 3, 4)  # TensorFlow's own answer for the dense Variables; so restore the table alone.

    def model_fn(features, labels, mode):
        table = tf_booster.get_hash_table("user_emb", 5, seed=3)
        rows = tf_booster.embedding_lookup(table, features)
        step = v1.train.get_global_step()
        train_op = v1.train.MomentumOptimizer(0.0, 0.9).minimize(
            tf.reduce_sum(rows) + 0.0 * tf.reduce_sum(labels), step
        )
        return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_sum(rows), train_op=train_op)

    third = tf.estimator.Estimator(model_fn, str(tmp_path / "m"))
    train(third, 3, 4)
    reader = tf.train.load_checkpoint(third.latest_checkpoint())
    old = tf.train.load_checkpoint(str(tmp_path / "m" / "model.ckpt-3"))
    rows = dict(zip(reader.get_tensor("user_emb/keys").tolist(), reader.get_tensor("user_emb/values").tolist()))
    assert (
        dict(zip(old.get_tensor("user_emb/keys").tolist(), old.get_tensor("user_emb/values").tolist())).items()
        <= rows.items()
    )
    assert reader.get_tensor("user_emb/optimizer") == b"momentum"
    assert reader.has_tensor("user_emb/slots/momentum") and not reader.has_tensor("user_emb/slots/accumulator")
    assert before["user_emb/seed"] == everything(third)["user_emb/seed"]
