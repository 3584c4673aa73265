"""Lookups and updates that have no fused op, of reference Variables and of half precision: TensorFlow's bits, and the reason in the report."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import check_same

from tf_booster.options import Options
from tf_booster.passes import pipelines

v1 = tf.compat.v1


def program(dtype, use_resource):
    """Two Variables with a lookup of bags and one of single ids each, trained by Adagrad."""
    where = tf.constant([[0, 0], [1, 0], [1, 1]], tf.int64)
    bags = tf.SparseTensor(where, v1.placeholder_with_default(tf.constant([3, 4, 3], tf.int64), [3]), [3, 2])
    singles = v1.placeholder_with_default(np.array([1, 2, 1]), [None])
    outs = []
    for i in range(2):
        table = v1.get_variable(f"v{i}", [10, 4], dtype, initializer=v1.ones_initializer(), use_resource=use_resource)
        outs += [v1.nn.safe_embedding_lookup_sparse(table, bags), tf.nn.embedding_lookup(table, singles)]
    loss = tf.add_n([tf.reduce_sum(tf.square(tf.cast(out, tf.float32))) for out in outs])
    return [loss, v1.train.AdagradOptimizer(0.1).minimize(loss)]


@pytest.mark.parametrize(
    "dtype, use_resource, wanted",
    [
        (
            tf.float16,
            True,
            {
                "sparse_lookups": "its embeddings are float16; float32 and float64 have fused ops",
                "variable_updates": "its dtype is float16; fused updates are for float32, float64",
            },
        ),
        (
            tf.bfloat16,
            True,
            {
                "sparse_lookups": "its embeddings are bfloat16; float32 and float64 have fused ops",
                "variable_updates": "its dtype is bfloat16; fused updates are for float32, float64",
            },
        ),
        (
            tf.float32,
            False,
            {
                # With TensorFlow 2.12 bags have a gather of their distinct ids, too.
                "sparse_lookups variable_gathers": "it reads a reference Variable; lookups of resource Variables (tf.compat.v1.enable_resource_variables() at the program's start, or use_resource=True) can be fused",
                "variable_updates": "it is a reference Variable; resource Variables (tf.compat.v1.enable_resource_variables() at the program's start, or use_resource=True) can be fused",
            },
        ),
    ],
    ids=["float16", "bfloat16", "reference"],
)
def test_the_report_has_the_reason(dtype, use_resource, wanted):
    outcome = check_same(lambda: program(dtype, use_resource), pipelines.passes(Options()))
    reasons = {p.name: [reason for _, reason in p.skipped] for p in outcome.report.passes}
    for names, reason in wanted.items():
        found = [each for name in names.split() for each in reasons[name]]
        assert found == [reason] * 2 * len(names.split()), names
