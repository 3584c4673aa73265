"""What is known of a tensor in the part of a graph that is made of repeated features alone. docs/design/repeated_features.md has the rules."""

from __future__ import annotations

import dataclasses
from typing import Hashable, NamedTuple, Optional, Tuple

BATCH = "batch"  # What most rows are rows of. Others: the entries of a SparseTensor, the distinct ids of a lookup.


class NotByRow(Exception):
    """An op is not known to compute each row from that row alone; the message says why."""


class MixesCodes(Exception):
    """Codes of a probe of tables reach a gather on a way that is not understood; `probe` has to stay as it is."""

    def __init__(self, probe: str):
        super().__init__(probe)
        self.probe = probe


@dataclasses.dataclass(frozen=True)
class Rows:
    """`times` rows along dimension 0 for each of `base` (None: a number that is not known), made of that one alone.

    coded: name of the probe of tables whose codes these are; they mean nothing beside another probe's.
    """

    base: Hashable = BATCH
    times: Optional[int] = 1
    coded: str = ""


BATCH_ROWS = Rows()


class Size(NamedTuple):
    """`times` for each of `base`; without a base a number that does not depend on how many rows there are. None: not known."""

    base: Optional[Hashable]
    times: Optional[int]


ONE_A_ROW = Size(BATCH, 1)


@dataclasses.dataclass(frozen=True)
class Sizes:
    """A scalar or a vector of sizes."""

    elements: Tuple[Size, ...]

    @property
    def fixed(self) -> bool:
        return all(size.base is None for size in self.elements)


@dataclasses.dataclass(frozen=True)
class Fixed:
    """Computed of the features, but the same however many of their rows are given."""


@dataclasses.dataclass(frozen=True)
class RowNumbers:
    """0 to the number of `base`, each `each` times in turn; of any shape."""

    base: Hashable
    each: Optional[int]


@dataclasses.dataclass(frozen=True)
class IndexColumns:
    """[2, n]: row numbers, and the places in their rows, of `entries`."""

    entries: Rows


@dataclasses.dataclass(frozen=True)
class Indices:
    """[n, rank]: where `entries` stand in a tensor of the batch; the first column is the row."""

    entries: Rows


@dataclasses.dataclass(frozen=True)
class Part:
    """What TfBoosterPrepareLookups gives beside ids, for the lookup `of`: "idx", "splits" or "weights". times: of the lookup's rows."""

    what: str
    of: Hashable
    times: Optional[int] = 1


@dataclasses.dataclass(frozen=True)
class Probed:
    """What a probe gives beside codes."""

    probe: str


@dataclasses.dataclass(frozen=True)
class Renamed:
    """Of other features, but in the codes of a probe that is made anew."""

    probe: str


@dataclasses.dataclass(frozen=True)
class Moved:
    """Of other features, and the same as it was, but given by an op that is made anew."""
