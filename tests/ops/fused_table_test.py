"""Tables of several fields: the ops that take all features at once, and the handles of single tables."""

import os

import numpy as np
import pytest
import tensorflow as tf
from table_session import EXTREME_IDS, SLOTS, TableSession, int64

from tf_booster.checkpoint import layout

RANDOM = dict(
    initializers=["truncated_normal", "uniform", "constant"], initializer_args=[0.0, 0.5, -1.0, 1.0, 0.25, 0.0]
)
FIELDS = dict(field_names=["a", "b", "c"], seeds=[1, 1, 2], min_frequencies=[0, 0, 2], max_rows=[0, 3, 0],
              evictions=["", "", "idle"], eviction_args=[0, 0, 2])  # fmt: skip


def alone(field):
    """The attributes of the table that is field `field`."""
    one = {key: [value[field]] for key, value in FIELDS.items()}
    one.update(
        initializers=[RANDOM["initializers"][field]], initializer_args=RANDOM["initializer_args"][2 * field :][:2]
    )
    return dict(name="abc"[field], **one)


@pytest.fixture
def fused(table):
    def make(**options):
        return Fused(table(name="fused", **{**FIELDS, **RANDOM, **options}))

    return make


class Fused:
    """Calls on the whole table, and on its parts by name: f.part(1, "find", …)."""

    def __init__(self, whole: TableSession):
        self.whole, self.ops, self.dim = whole, whole.ops, whole.dim
        with whole.session.graph.as_default():
            self.handles = [self.ops.tf_booster_table_field(whole.handle, field=f) for f in range(3)]

    def part(self, which, op, *args, **attrs):
        return self.whole.run(lambda: getattr(self.ops, "tf_booster_table_" + op)(self.handles[which], *args, **attrs))

    def export(self, field):
        slots = len(self.whole.attrs["slot_names"])
        return layout.tables_of(self.part(field, "export", dim=self.dim, N=1, S=slots))[0]

    def sizes(self):
        return [int(self.part(f, "size")) for f in range(3)]

    def probe(self, ids, fields, group=0):
        return self.whole("probe", [int64(i) for i in ids], fields=fields, group=group)

    def step(self, ids, fields, grads, stepping=()):
        def build():
            p = self.ops.tf_booster_table_probe(self.whole.handle, [int64(i) for i in ids], fields=fields)
            keys = ([p.keys], [p.key_fields], [p.counts], [p.handles])
            flat = [tf.reshape(c, [-1]) for c in p.codes]
            grads_ = [np.asarray(g, np.float32).reshape(-1, self.dim) for g in grads]
            return self.ops.tf_booster_table_apply_gradient_descent(
                self.whole.handle, *keys, flat, grads_, 1.0, fields=stepping
            )

        return self.whole.run(build)


def test_equal_ids_of_two_fields_are_two_rows(fused):
    f = fused()
    f.part(0, "insert_or_assign", int64(EXTREME_IDS), np.ones([len(EXTREME_IDS), 2], np.float32))
    f.part(2, "insert_or_assign", int64(EXTREME_IDS[:2]), np.full([2, 2], 7, np.float32))
    p = f.probe([EXTREME_IDS, EXTREME_IDS, EXTREME_IDS[:2]], [0, 2, 2])
    assert len(p.keys) == 2 * len(EXTREME_IDS) and sorted(p.key_fields) == [0] * len(EXTREME_IDS) + [2] * len(
        EXTREME_IDS
    )
    for codes, ids, field in zip(p.codes, [EXTREME_IDS, EXTREME_IDS, EXTREME_IDS[:2]], [0, 2, 2]):
        np.testing.assert_array_equal(p.keys[codes - 1], ids)
        np.testing.assert_array_equal(p.key_fields[codes - 1], field)
    np.testing.assert_array_equal(p.counts[p.codes[1] - 1], [2, 2] + [1] * (len(EXTREME_IDS) - 2))
    values = f.whole("gather", p.codes[::-1], p.keys, p.key_fields, p.handles, dim=2)
    np.testing.assert_array_equal(values[2], np.ones([len(EXTREME_IDS), 2]))
    np.testing.assert_array_equal(values[0], np.full([2, 2], 7))
    assert f.sizes() == [len(EXTREME_IDS), 0, 2]


def test_initial_values_are_those_of_the_tables_alone(fused, table):
    f = fused()
    for field in range(3):
        t = table(**alone(field))
        np.testing.assert_array_equal(
            f.part(field, "find", int64(EXTREME_IDS), dim=2).values, t.find(EXTREME_IDS).values
        )


def test_any_shapes_and_no_ids_at_all(fused):
    f = fused()
    ids = [np.zeros([0], np.int64), np.arange(6).reshape(2, 3), np.int64(4), np.zeros([3, 0], np.int64)]
    p = f.probe(ids, [0, 1, 1, 2], group=5)
    assert [c.shape for c in p.codes] == [(0,), (2, 3), (), (3, 0)]
    assert set((np.concatenate([c.reshape(-1) for c in p.codes]) >> 40).tolist()) == {5} and len(p.keys) == 6
    values = f.whole("gather", p.codes, p.keys, p.key_fields, p.handles, dim=2)
    assert [v.shape for v in values] == [(0, 2), (2, 3, 2), (2,), (3, 0, 2)]
    np.testing.assert_array_equal(values[1][1, 1], values[2])


def test_an_update_of_all_features(fused):
    f = fused(optimizer="sgd", initializers=["constant"] * 3, initializer_args=[0.0] * 6)
    f.step([[5, 6, 5], [5], [5, 9]], [0, 1, 2], [[[1, 2], [3, 4], [5, 6]], [[7, 8]], [[1, 1], [2, 2]]])
    assert f.sizes() == [2, 1, 0], "field c admits with the second sighting"
    np.testing.assert_array_equal(f.part(0, "find", int64([5, 6]), dim=2).values, [[-6, -8], [-3, -4]])
    np.testing.assert_array_equal(f.part(1, "find", int64([5, 6]), dim=2).values, [[-7, -8], [0, 0]])
    f.step([[5]], [2], [[[1, 1]]])
    np.testing.assert_array_equal(
        [f.part(i, "stats")[:4] for i in range(3)], [[2, 0, 0, 2], [1, 0, 0, 2], [1, 1, 0, 2]]
    )


def test_fields_that_do_not_step_keep_their_clocks(fused):
    f = fused(optimizer="sgd")
    f.step([[5]], [1], [[[1, 1]]], [1])
    f.step([[5]], [1], [[[1, 1]]], [1, 2])
    assert [f.part(i, "stats")[3] for i in range(3)] == [0, 2, 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="key 5 is of field 'b', which does not step"):
        f.step([[5]], [1], [[[1, 1]]], [0])


def test_a_limit_of_one_field_fails_the_step_of_all(fused):
    f = fused(optimizer="sgd")
    f.step([[1, 2], [1, 2, 3]], [0, 1], [np.ones([2, 2]), np.ones([3, 2])])
    with pytest.raises(
        tf.errors.ResourceExhaustedError, match="TableApplyGradientDescent 'fused', field 'b'.*max_rows is 3"
    ):
        f.step([[8, 9], [4]], [0, 1], [np.ones([2, 2]), np.ones([1, 2])])
    assert f.sizes() == [2, 3, 0] and f.part(0, "stats")[3] == 1


def test_clear_and_erase_leave_the_other_fields(fused):
    f = fused()
    for field in (0, 1, 2):
        f.part(field, "insert_or_assign", int64([1, 2]), np.full([2, 2], field, np.float32))
    assert f.part(1, "erase", int64([1, 7])) == 1
    f.part(0, "clear")
    assert f.sizes() == [0, 1, 2]
    np.testing.assert_array_equal(f.part(2, "find", int64([1]), dim=2).values, [[2, 2]])
    f.part(0, "find_or_insert", int64([1]), dim=2)
    assert f.sizes() == [1, 1, 2]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_all_fields_go_out_as_one_picture_and_back_at_once(fused, table, tmp_path, optimizer):
    f, g = fused(optimizer=optimizer), fused(optimizer=optimizer)
    for field in range(3):
        f.part(field, "insert_or_assign", int64([field, -1]), np.full([2, 2], field, np.float32))
    slots = len(SLOTS[optimizer])
    parts = layout.tables_of(f.whole("export", N=2, S=2 * slots, dim=2, fields=[2, 0]))
    np.testing.assert_array_equal(np.sort(parts[0].keys), [-1, 2])
    assert [p.values[0, 0] for p in parts] == [2, 0] and [len(p.slots) for p in parts] == [slots] * 2
    tensors = {}
    for name, part in zip("ca", parts):
        tensors.update({f"{name}/{k}": getattr(part, k) for k in ("keys", "values", "frequencies", "last_use_steps")})
        tensors.update({f"{name}/slots/{slot}": value for slot, value in zip(SLOTS[optimizer], part.slots)})
        tensors[f"{name}/optimizer"] = np.asarray(part.optimizer, object)
    prefix = str(tmp_path / "model")
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=list(tensors), shape_and_slices=[""] * len(tensors),
                      tensors=[tf.constant(x) for x in tensors.values()])  # fmt: skip
    g.part(1, "insert_or_assign", int64([9]), np.ones([1, 2], np.float32))
    g.whole("restore", np.asarray(prefix, object), checkpoint_names=["c", "a"], fields=[2, 0])
    assert g.sizes() == [2, 1, 2]
    # One that cannot be read leaves all as they were.
    for names, error in ((["a", "nobody"], "'nobody/keys'"), (["a", "a"], "names field 0 twice")):
        with pytest.raises((tf.errors.NotFoundError, tf.errors.InvalidArgumentError), match=error):
            fields = [1, 2] if error.startswith("'") else [0, 0]
            g.whole("restore", np.asarray(prefix, object), checkpoint_names=names, fields=fields)
        assert g.sizes() == [2, 1, 2]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda f: f.whole("size"), "TableSize 'fused': the handle is of a fused table of 3 tables.*TableField"),
        (lambda f: f.whole("export", N=1, S=0, dim=2), "TableExport 'fused': the handle is of a fused table"),
        (lambda f: f.whole("export", N=2, S=0, dim=2), "fields has 0 entries, but N is 2"),
        (lambda f: f.whole("export", N=1, S=0, dim=2, fields=[3]), "Export of field 3, but the table has 3 fields"),
        (lambda f: f.whole("restore", ["x"], checkpoint_names=["a", "b"]), "fields has 0 entries.* 2 checkpoint_names"),
        (lambda f: f.whole("restore", "x", checkpoint_names=["a"], fields=[3]), "entry 3, but the table has 3 fields"),
        (lambda f: f.whole("field", field=3), "TableField 'fused': field is 3, but the table has 3 fields"),
        (lambda f: f.part(1, "field", field=0), "TableField 'fused'"),
        (lambda f: f.part(1, "find", int64([1]), dim=5), "TableFind 'b': the table's dim is 2"),
    ],
)
def test_refusals(fused, call, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        call(fused())


def test_a_table_that_is_made_anew_has_parts_made_anew(fused):
    f = fused()
    f.part(1, "find_or_insert", int64([1]), dim=2)
    with f.whole.session.graph.as_default():
        destroy = tf.raw_ops.DestroyResourceOp(resource=f.whole.handle)
    f.whole.session.run(destroy)
    assert f.sizes() == [0, 0, 0]
    f.part(1, "find_or_insert", int64([1]), dim=2)
    assert f.sizes() == [0, 1, 0]


@pytest.mark.parametrize(
    "attrs, message",
    [
        ({"sizes": [2]}, "TableSave: of 1 tables there are 1 sizes with the sum 2, and 1 checkpoint_names and 1 fields"),
        ({"sizes": [-1], "fields": [], "checkpoint_names": []}, "TableSave: of 1 tables"),
        ({"with_slots": []}, "with_slots has 0 entries, but there are 1 tables"),
        ({"fields": [3]}, "ExportPieces of field 3, but the table has 3 fields"),
        ({"sizes": [2], "fields": [1, 1], "checkpoint_names": ["x", "y"]}, "ExportPieces names field 1 twice"),
    ],
)  # fmt: skip
def test_a_save_refuses_what_does_not_fit(fused, tmp_path, attrs, message):
    f = fused()
    attrs = {"sizes": [1], "fields": [0], "checkpoint_names": ["x"], "with_slots": [True], **attrs}
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        f.whole.run(lambda: f.ops.tf_booster_table_save([f.whole.handle], str(tmp_path / "x"), **attrs))
    assert not os.path.exists(tmp_path / "x.index")


def test_a_save_of_some_tables_is_restored(fused, tmp_path):
    f = fused(optimizer="sgd")
    f.step([[1, 2, 3], [4, 5], [7, 7, 8]], [0, 1, 2], [np.ones([3, 2]), np.ones([2, 2]), np.ones([3, 2])])
    wanted = [f.export(i) for i in range(3)]
    prefix = str(tmp_path / "saved")
    attrs = {"sizes": [2], "fields": [2, 0], "checkpoint_names": ["third", "first"], "with_slots": [True]}
    f.whole.run(lambda: f.ops.tf_booster_table_save([f.whole.handle], prefix, **attrs))
    assert {name.split("/")[0] for name, _ in tf.train.list_variables(prefix)} == {"third", "first"}
    f.step([[9], [4], [8, 8]], [0, 1, 2], [np.ones([1, 2]), np.ones([1, 2]), np.ones([2, 2])])
    f.part(0, "restore", prefix, checkpoint_names=["first"])
    f.part(2, "restore", prefix, checkpoint_names=["third"])
    for i in (0, 2):
        for found, before in zip(tf.nest.flatten(f.export(i)), tf.nest.flatten(wanted[i])):
            np.testing.assert_array_equal(found, before)
    assert f.export(1).step == 2
