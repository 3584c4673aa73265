"""Fixtures of the parser's tests."""

from __future__ import annotations

import pytest
from simd_levels import levels_here

from tf_booster import parsing


@pytest.fixture(autouse=True)
def _stock_parser_afterwards():
    yield
    parsing.serve_stock_ops(False)
    parsing.force_simd_level("")


@pytest.fixture(params=levels_here())
def level(request):
    """Each instruction set of this processor, in turn."""
    parsing.force_simd_level(request.param)
