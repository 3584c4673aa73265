import pytest
import tensorflow as tf

from tf_booster.passes import graph_view
from tf_booster.passes.graph_view import GraphView, removed_variables

v1 = tf.compat.v1


@pytest.fixture
def graph():
    with tf.Graph().as_default() as made:
        yield made


def run(fetch, graph):
    with v1.Session(graph=graph) as session:
        return session.run(fetch)


def test_redirect_moves_every_edge_of_every_consumer(graph):
    old, new = tf.constant(2.0), tf.constant(3.0)
    square, sum_ = old * old, old + 1.0
    assert GraphView(graph).redirect(old, new) == 3
    assert run([square, sum_], graph) == [9.0, 4.0]
    assert old.consumers() == []


def test_current_follows_full_redirects(graph):
    view = GraphView(graph)
    first, second, third = tf.constant(1.0), tf.constant(2.0), tf.constant(3.0)
    view.redirect(first, second)
    view.redirect(second, third)
    assert view.current(first) is third and view.current(third) is third
    view.redirect(third, first, lambda op: False)
    assert view.current(third) is third


def test_redirect_moves_only_the_chosen_consumers(graph):
    old, new = tf.constant(2.0), tf.constant(3.0)
    first, second = tf.negative(old), tf.negative(old)
    GraphView(graph).redirect(old, new, lambda op: op is first.op)
    assert run([first, second], graph) == [-3.0, -2.0]


def test_redirect_all_moves_only_the_chosen_consumers(graph):
    view, (one, two) = GraphView(graph), [tf.constant(float(i)) for i in (1, 2)]
    chosen, left = one - two, one - two
    assert view.redirect_all([(one, two * 3.0), (two, one * 5.0)], lambda op: op is chosen.op) == 2
    assert run([chosen, left], graph) == [1.0, -1.0]
    assert view.current(one) is one


def test_redirect_control_all_waits_for_what_is_there_instead_and_for_the_rest(graph):
    a, b, c, new_a, new_b = (tf.no_op(name) for name in ("a", "b", "c", "new_a", "new_b"))
    with tf.control_dependencies([a, b, c]):
        all_three = tf.no_op("all_three")
    with tf.control_dependencies([b]):
        of_b = tf.no_op("of_b")
    assert GraphView(graph).redirect_control_all([([a], new_a), ([b], new_b)]) == 2
    assert sorted(op.name for op in all_three.control_inputs) == ["c", "new_a", "new_b"]
    assert of_b.control_inputs == [new_b]


def test_redirect_leaves_the_new_tensors_own_op(graph):
    old = tf.constant(2.0)
    new = tf.identity(old) * 5.0
    wrapped = tf.identity(old)
    after = tf.negative(wrapped)
    GraphView(graph).redirect(wrapped, new)
    assert run(after, graph) == -10.0
    assert new.op.inputs[0].op.inputs[0] is old


def test_an_input_of_another_dtype_is_refused(graph):
    consumer = tf.negative(tf.constant(2.0)).op
    with pytest.raises(TypeError, match="float32.*int64"):
        graph_view.update_input(consumer, 0, tf.constant(2, tf.int64))


def test_redirect_control_moves_waiting_ops_and_keeps_their_other_waits(graph):
    old, other, new = tf.no_op("old"), tf.no_op("other"), tf.no_op("new")
    with tf.control_dependencies([old, other]):
        waiting = tf.no_op("waiting")
    assert GraphView(graph).redirect_control([old], new) == 1
    assert {op.name for op in waiting.control_inputs} == {"other", "new"}


def test_redirect_control_leaves_edges_within_the_replaced(graph):
    first = tf.no_op("first")
    with tf.control_dependencies([first]):
        second = tf.no_op("second")
    with tf.control_dependencies([second]):
        waiting = tf.no_op("waiting")
    GraphView(graph).redirect_control([first, second], tf.no_op("new"))
    assert [op.name for op in second.control_inputs] == ["first"]
    assert [op.name for op in waiting.control_inputs] == ["new"]


def test_add_control_input_adds_once(graph):
    before, op = tf.no_op("before"), tf.no_op("op")
    graph_view.add_control_input(op, before)
    graph_view.add_control_input(op, before)
    assert op.control_inputs == [before]


def test_inserted_ops_have_nothing_of_the_scopes_around(graph):
    around = tf.no_op("around")
    wait = tf.no_op("wait")
    with tf.name_scope("scope"), tf.device("/device:CPU:1"), tf.control_dependencies([around]):
        with GraphView(graph).inserting("/device:CPU:0", [wait]):
            made = tf.no_op("made")
        with GraphView(graph).inserting(None):
            bare = tf.no_op("bare")
    assert (made.name, made.device, made.control_inputs) == ("made", "/device:CPU:0", [wait])
    assert (bare.name, bare.device, bare.control_inputs) == ("bare", "", [])


def test_variables_leave_all_collections(graph):
    gone = v1.get_variable("gone", [2], collections=["mine", v1.GraphKeys.GLOBAL_VARIABLES], use_resource=True)
    kept = v1.get_variable("kept", [2], use_resource=True)
    view = GraphView(graph)
    assert view.in_collection("mine", gone.handle.op)
    assert view.remove_variables([gone.handle.op]) == 3
    assert v1.global_variables() == [kept] and graph.get_collection("mine") == []
    assert v1.trainable_variables() == [kept]


def test_functions_with_finds_ops_inside_of_functions(graph):
    @tf.function
    def doubled(x):
        return tf.raw_ops.Cumsum(x=x, axis=0)

    doubled(tf.constant([1.0]))
    view = GraphView(graph)
    assert [node.op for node in view.functions_with("Cumsum").values()] == ["Cumsum"]
    assert view.functions_with("Cumprod") == {} and view.ops("Cumsum") == []


def test_downstream_follows_data_and_control(graph):
    start = tf.constant(1.0)
    data = tf.negative(start)
    with tf.control_dependencies([data]):
        waiting = tf.no_op()
    aside = tf.constant(2.0)
    found = GraphView.downstream([start.op])
    assert found == {start.op, data.op, waiting} and aside.op not in found


def test_what_was_removed_is_remembered(graph):
    gone = v1.get_variable("gone", [2], use_resource=True)
    v1.get_variable("kept", [2], use_resource=True)
    assert removed_variables(graph) == []
    GraphView(graph).remove_variables([gone.handle.op])
    assert removed_variables(graph) == ["gone"]


def test_cut_control_lets_nothing_wait(graph):
    first, second = tf.no_op(), tf.no_op()
    with tf.control_dependencies([first, second]):
        waiting = tf.no_op()
    assert GraphView(graph).cut_control([first]) == 1
    assert waiting.control_inputs == [second]


def test_entries_leave_a_collection_of_a_finalized_graph(graph):
    for value in (1, 2, 3):
        graph.add_to_collection("numbers", value)
    graph.finalize()
    GraphView(graph).remove_from_collection("numbers", lambda value: value == 2)
    assert graph.get_collection("numbers") == [1, 3]


def edges(graph):
    """All that an edit may change."""
    return {
        op.name: ([t.name for t in op.inputs], sorted(c.name for c in op.control_inputs))
        for op in graph.get_operations()
    }, {
        str(key): list(graph.get_collection(key))
        for key in graph.get_all_collection_keys()
        if graph.get_collection(key)
    }


def test_rollback_gives_back_every_edge_and_collection(graph):
    old, new, aside = tf.constant(2.0), tf.constant(3.0), tf.no_op()
    gone = v1.get_variable("gone", [2], use_resource=True)
    v1.get_variable("kept", [2], use_resource=True)
    square = old * old
    with tf.control_dependencies([aside, old]):
        waiting = tf.no_op()
    graph.add_to_collection("numbers", 1)
    before = edges(graph)
    view = GraphView(graph)
    undone = []
    view.redirect(old, new)
    view.redirect(new, old, lambda op: op is square.op)
    view.redirect_control([aside], new.op)
    view.cut_control([old.op])
    view.remove_variables([gone.handle.op])
    view.remove_from_collection("numbers", lambda n: n == 1)
    view.add_to_collection("numbers", 2)
    graph_view.update_input(square.op, 0, new)
    graph_view.add_control_input(square.op, waiting)
    view.on_rollback(lambda: undone.append(edges(graph) != before))
    assert edges(graph) != before and view.current(old) is new
    assert view.rollback() > 6
    assert edges(graph) == before and view.current(old) is old and removed_variables(graph) == []
    assert undone == [True], "what was added last is undone first"
    assert view.rollback() == 0


def test_rollback_goes_back_to_the_last_commit(graph):
    first, second, third = (tf.constant(float(i)) for i in range(3))
    consumer = tf.negative(first).op
    view = GraphView(graph)
    view.redirect(first, second)
    view.commit()
    view.redirect(second, third)
    view.rollback()
    assert consumer.inputs[0] is second and view.current(first) is second


def test_what_was_made_before_a_rollback_reads_nothing_of_the_graph(graph):
    old = tf.constant([2.0])
    variable = v1.get_variable("v", [2], use_resource=True)
    view = GraphView(graph)
    with view.inserting(None, [old.op]):
        left = tf.negative(old)
        further = tf.add(left, old)
        read = tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=tf.float32)
    view.rollback()
    assert read.op not in variable.handle.consumers()
    assert old.consumers() == [] and old.op not in left.op.control_inputs and further.op.inputs[0] is left
    assert left.shape == [1]


def test_a_view_lets_go_of_the_graph():
    import gc
    import weakref

    with tf.Graph().as_default() as graph:
        old, new = tf.constant(1.0), tf.constant(2.0)
        tf.negative(old)
        view = GraphView(graph)
        view.redirect(old, new)
    found = weakref.ref(graph)
    del graph, old, new, view
    gc.collect()
    assert found() is None


def test_the_index_follows_new_ops_and_edits(graph):
    a, b = tf.constant(1.0), tf.constant(2.0)
    c = tf.negative(a)
    view = GraphView(graph)
    index = view.index()
    assert index.upstream([c.op]) == {index.number[a.op], index.number[c.op]}
    graph_view.update_input(c.op, 0, b)
    d = tf.negative(c)
    graph_view.add_control_input(c.op, a.op)
    assert view.index() is index
    assert {index.ops[n] for n in index.upstream([d.op])} == {a.op, b.op, c.op, d.op}
    assert view.ops("Neg") == [c.op, d.op] and view.ops("Neg", "Const") == [a.op, b.op, c.op, d.op]
    assert {index.ops[n] for n in index.after()[index.number[c.op]]} == {d.op}


def test_originals_lead_back_and_on(graph):
    view = GraphView(graph)
    ops = [tf.no_op(name) for name in ("a", "b", "c")]
    first, second = tf.no_op("first"), tf.no_op("second")
    view.note_originals(first, ops[:2])
    view.note_originals(second, [first, ops[2], ops[0]])
    assert view.originals(first) == ["a", "b"] and graph_view.originals(second) == ["a", "b", "c"]
    assert graph_view.originals(ops[0]) == []
    node = next(n for n in graph.as_graph_def().node if n.name == "second")
    assert list(node.attr["_tf_booster_originals"].list.s) == [b"a", b"b", b"c"]
    run(second, graph)


def test_without_a_gpu_everything_runs_on_the_cpu(graph):
    with tf.device("/device:GPU:0"):
        assert GraphView(graph).runs_on_cpu(tf.no_op())


def test_device_kind_asks_device_and_kernels(graph, monkeypatch):
    from tf_booster import _compat

    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["one"])
    neg = _compat.GpuKernel((("T", frozenset([tf.float32.as_datatype_enum])),), frozenset())
    monkeypatch.setattr(_compat, "_gpu_kernels", lambda op_type: (neg,) if op_type == "Neg" else ())
    view = GraphView(graph)
    with tf.device("/device:CPU:0"):
        pinned = tf.negative(1.0).op
    assert not view.runs_on_cpu(tf.negative(1.0).op)
    assert view.runs_on_cpu(pinned) and view.runs_on_cpu(tf.negative(tf.constant(1, tf.int64)).op)
    assert view.runs_on_cpu(tf.unique([1]).y.op)


def test_a_fused_op_stands_for_gpu_ops_where_it_has_a_gpu_kernel(graph, monkeypatch):
    """With a simulated list of devices and kernels."""
    from tf_booster import _compat

    def kernel(**types):
        return _compat.GpuKernel(
            tuple((k, frozenset(t.as_datatype_enum for t in v)) for k, v in types.items()), frozenset()
        )

    kernels = {
        "Neg": (kernel(T=[tf.float32]),),
        "Fused": (kernel(T=[tf.float32], Tindices=[tf.int64]), kernel(T=[tf.float64], Tindices=[tf.int32, tf.int64])),
    }
    monkeypatch.setattr(_compat, "_gpu_kernels", lambda op_type: kernels.get(op_type, ()))
    view = GraphView(graph)
    op = tf.negative(1.0).op
    with tf.device("/device:CPU:0"):
        pinned = tf.negative(1.0).op
    assert view.can_stand_for(op, "Unknown", T=tf.int8)  # No GPU: everything runs on the CPU.
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["one"])
    assert view.can_stand_for(op, "Fused", T=tf.float32, Tindices=tf.int64)
    assert view.can_stand_for(op, "Fused", T=tf.float64, Tindices=tf.int32)
    assert not view.can_stand_for(op, "Fused", T=tf.float32, Tindices=tf.int32)
    assert not view.can_stand_for(op, "Fused", T=tf.half, Tindices=tf.int64)
    assert not view.can_stand_for(op, "Fused", T=tf.float32)  # The kernel is for some index types only.
    assert not view.can_stand_for(op, "Unknown", T=tf.float32)
    assert view.can_stand_for(pinned, "Unknown", T=tf.float32)


def test_a_function_with_two_nodes_of_a_name_is_refused_before_it_is_half_in_the_graph(graph):
    @tf.function(input_signature=[tf.TensorSpec([])])
    def square(x):
        return x * x

    definition = square.get_concrete_function().function_def
    definition.node_def.add().CopyFrom(definition.node_def[0])
    with pytest.raises(ValueError, match="Two nodes of function .*square"):
        GraphView(graph).add_functions([definition])
    assert graph.as_graph_def(add_shapes=True) == tf.Graph().as_graph_def(add_shapes=True)
