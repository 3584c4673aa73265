"""Shares of cases that are alike: each case is in one of them, and tests of few cases are in all."""

from types import SimpleNamespace

import pytest
from shares import divided


class Item:
    def __init__(self, nodeid):
        self.nodeid = nodeid
        if "[" in nodeid:
            self.callspec = SimpleNamespace()


ITEMS = [Item(f"a_test.py::many[{i}]") for i in range(8)]
ITEMS += [
    Item("a_test.py::one"),
    *(Item(f"a_test.py::few[{i}]") for i in range(2)),
    *(Item(f"b_test.py::many[{i}]") for i in range(2)),
]


PROGRAMS = [Item(f"tests/parallel/{letter}_test.py::{test}") for letter in "ab" for test in ("one", "two[0]", "two[1]")]


def names(items):
    return [item.nodeid for item in items]


def test_each_case_is_in_one_share():
    shares = [divided(ITEMS, f"{k}/3")[0] for k in (1, 2, 3)]
    assert [sum("a_test.py::many" in name for name in names(kept)) for kept in shares] == [3, 3, 2]
    assert set().union(*map(names, shares)) == set(names(ITEMS))
    for kept in shares:
        assert set(names(ITEMS[8:])) <= set(names(kept))


def test_order_stays_and_nothing_is_lost():
    kept, left = divided(ITEMS, "2/3")
    assert names(left) == [f"a_test.py::many[{i}]" for i in (0, 2, 3, 5, 6)]
    assert names(kept) == [name for name in names(ITEMS) if name not in names(left)]
    assert divided(ITEMS, "1/1") == (ITEMS, [])


def test_programs_are_alike_whichever_test_they_are_of():
    shares = [divided(PROGRAMS, f"{k}/3")[0] for k in (1, 2, 3)]
    assert [len(kept) for kept in shares] == [2, 2, 2]
    assert set().union(*map(names, shares)) == set(names(PROGRAMS))


@pytest.mark.parametrize("share", ["0/3", "4/3", "", "half", "1"])
def test_what_is_no_share_is_told(share):
    with pytest.raises(ValueError):
        divided(ITEMS, share)
