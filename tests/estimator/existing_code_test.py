"""What existing Estimator code does around its embeddings, beside hash tables: it must go on working, or be refused by name."""

import numpy as np
import pytest
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
BATCH, STEPS = 16, 6


@pytest.fixture(autouse=True)
def booster():
    tf.enable_gpu_booster()
    yield
    tf_booster.disable_gpu_booster()


def input_fn():
    rng = np.random.RandomState(0)
    ids = rng.randint(-5, 5, (BATCH * STEPS, 1)).astype(np.int64) * (2**61 + 12345)
    numbers = rng.rand(BATCH * STEPS, 2).astype(np.float32)
    labels = rng.randint(0, 2, (BATCH * STEPS, 1)).astype(np.float32)
    words = np.array([[b"a", b"b", b"other"][i % 3] for i in range(BATCH * STEPS)])[:, None]
    features = {"id": ids, "numbers": numbers, "word": words}
    return tf.data.Dataset.from_tensor_slices((features, labels)).batch(BATCH)


def logits_of(features, training, extra=None):
    table = tf_booster.get_hash_table("user", 4, seed=5)
    rows = tf_booster.embedding_lookup(table, features["id"][:, 0])
    inputs = [rows, features["numbers"]] + ([] if extra is None else [extra])
    hidden = v1.layers.dense(tf.concat(inputs, 1), 8)
    hidden = tf.nn.relu(v1.layers.batch_normalization(hidden, training=training))
    return rows, table, v1.layers.dense(hidden, 1)


def spec(mode, logits, labels, train_op_fn=None, **kwargs):
    predictions = {"p": tf.sigmoid(logits)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    train_op = train_op_fn(loss) if mode == tf.estimator.ModeKeys.TRAIN else None
    return tf.estimator.EstimatorSpec(mode, predictions=predictions, loss=loss, train_op=train_op, **kwargs)


def minimize(loss):
    return v1.train.AdagradOptimizer(0.1).minimize(loss, global_step=v1.train.get_global_step())


def names_in(model_dir):
    return dict(tf.train.list_variables(str(model_dir)))


def test_batch_norm_with_update_ops(tmp_path):
    def model_fn(features, labels, mode):
        _, _, logits = logits_of(features, mode == tf.estimator.ModeKeys.TRAIN)

        def train(loss):
            with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
                return minimize(loss)

        return spec(mode, logits, labels, train)

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    estimator.train(input_fn)
    assert np.any(estimator.get_variable_value("batch_normalization/moving_mean") != 0)
    assert names_in(tmp_path)["user/keys"] == [10]
    assert np.isfinite(estimator.evaluate(input_fn)["loss"])


def test_two_optimizers_over_disjoint_variables(tmp_path):
    def model_fn(features, labels, mode):
        _, _, logits = logits_of(features, False)

        def train(loss):
            variables = v1.trainable_variables()
            tables = [v for v in variables if v.name.startswith("user")]
            rest = [v for v in variables if not v.name.startswith("user")]
            assert tables and rest
            step = v1.train.get_global_step()
            return tf.group(
                v1.train.FtrlOptimizer(0.1).minimize(loss, var_list=tables),
                v1.train.AdamOptimizer(0.01).minimize(loss, var_list=rest, global_step=step),
            )

        return spec(mode, logits, labels, train)

    tf.estimator.Estimator(model_fn, str(tmp_path)).train(input_fn)
    names = names_in(tmp_path)
    assert names["user/slots/linear"] == [10, 4] and names["user/slots/accumulator"] == [10, 4]
    assert "dense/kernel/Adam" in names and not [n for n in names if n == "user" or n.startswith("user/Ftrl")]


def test_gradients_by_hand_with_a_schedule(tmp_path):
    def model_fn(features, labels, mode):
        rows, _, logits = logits_of(features, False)

        def train(loss):
            step = v1.train.get_global_step()
            rate = v1.train.exponential_decay(0.1, step, 2, 0.5)
            variables = v1.trainable_variables()
            gradients, norm = tf.clip_by_global_norm(tf.gradients(loss, variables), 0.01)
            v1.summary.scalar("norm", norm)
            return v1.train.MomentumOptimizer(rate, 0.9).apply_gradients(zip(gradients, variables), global_step=step)

        return spec(mode, logits, labels, train)

    tf.estimator.Estimator(model_fn, str(tmp_path)).train(input_fn)
    assert names_in(tmp_path)["user/slots/momentum"] == [10, 4]


def test_own_scaffold_saver_and_hooks(tmp_path):
    seen = []

    class Watch(v1.train.SessionRunHook):
        def __init__(self, rows, size):
            self.fetches = [rows, size]

        def before_run(self, context):
            return v1.train.SessionRunArgs(self.fetches)

        def after_run(self, context, values):
            seen.append((values.results[0].shape, int(values.results[1])))

    def model_fn(features, labels, mode):
        rows, table, logits = logits_of(features, False)
        if mode != tf.estimator.ModeKeys.TRAIN:
            return spec(mode, logits, labels)
        train_op_holder = []

        def train(loss):
            train_op_holder.append(minimize(loss))
            return train_op_holder[0]

        base = spec(mode, logits, labels, train)
        saver = v1.train.Saver(max_to_keep=2)  # Built here, before the rewrite.
        scaffold = v1.train.Scaffold(saver=saver, init_op=v1.global_variables_initializer())
        hooks = [Watch(rows, table.size()), v1.train.LoggingTensorHook({"rows": rows}, every_n_iter=3)]
        return base._replace(scaffold=scaffold, training_hooks=hooks)

    config = tf.estimator.RunConfig(str(tmp_path), save_checkpoints_steps=2)
    estimator = tf.estimator.Estimator(model_fn, config=config)
    estimator.train(input_fn)
    assert [shape for shape, _ in seen] == [(BATCH, 4)] * STEPS
    names = names_in(tmp_path)
    assert names["user/keys"] == [10] and "user" not in names and "user/Adagrad" not in names
    assert len(tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths) == 2
    before = estimator.evaluate(input_fn)["loss"]
    estimator.train(input_fn, steps=1)
    assert estimator.get_variable_value("global_step") == STEPS + 1
    assert estimator.evaluate(input_fn)["loss"] != before


def test_feature_columns_of_every_kind_beside_a_table(tmp_path):
    column = tf.feature_column

    def model_fn(features, labels, mode):
        words = column.categorical_column_with_vocabulary_list("word", ["a", "b"], num_oov_buckets=1)
        crossed = column.crossed_column(["word", "id"], 20)
        columns = [column.indicator_column(words), column.embedding_column(crossed, 3)]
        _, _, logits = logits_of(features, False, v1.feature_column.input_layer(features, columns))
        return spec(mode, logits, labels, minimize)

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    estimator.train(input_fn)
    names = names_in(tmp_path)
    assert names["input_layer/id_X_word_embedding/embedding_weights"] == [20, 3]
    assert names["user/keys"] == [10]


def test_penalty_on_looked_up_rows_works_and_on_the_whole_table_is_refused(tmp_path):
    def model_fn(features, labels, mode, params):
        rows, table, logits = logits_of(features, False)
        penalised = rows if params["what"] == "rows" else v1.trainable_variables()[0]

        def train(loss):
            return minimize(loss + 0.01 * tf.nn.l2_loss(penalised))

        return spec(mode, logits, labels, train)

    tf.estimator.Estimator(model_fn, str(tmp_path / "rows"), params={"what": "rows"}).train(input_fn)
    with pytest.raises(ValueError, match="user.*whole table"):
        tf.estimator.Estimator(model_fn, str(tmp_path / "table"), params={"what": "table"}).train(input_fn)


def test_moving_average_of_a_table_is_refused_by_name(tmp_path):
    def model_fn(features, labels, mode):
        _, _, logits = logits_of(features, False)

        def train(loss):
            average = tf.train.ExponentialMovingAverage(0.9)
            with tf.control_dependencies([minimize(loss)]):
                return average.apply(v1.trainable_variables())

        return spec(mode, logits, labels, train)

    with pytest.raises(ValueError, match="user"):
        tf.estimator.Estimator(model_fn, str(tmp_path)).train(input_fn)


def test_device_count_without_gpu_is_told(tmp_path):
    def model_fn(features, labels, mode):
        _, _, logits = logits_of(features, False)
        return spec(mode, logits, labels, minimize)

    config = tf.estimator.RunConfig(str(tmp_path), session_config=v1.ConfigProto(device_count={"GPU": 0}))
    tf.estimator.Estimator(model_fn, config=config).train(input_fn)
    assert tf_booster.report().to_dict()["device"] == "cpu"


def test_monitored_training_session_resumes(tmp_path):
    def run(steps):
        with tf.Graph().as_default():
            features, labels = v1.data.make_one_shot_iterator(input_fn()).get_next()
            _, table, logits = logits_of(features, False)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
            step = v1.train.get_or_create_global_step()
            train_op = v1.train.AdamOptimizer(0.01).minimize(loss, global_step=step)
            size = table.size()
            with v1.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path)) as session:
                start, before = session.run([step, size])
                for _ in range(steps):
                    session.run(train_op)
            return int(start), int(before)

    assert run(3) == (0, 0)
    assert run(2) == (3, 10)


def test_plain_session_is_refused_and_rewrite_graph_helps():
    with tf.Graph().as_default() as graph:
        features, labels = v1.data.make_one_shot_iterator(input_fn()).get_next()
        _, _, logits = logits_of(features, False)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            with pytest.raises(tf.errors.OpError, match="user.*enable_gpu_booster"):
                session.run(logits)
        tf_booster.rewrite_graph(graph)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            assert session.run(logits).shape == (BATCH, 1)
