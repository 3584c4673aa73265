"""A GPU for the rewriting, where none is: ops are asked of the record of GPU kernels, and TensorFlow runs them on the CPU."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Iterator

import pytest

sys.path.append(os.path.join(os.path.dirname(__file__), os.pardir, "passes"))
import gpu_kernels  # noqa: E402


@contextlib.contextmanager
def simulated_card(wanted: bool = True) -> Iterator[None]:
    """Sessions inside need allow_soft_placement."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        if wanted:
            gpu_kernels.pretend(monkeypatch)
        yield
