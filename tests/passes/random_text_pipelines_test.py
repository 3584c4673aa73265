"""Pipelines of lines put together at random: the elements of each are what tf.data gives."""

from __future__ import annotations

import tensorflow as tf
from hypothesis import strategies as st
from pipeline_pairs import assert_same, num_replaced, try_more
from random_pipelines_test import STEPS, steps

Lines = tf.data.TextLineDataset


def decode(line):
    fields = tf.io.decode_csv(line, [[0], [0.5], ["none"]])
    return {"int": fields[0] + 1, "float": fields[1] * 3.0, "words": fields[2]}


def write_lines(files):
    """Files of lines beside those of records, as many in each; of every second one the last line has no end."""
    found = []
    for number, count in enumerate((5, 0, 17, 9, 1)):
        found.append(f"{files[number]}.csv")
        with open(found[-1], "w", encoding="ascii") as file:
            lines = [f"{100 * number + i},{i / 8},{'' if i % 3 else f'word {i}'}\r\n" for i in range(count)]
            file.write("".join(lines)[: -2 if number % 2 else None])
    return found


READERS = {
    "in order": Lines,
    "at once": lambda names: tf.data.Dataset.from_tensor_slices(names).interleave(Lines, 3, 1, num_parallel_calls=2),
    "parallel reads": lambda names: Lines(names, num_parallel_reads=2),
    "in turns": lambda names: tf.data.Dataset.from_tensor_slices(names).interleave(Lines, 2, 3),
    "without headers": lambda names: tf.data.Dataset.from_tensor_slices(names).flat_map(lambda n: Lines(n).skip(1)),
    "from memory": lambda names: tf.data.Dataset.from_tensor_slices([f"{i},{i}.5,x" for i in range(40)]),
}

OF_DECODED = {
    **STEPS,
    "filter": lambda dataset, n: dataset.filter(lambda f: f["int"] % (1 + n % 4) > 0),
    "some": lambda dataset, n: dataset.filter(lambda f: tf.random.uniform([], seed=n) + f["float"] * 0.0 < 0.6),
}

PIPELINES = st.fixed_dictionaries(
    {
        "reader": st.sampled_from(sorted(READERS)),
        "lines": steps(STEPS, 2),
        "decoded": steps(OF_DECODED, 3),
        "batch_size": st.sampled_from([1, 4, 9, 50]),
        "drop_remainder": st.booleans(),
        "one by one": st.booleans(),
        "batches": steps(STEPS, 2),
        "calls": st.sampled_from([None, 2, tf.data.AUTOTUNE]),
    }
)


def make(names, pipeline):
    def apply(dataset, chosen):
        for name, number in chosen:
            dataset = OF_DECODED[name](dataset, number)
        return dataset

    dataset = apply(READERS[pipeline["reader"]](names), pipeline["lines"])
    if pipeline["one by one"]:
        dataset = apply(dataset.map(decode, pipeline["calls"]), pipeline["decoded"])
    dataset = dataset.batch(pipeline["batch_size"], drop_remainder=pipeline["drop_remainder"])
    if not pipeline["one by one"]:
        dataset = dataset.map(decode, pipeline["calls"])
    return apply(dataset, pipeline["batches"]).take(50)


def is_replaced(files, pipeline):
    names = write_lines(files)
    result, _ = assert_same(lambda: make(names, pipeline))
    return result.modified


def test_random_pipelines_of_lines(files):
    assert num_replaced(is_replaced, PIPELINES, files, max_examples=30, derandomize=True) >= 15


if __name__ == "__main__":
    try_more(is_replaced, PIPELINES)
