"""What existing Estimator programs do around their model, one test each: none of it may change the numbers."""

import json
import socket

import numpy as np
import pytest
import tensorflow as tf
from recommendation_data import BATCH, NUM_IDS, NUM_TAGS, WORDS, input_fn, records
from training_pair import (
    CLOSE,
    EXACT,
    Outcome,
    assert_no_pass_failed,
    assert_same,
    boosted,
    changed_by,
    compare_estimators,
    entries_of,
    run_config,
    session_config,
)

import tf_booster

v1 = tf.compat.v1
fc = tf.feature_column


def log_loss(labels, logits):
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


def tower(inputs, widths=(8, 5), activation=tf.tanh):
    hidden = tf.concat(inputs, 1)
    for width in widths:
        hidden = v1.layers.dense(hidden, width, activation)
    return v1.layers.dense(hidden, 1)


def adagrad(loss):
    return v1.train.AdagradOptimizer(0.1).minimize(loss, global_step=v1.train.get_global_step())


def model_of(logits_fn, train=adagrad, loss_fn=log_loss, **spec):
    """A model_fn; spec's values may be functions of (features, logits, loss), called after the train op was made."""

    def model_fn(features, labels, mode):
        logits = logits_fn(features)
        loss = loss_fn(labels, logits)
        train_op = train(loss)
        extra = {name: make(features, logits, loss) for name, make in spec.items()}
        return tf.estimator.EstimatorSpec(mode, {"logits": logits}, loss, train_op, **extra)

    return lambda config: tf.estimator.Estimator(model_fn, config=config)


def input_layer(features, *columns):
    return v1.feature_column.input_layer(features, list(columns))


def identity(key="id", size=NUM_IDS):
    return fc.categorical_column_with_identity(key, size)


def simple_logits(features):
    """An embedding, numbers, three dense layers."""
    return tower([input_layer(features, fc.embedding_column(identity(), 4)), features["numbers"]])


def check(logits_fn, tmp_path, bound=CLOSE, steps=100, config=None, **kwargs):
    return compare_estimators(model_of(logits_fn, **kwargs), input_fn(), tmp_path, steps, bound, **(config or {}))


def test_26_calls_of_input_layer(tmp_path):
    def logits(features):
        columns = [
            fc.embedding_column(fc.categorical_column_with_hash_bucket("id", 20 + i, tf.int64), 4) for i in range(26)
        ]
        return tower([input_layer(features, column) for column in columns])

    outcome = check(logits, tmp_path, steps=50)
    assert sum(name.endswith("embedding_weights") for name in outcome.entries) == 26


def test_two_optimizers_with_disjoint_variables(tmp_path):
    def train(loss):
        deep = v1.trainable_variables("deep")
        wide = v1.trainable_variables("wide")
        assert deep and wide
        return tf.group(
            v1.train.AdamOptimizer(0.01).minimize(loss, var_list=deep),
            v1.train.FtrlOptimizer(0.1).minimize(loss, var_list=wide, global_step=v1.train.get_global_step()),
        )

    def logits(features):
        with v1.variable_scope("wide"):
            wide = v1.feature_column.linear_model(features, [identity(), fc.numeric_column("numbers", 3)])
        with v1.variable_scope("deep"):
            return wide + simple_logits(features)

    check(logits, tmp_path, train=train)


@pytest.mark.parametrize("norm", [0.01, 0.3])
def test_embeddings_with_a_maximal_norm(norm, tmp_path):
    """At 0.01 every row is clipped, at 0.3 some are."""
    column = lambda: fc.embedding_column(identity(), 4, max_norm=norm)
    check(lambda features: tower([input_layer(features, column())]), tmp_path)


@pytest.mark.parametrize("api", ["v1", "v2"])
def test_shared_embeddings(api, tmp_path):
    def logits(features):
        both = [identity("id"), identity("other_id")]
        if api == "v1":
            return tower([input_layer(features, *v1.feature_column.shared_embedding_columns(both, 4))])
        return tower([tf.keras.layers.DenseFeatures(fc.shared_embeddings(both, 4))(features)])

    check(logits, tmp_path)


@pytest.mark.parametrize("combiner", ["mean", "sum", "sqrtn"])
def test_weighted_columns(combiner, tmp_path):
    def logits(features):
        weighted = fc.weighted_categorical_column(identity("tags", NUM_TAGS), "tag_weights")
        return tower([input_layer(features, fc.embedding_column(weighted, 3, combiner=combiner))])

    check(logits, tmp_path)


def test_crossed_columns(tmp_path):
    def logits(features):
        crossed = fc.crossed_column(["word", "id", "other_id"], 50)
        wide = v1.feature_column.linear_model(features, [crossed, fc.crossed_column(["id", "tags"], 30)])
        return wide + tower([input_layer(features, fc.embedding_column(crossed, 4))])

    check(logits, tmp_path)


def test_vocabularies_from_lists_and_files(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("\n".join(WORDS))

    def logits(features):
        listed = fc.categorical_column_with_vocabulary_list("word", WORDS, num_oov_buckets=1)
        filed = fc.categorical_column_with_vocabulary_file("word", str(path), default_value=0)
        return tower([input_layer(features, fc.embedding_column(c, 3)) for c in (listed, filed)])

    check(logits, tmp_path)


def test_string_ids(tmp_path):
    def logits(features):
        hashed = fc.categorical_column_with_hash_bucket("word", 10)
        ids = tf.strings.to_hash_bucket_fast(tf.strings.as_string(features["id"][:, 0]), 30)
        table = v1.get_variable("by_hash", [30, 4])
        return tower([input_layer(features, fc.embedding_column(hashed, 4)), tf.nn.embedding_lookup(table, ids)])

    check(logits, tmp_path)


def test_penalty_on_a_whole_table(tmp_path):
    """l2_loss of a Variable makes its gradient dense, added to the lookup's sparse one."""

    def train(loss):
        table = next(v for v in v1.trainable_variables() if "embedding_weights" in v.name)
        return adagrad(loss + 0.01 * tf.nn.l2_loss(table))

    check(simple_logits, tmp_path, train=train)


def test_wide_tables_of_linear_model(tmp_path):
    def logits(features):
        words = fc.categorical_column_with_vocabulary_list("word", WORDS)
        columns = [identity(), identity("other_id"), identity("tags", NUM_TAGS), words, fc.numeric_column("numbers", 3)]
        return v1.feature_column.linear_model(features, columns, sparse_combiner="mean")

    train = lambda loss: v1.train.FtrlOptimizer(0.2, l1_regularization_strength=0.001).minimize(
        loss, global_step=v1.train.get_global_step()
    )
    check(logits, tmp_path, train=train)


@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_partitioned_variables(strategy, tmp_path):
    def logits(features):
        with v1.variable_scope("parts", partitioner=v1.fixed_size_partitioner(3)):
            table = v1.get_variable("table", [NUM_IDS + 1, 4])
            kernel = v1.get_variable("kernel", [3, 5])
            rows = v1.nn.embedding_lookup(table, features["id"][:, 0], partition_strategy=strategy)
            return tower([rows, tf.matmul(features["numbers"], kernel)])

    train = lambda loss: v1.train.AdamOptimizer(0.01).minimize(loss, global_step=v1.train.get_global_step())
    outcome = check(logits, tmp_path, train=train)
    assert {"parts/table", "parts/kernel", "parts/table/Adam_1"} <= set(outcome.entries)


def test_partitioned_canned_columns(tmp_path):
    make = lambda config: v1.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=[identity(), identity("tags", NUM_TAGS)],
        dnn_feature_columns=[fc.embedding_column(identity(), 4)],
        dnn_hidden_units=[5],
        input_layer_partitioner=v1.fixed_size_partitioner(2),
        config=config,
    )
    compare_estimators(make, input_fn(), tmp_path)


def test_device_count_without_gpu(tmp_path):
    session = session_config()
    session.device_count["GPU"] = 0
    check(simple_logits, tmp_path, steps=20, config={"session_config": session})


def test_batch_norm_with_update_ops(tmp_path):
    def logits(features):
        rows = input_layer(features, fc.embedding_column(identity(), 4))
        # Without a bias, whose gradient would be what rounding leaves of zero: the layer takes the mean away.
        hidden = v1.layers.dense(tf.concat([rows, features["numbers"]], 1), 8, use_bias=False)
        return v1.layers.dense(tf.nn.relu(v1.layers.batch_normalization(hidden, training=True)), 1)

    def train(loss):
        with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
            return adagrad(loss)

    outcome = check(logits, tmp_path, train=train)
    assert np.any(outcome.entries["batch_normalization/moving_mean"] != 0)


def test_gradients_by_hand_clipped_by_their_global_norm(tmp_path):
    def train(loss):
        step = v1.train.get_global_step()
        variables = v1.trainable_variables()
        gradients, norm = tf.clip_by_global_norm(tf.gradients(loss, variables), 0.05)
        v1.summary.scalar("norm", norm)
        rate = v1.train.exponential_decay(0.1, step, 30, 0.7)
        return v1.train.MomentumOptimizer(rate, 0.9).apply_gradients(zip(gradients, variables), global_step=step)

    check(simple_logits, tmp_path, train=train, config={"save_summary_steps": 10})


def test_keras_legacy_optimizer_with_keras_layers(tmp_path):
    def logits(features):
        rows = tf.keras.layers.DenseFeatures([fc.embedding_column(identity(), 4)])(features)
        hidden = tf.keras.layers.Dense(8, "tanh")(tf.concat([rows, features["numbers"]], 1))
        return tf.keras.layers.Dense(1)(hidden)

    def train(loss):
        optimizer = tf.keras.optimizers.legacy.Adam(tf.keras.optimizers.schedules.ExponentialDecay(0.01, 20, 0.9))
        optimizer.iterations = v1.train.get_or_create_global_step()
        return optimizer.get_updates(loss, v1.trainable_variables())[0]

    check(logits, tmp_path, train=train)


def test_loss_that_is_a_sum(tmp_path):
    total = lambda labels, logits: tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    train = lambda loss: v1.train.AdagradOptimizer(0.02).minimize(loss, global_step=v1.train.get_global_step())
    check(simple_logits, tmp_path, loss_fn=total, train=train)


def test_constraints(tmp_path):
    """A constraint runs after the update of its Variable, on the new value."""

    def logits(features):
        kernel = v1.get_variable("kernel", [3, 6], constraint=lambda value: tf.clip_by_value(value, 0.0, 0.25))
        return tower([tf.matmul(features["numbers"], kernel)])

    outcome = check(logits, tmp_path, bound=EXACT)
    assert 0 <= outcome.entries["kernel"].min() and outcome.entries["kernel"].max() <= 0.25


def test_moving_averages_of_all_variables(tmp_path):
    def train(loss):
        average = tf.train.ExponentialMovingAverage(0.9, num_updates=v1.train.get_global_step())
        with tf.control_dependencies([adagrad(loss)]):
            return average.apply(v1.trainable_variables())

    outcome = check(lambda features: tower([features["numbers"]]), tmp_path, bound=EXACT, train=train)
    name = "dense/kernel"
    assert not np.array_equal(outcome.entries[f"{name}/ExponentialMovingAverage"], outcome.entries[name])


def test_reads_after_the_update(tmp_path):
    """The value that a summary or a hook reads behind the train op is the new one."""

    class Watch(v1.train.SessionRunHook):
        seen = []

        def __init__(self, tensor):
            self._tensor = tensor

        def before_run(self, run_context):
            return v1.train.SessionRunArgs(self._tensor)

        def after_run(self, run_context, run_values):
            self.seen.append(run_values.results)

    seen = {}

    def run(name, **options):
        read = []

        def train(loss):
            train_op = adagrad(loss)
            bias = next(v for v in v1.trainable_variables() if v.name.endswith("dense/bias:0"))
            with tf.control_dependencies([train_op]):
                read.append(bias.read_value())
            return train_op

        Watch.seen = []
        make = model_of(
            lambda features: tower([features["numbers"]]), train, training_hooks=lambda *_: [Watch(read[0])]
        )
        tf.keras.utils.set_random_seed(1)
        with boosted(enabled=name == "boosted"):
            make(run_config(tmp_path / name)).train(input_fn(), steps=10)
        seen[name] = np.array(Watch.seen)
        np.testing.assert_array_equal(seen[name][-1], entries_of(tmp_path / name)["dense/bias"])

    run("plain")
    run("boosted")
    np.testing.assert_array_equal(seen["boosted"], seen["plain"])


def test_own_scaffold_saver_and_hooks(tmp_path):
    """The Saver is built before the rewrite; hooks hold tensors of the updates and gradients by name."""
    logged = []

    def scaffold(features, logits, loss):
        saver = v1.train.Saver(max_to_keep=2)
        return v1.train.Scaffold(saver=saver, init_op=v1.global_variables_initializer())

    def hooks(features, logits, loss):
        tensors = {"loss": loss.name, "table": "input_layer/id_embedding/embedding_weights/Read/ReadVariableOp:0"}
        formatter = lambda values: logged.append(values["loss"]) or "logged"
        return [
            v1.train.LoggingTensorHook(tensors, every_n_iter=2, formatter=formatter),
            v1.train.NanTensorHook(loss),
            v1.train.StepCounterHook(every_n_steps=5),
        ]

    config = {"save_checkpoints_steps": 5, "save_summary_steps": 4}
    check(simple_logits, tmp_path, steps=20, config=config, scaffold=scaffold, training_hooks=hooks)
    assert len(logged) % 2 == 0
    np.testing.assert_allclose(logged[: len(logged) // 2], logged[len(logged) // 2 :], rtol=1e-5)
    for name in ("plain", "boosted"):
        state = tf.train.get_checkpoint_state(str(tmp_path / name))
        assert len(state.all_model_checkpoint_paths) == 2


def test_summaries_are_the_same(tmp_path):
    def values(folder):
        found = {}
        for path in sorted(folder.glob("events*")):
            for event in v1.train.summary_iterator(str(path)):
                for value in event.summary.value:
                    if value.tag not in ("global_step/sec",):
                        found[event.step, value.tag] = (
                            value.simple_value if value.HasField("simple_value") else list(value.histo.bucket)
                        )
        return found

    def train(loss):
        optimizer = v1.train.AdagradOptimizer(0.1)
        pairs = optimizer.compute_gradients(loss)
        for gradient, variable in pairs:
            v1.summary.histogram("gradient/" + variable.op.name, gradient)
            v1.summary.histogram(variable.op.name, variable)
        return optimizer.apply_gradients(pairs, global_step=v1.train.get_global_step())

    logits = lambda features: tower([features["numbers"]])
    check(logits, tmp_path, bound=EXACT, steps=12, train=train, config={"save_summary_steps": 4})
    plain, mine = values(tmp_path / "plain"), values(tmp_path / "boosted")
    assert len(plain) > 20
    assert mine == plain


def test_parameter_server(tmp_path, monkeypatch):
    """TF_CONFIG with a ps: Variables and their updates live on another server. Both servers are in this process."""
    ports = []
    for _ in range(2):
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            ports.append(probe.getsockname()[1])
    cluster = {"chief": [f"localhost:{ports[0]}"], "ps": [f"localhost:{ports[1]}"]}
    servers = [v1.train.Server(cluster, job_name=job, config=session_config()) for job in cluster]
    assert len(servers) == 2
    task = {"type": "chief", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task, "environment": "cloud"}))
    devices = []

    def train(loss):
        devices.extend(v.device for v in v1.trainable_variables())
        return adagrad(loss)

    check(simple_logits, tmp_path, steps=20, train=train)
    assert set(devices) == {"/job:ps/task:0"}


@pytest.mark.parametrize("strategy", [tf.distribute.MirroredStrategy, tf.distribute.OneDeviceStrategy])
def test_a_strategy_of_one_device(strategy, tmp_path):
    """Its autograph converts what the strategy calls, and that is the Estimator's method that is hooked into."""
    config = {"train_distribute": strategy("/cpu:0" if strategy is tf.distribute.OneDeviceStrategy else ["/cpu:0"])}

    def run(name):
        seen = []
        formatter = lambda values: seen.append(values["loss"]) or ""
        hooks = lambda _, __, loss: [v1.train.LoggingTensorHook({"loss": loss.name}, 1, formatter=formatter)]
        make = model_of(simple_logits, training_hooks=hooks)
        tf.keras.utils.set_random_seed(7)
        make(run_config(tmp_path / name, **config)).train(input_fn(), steps=5)
        return Outcome(np.array(seen), entries_of(tmp_path / name))

    plain = run("plain")
    with boosted():
        mine = run("boosted")
    report = tf_booster.report().to_dict()
    assert_no_pass_failed(report)
    assert "embedding_pipeline" in changed_by(report)
    assert len(set(plain.losses.tolist())) == 5
    assert_same(plain, mine)


def test_many_threads_train_to_the_same_weights(tmp_path):
    """TensorFlow's own thread pools, as users have them."""
    check(simple_logits, tmp_path, config={"session_config": session_config(threads=4)})


def test_a_small_last_batch_and_empty_lists(tmp_path):
    features, labels = records(5 * BATCH + 3)
    features["tags"][:BATCH], features["tag_weights"][:BATCH] = -1, 0  # The first batch has no tags at all.

    def logits(features):
        weighted = fc.weighted_categorical_column(identity("tags", NUM_TAGS), "tag_weights")
        rows = input_layer(features, fc.embedding_column(weighted, 3), fc.embedding_column(identity(), 3))
        return tower([rows]) + v1.feature_column.linear_model(features, [identity("tags", NUM_TAGS)])

    compare_estimators(model_of(logits), input_fn((features, labels)), tmp_path, steps=6)


def test_frozen_variables_and_variables_without_gradient(tmp_path):
    def logits(features):
        frozen = v1.get_variable("frozen", [3, 4], trainable=False)
        v1.get_variable("unused", [7])
        return tower([tf.matmul(features["numbers"], frozen), features["numbers"]])

    check(logits, tmp_path, bound=EXACT)


def test_a_wide_and_deep_model_of_lines_of_text(tmp_path):
    """As TensorFlow's own tutorial of Estimators reads its census."""
    features, labels = records()
    lines = tmp_path / "census.csv"
    lines.write_text(
        "".join(
            f"{features['id'][i, 0]},{features['word'][i, 0].decode()},{features['numbers'][i, 0]},{'>50K' if labels[i, 0] else '<=50K'}\n"
            for i in range(len(labels))
        )
    )

    def parse_csv(line):
        fields = tf.io.decode_csv(line, record_defaults=[[0], [""], [0.0], [""]])
        found = dict(zip(["id", "word", "number", "income"], fields))
        return found, tf.equal(found.pop("income"), ">50K")

    def lines_input():
        dataset = tf.data.TextLineDataset(str(lines)).shuffle(buffer_size=300, seed=4)
        return dataset.map(parse_csv, num_parallel_calls=5).repeat(2).batch(BATCH)

    def make(config):
        identity = fc.categorical_column_with_identity("id", NUM_IDS)
        word = fc.categorical_column_with_vocabulary_list("word", WORDS)
        crossed = fc.crossed_column(["word", fc.bucketized_column(fc.numeric_column("number"), [-1.0, 0.0, 1.0])], 50)
        return tf.compat.v1.estimator.DNNLinearCombinedClassifier(
            config=config,
            linear_feature_columns=[identity, word, crossed],
            dnn_feature_columns=[
                fc.numeric_column("number"),
                fc.embedding_column(identity, 4),
                fc.indicator_column(word),
            ],
            dnn_hidden_units=[8, 4],
            linear_optimizer="Ftrl",
            dnn_optimizer="Adagrad",
        )

    mine = compare_estimators(make, lines_input, tmp_path, steps=150)
    assert "input_pipeline" in changed_by(mine.report)
    assert "lines are decoded a batch at a time" in str(mine.report)


def in_memory(how):
    """Functions that read tensors in memory as programs do."""
    features, labels = records()
    dataset = lambda: tf.data.Dataset.from_tensor_slices((features, labels))  # noqa: E731
    return {
        "slices": lambda: dataset().shuffle(300, seed=4).repeat(2).batch(BATCH),
        "slices that a function changes": lambda: (
            dataset()
            .shuffle(300, seed=4)
            .map(lambda x, y: ({**x, "numbers": x["numbers"] * 2}, y))
            .repeat()
            .batch(BATCH)
        ),
        "numpy_input_fn": v1.estimator.inputs.numpy_input_fn(features, labels, BATCH, num_epochs=2, shuffle=False),
    }[how]


@pytest.mark.parametrize("how", ["slices", "slices that a function changes", "numpy_input_fn"])
def test_tensors_in_memory(how, tmp_path):
    mine = compare_estimators(model_of(simple_logits), in_memory(how), tmp_path, steps=150, bound=EXACT)
    assert {"numpy_input_fn": "input_queues"}.get(how, "input_pipeline") in changed_by(mine.report)
