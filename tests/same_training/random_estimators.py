"""Estimators put together at random, trained plain and boosted: losses, checkpoints, metrics and predictions are equal bit for bit.

A seed's number makes it again. Grappler is off on
both sides, for it regroups factors by what it finds around them, and with it the passes that add in another order.
"""

from __future__ import annotations

import os
import random
import tempfile
from typing import Any, Dict, List

import numpy as np
import tensorflow as tf
from random_models import OPTIMIZERS, estimator
from training_pair import EXACT, assert_no_pass_failed, assert_same, boosted, session_config, train_estimator

import tf_booster

# These passes give products and sums over the batch other last bits.
OPTIONS = {"disable_passes": ["small_matmuls", "batch_normalization", "pair_dots"]}


def draw(seed: int) -> Dict[str, Any]:
    """The settings of an Estimator."""
    r = random.Random(seed)
    dims = r.choice([[4], [4, 8], [1, 4, 7], [16], [3]])

    def feature(i: int) -> Dict[str, Any]:
        return {
            "name": f"f{i}",
            "kind": r.choice(["one", "one", "list", "list", "row", "words"]),
            "ids": r.choice([3, 20, 300]),
            "use": r.choice(["column", "column", "v2 column", "shared", "crossed", "indicator", "lookup", "gather"]),
            "hashed": r.random() < 0.4,
            "weighted": r.random() < 0.2,
            "combiner": r.choice(["mean", "sum", "sqrtn"]),
            "dim": r.choice(dims),
            "max_norm": r.choice([None, None, None, 0.5]),
        }

    # By itself, so that what is drawn above and below stays what it was.
    of = random.Random(f"interaction {seed}")
    interaction = {
        "columns": of.choice([2, 3, 4, 8, 17]),
        "first_order": of.choice(["none", "in front", "behind"]),
        "laid": of.choice(["stack", "concat"]),
        "written": of.choice(["square", "product", "keepdims"]),
        "sums_up": of.random() < 0.6,
        "in_tower": of.random() < 0.6,
    }

    of_wiring = random.Random(f"wiring {seed}")
    wiring = {
        "first_in_tower": of_wiring.choice(["no", "sum", "flat"]),
        "beside": of_wiring.choice(["nothing", "joined again", "crossed", "sliced", "gated", "attention", "waits"]),
    }

    features = [feature(i) for i in range(r.randint(1, 7))]
    for f in features:
        f["vocabulary"] = random.Random(f"vocabulary {f['name']} {seed}").choice([None, None, "oov", "default"])

    return {
        "seed": seed,
        "wiring": wiring,
        "buckets": random.Random(f"buckets {seed}").choice([None, "one-hot", "embedded", "crossed"]),
        "interaction": of.choice([None, interaction, interaction]),
        "features": features,
        "numbers": r.choice([0, 1, 3]),
        "records": r.choice([40, 97, 200]),
        "batch": r.choice([1, 3, 16, 33]),
        "pipeline": r.choice(["parse batches", "parse records", "shuffle and repeat", "interleave", "in a cache"]),
        "compression": r.choice([None, None, "GZIP"]),
        "layers": r.choice([[], [8], [16, 8], [5, 4, 3]]),
        "activation": r.choice(["relu", "tanh", "sigmoid"]),
        "normalized": r.random() < 0.25,
        "dropout": r.random() < 0.2,
        "l2": r.random() < 0.2,
        "wide": r.random() < 0.3,
        "classes": r.choice([1, 1, 3]),
        "partitioned": r.random() < 0.1,
        "optimizer": r.choice(sorted(OPTIMIZERS)),
        "decayed": r.random() < 0.3,
        "clip": r.choice([None, None, "global norm", "value", "norm"]),
        "averaged": r.random() < 0.15,
        "summaries": r.random() < 0.3,
        "steps": r.choice([7, 20, 31]),
        "run": r.choice(["exact", "exact", "off"]),
    }


def write(case: Dict[str, Any], folder: str) -> List[str]:
    rng = np.random.RandomState(case["seed"])
    paths = [os.path.join(folder, f"{i}.tfrecord") for i in range(2)]
    writers = [tf.io.TFRecordWriter(path, case["compression"]) for path in paths]
    for number in range(case["records"]):
        example = tf.train.Example()
        values = example.features.feature
        for f in case["features"]:
            count = {"one": 1, "row": 5, "list": rng.randint(0, 6), "words": rng.randint(0, 4)}[f["kind"]]
            ids = (rng.zipf(1.3, count) - 1) % f["ids"]
            if f["kind"] == "words":
                values[f["name"]].bytes_list.value.extend(b"w%d" % i for i in ids)
            else:
                values[f["name"]].int64_list.value.extend(ids.tolist())
            values[f["name"] + "_weights"].float_list.value.extend((rng.rand(count) + 0.1).tolist())
        values["numbers"].float_list.value.extend(rng.randn(case["numbers"]).tolist())
        values["label"].int64_list.value.append(rng.randint(0, max(2, case["classes"])))
        writers[number * 2 // case["records"]].write(example.SerializeToString())
    for writer in writers:
        writer.close()
    return paths


def spec_of(case: Dict[str, Any]) -> Dict[str, Any]:
    """Of the records, for a parser."""
    spec = {"label": tf.io.FixedLenFeature([1], tf.int64)}
    if case["numbers"]:
        spec["numbers"] = tf.io.FixedLenFeature([case["numbers"]], tf.float32)
    for f in case["features"]:
        lists = f["kind"] in ("list", "words")
        shape = [5 if f["kind"] == "row" else 1]
        of = lambda dtype, lists=lists, shape=shape: (
            tf.io.VarLenFeature(dtype) if lists else tf.io.FixedLenFeature(shape, dtype)
        )
        spec[f["name"]] = of(tf.string if f["kind"] == "words" else tf.int64)
        if f["weighted"]:
            spec[f["name"] + "_weights"] = of(tf.float32)
    return spec


def input_fn(case: Dict[str, Any], paths: List[str]) -> Any:
    spec = spec_of(case)

    def labelled(features):
        features = dict(features)
        return features, features.pop("label")

    def make():
        records, batch = tf.data.TFRecordDataset(paths, case["compression"]), case["batch"]
        parse = lambda batches: batches.map(lambda s: labelled(tf.io.parse_example(s, spec)))
        if case["pipeline"] == "parse batches":
            return parse(records.batch(batch)).repeat()
        if case["pipeline"] == "parse records":
            one = lambda s: labelled(tf.io.parse_single_example(s, spec))
            return records.map(one).shuffle(30, seed=5).repeat().batch(batch).prefetch(1)
        if case["pipeline"] == "shuffle and repeat":
            return parse(records.shuffle(50, seed=3).repeat().batch(batch)).prefetch(1)
        if case["pipeline"] == "interleave":
            names = tf.data.Dataset.from_tensor_slices(paths)
            read = lambda path: tf.data.TFRecordDataset(path, case["compression"])
            return parse(names.interleave(read, cycle_length=2, block_length=3).repeat().batch(batch))
        return parse(records.batch(batch)).cache().repeat()

    return make


def settings_of(case: Dict[str, Any]) -> Dict[str, Any]:
    config = session_config()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    saves = {"save_checkpoints_steps": 9} if case["steps"] > 20 else {}
    return {"session_config": config, "save_summary_steps": 3 if case["summaries"] else None, **saves}


def check(seed: int) -> None:
    """Raises AssertionError for anything that differs."""
    case = draw(seed)
    with tempfile.TemporaryDirectory() as folder:
        read = input_fn(case, write(case, folder))

        def outcome(name):
            trained = train_estimator(
                lambda config: estimator(case, config), read, f"{folder}/{name}", case["steps"], **settings_of(case)
            )
            again = estimator(case, tf.estimator.RunConfig(f"{folder}/{name}", tf_random_seed=7, **settings_of(case)))
            predictions = [p["logits"] for p, _ in zip(again.predict(read), range(2 * case["batch"]))]
            return trained, again.evaluate(read, steps=3), np.array(predictions)

        plain, metrics, predictions = outcome("plain")
        with boosted(pipeline=case["run"], **OPTIONS):
            mine, my_metrics, my_predictions = outcome("boosted")
        assert_no_pass_failed(mine.report)
        assert_same(plain, mine, EXACT)
        assert my_metrics == metrics, (my_metrics, metrics)
        np.testing.assert_array_equal(my_predictions, predictions)


def check_repeated(seed: int) -> Dict[str, Any]:
    """Predictions with the option repeated_features of some features, drawn at random, that are the same in four rows each.

    Products of fewer rows may sum in another order: 2^-24 for each of some 100 terms, seen through a few layers.
    """
    case = draw(seed)
    draws = random.Random(seed)
    names = [f["name"] for f in case["features"]] + (["numbers"] if case["numbers"] else [])
    named = [name for name in names if draws.random() < 0.5] or names[:1]
    weighted = {f["name"] for f in case["features"] if f["weighted"]}
    named += [name + "_weights" for name in named if name in weighted]
    return _check_predictions(case, named, repeated_features=named)


def check_padded(seed: int) -> Dict[str, Any]:
    """Predictions with xla="padded", where each size of a batch comes often enough to be compiled."""
    return _check_predictions(draw(seed), [], batches=6, xla="padded")


def _check_predictions(case: Dict[str, Any], named: List[str], batches: int = 3, **options: Any) -> Dict[str, Any]:
    """named: features that are the same in four rows each."""
    with tempfile.TemporaryDirectory() as folder:
        paths = write(case, folder)
        settings = dict(session_config=settings_of(case)["session_config"])
        make = lambda: estimator(case, tf.estimator.RunConfig(f"{folder}/model", tf_random_seed=7, **settings))
        make().train(input_fn(case, paths), steps=3)
        records = _with_repeats(case, paths, named)

        def read():
            features = lambda batch: {
                k: v for k, v in tf.io.parse_example(batch, spec_of(case)).items() if k != "label"
            }
            return tf.data.Dataset.from_tensor_slices(records).repeat().batch(20).take(batches).map(features)

        predict = lambda: np.array([p["logits"] for p in make().predict(read)])
        plain = predict()
        with boosted(**options, **OPTIONS):
            mine, report = predict(), tf_booster.report().to_dict()
    assert_no_pass_failed(report)
    np.testing.assert_allclose(mine, plain, rtol=2e-5, atol=1e-5)
    return report


def check_in_integers(seed: int) -> Dict[str, Any]:
    """Predictions with the option scoring_precision, and products of any size in integers. Nothing fails, and scores are near."""
    case = draw(seed)
    with tempfile.TemporaryDirectory() as folder:
        read = input_fn(case, write(case, folder))
        settings = dict(session_config=settings_of(case)["session_config"])
        make = lambda: estimator(case, tf.estimator.RunConfig(f"{folder}/model", tf_random_seed=7, **settings))
        make().train(read, steps=3)
        predict = lambda: np.array([p["logits"] for p, _ in zip(make().predict(read), range(2 * case["batch"]))])
        plain = predict()
        with boosted(scoring_precision="int16", **OPTIONS):
            mine, report = predict(), tf_booster.report().to_dict()
    assert_no_pass_failed(report)
    size = np.abs(plain).max(initial=1)
    assert np.abs(mine - plain).max(initial=0) <= 0.01 * size, (mine - plain, size)
    return report


def _with_repeats(case: Dict[str, Any], paths: List[str], named: List[str]) -> List[bytes]:
    """The first records, of which the features `named` are those of every fourth one."""
    records = [
        tf.train.Example.FromString(record.numpy())
        for record in tf.data.TFRecordDataset(paths, case["compression"]).take(50)
    ]
    for i, record in enumerate(records):
        for name in named:
            record.features.feature[name].CopyFrom(records[i // 4 * 4].features.feature[name])
    return [record.SerializeToString() for record in records]
