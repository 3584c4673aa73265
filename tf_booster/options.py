"""The options of enable_gpu_booster: their names and their values. docs/options.md tells what they do."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Callable, Dict, Optional, Tuple

from tf_booster.arguments import is_int, is_number, plain


@dataclasses.dataclass(frozen=True)
class Options:
    """Checked options."""

    device: str = "auto"
    horovod: Any = "auto"
    fuse_tables: Any = "auto"
    fuse_variables: Any = "auto"
    fuse_sparse_variables: bool = False
    fast_parser: Any = "auto"
    pipeline: str = "exact"
    prefetch_to_device: Any = "auto"
    xla: str = "off"
    gradient_reduction: str = "average"
    lr_scaling: Optional[str] = None
    warmup_steps: int = 0
    shard_input: Any = "auto"
    partition: str = "hash"
    lazy_adam: bool = False
    deterministic: bool = False
    check_numerics: bool = False
    seed: Optional[int] = None
    table_memory_fraction: float = 0.75
    table_directory: Optional[str] = None
    watchdog: float = 30
    watchdog_abort: float = 0
    repeated_features: Tuple[str, ...] = ()
    scoring_precision: str = "float32"
    updatable_exports: bool = False
    disable_passes: Tuple[str, ...] = ()


# Passes that can be left out by name, in the order of passes/pipelines.py; hash_tables cannot: tables do not run without it.
PASSES = (
    "constant_conditions",
    "conditional_updates",
    "sparse_lookups",
    "partitioned_lookups",
    "variable_gathers",
    "repeated_features",
    "gather_matmul",
    "split_matmul",
    "clipped_rows",
    "indicator_columns",
    "vocabulary_ids",
    "crossed_columns",
    "sparse_features",
    "bucketized_columns",
    "confusion_matrices",
    "finite_checks",
    "variable_updates",
    "server_lookups",
    "unique",
    "quantized_products",
    "xla_padding",
    "xla",
    "small_matmuls",
    "batch_normalization",
    "pair_dots",
    "joined_pair_dots",
    "field_sums",
    "known_shapes",
    "same_shapes",
    "columns",
    "joined_gathers",
    "joined_layers",
    "joined_lookups",
    "direct_lookups",
    "input_pipeline",
    "input_queues",
    "embedding_pipeline",
)


@dataclasses.dataclass(frozen=True)
class _Rule:
    """What an option may be."""

    known: Tuple[Any, ...] = ()
    kind: Optional[Callable[[Any], bool]] = None
    wanted: str = ""

    def describe(self) -> str:
        return self.wanted or ", ".join(repr(value) for value in self.known)

    def accepts(self, value: Any) -> bool:
        # `1 == True`, so types are compared too.
        return any(type(value) is type(k) and value == k for k in self.known) or bool(self.kind and self.kind(value))


def _is_seconds(value: Any) -> bool:
    return is_number(value) and 0 <= value < float("inf")


def _is_fraction(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1


def _is_folder(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike)) and bool(os.fspath(value))


def _is_passes(value: Any) -> bool:
    return isinstance(value, (list, tuple, set, frozenset)) and all(name in PASSES for name in value)


def _is_names(value: Any) -> bool:
    return isinstance(value, (list, tuple, set, frozenset)) and all(isinstance(name, str) and name for name in value)


_SWITCH = ("auto", True, False)
_ON_OFF = (True, False)

_RULES: Dict[str, _Rule] = {
    "device": _Rule(("auto", "gpu", "cpu")),
    "horovod": _Rule(_SWITCH),
    "fuse_tables": _Rule(_SWITCH),
    "fuse_variables": _Rule(_SWITCH),
    "fuse_sparse_variables": _Rule(_ON_OFF),
    "fast_parser": _Rule(_SWITCH),
    "pipeline": _Rule(("off", "exact", "async")),
    "prefetch_to_device": _Rule(_SWITCH),
    "xla": _Rule(("off", "auto", "padded")),
    "gradient_reduction": _Rule(("average", "sum")),
    "lr_scaling": _Rule((None, "linear")),
    "warmup_steps": _Rule(kind=lambda v: is_int(v) and v >= 0, wanted="an integer of at least 0"),
    "shard_input": _Rule(("auto", False)),
    "partition": _Rule(("hash", "mod")),
    "lazy_adam": _Rule(_ON_OFF),
    "deterministic": _Rule(_ON_OFF),  # On the CPU tables sum and insert in an order that no thread can change, always.
    "check_numerics": _Rule(_ON_OFF),
    "seed": _Rule((None,), lambda v: is_int(v) and -(2**63) <= v < 2**63, "None or an integer of 64 bits"),
    "table_memory_fraction": _Rule(kind=_is_fraction, wanted="a number between 0 and 1"),
    "table_directory": _Rule((None,), _is_folder, "None or the name of a folder"),
    "watchdog": _Rule(kind=_is_seconds, wanted="seconds, 0 for none"),
    "watchdog_abort": _Rule(kind=_is_seconds, wanted="seconds, 0 for never"),
    "repeated_features": _Rule(kind=_is_names, wanted="a list of names of features"),
    "scoring_precision": _Rule(("float32", "int16", "int8")),
    "updatable_exports": _Rule(_ON_OFF),
    "disable_passes": _Rule(kind=_is_passes, wanted=f"a list of names out of {', '.join(map(repr, PASSES))}"),
}


def parse(options: Dict[str, Any]) -> Options:
    """Checks `options` and fills in the defaults.

    Raises:
      TypeError: an option that does not exist; lists the known ones.
      ValueError: a value that does not exist; says what is wanted.
    """
    options = {name: plain(value) for name, value in options.items()}
    for name, value in options.items():
        rule = _RULES.get(name)
        if rule is None:
            raise TypeError(f"enable_gpu_booster: unknown option '{name}'; known options: {', '.join(sorted(_RULES))}")
        if not rule.accepts(value):
            raise ValueError(f"enable_gpu_booster: option '{name}' is {value!r}; wanted {rule.describe()}")
    return Options(**{name: _plain(name, value) for name, value in options.items()})


def _plain(name: str, value: Any) -> Any:
    """One form for what means the same, so that options compare equal."""
    if name == "repeated_features":
        return tuple(sorted(set(value)))
    if isinstance(value, (list, tuple, set, frozenset)):
        return tuple(known for known in PASSES if known in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else value
