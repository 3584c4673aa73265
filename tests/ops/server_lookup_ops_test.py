"""The ops between a worker and a parameter server, all in one process: what the merged lookups of one machine give."""

import numpy as np
import pytest
import tensorflow as tf

from tf_booster import _native

v1 = tf.compat.v1
ops = _native.ops()


def bag(random, rows, most, distinct, dim):
    splits = np.concatenate([[0], np.cumsum(random.randint(0, most + 1, rows))]).astype(np.int32)
    return {
        "ids": np.arange(distinct) * 7,
        "idx": random.randint(0, distinct, splits[-1]).astype(np.int32),
        "row_splits": splits,
        "zero_rows": random.rand(rows) < 0.2,
        "weights": (random.rand(splits[-1]) + 0.1).astype(np.float32),
        "rows": random.standard_normal((distinct, dim)).astype(np.float32),
        "grads": random.standard_normal((rows, dim)).astype(np.float32),
    }


@pytest.mark.parametrize("zeroed, weighted", [(False, False), (True, False), (True, True)])
def test_results_and_gradients_have_the_bits_of_merged_lookups(zeroed, weighted):
    random = np.random.RandomState(3)
    # One that is summed up there, one of which rows travel, one without rows, and one whose rows are wanted.
    bags = [
        bag(random, rows, most, distinct, dim)
        for rows, most, distinct, dim in [(9, 30, 200, 16), (50, 3, 4, 8), (0, 1, 1, 8)]
    ]
    plain = bag(random, 1, 1, 5, 3)
    combiners = ["mean", "sqrtn", "sum"]
    given = {name: [b[name] for b in bags] for name in bags[0]}
    segments = {name: given[name] for name in ("idx", "row_splits")}
    segments["zero_rows"] = given["zero_rows"] if zeroed else []
    segments["weights"] = given["weights"] if weighted else []
    with tf.Graph().as_default(), v1.Session() as session:
        sent, kept = ops.tf_booster_lookup_request(
            ids=[*given["ids"], plain["ids"]], **segments, element_bytes=4, dims=[16, 8, 8, 3], combiners=[*combiners, "none"],
            trained=[True] * 4, zeroed=[zeroed] * 3 + [False], weighted=[weighted] * 3 + [False],
        )  # fmt: skip
        ids = ops.tf_booster_requested_ids(sent, N=4, Tids=tf.int64)
        reply = ops.tf_booster_lookup_reply(sent, [*given["rows"], plain["rows"]])
        results = ops.tf_booster_replied_lookups(reply, kept, N=4, shapes=[None] * 4)
        packed = ops.tf_booster_send_gradients(kept, given["grads"], places=[0, 1, 2])
        row_grads = ops.tf_booster_sent_gradients(sent, packed, M=3, places=[0, 1, 2], shapes=[None] * 3)
        wanted = ops.tf_booster_pool_lookups(given["rows"], combiners=combiners, **segments)
        wanted_grads = ops.tf_booster_pool_lookups_grad(given["grads"], given["rows"], combiners=combiners, **segments)
        found = session.run([*results, *row_grads, *ids])
        expected = session.run([*wanted, tf.constant(plain["rows"]), *wanted_grads]) + [*given["ids"], plain["ids"]]
        moved = session.run(reply).size
    for a, b in zip(found, expected):
        np.testing.assert_array_equal(a, b)
    assert moved == 9 * 16 + 4 * 8 + 0 + 5 * 3


def test_what_is_no_request_is_refused():
    random = np.random.RandomState(3)
    one = bag(random, 9, 30, 200, 16)

    def request(**changes):
        given = {
            "ids": [one["ids"]],
            "idx": [one["idx"]],
            "row_splits": [one["row_splits"]],
            "zero_rows": [],
            "weights": [],
        }
        settings = {"dims": [16], "combiners": ["mean"], "trained": [True], "zeroed": [False], "weighted": [False]}
        return ops.tf_booster_lookup_request(**{**given, **settings, **changes}, element_bytes=4)

    with tf.Graph().as_default(), v1.Session() as session:
        good, _ = request()
        broken = [
            ("is not of a LookupRequest", ops.tf_booster_requested_ids(good[:-8], N=1, Tids=tf.int64)),
            ("is not of a LookupRequest", ops.tf_booster_requested_ids(good, N=2, Tids=tf.int64)),
            ("ids are of another type", ops.tf_booster_requested_ids(good, N=1, Tids=tf.int32)),
            (r"rows has shape \[200,15\]", ops.tf_booster_lookup_reply(good, [one["rows"][:, :15]])),
            (
                "idx and row_splits are not",
                ops.tf_booster_lookup_reply(request(idx=[one["idx"] + 200])[0], [one["rows"]]),
            ),
            ("row_splits is empty", request(row_splits=[np.zeros(0, np.int32)])[0]),
            ("reply is not of these", ops.tf_booster_replied_lookups([1.0], request()[1], N=1, shapes=[None])),
            ("grads has shape", ops.tf_booster_send_gradients(good, [one["grads"][:5]], places=[0])),
            ("no such lookup", ops.tf_booster_send_gradients(good, [one["grads"]], places=[1])),
            ("packed is not of these", ops.tf_booster_sent_gradients(good, [1.0], M=1, places=[0], shapes=[None])),
        ]
        for message, tensor in broken:
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                session.run(tensor)
