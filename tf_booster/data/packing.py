"""Hundreds of small tensors as one, so that a batch goes to the device in one copy, and there becomes them again by offset."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import tensorflow as tf

from tf_booster import _native

# What cannot be packed: elements without a fixed size. They pass beside.
_BESIDE = (tf.string, tf.variant, tf.resource)

tf.no_gradient("TfBoosterPackTensors")
tf.no_gradient("TfBoosterUnpackTensors")


def pack(element: Any) -> Dict[str, Any]:
    """`element`, any structure of tensors, as {"packed": uint8 [bytes], "layout": string [], "beside": what is not numbers}.

    All numbers lie in "packed", each tensor from a multiple of 64 bytes on, in memory that a GPU reads directly, if there is one.
    """
    numbers, beside = _split(tf.nest.flatten(element, expand_composites=True))
    made: Dict[str, Any] = {"beside": tuple(tensor for _, tensor in beside)}
    if numbers:
        with tf.device("/device:CPU:0"):  # There is a GPU kernel, too, for what is on the card already.
            made["packed"], made["layout"] = _native.ops().tf_booster_pack_tensors([tensor for _, tensor in numbers])
    return made


def pack_batches(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """pack() of each element, several at once, in order."""
    is_tuple = isinstance(dataset.element_spec, tuple)  # Then a map's function gets its members.
    return dataset.map(
        lambda *parts: pack(parts if is_tuple else parts[0]), num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )


def unpack(packed: Dict[str, Any], spec: Any) -> Any:
    """The element that pack() was given, whose TypeSpecs are `spec`. Its numbers are parts of packed["packed"], not copies."""
    parts = tf.nest.flatten(spec, expand_composites=True)
    numbers, beside = _split(parts)
    tensors: List[Any] = [None] * len(parts)
    for (index, _), tensor in zip(beside, packed["beside"]):
        tensors[index] = tensor
    if numbers:
        specs = [part for _, part in numbers]
        outputs = _native.ops().tf_booster_unpack_tensors(
            packed["packed"], packed["layout"], T=[s.dtype for s in specs], shapes=[s.shape for s in specs]
        )
        for (index, _), tensor in zip(numbers, outputs):
            tensors[index] = tensor
    return tf.nest.pack_sequence_as(spec, tensors, expand_composites=True)


def _split(parts: List[Any]) -> Tuple[List[Tuple[int, Any]], List[Tuple[int, Any]]]:
    numbered = list(enumerate(parts))
    return [p for p in numbered if p[1].dtype not in _BESIDE], [p for p in numbered if p[1].dtype in _BESIDE]
