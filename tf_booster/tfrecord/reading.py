"""Reads files for the tools, and says on standard error how far it is."""

from __future__ import annotations

import re
import sys
import time
from typing import Any, Iterator, List, Optional

import tensorflow as tf

from tf_booster.tfrecord.summary import Summary

_BATCH = 256


class Progress:
    """A bar that is drawn again in place, a few times a second; silent where nobody watches."""

    def __init__(self, total: int, stream: Any = None) -> None:
        self._total, self._stream = max(1, total), stream or sys.stderr
        self._next = 0.0
        self._shown = self._stream.isatty()

    def at(self, done: int) -> None:
        if self._shown and time.monotonic() >= self._next:
            self._next = time.monotonic() + 0.2
            share = min(1.0, done / self._total)
            self._stream.write(f"\r[{'#' * int(40 * share):40}] {share:4.0%}")
            self._stream.flush()

    def end(self) -> None:
        if self._shown:
            self._stream.write("\r" + " " * 50 + "\r")


def expand(patterns: List[str]) -> List[str]:
    """The files that match, in order. Raises FileNotFoundError for a pattern without one."""
    files: List[str] = []
    for pattern in patterns:
        found = sorted(tf.io.gfile.glob(pattern))
        if not found:
            raise FileNotFoundError(f"no file matches {pattern}")
        files += found
    return files


def compression_of(file: str, given: Optional[str]) -> str:
    """What was given, or what the file's first bytes say: gzip has a mark, zlib nearly one, a TFRecord neither."""
    if given is not None:
        return given
    with tf.io.gfile.GFile(file, "rb") as opened:
        start = opened.read(12)
    if start[:2] == b"\x1f\x8b":
        return "GZIP"
    zlib = len(start) > 1 and start[0] == 0x78 and (start[0] * 256 + start[1]) % 31 == 0 and start[4:8] != bytes(4)
    return "ZLIB" if zlib else ""


def _records(dataset: tf.data.Dataset) -> Iterator[bytes]:
    """All records up to the damage, and then its error: of the batch that it breaks off, tf.data gives none."""
    given = 0
    try:
        for batch in dataset.batch(_BATCH):
            records = batch.numpy()
            given += len(records)
            yield from records
    except tf.errors.OpError:
        for record in dataset.skip(given):
            yield record.numpy()


def summarize(files: List[str], compression: Optional[str], look_at: int) -> Summary:
    """Reads all records, checks their checksums, and takes the first `look_at` apart."""
    summary = Summary()
    sizes = [tf.io.gfile.stat(file).length for file in files]
    progress = Progress(sum(sizes))
    done = 0
    for file, size in zip(files, sizes):
        before, records_before = summary.bytes, summary.records
        try:
            for record in _records(tf.data.TFRecordDataset(file, compression_of(file, compression))):
                summary.count(record, summary.looked_at < look_at)
                progress.at(done + min(size, summary.bytes - before))
        except tf.errors.OpError as error:
            # Without the places in TensorFlow's graph that it names.
            message = re.sub(r"\{\{.*?\}\} ?| \[Op:.*", "", error.message.splitlines()[0])
            summary.error = f"{file}, behind {summary.records - records_before} records: {message}"
        done += size
    progress.end()
    return summary
