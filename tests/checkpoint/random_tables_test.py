"""Some of the lives that random_tables.py puts together.

`python tests/checkpoint/random_tables_test.py 500 --first 1000` tries more of them.
"""

from __future__ import annotations

import argparse
import sys

import pytest
from random_tables import check, draw


@pytest.mark.parametrize("seed", range(8))
def test_equal(seed):
    check(seed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    different = []
    for seed in range(args.first, args.first + args.number):
        try:
            check(seed)
        except Exception as error:  # pylint: disable=broad-except
            different.append(seed)
            print(f"{seed}: {type(error).__name__}: {str(error)[-2000:]}\n{draw(seed)}", flush=True)
        else:
            print(f"{seed}: equal", flush=True)
    print(f"{args.number - len(different)} of {args.number} are equal; not {different}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
