"""Which units may merge. A unit here is an op of the type Neg, or a chain that a test puts together."""

import pytest
import tensorflow as tf

from tf_booster.passes.components import components
from tf_booster.passes.graph_view import GraphView, add_control_input, update_input
from tf_booster.passes.merging import Unit, merge_groups

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def unit(*tensors, key="k"):
    return Unit(tuple(t if isinstance(t, tf.Operation) else t.op for t in tensors), key)


def grouped(graph, *units):
    """Places of the units in groups, and the reasons of those that are in none."""
    groups, refused = merge_groups(GraphView(graph), units)
    place = {id(u): i for i, u in enumerate(units)}
    assert sorted(place[id(u)] for g in [*groups, [u for u, _ in refused]] for u in g) == list(range(len(units)))
    return [[place[id(u)] for u in g] for g in groups], {place[id(u)]: reason for u, reason in refused}


def test_independent_units_of_one_source_merge(graph):
    x = v1.placeholder(tf.float32)
    assert grouped(graph, unit(-x), unit(-(x + 1.0)), unit(-tf.abs(x))) == ([[0, 1, 2]], {})


def test_nothing_to_merge(graph):
    assert merge_groups(GraphView(graph), []) == ([], [])


def test_other_keys_stay_apart_and_groups_keep_their_order(graph):
    x = v1.placeholder(tf.float32)
    units = [unit(tf.negative(x), key=key) for key in "abacb"]
    assert grouped(graph, *units) == ([[0, 2], [1, 4], [3]], {})


def test_a_unit_that_follows_from_another_has_another_rank(graph):
    x = v1.placeholder(tf.float32)
    first = -x
    second = -tf.abs(first)
    aside = -x
    assert grouped(graph, unit(second), unit(first), unit(aside)) == ([[0], [1, 2]], {})


def test_control_edges_count_as_edges(graph):
    x = v1.placeholder(tf.float32)
    first, second = -x, -x
    add_control_input(second.op, first.op)
    assert grouped(graph, unit(first), unit(second)) == ([[0], [1]], {})


def test_two_pairs_that_cross_do_not_make_a_cycle(graph):
    """a before b, c before d, and b before c: {a, d} and {b, c} would be a cycle."""
    x = v1.placeholder(tf.float32)
    a = -x
    b = tf.abs(a)
    c = tf.abs(b)
    d = -c
    keys = {"Neg": [a, d], "Abs": [b, c]}
    groups, _ = merge_groups(GraphView(graph), [unit(t, key=key) for key, ts in keys.items() for t in ts])
    assert [len(g) for g in groups] == [1, 1, 1, 1]


def test_edges_are_seen_that_edits_of_the_same_view_made(graph):
    x = v1.placeholder(tf.float32)
    first, second = -x, -x
    view = GraphView(graph)
    assert len(merge_groups(view, [unit(first), unit(second)])[0]) == 1
    view.redirect(x, first, lambda op: op is second.op)
    assert len(merge_groups(view, [unit(first), unit(second)])[0]) == 2
    view.rollback()
    assert len(merge_groups(view, [unit(first), unit(second)])[0]) == 1


def test_other_feeds_stay_apart(graph):
    x, y = v1.placeholder(tf.float32), v1.placeholder(tf.float32)
    assert grouped(graph, unit(-x), unit(-y), unit(-(x + y)), unit(-(y + x)), unit(-tf.abs(x)))[0] == [
        [0, 4],
        [1],
        [2, 3],
    ]


def test_a_feed_that_has_a_default_is_no_source(graph):
    x = v1.placeholder(tf.float32)
    y = v1.placeholder_with_default(1.0, [])
    assert grouped(graph, unit(-x), unit(-(x + y)))[0] == [[0, 1]]


@pytest.mark.parametrize(
    "source",
    [
        lambda: v1.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next(),
        lambda: tf.queue.FIFOQueue(3, [tf.float32], shapes=[[]]).dequeue(),
        lambda: tf.random.uniform([]),
        lambda: v1.py_func(lambda: 1.0, [], tf.float64),
        lambda: v1.assign_add(v1.get_variable("v", [], use_resource=True), 1.0),
        lambda: v1.assign_add(v1.get_variable("v", [], use_resource=False), 1.0),
        lambda: v1.scatter_add(v1.get_variable("v", [2], use_resource=False), [0], [1.0]),
        lambda: tf.function(lambda: tf.random.uniform([]))(),
        lambda: tf.function(lambda: tf.function(lambda: tf.random.uniform([]))())(),
    ],
    ids=["iterator", "queue", "random", "py_func", "assign", "ref_assign", "scatter", "function", "nested_function"],
)
def test_what_only_one_of_them_would_start_keeps_them_apart(graph, source):
    x = v1.placeholder(tf.float32)
    y = tf.cast(source(), tf.float32)
    assert grouped(graph, unit(-x), unit(-(x + tf.reduce_sum(y))))[0] == [[0], [1]]


@pytest.mark.parametrize(
    "read",
    [
        lambda: v1.get_variable("v", [], use_resource=True) + 0.0,
        lambda: v1.get_variable("v", [], use_resource=False) + 0.0,
        lambda: tf.gather(v1.get_variable("v", [2], use_resource=True), [0]),
        lambda: tf.debugging.check_numerics(tf.constant(1.0), "no"),
        lambda: tf.function(lambda: tf.constant(1.0))(),
    ],
    ids=["resource", "ref", "gather", "check_numerics", "function"],
)
def test_reads_keep_nothing_apart(graph, read):
    x = v1.placeholder(tf.float32)
    assert grouped(graph, unit(-x), unit(-(x + tf.reduce_sum(read()))))[0] == [[0, 1]]


@pytest.mark.parametrize("v2", [False, True])
def test_an_assert_keeps_nothing_apart(graph, v2):
    with_v2 = v1.control_flow_v2_enabled()
    (v1.enable_control_flow_v2 if v2 else v1.disable_control_flow_v2)()
    try:
        x = v1.placeholder(tf.float32)
        with tf.control_dependencies([v1.assert_non_negative(x)]):
            checked = -x
    finally:
        (v1.enable_control_flow_v2 if with_v2 else v1.disable_control_flow_v2)()
    assert grouped(graph, unit(-x), unit(checked))[0] == [[0, 1]]


def test_a_chain_counts_as_one(graph):
    x = v1.placeholder(tf.float32)
    chains = []
    for _ in range(2):
        first = -x
        chains.append((first, tf.abs(first)))
    assert grouped(graph, *(unit(*chain) for chain in chains)) == ([[0, 1]], {})


def test_a_chain_that_is_left_and_comes_back_is_refused(graph):
    x = v1.placeholder(tf.float32)
    first = -x
    last = first + tf.abs(first)
    groups, refused = grouped(graph, unit(first, last), unit(-x))
    assert groups == [[1]] and list(refused) == [0] and "leads back" in refused[0]


def test_chains_that_wait_on_each_other_are_refused(graph):
    x = v1.placeholder(tf.float32)
    a = -x
    b = tf.abs(a)
    c = tf.exp(x)
    d = tf.sin(x)
    assert grouped(graph, unit(a, d), unit(b, c))[0] == [[0], [1]], "b follows from a, nothing of {a, d} from {b, c}"
    add_control_input(d.op, b.op)
    assert list(grouped(graph, unit(a, d), unit(b, c))[1]) == [0, 1]


def test_an_op_is_in_one_unit(graph):
    x = v1.placeholder(tf.float32)
    y = -x
    groups, refused = grouped(graph, unit(y), unit(y))
    assert groups == [[0]] and "another match" in refused[1]


def build_cond(x):
    return v1.cond(x > 0, lambda: tf.negative(x, name="inside"), lambda: x)


def build_loop(x):
    return tf.while_loop(lambda i: i < 3.0, lambda i: tf.abs(tf.negative(i + x, name="inside")) + 1.0, [x])


@pytest.fixture
def control_flow_v1():
    enabled = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    yield
    if enabled:
        v1.enable_control_flow_v2()


@pytest.mark.parametrize("build", [build_cond, build_loop])
@pytest.mark.parametrize("imported", [False, True], ids=["made_here", "imported"])
def test_ops_in_control_flow_are_refused_and_those_after_it_are_not(graph, control_flow_v1, build, imported):
    x = v1.placeholder(tf.float32, [], name="x")
    after = tf.negative(build(x), name="after")
    tf.negative(x, name="before")
    if imported:  # Without the contexts, which stand in collections.
        definition = graph.as_graph_def()
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(definition, name="")
    names = [op.name for op in graph.get_operations() if op.type == "Neg" and op.name.endswith("inside")]
    units = [unit(graph.get_operation_by_name(name)) for name in (*names, "after", "before")]
    groups, refused = grouped(graph, *units)
    assert groups == [[1, 2]] and "tf.while_loop" in refused[0]
    del after


def test_what_leaves_a_loop_is_after_all_of_it(graph, control_flow_v1):
    """`late` leaves the loop by a variable that only the next round computes from `early`."""
    x = v1.placeholder(tf.float32, [])
    early = -x
    _, b, _ = tf.while_loop(lambda a, b, i: i < 3, lambda a, b, i: (a + early, a, i + 1), [x, x, 0])
    late = -b
    assert grouped(graph, unit(early), unit(late))[0] == [[0], [1]]


def test_a_cycle_that_edits_made_is_no_endless_loop(graph):
    x = v1.placeholder(tf.float32)
    y = tf.abs(x)
    z = -y
    update_input(y.op, 0, z)
    groups, refused = grouped(graph, unit(z), unit(-x))
    assert groups == [[1]] and list(refused) == [0]


def test_initialization_stays_apart_from_training(graph):
    x = tf.constant(1.0)
    first = -x
    v1.get_variable("v", initializer=first, use_resource=True)
    groups, refused = grouped(graph, unit(first), unit(-x))
    assert groups == [[1]] and "initialized" in refused[0]


def test_merging_what_it_says_may_merge_never_makes_a_cycle(graph):
    """Random graphs, the rule's own claim checked: contract all groups, and no cycle is left."""
    import random

    chance = random.Random(7)
    x = v1.placeholder(tf.float32)
    for round_ in range(5):
        tensors, units = [x], []
        for i in range(120):
            inputs = chance.sample(tensors, min(len(tensors), chance.randint(1, 3)))
            with tf.control_dependencies(chance.sample(tensors, 1)):
                tensors.append(tf.add_n(inputs))
            if i % 3 == 0:
                chain = [tensors[-1]] + ([tensors[-2]] if i and chance.random() < 0.4 else [])
                units.append(unit(*chain, key=chance.choice("ab")))
        view = GraphView(graph)
        groups, _ = merge_groups(view, units)
        assert any(len(g) > 1 for g in groups), round_
        index = view.index()
        node_of = list(range(len(index.ops)))
        for number, group in enumerate(groups, len(index.ops)):
            for op in (op for u in group for op in u.ops):
                node_of[index.number[op]] = number
        before = [set() for _ in range(len(index.ops) + len(groups))]
        for number, others in enumerate(index.before):
            before[node_of[number]] |= {node_of[o] for o in others} - {node_of[number]}
        assert max(len(c) for c in components([list(b) for b in before])) == 1


def test_components_come_after_those_before_them():
    assert [sorted(c) for c in components([[1], [2, 4], [], [0], [1]])] == [[2], [1, 4], [0], [3]]
    deep = components([[i - 1] if i else [] for i in range(200000)])
    assert deep[0] == [0] and deep[-1] == [199999]


def test_thousands_of_units(graph):
    """A rule that walked the graph for each unit would take minutes here."""
    x = v1.placeholder(tf.float32)
    total, units = x, []
    for i in range(5000):
        leaf = tf.raw_ops.Neg(x=x)
        units.append(unit(leaf))
        if i % 10 == 0:
            total = tf.raw_ops.AddV2(x=total, y=leaf)
    groups, refused = merge_groups(GraphView(graph), units)
    assert [len(g) for g in groups] == [5000] and refused == []
