"""What every test leaves as it found it."""

from __future__ import annotations

import faulthandler
import gc
import os

import pytest
import tensorflow as tf
from google.protobuf import text_format
from shares import divided

# Up to 80 s of processor time a file. Begun first, so that at the end of a parallel run no process is left alone with one.
LONG = ("examples", "same_training")

# The longest test takes a tenth of it on a busy machine.
HANGS_AFTER_SECONDS = 900
_stderr = None


def pytest_addoption(parser):
    parser.addoption("--seeds", help="FIRST:END, for tests of random programs in place of the few that the suite tries")


def pytest_generate_tests(metafunc):
    """Gives a test with the mark `seeds` those seeds, or the ones that were asked for."""
    mark = metafunc.definition.get_closest_marker("seeds")
    if mark:
        asked = metafunc.config.getoption("--seeds")
        metafunc.parametrize("seed", range(*map(int, asked.split(":"))) if asked else mark.args)


def pytest_configure():
    global _stderr
    _stderr = os.dup(2)  # While a test runs, pytest has taken the real one.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    """A test that hangs is ended with its process, after the stacks of all threads; xdist tells its name."""
    faulthandler.dump_traceback_later(HANGS_AFTER_SECONDS, exit=True, file=_stderr)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture(autouse=True, scope="session")
def _graphs_are_written_fast():
    """Estimator writes graph.pbtxt at every start, by Python code that took 4 % of such a test; protobuf's own C code takes an eighth of that."""
    slow = text_format.MessageToString

    def fast(message, **how):
        return str(message) if how == {"float_format": ""} else slow(message, **how)  # What write_graph asks for.

    text_format.MessageToString = fast
    yield
    text_format.MessageToString = slow


def pytest_collection_modifyitems(config, items):
    if os.environ.get("TFB_TEST_SHARE"):
        items[:], left = divided(items, os.environ["TFB_TEST_SHARE"])
        config.hook.pytest_deselected(items=left)
    folder = lambda item: item.path.relative_to(os.path.dirname(__file__)).parts[0]
    items.sort(key=lambda item: LONG.index(folder(item)) if folder(item) in LONG else len(LONG))


def pytest_collection_finish():
    """Python's garbage collector took 9 % of the tests' time: it walked what was imported again and again. Now 4 %."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@pytest.fixture(autouse=True)
def _no_seed_is_left():
    """TensorFlow's global seed makes a shuffle without a seed one with a seed, and that is another case."""
    yield
    tf.random.set_seed(None)
