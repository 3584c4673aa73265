"""The GPU kernels of the package's ops, as a library that nvcc helped to build registers them.

They are recorded in data/gpu_kernels.txt, a kernel a line, so that tests ask the same of a library that was built without CUDA:

    <op> [<attr>=<type>,…]… [host=<argument>,…]

`python tests/passes/gpu_kernels.py` writes the file anew, with a library that was built with CUDA.
"""

from __future__ import annotations

import os
from typing import Dict, List, Tuple

import tensorflow as tf
from tensorflow.python.framework import kernels

from tf_booster import _compat, _native

RECORD = os.path.join(os.path.dirname(__file__), "data", "gpu_kernels.txt")


def registered(device_type: str) -> List[Tuple[str, str]]:
    """Pairs of an op of the package and the line of a kernel of it, of the library that is loaded."""
    _native.ops()
    lines = []
    for kernel in kernels.get_all_registered_kernels().kernel:
        if kernel.op.startswith("TfBooster") and kernel.device_type == device_type:
            types = sorted(
                f"{c.name}={','.join(sorted(tf.as_dtype(t).name for t in c.allowed_values.list.type))}"
                for c in kernel.constraint
            )
            host = [f"host={','.join(sorted(kernel.host_memory_arg))}"] if kernel.host_memory_arg else []
            lines.append((kernel.op, " ".join([kernel.op, *types, *host])))
    return sorted(lines, key=lambda entry: entry[1])


def recorded_lines() -> List[str]:
    """The lines of the record."""
    with open(RECORD, encoding="utf-8") as record:
        return record.read().splitlines()


def recorded() -> Dict[str, Tuple[_compat.GpuKernel, ...]]:
    """The record as _compat has kernels: by op."""
    found: Dict[str, Tuple[_compat.GpuKernel, ...]] = {}
    for line in recorded_lines():
        op, *words = line.split()
        pairs = dict(word.split("=") for word in words)
        host = frozenset(filter(None, pairs.pop("host", "").split(",")))
        types = tuple(
            (name, frozenset(tf.as_dtype(t).as_datatype_enum for t in some.split(","))) for name, some in pairs.items()
        )
        found[op] = (*found.get(op, ()), _compat.GpuKernel(types, host))
    return found


def pretend(monkeypatch) -> None:
    """A library that was built with CUDA, and one GPU. Nothing can be run on it."""
    known, of_tensorflow = recorded(), _compat._gpu_kernels  # pylint: disable=protected-access

    def kernels_of(op_type):
        return known.get(op_type, ()) if op_type.startswith("TfBooster") else of_tensorflow(op_type)

    monkeypatch.setattr(_compat, "_gpu_kernels", kernels_of)
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind=None: ["one"] if kind == "GPU" else [])


if __name__ == "__main__":
    with open(RECORD, "w", encoding="utf-8") as out:
        out.write("".join(f"{line}\n" for _, line in registered("GPU")))
