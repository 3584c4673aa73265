"""The pass that makes one op of a factorization machine's sums, and one of their gradient.

DeepFM and its kin write the interaction of an example's vectors v, [batch, fields, columns], as

    tf.square(tf.reduce_sum(v, 1)) - tf.reduce_sum(tf.square(v), 1)

and the tower reads the same vectors, one after another, beside other features. Forward and backward that is a dozen passes over tensors that no second-level
cache holds. The new ops read the vectors once each way, where they lie before tf.split took them out of wider embeddings. The bits are those of TensorFlow's
ops on the CPU; on a GPU TensorFlow sums in another order.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster import _native
from tf_booster.passes.base import Pass, PassResult, check_read
from tf_booster.passes.columns import joins_columns
from tf_booster.passes.fetches import executed, fetches_of
from tf_booster.passes.field_gradients import MADE, FieldGradient, gradient_of, is_ours, squared
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.matching import integer_value, readers, skip_identity
from tf_booster.passes.merging import Unit, merge_groups
from tf_booster.passes.static_integers import static_integers
from tf_booster.passes.swallowed import Swallowed, swallowed


@dataclasses.dataclass(frozen=True)
class _Wide:
    """Where vectors lie: columns from `first` on of `tensor`, [batch, fields, all columns], which `split`, if any, takes apart."""

    tensor: tf.Tensor
    first: int
    split: Optional[tf.Operation]


@dataclasses.dataclass
class _Machine:
    """vectors: v. sums: the ops Sum(v, 1). squares: Sum(Square(v), 1) or Sum(v * v, 1). join: of v, one after another, and other features."""

    vectors: tf.Tensor
    wide: _Wide
    squares: List[tf.Operation]
    sums: List[tf.Operation]
    join: Optional[tf.Operation] = None

    @property
    def columns(self) -> int:
        return self.vectors.shape[2]

    @property
    def ends(self) -> List[tf.Operation]:
        """What the new op takes the place of."""
        return [*dict.fromkeys([*self.sums, *self.squares]), *([self.join] if self.join else ())]

    def others(self) -> Tuple[List[tf.Tensor], int]:
        """The parts of the join without the vectors, and how many stand before them."""
        if self.join is None:
            return [], 0
        parts = list(self.join.inputs[:-1])
        flat = {tensor.ref() for tensor in _flat(self.vectors)}
        place = next(i for i, part in enumerate(parts) if skip_identity(part).ref() in flat)
        return parts[:place] + parts[place + 1 :], place

    def swallowed(self) -> Swallowed:
        """The ends, and what is between them and what the new op reads."""
        return swallowed(self.ends, [self.wide.tensor, self.vectors, *self.others()[0]])


class FieldSums(Pass):
    """Replaces the sums over fields, and over their squares, and what is copied of the vectors beside them; and the gradient of all."""

    name = "field_sums"
    seeks = "sums over fields, as a factorization machine has them"

    def requires(self, view: GraphView) -> bool:
        """Whether there is a factorization machine."""
        return bool(_machines(view))

    def run(self, view: GraphView) -> PassResult:
        """Leaves other dtypes than float32, shapes that are not known but for the batch, what is marked for XLA or inside of control flow, on a GPU where the library has no kernels for it."""
        result = PassResult(self.name)
        machines = _machines(view)
        result.other_bits = not all(_is_on_cpu(view, machine) for machine in machines)
        _find_joins(view, machines, _live(view))
        for machine in machines:
            # Anew for each: two machines may share a split, and what the gradient of one was made of runs no more.
            live = _live(view)
            gradient = gradient_of(view, machine.vectors, machine.wide.split is not None, live)
            if gradient is not None:
                _replace_gradient(view, machine, gradient)
        live, inside = _live(view), {op for machine in machines for op in machine.swallowed().ops}
        left = live - {view.index().number[op] for op in inside}
        for machine in machines:
            _replace_sums(view, machine, left)
            fields, name = machine.vectors.shape[1], machine.squares[0].name
            result.changes.append(
                f"'{name}': sums over {fields} fields{' and their join' if machine.join else ''} by one op"
            )
        result.modified = bool(machines)
        return result

    def ensures(self, view: GraphView) -> None:
        """Nothing that the pass made is left without use."""
        check_read(view, *MADE)


def _live(view: GraphView) -> Set[int]:
    """The numbers of the ops that a step runs."""
    return set(executed(view, fetches_of(view).names))


def _machines(view: GraphView) -> List[_Machine]:
    found: Dict[Any, _Machine] = {}
    for op in view.ops("Sum"):
        vectors = squared(op.inputs[0]) if _sums_fields(view, op) else None
        if vectors is None or not _has_known_fields(vectors):
            continue
        if vectors.ref() not in found:
            sums = [reader for reader in readers(vectors) if reader.type == "Sum" and _sums_fields(view, reader)]
            found[vectors.ref()] = _Machine(vectors, _wide_of(view, vectors), [], sums)
        found[vectors.ref()].squares.append(op)
    return list(found.values())


def _sums_fields(view: GraphView, op: tf.Operation) -> bool:
    value = op.inputs[0]
    return (
        value.dtype == tf.float32
        and value.shape.rank == 3
        and static_integers(op.inputs[1]) in ([1], [-2])
        and bool(op.outputs[0].consumers())
        and all(is_ours(view, part) for part in (op, skip_identity(value).op))
    )


def _has_known_fields(vectors: tf.Tensor) -> bool:
    # TensorFlow sums a single column, which it takes for a row, in another order, and does not sum a single field at all.
    return vectors.shape.rank == 3 and all(known is not None and known > 1 for known in vectors.shape.as_list()[1:])


def _wide_of(view: GraphView, vectors: tf.Tensor) -> _Wide:
    split = vectors.op
    places = {"SplitV": (0, 2), "Split": (1, 0)}  # Of the value and of the axis among its inputs.
    if split.type in places and is_ours(view, split):
        value, axis = (split.inputs[i] for i in places[split.type])
        widths = [part.shape[2] if part.shape.rank == 3 else None for part in split.outputs]
        if value.shape.rank == 3 and None not in widths and integer_value(axis) in (2, -1):
            if value.shape.as_list()[1:] == [vectors.shape[1], sum(widths)]:
                return _Wide(value, sum(widths[: vectors.value_index]), split)
    return _Wide(vectors, 0, None)


def _find_joins(view: GraphView, machines: Sequence[_Machine], live: Set[int]) -> None:
    """Gives each machine the join that may be made by the same op: one that waits neither for the sums nor for another part of the split, and needs the same sources."""
    number = view.index().number
    units = []
    for machine in machines:
        joins = [op for op in _joins_of(view, machine) if view.runs_on_cpu(op) == _is_on_cpu(view, machine)]
        join = next((op for op in joins if number[op] in live), None)
        if join is not None:
            units += [
                Unit(tuple(dict.fromkeys([*machine.sums, *machine.squares])), machine.vectors.name, machine),
                Unit((join,), machine.vectors.name, machine),
            ]
    for group in merge_groups(view, units)[0] if units else ():
        if len(group) == 2:
            group[0].payload.join = group[1].ops[0]


def _is_on_cpu(view: GraphView, machine: _Machine) -> bool:
    return view.runs_on_cpu(machine.squares[0])


def _joins_of(view: GraphView, machine: _Machine) -> List[tf.Operation]:
    """What puts the vectors, one after another, beside other matrices, and would be left to TensorFlow by the pass columns."""
    found = []
    index, split = view.index(), machine.wide.split
    for flat in _flat(machine.vectors):
        for op in readers(flat):
            if op.type != "ConcatV2" or not is_ours(view, op) or joins_columns(view, op):
                continue
            parts = [skip_identity(part) for part in op.inputs[:-1]]
            known = all(part.shape.rank == 2 and part.shape[1] is not None for part in parts)
            once = sum(1 for part in parts if part is flat) == 1
            if not known or not once or integer_value(op.inputs[-1]) not in (1, -1):
                continue
            # The new op gives out the other parts of the split: what is made of them cannot be an input of it.
            others = [part.op for part in parts if part is not flat]
            if split is None or index.number[split] not in index.upstream(others):
                found.append(op)
    return found


def _flat(vectors: tf.Tensor) -> List[tf.Tensor]:
    """Reshapes of the vectors of an example to one row."""
    wide = vectors.shape[1] * vectors.shape[2]
    reshapes = [op for op in readers(vectors) if op.type == "Reshape" and op.inputs[0].shape.rank == 3]
    return [op.outputs[0] for op in reshapes if op.outputs[0].shape.rank == 2 and op.outputs[0].shape[1] == wide]


def _replace_gradient(view: GraphView, machine: _Machine, gradient: FieldGradient) -> None:
    x = machine.wide.tensor if gradient.whole else machine.vectors
    terms = [term for terms in gradient.ranges for term in terms]
    given = [x, machine.vectors, *(term.tensor for term in terms)]
    waits = [op for op in swallowed([gradient.end], given).control_inputs if op is not gradient.end]
    widths = [part.shape[2] for part in machine.wide.split.outputs] if gradient.whole else [machine.columns]
    with view.inserting(gradient.end.device, waits):
        made = _native.ops().tf_booster_field_sums_grad(
            x=x,
            terms=[term.tensor for term in terms],
            ranges=widths,
            counts=[len(terms) for terms in gradient.ranges],
            kinds=[term.kind for term in terms],
            first=[term.first for term in terms],
            name="tf_booster/field_sums_grad",
        )
    view.redirect(gradient.end.outputs[0], made)
    view.redirect_control([gradient.end], made.op)
    view.note_originals(made.op, dict.fromkeys([gradient.total, gradient.end]))


def _replace_sums(view: GraphView, machine: _Machine, readers_left: Set[int]) -> None:
    wide, join, ends = machine.wide, machine.join, machine.ends
    others, place = machine.others()
    apart = _parts_read(view, machine, readers_left)
    parts = wide.split.outputs if wide.split is not None else []
    widths = [part.shape[2] for part in parts]
    with view.inserting(ends[0].device, machine.swallowed().control_inputs):
        made = _native.ops().tf_booster_field_sums(
            x=wide.tensor,
            others=others,
            first=wide.first,
            columns=machine.columns,
            num_joined=1 if join else 0,
            num_apart=len(apart),
            place=place,
            apart_first=[sum(widths[:i]) for i in apart],
            apart_columns=[widths[i] for i in apart],
            name="tf_booster/field_sums",
        )
        moves = [(op.outputs[0], _as(op, made.sums)) for op in machine.sums]
        moves += [(op.outputs[0], _as(op, made.square_sums)) for op in machine.squares]
    if join:
        moves.append((join.outputs[0], made.joined[0]))
    moves += [(parts[i], made.apart[k]) for k, i in enumerate(apart)]
    view.redirect_all(moves)
    view.redirect_control(ends, made.sums.op)
    view.note_originals(made.sums.op, [*ends, *([wide.split] if wide.split is not None else ())])


def _as(op: tf.Operation, sums: tf.Tensor) -> tf.Tensor:
    """`sums` in the shape that the Sum `op` gives them."""
    if not op.get_attr("keep_dims"):
        return sums
    return tf.reshape(sums, [-1, 1, sums.shape[1]], name="tf_booster/field_sums/shape")


def _parts_read(view: GraphView, machine: _Machine, readers_left: Set[int]) -> List[int]:
    """The parts of the split that ops with these numbers read: they are copied."""
    parts = machine.wide.split.outputs if machine.wide.split is not None else []
    number = view.index().number
    return [i for i, part in enumerate(parts) if any(number[op] in readers_left for op in readers(part))]
