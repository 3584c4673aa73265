"""Where a table lives: in host memory or on the card. docs/gpu.md says what runs where.

All ops that take a table's handle run where the table is: TensorFlow puts them together. So an op of the rewrite gets one of three
devices. HOST for a table in host memory. None for one that TensorFlow places: on the card, as it prefers a GPU wherever all ops of a
group have a kernel for it, and on the CPU in a session without one (`device_count={"GPU": 0}`, an export that is served elsewhere).
A named GPU where the program or `device="gpu"` asks for it.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes.base import RewriteError

HOST = "/device:CPU:0"
CARD = "/device:GPU:0"

# What each step runs on the card; a library that was built without nvcc has none of them for it.
_STEP = ("TfBoosterHashTable", "TfBoosterTableProbe", "TfBoosterTableGather")

NO_GPU = "TensorFlow sees no GPU"
NO_KERNELS = "the native library was built without CUDA; build it where nvcc 12 or later is (make lib)"
_RANKS = "in host memory: several ranks with tables on cards have not run on cards yet; device='gpu' puts it there"
_PINNED = "in host memory, where the program's tf.device put it; device='gpu' puts it on the card all the same"


class Placement(NamedTuple):
    """Where a table lives.

    device: what its ops are constrained to; None leaves it to TensorFlow. kind: "cpu" or "gpu". reason: why it is not on the card,
    where somebody might expect it there; else "".
    """

    device: Optional[str] = HOST
    kind: str = "cpu"
    reason: str = ""


class RowRooms(NamedTuple):
    """Where rows of tables are: options table_memory_fraction and table_directory."""

    fraction: float = 0.75
    directory: str = ""


IN_HOST_MEMORY = Placement()
DEFAULT_ROOMS = RowRooms()


def obstacle() -> str:
    """Why no table can be on a card here, or "". Needs the native library loaded."""
    if not tf.config.get_visible_devices("GPU"):
        return NO_GPU
    if not all(_compat.has_gpu_kernel(op_type, {}) for op_type in _STEP):
        return NO_KERNELS
    return ""


class Placer:
    """Decides for one graph.

    Args:
      wanted: the option `device`.
      several_ranks: whether tables are divided over ranks.
    """

    def __init__(self, wanted: str = "auto", several_ranks: bool = False):
        self._wanted, self._several_ranks = wanted, several_ranks
        self._obstacle = "" if wanted == "cpu" else obstacle()

    def place(self, table: str, handle_op: Optional[tf.Operation]) -> Placement:
        """Where `table` goes, whose stand-in's VarHandleOp is `handle_op`.

        Raises:
          RewriteError: device="gpu", and it cannot be there.
        """
        if self._wanted == "cpu":
            return IN_HOST_MEMORY
        if self._obstacle and self._wanted == "gpu":
            raise RewriteError(f"Table '{table}': device='gpu', but {self._obstacle}; leave out device='gpu'.")
        if self._obstacle:
            return Placement(reason="" if self._obstacle == NO_GPU else f"in host memory: {self._obstacle}")
        asked = tf.DeviceSpec.from_string(handle_op.device if handle_op is not None else "")
        if self._wanted == "gpu":
            return Placement(_card(asked) or CARD, "gpu")
        if self._several_ranks:
            return Placement(reason=_RANKS)
        if asked.device_type == "CPU":
            return Placement(reason=_PINNED)
        return Placement(_card(asked), "gpu")


def _card(asked: tf.DeviceSpec) -> Optional[str]:
    return f"/device:GPU:{asked.device_index or 0}" if asked.device_type == "GPU" else None
