"""All collectives, through shared memory and through Horovod, in one start of three ranks each, because a start takes seconds."""

import os
from unittest import mock

import launch
import numpy as np
import pytest
import tensorflow as tf

from tf_booster import _native
from tf_booster.parallel import collectives, host_ranks

v1 = tf.compat.v1


def everything(rank, size):
    tf.enable_gpu_booster()
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 2])
        summed = collectives.all_reduce_packed(
            [x, tf.fill([3], float(rank)), tf.constant(7.0), tf.cast(x[:, 0], tf.float64), x[:0]], "dense"
        )
        with mock.patch.object(collectives._compat, "device_kind", lambda op: "GPU"):
            as_on_gpu = collectives.all_reduce_packed(
                [x, tf.constant(2.0), x[:0, 0], tf.fill([3], float(rank))], "other"
            )
        ids = tf.range(rank * 2, dtype=tf.int64)  # Rank 0 has none.
        gathered = collectives.all_gather_packed([ids, tf.cast(ids, tf.float32)[:, None] * [1.0, 2.0], x[:1]], "sparse")
        sent = collectives.broadcast_packed([x + 100.0 * rank, tf.constant(rank, tf.int64)], "other", root=1)
        received = collectives.all_to_all(tf.range(rank + 1) + 10 * rank, tf.constant([rank, 1, 0]), "tables")
        # TensorFlow must keep what is constant, what only control edges lead from, and what is multiplied by 0.
        folded = collectives.all_reduce_packed([tf.constant([1.0, 2.0])], "other", name="constant")[0]
        with tf.control_dependencies(collectives.all_reduce_packed([x], "other", name="barrier")):
            barrier = tf.no_op()
        counter = v1.get_variable("counter", [], tf.int64, initializer=v1.zeros_initializer(), use_resource=True)
        counts = collectives.count_by_kind(graph.get_operations())
        with v1.Session() as session:
            session.run(counter.initializer)
            fed = {x: np.full([4, 2], rank + 1.0)}
            results = session.run([summed, gathered, sent, received, folded, as_on_gpu, barrier], fed)
            traced = [_names_run(session, fetch, fed) for fetch in (folded, barrier)]
            # Through shared memory, in which a larger message moves to another place.
            for rows in (4, 40_000, 3):
                more = session.run(summed[0], {x: np.full([rows, 2], rank + 1.0)})
                assert more.shape == (rows, 2) and (more == 6.0).all()
    types = {op.type for op in graph.get_operations() if collectives.is_collective(op)}
    return results, counts, traced, types


def _names_run(session, fetch, fed):
    names = []
    for _ in range(3):
        metadata = v1.RunMetadata()
        session.run(fetch, fed, options=v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), run_metadata=metadata)
        ran = [node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats]
        names.append(sum(name.split(":")[0].endswith(("constant", "barrier")) for name in ran))
    return names


@pytest.mark.parametrize("shared_memory", ["1", "0"])
def test_sums_gathers_broadcasts_and_exchanges(shared_memory):
    outcomes = launch.values(everything, 3, env={host_ranks.SWITCH: shared_memory})
    for rank, (results, counts, traced, types) in enumerate(outcomes):
        summed, gathered, sent, received, folded, as_on_gpu, _ = results
        np.testing.assert_array_equal(summed[0], np.full([4, 2], 6.0))
        np.testing.assert_array_equal(summed[1], [3.0, 3.0, 3.0])
        assert summed[2] == 21.0 and summed[3].dtype == np.float64 and summed[4].shape == (0, 2)
        np.testing.assert_array_equal(summed[3], np.full(4, 6.0))
        np.testing.assert_array_equal(as_on_gpu[0], np.full([4, 2], 6.0))
        assert as_on_gpu[1] == 6.0 and as_on_gpu[2].shape == (0,)
        np.testing.assert_array_equal(as_on_gpu[3], [3.0, 3.0, 3.0])
        np.testing.assert_array_equal(gathered[0], [0, 1, 0, 1, 2, 3])
        np.testing.assert_array_equal(gathered[1], [[0, 0], [1, 2], [0, 0], [1, 2], [2, 4], [3, 6]])
        np.testing.assert_array_equal(gathered[2], [[1, 1], [2, 2], [3, 3]])
        np.testing.assert_array_equal(sent[0], np.full([4, 2], 102.0))
        assert sent[1] == 1
        wanted = {0: ([10, 20, 21], [0, 1, 2]), 1: ([0, 11, 22], [1, 1, 1]), 2: ([], [0, 0, 0])}[rank]
        np.testing.assert_array_equal(received[0], wanted[0])
        np.testing.assert_array_equal(received[1], wanted[1])
        np.testing.assert_array_equal(folded, [3.0, 6.0])
        assert counts == {"tables": 1, "dense": 2, "sparse": 1, "other": 4}
        assert traced == [[1, 1, 1], [1, 1, 1]]
        assert (types & set(collectives.HOST_TYPES) == set(collectives.HOST_TYPES)) is (shared_memory == "1")
        assert ("HorovodAllreduce" in types) is (shared_memory == "0")


@pytest.mark.parametrize("rows", [[0], [3], [2, 0, 5]])
def test_rows_come_back_by_rank(rows):
    packs, ids, values = [], [], []
    for rank, n in enumerate(rows):
        ids.append(np.arange(n, dtype=np.int64) + 100 * rank)
        values.append(np.random.RandomState(rank).rand(n, 3, 2).astype(np.float32))
        packs.append(_native.ops().tf_booster_pack_rows([ids[-1], values[-1], np.zeros([n + 1], np.int8)]))
    assert all(pack.shape[0] % 64 == 0 for pack in packs)
    unpack = dict(T=[tf.int64, tf.float32, tf.int8], row_shapes=[[], [3, 2], []], ranks=len(rows))
    got = _native.ops().tf_booster_unpack_rows(tf.concat(packs, 0), **unpack)
    np.testing.assert_array_equal(got[0], np.concatenate(ids))
    np.testing.assert_array_equal(got[1], np.concatenate(values))
    assert got[2].shape == [sum(rows) + len(rows)]
    for broken in (tf.concat(packs, 0)[:-1], tf.concat([*packs, packs[0]], 0), tf.constant([], tf.uint8)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="all ranks must run the same graph"):
            _native.ops().tf_booster_unpack_rows(broken, **unpack)


def test_what_cannot_be_gathered_is_refused():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="all but the number of rows must be known"):
            collectives.all_gather_packed([v1.placeholder(tf.float32, [None, None])], "sparse")
        with pytest.raises(ValueError, match="kind is 'dens'; wanted one of tables, dense"):
            collectives.broadcast_packed([tf.constant(1)], "dens")
    with pytest.raises(tf.errors.InvalidArgumentError, match="no fixed size"):
        _native.ops().tf_booster_pack_rows([tf.constant(["a"])])


def one_ends(rank, size):
    tf.enable_gpu_booster()
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [2])
        summed = collectives.all_reduce_packed([x], "dense")[0]
        session.run(summed, {x: [1.0, 2.0]})
        if rank == 1:
            os._exit(0)
        with pytest.raises(tf.errors.FailedPreconditionError, match="for rank 1, whose process has ended"):
            session.run(summed, {x: [1.0, 2.0]})
    return host_ranks.connected()


def test_a_rank_that_has_ended_is_an_error_to_the_others():
    outcomes = launch.outcomes(one_ends, 2)
    assert outcomes[0].value is True, outcomes[0].error + outcomes[0].output
