"""python -m tf_booster.tfrecord inspect|bench|make: see docs/tfrecord.md."""

from __future__ import annotations

import argparse
import sys
from typing import Callable, List, Optional


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs a tool; returns the exit status. Damaged files, and features that cannot be: 1."""
    args = _parser().parse_args(arguments)
    import tensorflow as tf

    try:
        return args.run(args)
    except (ValueError, OSError, tf.errors.OpError) as error:
        message = error.message.splitlines()[0] if isinstance(error, tf.errors.OpError) else error
        print(f"tf_booster.tfrecord {args.tool}: {message}", file=sys.stderr)
        return 1


def _at_least(least: int) -> Callable[[str], int]:
    def integer(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return int(text)

    return integer


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tf_booster.tfrecord", description="Tools for TFRecord files of tf.train.Examples."
    )
    tools = parser.add_subparsers(dest="tool", required=True)
    inspect = tools.add_parser("inspect", help="what is in the files, and whether their checksums are right")
    inspect.add_argument(
        "--records", type=_at_least(1), default=100_000, help="records to take apart (default %(default)s)"
    )
    inspect.set_defaults(run=_inspect)
    bench = tools.add_parser("bench", help="the files through TensorFlow's parser and tf_booster's, side by side")
    bench.add_argument("--batch-size", type=_at_least(1), default=1024)
    bench.add_argument("--rounds", type=_at_least(1), default=5, help="timed passes of each (default %(default)s)")
    bench.set_defaults(run=_bench)
    for tool in (inspect, bench):
        tool.add_argument("files", nargs="+", help="files or patterns, on any file system of tf.io.gfile")
        tool.add_argument("--compression", choices=("", "GZIP", "ZLIB"), help="default: what the first bytes say")
    make = tools.add_parser("make", help="a file of synthetic records")
    make.add_argument("file")
    make.add_argument("--records", type=_at_least(0), default=10_000)
    make.add_argument("--schema", help='JSON: {"name": {"type": "int64", "length": [1, 20], "below": 1000}}')
    make.add_argument("--feature", action="append", default=[], help="name:type[:length[:below]]; C*26:int64:1-20")
    make.add_argument("--compression", choices=("", "GZIP", "ZLIB"), default="")
    make.add_argument("--seed", type=_at_least(0), default=0)
    make.set_defaults(run=_make)
    return parser


def _inspect(args: argparse.Namespace) -> int:
    from tf_booster.tfrecord import reading

    files = reading.expand(args.files)
    summary = reading.summarize(files, args.compression, args.records)
    print(f"{len(files)} file(s): " + "\n".join(summary.lines()))
    return 1 if summary.error or summary.broken else 0


def _bench(args: argparse.Namespace) -> int:
    from tf_booster.tfrecord import bench, reading

    files = reading.expand(args.files)
    compression = reading.compression_of(files[0], args.compression)
    summary = reading.summarize(files, args.compression, look_at=1000)
    features = summary.spec()
    if summary.error or not features:
        raise ValueError(summary.error or "there are no tf.train.Examples with features in the files")
    seconds = bench.run(files, compression, features, args.batch_size, args.rounds)
    print(f"{summary.records} records of {summary.bytes / summary.records:.0f} bytes, {len(features)} features")
    slowest = seconds["TensorFlow"]
    for name, median in seconds.items():
        print(f"{name:36} {summary.records / median / 1e6:8.3f} M records/s  {slowest / median:5.1f}x")
    return 0


def _make(args: argparse.Namespace) -> int:
    from tf_booster.tfrecord import make

    columns = make.columns_of_schema(args.schema) if args.schema else []
    for text in args.feature:
        columns += make.column_of_text(text)
    if not columns:
        raise ValueError("no features; give --schema or --feature, such as --feature C*39:int64")
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        raise ValueError("a feature is named twice")
    make.write(args.file, columns, args.records, args.seed, args.compression)
    print(f"{args.records} records in {args.file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
