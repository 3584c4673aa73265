"""Whether a lookup has made the indices of its gradient distinct, seen from the gradient."""

import numpy as np
import pytest
import tensorflow as tf

from tf_booster.passes.gradient_plan import distinct_indices

v1 = tf.compat.v1
IDS = np.asarray([7, 1, 7, 0, 9, 1])


def indices_of(lookup, partitions):
    """The indices of the gradients of a Variable's parts, as tensors and as values."""
    with tf.Graph().as_default(), v1.Session() as session:
        partitioner = v1.fixed_size_partitioner(partitions) if partitions > 1 else None
        embedding = v1.get_variable("embedding", [10, 2], partitioner=partitioner, use_resource=True)
        parts = list(embedding) if partitions > 1 else [embedding]
        gradients = tf.gradients(tf.reduce_sum(tf.square(lookup(embedding))), parts)
        session.run(v1.global_variables_initializer())
        indices = [gradient.indices for gradient in gradients]
        return [distinct_indices(tensor) for tensor in indices], session.run(indices)


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_a_lookup_of_distinct_ids_is_known_for_one(partitions, strategy):
    def lookup(embedding):
        ids = tf.SparseTensor(
            [[i, 0] for i in range(len(IDS))], v1.placeholder_with_default(IDS, [None]), [len(IDS), 1]
        )
        return v1.nn.embedding_lookup_sparse(embedding, ids, None, strategy, combiner="sum")

    known, values = indices_of(lookup, partitions)
    assert known == [True] * partitions
    for part in values:
        assert len(part) == len(np.unique(part))


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_lookup_of_ids_as_they_come_is_not_taken_for_one(partitions):
    def lookup(embedding):
        return v1.nn.embedding_lookup(embedding, v1.placeholder_with_default(IDS, [None]), "div")

    known, values = indices_of(lookup, partitions)
    assert known == [False] * partitions
    assert any(len(part) > len(np.unique(part)) for part in values)
