"""What every test here must leave behind: nothing."""

import pytest
from pipelined import threads

import tf_booster


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    tf_booster.disable_gpu_booster()
    assert threads() == []
