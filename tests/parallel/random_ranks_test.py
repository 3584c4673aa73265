"""Some of the Estimators that random_ranks.py puts together, on two ranks.

`python tests/parallel/random_ranks_test.py 50 --first 1000` tries more of them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from typing import Dict, List

import launch
import random_ranks


def differences(seeds: List[int], size: int = 2) -> Dict[int, str]:
    """By seed; what ended a rank has the number −1."""
    with tempfile.TemporaryDirectory() as folder:
        patient = {"HOROVOD_GLOO_TIMEOUT_SECONDS": "600"}
        found = launch.outcomes(random_ranks.try_on_ranks, size, seconds=600, env=patient, seeds=seeds, folder=folder)
    wrong: Dict[int, str] = {}
    for rank, outcome in enumerate(found):
        if outcome.value is None:
            wrong.setdefault(-1, "")
            wrong[-1] += f"--- rank {rank}, status {outcome.status}\n{outcome.output[-3000:]}\n{outcome.error}"
        for seed, said in (outcome.value or {}).items():
            wrong[seed] = wrong.get(seed, "") + f"--- rank {rank}\n{said}\n"
    return wrong


def test_two_ranks_train_as_one_process():
    # The last one is on cards, and a rank has no rows left while its ids are asked for.
    assert differences([8, 14, 9003]) == {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=2)
    args = parser.parse_args()
    different = []
    end = args.first + args.number
    for first in range(args.first, end, 5):
        seeds = list(range(first, min(first + 5, end)))
        for seed, said in sorted(differences(seeds, args.ranks).items()):
            print(f"{seed}: {said}\n{random_ranks.draw(seed) if seed >= 0 else seeds}", flush=True)
            different.append(seed)
        print(f"tried {seeds}", flush=True)
    print(f"{args.number - len(different)} of {args.number} are equal; not {different}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
