"""tf_booster: faster training for TensorFlow Estimators.

    import tensorflow as tf
    import tf_booster

    tf.enable_gpu_booster()

`import tf_booster` registers tf.enable_gpu_booster and tf.compat.v1.enable_gpu_booster and changes nothing else.
"""

from __future__ import annotations

import tensorflow as _tf

from tf_booster import _native, feature_column
from tf_booster.checkpoint.apply_increments import apply_increments
from tf_booster.checkpoint.increments import IncrementHook
from tf_booster.data.tf_record_example_dataset import TFRecordExampleDataset
from tf_booster.embedding.hash_table import HashTable, get_hash_table
from tf_booster.embedding.lookup import embedding_lookup, embedding_lookup_sparse
from tf_booster.enable import disable_gpu_booster, enable_gpu_booster, rewrite_graph
from tf_booster.ops import unique
from tf_booster.parsing import parse_example
from tf_booster.passes.base import RewriteError
from tf_booster.pipeline.trace_hook import PipelineTraceHook
from tf_booster.report import report

__version__ = "0.3.0"

__all__ = [
    "HashTable",
    "IncrementHook",
    "PipelineTraceHook",
    "RewriteError",
    "TFRecordExampleDataset",
    "apply_increments",
    "disable_gpu_booster",
    "embedding_lookup",
    "embedding_lookup_sparse",
    "enable_gpu_booster",
    "feature_column",
    "get_hash_table",
    "parse_example",
    "report",
    "rewrite_graph",
    "unique",
]

# Loads the ops, so that this import is all that a process needs to serve an exported model. A missing library, or one for
# another TensorFlow, is refused here, before it is loaded; the message has the remedy.
_native.ops()

_tf.enable_gpu_booster = enable_gpu_booster
_tf.compat.v1.enable_gpu_booster = enable_gpu_booster
