"""Input pipelines in plain TensorFlow: Criteo-shaped TFRecords, Criteo's own TSV, and CSV with a header.

All of them give batches of ({"I1": float32 [n], ..., "C1": int64 [n], ...}, label float32 [n]). A missing number is NaN; a missing id
is `MISSING_ID`, which the models treat as an id like any other.
"""

from __future__ import annotations

import functools
import glob
import gzip
import os
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

import tensorflow as tf

from criteo.columns import CATEGORICAL, LABEL, NUMERIC

MISSING_ID = 0
HELD_OUT = 10  # Without evaluation data, one record in ten is kept out of training and evaluated on.
_SHUFFLE_SEED = 1


class Source(NamedTuple):
    """Files of one format. `header` names the columns of text files in their order; it is skipped where `has_header`."""

    files: List[str]
    format: str  # "tfrecord" or "text"
    delimiter: str = "\t"
    header: Tuple[str, ...] = tuple([LABEL] + NUMERIC + CATEGORICAL)
    has_header: bool = False
    compression: str = ""


def find_source(path: str) -> Source:
    """The files behind `path`: a file, a folder or a glob pattern. Raises ValueError when there are none or columns are missing."""
    files = sorted(glob.glob(os.path.join(path, "*") if os.path.isdir(path) else path))
    files = [f for f in files if os.path.isfile(f) and os.path.getsize(f) and not f.endswith(".json")]
    if not files:
        raise ValueError("--data '%s': no files; give a file, a folder or a pattern in quotes" % path)
    compression = "GZIP" if files[0].endswith(".gz") else ""
    if ".tfrecord" in os.path.basename(files[0]):
        return Source(files, "tfrecord", compression=compression)
    with (gzip.open if compression else open)(files[0], "rt", encoding="utf-8", errors="replace") as f:
        first = f.readline().rstrip("\r\n")
    delimiter = "\t" if "\t" in first else ","
    source = Source(files, "text", delimiter, compression=compression)
    fields = first.split(delimiter)
    if LABEL in fields:
        source = source._replace(header=tuple(fields), has_header=True)
        missing = [name for name in [LABEL] + NUMERIC + CATEGORICAL if name not in fields]
        if missing:
            raise ValueError(
                "%s: the header has no column %s; wanted label, I1 to I13, C1 to C26" % (files[0], missing[0])
            )
    elif len(fields) != len(source.header):
        raise ValueError(
            "%s: the first line has %d fields; wanted %d, separated by tabs or commas: label, 13 numbers, 26 ids"
            % (files[0], len(fields), len(source.header))
        )
    return source


def feature_spec() -> Dict[str, tf.io.FixedLenFeature]:
    """The features of one tf.train.Example, without the label."""
    spec = {name: tf.io.FixedLenFeature([], tf.float32, float("nan")) for name in NUMERIC}
    spec.update({name: tf.io.FixedLenFeature([], tf.int64, MISSING_ID) for name in CATEGORICAL})
    return spec


def parse_examples(serialized: tf.Tensor) -> Tuple[Dict[str, tf.Tensor], tf.Tensor]:
    """Serialized tf.train.Examples, string [n], to features and labels."""
    features = tf.io.parse_example(serialized, dict(feature_spec(), **{LABEL: tf.io.FixedLenFeature([], tf.float32)}))
    return features, features.pop(LABEL)


def parse_lines(lines: tf.Tensor, source: Source) -> Tuple[Dict[str, tf.Tensor], tf.Tensor]:
    """Lines of text, string [n], to features and labels; ids are strings in the file, and become int64 by TensorFlow's hashing."""
    defaults = {LABEL: tf.constant([], tf.float32)}
    defaults.update({name: tf.constant([float("nan")]) for name in NUMERIC})
    values = tf.io.decode_csv(
        lines,
        [defaults.get(name, tf.constant([""])) for name in source.header],
        field_delim=source.delimiter,
        use_quote_delim=source.delimiter == ",",
    )
    columns = dict(zip(source.header, values))
    features = {name: columns[name] for name in NUMERIC}
    for name in CATEGORICAL:
        hashed = tf.strings.to_hash_bucket_fast(columns[name], 2**63 - 1)
        features[name] = tf.where(
            tf.equal(columns[name], ""), tf.fill(tf.shape(hashed), tf.constant(MISSING_ID, tf.int64)), hashed
        )
    return features, columns[LABEL]


def _hold_out(records: tf.data.Dataset, evaluation: bool) -> tf.data.Dataset:
    def part(chunk):
        held = tf.equal(tf.range(tf.size(chunk)) % HELD_OUT, 0)
        return tf.boolean_mask(chunk, held if evaluation else tf.logical_not(held))

    return records.batch(100 * HELD_OUT).map(part).unbatch()


def input_fn(
    path: str,
    batch_size: int,
    training: bool = False,
    eval_path: Optional[str] = None,
    shuffle: int = 10_000,
    limit: Optional[int] = None,
) -> Callable[[], tf.data.Dataset]:
    """An Estimator's input_fn.

    Args:
      path: training data, see `find_source`.
      batch_size: records in a batch; the last batch of an evaluation may be smaller.
      training: True repeats for ever and shuffles; False reads once, in order.
      eval_path: evaluation data. Without it every tenth record of `path` is held out for evaluation.
      shuffle: size of the shuffle buffer in training, in records.
      limit: read this many records at most.
    """
    source = find_source(path if training or not eval_path else eval_path)

    def make() -> tf.data.Dataset:
        if source.format == "tfrecord":
            records = tf.data.TFRecordDataset(source.files, source.compression)
            parse = parse_examples
        else:
            files = tf.data.Dataset.from_tensor_slices(source.files)
            records = files.flat_map(
                lambda name: tf.data.TextLineDataset(name, source.compression).skip(int(source.has_header))
            )
            parse = functools.partial(parse_lines, source=source)
        if not eval_path:
            records = _hold_out(records, evaluation=not training)
        if limit is not None:
            records = records.take(limit)
        if training:
            records = records.shuffle(shuffle, seed=_SHUFFLE_SEED).repeat()
        return records.batch(batch_size, drop_remainder=training).map(parse, tf.data.AUTOTUNE).prefetch(2)

    return make
