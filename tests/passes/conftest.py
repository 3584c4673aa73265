"""TFRecord files for the tests of input pipelines; both kinds of control flow for those of tf.conds."""

import os
import sys

import pytest
import tensorflow as tf

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "data"))
from record_files import write_files  # noqa: E402


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Paths of five files, one of them empty: 32 records."""
    return write_files(tmp_path_factory.mktemp("records"), (5, 0, 17, 9, 1))


@pytest.fixture(params=["v2", "v1"])
def control_flow(request):
    """Programs that call disable_v2_behavior have tf.conds whose branches are in the graph."""
    if request.param == "v1":
        tf.compat.v1.disable_control_flow_v2()
    yield request.param
    tf.compat.v1.enable_control_flow_v2()
