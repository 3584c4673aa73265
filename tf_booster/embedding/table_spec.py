"""What a hash table is told when it is made, checked once, in the form in which the ops want it."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any, Mapping, Optional, Tuple

from tf_booster.arguments import INT64_MAX, check_finite, checked_int, plain

# kind -> what `a` and `b` are.
INITIALIZER_KINDS = {
    "constant": ("value", None),
    "uniform": ("minval", "maxval"),
    "normal": ("mean", "stddev"),
    "truncated_normal": ("mean", "stddev"),
}

EVICTION_ORDERS = ("lru", "lfu")

# What TensorFlow takes as the name of an op; a table's name becomes the prefix of its tensors in a checkpoint.
_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*(?<!/)")


@dataclasses.dataclass(frozen=True)
class InitializerSpec:
    """The distribution of a new row's values.

    kind: 'constant' (a: value), 'uniform' (a: minimum, b: maximum, excluded), 'normal' or 'truncated_normal'
    (a: mean, b: standard deviation).
    """

    kind: str
    a: float = 0.0
    b: float = 0.0

    def __post_init__(self):
        if self.kind not in INITIALIZER_KINDS:
            raise ValueError(f"kind is {self.kind!r}, wanted one of {', '.join(sorted(INITIALIZER_KINDS))}")
        for label, value in zip(INITIALIZER_KINDS[self.kind], (self.a, self.b)):
            if label is not None:
                check_finite(self.kind, label, value)
        if self.kind == "uniform" and self.a > self.b:
            raise ValueError(f"{self.kind}: minval is {self.a} and maxval {self.b}; swap them")
        if self.kind in ("normal", "truncated_normal") and self.b < 0:
            raise ValueError(f"{self.kind}: stddev is {self.b}, wanted a number >= 0")
        object.__setattr__(self, "a", float(self.a))
        object.__setattr__(self, "b", float(self.b))

    @classmethod
    def default(cls, dim: int) -> InitializerSpec:
        """What TensorFlow's embedding_column uses: truncated_normal(0, 1 / sqrt(dim))."""
        return cls("truncated_normal", 0.0, 1.0 / math.sqrt(dim))

    def __str__(self) -> str:
        arguments = [
            f"{label}={value:g}"
            for label, value in zip(INITIALIZER_KINDS[self.kind], (self.a, self.b))
            if label is not None
        ]
        return f"{self.kind}({', '.join(arguments)})"


@dataclasses.dataclass(frozen=True)
class EvictionSpec:
    """Which rows leave after a step; the fields are the `evictions` and `eviction_args` of the HashTable op.

    policy: '' (none), 'idle' (limit: max_idle_steps), 'lru' or 'lfu' (limit: max_rows).
    """

    policy: str = ""
    limit: int = 0

    @classmethod
    def parse(cls, what: str, eviction: Optional[Mapping[str, Any]]) -> EvictionSpec:
        """Reads None, {"max_idle_steps": n} or {"max_rows": n, "order": "lru" | "lfu"}; `what` opens the messages."""
        if eviction is None:
            return cls()
        if isinstance(eviction, EvictionSpec):
            return eviction
        wanted = 'wanted {"max_idle_steps": n} or {"max_rows": n, "order": "lru" or "lfu"}'
        if not isinstance(eviction, Mapping):
            raise TypeError(f"{what}: eviction is {eviction!r}, {wanted}")
        keys = set(eviction)
        if keys == {"max_idle_steps"}:
            return cls("idle", checked_int(what, "eviction's max_idle_steps", eviction["max_idle_steps"], 1))
        if keys == {"max_rows", "order"}:
            if eviction["order"] not in EVICTION_ORDERS:
                raise ValueError(f"{what}: eviction's order is {eviction['order']!r}, wanted 'lru' or 'lfu'")
            return cls(eviction["order"], checked_int(what, "eviction's max_rows", eviction["max_rows"], 1))
        raise ValueError(f"{what}: eviction is {dict(eviction)!r}, {wanted}")

    def to_dict(self) -> Optional[dict]:
        """The form in which users write it; None for no eviction."""
        if not self.policy:
            return None
        if self.policy == "idle":
            return {"max_idle_steps": self.limit}
        return {"max_rows": self.limit, "order": self.policy}


@dataclasses.dataclass(frozen=True)
class TableSpec:
    """The settings of one table.

    name: the table's name in the graph and in checkpoints.
    dim: columns of an embedding, at least 1.
    initializer: of new rows.
    seed: of new rows; None lets the rewrite choose (the `seed` option of enable_gpu_booster).
    min_frequency: a key is admitted at its n-th sighting; 0 and 1 admit at once.
    eviction: which rows leave after a step.
    max_rows: a limit that raises; None for none.
    trainable: whether optimizers see the table.
    """

    name: str
    dim: int
    initializer: InitializerSpec
    seed: Optional[int] = None
    min_frequency: int = 0
    eviction: EvictionSpec = EvictionSpec()
    max_rows: Optional[int] = None
    trainable: bool = True

    @classmethod
    def create(
        cls,
        what: str,
        name: str,
        dim: int,
        initializer: Optional[InitializerSpec],
        seed: Optional[int] = None,
        min_frequency: int = 0,
        eviction: Optional[Mapping[str, Any]] = None,
        max_rows: Optional[int] = None,
        trainable: bool = True,
    ) -> TableSpec:
        """Checks what a user wrote. `what` opens the messages, e.g. "get_hash_table".

        Raises: TypeError or ValueError naming argument, found, wanted and remedy.
        """
        check_name(what, name)
        what = f"{what} {name!r}"
        seed, min_frequency, eviction, max_rows = check_settings(what, seed, min_frequency, eviction, max_rows)
        if not isinstance(plain(trainable), bool):
            raise TypeError(f"{what}: trainable is {trainable!r}, wanted True or False")
        return cls(
            name=name,
            dim=checked_int(what, "embedding_dim", dim, 1),
            initializer=initializer,
            seed=seed,
            min_frequency=min_frequency,
            eviction=eviction,
            max_rows=max_rows,
            trainable=plain(trainable),
        )

    def replace(self, **changes: Any) -> TableSpec:
        """A copy with other values of some fields."""
        return dataclasses.replace(self, **changes)

    def differences(self, other: TableSpec) -> str:
        """'dim is 8 there and 16 here, …' for each field in which the other spec differs; '' when equal."""
        there, here = dataclasses.asdict(self), dataclasses.asdict(other)
        there.update(initializer=str(self.initializer), eviction=self.eviction.to_dict())
        here.update(initializer=str(other.initializer), eviction=other.eviction.to_dict())
        return ", ".join(
            f"{field} is {there[field]} there and {here[field]} here" for field in there if there[field] != here[field]
        )


def check_name(what: str, name: str) -> None:
    """A table's name must be a valid name of an op."""
    if not isinstance(name, str):
        raise TypeError(f"{what}: name is {name!r}, wanted a string")
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{what}: name is {name!r}, wanted letters, digits and any of _.-/ that begin with a letter, "
            "a digit or a dot; it becomes the name of a Variable"
        )


def check_settings(
    what: str, seed: Optional[int], min_frequency: int, eviction: Optional[Mapping[str, Any]], max_rows: Optional[int]
) -> Tuple[Optional[int], int, EvictionSpec, Optional[int]]:
    """Checks the settings that tables and feature columns share, and returns them with the eviction parsed."""
    if seed is not None:
        seed = checked_int(what, "seed", seed, -INT64_MAX - 1)
    min_frequency = checked_int(what, "min_frequency", min_frequency, 0)
    parsed = EvictionSpec.parse(what, eviction)
    if max_rows is not None:
        max_rows = checked_int(what, "max_rows", max_rows, 1)
        if parsed.policy in EVICTION_ORDERS and max_rows <= parsed.limit:
            raise ValueError(
                f"{what}: max_rows is {max_rows} and eviction's max_rows {parsed.limit}; rows leave after a step, "
                "so the limit that raises must leave room for one step's new keys: make it larger, or leave it out"
            )
    return seed, min_frequency, parsed, max_rows
