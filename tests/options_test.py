import dataclasses
import pathlib
import re

import numpy as np
import pytest

from tf_booster import options

CONTRACT = (
    "device horovod fuse_tables fuse_variables fuse_sparse_variables fast_parser pipeline prefetch_to_device xla "
    "gradient_reduction lr_scaling warmup_steps shard_input partition lazy_adam deterministic check_numerics seed "
    "table_memory_fraction table_directory watchdog watchdog_abort repeated_features scoring_precision updatable_exports "
    "disable_passes"
).split()


def test_every_option_of_the_contract_is_known_and_accepted_at_its_default():
    defaults = dataclasses.asdict(options.Options())
    assert set(defaults) == set(CONTRACT)
    assert options.parse(defaults) == options.Options() == options.parse({})


def test_an_unknown_option_lists_the_known_ones():
    with pytest.raises(TypeError, match="unknown option 'fuse_table'") as error:
        options.parse({"fuse_table": True})
    assert all(name in str(error.value) for name in CONTRACT)


WRONG_VALUES = {
    "device": "tpu",
    "horovod": "yes",
    "fuse_tables": 1,
    "fuse_sparse_variables": "auto",
    "pipeline": "fast",
    "xla": True,
    "gradient_reduction": "mean",
    "lr_scaling": "sqrt",
    "warmup_steps": -1,
    "shard_input": True,
    "partition": "range",
    "check_numerics": 1,
    "seed": 1.5,
    "table_memory_fraction": 75,
    "table_directory": "",
    "watchdog": -1,
    "watchdog_abort": "never",
    "repeated_features": "user",
    "updatable_exports": "auto",
    "scoring_precision": "bfloat16",
    "disable_passes": ["hash_tables"],
}


@pytest.mark.parametrize("name", WRONG_VALUES)
def test_an_unknown_value_names_what_is_wanted(name):
    value = WRONG_VALUES[name]
    with pytest.raises(ValueError, match=re.escape(f"option '{name}' is {value!r}; wanted")):
        options.parse({name: value})


def test_values_of_numpy_and_paths_are_pythons():
    given = {"lazy_adam": np.True_, "pipeline": np.str_("off"), "seed": np.int32(7), "watchdog": np.float32(0.5)}
    parsed = options.parse({**given, "table_directory": pathlib.Path("/fast/disk")})
    assert parsed == options.parse(
        {"lazy_adam": True, "pipeline": "off", "seed": 7, "watchdog": 0.5, "table_directory": "/fast/disk"}
    )
    assert type(parsed.lazy_adam) is bool and type(parsed.pipeline) is str and type(parsed.seed) is int


def test_values_that_do_something():
    parsed = options.parse(
        {
            "fuse_variables": True,
            "fuse_sparse_variables": True,
            "lazy_adam": True,
            "seed": 7,
            "check_numerics": True,
            "deterministic": True,
            "device": "cpu",
            "shard_input": False,
        }
    )
    assert (parsed.seed, parsed.check_numerics, parsed.device, parsed.shard_input) == (7, True, "cpu", False)


def test_passes_are_left_out_by_name_in_any_order():
    first = options.parse({"disable_passes": ["unique", "sparse_lookups"]})
    assert first == options.parse({"disable_passes": ("sparse_lookups", "unique", "unique")})
    assert first.disable_passes == ("sparse_lookups", "unique")
    with pytest.raises(
        ValueError, match="'disable_passes' is 'unique'; wanted a list of names out of 'constant_conditions'"
    ):
        options.parse({"disable_passes": "unique"})


def test_the_page_has_every_option_with_its_default_and_its_values():
    page = (pathlib.Path(__file__).parents[1] / "docs" / "options.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    told = {name: row[1] for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert set(told) == set(CONTRACT)
    for name, default in dataclasses.asdict(options.Options()).items():
        text = f'"{default}"' if isinstance(default, str) else str(default)
        assert f"`{text}`" in told[name], name
        for value in options._RULES[name].known:
            assert f"`{value!r}`".replace("'", '"') in told[name], (name, value)
