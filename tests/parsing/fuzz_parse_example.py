"""Broken records through TensorFlow's parser, in a process that may die, and through ours.

    python tests/parsing/fuzz_parse_example.py --seconds 3600 --seed 7

prints each case on which they differ as lines for BROKEN in broken_records_test.py.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from typing import Any, Iterator, List, Sequence, Tuple

import example_compare
from example_cases import Draw, a_batch, a_spec, names_for
from example_compare import Feature
from tensorflow_process import TensorFlowProcess

Case = Tuple[str, Tuple[Feature, ...], Any, Sequence[bytes]]  # Op, spec, records (or one), names.


def a_case(draw: Draw) -> Case:
    op = draw.pick(("parse_example_v2", "parse_example_v2", "parse_example_v2", "parse_example_v1", "single", "scalar"))
    spec = a_spec(draw, ragged=op in ("parse_example_v2", "scalar"))
    records = a_batch(draw, spec, broken_percent=draw.pick((5, 30, 90))) or [b""]
    if op == "single":
        return "parse_single_example", spec, records[0], None
    if op == "scalar":
        return "parse_example_v2", spec, records[0], ()
    return op, spec, records, names_for(draw, records)


def compare(stock: TensorFlowProcess, case: Case) -> str:
    op, spec, records, names = case
    args = (spec, records) if names is None else (spec, records, names)
    ours = example_compare.outcome(lambda: getattr(example_compare, op)(*args))
    return example_compare.difference(stock.outcome(op, *args), ours)


def smaller(stock: TensorFlowProcess, case: Case) -> Case:
    """The case with features, records and bytes left out as long as the difference stays."""
    op, spec, records, names = case
    for candidate in reductions(op, spec, records, names):
        if compare(stock, candidate):
            return smaller(stock, candidate)
    return case


def reductions(op: str, spec: Tuple[Feature, ...], records: Any, names: Sequence[bytes]) -> Iterator[Case]:
    if names:
        yield op, spec, records, ()
    if len(spec) > 1:
        for i in range(len(spec)):
            yield op, spec[:i] + spec[i + 1 :], records, names
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


def fuzz(stock: TensorFlowProcess, seconds: float, seed: int) -> Tuple[int, List[Case], List[str]]:
    """(cases tried, cases that differ, how); stops at five."""
    random_, end, tried = random.Random(seed), time.monotonic() + seconds, 0
    cases: List[Case] = []
    differences: List[str] = []
    while time.monotonic() < end and len(cases) < 5:
        case = a_case(Draw(random_))
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
    parser.add_argument("--level", default="", help="instructions: scalar, sse4.1, avx2, avx512; the best by default")
    args = parser.parse_args()
    parsing.serve_stock_ops(True)
    parsing.force_simd_level(args.level)
    with TensorFlowProcess() as stock:
        tried, cases, differences = fuzz(stock, args.seconds, args.seed)
    print(f"seed {args.seed}: {tried} cases, {len(cases)} differ")
    for case, how in zip(cases, differences):
        print(f"\n    {case!r},\n{how[:1000]}")
    return 1 if cases else 0


if __name__ == "__main__":
    sys.exit(main())
