"""Tables on a card against the same tables in host memory. `tools/gpu_check.sh python` and `make test-card` run them; others do not collect them."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.client import device_lib

import tf_booster
from tf_booster.embedding import registry
from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.report import STATS

pytestmark = pytest.mark.gpu

v1 = tf.compat.v1
KEYS = np.random.RandomState(1).randint(-(2**62), 2**62, 50_000)
SOFT_PLACEMENT = False  # So that TensorFlow says which op has no kernel.

OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.1),
    "adam": lambda: v1.train.AdamOptimizer(0.01),
    "ftrl": lambda: v1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(0.01, momentum=0.5),
    "centered_rmsprop": lambda: v1.train.RMSPropOptimizer(0.01, centered=True),
}


class Model:
    """Tables whose gradient is known to the last bit: the loss is linear in their rows, with weights whose sums are exact in any order."""

    def __init__(self, device, optimizer="adagrad", dim=16, tables=1, memory_fraction=0.75, directory=None, **settings):
        with tf.Graph().as_default() as self.graph:
            v1.set_random_seed(5)
            self.ids = v1.placeholder(tf.int64, [None])
            self.keys = v1.placeholder(tf.int64, [None])
            self.values = v1.placeholder(tf.float32, [None, dim])
            self.tables = [tf_booster.get_hash_table(f"t{i}", dim, **settings) for i in range(tables)]
            self.rows = [tf_booster.embedding_lookup(table, self.ids) for table in self.tables]
            weights = (np.random.RandomState(2).randint(-99, 100, dim) / 64).astype(np.float32)
            loss = tf.add_n([tf.reduce_sum(rows * weights) for rows in self.rows])
            self.train = OPTIMIZERS[optimizer]().minimize(loss)
            self.initialize = v1.global_variables_initializer()
            options = Options(device=device, table_memory_fraction=memory_fraction, table_directory=directory)
            self.report = pipelines.rewrite(self.graph, options)
            first, self.stats = self.tables[0], registry.rewritten(self.graph)["t0"].stats
            self.found, self.erased = first.find(self.keys), first.erase(self.keys)
            self.assign, self.clear = first.insert_or_assign(self.keys, self.values), first.clear()
            self.exported = [table.export() for table in self.tables]
            self.saver = v1.train.Saver()
        assert self.report.device == ("gpu" if device == "gpu" else "cpu")
        self.session = v1.Session(graph=self.graph, config=v1.ConfigProto(allow_soft_placement=SOFT_PLACEMENT))
        self.session.run(self.initialize)

    def step(self, ids):
        """The rows as they were before the step."""
        return self.session.run([self.rows, self.train], {self.ids: ids})[0]

    def export(self):
        """Tables, each as a dictionary of arrays in the order of its keys."""
        tables = []
        for found in self.session.run(self.exported):
            order, waiting = np.argsort(found.keys), np.argsort(found.pending_keys)
            arrays = {name: getattr(found, name)[order] for name in ("keys", "values", "frequencies", "last_use_steps")}
            arrays.update({f"slot {name}": rows[order] for name, rows in found.slots.items()})
            arrays.update(pending=found.pending_keys[waiting], counts=found.pending_counts[waiting], step=found.step)
            tables.append(arrays)
        return tables


def same(left, right):
    """Within 2 units of the last place; whole numbers are equal."""
    left, right = tf.nest.flatten(left), tf.nest.flatten(right)
    assert len(left) == len(right)
    for got, want in zip(left, right):
        assert got.shape == want.shape and got.dtype == want.dtype
        if got.dtype == np.float32:
            np.testing.assert_array_max_ulp(got, want, maxulp=2)
        else:
            np.testing.assert_array_equal(got, want)


def pair(**settings):
    return Model("gpu", **settings), Model("cpu", **settings)


def batches(steps, size=2000, distinct=5000):
    rng = np.random.RandomState(7)
    return [KEYS[np.minimum(rng.zipf(1.2, size), distinct // (step + 1)) * (step + 1) - 1] for step in range(steps)]


def train(models, steps=4, **of_batches):
    for ids in batches(steps, **of_batches):
        same(*[model.step(ids) for model in models])
    same(*[model.export() for model in models])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training(optimizer):
    train(pair(optimizer=optimizer))


@pytest.mark.parametrize("dim", [1, 3, 5, 8, 64, 130, 1024])
def test_every_dim(dim):
    train(pair(optimizer="adam", dim=dim), steps=2, size=500)


@pytest.mark.parametrize(
    "initializer",
    [tf.zeros_initializer(), v1.random_uniform_initializer(-1, 1), v1.truncated_normal_initializer(0, 0.1)],
)
def test_first_values(initializer):
    models = pair(initializer=initializer, seed=9)
    same(*[model.session.run(model.found, {model.keys: KEYS}) for model in models])
    train(models, steps=1)


def test_fused_tables():
    train(pair(optimizer="adam", tables=5))


def test_growth():
    """From nothing to all keys in a few steps: the index is built anew several times, slabs are added."""
    models = pair()
    for begin in range(0, len(KEYS), 10_000):
        same(*[model.step(KEYS[begin : begin + 10_000]) for model in models])
    same(*[model.export() for model in models])
    same(*[model.step(KEYS) for model in models])


def test_no_ids():
    models = pair()
    for ids in (KEYS[:0], KEYS[:1], KEYS[:0], np.full(3000, KEYS[0])):
        same(*[model.step(ids) for model in models])
    same(*[model.export() for model in models])


@pytest.mark.parametrize(
    "settings",
    [
        {"min_frequency": 3},
        {"eviction": {"max_idle_steps": 2}},
        {"eviction": {"max_rows": 700, "order": "lru"}},
        {"eviction": {"max_rows": 700, "order": "lfu"}, "min_frequency": 2},
    ],
)
def test_filter_and_eviction(settings):
    train(pair(**settings), steps=8)


def test_a_limit_leaves_the_table_as_it_was():
    models = pair(max_rows=1000)
    for model in models:
        model.step(KEYS[:900])
        with pytest.raises(tf.errors.ResourceExhaustedError, match="t0"):
            model.step(KEYS[500:1500])
    same(*[model.export() for model in models])


@pytest.mark.parametrize(
    "settings", [{"tables": 3, "optimizer": "adam"}, {"eviction": {"max_rows": 700, "order": "lru"}}]
)
def test_rows_in_host_memory(settings):
    """Room for hundreds of rows on the card; behind 64 steps others have it. What is trained does not depend on that."""
    (card,) = [device.memory_limit for device in device_lib.list_local_devices() if device.name == "/device:GPU:0"]
    models = pair(memory_fraction=20_000 / (card or 2 << 30), **settings)  # A machine that is the card tells no limit.
    train(models, steps=70, size=100, distinct=20_000)
    stats = [dict(zip(STATS, model.session.run(model.stats))) for model in models]
    assert 0 < stats[0]["host_bytes"] < stats[0]["bytes"] and stats[1]["host_bytes"] == 0


@pytest.mark.parametrize(
    "settings", [{"tables": 3, "optimizer": "adam"}, {"eviction": {"max_rows": 700, "order": "lru"}}]
)
def test_rows_on_a_disk(settings, tmp_path):
    """No row has memory, neither on the card nor in the host's; what is trained, found and saved does not depend on that."""
    models = pair(memory_fraction=0, directory=str(tmp_path), **settings)
    train(models, steps=10)
    stats = [dict(zip(STATS, model.session.run(model.stats))) for model in models]
    assert stats[0]["host_bytes"] == 0 < min(stats[0]["disk_bytes"], stats[1]["disk_bytes"])
    values = np.random.RandomState(3).standard_normal((300, 16)).astype(np.float32)
    for model in models:
        feed = {model.keys: KEYS[4900:5200], model.values: values}
        model.session.run(model.assign, feed)
        assert model.session.run(model.found, feed).found.all()
    same(*[model.export() for model in models])
    exchange_checkpoints(models, tmp_path)
    train(models, steps=3)


def test_keys_by_hand():
    models = pair(memory_fraction=0)
    train(models, steps=2)
    values = np.random.RandomState(3).standard_normal((300, 16)).astype(np.float32)
    for model in models:
        feed = {model.keys: KEYS[4900:5200], model.values: values}
        model.session.run(model.assign, feed)
        assert model.session.run(model.found, feed).found.all()
        assert model.session.run(model.erased, {model.keys: KEYS[5000:5400]}) == 200
    train(models, steps=2)
    for model in models:
        model.session.run(model.clear)
    train(models, steps=1)


def exchange_checkpoints(models, folder):
    for i, model in enumerate(models):
        with model.graph.as_default():
            model.saver.save(model.session, str(folder / f"checkpoint{i}"))
    for i, model in enumerate(models):
        with model.graph.as_default():
            model.saver.restore(model.session, str(folder / f"checkpoint{1 - i}"))


def test_checkpoints_both_ways(tmp_path):
    models = pair(optimizer="adam", tables=2, min_frequency=2)
    train(models, steps=3)
    exchange_checkpoints(models, tmp_path)
    train(models, steps=2)


def test_two_runs_on_the_card_give_the_same_bits():
    runs = []
    for _ in range(2):
        model = Model("gpu", optimizer="adam")
        for ids in batches(4):
            model.step(ids)
        runs.append(model.export())
    for got, want in zip(*map(tf.nest.flatten, runs)):
        np.testing.assert_array_equal(got, want)


def model_fn(features, labels, mode):
    columns = [
        v1.feature_column.embedding_column(tf_booster.feature_column.categorical_column_with_hash_table(name), 8)
        for name in ("user", "item")
    ]
    start = v1.glorot_uniform_initializer(seed=6)  # A layer's own takes another seed in each process.
    out = v1.layers.dense(v1.feature_column.input_layer(features, columns), 16, tf.nn.relu, kernel_initializer=start)
    logits = v1.layers.dense(out, 1, kernel_initializer=start)[:, 0]
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=logits)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss)
    train_op = v1.train.AdamOptimizer(0.01).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn(repeat=1):
    rng = np.random.RandomState(4)
    features = {name: KEYS[rng.randint(0, 500, (2048, 3))] for name in ("user", "item")}
    features["item"][rng.randint(0, 2048, 500), rng.randint(0, 3, 500)] = -1  # None.
    return (
        tf.data.Dataset.from_tensor_slices((features, (np.arange(2048) % 2).astype(np.float32)))
        .repeat(repeat)
        .batch(64)
    )


@pytest.mark.parametrize(
    "options",
    [{}, {"pipeline": "exact"}, {"prefetch_to_device": True}, {"fuse_tables": False}, {"table_memory_fraction": 0}],
)
def test_an_estimator_end_to_end(options, tmp_path):
    """Trained on the card, evaluated in host memory from its checkpoint, and the other way round."""

    def run(train_on, evaluate_on):
        folder = str(tmp_path / train_on)
        config = tf.estimator.RunConfig(folder, tf_random_seed=3, log_step_count_steps=1000)
        try:
            tf.enable_gpu_booster(device=train_on, **options)
            tf.estimator.Estimator(model_fn, config=config).train(lambda: input_fn(2))
            report = tf_booster.report()
            tf_booster.disable_gpu_booster()
            tf.enable_gpu_booster(device=evaluate_on)
            estimator = tf.estimator.Estimator(model_fn, config=config)
            found = estimator.evaluate(input_fn)["loss"], np.array(list(estimator.predict(input_fn)))
        finally:
            tf_booster.disable_gpu_booster()
        assert {table["device"] for table in report.tables} == {"gpu" if train_on == "auto" else train_on}
        in_host = train_on == "auto" and options.get("table_memory_fraction") == 0
        assert all((table["host_bytes"] > 0) == in_host for table in report.tables)
        assert ("rows in the host's memory" in str(report)) == in_host
        return found

    on_card, in_host_memory = run("auto", "cpu"), run("cpu", "gpu")
    np.testing.assert_allclose(on_card[0], in_host_memory[0], rtol=1e-3)
    np.testing.assert_allclose(on_card[1], in_host_memory[1], rtol=1e-2, atol=1e-3)
