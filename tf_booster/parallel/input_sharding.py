"""Which part of a dataset a rank reads, and where in its pipeline the others' part is left out.

A shard is put as near to the source as it may be: nothing that the others read is then shuffled, batched or parsed here. Behind it every
dataset must do with each element what it would do anyway, so take, skip, zip, scan and what is not known stay in front.
In front of it the elements must come in one order on all ranks: shuffles get one seed, what may overtake may not.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import tensorflow as tf

from tf_booster import _compat
from tf_booster.data import record_stages
from tf_booster.parallel import dataset_graph
from tf_booster.parallel.dataset_graph import BATCHES, FILTERS, INFINITE, ONE_TO_MANY, ONE_TO_ONE, REPEATS, Edit
from tf_booster.passes.dataset_functions import DatasetFunction, data_inputs

_SCOPE = "tf_booster/shard_input"
_OURS = "TfBoosterTFRecordExampleDataset"
# The two inputs that seed it; both 0: drawn at random.
_SEEDED = (
    "ShuffleDataset", "ShuffleDatasetV3", "ShuffleAndRepeatDataset", "ShuffleAndRepeatDatasetV2", "RandomDataset", "RandomDatasetV2",
    "SamplingDataset",
)  # fmt: skip
_AUTOTUNED_CYCLE = (
    10  # Where tf.data chooses how many files are read in turns by the machine's processors; that is an order.
)
_PASSABLE_STAGES = ("shuffle", "repeat")

Seeds = Dict[
    Tuple[str, int], Tuple[int, int]
]  # By the op's name and, for TFRecordExampleDataset, the number of its stage.
Stage = Tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Plan:
    """Where a shard goes: behind the op `place`, or into its stages at `stage`. what: of what a rank gets every size-th.

    seeds: those of the ops in front; ranks agree on them.
    """

    place: tf.Operation
    what: str
    seeds: Seeds
    stage: Optional[int] = None

    def describe(self) -> Tuple[str, ...]:
        """What must be the same on all ranks."""
        return (self.what, self.place.name, self.place.type, str(self.stage), str(dataset_graph.count(self.place)))


def is_sharded(last: tf.Operation, rank: int, size: int) -> bool:
    """Whether the program gives each rank its part itself: a shard of that size and index is in the pipeline."""
    for op in dataset_graph.upstream(last):
        if op.type == "ShardDataset" and size == dataset_graph.constant(op, "num_shards"):
            return dataset_graph.constant(op, "index") == rank
        if op.type == _OURS:
            shards = [(number, index) for name, number, index, *_ in _stages(op) or () if name == "shard"]
            of_batches = dataset_graph.constant(op, "batch_shards")
            shards += [] if of_batches is None else [tuple(of_batches)]
            if any(number == size for number, _ in shards):
                return (size, rank) in shards
    return False


def plan(last: tf.Operation, size: int) -> Plan:
    """Where the pipeline that ends in `last` is best divided among `size` ranks: at the first place with an element for each of them."""
    chain = _divisible(last)
    best: Optional[Tuple[float, Plan]] = None
    for at, op in enumerate(chain):
        if best is not None and _shuffles_at_random_inside(op):
            break
        number = dataset_graph.count(op)
        many_follow = any(later.type in ONE_TO_MANY or later.type == _OURS for later in chain[at + 1 :])
        if number is None:
            if many_follow:  # Of few files nothing is left for some ranks: records then.
                continue
            number = INFINITE
        if best is None or number > best[0]:
            best = (number, Plan(op, _kind(op, many_follow), _seeds(op), _stage_of_shard(op)))
        if number >= size:
            break
    return best[1]


def plan_in_order(last: tf.Operation) -> Plan:
    """Whole elements in turn, so that the input's order can be made again from the parts."""
    return Plan(last, _kind(last, many_follow=False), _seeds(last))


def shard(last: tf.Operation, planned: Plan, rank: int, size: int) -> tf.Tensor:
    """The part of `last` that is this rank's; the ops that are there stay as they are."""
    edits = _in_one_order(planned)
    edit = edits.setdefault(planned.place.name, Edit())
    if planned.stage is None:
        edit.after = lambda dataset: _shard(dataset, size, rank, planned.place)
    else:
        stages = _stages_with_seeds(planned.place, planned.seeds)
        stages.insert(planned.stage, ("shard", size, rank, *[0] * (record_stages.NUM_ARGUMENTS - 2)))
        _write_stages(edit, planned.place, stages)
    for op in dataset_graph.upstream(last):
        if op.type in dataset_graph.CACHES and dataset_graph.constant(op, "filename") != b"":
            # Ranks keep different elements, and a file has one writer.
            name = tf.strings.join([op.inputs[1], f"_rank{rank}_of_{size}"])
            edits.setdefault(op.name, Edit()).inputs[1] = name
    return dataset_graph.copy(last, edits, _SCOPE)


def without_caches(last: tf.Operation) -> tf.Tensor:
    """`last` without the caches in files, which only one iterator may fill, and only to the end."""
    caches = [op for op in dataset_graph.upstream(last) if op.type in dataset_graph.CACHES]
    return dataset_graph.copy(last, {op.name: Edit(left_out=True) for op in caches}, _SCOPE)


def _divisible(last: tf.Operation) -> List[tf.Operation]:
    """The ops behind which a shard may stand, from the source to `last`."""
    chain = [last]
    passable = (*ONE_TO_ONE, *FILTERS, *BATCHES, *REPEATS, *ONE_TO_MANY)
    while chain[0].type in passable or _divisible_by_files(chain[0]):
        inputs = dataset_graph.dataset_inputs(chain[0])
        # A random choice among elements would be made of other elements.
        if len(inputs) != 1:
            break
        chain.insert(0, inputs[0])
    return chain


def _divisible_by_files(op: tf.Operation) -> bool:
    stages = _stages(op) if op.type == _OURS else None
    return stages is not None and _has_all_batches(op) and all(name in _PASSABLE_STAGES for name, *_ in stages)


def _kind(op: tf.Operation, many_follow: bool) -> str:
    if many_follow:
        return "files" if _output(op, "types") == [tf.string] else "elements"
    batched = any(each.type in (*BATCHES, "GroupByWindowDataset", _OURS) for each in dataset_graph.upstream(op))
    return "batches" if batched and _stage_of_shard(op) is None else "records"


def _seeds(place: tf.Operation) -> Seeds:
    """Of the ops that choose an order, or elements, at random; drawn here where the program gave none."""
    found: Seeds = {}
    for op in sorted(dataset_graph.upstream(place), key=lambda op: op.name):
        if op.type in _SEEDED:
            found[op.name, 0] = tuple(dataset_graph.constant(op, name) for name in ("seed", "seed2"))
        elif op.type == _OURS:
            stages = enumerate(_stages(op) or ())
            found.update({(op.name, i): tuple(numbers[1:3]) for i, (name, *numbers) in stages if name == "shuffle"})
    drawn = {at: tuple(random.getrandbits(31) + 1 for _ in seeds) for at, seeds in found.items() if seeds == (0, 0)}
    return {at: seeds for at, seeds in {**found, **drawn}.items() if None not in seeds}


def _shuffles_at_random_inside(op: tf.Operation) -> bool:
    """Whether a function of `op` makes a dataset whose order nobody knows."""
    functions = _compat.functions_by_name(op.graph)
    waiting, seen = _called(op.node_def), set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in functions:
            continue
        seen.add(name)
        body = DatasetFunction(functions[name])
        for node in body.definition.node_def:
            waiting.extend(_called(node))
            if node.op in _SEEDED:
                first = 0 if node.op.startswith("Random") else 2
                seeds = [body.constant(each) for each in data_inputs(node)[first : first + 2]]
                if all(seed is not None and seed == 0 for seed in seeds):
                    return True
    return False


def _called(node: Any) -> List[str]:
    return [attr.func.name for attr in node.attr.values() if attr.HasField("func")]


def _in_one_order(planned: Plan) -> Dict[str, Edit]:
    """Makes all that stands in front of the shard give its elements in an order that is the same on all ranks."""
    edits: Dict[str, Edit] = {}
    for op in dataset_graph.upstream(planned.place):
        edit = edits[op.name] = Edit()
        arguments = [argument.name for argument in op.op_def.input_arg]
        if op.type in _SEEDED:
            for name, value in zip(("seed", "seed2"), planned.seeds.get((op.name, 0), ())):
                if dataset_graph.constant(op, name) != value:
                    edit.inputs[dataset_graph.input_index(op, name)] = tf.constant(value, tf.int64)
        if "cycle_length" in arguments and dataset_graph.constant(op, "cycle_length") == tf.data.AUTOTUNE:
            edit.inputs[dataset_graph.input_index(op, "cycle_length")] = tf.constant(_AUTOTUNED_CYCLE, tf.int64)
        if "sloppy" in arguments and dataset_graph.constant(op, "sloppy") is not False:
            edit.inputs[dataset_graph.input_index(op, "sloppy")] = tf.constant(False)
        for attr in op.op_def.attr:
            if attr.name == "deterministic":
                sure = tf.compat.v1.AttrValue(s=b"true") if attr.type == "string" else tf.compat.v1.AttrValue(b=True)
                edit.attrs[attr.name] = sure
            elif attr.name == "sloppy":
                edit.attrs[attr.name] = tf.compat.v1.AttrValue(b=False)
        if op.type == _OURS and _stages(op) is not None:
            _write_stages(edit, op, _stages_with_seeds(op, planned.seeds))
    return edits


def _shard(dataset: tf.Tensor, size: int, rank: int, like: tf.Operation) -> tf.Tensor:
    return tf.raw_ops.ShardDataset(
        input_dataset=dataset,
        num_shards=tf.constant(size, tf.int64),
        index=tf.constant(rank, tf.int64),
        output_types=_output(like, "types"),
        output_shapes=_output(like, "shapes"),
        name=f"{_SCOPE}/shard",
    )


def _output(op: tf.Operation, what: str) -> Any:
    names = [attr.name for attr in op.op_def.attr]
    return op.get_attr(next(name for name in (f"output_{what}", f"Toutput_{what}") if name in names))


def _stages(op: tf.Operation) -> Optional[List[Stage]]:
    """What TFRecordExampleDataset does to records: (name, its numbers …); None if a number is not known."""
    names = [tf.compat.as_str(name) for name in op.get_attr("stages")]
    numbers = dataset_graph.constant(op, "stage_arguments")
    if numbers is None:
        return None
    return [(name, *row) for name, row in zip(names, np.reshape(numbers, [-1, record_stages.NUM_ARGUMENTS]).tolist())]


def _stages_with_seeds(op: tf.Operation, seeds: Seeds) -> List[Stage]:
    stages = _stages(op)
    for i, (name, *numbers) in enumerate(stages):
        if (op.name, i) in seeds:
            stages[i] = (name, numbers[0], *seeds[op.name, i], *numbers[3:])
    return stages


def _write_stages(edit: Edit, op: tf.Operation, stages: List[Stage]) -> None:
    names = tf.compat.v1.AttrValue.ListValue(s=[name.encode() for name, *_ in stages])
    edit.attrs["stages"] = tf.compat.v1.AttrValue(list=names)
    numbers = [number for _, *row in stages for number in row]
    edit.inputs[dataset_graph.input_index(op, "stage_arguments")] = tf.constant(numbers, tf.int64, [len(numbers)])


def _has_all_batches(op: tf.Operation) -> bool:
    shards = dataset_graph.constant(op, "batch_shards")
    return shards is not None and tuple(shards) == (1, 0)


def _stage_of_shard(op: tf.Operation) -> Optional[int]:
    """The place among the stages of TFRecordExampleDataset behind which each does to a record what it would do anyway."""
    stages = _stages(op) if op.type == _OURS and _has_all_batches(op) else None
    if stages is None:
        return None
    return max([i + 1 for i, (name, *_) in enumerate(stages) if name not in _PASSABLE_STAGES], default=0)
