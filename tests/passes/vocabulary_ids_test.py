"""The pass vocabulary_ids: one op looks up in all static tables, with TensorFlow's ids, and remembers them."""

import threading

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import check_same, check_second_run, check_waits, lookup_passes, minimized, sparse_input

from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.crossed_columns import CrossedColumns
from tf_booster.passes.indicator_columns import IndicatorColumns
from tf_booster.passes.sparse_features import SparseFeatures
from tf_booster.passes.vocabulary_ids import VocabularyIds

v1 = tf.compat.v1
fc = tf.feature_column
PASSES = [VocabularyIds()]
ALL = [*lookup_passes(), IndicatorColumns(), VocabularyIds(), CrossedColumns(), SparseFeatures()]
MADE = "TfBoosterVocabularyIds"
LONG = "some text that is longer than what a string holds in itself"
WORDS = np.array([["a", "b"], ["", "c"], [LONG, "a"], ["d", "e"]], object)
INTS = np.array([[3, -1], [0, 2**62], [-(2**63), 7], [5, 5]])


def fed(array, dtype=None):
    array = np.asarray(array, dtype)
    return v1.placeholder_with_default(array, [None] * array.ndim)


def table(keys=("a", "b", LONG, ""), ids=None, default=-1, dtype=tf.string):
    ids = range(10, 10 + len(keys)) if ids is None else ids
    made = tf.lookup.KeyValueTensorInitializer(tf.constant(keys, dtype), tf.constant(list(ids), tf.int64))
    return tf.lookup.StaticHashTable(made, default)


def in_buckets(buckets, keys=("a", "b", LONG, "")):
    ids = tf.constant(list(range(len(keys))), tf.int64)
    keys = tf.constant(keys, tf.string if isinstance(keys, tuple) else tf.int64)
    return tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(keys, ids), buckets)


def numbers(**kwargs):
    return table([3, -1, 2**62, -(2**63)], dtype=tf.int64, **kwargs)


def looked_up(*pairs):
    return [1 * found.lookup(keys) for found, keys in pairs]


def columns(**vocabularies):
    """Embeddings, ones among zeros and crosses of columns with these vocabularies."""
    features = {name: keys for name, (keys, _, _) in vocabularies.items()}
    made = [fc.categorical_column_with_vocabulary_list(n, v, **kw) for n, (_, v, kw) in vocabularies.items()]
    used = [fc.embedding_column(made[0], 3), fc.indicator_column(made[-1])]
    used.append(fc.embedding_column(fc.crossed_column(made[:2], 11), 2))
    return minimized([v1.feature_column.input_layer(features, used)])


PROGRAMS = {
    "words": lambda: looked_up((table(), fed(WORDS)), (table(["e"]), fed(WORDS[0]))),
    "numbers": lambda: looked_up((numbers(), fed(INTS)), (numbers(default=0), fed(INTS[:, 0]))),
    "of both types": lambda: looked_up((numbers(), fed(INTS)), (table(), fed(WORDS))),
    "one table, many keys": lambda: looked_up(*[(shared, fed(keys)) for shared in [table()] for keys in (WORDS, WORDS[0])]),
    "a default that is an id": lambda: looked_up((table(default=10), fed(WORDS))),
    "ids below 0": lambda: looked_up((table(ids=[-1, -(2**63), -(2**63) + 1, -2]), fed(WORDS))),
    "no keys": lambda: looked_up((table(), fed(WORDS[:0])), (numbers(), fed(INTS[:0]))),
    "buckets for others": lambda: looked_up((in_buckets(3), fed(WORDS)), (in_buckets(1), fed(WORDS[:0])), (table(), fed(WORDS[0])), (in_buckets(2**40), fed(WORDS))),
    "buckets for numbers": lambda: looked_up((in_buckets(5, INTS[0]), fed(INTS)), (in_buckets(2**40, INTS[2]), fed(INTS)), (numbers(), fed(INTS))),
    "columns of numbers in buckets": lambda: columns(
        a=(fed(INTS), [3, 6, 5], {"num_oov_buckets": 4}), b=(fed(INTS), [7], {"num_oov_buckets": 1})
    ),
    "buckets by the class of v1": lambda: looked_up((v1.lookup.StaticVocabularyTable(table(ids=range(4))._initializer, 3), fed(WORDS))),
    "columns": lambda: columns(
        a=(fed(WORDS), ["a", "b", LONG], {"num_oov_buckets": 2}), b=(fed(WORDS), ["c"], {}), c=(fed(WORDS), ["d", "e"], {"default_value": 1})
    ),
    "columns of numbers": lambda: columns(
        a=(fed(INTS % 7), [3, 6, 5], {}), b=(fed(INTS), [7], {"default_value": 0})
    ),
    "sparse columns": lambda: columns(
        a=(sparse_input([["a", "zz"], [], ["b"]], object), ["a", "b"], {}), b=(sparse_input([["c"], ["x", "c"], []], object), ["c"], {"num_oov_buckets": 1})
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_same_by_one_op(kind):
    counts = check_same(PROGRAMS[kind], ALL if "columns" in kind else PASSES).running()
    assert counts[MADE] == (2 if kind in ("of both types", "no keys") else 1) and not counts["LookupTableFindV2"]
    assert not counts["StringToHashBucketFast"] and not counts["LookupTableSizeV2"]


def test_buckets_that_something_else_reads_stay():
    def others(change):
        keys, found = fed(WORDS), table(ids=range(4))
        ids = found.lookup(keys)
        place = tf.strings.to_hash_bucket_fast(keys, 3)
        buckets, differs = place + found.size(), tf.not_equal(ids, found.default_value)
        result = 1 * tf.where(differs, ids, buckets)
        return [result, *change(keys, ids, place, buckets, differs)]

    for change in (
        lambda keys, ids, place, buckets, differs: [tf.cast(differs, tf.int64)],
        lambda keys, ids, place, buckets, differs: [1 * place],
        lambda keys, ids, place, buckets, differs: [1 * ids],
        lambda keys, ids, place, buckets, differs: [1 * buckets],
    ):
        counts = check_same(lambda change=change: others(change), PASSES).running()
        assert counts[MADE] == counts["StringToHashBucketFast"] == counts["SelectV2"] == 1
    counts = check_same(lambda: others(lambda *_: []), PASSES).running()
    assert counts[MADE] == 1 and not counts["StringToHashBucketFast"] + counts["SelectV2"]


def test_what_is_no_bucket_of_its_own_keys_stays():
    def program(other_table, other_keys, default):
        keys, found = fed(WORDS), table(ids=range(4))
        ids = found.lookup(keys)
        place = tf.strings.to_hash_bucket_fast(fed(WORDS[:, ::-1]) if other_keys else keys, 3)
        size = (table(["a"]) if other_table else found).size()
        return [1 * tf.where(tf.not_equal(ids, default), ids, place + size)]

    for given in ((True, False, -1), (False, True, -1), (False, False, 2)):
        counts = check_same(lambda given=given: program(*given), PASSES).running()
        assert counts[MADE] == counts["StringToHashBucketFast"] == counts["SelectV2"] == 1


def test_tables_that_programs_insert_into_stay():
    with tf.Graph().as_default() as graph:
        mutable = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
        floats = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1.5]), 0.0)
        names = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1], ["a"], tf.int64), "")
        kept = looked_up((mutable, fed(WORDS)), (floats, fed(WORDS))) + [tf.identity(names.lookup(fed(INTS)))]
        assert not pipelines.rewrite(graph, Options(), only=PASSES).passes[0].modified
    del kept


def session_of(build):
    graph = tf.Graph()
    with graph.as_default():
        made = build()
        pipelines.rewrite(graph, Options(), only=PASSES)
    return v1.Session(graph=graph), made


def test_a_table_that_is_not_initialized_is_still_refused():
    session, made = session_of(lambda: looked_up((table(), fed(WORDS))))
    with session, session.graph.as_default():
        with pytest.raises(tf.errors.FailedPreconditionError, match="not initialized"):
            session.run(made)
        session.run(v1.tables_initializer())
        assert session.run(made)[0].tolist() == [[10, 11], [13, -1], [12, 10], [-1, -1]]


def test_a_default_that_changes():
    """LookupTableFindV2 takes any tensor."""

    def build():
        default = v1.placeholder(tf.int64, [])
        found = tf.raw_ops.LookupTableFindV2(
            table_handle=table().resource_handle, keys=fed(WORDS[0]), default_value=default
        )
        missing = tf.raw_ops.LookupTableFindV2(
            table_handle=table(["x"]).resource_handle, keys=fed(WORDS[0]), default_value=default
        )
        return default, [1 * found, 1 * missing]

    session, (default, made) = session_of(build)
    with session, session.graph.as_default():
        session.run(v1.tables_initializer())
        for number in (-1, -1, 10, 5, 10, -1, -1):
            found, missing = session.run(made, {default: number})
            assert found.tolist() == [10, 11] and missing.tolist() == [number] * 2


def test_sessions_have_tables_of_their_own():
    graph = tf.Graph()
    with graph.as_default():
        first = v1.placeholder_with_default(tf.constant(10, tf.int64), [])
        ids = first + tf.constant([0, 1], tf.int64)
        made = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant(["a", "b"]), ids), -1)
        found = 1 * made.lookup(fed(WORDS[0]))
        pipelines.rewrite(graph, Options(), only=PASSES)
        start = v1.tables_initializer()
    sessions = [v1.Session(graph=graph) for _ in range(2)]
    for number, session in enumerate(sessions):
        session.run(start, {first: 100 * number})
    for _ in range(3):
        for number, session in enumerate(sessions):
            assert session.run(found).tolist() == [100 * number, 100 * number + 1]


def test_many_threads_and_many_keys():
    """More than are remembered of what a vocabulary has not."""
    vocabulary = [f"w{i}" for i in range(3000)]

    def build():
        keys = v1.placeholder(tf.string, [None])
        return keys, looked_up((table(vocabulary, range(3000)), keys), (table(vocabulary[::-1], range(3000)), keys))

    session, (keys, made) = session_of(build)
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(20):
            numbers = rng.integers(0, 3000, 2000)
            numbers[::3] += rng.integers(3000, 2**40)
            one, other = session.run(made, {keys: np.char.add("w", numbers.astype(str)).astype(object)})
            if not np.array_equal(one, np.where(numbers < 3000, numbers, -1)):
                wrong.append(one)
            if not np.array_equal(other, np.where(numbers < 3000, 2999 - numbers, -1)):
                wrong.append(other)

    with session.graph.as_default():
        session.run(v1.tables_initializer())
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_it_waits_for_what_the_ops_before_waited_for():
    given = lambda: (table(), fed(WORDS))  # noqa: E731
    check_waits(given, lambda pair: looked_up(pair, pair), PASSES, MADE)


def test_a_second_run_changes_nothing():
    check_second_run(PROGRAMS["words"], [], VocabularyIds())


def test_the_report():
    with tf.Graph().as_default() as graph:
        kept = PROGRAMS["words"]()
        assert pipelines.rewrite(graph, Options(), only=PASSES).passes[0].changes == [
            "ids of 2 features from vocabularies by 1 op"
        ]
    del kept
