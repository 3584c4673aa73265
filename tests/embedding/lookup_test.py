"""Lookups equal TensorFlow's on an ordinary Variable that holds the same rows, bit for bit."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf

import tf_booster

v1 = tf.compat.v1

DIM = 3
# Row i of the Variable belongs to KEYS[i] of the table.
KEYS = np.array([5, 0, -1, 2**63 - 1, -(2**63), 1, 2**40, -7], np.int64)
ROWS = np.random.RandomState(3).standard_normal([len(KEYS), DIM]).astype(np.float32)


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def make_table():
    """The table, and the op that fills it."""
    table = tf_booster.get_hash_table("rows", DIM, initializer=0.25)
    return table, table.insert_or_assign(KEYS, ROWS)


def run_filled(fill, *fetches):
    """Runs the fetches in one call, on the rewritten graph, after `fill`."""
    graph = v1.get_default_graph()
    tf_booster.rewrite_graph(graph)
    with v1.Session(graph=graph) as session:
        session.run(v1.global_variables_initializer())
        session.run(fill)
        return session.run(fetches)


@pytest.mark.parametrize("shape", [[], [0], [5], [2, 3], [2, 1, 4]])
def test_any_shape(graph, shape):
    table, fill = make_table()
    index = np.random.RandomState(1).randint(len(KEYS), size=shape)
    looked_up = tf_booster.embedding_lookup(table, KEYS[index])
    assert looked_up.shape == shape + [DIM]
    np.testing.assert_array_equal(run_filled(fill, looked_up)[0], ROWS[index])


def test_shape_that_is_known_when_it_runs(graph):
    table, _ = make_table()
    assert tf_booster.embedding_lookup(table, v1.placeholder(tf.int64, [None, 4])).shape.as_list() == [None, 4, DIM]
    assert tf_booster.embedding_lookup(table, v1.placeholder(tf.int64, None)).shape.rank is None


def test_unknown_keys_give_what_an_insert_would_and_insert_nothing(graph):
    table, fill = make_table()
    looked_up, size = run_filled(fill, tf_booster.embedding_lookup(table, [5, 99]), table.size())
    np.testing.assert_array_equal(looked_up, [ROWS[0], [0.25] * DIM])
    assert size == len(KEYS)


@pytest.mark.parametrize("ids", [[5, 1], np.array([5, 1], np.int32), np.array([5, 1], np.int64)])
def test_int32_int64_and_lists(graph, ids):
    table, fill = make_table()
    np.testing.assert_array_equal(run_filled(fill, tf_booster.embedding_lookup(table, ids))[0], ROWS[[0, 5]])


def test_large_numbers_in_a_list(graph):
    table, fill = make_table()
    (rows,) = run_filled(fill, tf_booster.embedding_lookup(table, [2**63 - 1, -(2**63)]))
    np.testing.assert_array_equal(rows, ROWS[[3, 4]])


def test_max_norm(graph):
    table, fill = make_table()
    variable = v1.get_variable("ordinary", initializer=ROWS)
    ours = tf_booster.embedding_lookup(table, KEYS[[0, 3, 3]], max_norm=0.5)
    theirs = tf.nn.embedding_lookup(variable, [0, 3, 3], max_norm=0.5)
    np.testing.assert_array_equal(*run_filled(fill, ours, theirs))


def test_strings_go_through_tensorflows_hash(graph):
    table, _ = make_table()
    strings = ["a", "", "b"]
    assign = table.insert_or_assign(tf.strings.to_hash_bucket_fast(strings, 2**63 - 1), ROWS[:3])
    np.testing.assert_array_equal(run_filled(assign, tf_booster.embedding_lookup(table, strings))[0], ROWS[:3])


def test_ragged_ids(graph):
    table, fill = make_table()
    ids = tf.RaggedTensor.from_row_lengths(KEYS[[0, 3, 3]], [2, 0, 1])
    looked_up = tf_booster.embedding_lookup(table, ids)
    assert looked_up.shape.as_list() == [3, None, DIM]
    values, splits = run_filled(fill, looked_up.values, looked_up.row_splits)
    np.testing.assert_array_equal(values, ROWS[[0, 3, 3]])
    np.testing.assert_array_equal(splits, [0, 2, 2, 3])


@pytest.mark.parametrize(
    "ids, message",
    [
        (lambda: [1.0], "embedding_lookup 'rows': ids are float32, wanted int64, int32 or string"),
        (lambda: tf.constant([True]), "ids are bool, wanted"),
        (lambda: tf.constant([1], tf.uint64), "ids are uint64, wanted"),
        (lambda: np.array([1.7]), "ids are float64, wanted"),
        (lambda: [np.float32("nan")], "ids are float32, wanted"),
        (lambda: np.array([2**64 - 1], np.uint64), "ids are uint64, wanted"),
        (lambda: np.array([True]), "ids are bool, wanted"),
        (lambda: [True], "ids are bool, wanted"),
        (lambda: [1, 2.5], "ids are float32, wanted"),
        (lambda: [np.array([1.7]), np.array([2.5])], "ids are float64, wanted"),
        (lambda: tf.sparse.from_dense([[1]]), "ids are a SparseTensor; use embedding_lookup_sparse"),
        (lambda: tf.ragged.constant([[1.0]]), "ids are float32, wanted"),
    ],
)
def test_wrong_ids(graph, ids, message):
    table, _ = make_table()
    with pytest.raises(TypeError, match=message):
        tf_booster.embedding_lookup(table, ids())


@pytest.mark.parametrize(
    "ids",
    [
        [],
        [3, -(2**63)],
        [np.int32(3)],
        np.array([3, 2**40]),
        [[1], [2]],
        [np.array([1]), np.array([2])],
        np.array(["a"], object),
        np.array([1, 2], object),
        np.array([3], np.uint32),
        ["a", b"b"],
        7,
    ],
)
def test_ids_of_python_and_numpy(graph, ids):
    table, _ = make_table()
    keys = table.to_keys(ids, "find")
    assert keys.dtype == tf.int64 and keys.shape == np.shape(ids)


@pytest.mark.parametrize(
    "key_dtype, ids",
    [
        (tf.int32, np.array([1, 2], np.int16)),
        (tf.int32, np.array([1, 2], np.uint8)),
        *((key_dtype, np.array([])) for key_dtype in (tf.int64, tf.int32, tf.string)),
        (tf.int32, np.zeros([0, 2], np.int64)),
    ],
)
def test_narrow_ids_and_none(graph, key_dtype, ids):
    table = tf_booster.get_hash_table("user", DIM, key_dtype=key_dtype)
    assert tf_booster.embedding_lookup(table, ids).shape == [*ids.shape, DIM]


@pytest.mark.parametrize("key_dtype, ids", [(tf.string, [1]), (tf.int32, np.array([1])), (tf.int32, ["a"])])
def test_ids_that_key_dtype_does_not_allow(graph, key_dtype, ids):
    table = tf_booster.get_hash_table("user", DIM, key_dtype=key_dtype)
    with pytest.raises(
        TypeError, match=f"but the table's key_dtype is {key_dtype.name}; make the table with key_dtype=tf.int64"
    ):
        tf_booster.embedding_lookup(table, tf.constant(ids))


def test_a_variable_in_place_of_a_table(graph):
    variable = v1.get_variable("v", [4, DIM])
    with pytest.raises(
        TypeError, match="wanted what tf_booster.get_hash_table returns; for a Variable use tf.nn.embedding_lookup"
    ):
        tf_booster.embedding_lookup(variable, [1])
    with pytest.raises(TypeError, match="for a Variable use tf.nn.embedding_lookup_sparse"):
        tf_booster.embedding_lookup_sparse(variable, tf.sparse.from_dense([[1]]))


def test_control_flow_is_refused(graph):
    table, _ = make_table()

    def lookup():
        return tf_booster.embedding_lookup(table, [1])

    condition = v1.placeholder(tf.bool, [])
    with pytest.raises(RuntimeError, match="embedding_lookup 'rows': this is the body of a tf.function"):
        tf.cond(condition, lookup, lookup)
    v1.disable_control_flow_v2()
    try:
        with pytest.raises(
            RuntimeError, match="embedding_lookup 'rows': this is the body of a tf.cond or a tf.while_loop"
        ):
            v1.cond(condition, lookup, lookup)
    finally:
        v1.enable_control_flow_v2()


# --- embedding_lookup_sparse ---


class Sparse:
    """Both lookups with placeholders for ids and weights, in one session; made once, as hypothesis calls it often."""

    def __init__(self, combiner, weighted):
        self._graph = tf.Graph()
        with self._graph.as_default():
            table, fill = make_table()
            variable = v1.get_variable("ordinary", initializer=ROWS)
            self._indices = v1.placeholder(tf.int64, [None, 2])
            self._places = v1.placeholder(tf.int64, [None])
            self._shape = v1.placeholder(tf.int64, [2])
            self._weights = v1.placeholder(tf.float32, [None])
            ids = tf.SparseTensor(self._indices, tf.gather(KEYS, self._places), self._shape)
            places = tf.SparseTensor(self._indices, self._places, self._shape)
            weights = tf.SparseTensor(self._indices, self._weights, self._shape) if weighted else None
            ours = tf_booster.embedding_lookup_sparse(table, ids, weights, combiner=combiner)
            self._ours = [ours, *self._gradients(ours, table.variable)]
            self._theirs = []
            for lookup in (tf.nn.safe_embedding_lookup_sparse, tf.nn.embedding_lookup_sparse):
                result = lookup(variable, places, weights, combiner=combiner)
                self._theirs.append([result, *self._gradients(result, variable)])
            tf_booster.rewrite_graph(self._graph)
            self._session = v1.Session(graph=self._graph)
            self._session.run(v1.global_variables_initializer())
            self._session.run(fill)

    def _gradients(self, result, embeddings):
        (gradient,) = tf.gradients(tf.reduce_sum(tf.square(result)), embeddings)
        of_weights = tf.gradients(tf.reduce_sum(tf.square(result)), self._weights)
        return [tf.linalg.global_norm([gradient]), [tf.convert_to_tensor(g) for g in of_weights if g is not None]]

    def _feed(self, rows, weights):
        width = max([len(row) for row in rows] + [1])
        return {
            self._indices: np.array([(i, j) for i, row in enumerate(rows) for j in range(len(row))]).reshape(-1, 2),
            self._places: np.array([place for row in rows for place in row], np.int64),
            self._shape: [len(rows), width],
            self._weights: weights,
        }

    def ours(self, rows, weights):
        return self._session.run(self._ours, self._feed(rows, weights))

    def safe(self, rows, weights):
        return self._session.run(self._theirs[0], self._feed(rows, weights))

    def plain(self, rows, weights):
        return self._session.run(self._theirs[1], self._feed(rows, weights))


@pytest.fixture(scope="module", params=["sum", "mean", "sqrtn"])
def combiner(request):
    return request.param


@pytest.fixture(scope="module")
def unweighted(combiner):
    return Sparse(combiner, weighted=False)


@pytest.fixture(scope="module")
def weighted(combiner):
    return Sparse(combiner, weighted=True)


places = st.integers(0, len(KEYS) - 1)
finite = st.floats(-4, 4, width=32)
positive = st.floats(0.125, 4, width=32)
settings = hypothesis.settings(max_examples=100, deadline=None)


@st.composite
def rows_and_weights(draw, min_row, weight):
    rows = draw(st.lists(st.lists(places, min_size=min_row, max_size=4), min_size=1, max_size=6))
    count = sum(map(len, rows))
    return rows, np.array(draw(st.lists(weight, min_size=count, max_size=count)), np.float32)


@settings
@hypothesis.given(rows_and_weights(0, positive))
def test_sparse_equals_the_safe_lookup(unweighted, batch):
    check_equal(unweighted.ours(*batch), unweighted.safe(*batch))


@settings
@hypothesis.given(rows_and_weights(0, positive))
def test_weighted_equals_the_safe_lookup(weighted, batch):
    check_equal(weighted.ours(*batch), weighted.safe(*batch))


@settings
@hypothesis.given(rows_and_weights(1, finite))
def test_weights_of_any_sign_equal_the_plain_lookup(weighted, batch):
    check_equal(weighted.ours(*batch), weighted.plain(*batch))


def check_equal(ours, theirs):
    np.testing.assert_array_equal(ours[0], theirs[0])
    # The norm is a sum over gradient rows in another order: a few roundings of 2^-24.
    np.testing.assert_allclose(ours[1], theirs[1], rtol=2e-6)
    assert len(ours[2]) == len(theirs[2])
    for mine, other in zip(ours[2], theirs[2]):
        np.testing.assert_array_equal(mine, other)


def test_empty_rows_give_zeros_and_no_gradient(graph):
    table, fill = make_table()
    ids = tf.SparseTensor([[1, 0], [1, 1]], KEYS[:2], [4, 3])
    result = tf_booster.embedding_lookup_sparse(table, ids, combiner="sum")
    (gradient,) = tf.gradients(tf.reduce_sum(result + result * result), table.variable)
    assert result.shape == [4, DIM]
    rows, norm = run_filled(fill, result, tf.linalg.global_norm([gradient]))
    expected = np.zeros([4, DIM], np.float32)
    expected[1] = ROWS[0] + ROWS[1]
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_allclose(norm, np.sqrt(2 * np.sum((1 + 2 * expected[1]) ** 2)), rtol=1e-6)


@pytest.mark.parametrize("rows", [0, 3])
def test_no_ids_at_all(graph, rows):
    table, fill = make_table()
    ids = tf.SparseTensor(tf.zeros([0, 2], tf.int64), tf.zeros([0], tf.int64), [rows, 0])
    (result,) = run_filled(fill, tf_booster.embedding_lookup_sparse(table, ids))
    np.testing.assert_array_equal(result, np.zeros([rows, DIM]))


def test_ragged_ids_and_weights(graph):
    table, fill = make_table()
    ids = tf.RaggedTensor.from_row_lengths(KEYS[[0, 3, 1]], [2, 0, 1])
    weights = ids.with_values([1.0, 0.5, 2.0])
    result = tf_booster.embedding_lookup_sparse(table, ids, weights, combiner="sum")
    expected = [ROWS[0] + np.float32(0.5) * ROWS[3], [0] * DIM, 2 * ROWS[1]]
    np.testing.assert_array_equal(run_filled(fill, result)[0], expected)


def test_more_dimensions(graph):
    table, fill = make_table()
    ids = tf.SparseTensor([[0, 1, 0], [0, 1, 2], [1, 0, 1]], KEYS[:3], [2, 2, 3])
    ragged = tf.ragged.constant([[[], KEYS[:2].tolist()], [KEYS[2:3].tolist()]], dtype=tf.int64)
    results = [tf_booster.embedding_lookup_sparse(table, sparse, combiner="sum") for sparse in (ids, ragged)]
    assert results[0].shape == [2, 2, DIM]
    zeros = np.zeros(DIM, np.float32)
    for result in run_filled(fill, *results):
        np.testing.assert_array_equal(result, [[zeros, ROWS[0] + ROWS[1]], [ROWS[2], zeros]])


def test_max_norm_of_sparse_ids(graph):
    table, fill = make_table()
    variable = v1.get_variable("ordinary", initializer=ROWS)
    indices, shape = [[0, 0], [0, 1], [1, 0]], [2, 2]
    ours = tf_booster.embedding_lookup_sparse(table, tf.SparseTensor(indices, KEYS[:3], shape), max_norm=0.5)
    theirs = tf.nn.embedding_lookup_sparse(variable, tf.SparseTensor(indices, [0, 1, 2], shape), None, max_norm=0.5)
    np.testing.assert_array_equal(*run_filled(fill, ours, theirs))


@pytest.mark.parametrize("indices", [[[0, 0], [1, 1]], [[0, 0]]])
def test_weights_with_other_indices(graph, indices):
    table, fill = make_table()
    ids = tf.SparseTensor([[0, 0], [1, 0]], [5, 1], [2, 2])
    found = v1.placeholder_with_default(np.array(indices), [None, 2])
    weights = tf.SparseTensor(found, v1.placeholder_with_default(np.ones(len(indices), np.float32), [None]), [2, 2])
    result = tf_booster.embedding_lookup_sparse(table, ids, weights)
    with pytest.raises(tf.errors.InvalidArgumentError, match="rows.*: sp_weights and sp_ids have other indices"):
        run_filled(fill, result)


def test_fewer_weights_than_ids(graph):
    table, _ = make_table()
    ids, weights = tf.SparseTensor([[0, 0], [1, 0]], [5, 1], [2, 2]), tf.SparseTensor([[0, 0]], [1.0], [2, 2])
    with pytest.raises(ValueError, match="'rows': there are 1 sp_weights and 2 sp_ids, wanted one weight an id"):
        tf_booster.embedding_lookup_sparse(table, ids, weights)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (lambda: ([[1]],), TypeError, "sp_ids is .* wanted a SparseTensor or a RaggedTensor"),
        (lambda: (tf.sparse.from_dense([[1.0]]),), TypeError, "ids are float32, wanted int64, int32 or string"),
        (lambda: (tf.sparse.from_dense([1]),), ValueError, "sp_ids has shape .* wanted at least 2 dimensions"),
        (lambda: (tf.sparse.from_dense([[1]]), [[1.0]]), TypeError, "sp_weights is list and sp_ids SparseTensor"),
        (lambda: (tf.sparse.from_dense([[1]]), tf.sparse.from_dense([[1]])), TypeError, "sp_weights are int32"),
        (lambda: (tf.sparse.from_dense([[1]]), tf.sparse.from_dense([[1.0, 2.0]])), ValueError, "has shape .1, 2. and"),
        (lambda: (tf.sparse.from_dense([[1]]), None, "max"), ValueError, "combiner is 'max', wanted 'sum', 'mean' or"),
    ],
)
def test_wrong_arguments(graph, arguments, error, message):
    table, _ = make_table()
    with pytest.raises(error, match="embedding_lookup_sparse 'rows': .*" + message):
        tf_booster.embedding_lookup_sparse(table, *arguments())
