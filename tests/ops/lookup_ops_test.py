"""The ops of fused lookups by themselves: what a graph that nobody matched could give them, and their errors."""

import numpy as np
import pytest
import tensorflow as tf

from tf_booster import _native

ops = _native.ops()


def prepare(values, indices=(), shapes=(), weights=(), fill=True, **attrs):
    n = len(values)
    settings = {
        "Tids": tf.int64, "num_filled": n if fill else 0, "prune_ids": True, "prune_weights": False, "fill_rows": fill,
        "default_ids": [0] * n, "leading_dims": [1] * n, "hash_buckets": [0] * n,
    }  # fmt: skip
    return ops.tf_booster_prepare_lookups(
        [tf.constant(v) for v in values], list(indices), list(shapes), list(weights), **{**settings, **attrs}
    )


def test_prepared_ids_places_and_rows():
    made = prepare([np.array([[7, -1], [-1, -1], [5, 7]])])
    assert made.ids[0].numpy().tolist() == [7, 0, 5]
    assert made.idx[0].numpy().tolist() == [0, 1, 2, 0]
    assert made.row_splits[0].numpy().tolist() == [0, 1, 2, 4]
    assert made.row_is_empty[0].numpy().tolist() == [False, True, False]


def test_strings_and_integers_are_hashed_as_tensorflow_hashes_them():
    words = np.array([["a"], [""], ["ccc"]], object)
    made = prepare([words], hash_buckets=[11], default_ids=[10**6])
    assert made.ids[0].numpy().tolist() == [
        *tf.strings.to_hash_bucket_fast(["a"], 11).numpy(), 10**6, *tf.strings.to_hash_bucket_fast(["ccc"], 11).numpy()
    ]  # fmt: skip
    numbers = np.array([-(2**63), 2**63 - 1, 0, -1, -17], np.int64)
    sparse = prepare([numbers], [tf.range(5, dtype=tf.int64)], fill=False, hash_buckets=[1 << 40])
    wanted = tf.strings.to_hash_bucket_fast(tf.strings.as_string(numbers), 1 << 40)
    assert sparse.ids[0].numpy().tolist() == wanted.numpy().tolist()


def test_an_empty_batch_keeps_its_weights():
    empty = tf.zeros([0], tf.float32)
    made = prepare([np.zeros(0, np.int64)], [tf.zeros([0, 2], tf.int64)], [tf.constant([2, 0], tf.int64)], [empty])
    assert made.kept_weights[0].numpy().tolist() == [1.0, 1.0]
    assert made.ids[0].numpy().tolist() == [0]


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"default_ids": [0, 0]}, "default_ids has 2 entries, wanted 1"),
        ({"leading_dims": []}, "leading_dims"),
        ({"leading_dims": [3]}, "leading_dims is larger than the rank"),
        ({"leading_dims": [0]}, "at least 1"),
        ({"hash_buckets": [-1]}, "hash_buckets"),
        ({"fill": False}, "dense ids want fill_rows"),
        ({"indices": [tf.zeros([3, 2], tf.int64)], "shapes": [tf.constant([2, 2], tf.int64)]}, "values|rank"),
    ],
)
def test_settings_that_do_not_fit(kwargs, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        prepare([np.array([[1, 2]])], **kwargs)


def test_lengths_that_do_not_fit():
    ids, rows, shape = np.array([1, 2]), tf.constant([[0, 0], [1, 0]], tf.int64), tf.constant([2, 1], tf.int64)
    with pytest.raises(tf.errors.InvalidArgumentError, match="weights and values differ in length"):
        prepare([ids], [rows], [shape], [tf.ones([3])])
    with pytest.raises(tf.errors.InvalidArgumentError, match="indices have shape"):
        prepare([ids], [rows[:1]], [shape])
    with pytest.raises(tf.errors.InvalidArgumentError, match="differ in rank"):
        prepare([ids], [rows], [tf.constant([2], tf.int64)])


def pool(idx, splits, zero=None, weights=None, rows=((1.0,), (2.0,))):
    return ops.tf_booster_pool_lookups(
        [tf.constant(rows)], [tf.constant(idx, tf.int32)], [tf.constant(splits, tf.int32)],
        [] if zero is None else [tf.constant(zero)], [] if weights is None else [tf.constant(weights)], combiners=["sum"]
    )[0].numpy().tolist()  # fmt: skip


def test_pooling_and_what_would_read_outside():
    assert pool([1, 1, 0], [0, 2, 2, 3]) == [[4.0], [0.0], [1.0]]
    assert pool([1, 1, 0], [0, 2, 2, 3], [True, False, False], [1.0, 1.0, 0.5]) == [[0.0], [0.0], [0.5]]
    for idx, splits in (([2], [0, 1]), ([-1], [0, 1]), ([0], [0, 2]), ([0], [1, 1]), ([0, 0], [0, 2, 1, 2])):
        with pytest.raises(tf.errors.InvalidArgumentError, match="not those of these embeddings"):
            pool(idx, splits)
    with pytest.raises(tf.errors.InvalidArgumentError, match="row_splits is empty"):
        pool([], [])
    with pytest.raises(tf.errors.InvalidArgumentError, match="zero_rows"):
        pool([0], [0, 1], [True, False])
    with pytest.raises(tf.errors.InvalidArgumentError, match="weights"):
        pool([0], [0, 1], weights=[1.0, 2.0])


def test_gradients_have_the_shape_of_the_rows():
    def gradient(grads):
        return ops.tf_booster_pool_lookups_grad(
            [tf.constant(grads)], [tf.zeros([2, 1])], [tf.constant([1, 1, 0])], [tf.constant([0, 2, 2, 3])], [], [],
            combiners=["mean"],
        )[0].numpy().tolist()  # fmt: skip

    assert gradient([[1.0], [5.0], [7.0]]) == [[7.0], [1.0]]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"wanted \[3,1\]"):
        gradient([[1.0], [5.0]])


def test_static_shapes():
    with tf.Graph().as_default():
        ids = tf.compat.v1.placeholder(tf.int64, [32, 3])
        table = tf.compat.v1.get_variable("v", [9, 4], use_resource=True)
        (rows,) = ops.tf_booster_multi_gather([table.handle], [ids], tf.float32)
        assert rows.shape.as_list() == [32, 3, 4]
        out = ops.tf_booster_prepare_lookups(
            [ids], [], [], [], tf.int64, 1, True, False, True, default_ids=[0], leading_dims=[1], hash_buckets=[0]
        )
        assert out.row_splits[0].shape.as_list() == [33] and out.row_is_empty[0].shape.as_list() == [32]
        (gathered,) = ops.tf_booster_multi_gather([table.handle], [out.ids[0]], tf.float32)
        (pooled,) = ops.tf_booster_pool_lookups(
            [gathered], [out.idx[0]], [out.row_splits[0]], [], [], combiners=["sum"]
        )
        assert pooled.shape.as_list() == [32, 4]


def joined(order, others=2, num_apart=1):
    """Of three lookups of dims 1, 2 and 3 in a batch of two, and matrices of 1 and 2 columns beside them."""
    out = ops.tf_booster_joined_pool_lookups(
        rows=[tf.fill([2, 1 + i], float(i + 1)) for i in range(3)],
        idx=[tf.constant([0, 1, 1])] * 3,
        row_splits=[tf.constant([0, 1, 3])] * 3,
        zero_rows=[],
        weights=[],
        others=[tf.fill([2, 1 + i], 8.0 + i) for i in range(others)],
        num_apart=num_apart,
        combiners=["sum"] * 3,
        order=order,
    )
    return out.joined.numpy().tolist(), [t.numpy().tolist() for t in out.apart]


def test_lookups_beside_other_matrices():
    wide, apart = joined([4, 2, 3, 0])
    assert wide == [[9.0, 9.0, 3.0, 3.0, 3.0, 8.0, 1.0], [9.0, 9.0, 6.0, 6.0, 6.0, 8.0, 2.0]]
    assert apart == [[[2.0, 2.0], [4.0, 4.0]]]
    assert joined([2, 1, 0], others=0, num_apart=0)[0] == [[3.0] * 3 + [2.0] * 2 + [1.0], [6.0] * 3 + [4.0] * 2 + [2.0]]
    for order, apart in (
        ([4, 2, 3, 2], 1),
        ([4, 2, 3], 1),
        ([4, 2, 3, 5], 1),
        ([2, 0, -1, 3], 1),
        ([0, 2], 1),
        ([3, 4], 3),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match="order"):
            joined(order, num_apart=apart)


def test_gradients_of_columns():
    def gradient(columns):
        grads = tf.constant([[1.0, 2.0, 3.0], [5.0, 6.0, 7.0]])
        return [
            g.numpy().tolist()
            for g in ops.tf_booster_pool_lookups_grad(
                [grads] * 2, [tf.zeros([2, 2]), tf.zeros([2, 1])], [tf.constant([1, 0, 1])] * 2,
                [tf.constant([0, 1, 3])] * 2, [], [], combiners=["sum"] * 2, grad_columns=columns,
            )
        ]  # fmt: skip

    assert gradient([1, 0]) == [[[6.0, 7.0], [8.0, 10.0]], [[5.0], [6.0]]]
    for columns, message in (([2, 0], r"wanted \[2,2 \+ 2\]"), ([-1, 0], "wanted"), ([0], "grad_columns")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            gradient(columns)
