"""What is known of the tensors of a function of single records, of which row_functions makes one of batches."""

from __future__ import annotations

import dataclasses
from typing import Hashable, Optional, Tuple

import numpy as np


class NotByRow(Exception):
    """Why a function of single records cannot be one of batches."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A tensor that the record decides. shape: without the batch; None: the variant of a SparseTensor. of_steps: see SparsePart."""

    shape: Optional[Tuple[int, ...]]
    of_steps: bool = False


@dataclasses.dataclass(frozen=True)
class Even:
    """Rows that have one shape in a batch, or there is none: batching them is an error. None in `shape`: what that decides."""

    shape: Tuple[Optional[int], ...]


@dataclasses.dataclass(frozen=True)
class Longer:
    """Rows of different lengths along their first dimension, which a batch pads.

    source: where: the name of an argument, of a node, or of a tensor that a node parses; or pieces of a line.
    shape: without the batch and that dimension. cast, computed: whether a Cast, or another op of each element, came behind, which makes
    something else of the padding, too. most: how many of a list's elements are taken; None: all.
    """

    source: Hashable
    shape: Tuple[int, ...] = ()
    cast: bool = False
    computed: bool = False
    most: Optional[int] = None


@dataclasses.dataclass(frozen=True)
class Padding:
    """What padded_batch makes of a component. shape: -1 for as much as the longest row wants."""

    shape: Tuple[int, ...]
    value: np.ndarray


@dataclasses.dataclass(frozen=True)
class Outside:
    """A tensor that is the same for all records. is_vocabulary: a lookup table that, once it is initialized, answers the same for ever."""

    shape: Optional[Tuple[int, ...]]
    value: Optional[np.ndarray] = None
    is_vocabulary: bool = False


@dataclasses.dataclass(frozen=True)
class SparsePart:
    """ "indices", "values" or "shape" of a SparseTensor; values may have been computed, each by itself.

    source: the variant it is in, or its place among the outputs of a parse, node:kind:number. of_steps: it has a list for each step, not one for the record.
    """

    source: str
    part: str
    of_steps: bool = False
