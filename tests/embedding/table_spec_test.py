"""What users may say of a table, and what they are told otherwise."""

import dataclasses

import numpy as np
import pytest

from tf_booster.embedding.table_spec import EvictionSpec, InitializerSpec, TableSpec


def create(**changes):
    settings = {"name": "user", "dim": 8, "initializer": InitializerSpec("constant", 0.5)}
    settings.update(changes)
    return TableSpec.create("get_hash_table", **settings)


def test_defaults():
    assert create() == TableSpec("user", 8, InitializerSpec("constant", 0.5), None, 0, EvictionSpec("", 0), None, True)


def test_default_initializer_is_that_of_embedding_column():
    spec = InitializerSpec.default(16)
    assert (spec.kind, spec.a, spec.b) == ("truncated_normal", 0.0, 0.25)


@pytest.mark.parametrize(
    "eviction, policy, limit",
    [
        (None, "", 0),
        ({"max_idle_steps": 7}, "idle", 7),
        ({"max_rows": 9, "order": "lru"}, "lru", 9),
        ({"order": "lfu", "max_rows": np.int64(9)}, "lfu", 9),
    ],
)
def test_eviction_as_users_write_it_and_back(eviction, policy, limit):
    parsed = create(eviction=eviction).eviction
    assert parsed == EvictionSpec(policy, limit)
    assert parsed.to_dict() == eviction


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"name": 3}, TypeError, "get_hash_table: name is 3, wanted a string"),
        ({"name": ""}, ValueError, "get_hash_table: name is '', wanted letters"),
        ({"name": "a b"}, ValueError, "get_hash_table: name is 'a b', wanted letters"),
        ({"name": "a/"}, ValueError, "get_hash_table: name is 'a/', wanted letters"),
        ({"name": "a\n"}, ValueError, "get_hash_table: name is 'a\\n', wanted letters"),
        ({"name": "_a"}, ValueError, "get_hash_table: name is '_a', wanted letters"),
        ({"dim": 0}, ValueError, "get_hash_table 'user': embedding_dim is 0, wanted an integer from 1"),
        ({"dim": 2.0}, TypeError, "get_hash_table 'user': embedding_dim is 2.0, wanted an integer"),
        ({"dim": True}, TypeError, "embedding_dim is True, wanted an integer"),
        ({"seed": 2**63}, ValueError, "seed is 9223372036854775808, wanted an integer from -9223372036854775808"),
        ({"min_frequency": -1}, ValueError, "min_frequency is -1, wanted an integer from 0"),
        ({"max_rows": 0}, ValueError, "max_rows is 0, wanted an integer from 1"),
        ({"trainable": 1}, TypeError, "trainable is 1, wanted True or False"),
        ({"eviction": "lru"}, TypeError, "eviction is 'lru', wanted {\"max_idle_steps\": n} or"),
        ({"eviction": {}}, ValueError, "eviction is {}, wanted"),
        ({"eviction": {"max_rows": 3}}, ValueError, "eviction is {'max_rows': 3}, wanted"),
        ({"eviction": {"max_idle_steps": 3, "max_rows": 3}}, ValueError, 'wanted {"max_idle_steps": n} or'),
        ({"eviction": {"max_rows": 3, "order": "fifo"}}, ValueError, "order is 'fifo', wanted 'lru' or 'lfu'"),
        ({"eviction": {"max_idle_steps": 0}}, ValueError, "max_idle_steps is 0, wanted an integer from 1"),
        (
            {"eviction": {"max_rows": 3, "order": "lru"}, "max_rows": 3},
            ValueError,
            "max_rows is 3 and eviction's max_rows 3; rows leave after a step",
        ),
    ],
)
def test_wrong_settings(changes, error, message):
    with pytest.raises(error) as raised:
        create(**changes)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (("gamma", 1.0), ValueError, "kind is 'gamma', wanted one of constant, normal, truncated_normal, uniform"),
        (("constant", "1"), TypeError, "value is '1', wanted a number"),
        (("constant", float("nan")), ValueError, "value is nan, wanted a finite number"),
        (("uniform", 1.0, 0.5), ValueError, "minval is 1.0 and maxval 0.5; swap them"),
        (("uniform", 0.0, float("inf")), ValueError, "maxval is inf, wanted a finite number"),
        (("normal", 0.0, -1.0), ValueError, "stddev is -1.0, wanted a number >= 0"),
        (("truncated_normal", 0.0, -1.0), ValueError, "stddev is -1.0, wanted a number >= 0"),
    ],
)
def test_wrong_initializers(arguments, error, message):
    with pytest.raises(error) as raised:
        InitializerSpec(*arguments)
    assert message in str(raised.value)


def test_differences_name_every_field_that_differs():
    there, here = create(), create(dim=16, eviction={"max_idle_steps": 3}, initializer=InitializerSpec("uniform", 0, 1))
    assert there.differences(here) == (
        "dim is 8 there and 16 here, initializer is constant(value=0.5) there and uniform(minval=0, maxval=1) here, "
        "eviction is None there and {'max_idle_steps': 3} here"
    )
    assert there.differences(create()) == ""


def test_every_field_counts_as_a_difference():
    other = TableSpec("other", 9, InitializerSpec("constant", 1.0), 1, 2, EvictionSpec("idle", 3), 4, False)
    for field in dataclasses.fields(TableSpec):
        assert field.name in create().differences(create().replace(**{field.name: getattr(other, field.name)}))
