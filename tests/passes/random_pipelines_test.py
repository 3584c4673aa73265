"""Pipelines put together at random: the pass gives what TensorFlow gives, or leaves them.

`PYTHONPATH=.:tests/data python tests/passes/random_pipelines_test.py 5000` tries more of them.
"""

from __future__ import annotations

import tensorflow as tf
from hypothesis import strategies as st
from pipeline_pairs import assert_same, num_replaced, try_more
from record_files import FEATURES

Dataset, Records = tf.data.Dataset, tf.data.TFRecordDataset
experimental = tf.data.experimental


def from_each(interleave):
    return lambda files: interleave(Dataset.from_tensor_slices(files))


def inside(interleave):
    """Readers whose functions parse each file's records, too."""
    return lambda files, parse: interleave(Dataset.from_tensor_slices(files), lambda name: Records(name).map(parse))


PARSING_READERS = {
    "flat_map": inside(lambda names, function: names.flat_map(function)),
    "interleave": inside(lambda names, function: names.interleave(function, cycle_length=2, block_length=3)),
    "in parallel": inside(
        lambda names, function: names.interleave(
            function, cycle_length=3, num_parallel_calls=2, deterministic=True
        ).prefetch(2)
    ),
}
READERS = {
    "list": Records,
    "one": lambda files: Records(files[0]),
    "parallel reads": lambda files: Records(files, num_parallel_reads=2),
    "flat_map": from_each(lambda names: names.flat_map(Records)),
    "interleave": from_each(lambda names: names.interleave(Records, cycle_length=2, block_length=3)),
    "in parallel": from_each(
        lambda names: names.interleave(Records, cycle_length=3, num_parallel_calls=2, deterministic=True)
    ),
    "shuffled names": lambda files: Dataset.list_files(files, seed=3).interleave(Records, cycle_length=2),
}
# n: a number from 1 to 40.
STEPS = {
    "shuffle": lambda dataset, n: dataset.shuffle(n, seed=n),
    "one order": lambda dataset, n: dataset.shuffle(n, seed=n, reshuffle_each_iteration=False),
    "shuffle_and_repeat": lambda dataset, n: dataset.apply(experimental.shuffle_and_repeat(n, 2, n)),
    "repeat": lambda dataset, n: dataset.repeat(1 + n % 3),
    "shard": lambda dataset, n: dataset.shard(2, n % 2),
    "take": lambda dataset, n: dataset.take(n),
    "skip": lambda dataset, n: dataset.skip(n // 3),
    "prefetch": lambda dataset, n: dataset.prefetch(n if n % 2 else tf.data.AUTOTUNE),
    "options": lambda dataset, n: dataset.with_options(tf.data.Options()),
    "cache": lambda dataset, n: dataset.cache(),
}
OF_PARSED = {
    **STEPS,
    "filter": lambda dataset, n: dataset.filter(lambda f: f["id"] % (1 + n % 4) > 0 if "id" in f else True),
    "filter by length": lambda dataset, n: dataset.filter(lambda f: tf.size(f.get("clicks", [0])) > n % 3),
    "some": lambda dataset, n: dataset.filter(lambda f: tf.random.uniform([], seed=n) < 0.6),
}
OF_BATCHES = {
    **STEPS,
    "map": lambda dataset, n: dataset.map(lambda *element: element),
    "enumerate": lambda dataset, n: dataset.enumerate(),
    "zip": lambda dataset, n: Dataset.zip((dataset, Dataset.range(n))),
    "concatenate": lambda dataset, n: dataset.concatenate(dataset.take(n)),
    "filter": lambda dataset, n: dataset.filter(lambda *element: True),
}


def steps(names, most):
    return st.lists(st.tuples(st.sampled_from(sorted(names)), st.integers(1, 40)), max_size=most)


PIPELINES = st.fixed_dictionaries(
    {
        "reader": st.sampled_from(sorted(READERS)),
        "records": steps(STEPS, 3),
        "batch_size": st.sampled_from([1, 4, 9, 50]),
        "drop_remainder": st.booleans(),
        "single": st.booleans(),
        "padded": st.booleans(),  # Of single records.
        "inside": st.booleans(),  # Single records in the function that reads each file.
        "between": steps(STEPS, 1),
        "parsed": steps(OF_PARSED, 3),
        "batches": steps(OF_BATCHES, 3),
        "features": st.lists(st.sampled_from(sorted(FEATURES)), min_size=1, unique=True),
        "calls": st.sampled_from([None, 2]),
    }
)


def make(files, pipeline):
    def apply(dataset, names, known):
        for name, number in names:
            dataset = known[name](dataset, number)
        return dataset

    features = {key: FEATURES[key] for key in pipeline["features"]}
    padded = pipeline["single"] and pipeline["padded"]
    if pipeline["single"]:  # Rows that a batch can hold.
        odd = ("weights",) if padded else ("sequence", "weights")
        features = {key: spec for key, spec in features.items() if key not in odd} or {"id": FEATURES["id"]}

    def parse(serialized):
        parsed = (tf.io.parse_single_example if pipeline["single"] else tf.io.parse_example)(serialized, features)
        if padded:
            return {k: tf.sparse.to_dense(v) if isinstance(v, tf.SparseTensor) else v for k, v in parsed.items()}
        return parsed

    def batch(dataset):
        make_batch = dataset.padded_batch if padded else dataset.batch
        return make_batch(pipeline["batch_size"], drop_remainder=pipeline["drop_remainder"])

    parse_all = lambda dataset: dataset.map(parse, pipeline["calls"])
    first, second = (parse_all, batch) if pipeline["single"] else (batch, parse_all)
    if pipeline["single"] and pipeline["inside"] and pipeline["reader"] in PARSING_READERS:
        parsed = PARSING_READERS[pipeline["reader"]](files, parse)
        dataset = batch(apply(parsed, pipeline["records"] + pipeline["parsed"], OF_PARSED))
        return apply(dataset, pipeline["batches"], OF_BATCHES).take(50)
    dataset = apply(READERS[pipeline["reader"]](files), pipeline["records"], STEPS)
    between, known = (pipeline["parsed"], OF_PARSED) if pipeline["single"] else (pipeline["between"], STEPS)
    dataset = second(apply(first(dataset), between, known))
    return apply(dataset, pipeline["batches"], OF_BATCHES).take(50)


def check(files, pipeline):
    """Whether it was replaced."""
    result, _ = assert_same(lambda: make(files, pipeline))
    assert result.modified or result.skipped
    return result.modified


def test_random_pipelines(files):
    assert num_replaced(check, PIPELINES, files, max_examples=30, derandomize=True) >= 10


if __name__ == "__main__":
    try_more(check, PIPELINES)
