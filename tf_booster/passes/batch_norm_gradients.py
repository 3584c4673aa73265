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
from tf_booster.passes.swallowed import is_barrier, is_gradient

_LARGEST = 300  # Ops that are looked at behind a layer; its gradient has about 60, barriers among them.


@dataclasses.dataclass
class Gradient:
    """dy: that of the output. parts: of that of x, each an addend of the AddN `total`; none where nothing is trained before the layer. vectors: by name
    ("gamma", "beta") the tensors that are their gradients. ops: all that these are made of, with what only keeps gradients together."""

    dy: tf.Tensor
    parts: Dict[str, tf.Tensor] = dataclasses.field(default_factory=dict)
    total: Optional[tf.Operation] = None
    vectors: Dict[str, List[tf.Tensor]] = dataclasses.field(default_factory=dict)
    ops: FrozenSet[tf.Operation] = frozenset()

    @property
    def ends(self) -> List[tf.Tensor]:
        """What the new op computes, but for the sum that the parts are addends of."""
        return [*self.parts.values(), *(t for tensors in self.vectors.values() for t in tensors)]


class Search:
    """The gradients of one layer. needed: the ops whose outputs somebody wants."""

    def __init__(self, view: GraphView, layer: Layer, needed: Set[tf.Operation]):
        self._view, self._layer, self._needed = view, layer, needed
        self._templates = {name: t for name, t in templates_of(layer.kind).items() if name not in ("y", "beta")}
        self._types = frozenset().union(*(template.types for template in self._templates.values()))
        self._seen: Dict[tf.Operation, bool] = {}
        self._found: Dict[object, Gradient] = {}

    def gradients(self) -> Tuple[List[Gradient], str]:
        """All of them; or why the layer must be left."""
        for tensor in (*self._layer.inner, *self._layer.mean, *self._layer.variance):
            for reader in self._readers(tensor):
                is_moment = any(tensor is t for t in (*self._layer.mean, *self._layer.variance))
                if not self._leads_to_gradients(reader) and not is_moment:
                    return [], f"'{reader.name}' reads '{tensor.op.name}', or a gradient of it that is not the layer's alone"
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
            if name not in PARTS:
                gradient.vectors.setdefault(name, []).append(op.outputs[0])
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
        gradient.vectors["beta"] = self._of_beta(gradient.dy)
        gradient.ops = self._between(gradient)
        apart = [op for op in gradient.ops if op.inputs and not self._view.is_plain(op, *MADE)]
        if apart or len({op.device for op in gradient.ops if op.inputs}) > 1:
            return "its gradient is not on one device, or where the library has no kernels"
        return ""

    def _of_beta(self, dy: tf.Tensor) -> List[tf.Tensor]:
        """Reads nothing of the layer."""
        template = templates_of(self._layer.kind).get("beta")
        found, level = [], [dy]
        for _ in range(5 if template is not None else 0):
            ops = [op for t in level for op in readers(t) if op.type in ("Sum", "Reshape") and op in self._needed]
            level = [op.outputs[0] for op in dict.fromkeys(ops)]
            matches = [(t, template.match(t)) for t in level if t.op.type == template.end_type]
            found += [t for t, match in matches if match is not None and same(match.holes["dy"], dy)]
        return found

    def _between(self, gradient: Gradient) -> FrozenSet[tf.Operation]:
        """What the ends are made of behind dy and the layer, with what tf.gradients only has others wait for."""
        before = {*self._layer.ops, gradient.dy.op, *(t.op for t in self._layer.given)}
        work = [t.op for t in gradient.ends]
        found = set(work)
        while work:
            op = work.pop()
            waits = [other for other in op.control_inputs if is_barrier(other) or is_gradient(other)]
            for other in (*(tensor.op for tensor in op.inputs), *waits):
                if other not in before and other not in found and not is_free(other):
                    found.add(other)
                    work.append(other)
        return frozenset(found)
