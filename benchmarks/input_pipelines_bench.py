"""Existing input pipelines as TensorFlow runs them, with our parse kernel, and rewritten: files to shuffled, parsed batches of 1024.

`batches` is batch → map(parse_example); `one by one` is map(parse_single_example) → shuffle → repeat → batch under a one-shot
iterator, as DeepCTR's input_fn_tfrecord has it; `filtered` keeps nine of ten records of that before the shuffle. `sampled` are two files, parsed one by one with a label each, of which
sample_from_datasets makes one, and `generator` are records of a Python generator. `serialized` are batches of
records as they are, of 39 ids or of 10 kB, which programs parse in the graph, or by a map of another kind. `lists` are of 32 such Examples
in a message, decoded, padded and parsed as TF-Ranking does. `lines` are Criteo's, 40 fields each, of which map(decode_csv) makes tensors, one by one and in batches, or `make_csv_dataset`; `libsvm` are lines of 39 ids with
their values, split one by one. `padded` are the lists of records, made rows of one length one by one (`tf.pad`), and `padded lines` lines with 8 lists of ids, for padded_batch. `sequences` are SequenceExamples with 13 ids and 3 histories, parsed one by one, for padded_batch. `in memory` are 39 ids and a label of arrays, by from_tensor_slices, shuffled or not, and by numpy_input_fn, which hands
them over in a queue. Each contestant is a graph with an endless iterator, or a queue; a run takes 24 batches, of which a few may have been
made ahead in another's turn.
"""

from __future__ import annotations

import functools
import os
import tempfile
from typing import Any, Callable, Dict, Iterator, Optional, Sequence

import numpy as np
import tensorflow as tf
from google.protobuf import descriptor_pb2

import tf_booster
from benchmarks import example_data, tables
from benchmarks.harness import OURS, Result, contest
from tf_booster import parsing

v1 = tf.compat.v1
BATCH = 1024
BATCHES = 16  # In the file.
BATCHES_A_RUN = 24
SECONDS = 2.0
SHUFFLE = 2048
LIST_SIZE = 32
LISTS = 8
CONTEXT = [f"c{i}" for i in range(13)]
HISTORIES = ["items", "shops", "times"]
LONGEST = 20


def run(threads: int) -> Iterator[Result]:
    shapes = {shape.name: shape for shape in example_data.SHAPES}
    with tempfile.TemporaryDirectory() as folder:
        for name, kind in (("39x1", "fixed"), ("26x20", "sparse")):
            records = example_data.records(shapes[name], BATCH)
            path = os.path.join(folder, name)
            with tf.io.TFRecordWriter(path) as writer:
                for record in records * BATCHES:
                    writer.write(record)
            features = example_data.spec(shapes[name], kind)
            for shape, pipeline in _PIPELINES.items():
                if pipeline is _filtered and kind != "fixed":
                    continue
                make = functools.partial(pipeline, path, features, threads)
                kernel_alone = {
                    "TensorFlow with our kernel": _contestant(make, threads, rewritten=False, our_kernel=True)
                }
                yield _result(f"{shape}, {kind}", name, threads, _beside(make, threads, kernel_alone))
            if kind == "sparse":
                make = functools.partial(_padded, path, features, threads)
                yield _result("padded", name, threads, _beside(make, threads, {}))
            if kind == "fixed":
                make = functools.partial(_sampled, path, features, threads)
                yield _result("sampled", name, threads, _beside(make, threads, {}))
                make = functools.partial(_generated, records, features, threads)
                yield _result("generator", name, threads, _beside(make, threads, {}))
                make = functools.partial(_serialized, path)
                yield _result("serialized", name, threads, _beside(make, threads, {}))
                lists = os.path.join(folder, "lists")
                _write_lists(lists, records)
                make = functools.partial(_lists, lists, features, threads)
                yield _result("lists", name, threads, _beside(make, threads, {}))
        path = os.path.join(folder, "10 kB")
        _write_long_records(path)
        make = functools.partial(_serialized, path)
        yield _result("serialized", "10 kB", threads, _beside(make, threads, {}))
        path = os.path.join(folder, "lines")
        _write_lines(path)
        for shape, pipeline in (
            ("lines", _lines),
            ("batches of lines", _batches_of_lines),
            ("make_csv_dataset", _made_by_tf_data),
        ):
            make = functools.partial(pipeline, path, threads)
            yield _result(shape, "40 fields", threads, _beside(make, threads, {}))
        path = os.path.join(folder, "libsvm")
        _write_libsvm(path)
        make = functools.partial(_lines, path, threads, _split_libsvm)
        yield _result("libsvm", "39 pairs", threads, _beside(make, threads, {}))
        path = os.path.join(folder, "lists of ids")
        _write_lists_of_ids(path)
        make = functools.partial(_padded_lines, path, threads)
        yield _result("padded lines", f"{LISTS} lists", threads, _beside(make, threads, {}))
        path = os.path.join(folder, "sequences")
        _write_sequences(path)
        make = functools.partial(_sequences, path, threads)
        yield _result("sequences", "13 ids, 3 histories", threads, _beside(make, threads, {}))
    for shape, pipeline in (
        ("in memory", _slices),
        ("in memory, shuffled", _shuffled_slices),
        ("numpy_input_fn", _queue),
    ):
        yield _result(shape, "39x1", threads, _beside(pipeline, threads, {}))


def _beside(make: Callable[[], Any], threads: int, others: Dict[str, Any]) -> Dict[str, Any]:
    ours = _contestant(make, threads, rewritten=True, our_kernel=True)
    return {OURS: ours, "TensorFlow": _contestant(make, threads, rewritten=False, our_kernel=False), **others}


def _result(shape: str, records: str, threads: int, contestants: Dict[str, Any]) -> Result:
    rates = contest(contestants, BATCH * BATCHES_A_RUN, SECONDS)
    parsing.serve_stock_ops(False)
    return Result("input_pipelines", shape, 0, records, threads, "M records/s", rates, {})


def _write_lists(path: str, records: Sequence[bytes]) -> None:
    """Messages with a list of LIST_SIZE of the records each."""
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(0, len(records), LIST_SIZE):
            # A tf.train.BytesList is on the wire what a message of repeated bytes in field 1 is.
            message = tf.train.BytesList(value=records[i : i + LIST_SIZE]).SerializeToString()
            for _ in range(BATCHES):
                writer.write(message)


def _write_long_records(path: str) -> None:
    rng = np.random.default_rng(1)
    with tf.io.TFRecordWriter(path) as writer:
        for size in rng.integers(7_000, 13_000, 4 * BATCH):
            writer.write(rng.bytes(size))


def _write_lines(path: str) -> None:
    """A label, 13 small numbers, of which some are missing, and 26 words of 8 letters."""
    rng = np.random.default_rng(1)
    with open(path, "w", encoding="ascii") as file:
        for _ in range(BATCH * BATCHES):
            numbers = [str(n) if n >= 0 else "" for n in rng.integers(-20, 100, 13)]
            file.write(",".join(["1", *numbers, *(f"{n:08x}" for n in rng.integers(2**32, size=26))]) + "\n")


def _write_libsvm(path: str) -> None:
    """A label, 13 ids with numbers and 26 with a 1."""
    rng = np.random.default_rng(1)
    with open(path, "w", encoding="ascii") as file:
        for _ in range(BATCH * BATCHES):
            pairs = [f"{i}:{x:.5f}" for i, x in enumerate(rng.random(13))] + [
                f"{n}:1" for n in rng.integers(10**6, size=26)
            ]
            file.write(" ".join(["1", *pairs]) + "\n")


def _write_lists_of_ids(path: str) -> None:
    """A label and lists of 1 to LONGEST ids, apart by tabs."""
    rng = np.random.default_rng(1)
    with open(path, "w", encoding="ascii") as file:
        for _ in range(BATCH * BATCHES):
            lists = [",".join(map(str, rng.integers(10**6, size=n))) for n in rng.integers(1, LONGEST + 1, LISTS)]
            file.write("\t".join(["1", *lists]) + "\n")


def _write_sequences(path: str) -> None:
    """13 ids, and histories of 1 to LONGEST ids."""
    rng = np.random.default_rng(1)
    with tf.io.TFRecordWriter(path) as writer:
        for _ in range(BATCH * BATCHES):
            made = tf.train.SequenceExample()
            for key, number in zip(CONTEXT, rng.integers(2**40, size=len(CONTEXT)).tolist()):
                made.context.feature[key].int64_list.value.append(number)
            length = rng.integers(1, LONGEST + 1)
            for key in HISTORIES:
                for number in rng.integers(10**6, size=length).tolist():
                    made.feature_lists.feature_list[key].feature.add().int64_list.value.append(number)
            writer.write(made.SerializeToString())


def _sequences(path: str, threads: int) -> tf.data.Dataset:
    context = {key: tf.io.FixedLenFeature([], tf.int64) for key in CONTEXT}
    steps = {key: tf.io.FixedLenSequenceFeature([], tf.int64) for key in HISTORIES}

    def function(serialized: tf.Tensor) -> Any:
        ids, histories = tf.io.parse_single_sequence_example(serialized, context, steps)
        return dict(ids, **histories, length=tf.shape(histories["items"])[0])

    parsed = tf.data.TFRecordDataset(path).map(function, _calls(threads))
    return parsed.shuffle(SHUFFLE, seed=1).repeat().padded_batch(BATCH)


def _padded(path: str, features: Any, threads: int) -> tf.data.Dataset:
    def function(serialized: tf.Tensor) -> Any:
        lists = {key: value.values[:LONGEST] for key, value in tf.io.parse_single_example(serialized, features).items()}
        return {key: tf.pad(ids, [[0, LONGEST - tf.size(ids)]]) for key, ids in lists.items()}

    return tf.data.TFRecordDataset(path).map(function, _calls(threads)).shuffle(SHUFFLE, seed=1).repeat().batch(BATCH)


def _padded_lines(path: str, threads: int) -> tf.data.Dataset:
    def function(line: tf.Tensor) -> Any:
        fields = tf.strings.split(line, "\t")
        lists = [v1.string_split([fields[1 + i]], ",").values for i in range(LISTS)]
        return {f"f{i}": tf.strings.to_number(ids, tf.int64) for i, ids in enumerate(lists)}, fields[0]

    parsed = tf.data.TextLineDataset(path).map(function, _calls(threads))
    return parsed.shuffle(SHUFFLE, seed=1).repeat().padded_batch(BATCH)


def _lists(path: str, features: Any, threads: int) -> tf.data.Dataset:
    records = tf.data.TFRecordDataset(path).shuffle(SHUFFLE // LIST_SIZE, seed=1).repeat().batch(BATCH // LIST_SIZE)
    return records.map(lambda messages: _parse_lists(messages, features), _calls(threads))


def _parse_lists(messages: tf.Tensor, features: Any) -> Any:
    described = descriptor_pb2.FileDescriptorSet(file=[descriptor_pb2.FileDescriptorProto(name="lists.proto")])
    field = described.file[0].message_type.add(name="Lists").field.add(name="examples", number=1)
    field.type, field.label = field.TYPE_BYTES, field.LABEL_REPEATED
    _, (examples,) = tf.io.decode_proto(
        messages, "Lists", ["examples"], [tf.string], descriptor_source=b"bytes://" + described.SerializeToString()
    )
    length = tf.shape(examples)[1]
    examples = tf.cond(
        length > LIST_SIZE,
        lambda: tf.slice(examples, [0, 0], [tf.shape(examples)[0], LIST_SIZE]),
        lambda: tf.pad(examples, [[0, 0], [0, LIST_SIZE - length]], constant_values=""),
    )
    return tf.io.parse_example(tf.reshape(examples, [-1]), features)


def _lines(path: str, threads: int, function: Optional[Callable[[tf.Tensor], Any]] = None) -> tf.data.Dataset:
    decoded = tf.data.TextLineDataset(path).map(function or _decode, _calls(threads))
    return decoded.shuffle(SHUFFLE, seed=1).repeat().batch(BATCH)


def _batches_of_lines(path: str, threads: int) -> tf.data.Dataset:
    return tf.data.TextLineDataset(path).shuffle(SHUFFLE, seed=1).repeat().batch(BATCH).map(_decode, _calls(threads))


def _made_by_tf_data(path: str, threads: int) -> tf.data.Dataset:
    del threads  # It chooses.
    names = [f"f{i}" for i in range(len(_DEFAULTS))]
    return tf.data.experimental.make_csv_dataset(
        path, BATCH, names, _DEFAULTS, header=False, label_name="f0", shuffle_buffer_size=SHUFFLE, shuffle_seed=1
    )


_DEFAULTS = [[0]] + 13 * [[0]] + 26 * [[""]]


def _decode(line: tf.Tensor) -> Any:
    fields = tf.io.decode_csv(line, _DEFAULTS)
    return {f"f{i}": field for i, field in enumerate(fields[1:])}, fields[0]


def _split_libsvm(line: tf.Tensor) -> Any:
    columns = v1.string_split([line], " ").values
    pairs = v1.string_split(columns[1:], ":")
    ids, values = tf.split(tf.reshape(pairs.values, pairs.dense_shape), 2, axis=1)
    features = {"ids": v1.string_to_number(ids, tf.int64), "values": v1.string_to_number(values)}
    return features, v1.string_to_number(columns[0])


def _batches(path: str, features: Any, threads: int) -> tf.data.Dataset:
    records = tf.data.TFRecordDataset(path).shuffle(SHUFFLE, seed=1).repeat()
    return records.batch(BATCH).map(lambda s: tf.io.parse_example(s, features), _calls(threads))


def _one_by_one(path: str, features: Any, threads: int) -> tf.data.Dataset:
    parsed = tf.data.TFRecordDataset(path).map(lambda s: tf.io.parse_single_example(s, features), _calls(threads))
    return parsed.shuffle(SHUFFLE, seed=1).repeat().batch(BATCH)


def _filtered(path: str, features: Any, threads: int) -> tf.data.Dataset:
    parsed = tf.data.TFRecordDataset(path).map(lambda s: tf.io.parse_single_example(s, features), _calls(threads))
    kept = parsed.filter(lambda f: tf.not_equal(f["C1"][0] % 10, 0))
    return kept.shuffle(SHUFFLE, seed=1).repeat().batch(BATCH)


def _sampled(path: str, features: Any, threads: int) -> tf.data.Dataset:
    def of(label: float) -> tf.data.Dataset:
        records = tf.data.TFRecordDataset(path)
        parsed = records.map(lambda s: (tf.io.parse_single_example(s, features), label), _calls(threads))
        return parsed.shuffle(SHUFFLE, seed=1).repeat()

    return tf.data.Dataset.sample_from_datasets([of(0.0), of(1.0)], [0.7, 0.3], seed=1).batch(BATCH)


def _generated(records: Sequence[bytes], features: Any, threads: int) -> tf.data.Dataset:
    strings = tf.data.Dataset.from_generator(lambda: iter(records), tf.string, []).repeat()
    return strings.map(lambda s: tf.io.parse_single_example(s, features), _calls(threads)).batch(BATCH)


def _arrays() -> Any:
    rng = np.random.default_rng(1)
    rows = BATCH * BATCHES
    return {f"f{i}": rng.integers(10**6, size=rows) for i in range(39)}, rng.integers(2, size=rows)


def _slices() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(_arrays()).repeat().batch(BATCH)


def _shuffled_slices() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(_arrays()).shuffle(SHUFFLE, seed=1).repeat().batch(BATCH)


def _queue() -> Any:
    features, labels = _arrays()
    return v1.estimator.inputs.numpy_input_fn(
        features, labels, BATCH, num_epochs=None, shuffle=True, queue_capacity=2 * BATCH
    )()


def _serialized(path: str) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(path).shuffle(SHUFFLE, seed=1).repeat().batch(BATCH)


_PIPELINES = {"batches": _batches, "one by one": _one_by_one, "filtered": _filtered}


def _calls(threads: int) -> Optional[int]:
    """What one contestant reads ahead, another one's turn would pay for; on one thread nothing is."""
    return None if threads == 1 else threads


def _contestant(make: Callable[[], Any], threads: int, rewritten: bool, our_kernel: bool) -> Callable[[int], Any]:
    """make: gives a dataset, or tensors that queues fill."""
    with tf.Graph().as_default():
        element = make()
        if isinstance(element, tf.data.Dataset):
            element = v1.data.make_one_shot_iterator(element).get_next()
        whole = tf.group(tf.nest.flatten(element, expand_composites=True))
        if rewritten:
            report = tf_booster.rewrite_graph()
            assert report.modified, report
        session = tables.session(threads)
        if v1.get_collection(v1.GraphKeys.QUEUE_RUNNERS):
            v1.train.start_queue_runners(session)
        step = session.make_callable(whole)

    def run_batches(_: int) -> None:
        parsing.serve_stock_ops(our_kernel)
        for _ in range(BATCHES_A_RUN):
            step()

    return run_batches
