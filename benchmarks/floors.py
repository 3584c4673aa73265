"""Bare loops as contestants: what this machine can do at best with the same keys (floors.cc). A goal beyond them cannot be met.

Rows lie on huge pages, as ours do. Each contestant does OPS_IN_A_TURN batches a turn, as the ops do.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import shlex
import subprocess
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np

from benchmarks import data, machine
from benchmarks.harness import BARE_LOOP

FOLDER = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.join(os.path.dirname(FOLDER), "build", "benchmark_floors.so")


@functools.cache
def _library() -> Optional[Any]:
    """The compiled loops, for this processor; None where there is no compiler."""
    source = os.path.join(FOLDER, "floors.cc")
    if not os.path.exists(LIBRARY) or os.path.getmtime(LIBRARY) < os.path.getmtime(source):
        os.makedirs(os.path.dirname(LIBRARY), exist_ok=True)
        made = f"{LIBRARY}.{os.getpid()}"
        flags = ["-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC", "-pthread"]
        try:
            compiler = shlex.split(os.environ.get("CXX", "g++"))  # May be "ccache g++".
            subprocess.run([*compiler, *flags, source, "-o", made], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"the floors are left out, they could not be compiled: {error}", file=sys.stderr)
            return None
        os.replace(made, LIBRARY)
    return ctypes.CDLL(LIBRARY)


def _huge(shape: Sequence[int], dtype=np.float32) -> np.ndarray:
    """Zeros on huge pages that have been touched."""
    count = int(np.prod(shape))
    memory = machine.huge_pages(max(count * np.dtype(dtype).itemsize, mmap.PAGESIZE))
    array = np.frombuffer(memory, dtype, count)
    array[:] = 0
    return array.reshape(shape)


def _address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _contestant(run: Callable[[int], None]) -> Dict[str, Callable[[int], None]]:
    return {} if _library() is None else {BARE_LOOP: run}


def copy_rows(table: np.ndarray, places: np.ndarray, out: np.ndarray, threads: int) -> None:
    """out[i] = table[places[i]]."""
    sizes = map(ctypes.c_int64, (len(places), table.shape[1]))
    _library().CopyRows(_address(table), _address(places), *sizes, _address(out), ctypes.c_int64(threads))


def update_step(optimizer: str, table: np.ndarray, places: np.ndarray, grads: np.ndarray, threads: int) -> None:
    """A step on table[places], distinct rows. "adam": of embedding, m and v, rate 0.05, decays 0.9 and 0.999, epsilon 1e-8;
    "adagrad": of embedding and accumulator, rate 0.05."""
    sizes = map(ctypes.c_int64, (len(places), grads.shape[1], threads))
    loop = _library().Adam if optimizer == "adam" else _library().Adagrad
    loop(_address(table), _address(places), _address(grads), *sizes)


def copy(rows: int, dim: int, batches: List[np.ndarray], threads: int) -> Dict[str, Callable[[int], None]]:
    """Copies rows whose numbers are known, one batch after the other: a find without an index."""
    table, out = _huge([rows, dim]), np.zeros([len(batches[0]), dim], np.float32)

    def run(_: int) -> None:
        for places in batches:
            copy_rows(table, places, out, threads)

    return _contestant(run)


def update(
    optimizer: str, rows: int, dim: int, batches: List[np.ndarray], grads: np.ndarray, threads: int
) -> Dict[str, Callable]:
    """The optimizer on rows whose numbers are known, embedding and slots side by side."""
    table = _huge([rows, (3 if optimizer == "adam" else 2) * dim])

    def run(_: int) -> None:
        for places in batches:
            update_step(optimizer, table, places, grads, threads)

    return _contestant(run)


class FindOrInsert:
    """A table of known size with the keys of ranks [0, rows), in `parts` that know nothing of each other: one for each thread."""

    def __init__(self, rows: int, dim: int, new: int, largest_batch: int, parts: int):
        self.parts, self.dim = parts, dim
        capacity = 4 << (rows // parts - 1).bit_length()  # A quarter full: hardly a key is out of its place.
        self.mask = capacity - 1
        self.entries = [_huge([capacity, 2], np.int64) for _ in range(parts)]
        room = (rows + new) // parts * 17 // 16 + 1024  # Keys fall to the parts by chance.
        self.rows = [_huge([room, dim]) for _ in range(parts)]
        self.next = np.ones(parts, np.int64)
        self.out = [np.zeros([largest_batch, dim], np.float32) for _ in range(parts)]
        known = data.keys_of(np.arange(rows))
        for begin in range(0, rows, largest_batch):
            self.run(self.split(known[begin : begin + largest_batch]))

    def split(self, keys: np.ndarray) -> List[np.ndarray]:
        """The keys of each part."""
        return [keys] if self.parts == 1 else [keys[keys < 0], keys[keys >= 0]]

    def run(self, keys: List[np.ndarray]) -> None:
        def pointers(arrays: List[np.ndarray]):
            return (ctypes.c_void_p * self.parts)(*(a.ctypes.data for a in arrays))

        sizes = (ctypes.c_int64 * self.parts)(*map(len, keys))
        _library().FindOrInsert(
            pointers(self.entries), ctypes.c_int64(self.mask), pointers(self.rows), pointers(keys), sizes,
            _address(self.next), ctypes.c_int64(self.dim), pointers(self.out), ctypes.c_int64(self.parts),
        )  # fmt: skip


def find_or_insert(rows: int, dim: int, turns: List[List[np.ndarray]], new: int, threads: int) -> Dict[str, Callable]:
    """turns[t]: the batches of turn t; together they bring `new` keys to a table of `rows`."""
    if _library() is None:
        return {}
    table = FindOrInsert(rows, dim, new, len(turns[0][0]), threads)
    split = [[table.split(keys) for keys in batches] for batches in turns]

    def run(turn: int) -> None:
        for keys in split[turn]:
            table.run(keys)

    return _contestant(run)
