"""Fused tables train as they would alone, bit for bit; what may not be fused stays apart, with a reason."""

import numpy as np
import pytest
import tensorflow as tf
from fused_pairs import EXTREMES, OPTIMIZERS, SETTINGS, Program, expect_same, minimize, ops, rewrite, v1
from reported import of_tables

import tf_booster


def model(optimizer, dim=4):
    """Tables of different settings and one optimizer; ids of all come from one feed [batch, len(SETTINGS) + 2].

    Table 0 is looked up three times, one of them behind a stop_gradient; table 1 by a ragged number of ids.
    """

    def build():
        ids = v1.placeholder(tf.int64, [None, len(SETTINGS) + 2], "ids")
        sparse_rows = v1.placeholder_with_default(np.zeros([0, 2], np.int64), [None, 2], "rows")
        made = [tf_booster.get_hash_table(f"t{i}", dim, **one) for i, one in enumerate(SETTINGS)]
        parts = [tf_booster.embedding_lookup(t, ids[:, i]) for i, t in enumerate(made)]
        parts.append(tf_booster.embedding_lookup(made[0], ids[:, -2]))
        parts.append(tf.stop_gradient(tf_booster.embedding_lookup(made[0], ids[:, -1])))
        bag = tf.SparseTensor(sparse_rows, ids[: tf.shape(sparse_rows)[0], 1], [4, 3])
        pooled = tf_booster.embedding_lookup_sparse(made[1], bag, combiner="mean")
        hidden = tf.concat(parts, 1)
        weights = tf.constant(np.linspace(-1, 1, hidden.shape[1]), tf.float32)
        logits = tf.reduce_sum(hidden * weights, 1)
        loss = tf.reduce_sum(tf.square(logits - 1.0)) + tf.reduce_sum(tf.square(pooled))
        train = minimize(loss, OPTIMIZERS[optimizer]())
        return {"ids": ids, "rows": sparse_rows, "loss": loss, "train": train}

    return build


def batches(steps, tables, seed=0):
    random = np.random.RandomState(seed)
    for step in range(steps):
        size = [6, 0, 1, 17, 64][step % 5]
        ids = random.randint(-20, 20, [size, tables + 2]).astype(np.int64)
        extreme = random.rand(*ids.shape) < 0.2
        ids[extreme] = random.choice(EXTREMES, extreme.sum())
        rows = np.asarray([[0, 0], [0, 1], [2, 0]], np.int64)[: min(size, 3)]
        yield {"ids": ids, "rows": rows}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_is_the_same_bit_for_bit(optimizer):
    fused, apart = (Program(model(optimizer), fuse) for fuse in (True, False))
    assert len(ops("HashTable", fused.graph)) == 1 and len(ops("HashTable", apart.graph)) == len(SETTINGS)
    for step, batch in enumerate(batches(25, len(SETTINGS))):
        one, other = (p.run(["train", "loss"], **batch)[1] for p in (fused, apart))
        assert one == other
        if step % 8 == 0:
            expect_same(fused, apart)
    expect_same(fused, apart)
    evicted = [table[3][2] for table in apart.contents().values()]
    assert sum(evicted) > 20, "the test means to evict"


def test_growth_is_the_same_bit_for_bit():
    """Thousands of new ids at a step: index and slabs grow many times, in fields of uneven sizes."""
    fused, apart = (Program(model("adagrad", dim=2), fuse) for fuse in (True, False))
    random, no_rows = np.random.RandomState(1), np.zeros([0, 2], np.int64)
    for step in range(6):
        ids = random.randint(0, 2**62, [3000, len(SETTINGS) + 2])
        ids[:, 0] = np.arange(3000)  # This field stops growing after the first step.
        ids[:, 5:7] %= 900 // len(SETTINGS)  # One of these has a limit of 1,000 rows.
        for program in (fused, apart):
            program.run("train", ids=ids, rows=no_rows)
        if step in (0, 5):
            expect_same(fused, apart)
    assert max(len(table[0]) for table in fused.contents().values()) > 15_000


def test_38_tables_of_two_dimensions_are_2():
    def build():
        ids = v1.placeholder(tf.int64, [None, 38])
        tables = [tf_booster.get_hash_table(f"t{i}", 4 if i % 3 else 8) for i in range(38)]
        values = [tf_booster.embedding_lookup(t, ids[:, i]) for i, t in enumerate(tables)]
        loss = tf.reduce_sum(tf.square(tf.concat(values, 1)))
        return {"ids": ids, "loss": loss, "train": minimize(loss, v1.train.AdagradOptimizer(0.1))}

    program = Program(build, True)
    for kind in ("HashTable", "TableProbe", "TableGather", "TableApplyAdagrad"):
        assert len(ops(kind, program.graph)) == 2, kind
    assert any(
        "13 tables [8] are one, with 1 probe, 1 gather, 1 update" in c for c in of_tables(program.report).changes
    )
    program.run("train", ids=np.arange(38).reshape(1, 38))
    assert [len(rows) for rows, *_ in program.contents().values()] == [1] * 38


def test_38_feature_columns_of_two_dimensions_are_2():
    def build():
        serialized = v1.placeholder(tf.int64, [None, 38])
        features = {f"f{i}": serialized[:, i] for i in range(38)}
        columns = [
            tf.feature_column.embedding_column(
                tf_booster.feature_column.categorical_column_with_hash_table(f"f{i}"), 4 if i % 2 else 8
            )
            for i in range(38)
        ]
        loss = tf.reduce_sum(tf.square(v1.feature_column.input_layer(features, columns)))
        return {"ids": serialized, "loss": loss, "train": minimize(loss, v1.train.AdagradOptimizer(0.1))}

    fused, apart = Program(build, True), Program(build, False)
    for kind in ("HashTable", "TableProbe", "TableGather", "TableApplyAdagrad"):
        assert len(ops(kind, fused.graph)) == 2, kind
    ids = np.random.RandomState(1).randint(0, 9, [16, 38])
    for _ in range(4):
        assert fused.run(["loss", "train"], ids=ids)[0] == apart.run(["loss", "train"], ids=ids)[0]
    expect_same(fused, apart)


def test_a_column_of_a_wide_and_a_deep_part_is_probed_once_in_each_table():
    def build():
        ids = v1.placeholder(tf.int64, [None, 3])
        features = {f"f{i}": ids[:, i] for i in range(3)}
        columns = [tf_booster.feature_column.categorical_column_with_hash_table(f"f{i}") for i in range(3)]
        deep = v1.feature_column.input_layer(features, [tf.feature_column.embedding_column(c, 4) for c in columns[:2]])
        wide = v1.feature_column.linear_model(features, columns)
        loss = tf.reduce_sum(tf.square(tf.reduce_sum(deep, 1, keepdims=True) + wide - 1))
        return {"ids": ids, "loss": loss, "train": minimize(loss, v1.train.AdagradOptimizer(0.1))}

    fused, apart = Program(build, True), Program(build, False)
    assert len(ops("HashTable", fused.graph)) == len(ops("TableProbe", fused.graph)) == 2
    for step in range(5):
        ids = np.random.RandomState(step).randint(0, 9, [16, 3])
        assert fused.run(["loss", "train"], ids=ids)[0] == apart.run(["loss", "train"], ids=ids)[0]
    expect_same(fused, apart)


def two_tables(optimizers, losses=None, **different):
    def build():
        ids = v1.placeholder(tf.int64, [None, 2])
        tables = [tf_booster.get_hash_table("a", 4), tf_booster.get_hash_table("b", different.get("dim", 4))]
        parts = [tf.reduce_sum(tf_booster.embedding_lookup(t, ids[:, i]), 1) for i, t in enumerate(tables)]
        loss = tf.reduce_sum(tf.square(parts[0] + parts[1] - 1))
        trains = [minimize(loss, o, [t.variable]) for o, t in zip(optimizers(), tables)]
        return {"ids": ids, "loss": loss, "train": trains, "a": trains[0], "b": trains[1]}

    return build


def reason_in(program):
    return " ".join(reason for p in program.report.passes for _, reason in p.skipped)


SGD, ADAGRAD = v1.train.GradientDescentOptimizer, v1.train.AdagradOptimizer


@pytest.mark.parametrize(
    "optimizers, reason",
    [
        (lambda: [ADAGRAD(0.1), ADAGRAD(0.2)], "their hyperparameters are other tensors"),
        (lambda: [ADAGRAD(0.1), ADAGRAD(0.1, 0.5)], "their slots start at other values"),
        (lambda: [v1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=n) for n in (True, False)], "settings differ"),
        (lambda: [SGD(0.1), ADAGRAD(0.1)], ""),
        (lambda: [SGD(tf.constant(0.5) * tf.random.uniform([])) for _ in "ab"], "other tensors"),
    ],
)
def test_other_updates_stay_apart_and_the_report_says_why(optimizers, reason):
    program = Program(two_tables(optimizers), True)
    assert len(ops("HashTable", program.graph)) == 2
    assert reason in reason_in(program)
    program.run("train", ids=[[1, 2]])


def test_other_dimensions_stay_apart():
    assert len(ops("HashTable", Program(two_tables(lambda: [SGD(0.1), SGD(0.1)], dim=3), True).graph)) == 2


def test_equal_settings_of_two_optimizer_objects_are_fused_where_one_op_waits_for_both():
    def build():
        nodes = two_tables(lambda: [SGD(0.25), SGD(0.25)])()
        nodes["train"] = tf.group(*nodes["train"])
        return nodes

    fused, apart = Program(build, True), Program(build, False)
    assert len(ops("HashTable", fused.graph)) == 1 and len(ops("TableApplyGradientDescent", fused.graph)) == 1
    for step in range(3):
        for program in (fused, apart):
            program.run("train", ids=[[1, 2], [step, 1]])
    expect_same(fused, apart)


def test_two_train_ops_that_run_in_turn_are_not_joined():
    fused, apart = (Program(two_tables(lambda: [SGD(0.25), SGD(0.25)]), fuse) for fuse in (True, False))
    assert len(ops("HashTable", fused.graph)) == 2
    assert "need not always run together" in reason_in(fused)
    for program in (fused, apart):
        program.run("a", ids=[[1, 2]])
        contents = program.contents()
        assert contents["a"][2] == 1 and contents["b"][2] == 0 and not contents["b"][0]
        program.run("b", ids=[[1, 2]])
    expect_same(fused, apart)


def test_tables_that_train_in_two_phases_of_one_step_are_not_joined():
    def build():
        ids = v1.placeholder(tf.int64, [None, 2])
        a, b = (tf_booster.get_hash_table(n, 4) for n in "ab")
        first = minimize(
            tf.reduce_sum(tf.square(tf_booster.embedding_lookup(a, ids[:, 0]) - 1)), SGD(0.25), [a.variable]
        )
        with tf.control_dependencies([first]):
            both = tf_booster.embedding_lookup(b, ids[:, 1]) + tf_booster.embedding_lookup(a, ids[:, 0] + 0)
        train = minimize(tf.reduce_sum(tf.square(both - 1)), SGD(0.25), [b.variable])
        return {"ids": ids, "train": train}

    fused, apart = Program(build, True), Program(build, False)
    assert len(ops("HashTable", fused.graph)) == 2
    for _ in range(3):
        for program in (fused, apart):
            program.run("train", ids=[[1, 2], [3, 2]])
    expect_same(fused, apart)


def test_features_of_their_own_placeholders_can_be_fetched_apart():
    def build():
        feeds = [v1.placeholder(tf.int64, [None]) for _ in range(3)]
        tables = [tf_booster.get_hash_table(f"t{i}", 4) for i in range(3)]
        values = [tf_booster.embedding_lookup(t, f) for t, f in zip(tables, feeds)]
        loss = tf.reduce_sum(tf.square(tf.add_n(values)))
        nodes = {"loss": loss, "train": minimize(loss, SGD(0.1))}
        nodes.update({f"ids{i}": f for i, f in enumerate(feeds)})
        nodes.update({f"values{i}": v for i, v in enumerate(values)})
        return nodes

    program = Program(build, True)
    assert len(ops("HashTable", program.graph)) == 1 and len(ops("TableApplyGradientDescent", program.graph)) == 1
    assert len(ops("TableProbe", program.graph)) == len(ops("TableGather", program.graph)) == 3
    assert program.run("values1", ids1=[5]).shape == (1, 4)
    program.run("train", ids0=[1, 2], ids1=[1, 2], ids2=[2, 2])
    assert [len(rows) for rows, *_ in program.contents().values()] == [2, 2, 1]


def test_a_lookup_whose_ids_depend_on_another_lookup_has_a_probe_of_its_own():
    def build():
        ids = v1.placeholder(tf.int64, [None])
        a, b = (tf_booster.get_hash_table(n, 4) for n in "ab")
        first = tf_booster.embedding_lookup(a, ids)
        second = tf_booster.embedding_lookup(b, tf.cast(first[:, 0] * 100, tf.int64))
        loss = tf.reduce_sum(tf.square(first + second))
        return {"ids": ids, "loss": loss, "train": minimize(loss, ADAGRAD(0.1))}

    fused, apart = Program(build, True), Program(build, False)
    assert len(ops("HashTable", fused.graph)) == 1 and len(ops("TableApplyAdagrad", fused.graph)) == 1
    assert len(ops("TableProbe", fused.graph)) == len(ops("TableGather", fused.graph)) == 2
    for step in range(6):
        assert fused.run(["loss", "train"], ids=[step, 1])[0] == apart.run(["loss", "train"], ids=[step, 1])[0]
    expect_same(fused, apart)


def test_tables_that_nothing_trains_are_fused_by_dim():
    def build():
        ids = v1.placeholder(tf.int64, [None, 4])
        settings = [{}, {"min_frequency": 2}, {"seed": 4}]
        tables = [tf_booster.get_hash_table(f"t{i}", 4, **s) for i, s in enumerate(settings)]
        tables.append(tf_booster.get_hash_table("other", 3))
        values = [tf_booster.embedding_lookup(t, ids[:, i]) for i, t in enumerate(tables)]
        return {"ids": ids, "values": tf.concat(values, 1)}

    fused, apart = Program(build, True), Program(build, False)
    assert len(ops("HashTable", fused.graph)) == len(ops("TableProbe", fused.graph)) == 2
    ids = np.asarray([EXTREMES[:4], EXTREMES[4:]])
    np.testing.assert_array_equal(fused.run("values", ids=ids), apart.run("values", ids=ids))


def test_a_linear_loss_reads_rows_as_they_were_before_the_step():
    """Its gradient does not depend on the rows, so only an edge of our own keeps the update behind the lookup."""

    def build():
        ids = v1.placeholder(tf.int64, [None, 2])
        tables = [tf_booster.get_hash_table(n, 4, initializer=v1.zeros_initializer()) for n in "ab"]
        loss = tf.add_n([tf.reduce_sum(tf_booster.embedding_lookup(t, ids[:, i])) for i, t in enumerate(tables)])
        return {"ids": ids, "loss": loss, "train": minimize(loss, SGD(1.0))}

    program = Program(build, True)
    (update,), (gather,) = ops("TableApplyGradientDescent", program.graph), ops("TableGather", program.graph)
    assert gather in update.control_inputs
    losses = [program.run(["loss", "train"], ids=[[1, 2]])[0] for _ in range(30)]
    np.testing.assert_array_equal(losses, [-8.0 * step for step in range(30)])


def test_tables_keep_their_own_sizes_exports_and_edits():
    def build():
        ids = v1.placeholder(tf.int64, [None, 2])
        a, b = (tf_booster.get_hash_table(n, 2) for n in "ab")
        loss = tf.reduce_sum(
            tf.square(tf_booster.embedding_lookup(a, ids[:, 0]) + tf_booster.embedding_lookup(b, ids[:, 1]))
        )
        before = {"sizes": [a.size(), b.size()], "export": a.export().keys}  # Asked for before the rewrite.
        return {"ids": ids, "train": minimize(loss, SGD(0.1)), "a": a, "b": b, **before}

    program = Program(build, True)
    program.run("train", ids=[[1, 2], [1, 3], [-7, 2]])
    assert program.run("sizes") == [2, 2] and sorted(program.run("export")) == [-7, 1]
    with program.graph.as_default():
        a, b = program.nodes["a"], program.nodes["b"]
        run = program.session.run
        run(a.insert_or_assign([2], [[5.0, 6.0]]))
        np.testing.assert_array_equal(run(a.find([2]).values), [[5, 6]])
        assert run(b.erase([1, 2])) == 1
        assert run([a.size(), b.size()]) == [3, 1]
        exported = run(a.export())
        assert sorted(exported.keys) == [-7, 1, 2] and exported.step == 1
        run(a.clear())
        assert run([a.size(), b.size(), a.export().step]) == [0, 1, 1]


def test_a_limit_names_its_table_and_fails_the_step():
    def build():
        ids = v1.placeholder(tf.int64, [None, 2])
        a, b = tf_booster.get_hash_table("a", 2), tf_booster.get_hash_table("b", 2, max_rows=3)
        loss = tf.reduce_sum(
            tf.square(tf_booster.embedding_lookup(a, ids[:, 0]) + tf_booster.embedding_lookup(b, ids[:, 1]))
        )
        return {"ids": ids, "train": minimize(loss, SGD(0.1))}

    program = Program(build, True)
    program.run("train", ids=[[1, 2], [3, 4]])
    before = program.contents()
    with pytest.raises(tf.errors.ResourceExhaustedError, match="field 'b'.*max_rows is 3"):
        program.run("train", ids=[[9, 5], [8, 6]])
    assert program.contents() == before


def test_a_second_rewrite_changes_nothing_and_late_lookups_join():
    def build():
        ids = v1.placeholder(tf.int64, [None, 2])
        a, b = (tf_booster.get_hash_table(n, 2) for n in "ab")
        loss = tf.reduce_sum(
            tf.square(tf_booster.embedding_lookup(a, ids[:, 0]) + tf_booster.embedding_lookup(b, ids[:, 1]))
        )
        return {"ids": ids, "train": minimize(loss, SGD(0.1)), "a": a, "b": b}

    program = Program(build, True)
    with program.graph.as_default():
        before = program.graph.as_graph_def().SerializeToString(deterministic=True)
        rewrite(True)
        assert program.graph.as_graph_def().SerializeToString(deterministic=True) == before
        ids = program.nodes["ids"]
        late = [tf_booster.embedding_lookup(program.nodes[n], ids[:, 0]) for n in "ab"]
        rewrite(True)
        assert len(ops("HashTable")) == 1 and len(ops("TableProbe")) == 2 and len(ops("TableGather")) == 2
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(program.nodes["train"], {ids: [[1, 2]]})
            values = session.run(
                [*late, program.nodes["a"].find([1]).values, program.nodes["b"].find([1]).values], {ids: [[1, 9]]}
            )
    np.testing.assert_array_equal(values[0], values[2])
    np.testing.assert_array_equal(values[1], values[3])


def test_not_fused_is_as_before():
    program = Program(model("adagrad"), False)
    assert not ops("TableField", program.graph)
    assert all(len(op.get_attr("field_names")) == 1 for op in ops("HashTable", program.graph))


def test_names_of_resources_do_not_depend_on_the_run():
    names = [[op.get_attr("table_name") for op in ops("HashTable", Program(model("adam"), True).graph)] for _ in "ab"]
    assert names[0] == names[1] == [b"fused/t0_and_6_more"]


def test_fused_ops_lead_back_to_the_originals():
    fused = Program(model("adagrad"), True)
    (apply_op,) = ops("TableApplyAdagrad", fused.graph)
    assert len(apply_op.get_attr("_tf_booster_originals")) == len(SETTINGS)
    assert apply_op.name.startswith("tf_booster/")
