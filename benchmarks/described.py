"""What each benchmark measures, in a sentence, and how its contests are called where people read them."""

from __future__ import annotations

from typing import Dict, NamedTuple, Tuple


class Description(NamedTuple):
    """what, dim, distribution: headings for these parts of a result; "" where all contests have the same. facts: those of the tables in docs."""

    title: str
    sentence: str
    what: str = ""
    dim: str = ""
    distribution: str = ""
    facts: Tuple[str, ...] = ()


BENCHMARKS: Dict[str, Description] = {
    "find": Description(
        "Find", "Batches of keys that are all in the table.", dim="dim", distribution="keys", facts=("unique",)
    ),
    "find_or_insert": Description(
        "Find or insert",
        "Batches in which one key in ten is new; the peers have no such op, so it is their insert, which reads nothing back.",
        dim="dim", distribution="keys", facts=("unique",),
    ),
    "adagrad": Description(
        "Adagrad",
        "apply: the update of distinct rows that are found already. step: lookup, sum of gradients and update, of ids with duplicates.",
        what="contest", dim="dim", distribution="keys", facts=("unique",),
    ),
    "adam": Description(
        "Adam",
        "apply: the update of distinct rows that are found already. step: lookup, sum of gradients and update, of ids with duplicates.",
        what="contest", dim="dim", distribution="keys", facts=("unique",),
    ),
    "unique": Description("Unique", "The distinct values of a million int64.", distribution="keys", facts=("unique",)),
    "small_batches": Description(
        "Small batches", "What an op costs on 1 to 256 ids at dim 16, before it has much to do.",
        what="op", distribution="batch",
    ),
    "sparse_lookup": Description(
        "Sparse lookups", "The lookups of 38 embedding columns on ordinary Variables, and their gradients.",
        distribution="ids",
    ),
    "graph_rewrite": Description(
        "A training step", "38 tables under feature columns and 100 dense Variables: unchanged code, rewritten, beside the same code as it was.",
        what="optimizer", dim="batch", facts=("fewer ops",),
    ),
    "end_to_end": Description(
        "Training whole models", "WDL, DeepFM and DLRM with 26 tables, batches from memory; losses and AUC are compared first.",
        what="model", dim="batch",
    ),
    "graph_passes": Description(
        "Time of the rewrite", "All passes on large graphs, in processor time: the rate stays where time grows linearly.",
        what="embeddings", distribution="graph", facts=("ops", "passes"),
    ),
    "variable_updates": Description(
        "Updates of Variables", "The updates of a step alone: small Variables, large ones, and tables.", what="Variables"
    ),
    "batch_normalization": Description(
        "Batch normalization", "Layers that train, side by side: forward, backward and their moving averages.",
        what="rows", dim="units", distribution="layers",
    ),
    "table_fusion": Description(
        "Fused tables", "A training step of 38 tables, fused to two and each by itself.", what="step"
    ),
    "table_exchange": Description(
        "Exchange between ranks", "The collectives of 26 tables in a step of two ranks on this machine.",
        what="tables x ids", facts=("collectives", "whole ms"),
    ),
    "dense_columns": Description(
        "Columns of many ops", "A training step of 40 columns and one layer, which TensorFlow computes by hundreds of small ops.",
        what="columns", distribution="batch",
    ),
    "partitioned_variables": Description(
        "Partitioned Variables", "A training step of 26 embedding tables, each in several Variables, and two layers.",
        what="parts", distribution="batch",
    ),
    "increments": Description(
        "Increments", "What brings a served table of 4,000,000 rows up to date: the rows that changed, or all; files in memory.",
        what="contest", distribution="changed rows", facts=("MB", "MB of all rows"),
    ),
    "evaluation": Description(
        "Evaluation within a training", "10 batches of 1,000 ids with AUC, from the call to its result: with what the training has in memory, with what is restored, and plain TensorFlow with a Variable.",
        what="embeddings", facts=("MB", "MB restored"),
    ),
    "auc": Description(
        "AUC", "An update of tf.compat.v1.metrics.auc with a batch's predictions.", what="thresholds", distribution="batch",
    ),
    "start_up": Description(
        "Around the steps", "A training of 10 steps, an evaluation of 10 batches and an export of a canned wide and deep model, from the call to its end.",
        what="call", dim="features", facts=("s tf_booster", "s TensorFlow"),
    ),
    "direct_lookups": Description(
        "Lookups of predictions", "26 embedding columns on ordinary Variables, 1,000 rows: read where they lie, gathered first, and as TensorFlow runs them.",
        what="ids", distribution="keys",
    ),
    "repeated_features": Description(
        "Repeated features", "Predictions of 1,000 rows in which users repeat, with the option repeated_features.",
        what="model", distribution="batch",
    ),
    "gather_matmul": Description(
        "Gathered products", "Attention of 1,000 candidates over the histories of few users: scores of a query, and sums by scores.",
        what="product, history", distribution="batch",
    ),
    "xla_padding": Description(
        "XLA with padded rows", "Predictions of batches of any size, with xla=\"padded\", without it, and plain TensorFlow.",
        what="model", distribution="batch", facts=("clusters",),
    ),
    "quantized_scoring": Description(
        "Quantised scoring", "Scores in int8 (ours) and int16 beside float32, tf_booster's and TensorFlow's: a layer [512, 512], and a model of 26 fields with layers of 512, 512, 256 and 128.",
        what="what", dim="batch", facts=("int8 within 1 %", "int16 within 1 %", "int8 order", "int16 order", "AUC", "int8 AUC", "int16 AUC"),
    ),
    "parameter_servers": Description(
        "Parameter servers", "Training with 26 tables on two parameter servers: what a step moves between the processes, and its rate.",
        what="what", dim="batch", distribution="ids", facts=("KB tf_booster", "KB without", "KB TensorFlow", "tensors tf_booster", "tensors without", "tensors TensorFlow"),
    ),
    "embedding_pipeline": Description(
        "Embedding pipeline", "Training steps whose lookups run a step ahead, beside the same steps one after the other.",
        what="step", facts=("exact efficiency",),
    ),
    "pipeline_cost": Description(
        "Cost of the pipeline", "Steps in which overlap can win little, with the pipeline and without.",
        what="program", facts=("cost", "give or take"),
    ),
    "file_to_batch": Description(
        "File to batch", "TFRecord files to parsed batches of 1024: TFRecordExampleDataset beside TFRecordDataset and parse_example.",
        what="lists", distribution="records", facts=("threads gain", "processes"),
    ),
    "input_pipelines": Description(
        "Input pipelines", "Existing pipelines from files to shuffled, parsed batches, of records, of lines of text and of tensors in memory, rewritten and as TensorFlow runs them.",
        what="pipeline", distribution="records",
    ),
    "parse_example": Description(
        "Parser", "tf.io.parse_example in batches of 1024 (or as said): TensorFlow's kernel and ours.",
        what="lists", distribution="records",
    ),
    "parse_sequence_example": Description(
        "Parser of sequences", "tf.io.parse_sequence_example in batches of 512 (or as said): TensorFlow's kernel and ours.",
        what="lists", distribution="records",
    ),
}  # fmt: skip

# (benchmark, what, contestant): its name.
PEER_NAMES: Dict[Tuple[str, str, str], str] = {
    ("find_or_insert", "op", "TFRA insert"): "TFRA's insert",
    ("find_or_insert", "op", "tf.lookup insert"): "tf.lookup's insert",
    ("adam", "apply", "TensorFlow"): "lazy Adam",
    ("adam", "apply", "TF Adagrad"): "TF sparse Adagrad",
    ("adagrad", "apply", "TensorFlow"): "TF sparse Adagrad",
}
