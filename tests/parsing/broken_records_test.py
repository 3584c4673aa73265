"""Records that are no Examples: what TensorFlow refuses is refused with its code and message, what it reads is read, and
where it dies there is an error. TensorFlow runs in a process of its own."""

import fuzz_parse_example
import pytest
from tensorflow_process import TensorFlowProcess

from tf_booster import parsing


@pytest.fixture(scope="module")
def stock():
    with TensorFlowProcess() as process:
        yield process


@pytest.fixture(autouse=True)
def ours():
    parsing.serve_stock_ops(True)
    yield
    parsing.serve_stock_ops(False)
    parsing.force_simd_level("")


@pytest.mark.parametrize("level", ["scalar", "sse4.1", "avx2", "avx512"])
def test_broken_records_by_chance(stock, level):
    try:
        parsing.force_simd_level(level)
    except ValueError:
        pytest.skip("not on this machine")
    tried, cases, differences = fuzz_parse_example.fuzz(stock, seconds=5, seed=sum(level.encode()))
    assert tried > 100 and not cases, "\n\n".join(f"{case!r}\n{how}" for case, how in zip(cases, differences))
