"""TensorFlow's own GPU kernels, as its package with them registers them, for cc/ptx_card: a line for each op, types and places.

    python tools/tensorflow_gpu_kernels.py > tests/gpu/tensorflow_kernels.txt

with a Python whose TensorFlow is the package `tensorflow`, not `tensorflow-cpu`; no card is needed.
"""

from __future__ import annotations

import collections
import itertools
from typing import Dict, Iterator, List, Tuple

import tensorflow as tf
from tensorflow.core.framework import kernel_def_pb2
from tensorflow.python.framework import kernels

# Lists and arrays of tensors, which keep what is on the card within host objects; and what has no CPU kernel to stand for it.
_WITHOUT = (
    "TensorList",
    "TensorArray",
    "EmptyTensorList",
    "Nccl",
    "_Nccl",
    "TRT",
    "CudnnRNN",
    "CSRSparse",
    "SparseMatrix",
)


def _lines(found: List[kernel_def_pb2.KernelDef]) -> Iterator[str]:
    on_cpu = {kernel.op for kernel in found if kernel.device_type == "CPU"}
    groups: Dict[Tuple, set] = collections.defaultdict(set)
    for kernel in found:
        if kernel.device_type != "GPU" or kernel.label or kernel.op not in on_cpu or kernel.op.startswith(_WITHOUT):
            continue
        types = {c.name: tuple(tf.as_dtype(t).name for t in c.allowed_values.list.type) for c in kernel.constraint}
        groups[kernel.op, tuple(sorted(types)), tuple(sorted(kernel.host_memory_arg))].update(
            itertools.product(*(types[name] for name in sorted(types)))
        )
    for (op, names, host), combinations in sorted(groups.items()):
        for types in _merged(combinations):
            words = [f"{name}={','.join(some)}" for name, some in zip(names, types)]
            yield " ".join([op, *words, *([f"host={','.join(host)}"] if host else [])])


def _merged(combinations: set) -> List[Tuple[Tuple[str, ...], ...]]:
    """Products of types that together are `combinations`; no combination is in two."""
    by_rest: Dict[Tuple, List[str]] = collections.defaultdict(list)
    for first, *rest in sorted(c for c in combinations if c):
        by_rest[tuple(rest)].append(first)
    by_first: Dict[Tuple, set] = collections.defaultdict(set)
    for rest, firsts in by_rest.items():
        by_first[tuple(firsts)].add(rest)
    if not by_first:
        return [()]
    return [(firsts, *rest) for firsts, rests in sorted(by_first.items()) for rest in _merged(rests)]


if __name__ == "__main__":
    print("\n".join(_lines(list(kernels.get_all_registered_kernels().kernel))))
