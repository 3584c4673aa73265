"""Pipelines of TFRecords that nothing parses before their batch, put together at random: the elements of each are what tf.data gives."""

from __future__ import annotations

import os

import tensorflow as tf
from hypothesis import strategies as st
from pipeline_pairs import assert_same, num_replaced, try_more
from random_pipelines_test import OF_BATCHES, READERS, STEPS, steps
from record_files import FEATURES

Records = tf.data.TFRecordDataset


def parse(serialized):
    return tf.io.parse_example(serialized, {"id": FEATURES["id"], "clicks": FEATURES["clicks"]})


def sequence(serialized):
    return tf.io.parse_sequence_example(serialized, {"id": FEATURES["id"]}, {"x": tf.io.VarLenFeature(tf.int64)})[:2]


# What reads a batch of strings; the first is parsed from files on by another op, where it can be.
FUNCTIONS = {
    "parse": parse,
    "parse twice": lambda s: (parse(s), parse(s)["id"]),
    "parse and more": lambda s: (s, parse(s)),
    "sequence": sequence,
    "proto": lambda s: tf.io.decode_proto(s, "tensorflow.Example", ["features"], [tf.string])[1][0],
    "lengths": lambda s: (tf.strings.length(s), s),
}
OF_RECORDS = {
    **STEPS,
    "longer ones": lambda dataset, n: dataset.filter(lambda s: tf.strings.length(s) > n),
    "more": lambda dataset, n: dataset.concatenate(dataset.take(n)),
    "beside": lambda dataset, n: tf.data.Dataset.zip((dataset, dataset.skip(n))).map(lambda a, b: a),
}
PIPELINES = st.fixed_dictionaries(
    {
        "reader": st.sampled_from(sorted(READERS)),
        "damaged": st.booleans(),
        "records": st.one_of(*[steps(STEPS, 3)] * 3, steps(OF_RECORDS, 3)),
        "batch_size": st.sampled_from([1, 4, 9, 50]),
        "drop_remainder": st.booleans(),
        "batch calls": st.sampled_from([None, 2]),
        "between": steps(STEPS, 2),
        "function": st.sampled_from([None, *sorted(FUNCTIONS)]),
        "calls": st.sampled_from([None, 2]),
        "batches": steps(OF_BATCHES, 2),
        "batched again": st.booleans(),
        "one shot": st.booleans(),
    }
)


def make(files, pipeline):
    def apply(dataset, chosen, known):
        for name, number in chosen:
            dataset = known[name](dataset, number)
        return dataset

    dataset = apply(READERS[pipeline["reader"]](files), pipeline["records"], OF_RECORDS)
    drop = pipeline["drop_remainder"]
    dataset = dataset.batch(pipeline["batch_size"], drop, num_parallel_calls=pipeline["batch calls"])
    dataset = apply(dataset, pipeline["between"], STEPS)
    if pipeline["batched again"]:
        dataset = dataset.map(lambda s: s[:1]).batch(2, drop_remainder=True)
    if pipeline["function"] is not None and not pipeline["batched again"]:
        dataset = dataset.map(FUNCTIONS[pipeline["function"]], pipeline["calls"])
    return apply(dataset, pipeline["batches"], OF_BATCHES).take(50)


def damaged(files):
    """The files, one of them cut within its last record and one with a wrong checksum in the middle."""
    found = list(files)
    for number, change in ((2, lambda content: content[:-2]), (3, _flipped)):
        found[number] = f"{files[number]}.damaged"
        if not os.path.exists(found[number]):
            with open(files[number], "rb") as source, open(found[number], "wb") as bad:
                bad.write(change(source.read()))
    return found


def _flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]


def is_batched(files, pipeline):
    names = damaged(files) if pipeline["damaged"] else files
    result, _ = assert_same(lambda: make(names, pipeline), one_shot=pipeline["one shot"])
    assert result.modified or result.skipped, pipeline
    return "TFRecordBatchDataset" in str(result.changes)


def test_random_pipelines_of_serialized_records(files):
    assert num_replaced(is_batched, PIPELINES, files, max_examples=40, derandomize=True) >= 20


if __name__ == "__main__":
    try_more(is_batched, PIPELINES)
