"""Every canned Estimator, v1 and v2, with hash-table columns beside numeric ones: trains, evaluates, predicts.

The classifiers are held against themselves on ordinary columns. Their optimizers (Ftrl, Adagrad) move only the rows that
have a gradient, and both sides start from the same constant rows, so the numbers must agree but for the order in which
equal ids' gradients are added: a few roundings of 2^-24 a step.
"""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_estimator.python.estimator.canned import head as canned_head

import tf_booster

v1 = tf.compat.v1
fc = tf.feature_column
column = tf_booster.feature_column.categorical_column_with_hash_table

# The hash columns see KEYS[i] and words, the ordinary ones i and the same words.
KEYS = np.array([5, 0, -1, 2**63 - 1, -(2**63), 1, 2**40, -7], np.int64)
WORDS = ["apple", "pear", "plum"]
BATCH, STEPS = 32, 4


@pytest.fixture(autouse=True)
def booster():
    tf.enable_gpu_booster()
    yield
    tf_booster.disable_gpu_booster()


def input_fn():
    rng = np.random.RandomState(1)
    places = rng.randint(len(KEYS), size=[STEPS, BATCH, 2])
    words = rng.choice(WORDS + [""], [STEPS, BATCH, 1])
    numbers = rng.rand(STEPS, BATCH, 1).astype(np.float32)
    indices = np.array([(i, j) for i in range(BATCH) for j in range(2)])

    def to_features(places, words, numbers):
        def sparse(values):
            return tf.SparseTensor(indices, tf.reshape(values, [-1]), [BATCH, 2])

        keys = tf.gather(KEYS, places)
        weights = tf.cast(places + 1, tf.float32)
        labels = tf.cast(places[:, 0] % 2, tf.float32)
        features = {
            "hash": sparse(keys),
            "place": sparse(places),
            "weight": sparse(weights),
            "word": words,
            "x": numbers,
        }
        return features, labels[:, tf.newaxis]

    return tf.data.Dataset.from_tensor_slices((places, words, numbers)).map(to_features)


def hash_columns():
    return [column("hash"), column("word", tf.string)]


def ordinary_columns():
    return [
        fc.categorical_column_with_identity("place", len(KEYS)),
        fc.categorical_column_with_vocabulary_list("word", WORDS),
    ]


APIS = {"v1": v1.estimator, "v2": tf.estimator}


def canned(api, model, kind, categorical, model_dir):
    number = fc.numeric_column("x")
    embeddings = [fc.embedding_column(c, 3, initializer=tf.constant_initializer(0.1)) for c in categorical]
    arguments = {
        "Linear": {"feature_columns": [*categorical, number]},
        "DNN": {"feature_columns": [*embeddings, number], "hidden_units": [4]},
        "DNNLinearCombined": {
            "linear_feature_columns": [*categorical, number],
            "dnn_feature_columns": [*embeddings, number],
            "dnn_hidden_units": [4],
        },
    }[model]
    if kind == "Estimator":
        # v1's Estimators take v1's heads, which have no public name in TensorFlow 2.
        v1_head = canned_head._binary_logistic_head_with_sigmoid_cross_entropy_loss
        arguments["head"] = v1_head() if api == "v1" else tf.estimator.BinaryClassHead()
        if model == "Linear":
            arguments["optimizer"] = "Ftrl"
    config = tf.estimator.RunConfig(str(model_dir), tf_random_seed=3, save_summary_steps=2)
    return getattr(APIS[api], model + kind)(config=config, **arguments)


def results(estimator):
    """Trains, evaluates and predicts: (loss, logits or predictions of one batch)."""
    estimator.train(input_fn)
    loss = estimator.evaluate(input_fn)["loss"]
    predictions = [prediction for _, prediction in zip(range(BATCH), estimator.predict(input_fn))]
    key = "logits" if "logits" in predictions[0] else "predictions"
    return loss, np.array([prediction[key] for prediction in predictions])


def rows_of_tables(estimator):
    """Table -> number of rows in the latest checkpoint."""
    shapes = dict(tf.train.list_variables(estimator.latest_checkpoint()))
    return {name[: -len("/keys")]: shape[0] for name, shape in shapes.items() if name.endswith("/keys")}


api = pytest.mark.parametrize("api", APIS)
model = pytest.mark.parametrize("model", ["Linear", "DNN", "DNNLinearCombined"])


def check_tables(estimator, model):
    expected = [len(KEYS), len(WORDS)] * (2 if model == "DNNLinearCombined" else 1)
    assert sorted(rows_of_tables(estimator).values()) == sorted(expected)


@api
@model
def test_classifiers_equal_themselves_on_ordinary_columns(api, model, tmp_path):
    ours = canned(api, model, "Classifier", hash_columns(), tmp_path / "hash")
    theirs = canned(api, model, "Classifier", ordinary_columns(), tmp_path / "ordinary")
    (our_loss, our_logits), (their_loss, their_logits) = results(ours), results(theirs)
    np.testing.assert_allclose(our_loss, their_loss, rtol=1e-5)
    np.testing.assert_allclose(our_logits, their_logits, rtol=1e-4, atol=1e-6)
    assert np.ptp(our_logits) > 0
    check_tables(ours, model)
    assert not rows_of_tables(theirs)


@api
@model
@pytest.mark.parametrize("kind", ["Regressor", "Estimator"])
def test_regressors_and_estimators_with_a_head(api, model, kind, tmp_path):
    estimator = canned(api, model, kind, hash_columns(), tmp_path)
    loss, predictions = results(estimator)
    assert np.isfinite(loss) and np.ptp(predictions) > 0
    check_tables(estimator, model)


def test_training_goes_on_from_the_checkpoint(tmp_path):
    twice = canned("v2", "DNNLinearCombined", "Classifier", hash_columns(), tmp_path / "twice")
    twice.train(input_fn, steps=2)
    twice.train(lambda: input_fn().skip(2))
    once = canned("v2", "DNNLinearCombined", "Classifier", hash_columns(), tmp_path / "once")
    once.train(input_fn)
    assert twice.evaluate(input_fn) == once.evaluate(input_fn)


def test_parsed_examples(tmp_path):
    path = str(tmp_path / "examples")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(8):
            example = tf.train.Example()
            example.features.feature["hash"].int64_list.value.extend([-1, i][: i % 3])
            example.features.feature["label"].int64_list.value.append(i % 2)
            writer.write(example.SerializeToString())
    columns = [fc.embedding_column(column("hash"), 2)]
    spec = tf.estimator.classifier_parse_example_spec(columns, label_key="label")

    def batches():
        read = tf.data.experimental.make_batched_features_dataset
        return read(path, 4, spec, label_key="label", num_epochs=2, shuffle=False)

    estimator = tf.estimator.DNNClassifier([4], columns, str(tmp_path / "model"))
    estimator.train(batches)
    assert np.isfinite(estimator.evaluate(batches)["loss"])
    keys = estimator.get_variable_value(
        "dnn/input_from_feature_columns/input_layer/hash_embedding/embedding_weights/keys"
    )
    assert sorted(keys) == [-1, 2, 5]


def test_an_optimizer_that_reads_ids_is_refused(tmp_path):
    sdca = tf.estimator.experimental.LinearSDCA(example_id_column="id")
    estimator = tf.estimator.LinearClassifier([column("hash")], str(tmp_path), optimizer=sdca)
    with pytest.raises(tf_booster.RewriteError, match="Table 'hash'.*computes with looked-up ids"):
        estimator.train(
            lambda: input_fn().map(lambda features, labels: ({**features, "id": features["word"][:, 0]}, labels))
        )


# --- Columns in a model_fn of one's own ---


def train_layers(make_layers, tmp_path):
    """An Estimator of a model on the concatenation of what make_layers(features) gives."""

    def model_fn(features, labels, mode):
        start = v1.truncated_normal_initializer(seed=5)
        logits = v1.layers.dense(tf.concat(make_layers(features), 1), 1, kernel_initializer=start)
        predictions = {"logits": logits}
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
        train_op = v1.train.AdagradOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op)

    return tf.estimator.Estimator(model_fn, config=tf.estimator.RunConfig(str(tmp_path), tf_random_seed=3))


def compare(make_layers, tmp_path):
    """Trains make_layers(features, column) on a hash-table column and on an ordinary one, and compares the numbers."""
    sides = []
    for name, categorical in (("hash", hash_columns()[0]), ("ordinary", ordinary_columns()[0])):
        estimator = train_layers(lambda features, c=categorical: make_layers(features, c), tmp_path / name)
        sides.append(results(estimator))
        assert len(rows_of_tables(estimator)) == (1 if name == "hash" else 0)
    np.testing.assert_allclose(sides[0][0], sides[1][0], rtol=1e-5)
    np.testing.assert_allclose(sides[0][1], sides[1][1], rtol=1e-4, atol=1e-6)


START = tf.constant_initializer(0.1)


def test_max_norm(tmp_path):
    def layers(features, categorical):
        embedding = fc.embedding_column(categorical, 3, max_norm=0.15, initializer=START)
        return [v1.feature_column.input_layer(features, [embedding])]

    compare(layers, tmp_path)


def test_weighted_column(tmp_path):
    def layers(features, categorical):
        weighted = fc.weighted_categorical_column(categorical, "weight")
        embedding = fc.embedding_column(weighted, 3, "sqrtn", initializer=START)
        return [v1.feature_column.input_layer(features, [embedding])]

    compare(layers, tmp_path)


def test_shared_and_weighted_columns_of_v1(tmp_path):
    def layers(features, categorical):
        weighted = fc.weighted_categorical_column(categorical, "weight")
        shared = v1.feature_column.shared_embedding_columns([categorical, weighted], 3, initializer=START)
        return [v1.feature_column.input_layer(features, shared)]

    compare(layers, tmp_path)


def test_shared_and_weighted_columns_of_v2(tmp_path):
    def layers(features, categorical):
        weighted = fc.weighted_categorical_column(categorical, "weight")
        shared = fc.shared_embeddings([categorical, weighted], 3, initializer=START)
        return [tf.keras.layers.DenseFeatures(shared)(features)]

    compare(layers, tmp_path)


def test_26_calls_of_input_layer_are_26_tables(tmp_path):
    def layers(features):
        embedding = fc.embedding_column(column("hash"), 3, initializer=START)
        return [v1.feature_column.input_layer(features, [embedding]) for _ in range(26)]

    estimator = train_layers(layers, tmp_path)
    loss, _ = results(estimator)
    assert np.isfinite(loss)
    assert list(rows_of_tables(estimator).values()) == [len(KEYS)] * 26
