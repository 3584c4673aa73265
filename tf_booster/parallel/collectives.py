"""Collectives as ops of a graph: few and large, because each waits for the other ranks, and for Horovod's cycle and negotiation (0.5 to 1.4 ms).

Where all ranks share memory (host_ranks.py) they are ops of tf_booster's own, else Horovod's. All ranks must make the same ones, in one
order: a collective is known by its op's name, tf_booster/<kind>/<name>. The kinds are those of report()["collectives_per_step"]. What
goes into Horovod's and what comes out is pinned: TensorFlow's optimizers would otherwise fold a collective of constants, or drop one
that only control edges lead from. A graph of one rank may have them too.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Sequence, Tuple

import tensorflow as tf

from tf_booster import _compat, _native
from tf_booster.parallel import host_ranks, ranks

KINDS = ("tables", "dense", "sparse", "other")

_SCOPE = "tf_booster"
_HOST = "/device:CPU:0"
HOST_TYPES = ("TfBoosterHostAllReduce", "TfBoosterHostAllGather", "TfBoosterHostAllToAll")
_TYPES = ("HorovodAllreduce", "HorovodAllgather", "HorovodAlltoall", "HorovodBroadcast", *HOST_TYPES)
_UNPACKING = ("TfBoosterUnpackTensors", "TfBoosterUnpackRows", "Split", "SplitV", "Reshape")
_SUMMED_ON_HOST = (tf.float32, tf.float64, tf.int32, tf.int64)

for _op in ("TfBoosterPin", "TfBoosterPackRows", "TfBoosterUnpackRows", *HOST_TYPES):
    tf.no_gradient(_op)


def pin(tensor: tf.Tensor, name: str = "pin") -> tf.Tensor:
    """`tensor` as it is, with what made it kept: TensorFlow's optimizers see neither through it nor leave it out."""
    return _native.ops().tf_booster_pin(tensor, name=name)


def scope(kind: str) -> Any:
    """The name scope of collectives of `kind`, one of KINDS, and of the ops around them, whatever scope the caller is in."""
    if kind not in KINDS:
        raise ValueError(f"a collective's kind is {kind!r}; wanted one of {', '.join(KINDS)}")
    return tf.name_scope(f"{_SCOPE}/{kind}/")


def all_reduce_packed(tensors: Sequence[tf.Tensor], kind: str, name: str = "all_reduce") -> List[tf.Tensor]:
    """The sums over all ranks of `tensors`, by one all-reduce for each dtype among them.

    Args:
      tensors: numbers, of shapes that are the same on all ranks.
      kind: one of KINDS.
      name: of the collective; with several dtypes, the second and further ones are called <name>_<dtype>.

    Returns:
      A tensor for each of `tensors`, of its shape. They are parts of one buffer.
    """
    summed: List[tf.Tensor] = [None] * len(tensors)
    for place, (dtype, members) in enumerate(by_dtype(tensors).items()):
        vector, unpack = pack_vector([tensors[i] for i in members], kind)
        total = all_reduce_vector(vector, kind, f"{name}_{dtype.name}" if place else name)
        for i, part in zip(members, unpack(total)):
            summed[i] = part
    return summed


def by_dtype(tensors: Sequence[tf.Tensor]) -> Dict[tf.DType, List[int]]:
    """The places of the tensors of each dtype, float32 first: what is packed together."""
    found: Dict[tf.DType, List[int]] = {}
    for i, tensor in enumerate(tensors):
        found.setdefault(tensor.dtype.base_dtype, []).append(i)
    return dict(sorted(found.items(), key=lambda entry: entry[0] != tf.float32))


def pack_vector(tensors: Sequence[tf.Tensor], kind: str) -> Tuple[tf.Tensor, Callable[[tf.Tensor], List[tf.Tensor]]]:
    """Tensors of one dtype in one vector, and the function that makes such a vector tensors of their shapes again.

    On the CPU each begins at a multiple of 64 bytes, with zeros between, so that they are parts of the vector and not copies. What is on
    a GPU stays there, one after another without gaps.
    """
    if any(_compat.is_in_gpu_memory(tensor) for tensor in tensors):
        return _concatenate(tensors, kind)
    dtype = tensors[0].dtype.base_dtype
    with scope(kind):
        packed, layout = _pack(tensors)
        vector = tf.bitcast(tf.reshape(packed, [-1, dtype.size]) if dtype.size > 1 else packed, dtype)

    def unpack(received: tf.Tensor) -> List[tf.Tensor]:
        with scope(kind):
            return _unpack(tf.reshape(tf.bitcast(received, tf.uint8), [-1]), layout, tensors)

    return vector, unpack


def _concatenate(tensors: Sequence[tf.Tensor], kind: str) -> Tuple[tf.Tensor, Callable[[tf.Tensor], List[tf.Tensor]]]:
    with scope(kind):
        vector = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0, name="pack")

    def unpack(received: tf.Tensor) -> List[tf.Tensor]:
        with scope(kind):
            shapes = [tensor.shape if tensor.shape.is_fully_defined() else tf.shape(tensor) for tensor in tensors]
            sizes = tf.stack([tf.size(tensor) for tensor in tensors])
            parts = tf.split(received, sizes, num=len(tensors), name="unpack")
            return [tf.reshape(part, shape) for part, shape in zip(parts, shapes)]

    return vector, unpack


def all_reduce_vector(vector: tf.Tensor, kind: str, name: str = "all_reduce") -> tf.Tensor:
    """The sum over all ranks of `vector`, numbers of a shape that is the same on all of them."""
    with scope(kind):
        if host_ranks.connected() and vector.dtype.base_dtype in _SUMMED_ON_HOST:
            return _native.ops().tf_booster_host_all_reduce(vector, **_named(name))
        hvd = ranks.horovod()
        return pin(hvd.allreduce(pin(vector), op=hvd.Sum, name=name))


def all_gather_packed(tensors: Sequence[tf.Tensor], kind: str, name: str = "all_gather") -> List[tf.Tensor]:
    """Of each of `tensors` the rows of all ranks, in the order of ranks, by one all-gather.

    Args:
      tensors: numbers, of any dtypes; the numbers of rows may differ between ranks and be 0, the rest of the shape is static.
      kind: one of KINDS.
      name: of the collective.

    Raises:
      ValueError: of a tensor more than the number of rows is unknown.
    """
    rows = [tensor.shape[1:] if tensor.shape.rank else None for tensor in tensors]
    for tensor, row in zip(tensors, rows):
        if row is None or not row.is_fully_defined():
            raise ValueError(
                f"all_gather_packed: '{tensor.name}' has shape {tensor.shape}; all but the number of rows must be known"
            )
    dtypes = [tensor.dtype.base_dtype for tensor in tensors]
    with scope(kind):
        packed = _native.ops().tf_booster_pack_rows(list(tensors), name="pack_rows")
        if host_ranks.connected():
            gathered = _native.ops().tf_booster_host_all_gather(packed, **_named(name))
        else:
            gathered = ranks.horovod().allgather(packed, name=name)
        size = ranks.current().size
        unpack = _native.ops().tf_booster_unpack_rows
        return list(unpack(gathered, T=dtypes, row_shapes=rows, ranks=size, name="unpack_rows"))


def broadcast_packed(
    tensors: Sequence[tf.Tensor], kind: str, root: int = 0, name: str = "broadcast"
) -> List[tf.Tensor]:
    """What `tensors` are on rank `root`, by one broadcast.

    Args:
      tensors: numbers, of any dtypes, and of shapes that are the same on all ranks.
      kind: one of KINDS.
      root: the rank that sends.
      name: of the collective.
    """
    with scope(kind):
        packed, layout = _pack(tensors)
        sent = pin(ranks.horovod().broadcast(pin(packed), root, name=name))
        return _unpack(sent, layout, tensors)


def all_to_all(
    tensor: tf.Tensor, splits: tf.Tensor, kind: str, name: str = "all_to_all"
) -> Tuple[tf.Tensor, tf.Tensor]:
    """Sends the first splits[0] rows of `tensor` to rank 0, the next splits[1] to rank 1, and so on.

    Args:
      tensor: numbers, rank 1 at least; the shape without the first dimension is the same on all ranks.
      splits: int32 [size], which adds up to the number of rows.
      kind: one of KINDS.
      name: of the collective.

    Returns:
      (received, received_splits): the rows from rank 0, from rank 1, …, and int32 [size], how many from each.
    """
    with scope(kind):
        if host_ranks.connected():
            exchanged = _native.ops().tf_booster_host_all_to_all(tensor, splits, **_named(name))
            return exchanged.received, exchanged.received_splits
        with tf.device(_HOST):  # Where it is read, also if the rows are on a card.
            splits = pin(splits)
        received, received_splits = ranks.horovod().alltoall(pin(tensor), splits, name=name)
        with tf.device(_HOST):
            received_splits = pin(received_splits)
        return pin(received), received_splits


def _named(name: str) -> Dict[str, str]:
    """The name of an op of this graph and scope, and the same as the collective's, by which other ranks find it."""
    graph = tf.compat.v1.get_default_graph()
    return {"name": name, "collective": graph.unique_name(name, mark_as_used=False)}


def is_collective(op: tf.Operation) -> bool:
    """Whether `op` is a collective of this module."""
    return op.type in _TYPES and op.name.startswith(_SCOPE + "/")


def gives_the_same(op: tf.Operation) -> bool:
    """Whether ranks have the same of what `op` gives: it is a collective, or takes apart what one of this module has brought."""
    unpacks = op.type in _UNPACKING and op.name.startswith(_SCOPE + "/")
    return is_collective(op) or is_users_collective(op) or unpacks


def is_users_collective(op: tf.Operation) -> bool:
    """Whether `op` is a collective that the program made with Horovod itself."""
    return is_horovods(op.type) and not op.name.startswith(_SCOPE + "/")


def is_horovods(op_type: str) -> bool:
    """Whether ops of this type are collectives of Horovod, whoever made them."""
    return op_type.startswith("Horovod") and op_type not in _QUESTIONS


_QUESTIONS = ("HorovodSize", "HorovodRank", "HorovodLocalSize", "HorovodLocalRank", "HorovodProcessSetIncluded")


def count_by_kind(ops: Iterable[tf.Operation]) -> Dict[str, int]:
    """How many collectives of each kind are among `ops`."""
    counts = dict.fromkeys(KINDS, 0)
    for op in ops:
        if is_collective(op):
            counts[kind_of(op)] += 1
    return counts


def kind_of(op: tf.Operation) -> str:
    """The kind of a collective, one of KINDS. A copy of it that runs a step ahead is of the same kind."""
    return next(part for part in op.name.split("/") if part in KINDS)


def _pack(tensors: Sequence[tf.Tensor]) -> Tuple[tf.Tensor, tf.Tensor]:
    with tf.device("/device:CPU:0"):  # TensorFlow would rather have it on a GPU, where there is one.
        return _native.ops().tf_booster_pack_tensors(list(tensors), name="pack")


def _unpack(packed: tf.Tensor, layout: tf.Tensor, like: Sequence[tf.Tensor]) -> List[tf.Tensor]:
    dtypes, shapes = [tensor.dtype.base_dtype for tensor in like], [tensor.shape for tensor in like]
    return list(_native.ops().tf_booster_unpack_tensors(packed, layout, T=dtypes, shapes=shapes, name="unpack"))
