"""What input functions return, on several ranks: a Dataset becomes this rank's part of it, which goes on until all ranks have ended."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, List, Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster import _compat, log
from tf_booster.embedding import registry
from tf_booster.parallel import (
    end_together,
    graph_iterators,
    graph_sources,
    host_exchange,
    input_sharding,
    ranks,
    row_weights,
    same_beginnings,
)
from tf_booster.parallel.collectives import is_users_collective
from tf_booster.parallel.evaluation import MergeMetricsHook
from tf_booster.parallel.repeat_last import RepeatLast, made_up
from tf_booster.passes.base import RewriteError
from tf_booster.passes.gradient_plan import USERS_REDUCTIONS, plan_gradients
from tf_booster.passes.graph_view import GraphView

_UNDECIDED = ("tf_booster", "undecided_input")
_TRAINED_ON = ("tf_booster", "trained_on")  # RankInputs of a graph.
NOTES = ("tf_booster", "rank_input")  # A graph's collection: what was done, in words.
_MODES = {
    tf.estimator.ModeKeys.TRAIN: "train",
    tf.estimator.ModeKeys.EVAL: "evaluate",
    tf.estimator.ModeKeys.PREDICT: "predict",
}
_wanted: Any = "auto"
_divided_by_program = _trains_by_itself = False  # By what the last training showed.


def set_wanted(wanted: Any) -> None:
    """The option shard_input."""
    global _wanted
    _wanted = wanted


@dataclasses.dataclass(frozen=True)
class _Division:
    """How a dataset was divided before it was known who sums the gradients. said: in words.

    moved: pairs of a tensor that was read before, and the one that is read in its place. refusal: why it could not be divided.
    """

    called: str
    moved: Tuple[Tuple[tf.Tensor, tf.Tensor], ...] = ()
    said: Sequence[str] = ()
    refusal: str = ""


@dataclasses.dataclass(frozen=True)
class _Later:
    """What an input function returned whose iterators are divided when it is known who sums the gradients."""

    called: str
    result: Any
    config: Optional[tf.compat.v1.ConfigProto]


def trains_by_itself() -> bool:
    """Whether the program's last training needed no other rank but by its own Horovod: it summed gradients itself, and has no tables. Each
    rank evaluates and predicts by itself then, too."""
    return _trains_by_itself


def decide(graph: tf.Graph, trains: bool) -> None:
    """Once the model is there: the input of a program that sums gradients itself with Horovod stays as the program divides it.

    Raises:
      ValueError: ranks have different inputs, and the library is to sum the gradients.
    """
    global _divided_by_program, _trains_by_itself
    undecided, inputs = map(graph.get_collection, (_UNDECIDED, _TRAINED_ON))
    if not trains or ranks.current().size == 1:
        return
    for collection in (_UNDECIDED, _TRAINED_ON):
        graph.clear_collection(collection)
    view = GraphView(graph)
    by_program = _divided_by_program = sums_gradients_itself(view)
    _trains_by_itself = by_program and not registry.has_tables(graph)
    if _trains_by_itself and inputs and not _are_gradients_summed_here(view):
        for each in inputs:
            with view.inserting("/cpu:0"):
                ends = each.ends()
            view.redirect(_compat.variant_of_dataset(each), _compat.variant_of_dataset(ends))
        row_weights.forget(graph)
    for each in undecided:
        if by_program:
            for before, now in each.moved if isinstance(each, _Division) else ():
                view.redirect(now, before)
            note(graph, f"{each.called}: {left_alone(view)}")
        elif isinstance(each, _Later):
            with view.inserting("/cpu:0"):
                part = _tensors_of_rank(each.result, tf.estimator.ModeKeys.TRAIN, each.called, each.config)
                if isinstance(part, _Tensors):
                    _register(part.result, part.live, part.has_next, part.mode)
        elif each.refusal:
            raise ValueError(each.refusal)
        else:
            for line in each.said:
                note(graph, line)


def _are_gradients_summed_here(view: GraphView) -> bool:
    """Whether steps have collectives of the library, by which a rank whose input has ended must stand: the program's may be of metrics alone."""
    try:
        plan = plan_gradients(view)
    except RewriteError:  # The rewrite raises it again.
        return True
    return bool(plan.dense or plan.sparse)


def left_alone(view: GraphView) -> str:
    """Says why the input of such a program is as it was."""
    if _are_gradients_summed_here(view):
        return (
            "input is left alone, since the program has collectives of its own (Horovod); if it gives all ranks the same records, "
            "as tf_booster sums its gradients, divide them: dataset.shard(hvd.size(), hvd.rank())"
        )
    return "input is left alone, since the program sums gradients itself with Horovod"


def sums_gradients_itself(view: GraphView) -> bool:
    """Whether the program has collectives of its own in the graph."""
    return any(map(is_users_collective, view.ops(*USERS_REDUCTIONS))) or bool(view.functions_with(*USERS_REDUCTIONS))


class RankInput(RepeatLast):
    """The dataset of a rank; `mode`: what for."""

    def __init__(self, dataset: tf.data.Dataset, fallback: tf.data.Dataset, mode: str) -> None:
        self.mode = mode
        super().__init__(dataset, fallback)

    def ends(self) -> tf.data.Dataset:
        """Elements of the same structure that end with the dataset."""
        flags = tf.data.Dataset.from_tensors((1.0, 1.0)).repeat()
        return tf.data.Dataset.zip((self._inputs()[0], flags))


def call_input_fn(original: Any) -> Any:
    """Wraps Estimator._call_input_fn."""

    @functools.wraps(original)
    def _call_input_fn(self: Any, input_fn: Any, mode: str, input_context: Any = None) -> Any:
        result = original(self, input_fn, mode, input_context)
        if ranks.current().size == 1:
            return result
        with tf.device("/cpu:0"):
            return _of_rank(self, result, mode)

    return _call_input_fn


@dataclasses.dataclass(frozen=True)
class _Tensors:
    """What an input function returned that read iterators of the graph, which now give this rank's part; see RowWeights."""

    result: Any
    live: tf.Tensor
    has_next: tf.Tensor
    mode: str


def parse_input_fn_result(original: Any) -> Any:
    """Wraps Estimator's parse_input_fn_result, which makes an iterator of what an input function returns."""

    @functools.wraps(original)
    def parse_input_fn_result(result: Any) -> Any:
        if isinstance(result, RankInput):
            element, (live, has_next), hooks = original(result)
        elif isinstance(result, _Tensors):
            element, live, has_next, hooks = result.result, result.live, result.has_next, []
        else:
            return original(result)
        features, labels = _register(element, live, has_next, result.mode)
        if result.mode == tf.estimator.ModeKeys.EVAL:
            hooks = [*hooks, MergeMetricsHook(live, has_next)]
        return features, labels, hooks

    return parse_input_fn_result


def _register(element: Any, live: tf.Tensor, has_next: tf.Tensor, mode: str) -> Tuple[Any, Any]:
    """Notes the flags of `element`, which the graph reads. Returns its features and labels."""
    features, labels = _compat.features_and_labels(element)
    with tf.name_scope("tf_booster/rank_input/"):
        rows = live * rows_of(labels, features)
    register_flags(tf.compat.v1.get_default_graph(), rows, has_next, mode == tf.estimator.ModeKeys.TRAIN)
    return features, labels


def register_flags(graph: tf.Graph, rows: tf.Tensor, has_next: tf.Tensor, trains: bool) -> None:
    """Notes the row weights of the graph's input, with what a hook's wish to stop adds to them."""
    with tf.name_scope("tf_booster/rank_input/"):
        weights = row_weights.RowWeights(rows, end_together.with_stop(graph, has_next))
    row_weights.register(graph, weights, trains)


def _of_rank(estimator: Any, result: Any, mode: str) -> Any:
    called = f"input_fn ({_MODES.get(mode, mode)})"
    config = _compat.session_config(estimator)
    graph = tf.compat.v1.get_default_graph()
    if _compat.distribution(estimator, mode) is not None:
        note(graph, f"{called}: a tf.distribute strategy divides it")
        return result
    trains = mode == tf.estimator.ModeKeys.TRAIN
    if not isinstance(result, tf.data.Dataset):
        if not trains:
            return _tensors_of_rank(result, mode, called, config)
        graph.add_to_collection(_UNDECIDED, _Later(called, result, config))
        return result
    last = _compat.variant_of_dataset(result).op
    part, fallback = divided(graph, last, mode, called, config, undecided=trains)
    given = RankInput(
        _as_dataset(part, result), made_up(result) if fallback is None else _as_dataset(fallback, result), mode
    )
    if trains:
        graph.add_to_collection(_TRAINED_ON, given)
    return given


def _tensors_of_rank(result: Any, mode: str, called: str, config: Optional[tf.compat.v1.ConfigProto]) -> Any:
    leaves = [leaf for leaf in tf.nest.flatten(result, expand_composites=True) if isinstance(leaf, tf.Tensor)]
    view = GraphView(tf.compat.v1.get_default_graph())
    try:
        sources = graph_sources.sources_of(view, leaves)
    except graph_iterators.NotDivisible as refusal:
        # What ranks find in parts that nobody knows of is not joined.
        whole = f"{refusal.why}; give all ranks the whole of it"
        why = refusal if mode == tf.estimator.ModeKeys.TRAIN else whole
        said = f"{called} returned tensors, and each rank reads what its own gives: {why}; or return a tf.data.Dataset"
        note(view.graph, said)
        return result
    flags = divide_sources(view, sources, mode, called, config)
    moved = tf.nest.map_structure(
        lambda leaf: graph_iterators.current(view.graph, leaf) if isinstance(leaf, tf.Tensor) else leaf, result
    )
    with tf.name_scope("tf_booster/rank_input/"):
        return _Tensors(moved, *all_flags(flags), mode)


def divide_sources(
    view: GraphView,
    sources: List[graph_iterators.Source],
    mode: str,
    called: str,
    config: Optional[tf.compat.v1.ConfigProto],
) -> List[graph_iterators.Flags]:
    """Has the iterators of a graph give this rank's part. Several that are read together are divided alike, element by element.

    Raises:
      ValueError: ranks have different inputs.
    """
    together = len(sources) > 1
    flags: List[graph_iterators.Flags] = []
    for source in sources:
        name = f"{called}, iterator '{source.iterator.name}'"

        def change(last: tf.Operation, name: str = name) -> graph_iterators.Parts:
            return divided(view.graph, last, mode, name, config, in_order=together)

        flags += graph_iterators.change(view, source, change)
    return flags


def all_flags(flags: List[graph_iterators.Flags]) -> Tuple[tf.Tensor, tf.Tensor]:
    """live and has_next of a step that reads all of these: it ends with the first that ends, and counts if all of its elements do."""
    if len(flags) == 1:
        return flags[0].live, flags[0].has_next
    return tuple(tf.reduce_min(tf.stack(each)) for each in zip(*((flag.live, flag.has_next) for flag in flags)))


def divided(
    graph: tf.Graph,
    last: tf.Operation,
    mode: str,
    called: str,
    config: Any,
    in_order: bool = False,
    undecided: bool = False,
) -> graph_iterators.Parts:
    """This rank's part of the dataset `last`, and what to repeat where that is empty; None for what can be made up.

    Args:
      graph: it is read in; `last` may be in the body of a function.
      in_order: every N-th element, whatever the dataset is made of.
      undecided: decide() is to have the last word.

    Raises:
      ValueError: ranks have different inputs.
    """
    here = ranks.current()
    if _wanted is False:
        note(graph, f"{called}: shard_input=False: each rank reads what its own input function gives")
        return last.outputs[0], None
    if _divided_by_program and mode == tf.estimator.ModeKeys.EVAL:
        note(graph, f"{called}: each rank reads what its own input function gives, as in this program's training")
        return last.outputs[0], None
    in_order = in_order or mode == tf.estimator.ModeKeys.PREDICT
    planned = input_sharding.plan_in_order(last) if in_order else input_sharding.plan(last, here.size)
    by_program = input_sharding.is_sharded(last, here.rank, here.size)
    mine = (by_program, planned.describe(), planned.seeds, same_beginnings.digests(planned.place))
    told = host_exchange.all_gather(mine, called, config)
    if all(each for each, *_ in told):
        note(graph, f"{called}: left alone, the program gives each rank its shard")
        return last.outputs[0], None
    whole = last.outputs[0]
    try:
        _check_same([plan for _, plan, *_ in told], called)
        moved = same_beginnings.have_one_order(graph, planned.place, [digests for *_, digests in told], called, config)
    except ValueError as refusal:
        if not undecided:
            raise
        graph.add_to_collection(_UNDECIDED, _Division(called, refusal=str(refusal)))
        return whole, None
    said = [f"{called}: ranks have their files in different orders; all read them in rank 0's"] if moved else []
    planned = dataclasses.replace(planned, seeds=told[0][2])
    part = input_sharding.shard(last, planned, here.rank, here.size)
    said.append(f"{called}: each rank reads one of {here.size} {planned.what} of the dataset '{planned.place.name}'")
    if undecided:
        graph.add_to_collection(_UNDECIDED, _Division(called, ((whole, part), *moved), said))
    else:
        for line in said:
            note(graph, line)
    return part, input_sharding.without_caches(last)


def _as_dataset(variant: tf.Tensor, like: tf.data.Dataset) -> tf.data.Dataset:
    # Options are ops of the graph.
    return tf.data.experimental.from_variant(variant, like.element_spec)


def _check_same(plans: List[Any], called: str) -> None:
    for rank, planned in enumerate(plans):
        if planned != plans[0]:
            raise ValueError(
                f"tf_booster: {called}: ranks have different inputs, so none knows what the others read. Rank 0 would divide "
                f"{', '.join(plans[0])}; rank {rank} {', '.join(planned)} (what, op, type, stage, number of elements). Give all "
                "ranks the same input, files in the same order; or divide it in the input function, with "
                "enable_gpu_booster(shard_input=False)."
            )


def rows_of(*parts: Any) -> tf.Tensor:
    """The number of rows of a batch, a float32 scalar: the first dimension of labels, or of features; 1 if all are scalars."""
    leaves = [leaf for part in parts for leaf in tf.nest.flatten(part)]
    for leaf in leaves:
        if isinstance(leaf, tf.SparseTensor):
            return tf.cast(leaf.dense_shape[0], tf.float32)
        if isinstance(leaf, tf.RaggedTensor):
            return tf.cast(leaf.nrows(), tf.float32)
        if leaf is not None and leaf.shape.rank != 0:
            return tf.cast(tf.shape(leaf, out_type=tf.int64)[0], tf.float32)
    return tf.ones([])


def note(graph: tf.Graph, said: str) -> None:
    """Says once, and in the report of `graph`, how its input is divided."""
    graph.add_to_collection(NOTES, said)
    if ranks.current().rank == 0:
        log.once(said)
