"""Which tensors of a graph are the features of which name: what an Estimator gave its model function, or the placeholders of a plain graph."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster.passes.fetches import fetches_of
from tf_booster.passes.graph_view import GraphView

_noted: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph -> NamedFeatures.
_wanted: Tuple[str, ...] = ()


class Sparse(NamedTuple):
    """The three tensors of a tf.SparseTensor."""

    indices: tf.Tensor
    values: tf.Tensor
    dense_shape: tf.Tensor


@dataclasses.dataclass(frozen=True)
class NamedFeatures:
    """features: Tensors, SparseTensors and others by name. fed_together: whether each run is given all of them. also_fetched: names of
    ops that may be fetched beside those that fetches_of() knows. missing: why there are none, or ""."""

    features: Mapping[str, Any]
    fed_together: bool = True
    also_fetched: FrozenSet[str] = frozenset()
    missing: str = ""


def set_wanted(names: Sequence[str]) -> None:
    """The option repeated_features, for exports: their graphs are rewritten if they have one of these."""
    global _wanted
    _wanted = tuple(names)


def is_wanted(graph: tf.Graph) -> bool:
    """Whether `graph` predicts, and has a feature that the option names."""
    noted = _noted.get(graph)
    return noted is not None and any(name in noted.features for name in _wanted)


def of_model_fn(features: Any) -> Dict[str, Any]:
    """The features as they are before a model function may change the dict."""
    return dict(features) if isinstance(features, Mapping) else {}


def note_spec(graph: tf.Graph, features: Dict[str, Any], spec: Any) -> None:
    """Remembers the features of a graph that predicts; of others nothing."""
    if spec.mode != tf.estimator.ModeKeys.PREDICT:
        _noted[graph] = NamedFeatures({}, missing="the graph trains or evaluates")
        return
    outputs = tf.nest.flatten(
        [getattr(output, "outputs", None) or _attributes(output) for output in (spec.export_outputs or {}).values()],
        expand_composites=True,
    )
    fetched = frozenset(tensor.op.name for tensor in outputs if isinstance(tensor, tf.Tensor))
    missing = "" if features else "the features of the model function are not a dict, so they have no names"
    _noted[graph] = NamedFeatures(features, also_fetched=fetched, missing=missing)


def _attributes(output: Any) -> List[Any]:
    """The tensors of an ExportOutput: classes and scores, or value."""
    return [getattr(output, name) for name in ("scores", "classes", "value") if getattr(output, name, None) is not None]


def features_of(view: GraphView) -> NamedFeatures:
    """The features of the graph, as far as they are known."""
    noted = _noted.get(view.graph)
    if noted is not None:
        return noted
    if fetches_of(view).said_by != "the ops that nothing reads":
        return NamedFeatures({}, missing="the graph trains")
    return NamedFeatures(_placeholders(view), fed_together=False)


def trains(known: NamedFeatures) -> bool:
    """Whether the features are those of a graph that trains or evaluates."""
    return known.missing.startswith("the graph trains")


def _placeholders(view: GraphView) -> Dict[str, Any]:
    """Placeholders by their names; those that tf.compat.v1.sparse_placeholder makes are one feature."""
    ops = {op.name: op for op in view.ops("Placeholder", "PlaceholderWithDefault")}
    found: Dict[str, Any] = {}
    for name, op in ops.items():
        feature, _, part = name.rpartition("/")
        sparse = _sparse(feature, ops) if part == "values" else None
        if sparse is not None:
            found[feature] = sparse
        elif part not in ("indices", "shape") or f"{feature}/values" not in ops:
            found[name] = op.outputs[0]
    return found


def _sparse(feature: str, ops: Dict[str, tf.Operation]) -> Optional[Sparse]:
    parts = [ops.get(f"{feature}/{part}") for part in ("indices", "values", "shape")]
    return None if None in parts else Sparse(*(op.outputs[0] for op in parts if op is not None))
