"""A dataset as TensorFlow makes it beside the same dataset rewritten, in graphs of version 1."""

from __future__ import annotations

import sys
import tempfile

import numpy as np
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from record_files import write_files

from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.input_pipeline import InputPipeline

v1 = tf.compat.v1


def outcome(make, rewrite, go_on=False, one_shot=False, seed=5):
    """What an iterator over make() gives in a graph of version 1, the error it ends with, static shapes, what the pass
    said, and what it said when it ran again.

    `go_on`: errors are noted by name among the elements, and only the end ends it.
    """
    with tf.Graph().as_default() as graph, v1.Session() as session:
        v1.set_random_seed(seed)
        iterator = (v1.data.make_one_shot_iterator if one_shot else v1.data.make_initializable_iterator)(make())
        element = tf.nest.flatten(iterator.get_next(), expand_composites=True)
        shapes = [tensor.shape.as_list() if tensor.shape.rank is not None else None for tensor in element]
        view = GraphView(graph)
        result = InputPipeline().run(view) if rewrite else None
        again = InputPipeline().run(GraphView(graph)) if rewrite else None
        assert again is None or not again.modified
        session.run(v1.tables_initializer())
        if not one_shot:
            session.run(iterator.initializer)
        found, errors = [], 0
        while True:
            try:
                found.append(session.run(element))
            except tf.errors.OpError as error:
                if not go_on or isinstance(error, tf.errors.OutOfRangeError) or errors == 9:
                    return found, type(error), shapes, result, again
                found.append([type(error).__name__])
                errors += 1


def assert_same(make, errors=False, one_shot=False):
    """All elements of make() stay as they were; what the pass said, and what it said when it ran again."""
    ours, ours_end, ours_shapes, *said = outcome(make, True, errors, one_shot)
    theirs, theirs_end, theirs_shapes, *_ = outcome(make, False, errors, one_shot)
    assert (ours_end, ours_shapes, len(ours)) == (theirs_end, theirs_shapes, len(theirs))
    for a, b in zip(ours, theirs):
        for x, y in zip(a, b):
            np.testing.assert_array_equal(x, y)
            assert getattr(x, "dtype", None) == getattr(y, "dtype", None)
    return said


def assert_replaced(make, errors=False, one_shot=False, rest=False):
    """The pass replaces make(), and all elements stay as they were. `errors`: what comes after an error is compared, too. `rest`: TensorFlow
    goes on parsing for another reader."""
    result, again = assert_same(make, errors, one_shot)
    assert result.modified and not result.skipped, result
    assert bool(again.skipped) == rest, again
    return result


def assert_refused(make, reason):
    """The pass leaves make() alone and says why."""
    _, _, _, result, _ = outcome(make, True)
    assert not result.modified
    assert [r for _, r in result.skipped if reason in r], result.skipped


def assert_batched(make, reason=None, errors=False):
    """Records of make() are batched by one op, nothing else changes, and all elements stay as they were. `reason`: why they are not parsed by
    that op, too; None: nobody parses them."""
    result, again = assert_same(make, errors)
    assert result.modified and all("one op, TFRecordBatchDataset; what reads" in change for change in result.changes), (
        result
    )
    for said, reasons in ((result, [reason]), (again, [reason, "made by TFRecordBatchDataset already"])):
        told = [any(wanted in why for wanted in reasons if wanted) for _, why in said.skipped]
        assert told == ([] if reason is None else [True]), said.skipped
    return result


def num_replaced(check, strategy, files, **options):
    """For how many of what hypothesis draws check(files, drawn) says that the pass replaced it."""
    replaced = []

    @settings(deadline=None, suppress_health_check=list(HealthCheck), **options)
    @given(strategy)
    def tried(drawn):
        replaced.append(check(files, drawn))

    tried()
    return sum(replaced)


def try_more(check, strategy):
    """num_replaced of as many as the command line says, for a test file that is run as a program."""
    with tempfile.TemporaryDirectory() as folder:
        files = write_files(folder, (5, 0, 17, 9, 1))
        print(num_replaced(check, strategy, files, max_examples=int(sys.argv[1])), "replaced")
