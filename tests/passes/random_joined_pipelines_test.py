"""Records from memory, generators, and several files that a program joins, parsed one by one before or behind that, put together at random."""

from __future__ import annotations

import tensorflow as tf
from hypothesis import strategies as st
from pipeline_pairs import assert_same, num_replaced, try_more
from random_pipelines_test import OF_BATCHES, STEPS, steps
from record_files import FEATURES

Dataset, Records = tf.data.Dataset, tf.data.TFRecordDataset
ONE = {key: FEATURES[key] for key in ("id", "clicks")}


def read(files):
    return [record for name in files for record in tf.compat.v1.io.tf_record_iterator(name)]


SOURCES = {
    "a file": lambda files, n: Records(files[n % len(files)]),
    "files": lambda files, n: Records(files),
    "memory": lambda files, n: Dataset.from_tensor_slices(read(files)[: n + 1]),
    "filtered": lambda files, n: Records(files).filter(lambda s: tf.strings.length(s) > n),
    "changed": lambda files, n: Records(files[0]).map(lambda s: tf.strings.join([s, ""])),
}


def parse(serialized):
    return tf.io.parse_single_example(serialized, ONE)


def with_label(n):
    return lambda serialized: {**parse(serialized), "label": tf.constant(n, tf.int64)}


MAPS = {
    "numbered": lambda dataset, n: dataset.map(lambda s: (lambda f: {**f, "label": f["id"]})(parse(s))),
    "in parallel": lambda dataset, n: dataset.map(with_label(5), num_parallel_calls=2),
    "with a label": lambda dataset, n: dataset.map(with_label(n)),
    "in two maps": lambda dataset, n: dataset.map(parse).map(lambda f: {**f, "label": f["id"] + n}),
}
BEHIND = {
    **STEPS,
    "map": lambda dataset, n: dataset.map(lambda f: {**f, "twice": f["id"] * 2}),
    "filter": lambda dataset, n: dataset.filter(lambda f: f["id"] % 3 < 2),
}
NUMBERS = st.integers(1, 40)
BRANCH = st.fixed_dictionaries(
    {
        "source": st.tuples(st.sampled_from(sorted(SOURCES)), NUMBERS),
        "records": steps(STEPS, 2),
        "parsed": steps(STEPS, 2),
    }
)
PIPELINES = st.fixed_dictionaries(
    {
        "branches": st.lists(BRANCH, min_size=1, max_size=3),
        "maps": st.lists(st.sampled_from(sorted(MAPS)), min_size=3, max_size=3),
        "alike": st.booleans(),
        "join": st.sampled_from(["concatenate", "sample", "choose"]),
        "early": st.booleans(),  # Whether records are parsed before they are joined.
        "number": NUMBERS,
        "behind": steps(BEHIND, 2),
        "batch_size": st.sampled_from([1, 4, 9]),
        "drop_remainder": st.booleans(),
        "map and batch": st.booleans(),
        "batches": steps(OF_BATCHES, 1),
        "one shot": st.booleans(),
    }
)


def apply(dataset, chosen, known):
    for name, number in chosen:
        dataset = known[name](dataset, number)
    return dataset


def join(datasets, pipeline):
    if pipeline["join"] == "concatenate" or len(datasets) == 1:
        joined = datasets[0]
        for other in datasets[1:]:
            joined = joined.concatenate(other)
        return joined
    if pipeline["join"] == "sample":
        return Dataset.sample_from_datasets(datasets, [1.0] * len(datasets), seed=pipeline["number"])
    return Dataset.choose_from_datasets(datasets, Dataset.range(len(datasets)).repeat(9))


def make(files, pipeline):
    def parsed(dataset, i):
        name = pipeline["maps"][0 if pipeline["alike"] else i]
        return MAPS[name](dataset, pipeline["number"] + i)

    branches = []
    for i, branch in enumerate(pipeline["branches"]):
        name, number = branch["source"]
        dataset = apply(SOURCES[name](files, number), branch["records"], STEPS)
        branches.append(apply(parsed(dataset, i) if pipeline["early"] else dataset, branch["parsed"], STEPS))
    dataset = join(branches, pipeline)
    dataset = apply(dataset if pipeline["early"] else parsed(dataset, 0), pipeline["behind"], BEHIND)
    size, drop = pipeline["batch_size"], pipeline["drop_remainder"]
    if pipeline["map and batch"]:
        with_batch = tf.data.experimental.map_and_batch(lambda f: {**f, "more": f["id"] + 1}, size, drop_remainder=drop)
        dataset = dataset.apply(with_batch)
    else:
        dataset = dataset.batch(size, drop)
    return apply(dataset, pipeline["batches"], OF_BATCHES).take(50)


def is_batched_first(files, pipeline):
    result, _ = assert_same(lambda: make(files, pipeline), one_shot=pipeline["one shot"])
    assert result.modified or result.skipped, pipeline
    return "a batch at a time" in str(result.changes)


def test_random_pipelines_of_joined_records(files):
    assert num_replaced(is_batched_first, PIPELINES, files, max_examples=40, derandomize=True) >= 20


if __name__ == "__main__":
    try_more(is_batched_first, PIPELINES)
