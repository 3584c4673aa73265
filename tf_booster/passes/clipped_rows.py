"""The pass that makes one op of what `max_norm` adds to the lookups of many features, and one of its gradients.

tf.clip_by_norm is a dozen ops for each feature, and forty for its gradient: of 26 columns with max_norm most of a step's 2,400 ops.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Dict, List, Optional, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.fetches import executed_ops
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import readers, skip_identity, uniform_value
from tf_booster.passes.merging import Unit, merge_groups
from tf_booster.passes.swallowed import is_barrier, is_gradient, swallowed
from tf_booster.passes.templates import Match, Template

_CLIP, _GRADIENT = "TfBoosterClipRows", "TfBoosterClipRowsGrad"
_LARGEST = 100  # A gradient has some 60 ops, barriers and what they wait for among them.


@dataclasses.dataclass(frozen=True)
class _Clip:
    """rows: what is clipped. end: the clipped rows, or the gradient of `rows`. gradient: of the clipped rows; None: it is no gradient."""

    rows: tf.Tensor
    end: tf.Tensor
    max_norm: float
    ops: Tuple[tf.Operation, ...]
    gradient: Optional[tf.Tensor] = None


class ClippedRows(Pass):
    """Merges tf.clip_by_norm of rows; the same bits on a CPU."""

    name = "clipped_rows"
    seeks = "embeddings with max_norm (tf.clip_by_norm of rows)"

    def requires(self, view: GraphView) -> bool:
        """Whether something is divided by the larger one of a norm and a constant."""
        return any(_max_norm(op) is not None for op in view.ops("RealDiv"))

    def run(self, view: GraphView) -> PassResult:
        """Leaves other dtypes than float32, other axes than the last, and gradients that are not TensorFlow's own."""
        result = PassResult(self.name)
        live = executed_ops(view)
        clips = [clip for op in view.ops("RealDiv") if op in live for clip in [_clip(view, op)] if clip is not None]
        gradients = _gradients(view, clips)
        complete = [clip for clip in clips if not _is_used_apart(clip, gradients.get(clip.end.ref()), live)]
        kept = [gradients[clip.end.ref()] for clip in complete if clip.end.ref() in gradients]
        for op_type, found in ((_CLIP, complete), (_GRADIENT, kept)):
            groups, refused = merge_groups(view, [Unit(clip.ops, clip.end.op.device, clip) for clip in found])
            result.skipped += [(unit.payload.end.op.name, reason) for unit, reason in refused]
            for group in groups:
                _merge(view, op_type, [unit.payload for unit in group])
            if groups:
                what = "clipped rows" if op_type == _CLIP else "gradients of clipped rows"
                ops = f"{len(groups)} op{'' if len(groups) == 1 else 's'}"
                result.changes.append(f"{what} of {sum(map(len, groups))} lookups by {ops}")
                result.modified = True
        left = len(clips) - len(complete)
        if left:
            result.skipped.append(
                (clips[0].end.op.name, f"{left} clipped tensors whose gradient is not only clip_by_norm's")
            )
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, _CLIP)
        check_read(view, _GRADIENT)


def _max_norm(division: tf.Operation) -> Optional[float]:
    divisor = skip_identity(division.inputs[1]).op
    return uniform_value(divisor.inputs[1]) if divisor.type == "Maximum" and divisor.inputs[1].shape.rank == 0 else None


def _clip(view: GraphView, division: tf.Operation) -> Optional[_Clip]:
    out, max_norm = division.outputs[0], _max_norm(division)
    if max_norm is None or not max_norm > 0 or out.dtype != tf.float32 or not out.shape.rank or not out.shape[-1]:
        return None
    found = _forward(tuple(out.shape.as_list()), max_norm).match(out)
    if found is None or not view.is_plain(division, _CLIP, _GRADIENT):
        return None
    return _Clip(found.holes["rows"], out, max_norm, found.ops)


def _gradients(view: GraphView, clips: Sequence[_Clip]) -> Dict[object, _Clip]:
    """By the clipped rows the gradient through them."""
    by_rows = {(clip.rows.ref(), clip.max_norm): clip for clip in clips}
    found = {}
    kinds = {(tuple(clip.end.shape.as_list()), clip.max_norm) for clip in clips}
    templates = [(max_norm, _backward(shape, max_norm)) for shape, max_norm in sorted(kinds, key=str)]
    for op in view.ops(*{template.end_type for _, template in templates}) if templates else ():
        for max_norm, template in templates:
            match: Optional[Match] = template.match(op.outputs[0])
            if match is None:
                continue
            clip = by_rows.get((match.holes["rows"].ref(), max_norm))
            if clip is not None and clip.end.ref() not in found:
                gradient = match.holes["gradient"]
                ops = _between(op, {*match.before, *clip.ops})
                if ops is not None:
                    found[clip.end.ref()] = _Clip(clip.rows, op.outputs[0], max_norm, ops, gradient)
            break
    return found


def _between(end: tf.Operation, before: Set[tf.Operation]) -> Optional[Tuple[tf.Operation, ...]]:
    """The ops between `before` and `end`, with those that tf.gradients only has others wait for; None if they are more than such a gradient has."""
    found, work = {end: None}, [end]
    while work and len(found) < _LARGEST:
        op = work.pop()
        waits = [other for other in op.control_inputs if is_barrier(other) or is_gradient(other)]
        for other in (*(tensor.op for tensor in op.inputs), *waits):
            if other not in before and other not in found and other.type != "Const":
                found[other] = None
                work.append(other)
    return None if work else tuple(found)


def _is_used_apart(clip: _Clip, gradient: Optional[_Clip], live: Set[tf.Operation]) -> bool:
    """Whether what runs reads something between rows and clipped rows: then those ops would run beside the new one."""
    inside = {*clip.ops, *(gradient.ops if gradient is not None else ())}
    between = [op for op in clip.ops if op is not clip.end.op and op.type not in ("Const", "Shape")]
    found = (reader for op in between for tensor in op.outputs for reader in readers(tensor))
    return any(_is_read(op, live) for op in found if op in live and op not in inside)


def _is_read(op: tf.Operation, live: Set[tf.Operation]) -> bool:
    """Whether anybody wants what `op` gives: tf.gradients has ops wait for gradients that nothing reads."""
    return any(reader in live for tensor in op.outputs for reader in tensor.consumers())


@functools.lru_cache(maxsize=256)
def _forward(shape: Tuple[Optional[int], ...], max_norm: float) -> Template:
    build = lambda rows: tf.clip_by_norm(rows, max_norm, axes=[len(shape) - 1])  # noqa: E731
    return Template({"rows": (tf.float32, shape)}, build)


@functools.lru_cache(maxsize=256)
def _backward(shape: Tuple[Optional[int], ...], max_norm: float) -> Template:
    def build(rows: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
        clipped = tf.clip_by_norm(rows, max_norm, axes=[len(shape) - 1])
        return tf.compat.v1.gradients(clipped, rows, gradient)[0]

    return Template({"rows": (tf.float32, shape), "gradient": (tf.float32, shape)}, build)


def _merge(view: GraphView, op_type: str, clips: List[_Clip]) -> None:
    ends = [clip.end.op for clip in clips]
    rows, max_norms = [clip.rows for clip in clips], [clip.max_norm for clip in clips]
    gradients = [clip.gradient for clip in clips if clip.gradient is not None]
    gone = swallowed(ends, [*rows, *gradients])
    rows, gradients = ([view.current(tensor) for tensor in tensors] for tensors in (rows, gradients))
    with view.inserting(ends[0].device, gone.control_inputs):
        if op_type == _CLIP:
            made = _native.ops().tf_booster_clip_rows(rows, max_norms=max_norms, name="tf_booster/clip_rows")
        else:
            name = "tf_booster/clip_rows_gradient"
            made = _native.ops().tf_booster_clip_rows_grad(gradients, rows, max_norms=max_norms, name=name)
    view.redirect_all([(clip.end, new) for clip, new in zip(clips, made)])
    view.stand_in(made[0].op, ends)
