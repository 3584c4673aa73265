"""Loads the native library, once, after checking that it was built for the TensorFlow that runs."""

from __future__ import annotations

import functools
import mmap
import os
import re
import sys
from types import ModuleType
from typing import Dict

import tensorflow as tf

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_MARK = rb"tf_booster_build_info:([ -~]*)"


def shared_object() -> str:
    """Where the native library is; serving processes may load it with `tf.load_op_library` alone.

    $TF_BOOSTER_LIBRARY names another build of it, for tests.
    """
    return os.environ.get("TF_BOOSTER_LIBRARY") or os.path.join(_PACKAGE, "libtf_booster_ops.so")


def build_info(path: str) -> Dict[str, str]:
    """What the library at `path` was built for: `tensorflow` and `cuda` (empty without). Empty for any other file.

    Reads the file as bytes. A library for another TensorFlow must not be loaded even for a look: its static initializers
    register ops and may crash the process.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        found = re.search(_MARK, content)
        text = found[1].decode() if found else ""
    pairs = filter(None, text.split(";"))
    return dict(pair.split("=", 1) for pair in pairs)


def _rebuild_command() -> str:
    checkout = os.path.dirname(_PACKAGE)
    if os.path.exists(os.path.join(checkout, "cc", "native.mk")):
        return f"make -C {checkout} lib PYTHON={sys.executable}"
    return f"{sys.executable} -m pip install --force-reinstall --no-deps --no-cache-dir <tf_booster's source folder>"


def tensorflow_version() -> str:
    """The version of the TensorFlow that runs."""
    return tf.version.VERSION


def check(path: str) -> None:
    """Raises ImportError, with the command that rebuilds it, unless `path` is a library for the TensorFlow that runs."""
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        raise ImportError(f"tf_booster: the native library {path} is missing; build it: {_rebuild_command()}")
    built_for = build_info(path).get("tensorflow", "an unknown version")
    if built_for != tf.version.VERSION:
        raise ImportError(
            f"tf_booster: the native library was built for TensorFlow {built_for} but TensorFlow {tf.version.VERSION} "
            f"is installed; rebuild it: {_rebuild_command()}"
        )


@functools.cache
def ops() -> ModuleType:
    """The generated op functions, as `tf.load_op_library` gives them (`ops().tf_booster_table_probe` and so on).

    Raises:
      ImportError: the library is missing, was built for another TensorFlow, or does not load; says how to rebuild it.
    """
    path = shared_object()
    check(path)
    try:
        return tf.load_op_library(path)
    except tf.errors.NotFoundError as error:  # TensorFlow's name for every failure of dlopen.
        raise ImportError(
            f"tf_booster: the native library does not load: {error.message}; rebuild it: {_rebuild_command()}"
        ) from error
