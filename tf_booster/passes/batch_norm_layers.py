"""Batch normalization by the moments of the batch, recognized: tf.nn.batch_normalization of what tf.nn.moments gives, as every layer is made of these two."""

from __future__ import annotations

import dataclasses
import functools
from typing import Dict, FrozenSet, List, Optional, Set, Tuple

import tensorflow as tf

from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import readers, same, skip_identity, uniform_value
from tf_booster.passes.sources import Sources
from tf_booster.passes.static_integers import static_integers
from tf_booster.passes.swallowed import swallowed
from tf_booster.passes.templates import Template

MADE = ("TfBoosterBatchNorm", "TfBoosterBatchNormGrad")
PARTS = ("scaled", "by_variance", "by_mean")  # The addends of the gradient of x.
_CHOICES = ("Merge", "If", "StatelessIf", "Select", "SelectV2", "Switch")
_ANY_UNITS = 1000003  # In templates, which take 40 ms each; a number that nothing else has.
_OF_OUTPUT = ("Mul", "Sub", "AddV2", "Neg")  # Between the inverse deviation and the output.


@dataclasses.dataclass(frozen=True)
class Kind:
    """What the ops of a layer depend on. shape: of x. keepdims: whether the moments keep the dimensions that they are over."""

    shape: Tuple[Optional[int], ...]
    epsilon: float
    keepdims: bool
    scaled: bool
    shifted: bool


@dataclasses.dataclass(frozen=True)
class Layer:
    """y: the output. gamma, beta: [units], or None. core: the ops that y is made of of x, gamma and beta. ops: with Identities between them."""

    kind: Kind
    x: tf.Tensor
    gamma: Optional[tf.Tensor]
    beta: Optional[tf.Tensor]
    y: tf.Tensor
    mean: Tuple[tf.Tensor, ...]
    variance: Tuple[tf.Tensor, ...]
    core: FrozenSet[tf.Operation]
    ops: FrozenSet[tf.Operation]

    @property
    def given(self) -> List[tf.Tensor]:
        """x, gamma and beta."""
        return [t for t in (self.x, self.gamma, self.beta) if t is not None]

    @property
    def inner(self) -> List[tf.Tensor]:
        """What is computed on the way to y, and is no moment."""
        moments = {t.ref() for t in (*self.mean, *self.variance)}
        tensors = (t for op in self.core if op.type != "Const" for t in op.outputs)
        return [t for t in tensors if t is not self.y and t.ref() not in moments]


def inverse_deviations(view: GraphView, needed: Set[tf.Operation]) -> List[tf.Operation]:
    """The ops Rsqrt that may be of such a layer."""
    return [op for op in view.ops("Rsqrt") if op in needed and op.inputs[0].op.type in ("AddV2", "Add")]


def layer_of(view: GraphView, rsqrt: tf.Operation, needed: Set[tf.Operation]) -> Tuple[Optional[Layer], str]:
    """The layer that `rsqrt` is part of; or None, and why the batch normalization that it is part of is left: "" if it is of none."""
    variance, epsilon = (skip_identity(t) for t in rsqrt.inputs[0].op.inputs)
    if variance.op.type in _CHOICES and epsilon.shape.rank == 0:
        return None, "a tensor says whether it trains (tf.cond); where the program says it as a bool, it is replaced"
    squeezed = variance.op.type == "Squeeze"
    mean_of_squares = skip_identity(variance.op.inputs[0]).op if squeezed else variance.op
    squares = skip_identity(mean_of_squares.inputs[0]).op if mean_of_squares.type == "Mean" else mean_of_squares
    if squares.type != "SquaredDifference":
        return None, ""
    x = skip_identity(squares.inputs[0])
    axes = static_integers(mean_of_squares.inputs[1])
    if x.shape.rank is None or axes is None or x.shape.rank < 2 or sorted(axes) != list(range(x.shape.rank - 1)):
        return None, ""  # A layer normalization, for example.
    if x.dtype != tf.float32:
        return None, f"it is of {x.dtype.name}, not of float32"
    if x.shape[-1] is None or uniform_value(epsilon) is None:
        return None, "its number of units or its epsilon is not known before it runs"
    for end in _outputs(rsqrt, x, needed):
        for scaled in (True, False):
            for shifted in (True, False):
                kind = Kind(tuple(x.shape.as_list()), uniform_value(epsilon), not squeezed, scaled, shifted)
                layer = _match(kind, x, end)
                if layer is not None:
                    return _checked(view, layer)
    return None, "what reads its moments is not what tf.nn.batch_normalization makes"


def _outputs(rsqrt: tf.Operation, x: tf.Tensor, needed: Set[tf.Operation]) -> List[tf.Tensor]:
    """Sums of the shape of x that are computed of `rsqrt` by few ops."""
    found: Dict[tf.Operation, None] = {}
    level = [rsqrt]
    for _ in range(5):
        level = [op for before in level for op in readers(before.outputs[0]) if op in needed and op.type in _OF_OUTPUT]
        found.update((op, None) for op in level if op.type == "AddV2" and op.outputs[0].shape.rank == x.shape.rank)
    return [op.outputs[0] for op in found]


def _match(kind: Kind, x: tf.Tensor, end: tf.Tensor) -> Optional[Layer]:
    found = templates_of(kind)["y"].match(end)
    if found is None or not same(found.holes["x"], x):
        return None
    moments: Dict[str, Tuple[tf.Tensor, ...]] = {}
    squares = next(op for op in found.ops if op.type == "SquaredDifference")
    for name, of in (("mean", x), ("variance", squares.outputs[0])):
        op = next(op for op in found.ops if op.type == "Mean" and same(op.inputs[0], of))
        squeezes = [s for s in found.ops if s.type == "Squeeze" and same(s.inputs[0], op.outputs[0])]
        moments[name] = (op.outputs[0], *(s.outputs[0] for s in squeezes))
    gamma, beta = (found.holes.get(name) for name in ("gamma", "beta"))
    given = [t for t in (x, gamma, beta) if t is not None]
    ops = {op for op in swallowed([end.op], given).ops if not is_free(op) and not _passes_on(op, given)}
    return Layer(kind, x, gamma, beta, end, moments["mean"], moments["variance"], frozenset(found.ops), frozenset(ops))


def _passes_on(op: tf.Operation, given: List[tf.Tensor]) -> bool:
    return op.type == "Identity" and any(same(op.outputs[0], t) for t in given)


def is_free(op: tf.Operation) -> bool:
    """Whether `op` is a constant that waits for nothing; those of gradients may wait for other ops of these."""
    return op.type == "Const" and not op.control_inputs


def _checked(view: GraphView, layer: Layer) -> Tuple[Optional[Layer], str]:
    for name, vector in (("gamma", layer.gamma), ("beta", layer.beta)):
        if vector is not None and vector.shape.as_list() != [layer.kind.shape[-1]]:
            return None, f"{name} is not a vector of its units"
    if not all(view.is_plain(op, *MADE) for op in layer.ops):
        return None, "it is inside of a tf.cond or a loop, compiled by XLA, or where the library has no kernels"
    if len({op.device for op in layer.ops}) > 1:
        return None, "its ops are on several devices"
    # The moments will need gamma and beta, too: a run that updates moving averages alone must not miss a feed for that.
    index, sources = view.index(), Sources(view.graph)
    vectors = [vector.op for vector in (layer.gamma, layer.beta) if vector is not None]
    before = [number for number in index.upstream(vectors) if sources.is_source(index.ops[number])]
    if before and not index.upstream([layer.x.op]).issuperset(before):
        return None, "gamma or beta is not from Variables alone"
    return layer, ""


@functools.lru_cache(maxsize=64)
def templates_of(kind: Kind) -> Dict[str, Template]:
    """By name what the installed TensorFlow makes of such a layer: "y"; of its gradient the addends PARTS of that of x, "gamma" and "beta"."""
    units = kind.shape[-1]
    if units == 1:  # Which could be broadcast.
        return _built(kind)
    others = _built(dataclasses.replace(kind, shape=(*kind.shape[:-1], _ANY_UNITS)))
    return {name: template.where({_ANY_UNITS: units}) for name, template in others.items()}


@functools.lru_cache(maxsize=64)
def _built(kind: Kind) -> Dict[str, Template]:
    units = kind.shape[-1:]
    holes = {"x": (tf.float32, kind.shape), "dy": (tf.float32, kind.shape)}
    holes.update({name: (tf.float32, units) for name, on in _vectors(kind) if on})

    def build(x: tf.Tensor, dy: tf.Tensor, **vectors: tf.Tensor) -> Dict[str, tf.Tensor]:
        mean, variance = tf.nn.moments(x, list(range(len(kind.shape) - 1)), keepdims=kind.keepdims)
        y = tf.nn.batch_normalization(x, mean, variance, vectors.get("beta"), vectors.get("gamma"), kind.epsilon)
        total, *others = tf.compat.v1.gradients(y, [x, *vectors.values()], dy)
        parts = list(skip_identity(total).op.inputs)
        return {"y": y, **dict(zip(PARTS, parts)), **dict(zip(vectors, others))}

    return Template.several(holes, build)


def _vectors(kind: Kind) -> Tuple[Tuple[str, bool], ...]:
    return ("gamma", kind.scaled), ("beta", kind.shifted)
