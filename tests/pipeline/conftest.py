"""What every test here must leave behind: nothing."""

import pytest
from pipelined import threads

import tf_booster
from tf_booster.pipeline import worth


@pytest.fixture(autouse=True)
def begins_ahead(monkeypatch):
    """The programs of these tests are short: one run of both halves would be all that they see."""
    monkeypatch.setattr(worth, "BEGINS", worth.AHEAD)


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    tf_booster.disable_gpu_booster()
    assert threads() == []
