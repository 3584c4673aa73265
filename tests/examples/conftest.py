"""The examples are programs: tests import them as the programs import each other, from their own folder."""

import os
import sys

import pytest
from example_programs import EXAMPLES, ROOT

sys.path.insert(0, EXAMPLES)


@pytest.fixture(scope="session")
def example_environment():
    """The environment of a subprocess that runs an example from this checkout."""
    path = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))
    return dict(os.environ, PYTHONPATH=path, TF_CPP_MIN_LOG_LEVEL="2")


@pytest.fixture(scope="session")
def small_data(tmp_path_factory):
    """(folder, meta) of 1,200 generated training records in two files and 300 for evaluation."""
    from criteo_generator import generate

    folder = str(tmp_path_factory.mktemp("criteo"))
    return folder, generate(folder, 1200, 300, seed=3, shards=2, max_cardinality=500, show_progress=False)
