"""Which tensors of a graph are the features of which name: what an Estimator gave its model function, or the placeholders of a plain graph."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster.passes.fetches import fetches_of
from tf_booster.passes.graph_view import GraphView

# A collection of the graph itself: its tensors, held from elsewhere, would keep it alive. A tuple, which no MetaGraph writes.
_NOTED = ("tf_booster", "named_features")
_wanted: Tuple[str, ...] = ()
_all_wanted = False
_TRAINS = "the graph trains"


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


def set_wanted(names: Sequence[str], any_graph: bool = False) -> None:
    """The option repeated_features, for exports: their graphs are rewritten if they have one of these. any_graph: so are all others."""
    global _wanted, _all_wanted
    _wanted, _all_wanted = tuple(names), any_graph


def is_wanted(graph: tf.Graph) -> bool:
    """Whether `graph` predicts, and has a feature that the option names, or any is wanted."""
    noted = _noted(graph)
    if noted is None or noted.missing.startswith(_TRAINS):
        return False
    return _all_wanted or any(name in noted.features for name in _wanted)


def of_model_fn(features: Any) -> Dict[str, Any]:
    """The features as they are before a model function may change the dict."""
    return dict(features) if isinstance(features, Mapping) else {}


def note_spec(graph: tf.Graph, features: Dict[str, Any], spec: Any) -> None:
    """Remembers the features of a graph that predicts; of others nothing."""
    if spec.mode != tf.estimator.ModeKeys.PREDICT:
        _note(graph, NamedFeatures({}, missing=f"{_TRAINS} or evaluates"))
        return
    outputs = tf.nest.flatten(
        [getattr(output, "outputs", None) or _attributes(output) for output in (spec.export_outputs or {}).values()],
        expand_composites=True,
    )
    fetched = frozenset(tensor.op.name for tensor in outputs if isinstance(tensor, tf.Tensor))
    missing = "" if features else "the features of the model function are not a dict, so they have no names"
    _note(graph, NamedFeatures(features, also_fetched=fetched, missing=missing))


def _note(graph: tf.Graph, known: NamedFeatures) -> None:
    graph.get_collection_ref(_NOTED)[:] = [known]


def _noted(graph: tf.Graph) -> Optional[NamedFeatures]:
    return next(iter(graph.get_collection(_NOTED)), None)


def _attributes(output: Any) -> List[Any]:
    """The tensors of an ExportOutput: classes and scores, or value."""
    return [getattr(output, name) for name in ("scores", "classes", "value") if getattr(output, name, None) is not None]


def all_fetches(view: GraphView) -> Optional[FrozenSet[str]]:
    """Names of all ops that are ever fetched from a graph of an Estimator that predicts; None for other graphs."""
    noted = _noted(view.graph)
    if noted is None or noted.missing.startswith(_TRAINS):
        return None
    return noted.also_fetched.union(fetches_of(view).names)


def features_of(view: GraphView) -> NamedFeatures:
    """The features of the graph, as far as they are known."""
    noted = _noted(view.graph)
    if noted is not None:
        return noted
    if fetches_of(view).said_by != "the ops that nothing reads":
        return NamedFeatures({}, missing=_TRAINS)
    return NamedFeatures(_placeholders(view), fed_together=False)


def trains(view: GraphView) -> bool:
    """Whether the graph trains or evaluates, as far as that is known."""
    return features_of(view).missing.startswith(_TRAINS)


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
