"""Runs that stay on their caller's thread, as TensorFlow's own threads would do them.

TensorFlow's threads take numbers below 1.2e-38 for zero; a thread of Python keeps them, and optimizer slots would differ.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Callable

from tf_booster import _native


def flushing(call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, in which denormal numbers are zero on its caller's thread; behind it they are what they were."""
    library = _library()

    @functools.wraps(call)
    def flushed(*args: Any, **kwargs: Any) -> Any:
        before = library.tf_booster_flush_denormals()
        try:
            return call(*args, **kwargs)
        finally:
            library.tf_booster_restore_denormals(before)

    return flushed


@functools.cache
def _library() -> ctypes.PyDLL:
    library = ctypes.PyDLL(
        _native.shared_object()
    )  # Which keeps the interpreter's lock: a call takes less than a microsecond.
    library.tf_booster_flush_denormals.restype = ctypes.c_uint32
    library.tf_booster_restore_denormals.argtypes = [ctypes.c_uint32]
    library.tf_booster_restore_denormals.restype = None
    return library
