"""The bare loops do what the tables beside them do."""

import mmap

import numpy as np
import pytest

from benchmarks import data, floors, machine
from benchmarks.harness import BARE_LOOP

NEW = 7


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_are_copied(threads):
    table = np.arange(5 * 16, dtype=np.float32).reshape(5, 16)
    places, out = np.array([3, 1, 3, 4, 0]), np.zeros([5, 16], np.float32)
    floors.copy_rows(table, places, out, threads)
    np.testing.assert_array_equal(out, table[places])


@pytest.mark.parametrize("parts", [1, 2])
def test_each_key_has_one_row(parts):
    table = floors.FindOrInsert(rows=100, dim=4, new=NEW, largest_batch=64, parts=parts)
    assert table.next.sum() == 100 + parts  # Rows start at 1.
    for part, rows in enumerate(table.rows):
        rows[:, 0] = np.arange(len(rows)) + 1000 * part
    keys = data.keys_of(np.concatenate([np.arange(20), np.arange(100, 100 + NEW), np.arange(20)]))
    table.run(table.split(keys))
    assert table.next.sum() == 100 + parts + NEW
    found = {}
    for part, mine in enumerate(table.split(keys)):
        for key, row in zip(mine, table.out[part]):
            assert found.setdefault(key, row[0]) == row[0]
    assert len({row for row in found.values() if row != 0}) == 20  # New rows are zero.


@pytest.mark.parametrize("threads", [1, 2])
def test_adam_is_the_formula(threads):
    random = np.random.default_rng(0)
    table = random.random([6, 3 * 16]).astype(np.float32)
    places, grads = np.array([4, 1, 0]), random.normal(size=[3, 16]).astype(np.float32)
    value, m, v = np.split(table[places], 3, axis=1)
    m, v = m * 0.9 + grads * 0.1, v * 0.999 + grads**2 * 0.001
    wanted = table.copy()
    wanted[places] = np.concatenate([value - 0.05 * m / (np.sqrt(v) + 1e-8), m, v], axis=1)
    floors.update_step("adam", table, places, grads, threads)
    np.testing.assert_allclose(table, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("threads", [1, 2])
def test_adagrad_is_the_formula(threads):
    random = np.random.default_rng(0)
    table = random.random([6, 2 * 16]).astype(np.float32)
    places, grads = np.array([4, 1, 0]), random.normal(size=[3, 16]).astype(np.float32)
    value, accumulator = np.split(table[places], 2, axis=1)
    accumulator = accumulator + grads**2
    wanted = table.copy()
    wanted[places] = np.concatenate([value - 0.05 * grads / np.sqrt(accumulator), accumulator], axis=1)
    floors.update_step("adagrad", table, places, grads, threads)
    np.testing.assert_allclose(table, wanted, rtol=1e-5)


def test_contestants_run_all_batches_of_a_turn():
    batches = [np.array([1, 3]), np.array([0, 2])]
    for contestant in (
        floors.copy(rows=4, dim=16, batches=batches, threads=1),
        floors.update("adam", rows=4, dim=16, batches=batches, grads=np.ones([2, 16], np.float32), threads=1),
        floors.update("adagrad", rows=4, dim=16, batches=batches, grads=np.ones([2, 16], np.float32), threads=1),
    ):
        contestant[BARE_LOOP](0)


def test_huge_pages_are_given_back():
    memory = machine.huge_pages(1 << 22)
    content = np.frombuffer(memory, np.int64)
    content[:] = 7
    memory.madvise(mmap.MADV_DONTNEED)  # Shared memory, Python's default, keeps its content and has no huge pages.
    assert not content.any()
