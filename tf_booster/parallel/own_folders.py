"""Folders in which a rank above 0 saves checkpoints of its own: programs that use Horovod themselves often give a model_dir to rank 0 alone,
and the others' Estimators make temporary ones. What is saved there is this rank's, as without tf_booster; in the one folder of all ranks
rank 0 saves alone.
"""

from __future__ import annotations

import os
from typing import Set

_own: Set[str] = set()
_known: Set[str] = set()


def compare(folder: str, of_rank_0: str) -> None:
    """Notes whether `folder`, in which this rank saves, is another one than that of rank 0."""
    same = os.path.realpath(folder) == os.path.realpath(of_rank_0)
    if not same and os.path.exists(folder) and os.path.exists(of_rank_0):
        same = os.path.samefile(folder, of_rank_0)
    (_own.discard if same else _own.add)(folder.rstrip("/"))
    _known.add(folder.rstrip("/"))


def is_known(folder: str) -> bool:
    """Whether compare() was called for it."""
    return folder.rstrip("/") in _known


def has(prefix: str) -> bool:
    """Whether the checkpoint `prefix` is to be in such a folder."""
    return os.path.dirname(prefix) in _own
