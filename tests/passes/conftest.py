"""TFRecord files for the tests of input pipelines."""

import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "data"))
from record_files import write_files  # noqa: E402


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Paths of five files, one of them empty: 32 records."""
    return write_files(tmp_path_factory.mktemp("records"), (5, 0, 17, 9, 1))
