"""Fixtures of the parser's tests."""

from __future__ import annotations

import pytest
from simd_levels import levels_here
from tensorflow_process import TensorFlowProcess

from tf_booster import parsing


@pytest.fixture(scope="module")
def _process():
    with TensorFlowProcess() as process:
        yield process


@pytest.fixture
def stock(_process):
    """TensorFlow's parser, apart: of odd records it may die, or write behind its outputs' memory and let others die. Here is ours."""
    parsing.serve_stock_ops(True)
    return _process


@pytest.fixture(autouse=True)
def _stock_parser_afterwards():
    yield
    parsing.serve_stock_ops(False)
    parsing.force_simd_level("")


@pytest.fixture(params=levels_here())
def level(request):
    """Each instruction set of this processor, in turn; its name."""
    parsing.force_simd_level(request.param)
    return request.param
