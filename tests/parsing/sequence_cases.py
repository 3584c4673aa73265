"""Specs of SequenceExamples and records to try, beside those of example_cases."""

from __future__ import annotations

from typing import List, Sequence, Tuple

import example_records as wire
from example_cases import DTYPES, NAMES, Draw, a_list, a_record, a_spec
from example_compare import Feature

Spec = Tuple[Tuple[Feature, ...], Tuple[Feature, ...]]  # Of the context, of the lists.


def a_sequence_spec(draw: Draw, ragged: bool = True) -> Spec:
    # Context features of a fixed length only: parse_sequence_example has no others.
    context = tuple(f for f in a_spec(draw, ragged) if None not in f.shape)
    names = list(NAMES)
    lists = []
    for _ in range(draw.integer(0 if context else 1, 4)):
        name = names.pop(draw.integer(0, len(names) - 1))
        kind = draw.pick(("dense", "sparse", "ragged") if ragged else ("dense", "sparse"))
        shape = draw.pick(((), (1,), (2,), (2, 3))) if kind == "dense" else ()
        missing = () if draw.chance(50) else None
        lists.append(Feature(name, kind, draw.pick(DTYPES), shape, missing, draw.pick(("int64", "int32"))))
    return context, tuple(lists)


def a_step(draw: Draw, feature: Feature) -> bytes:
    count = 1
    for dim in feature.shape:
        count *= dim
    if feature.kind != "dense":
        count = draw.pick((1, 1, 1, 0, 2, 30))
        if count == 0:
            return draw.pick((b"", wire.feature(feature.dtype, [])))
    elif draw.chance(1):
        count += 1
    return a_list(draw, feature.dtype if draw.chance(99) else draw.pick(DTYPES), count)


def steps(draw: Draw, feature: Feature) -> bytes:
    count = draw.pick((3, 0, 1, 2, 20))
    return wire.feature_list(a_step(draw, feature) for _ in range(count))


def a_sequence(draw: Draw, spec: Spec) -> bytes:
    """Most features and lists of the spec; some twice, some unknown, some of another type or size."""
    context, lists = spec
    entries = [wire.entry(f.name.encode(), steps(draw, f)) for f in lists if draw.chance(95)]
    if lists and draw.chance(10):
        feature = draw.pick(lists)
        entries.append(wire.entry(draw.pick((feature.name, *NAMES)).encode(), steps(draw, feature), draw.chance(10)))
    parts = [a_record(draw, context) if context else b"", wire.feature_lists(entries)]
    if draw.chance(10):
        parts.reverse()
    if draw.chance(3):
        parts.append(draw.pick((wire.delimited(3, b"abc"), wire.feature_lists(entries[:1]))))
    return b"".join(parts)


def a_batch_of_sequences(draw: Draw, spec: Spec) -> List[bytes]:
    return [a_sequence(draw, spec) for _ in range(draw.pick((3, 1, 0, 12)))]


def plain_sequences(count: int, dtype: str, steps_of: Sequence[int]) -> List[bytes]:
    """Records as any library writes them: a context of one id, and the lists h and g with one value a step."""
    value = {"int64": lambda i: i * 300, "float": float, "string": lambda i: b"%d" % i}[dtype]
    made = []
    for i in range(count):
        values = (dtype, [[value(i + k)] for k in range(steps_of[i % len(steps_of)])])
        made.append(wire.sequence({"id": ("int64", [i])}, h=values, g=values))
    return made
