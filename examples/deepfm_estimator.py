"""DeepFM (Guo et al. 2017) for Criteo's data as an Estimator, in plain TensorFlow.

    python examples/deepfm_estimator.py --data train.txt --model_dir /tmp/deepfm                 # hash tables, boosted
    python examples/deepfm_estimator.py --data train.txt --model_dir /tmp/deepfm --no-booster    # TensorFlow alone

Everything below the one line is ordinary Estimator code. With `--embeddings variable` the ids are hashed into the buckets of
ordinary feature columns; with `--embeddings hash` each field has a table that grows with the ids it meets.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Dict, List, Optional

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

import tensorflow as tf

from criteo.columns import CATEGORICAL, NUMERIC
from criteo.inputs import feature_spec, input_fn

OPTIMIZERS = {
    # A row gets about 1/1000 of the gradient of a batch of 1000: a start of 0.1 would drown it.
    "adagrad": lambda rate: tf.compat.v1.train.AdagradOptimizer(rate, initial_accumulator_value=1e-4),
    "adam": tf.compat.v1.train.AdamOptimizer,
    "ftrl": tf.compat.v1.train.FtrlOptimizer,
    "sgd": tf.compat.v1.train.GradientDescentOptimizer,
}


def parse_args(argv: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", required=True, help="TFRecords, Criteo's TSV, or CSV with a header: file, folder or pattern"
    )
    parser.add_argument("--eval_data", help="evaluation data; default: one in ten records of --data, not trained on")
    parser.add_argument("--model_dir", required=True)
    parser.add_argument(
        "--booster", action=argparse.BooleanOptionalAction, default=True, help="the one line, on or off"
    )
    parser.add_argument(
        "--embeddings",
        choices=["hash", "hash_column", "variable"],
        default=None,
        help="hash: a hash table a field; hash_column: the same under TensorFlow's embedding_column; "
        "variable: hashed-bucket feature columns (default: hash with the booster, else variable)",
    )
    parser.add_argument("--optimizer", choices=sorted(OPTIMIZERS), default="adagrad")
    parser.add_argument("--learning_rate", type=float, default=0.03)
    parser.add_argument("--embedding_dim", type=int, default=16)
    parser.add_argument("--buckets", type=int, default=50_000, help="buckets of a field with --embeddings variable")
    parser.add_argument("--hidden", type=int, nargs="*", default=[128, 64], help="units of the dense layers")
    parser.add_argument("--batch_size", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=1000, help="train up to this step")
    parser.add_argument("--eval_every", type=int, default=500, help="steps between checkpoints, and so evaluations")
    parser.add_argument(
        "--pipeline",
        choices=["off", "exact", "async"],
        default="off",
        help="with the booster: the next step's input and lookups beside this step",
    )
    parser.add_argument("--threads", type=int, default=0, help="threads inside and between ops (0: all cores)")
    args = parser.parse_args(argv)
    args.embeddings = args.embeddings or ("hash" if args.booster else "variable")
    if args.embeddings != "variable" and not args.booster:
        parser.error("--embeddings %s needs the booster; use --embeddings variable with --no-booster" % args.embeddings)
    if args.pipeline != "off" and not args.booster:
        parser.error("--pipeline %s needs the booster" % args.pipeline)
    return args


def embed_with_hash_tables(features: Dict[str, tf.Tensor], width: int, stddev: float) -> tf.Tensor:
    """One hash table a field, looked up by the raw ids: float32 [n, 26, width]."""
    import tf_booster

    initializer = tf.compat.v1.truncated_normal_initializer(stddev=stddev)
    tables = [tf_booster.get_hash_table("embedding/" + name, width, initializer=initializer) for name in CATEGORICAL]
    return tf.stack(
        [tf_booster.embedding_lookup(table, features[table_name]) for table, table_name in zip(tables, CATEGORICAL)],
        axis=1,
    )


def embed_with_feature_columns(
    features: Dict[str, tf.Tensor], width: int, stddev: float, buckets: Optional[int]
) -> tf.Tensor:
    """One embedding_column a field, over hash tables or over `buckets` hashed buckets: float32 [n, 26, width]."""
    initializer = tf.compat.v1.truncated_normal_initializer(stddev=stddev)
    if buckets is None:
        import tf_booster

        columns = [tf_booster.feature_column.categorical_column_with_hash_table(name) for name in CATEGORICAL]
    else:
        columns = [
            tf.feature_column.categorical_column_with_hash_bucket(name, buckets, tf.int64) for name in CATEGORICAL
        ]
    embedded = [tf.feature_column.embedding_column(column, width, initializer=initializer) for column in columns]
    ids = {name: tf.expand_dims(features[name], 1) for name in CATEGORICAL}
    return tf.reshape(tf.compat.v1.feature_column.input_layer(ids, embedded), [-1, len(CATEGORICAL), width])


def scale_numbers(features: Dict[str, tf.Tensor]) -> tf.Tensor:
    """The numbers on a scale that is logarithmic far from zero, and a flag for each that is missing: float32 [n, 26]."""
    numbers = tf.stack([features[name] for name in NUMERIC], axis=1)
    missing = tf.math.is_nan(numbers)
    numbers = tf.where(missing, tf.zeros_like(numbers), numbers)
    return tf.concat([0.25 * tf.math.asinh(numbers), tf.cast(missing, tf.float32)], axis=1)


def dense(inputs: tf.Tensor, units: int, name: str, activation=None) -> tf.Tensor:
    """A dense layer that begins alike in each run: float32 [n, units]."""
    # The default initializer takes its seed from Python's random numbers, this one from tf_random_seed.
    initializer = tf.compat.v1.glorot_uniform_initializer()
    return tf.compat.v1.layers.dense(inputs, units, activation, kernel_initializer=initializer, name=name)


def model_fn(
    features: Dict[str, tf.Tensor], labels: Optional[tf.Tensor], mode: str, params: Dict
) -> tf.estimator.EstimatorSpec:
    """First-order weights + factorization machine + dense network."""
    width = 1 + params["embedding_dim"]  # The first column is the first-order weight of an id, the others its vector.
    if params["embeddings"] == "hash":
        embedded = embed_with_hash_tables(features, width, stddev=0.02)
    else:
        buckets = params["buckets"] if params["embeddings"] == "variable" else None
        embedded = embed_with_feature_columns(features, width, stddev=0.02, buckets=buckets)
    numbers = scale_numbers(features)

    weights, vectors = tf.split(embedded, [1, width - 1], axis=2)
    first_order = tf.reduce_sum(weights, axis=1)
    first_order += dense(numbers, 1, "numeric_first_order")
    fm = 0.5 * tf.reduce_sum(
        tf.square(tf.reduce_sum(vectors, axis=1)) - tf.reduce_sum(tf.square(vectors), axis=1), axis=1, keepdims=True
    )
    net = tf.concat([tf.reshape(vectors, [-1, len(CATEGORICAL) * params["embedding_dim"]]), numbers], axis=1)
    for i, units in enumerate(params["hidden"]):
        net = dense(net, units, "dense_%d" % i, tf.nn.relu)
    deep = dense(net, 1, "deep")

    logits = tf.squeeze(first_order + fm + deep, axis=1)
    probability = tf.sigmoid(logits)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"probability": probability})
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = {"auc": tf.compat.v1.metrics.auc(labels, probability, num_thresholds=2000)}
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    optimizer = OPTIMIZERS[params["optimizer"]](params["learning_rate"])
    train_op = optimizer.minimize(loss, global_step=tf.compat.v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def make_estimator(args: argparse.Namespace) -> tf.estimator.Estimator:
    session = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=args.threads, inter_op_parallelism_threads=args.threads
    )
    config = tf.estimator.RunConfig(
        model_dir=args.model_dir,
        tf_random_seed=1,
        session_config=session,
        log_step_count_steps=100,
        save_summary_steps=None,
        save_checkpoints_steps=args.eval_every,
        keep_checkpoint_max=3,
    )
    return tf.estimator.Estimator(model_fn, config=config, params=vars(args))


def train_and_evaluate(estimator: tf.estimator.Estimator, args: argparse.Namespace, hooks=(), listeners=()):
    """Trains up to --steps with an evaluation at each checkpoint, and exports at the end; returns (metrics, [export folder])."""
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(feature_spec())
    return tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(
            input_fn(args.data, args.batch_size, training=True, eval_path=args.eval_data),
            max_steps=args.steps,
            hooks=list(hooks),
            saving_listeners=list(listeners),
        ),
        tf.estimator.EvalSpec(
            input_fn(args.data, 4 * args.batch_size, eval_path=args.eval_data),
            steps=None,
            start_delay_secs=0,
            throttle_secs=0,
            exporters=tf.estimator.FinalExporter("final", receiver),
        ),
    )


def predict(estimator: tf.estimator.Estimator, args: argparse.Namespace, limit: int) -> List[float]:
    """The probabilities of the first `limit` evaluation records."""
    source = input_fn(args.data, args.batch_size, eval_path=args.eval_data, limit=limit)
    return [float(p["probability"]) for p in estimator.predict(source)]


def main(argv: Optional[List[str]] = None) -> int:
    args = parse_args(argv)
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO)
    if args.booster:
        import tf_booster  # Puts enable_gpu_booster on tf.

        tf.enable_gpu_booster(pipeline=args.pipeline)  # The one line.
    estimator = make_estimator(args)
    metrics, exports = train_and_evaluate(estimator, args)
    if metrics is None:
        print("the model in %s has had its %d steps; nothing to train" % (args.model_dir, args.steps))
        return 0
    print("step %(global_step)d: AUC %(auc).4f, loss %(loss).4f" % metrics)
    print("exported to %s" % exports[0].decode())
    print("first predictions: %s" % " ".join("%.3f" % p for p in predict(estimator, args, 8)))
    if args.booster:
        print(tf_booster.report())
    return 0


if __name__ == "__main__":
    sys.exit(main())
