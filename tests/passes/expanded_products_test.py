"""The passes gather_matmul and split_matmul: products of what repeated_features would expand to all rows read the few."""

import numpy as np
import pytest
import tensorflow as tf
from lookup_pair import running, variable
from repeated_regions_test import run

from tf_booster.options import Options
from tf_booster.passes import pipelines
from tf_booster.passes.gather_matmul import GatherMatMul
from tf_booster.passes.split_matmul import SplitMatMul

v1 = tf.compat.v1
MANY = [[3] * 9 + [1] * 7, [1, 2, 1], [5], [], list(range(10))]


def both(build):
    """Sums of up to 88 products of normal numbers, whose partial sums are below 60: 2^-24 of that for each, most of which cancel."""
    graph, fetches, _ = run(build, more=[GatherMatMul(), SplitMatMul()], users=MANY, atol=2e-5)
    return graph, running(graph, *fetches)


def shared(rows, columns):
    with v1.variable_scope("shared", reuse=v1.AUTO_REUSE):
        return variable(f"{rows}_{columns}", rows, columns)


def keys(user):
    """[batch, 6, 8], six vectors of a user."""
    return tf.nn.embedding_lookup(shared(10, 8), tf.concat([user, user, user], 1) % 10) * tf.reshape(
        tf.range(6.0), [1, 6, 1]
    )


def query(item, *shape):
    """[batch, *shape], of candidates."""
    count = int(np.prod(shape))
    return tf.reshape(tf.nn.embedding_lookup(shared(11, count), item[:, 0]), [-1, *shape])


# From user and item to a product that reads what is expanded.
PRODUCTS = {
    "scores": lambda u, i: tf.matmul(query(i, 1, 8), keys(u), transpose_b=True),
    "sum by scores": lambda u, i: tf.matmul(query(i, 1, 6), keys(u)),
    "several queries": lambda u, i: tf.matmul(query(i, 3, 8), keys(u), transpose_b=True),
    "queries turned": lambda u, i: tf.matmul(query(i, 8, 3), keys(u), transpose_a=True, transpose_b=True),
    "keys first": lambda u, i: tf.matmul(keys(u), query(i, 8, 1)),
    "keys first, query turned": lambda u, i: tf.matmul(keys(u), query(i, 4, 8), transpose_b=True),
    "keys turned": lambda u, i: tf.matmul(keys(u), query(i, 6, 2), transpose_a=True),
    "heads": lambda u, i: tf.matmul(query(i, 2, 3, 4), tf.reshape(keys(u), [-1, 2, 6, 4]), transpose_b=True),
    "heads of one": lambda u, i: tf.matmul(query(i, 1, 3, 4), tf.reshape(keys(u), [-1, 2, 4, 6])),
    "one query for all": lambda u, i: tf.matmul(tf.ones([1, 1, 8]), keys(u), transpose_b=True) + query(i, 1, 1),
    "einsum of vectors": lambda u, i: tf.einsum("bd,btd->bt", query(i, 8), keys(u)),
    "einsum by weights": lambda u, i: tf.einsum("btd,bt->bd", keys(u), query(i, 6)),
    "einsum of matrices": lambda u, i: tf.einsum("btd,bqd->bqt", keys(u), query(i, 3, 8)),
    "einsum of heads": lambda u, i: tf.einsum("bhqd,bhdt->bhqt", query(i, 2, 3, 4), tf.reshape(keys(u), [-1, 2, 4, 6])),
    "sum of products": lambda u, i: tf.reduce_sum(keys(u) * query(i, 1, 8), -1),
    "sum of products, kept": lambda u, i: tf.reduce_sum(query(i, 1, 8) * keys(u), 2, keepdims=True),
    "weighted sum": lambda u, i: tf.reduce_sum(query(i, 6, 1) * keys(u), 1),
    "weighted sum, kept": lambda u, i: tf.reduce_sum(keys(u) * query(i, 6, 1), axis=[1], keepdims=True),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_read_few(name):
    _, counts = both(lambda u, i: [tf.identity(PRODUCTS[name](u, i), "out")])
    assert counts["TfBoosterGatherBatchMatMul"] == 1, counts
    assert counts["TfBoosterTakeRows"] == 1  # The features' rows.
    assert not counts["BatchMatMulV2"] and not counts["Einsum"]


NO_PRODUCTS = {
    "doubles": lambda u, i: tf.matmul(tf.cast(query(i, 1, 6), tf.float64), tf.cast(keys(u), tf.float64)),
    "no product": lambda u, i: keys(u)[:, 0] * query(i, 8),
    "einsum with heads inside": lambda u, i: tf.einsum(
        "bqhd,bthd->bhqt", query(i, 3, 2, 4), tf.reshape(keys(u), [-1, 6, 2, 4])
    ),
    "einsum that sums one side": lambda u, i: tf.einsum("bd,btd->b", query(i, 8), keys(u)),
    "sum of all": lambda u, i: tf.reduce_sum(keys(u) * query(i, 1, 8), [1, 2]),
    "sum of a full product": lambda u, i: tf.reduce_sum(keys(u) * query(i, 6, 8), 2),
    "product read twice": lambda u, i: (lambda p: tf.reduce_sum(p, 2) + tf.reduce_max(p, 2))(keys(u) * query(i, 1, 8)),
}


@pytest.mark.parametrize("name", NO_PRODUCTS)
def test_what_is_no_such_product_is_expanded(name):
    _, counts = both(lambda u, i: [tf.identity(NO_PRODUCTS[name](u, i), "out")])
    assert counts["TfBoosterTakeRows"] == 2 and not counts["TfBoosterGatherBatchMatMul"]


def test_what_else_reads_the_keys_has_all_rows():
    def build(user, item):
        seen = keys(user)
        return [tf.matmul(query(item, 1, 8), seen, transpose_b=True) + 1, seen[:, 0] * query(item, 8)]

    graph, counts = both(build)
    assert counts["TfBoosterGatherBatchMatMul"] == 1 and counts["TfBoosterTakeRows"] == 2


def test_a_user_who_is_given_once_for_all_candidates():
    with tf.Graph().as_default() as graph, v1.Session() as session:
        user, item = (v1.placeholder(tf.int64, [None, 2], name) for name in ("user", "item"))
        names = ("scores", "keys first, query turned", "keys turned", "heads", "sum of products", "weighted sum")
        products = {name: PRODUCTS[name](user, item) for name in names}
        ours = {name: tf.identity(product) for name, product in products.items()}
        pipelines.rewrite(graph, Options(repeated_features=("user",)))
        assert running(graph, *ours.values())["TfBoosterGatherBatchMatMul"] == len(ours)
        session.run(v1.global_variables_initializer())
        for count in (5, 1, 0):
            feed = {user: [[4, 2]], item: np.arange(2 * count).reshape(-1, 2)}
            for name in names:
                plain, found = session.run(products[name], feed), session.run(ours[name], feed)
                np.testing.assert_allclose(found, plain, atol=2e-5, err_msg=name)


def test_a_product_that_is_fetched_by_name_is_still_there():
    product = []

    def build(user, item):
        product.append(tf.matmul(query(item, 1, 8), keys(user), transpose_b=True))
        return [product[-1] + 1]

    graph, fetches, _ = run(build, more=[GatherMatMul()], users=MANY)
    with v1.Session(graph=graph) as session:
        session.run(v1.global_variables_initializer())
        feed = {"user:0": [[1, 2], [1, 2]], "item:0": [[1, 2], [3, 4]]}
        old, new = session.run([product[-1], *fetches], feed)
    np.testing.assert_allclose(old + 1, new, rtol=1e-6)


def user_columns(user, width=40):
    return tf.reshape(tf.nn.embedding_lookup(shared(10, width), user), [-1, 2 * width])


def kernel(rows, columns=16):
    return shared(rows, columns)


def bias(columns=16):
    return tf.constant(np.linspace(-1, 1, columns), tf.float32)


JOINS = {
    "user first": lambda u, i: tf.matmul(tf.concat([u, i], 1), kernel(88)),
    "user last": lambda u, i: tf.matmul(tf.concat([i, u], -1), kernel(88)),
    "in turn": lambda u, i: tf.matmul(tf.concat([u[:, :30], i[:, :3], u[:, 30:], i[:, 3:]], 1), kernel(88)),
    "kernel turned": lambda u, i: tf.matmul(
        tf.concat([u[:, 40:], i, u[:, :40]], 1), tf.transpose(kernel(88)), transpose_b=True
    ),
    "bias": lambda u, i: tf.nn.relu(tf.nn.bias_add(tf.matmul(tf.concat([u, i], 1), kernel(88)), bias())),
    "bias by addition": lambda u, i: tf.nn.relu(tf.matmul(tf.concat([u, i], 1), kernel(88)) + bias()),
    "joins of joins": lambda u, i: tf.matmul(tf.concat([i[:, :2], tf.concat([i[:, 2:], u], 1)], 1), kernel(88)),
    "stacked": lambda u, i: tf.matmul(
        tf.reshape(tf.stack([u[:, :40], tf.tile(i, [1, 5]), u[:, 40:]], 1), [-1, 120]), kernel(120)
    ),
    "joined vectors": lambda u, i: tf.matmul(
        tf.reshape(tf.concat([tf.reshape(u, [-1, 10, 8]), i[:, None]], 1), [-1, 88]), kernel(88)
    ),
    "passed on": lambda u, i: tf.matmul(tf.identity(tf.concat([tf.identity(u), i], 1)), kernel(88)),
}


@pytest.mark.parametrize("name", JOINS)
def test_products_of_joins_are_split(name):
    def build(user, item):
        return [tf.identity(JOINS[name](user_columns(user), query(item, 8)), "out")]

    graph, counts = both(build)
    assert counts["MatMul"] == 2, counts
    (expansion,) = [op for op in graph.get_operations() if op.name == "tf_booster/repeated/few_product"]
    assert [tensor.shape.as_list() for tensor in expansion.outputs] == [[None, 16]]
    assert (
        counts["TfBoosterTakeRows"] == 2
    )  # And the features' rows: nothing as wide as the user's columns is expanded.
    assert counts["BiasAdd"] == (name == "bias")


def test_what_else_reads_the_join_keeps_it():
    def build(user, item):
        joined = tf.concat([user_columns(user), query(item, 8)], 1)
        return [tf.matmul(joined, kernel(88)) + 1, tf.reduce_sum(joined, 1)]

    _, counts = both(build)
    assert counts["MatMul"] == 2 and counts["TfBoosterTakeRows"] == 3


LEFT = {
    "few columns": lambda u, i: tf.matmul(tf.concat([u[:, :50], i], 1), kernel(58)),
    "few units": lambda u, i: tf.matmul(tf.concat([u, i], 1), kernel(88, 4)),
    "another axis": lambda u, i: tf.matmul(tf.concat([u, tf.reshape(i, [-1, 80])], 0), kernel(80), name="x")[:1],
    "turned": lambda u, i: tf.matmul(tf.concat([u, i], 1), query_rows(i), transpose_a=True),
    "stacked along rows": lambda u, i: tf.matmul(
        tf.reshape(tf.stack([u, tf.tile(i, [1, 10])], 0), [-1, 80]), kernel(80)
    )[:1],
    "joined within vectors": lambda u, i: tf.matmul(
        tf.reshape(tf.concat([tf.reshape(u, [-1, 8, 10]), i[:, :, None]], 2), [-1, 88]), kernel(88)
    ),
    "candidates alone": lambda u, i: tf.matmul(tf.concat([i, 2 * i], 1), kernel(16)) + u[:, :16],
}


def query_rows(i):
    return i[:, :8]


@pytest.mark.parametrize("name", LEFT)
def test_products_that_are_not_worth_it_stay(name):
    users = [[3] * 20] if name in ("another axis", "stacked along rows") else MANY
    build = lambda user, item: [tf.identity(LEFT[name](user_columns(user), query(item, 8)), "out")]
    graph, fetches, _ = run(build, more=[SplitMatMul()], users=users, atol=2e-5)
    assert running(graph, *fetches)["MatMul"] == 1


def test_reasons_are_told():
    with tf.Graph().as_default() as graph:
        user, item = (v1.placeholder(tf.int64, [None, 2], name) for name in ("user", "item"))
        out = tf.identity(JOINS["user first"](user_columns(user), query(item, 8)))
        narrow = tf.identity(LEFT["few columns"](user_columns(user), query(item, 8)))
        report = pipelines.rewrite(graph, Options(repeated_features=("user",)))
    del out, narrow
    split = next(p for p in report.passes if p.name == "split_matmul")
    assert split.modified and split.other_bits
    assert split.changes == ["'MatMul': 80 of 88 columns for the distinct rows alone"]
    assert split.skipped == [("MatMul_1", "50 columns of 16 units are too few to be worth a product of their own")]
