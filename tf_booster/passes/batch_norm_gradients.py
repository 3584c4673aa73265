"""The gradients of a batch normalization, found by what they read of it.

Each is compared with what the installed TensorFlow makes (templates.py), so that whatever is found is the gradient, whoever wrote it: a gradient that also
goes through the moments, as of a loss that uses them, is something else and is not found.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, FrozenSet, List, Optional, Set, Tuple

import tensorflow as tf

from tf_booster.passes.batch_norm_layers import MADE, PARTS, Layer, is_free, templates_of
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import readers, same, skip_identity
from tf_booster.passes.swallowed import is_barrier

_LARGEST = 300  # Ops that are looked at behind a layer; its gradient has about 60, barriers among them.


@dataclasses.dataclass
class Gradient:
    """dy: that of the output. parts: of that of x, each an addend of the AddN `total`; none where nothing is trained before the layer. vectors: by name
    ("gamma", "beta") the tensors that are their gradients. core: all that these are made of. ops: of these what is not of the layer, with what links them. unwanted: what is
    computed of these only because tf.gradients has others wait for it."""

    dy: tf.Tensor
    parts: Dict[str, tf.Tensor] = dataclasses.field(default_factory=dict)
    total: Optional[tf.Operation] = None
    vectors: Dict[str, List[tf.Tensor]] = dataclasses.field(default_factory=dict)
    core: Set[tf.Operation] = dataclasses.field(default_factory=set)
    ops: FrozenSet[tf.Operation] = frozenset()
    unwanted: FrozenSet[tf.Operation] = frozenset()

    @property
    def ends(self) -> List[tf.Tensor]:
        """What the new op computes, but for the sum that the parts are addends of."""
        return [*self.parts.values(), *(t for tensors in self.vectors.values() for t in tensors)]


class Search:
    """The gradients of one layer. needed: the ops whose outputs somebody wants."""

    def __init__(self, view: GraphView, layer: Layer, needed: Set[tf.Operation]):
        self._view, self._layer, self._needed = view, layer, needed
        self._templates = {name: t for name, t in templates_of(layer.kind).items() if name != "y"}
        self._types = frozenset().union(*(template.types for template in self._templates.values()))
        self._seen: Dict[tf.Operation, bool] = {}
        self._found: Dict[object, Gradient] = {}

    def gradients(self) -> Tuple[List[Gradient], str]:
        """All of them; or why the layer must be left."""
        for tensor in (*self._layer.inner, *self._layer.mean, *self._layer.variance):
            for reader in self._readers(tensor):
                is_moment = any(tensor is t for t in (*self._layer.mean, *self._layer.variance))
                if not self._leads_to_gradients(reader) and not is_moment:
                    return (
                        [],
                        f"'{reader.name}' reads '{tensor.op.name}', or a gradient of it that is not the layer's alone",
                    )
        for gradient in self._found.values():
            reason = self._complete(gradient)
            if reason:
                return [], reason
        return list(self._found.values()), ""

    def _readers(self, tensor: tf.Tensor) -> List[tf.Operation]:
        return [op for op in readers(tensor) if op in self._needed and op not in self._layer.ops]

    def _leads_to_gradients(self, op: tf.Operation) -> bool:
        """Whether all that is computed of `op` goes into gradients of the layer. Notes them."""
        if op not in self._seen:
            self._seen[op] = False
            self._seen[op] = len(self._seen) < _LARGEST and (self._is_end(op) or self._passes_on(op))
        return self._seen[op]

    def _passes_on(self, op: tf.Operation) -> bool:
        if op.type not in self._types:
            return False
        following = [reader for output in op.outputs for reader in self._readers(output)]
        return bool(following) and all([self._leads_to_gradients(reader) for reader in following])

    def _is_end(self, op: tf.Operation) -> bool:
        for name, template in self._templates.items():
            found = template.match(op.outputs[0]) if op.type == template.end_type else None
            if found is None or not all(same(found.holes[k], self._hole(k)) for k in found.holes if k != "dy"):
                continue
            dy = found.holes["dy"]
            if dy.shape.rank is None or dy.shape.as_list() != list(self._layer.kind.shape):
                continue  # That of the mean is multiplied by the same factor.
            gradient = self._found.setdefault(dy.ref(), Gradient(dy))
            gradient.core.update(found.ops)
            if name not in PARTS:
                _add_vector(gradient, name, op.outputs[0])
            elif gradient.parts.setdefault(name, op.outputs[0]) is not op.outputs[0]:
                return False
            return True
        return False

    def _hole(self, name: str) -> tf.Tensor:
        return getattr(self._layer, name)

    def _complete(self, gradient: Gradient) -> str:
        """Adds what is not found by what it reads of the layer. Returns what is wrong with it."""
        if gradient.parts:
            sums = list(dict.fromkeys(op for part in gradient.parts.values() for op in self._readers(part)))
            if len(sums) != 1 or len(gradient.parts) < len(PARTS) or sums[0].type != "AddN":
                return "the addends of its input's gradient are not summed by one AddN"
            total = sums[0]
            terms = [skip_identity(t) for t in total.inputs]
            if any(sum(term is part for term in terms) != 1 for part in gradient.parts.values()):
                return "an addend of its input's gradient is not summed once"
            gradient.total = total
        self._add_beta(gradient)
        core = {op for op in gradient.core - self._layer.ops if not is_free(op)}
        self._add_links(gradient, core)
        if len({op.device for op in core}) > 1 or not all(self._view.is_plain(op, *MADE) for op in core):
            return "its gradient is not on one device, or where the library has no kernels"
        return ""

    def _add_beta(self, gradient: Gradient) -> None:
        """Reads nothing of the layer, or shapes alone."""
        template = self._templates.get("beta")
        level = [gradient.dy]
        for _ in range(5 if template is not None else 0):
            ops = [op for t in level for op in readers(t) if op.type in ("Sum", "Reshape") and op in self._needed]
            level = [op.outputs[0] for op in dict.fromkeys(ops)]
            for tensor in level:
                found = template.match(tensor) if tensor.op.type == template.end_type else None
                if found is not None and same(found.holes["dy"], gradient.dy):
                    _add_vector(gradient, "beta", tensor)
                    gradient.core.update(found.ops)

    def _add_links(self, gradient: Gradient, core: Set[tf.Operation]) -> None:
        """What follows from `core` and leads back into it: Identities, barriers, gradients that nobody wants but barriers wait for."""
        links: Set[tf.Operation] = set()
        work = list(core)
        while work:
            op = work.pop()
            following = [reader for output in op.outputs for reader in output.consumers()]
            for other in (*following, *self._view.control_outputs(op)):
                if other not in core and other not in links and self._is_link(other):
                    links.add(other)
                    work.append(other)
        found, work = set(core), list(core)
        while work:
            op = work.pop()
            for other in (*(tensor.op for tensor in op.inputs), *op.control_inputs):
                if other in links and other not in found:
                    found.add(other)
                    work.append(other)
        gradient.ops = frozenset(found)
        gradient.unwanted = frozenset(op for op in links if self._is_unwanted(op))

    def _is_link(self, op: tf.Operation) -> bool:
        return self._is_unwanted(op) or op.type in ("Identity", "Const") or is_barrier(op)

    def _is_unwanted(self, op: tf.Operation) -> bool:
        return op not in self._needed and op.type in self._types


def _add_vector(gradient: Gradient, name: str, tensor: tf.Tensor) -> None:
    tensors = gradient.vectors.setdefault(name, [])
    if not any(tensor is t for t in tensors):
        tensors.append(tensor)
