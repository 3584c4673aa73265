"""Plain TensorFlow beside tf_booster: both train the same model on the same records; see training_pair.py."""

import os
import sys

import pytest
from tensorflow.core.protobuf import rewriter_config_pb2
from training_pair import session_config

import tf_booster

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "examples"))


@pytest.fixture(autouse=True)
def switched_off():
    """A test that fails in its boosted half leaves the booster off for the next."""
    yield
    tf_booster.disable_gpu_booster()


@pytest.fixture
def in_order():
    """A session config under which no sum is regrouped, so that both trainings give the same bits."""
    config = session_config()
    off = rewriter_config_pb2.RewriterConfig.OFF
    config.graph_options.rewrite_options.arithmetic_optimization = off
    config.graph_options.rewrite_options.constant_folding = off
    return config


@pytest.fixture(scope="session")
def criteo_files(tmp_path_factory):
    """A folder of Criteo-like TFRecords: 3,200 records, ids of 64 bits, missing values."""
    from criteo_generator import generate

    folder = str(tmp_path_factory.mktemp("criteo"))
    generate(folder, 3200, 64, seed=4, shards=2, max_cardinality=300, show_progress=False)
    return folder
