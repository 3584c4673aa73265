"""Generates Criteo-shaped TFRecords with planted effects, and says the best AUC that any model can reach on them.

    python examples/criteo_generator.py --out data --train 300000 --eval 50000

Writes <out>/train-*.tfrecord, <out>/eval-*.tfrecord (tf.train.Example: label, I1 to I13 floats, C1 to C26 int64 ids) and
<out>/meta.json. The same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from tqdm import tqdm

from criteo.planted import Population
from criteo.tfrecords import write_split

EVAL_STREAM = 1 << 20  # Streams of the evaluation shards start here, far above those of any training shards.


def generate(
    out: str,
    train: int,
    evaluate: int,
    seed: int = 2026,
    shards: int = 4,
    zipf: float = 1.2,
    max_cardinality: int = 200_000,
    show_progress: bool = True,
) -> dict:
    """Writes both splits and meta.json into `out`; returns what meta.json holds."""
    os.makedirs(out, exist_ok=True)
    population = Population(seed, zipf, max_cardinality)
    with tqdm(total=train + evaluate, unit=" records", desc="generate", disable=not show_progress) as bar:
        meta = {
            "seed": seed,
            "zipf": zipf,
            "cardinalities": population.cardinalities,
            "train": write_split(
                population, os.path.join(out, "train-%05d-of-%05d.tfrecord"), train, min(shards, train), 0, bar.update
            ),
            "eval": write_split(
                population, os.path.join(out, "eval-%05d-of-%05d.tfrecord"), evaluate, 1, EVAL_STREAM, bar.update
            ),
        }
    with open(os.path.join(out, "meta.json"), "w") as f:
        json.dump(meta, f, indent=1)
    return meta


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder to write into; made if missing")
    parser.add_argument("--train", type=int, default=300_000, help="training records (default %(default)s)")
    parser.add_argument("--eval", type=int, default=50_000, help="evaluation records (default %(default)s)")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--shards", type=int, default=4, help="training files (default %(default)s)")
    parser.add_argument("--zipf", type=float, default=1.2, help="exponent of the Zipf law of ids (default %(default)s)")
    parser.add_argument("--max-cardinality", type=int, default=200_000, help="distinct ids of one field, at most")
    args = parser.parse_args(argv)
    meta = generate(args.out, args.train, args.eval, args.seed, args.shards, args.zipf, args.max_cardinality)
    for split in ("train", "eval"):
        reachable = meta[split]["reachable_auc"]
        print(
            "%s: %d records, %.1f %% clicks, reachable AUC %s"
            % (
                split,
                meta[split]["records"],
                100.0 * meta[split]["positives"] / meta[split]["records"],
                "%.4f" % reachable if reachable is not None else "unknown (one class only)",
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
