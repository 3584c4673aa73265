"""What a file's records have in common: counts, types, list lengths, id widths, the order of keys."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, Counter, Dict, List, Optional, Tuple

import tensorflow as tf

from tf_booster.tfrecord import wire

_KINDS = {"int64": tf.int64, "float": tf.float32, "bytes": tf.string}


@dataclasses.dataclass
class FeatureSummary:
    """One feature over all records that were looked at."""

    records: int = 0
    kinds: Counter[str] = dataclasses.field(default_factory=collections.Counter)
    lengths: Counter[int] = dataclasses.field(default_factory=collections.Counter)
    widths: Counter[int] = dataclasses.field(default_factory=collections.Counter)  # Bytes of ids as varints.
    unpacked: int = 0

    def add(self, feature: wire.Feature) -> None:
        self.records += 1
        self.kinds[feature.kind or "no list"] += 1
        self.lengths[len(feature.values)] += 1
        self.unpacked += not feature.packed
        if feature.kind == "int64":
            for value in feature.values:
                self.widths[max(1, -(-(value % 2**64).bit_length() // 7))] += 1


@dataclasses.dataclass
class Summary:
    """`looked_at` of `records` were taken apart; all of them were counted, their checksums too."""

    records: int = 0
    looked_at: int = 0
    broken: int = 0  # Of those looked at: no Examples.
    bytes: int = 0
    features: Dict[str, FeatureSummary] = dataclasses.field(default_factory=dict)
    orders: int = 0  # Records whose keys stand in the order of the record before, as far as both have them.
    repeated: int = 0  # Records with a key more than once.
    error: str = ""
    last_keys: Optional[List[str]] = None

    def count(self, record: bytes, look: bool) -> None:
        self.records += 1
        self.bytes += len(record)
        if not look:
            return
        self.looked_at += 1
        try:
            found = list(wire.features(record))
        except ValueError:
            self.broken += 1
            return
        keys = [feature.name for feature in found]
        self.repeated += len(set(keys)) < len(keys)
        self.orders += self.last_keys is None or keys == self.last_keys
        self.last_keys = keys
        for feature in found:
            self.features.setdefault(feature.name, FeatureSummary()).add(feature)

    def spec(self) -> Dict[str, Any]:
        """A feature spec for tf.io.parse_example: fixed length where all records have it, else variable."""
        made: Dict[str, Any] = {}
        for name, feature in sorted(self.features.items()):
            kinds = [kind for kind in feature.kinds if kind in _KINDS]
            if len(kinds) != 1:
                continue
            dtype = _KINDS[kinds[0]]
            fixed = len(feature.lengths) == 1 and feature.records == self.looked_at - self.broken
            length = next(iter(feature.lengths))
            made[name] = tf.io.FixedLenFeature([length], dtype) if fixed and length else tf.io.VarLenFeature(dtype)
        return made

    def lines(self) -> List[str]:
        """For people."""
        looked = "" if self.looked_at == self.records else f", {self.looked_at} of them taken apart"
        size = self.bytes / max(1, self.records)
        lines = [f"{self.records} records{looked}, {self.bytes} bytes, {size:.0f} a record"]
        lines.append(f"checksums: {self.error or 'all right'}")
        if self.broken:
            lines.append(f"{self.broken} records are no tf.train.Examples")
        good = self.looked_at - self.broken
        if good:
            lines.append(f"key order: as in the record before in {self.orders / good:.1%} of the records")
        if self.repeated:
            lines.append(f"{self.repeated} records have a key more than once; the last one counts")
        rows = [("feature", "type", "in records", "values a record", "id bytes (varint)")]
        for name, feature in sorted(self.features.items()):
            kinds = "/".join(sorted(feature.kinds)) + (" (unpacked)" if feature.unpacked else "")
            widths = _range(feature.widths) if feature.widths else ""
            rows.append((name, kinds, f"{feature.records / max(1, good):.0%}", _range(feature.lengths), widths))
        return lines + _table(rows)


def _range(counts: Counter[int]) -> str:
    low, high = min(counts), max(counts)
    mean = sum(value * count for value, count in counts.items()) / sum(counts.values())
    return str(low) if low == high else f"{low} to {high}, mean {mean:.1f}"


def _table(rows: List[Tuple[str, ...]]) -> List[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
