"""Broken records through TensorFlow's parser, in a process that may die, and through ours.

    python tests/parsing/fuzz_parse_example.py --seconds 3600 --seed 7

prints each case on which they differ as lines for BROKEN in broken_records_test.py.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from typing import Any, Callable, Iterator, List, Sequence, Tuple

import example_compare
from example_cases import Draw, a_batch, a_spec, broken, names_for
from example_compare import Feature
from sequence_cases import a_batch_of_sequences, a_sequence_spec
from tensorflow_process import TensorFlowProcess

# Op, spec (of the context and of the lists, if the op has both), records (or one), names.
Case = Tuple[str, Tuple[Tuple[Feature, ...], ...], Any, Sequence[bytes]]


def a_case(draw: Draw) -> Case:
    op = draw.pick(("parse_example_v2", "parse_example_v2", "parse_example_v2", "parse_example_v1", "single", "scalar"))
    spec = a_spec(draw, ragged=op in ("parse_example_v2", "scalar"))
    records = a_batch(draw, spec, broken_percent=draw.pick((5, 30, 90))) or [b""]
    if op == "single":
        return "parse_single_example", (spec,), records[0], None
    if op == "scalar":
        return "parse_example_v2", (spec,), records[0], ()
    return op, (spec,), records, names_for(draw, records)


def a_sequence_case(draw: Draw) -> Case:
    spec = a_sequence_spec(draw)
    percent = draw.pick((5, 30, 90))
    records = [broken(draw, r) if draw.chance(percent) else r for r in a_batch_of_sequences(draw, spec)] or [b""]
    if draw.chance(25):
        return "parse_sequence_example_v2", spec, records[0], ()
    return "parse_sequence_example_v2", spec, records, names_for(draw, records)


def compare(stock: TensorFlowProcess, case: Case) -> str:
    op, spec, records, names = case
    args = (*spec, records) if names is None else (*spec, records, names)
    ours = example_compare.outcome(lambda: getattr(example_compare, op)(*args))
    return example_compare.difference(stock.outcome(op, *args), ours, any_text="sequence" in op)


def smaller(stock: TensorFlowProcess, case: Case) -> Case:
    """The case with features, records and bytes left out as long as the difference stays."""
    op, spec, records, names = case
    for candidate in reductions(op, spec, records, names):
        if compare(stock, candidate):
            return smaller(stock, candidate)
    return case


def reductions(op: str, spec: Tuple[Tuple[Feature, ...], ...], records: Any, names: Sequence[bytes]) -> Iterator[Case]:
    if names:
        yield op, spec, records, ()
    if sum(map(len, spec)) > 1:
        for part, features in enumerate(spec):
            for i in range(len(features)):
                yield op, (*spec[:part], features[:i] + features[i + 1 :], *spec[part + 1 :]), records, names
    if not isinstance(records, list):
        yield from ((op, spec, shorter, names) for shorter in cut(records))
        return
    for i, record in enumerate(records):
        before, after = records[:i], records[i + 1 :]
        if after or before:
            yield op, spec, before + after, names and names[:-1]
        yield from ((op, spec, [*before, shorter, *after], names) for shorter in cut(record))


def cut(record: bytes) -> Iterator[bytes]:
    step = max(1, len(record) // 4)
    while True:
        for at in range(0, len(record), step):
            yield record[:at] + record[at + step :]
        if step == 1:
            return
        step = max(1, step // 4)


def fuzz(
    stock: TensorFlowProcess,
    seconds: float,
    seed: int,
    make: Callable[[Draw], Case] = a_case,
    most: float = float("inf"),
) -> Tuple[int, List[Case], List[str]]:
    """(cases tried, cases that differ, how); stops at five of those, or when `most` were tried."""
    random_, end, tried = random.Random(seed), time.monotonic() + seconds, 0
    cases: List[Case] = []
    differences: List[str] = []
    while time.monotonic() < end and len(cases) < 5 and tried < most:
        case = make(Draw(random_))
        tried += 1
        if compare(stock, case):
            case = smaller(stock, case)
            cases.append(case)
            differences.append(compare(stock, case))
    return tried, cases, differences


def main() -> int:
    from tf_booster import parsing

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument(
        "--level", default="", help="instructions: scalar, sse4.1, avx2-no-bmi2, avx2, avx512; the best by default"
    )
    parser.add_argument("--sequences", action="store_true", help="SequenceExamples")
    args = parser.parse_args()
    parsing.serve_stock_ops(True)
    parsing.force_simd_level(args.level)
    with TensorFlowProcess() as stock:
        tried, cases, differences = fuzz(stock, args.seconds, args.seed, a_sequence_case if args.sequences else a_case)
    print(f"seed {args.seed}: {tried} cases, {len(cases)} differ")
    for case, how in zip(cases, differences):
        print(f"\n    {case!r},\n{how[:1000]}")
    return 1 if cases else 0


if __name__ == "__main__":
    sys.exit(main())
