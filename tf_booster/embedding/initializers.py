"""Reads what TensorFlow's initializers say, so that the table can draw the same distribution for each key.

A row of a table is made when its key is first seen, so the table cannot run an initializer's ops; it needs kind and
numbers.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Mapping, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from tf_booster.arguments import is_number
from tf_booster.embedding.table_spec import InitializerSpec

SUPPORTED = (
    "zeros, ones, constant (one number), random_uniform, random_normal and truncated_normal, as "
    "tf.compat.v1.*_initializer, tf.*_initializer or tf.keras.initializers.*"
)

# What TensorFlow puts into an op's `seed` when the user gave an initializer a seed and the graph none; the user's is
# `seed2`.
_DEFAULT_GRAPH_SEED = 87654321


class ReadInitializer(NamedTuple):
    """An initializer's distribution, and its seed where the user gave it one."""

    spec: InitializerSpec
    seed: Optional[int]


def from_initializer(initializer: Any, what: str) -> ReadInitializer:
    """Reads an initializer: an object, class or Keras name of TensorFlow's, a number, or an InitializerSpec.

    Args:
      initializer: see above.
      what: opens the messages, e.g. "get_hash_table 'user'".

    Raises:
      ValueError: the initializer has no form that a table can draw by key; names the ones that have.
    """
    if isinstance(initializer, InitializerSpec):
        return ReadInitializer(initializer, None)
    called = f"{what}: initializer {initializer!r}"
    if is_number(initializer):
        return ReadInitializer(_drawn(called, lambda: InitializerSpec("constant", initializer)), None)
    unknown = f"{what}: initializer is {initializer!r}, wanted one of {SUPPORTED}"
    if isinstance(initializer, str):
        try:
            initializer = tf.keras.initializers.get(initializer)
        except ValueError:
            raise ValueError(unknown) from None
    elif inspect.isclass(initializer) and _is_tensorflows(initializer):
        initializer = initializer()
    reader = _READERS.get(type(initializer).__name__) if _is_tensorflows(type(initializer)) else None
    if reader is None:
        raise ValueError(unknown)
    config = initializer.get_config()
    return ReadInitializer(_drawn(called, lambda: reader(_Config(config))), config.get("seed"))


def _drawn(called: str, make: Callable[[], InitializerSpec]) -> InitializerSpec:
    try:
        return make()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{called}: {error}") from None


class _Config:
    """An initializer's config, read as numbers."""

    def __init__(self, config: Mapping[str, Any]):
        self._config = config

    def number(self, argument: str) -> float:
        value = self._config[argument]
        if isinstance(value, (tf.Tensor, np.ndarray, np.generic)):
            found = tf.get_static_value(value) if isinstance(value, tf.Tensor) else np.asarray(value)
            if found is not None and found.size == 1:
                value = found.item()
        if not is_number(value):
            raise ValueError(
                f"{argument} is {value!r}, wanted a number that is known when the graph is built; each key's row is drawn alike"
            )
        return value


def _uniform(config: _Config) -> InitializerSpec:
    # tf.compat.v1's maxval is None unless given, and stands for 1.
    maximum = 1.0 if config._config["maxval"] is None else config.number("maxval")
    return InitializerSpec("uniform", config.number("minval"), maximum)


# Class names are the same in tf.compat.v1, tf and tf.keras, and so are the names in get_config.
_READERS = {
    "Zeros": lambda config: InitializerSpec("constant", 0.0),
    "Ones": lambda config: InitializerSpec("constant", 1.0),
    "Constant": lambda config: InitializerSpec("constant", config.number("value")),
    "RandomUniform": _uniform,
    "RandomNormal": lambda config: InitializerSpec("normal", config.number("mean"), config.number("stddev")),
    "TruncatedNormal": lambda config: InitializerSpec(
        "truncated_normal", config.number("mean"), config.number("stddev")
    ),
}


def _is_tensorflows(cls: type) -> bool:
    # A user's subclass overrides __call__, so only the exact classes count.
    return cls.__module__.split(".")[0] in ("tensorflow", "keras")


_DISTRIBUTIONS = {
    "TruncatedNormal": "truncated_normal",
    "RandomStandardNormal": "normal",
    "RandomUniform": "uniform",
    "StatelessTruncatedNormal": "truncated_normal",
    "StatelessTruncatedNormalV2": "truncated_normal",
    "StatelessRandomNormal": "normal",
    "StatelessRandomNormalV2": "normal",
    "StatelessRandomUniform": "uniform",
    "StatelessRandomUniformV2": "uniform",
}


class _Affine(NamedTuple):
    """scale * draw + offset, where `draw` is a standard distribution's op, or None for a constant."""

    draw: Optional[tf.Operation]
    scale: float
    offset: float


def from_initial_value_op(op: tf.Operation, what: str) -> ReadInitializer:
    """Reads an initializer back from the subgraph that computes a Variable's initial value.

    For Variables that TensorFlow's own code made from an initializer (embedding_column, linear_model). TensorFlow
    builds its draws as draw * scale + offset; any chain of such ops on constants is read.

    The seed is returned where the graph shows that the user gave it: an op's seed without a seed of the graph. The seed
    of a stateless op may be a random number that Keras drew in this process, and must not decide the rows of a table.

    Args:
      op: computes the initial value, e.g. the value input of the AssignVariableOp in the Variable's initializer.
      what: opens the messages, e.g. "table 'input_layer/user_embedding/embedding_weights'".

    Raises:
      ValueError: the subgraph is none of these; names the op found and the supported initializers.
    """
    draw, scale, offset = _read_affine(op.outputs[0], what)
    if draw is None:
        return ReadInitializer(InitializerSpec("constant", offset), None)
    kind = _DISTRIBUTIONS[draw.type]
    seed = None
    if not draw.type.startswith("Stateless") and draw.get_attr("seed") == _DEFAULT_GRAPH_SEED:
        seed = draw.get_attr("seed2")
    spread = offset + scale if kind == "uniform" else scale
    return ReadInitializer(InitializerSpec(kind, offset, spread), seed)


def _read_affine(value: tf.Tensor, what: str) -> _Affine:
    op = value.op
    if op.type in _DISTRIBUTIONS:
        return _Affine(op, 1.0, 0.0)
    if op.type in ("Identity", "StopGradient", "Fill"):
        return _read_affine(op.inputs[1 if op.type == "Fill" else 0], what)
    if op.type in ("Mul", "Add", "AddV2", "Sub"):
        left, right = (_read_affine(operand, what) for operand in op.inputs)
        if right.draw is None:
            if op.type == "Mul":
                return _Affine(left.draw, left.scale * right.offset, left.offset * right.offset)
            sign = -1.0 if op.type == "Sub" else 1.0
            return _Affine(left.draw, left.scale, left.offset + sign * right.offset)
        if left.draw is None and op.type != "Sub":
            if op.type == "Mul":
                return _Affine(right.draw, right.scale * left.offset, right.offset * left.offset)
            return _Affine(right.draw, right.scale, right.offset + left.offset)
    constant = tf.get_static_value(value)
    if constant is not None and constant.size > 0 and np.all(constant == constant.flat[0]):
        return _Affine(None, 1.0, float(constant.flat[0]))
    raise ValueError(f"{what}: the initial value comes from {op.type} {op.name!r}, wanted one of {SUPPORTED}")
