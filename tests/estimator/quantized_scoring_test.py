"""Estimators with scoring_precision: predictions and exports in integers near TensorFlow's; training, evaluation and checkpoints as they were."""

import hashlib
import os

import numpy as np
import pytest
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1
fc = tf.feature_column

FIELDS, DIM = 6, 16
ROWS = 300
# Of probabilities: the largest difference, and the share of those within 1 %.
NEAR = {"int8": (0.01, 0.97), "int16": (0.0008, 1.0)}


def batch(rows=ROWS, seed=0):
    rng = np.random.RandomState(seed)
    features = {f"f{i}": rng.randint(0, 50, (rows, 1)) for i in range(FIELDS)}
    features["price"] = np.exp(rng.standard_normal((rows, 1)) + 3).astype(np.float32)
    features["age"] = rng.rand(rows, 1).astype(np.float32)
    return features


def labels_of(features):
    return (sum(features[f"f{i}"] * (i + 1) for i in range(FIELDS)) % 7 < 3).astype(np.int64)


def columns():
    ids = [fc.categorical_column_with_identity(f"f{i}", 50) for i in range(FIELDS)]
    price = fc.numeric_column("price", normalizer_fn=tf.math.log1p)
    return [*(fc.embedding_column(column, DIM) for column in ids), price, fc.numeric_column("age")]


def dense(x, width, name, activation=None):
    return v1.layers.dense(x, width, activation, kernel_initializer=v1.glorot_uniform_initializer(width), name=name)


def deep_fm(features, labels, mode):
    """As a program has it that knows v1 alone."""
    stacked = tf.stack(
        [
            tf.nn.embedding_lookup(
                v1.get_variable(f"v{i}", [50, DIM], initializer=v1.glorot_uniform_initializer(i), use_resource=True),
                features[f"f{i}"][:, 0],
            )
            for i in range(FIELDS)
        ],
        1,
    )
    pairs = 0.5 * tf.reduce_sum(tf.square(tf.reduce_sum(stacked, 1)) - tf.reduce_sum(tf.square(stacked), 1), 1, True)
    deep = tf.concat([tf.reshape(stacked, [-1, FIELDS * DIM]), tf.math.log1p(features["price"]), features["age"]], 1)
    for i, width in enumerate((128, 64)):
        deep = dense(deep, width, f"deep_{i}", tf.nn.relu)
    logits = pairs + dense(deep, 1, "logits")
    predictions = {"score": tf.sigmoid(logits), "vector": deep}
    if mode == tf.estimator.ModeKeys.PREDICT:
        outputs = {"serving_default": tf.estimator.export.PredictOutput(predictions)}
        return tf.estimator.EstimatorSpec(mode, predictions, export_outputs=outputs)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.cast(labels, tf.float32), logits=logits))
    train_op = v1.train.AdagradOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops={"mean": v1.metrics.mean(logits)}
    )


def canned(folder):
    config = tf.estimator.RunConfig(folder, tf_random_seed=1)
    return tf.estimator.DNNClassifier([128, 64], columns(), optimizer="Adagrad", config=config)


def custom(folder):
    return tf.estimator.Estimator(deep_fm, config=tf.estimator.RunConfig(folder, tf_random_seed=1))


MODELS = {"canned": canned, "deep fm": custom}
SCORE = {"canned": "probabilities", "deep fm": "score"}


class boosted:
    """With tf_booster inside, by these options."""

    def __init__(self, **options):
        self._options = options

    def __enter__(self):
        tf.enable_gpu_booster(**self._options)

    def __exit__(self, *_):
        tf_booster.disable_gpu_booster()


def train(make, folder, steps=20):
    estimator = make(folder)
    features = batch()
    estimator.train(lambda: tf.data.Dataset.from_tensors((features, labels_of(features))).repeat(), steps=steps)
    return estimator


@pytest.fixture(scope="module", name="trained")
def trained_once(tmp_path_factory):
    made = {}

    def get(model):
        if model not in made:
            made[model] = train(MODELS[model], str(tmp_path_factory.mktemp("model")))
        return made[model]

    return get


def predict(estimator, rows=ROWS, size=ROWS):
    features = {name: value[:rows] for name, value in batch(seed=1).items()}
    found = list(estimator.predict(lambda: tf.data.Dataset.from_tensor_slices(features).batch(size)))
    return {name: np.stack([row[name] for row in found]) for name in found[0]}


def result_of(report):
    return next(p for p in report.passes if p.name == "quantized_products")


def check_near(mine, theirs, precision):
    largest, share = NEAR[precision]
    assert np.abs(mine - theirs).max() <= largest
    assert (np.abs(mine - theirs) <= 0.01 * theirs).mean() >= share
    assert not np.array_equal(mine, theirs)
    np.testing.assert_array_less(0.999, np.corrcoef(mine[:, -1], theirs[:, -1])[0, 1])


def digests(folder):
    """Of all files of an Estimator's folder but those of events."""
    names = [os.path.join(path, name) for path, _, found in os.walk(folder) for name in found if "tfevents" not in name]
    return {name: hashlib.sha256(open(name, "rb").read()).hexdigest() for name in names}


@pytest.mark.parametrize("precision", ["int8", "int16"])
@pytest.mark.parametrize("model", MODELS)
def test_predictions_are_near_and_go_by_row(trained, model, precision):
    estimator = trained(model)
    plain = predict(estimator)[SCORE[model]]
    before = digests(estimator.model_dir)
    with boosted(scoring_precision=precision):
        ours = predict(estimator)[SCORE[model]]
        result = result_of(tf_booster.report())
        one_by_one = predict(estimator, rows=10, size=1)[SCORE[model]]
    check_near(ours, plain, precision)
    assert len(result.changes) == 2 and result.other_numbers, result
    (reason,) = [reason for _, reason in result.skipped]
    assert reason == "its weights are [64, 1]; integers are faster from 64 inputs and 16 outputs on"
    np.testing.assert_allclose(one_by_one, ours[:10], rtol=2e-6)  # What is left in float32 may sum in another order.
    assert digests(estimator.model_dir) == before


def test_a_vector_that_is_predicted_is_what_the_score_is_made_of(trained):
    """The Relu is fetched, so it stays; it reads the product in integers."""
    estimator = trained("deep fm")
    plain = predict(estimator)["vector"]
    with boosted(scoring_precision="int8"):
        ours = predict(estimator)["vector"]
        assert result_of(tf_booster.report()).changes[1].endswith("in int8, with its bias")
    assert 0 < np.abs(ours - plain).max() <= 0.02 * plain.max()


@pytest.mark.parametrize("model", MODELS)
def test_training_evaluation_and_checkpoints_are_as_without(model, tmp_path):
    def life(folder, **options):
        with boosted(**options):
            estimator = train(MODELS[model], str(tmp_path / folder))
            assert "TfBoosterQuantizedMatMul" not in str(tf_booster.report().to_dict())
            features = batch(seed=2)
            metrics = estimator.evaluate(lambda: tf.data.Dataset.from_tensors((features, labels_of(features))), steps=1)
            report = tf_booster.report()
            names = sorted(estimator.get_variable_names())
            return metrics, {name: estimator.get_variable_value(name) for name in names}, report

    metrics, variables, _ = life("without")
    my_metrics, my_variables, report = life("with", scoring_precision="int8")
    assert metrics == my_metrics and not result_of(report).modified
    assert variables.keys() == my_variables.keys()
    for name, value in variables.items():
        np.testing.assert_array_equal(my_variables[name], value, err_msg=name)


def export(estimator, folder):
    def receiver():
        features = {name: v1.placeholder(value.dtype, [None, 1], name) for name, value in batch(1).items()}
        return tf.estimator.export.ServingInputReceiver(features, features)

    return estimator.export_saved_model(str(folder), receiver)


def serve(path, rows=ROWS):
    """The graph's op types, and the predictions of the batch that predict() takes."""
    features = {name: value[:rows] for name, value in batch(seed=1).items()}
    with tf.Graph().as_default() as graph, v1.Session() as session:
        signatures = v1.saved_model.load(session, ["serve"], path).signature_def
        signature = signatures["predict" if "predict" in signatures else "serving_default"]
        feed = {info.name: features[name] for name, info in signature.inputs.items()}
        found = session.run({name: info.name for name, info in signature.outputs.items()}, feed)
        return {op.type for op in graph.get_operations()}, found


@pytest.mark.parametrize("model", MODELS)
def test_an_export_scores_in_integers_where_the_option_asks_for_it(trained, model, tmp_path):
    estimator = trained(model)
    plain = predict(estimator)[SCORE[model]]
    with boosted():
        types, found = serve(export(estimator, tmp_path / "plain"))
    assert not [kind for kind in types if kind.startswith("TfBooster")]
    np.testing.assert_allclose(found[SCORE[model]], plain, rtol=1e-6)
    with boosted(scoring_precision="int8"):
        path = export(estimator, tmp_path / "int8")
        ours = predict(estimator)[SCORE[model]]
    types, found = serve(path)
    assert "TfBoosterQuantizedMatMul" in types
    np.testing.assert_allclose(found[SCORE[model]], ours, rtol=2e-6)
    with boosted(scoring_precision="int8", disable_passes=["quantized_products"]):
        types, _ = serve(export(estimator, tmp_path / "disabled"))
    assert not [kind for kind in types if kind.startswith("TfBooster")]


def test_an_export_without_a_layer_to_round_needs_no_tf_booster(tmp_path):
    """All layers are small."""
    estimator = train(
        lambda folder: tf.estimator.DNNClassifier([16, 8], columns()[:3], folder), str(tmp_path / "model"), steps=1
    )
    with boosted(scoring_precision="int8"):
        types, _ = serve(export(estimator, tmp_path / "export"))
    assert not [kind for kind in types if kind.startswith("TfBooster")]
