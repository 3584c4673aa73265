"""Which passes a finished graph goes through, in which order, and why.

1. constant_conditions: before all others, which then find in the graph what was in a tf.cond.
2. agreed_updates: over ranks, before conditional_updates, which makes several ops ask for a condition, and before collectives that would come between.
3. conditional_updates: before hash_tables, which does not take a table's updates out of a tf.cond.
4. hash_tables: before all that follow, because it takes Variables out of the graph that no other pass should see.
5. dense_collectives: sums gradients over ranks where they leave the backward pass, which no other pass knows as an end; before the chains
   of lookups become fused ops, because only those show whether a lookup has made its ids distinct; after hash_tables, whose gradients are not its.
6. collective_names: of the program's own, which no other pass looks at.
7. sparse_lookups: knows TensorFlow's whole chain around a gather, so before anything changes a part of it; after hash_tables,
   whose gathers stand in such chains too.
8. partitioned_lookups: knows TensorFlow's chain around the gathers of a partitioned Variable, which variable_gathers would merge one by one.
9. variable_gathers: what is still gathered one by one is now between few ops, so that more of it may be merged.
10. repeated_features: knows lookups by the library's ops, of which one serves repeated features and others; before the passes that merge
   what it makes few rows of with what has all.
11. gather_matmul, split_matmul: products of what repeated_features expands to all rows, which need not be expanded; before the passes that
   join columns or merge layers.
12. clipped_rows: after repeated_features, which knows its ops one by one; before variable_updates, as it changes gradients.
13. indicator_columns: after repeated_features, which knows OneHot and not what it becomes; before sparse_features, for it takes along what makes a dense
   feature sparse.
14. vocabulary_ids, crossed_columns: after repeated_features and before sparse_features for the same reasons; ids of vocabularies are crossed.
15. sparse_features: what sparse_lookups has left of it; after repeated_features, which takes the ops of one feature apart from those of others.
16. bucketized_columns: after all passes that know Bucketize: lookups, crosses and indicator columns read what it gives as it stands.
17. confusion_matrices, finite_checks: share nothing with any other; before those that compile or mark ops.
18. variable_updates: after all passes that change what a gradient is made of, whose ends it takes for good.
19. server_lookups: when it is known which updates are in the process of their Variables; before the passes that join or mark what it takes
   to pieces.
20. learning_rate: after variable_updates, which would no longer know an update whose rate is multiplied.
21. unique: after the passes that take whole chains with their Uniques.
22. quantized_products: after repeated_features, whose copies it takes too; before the passes that compile or merge products, which the option says should be
   integers.
23. xla_padding: of graphs that predict, what goes by row of what the passes before leave; before xla, which then has no reason to give for it.
24. xla: because it marks what the others leave of the dense part.
25. small_matmuls: of the dense part what XLA does not compile.
26. batch_normalization: the same of batch normalization; shares nothing with the passes behind it.
27. pair_dots: the same of products in pairs; before columns, because it leaves stacks out whose parts it reads itself.
28. joined_pair_dots: what pair_dots writes and a concat of any width joins, and the gradient of that; before columns, which would
   split the gradient.
29. field_sums: before columns, too, which leaves it the joins of few and wide parts; after pair_dots, with which it shares nothing.
30. known_shapes: after all passes that know TensorFlow's own chains; before same_shapes, which then sees more.
31. same_shapes: before columns, which then joins what was reshaped.
32. columns: what is joined and split between the ops that the passes before made.
33. joined_gathers: joins that columns made, of what is gathered; behind it, because gradients of these joins read no shapes of their parts any more.
34. joined_layers: what small_matmuls writes and columns joins, or columns splits and small_matmuls reads.
35. joined_lookups: the same of lookups; joins of layers have both sides gone already.
36. direct_lookups: lookups as all passes before know them, and of those that are joined, too.
37. input_pipeline: the datasets of the graph, which no other pass looks at.
38. input_queues: the same of queues.
39. input_over_ranks: after the passes that sum over ranks, because it adds an all-reduce only where none of them took its numbers along.
40. prefetch_to_device: edits nothing; says what became of the input function's dataset.
41. embedding_pipeline: last, because it copies ops that no other pass may change in one of the copies alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
from typing import Any, Iterator, List, Optional, Sequence

import tensorflow as tf

from tf_booster import _compat, log
from tf_booster.embedding import registry
from tf_booster.estimator import device_prefetch, fed_tensors, fetched_updates, frozen_graphs
from tf_booster.options import Options
from tf_booster.parallel import ranks
from tf_booster.parallel.collectives import count_by_kind
from tf_booster.passes.agreed_updates import AgreedUpdates
from tf_booster.passes.base import Pass, PassResult, RewriteError, nothing_found
from tf_booster.passes.batch_normalization import BatchNormalization
from tf_booster.passes.bucketized_columns import BucketizedColumns
from tf_booster.passes.clipped_rows import ClippedRows
from tf_booster.passes.collective_names import CollectiveNames
from tf_booster.passes.columns import Columns
from tf_booster.passes.components import components
from tf_booster.passes.conditional_updates import ConditionalUpdates
from tf_booster.passes.confusion_matrices import ConfusionMatrices
from tf_booster.passes.constant_conditions import ConstantConditions
from tf_booster.passes.crossed_columns import CrossedColumns
from tf_booster.passes.dense_collectives import DenseCollectives
from tf_booster.passes.direct_lookups import DirectLookups
from tf_booster.passes.embedding_pipeline import EmbeddingPipeline, step_fetches
from tf_booster.passes.fetches import executed, fetches_of
from tf_booster.passes.field_sums import FieldSums
from tf_booster.passes.finite_checks import FiniteChecks
from tf_booster.passes.gather_matmul import GatherMatMul
from tf_booster.passes.graph_summary import GraphSummary, summarize
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.hash_tables import HashTables
from tf_booster.passes.indicator_columns import IndicatorColumns
from tf_booster.passes.input_over_ranks import InputOverRanks
from tf_booster.passes.input_pipeline import InputPipeline
from tf_booster.passes.input_queues import InputQueues
from tf_booster.passes.joined_gathers import JoinedGathers
from tf_booster.passes.joined_layers import JoinedLayers
from tf_booster.passes.joined_lookups import JoinedLookups
from tf_booster.passes.joined_pair_dots import JoinedPairDots
from tf_booster.passes.known_shapes import KnownShapes
from tf_booster.passes.learning_rate import LearningRate
from tf_booster.passes.order_free_unique import OrderFreeUnique
from tf_booster.passes.pair_dots import PairDots
from tf_booster.passes.partitioned_lookups import PartitionedLookups
from tf_booster.passes.quantized_products import QuantizedProducts
from tf_booster.passes.repeated_features import RepeatedFeatures
from tf_booster.passes.same_shapes import SameShapes
from tf_booster.passes.server_lookups import ServerLookups
from tf_booster.passes.small_matmuls import SmallMatMuls
from tf_booster.passes.sparse_features import SparseFeatures
from tf_booster.passes.sparse_lookups import SparseLookups
from tf_booster.passes.split_matmul import SplitMatMul
from tf_booster.passes.table_placement import RowRooms
from tf_booster.passes.variable_gathers import VariableGathers
from tf_booster.passes.variable_memory import variable_memory
from tf_booster.passes.variable_updates import VariableUpdates
from tf_booster.passes.vocabulary_ids import VocabularyIds
from tf_booster.passes.xla import Xla
from tf_booster.passes.xla_padding import XlaPadding
from tf_booster.pipeline.split import split_of
from tf_booster.report import Report, describe_table, publish, report_of

_AS_IT_WAS = "The graph is as it was."


def passes(options: Options) -> List[Pass]:
    """The passes that the options leave on, in their order. An option that switches a pass off stands in its line."""
    scales_rates = ranks.current().size > 1 and options.lr_scaling == "linear"
    wanted = [
        (True, ConstantConditions()),
        (ranks.current().size > 1, AgreedUpdates(ranks.current().size, options.gradient_reduction)),
        (True, ConditionalUpdates()),
        (
            True,
            HashTables(
                options.seed,
                options.check_numerics,
                options.gradient_reduction,
                fuse=options.fuse_tables is not False,
                device=options.device,
                rooms=RowRooms(options.table_memory_fraction, options.table_directory or ""),
            ),
        ),
        (ranks.current().size > 1, DenseCollectives(ranks.current().size, options.gradient_reduction)),
        (ranks.horovod_size() > 1, CollectiveNames()),
        (True, SparseLookups()),
        (True, PartitionedLookups()),
        (True, VariableGathers()),
        (bool(options.repeated_features), RepeatedFeatures(options.repeated_features)),
        (bool(options.repeated_features), GatherMatMul()),
        (bool(options.repeated_features), SplitMatMul()),
        (True, ClippedRows()),
        (True, IndicatorColumns()),
        (True, VocabularyIds()),
        (True, CrossedColumns()),
        (True, SparseFeatures()),
        (True, BucketizedColumns()),
        (True, ConfusionMatrices()),
        (True, FiniteChecks()),
        (
            options.fuse_variables is not False,
            VariableUpdates(options.fuse_sparse_variables, options.lazy_adam, scales_rates),
        ),
        (True, ServerLookups()),
        (scales_rates, LearningRate(ranks.current().size, options.warmup_steps)),
        (True, OrderFreeUnique()),
        (options.scoring_precision != "float32", QuantizedProducts(options.scoring_precision)),
        (options.xla == "padded", XlaPadding()),
        (options.xla != "off", Xla()),
        (True, SmallMatMuls()),
        (True, BatchNormalization()),
        (True, PairDots()),
        (True, JoinedPairDots()),
        (True, FieldSums()),
        (True, KnownShapes()),
        (True, SameShapes()),
        (True, Columns()),
        (True, JoinedGathers()),
        (True, JoinedLayers()),
        (True, JoinedLookups()),
        (True, DirectLookups()),
        (options.fast_parser is not False, InputPipeline()),
        (True, InputQueues()),
        (ranks.current().size > 1, InputOverRanks()),
        (device_prefetch.is_told_of(options), device_prefetch.PrefetchToDevice()),
        (options.pipeline != "off", EmbeddingPipeline(options.pipeline, bool(options.table_directory))),
    ]
    return [p for on, p in wanted if on and p.name not in options.disable_passes]


def rewrite(graph: tf.Graph, options: Options, only: Optional[Sequence[Pass]] = None, obstacle: str = "") -> Report:
    """Runs all passes on `graph` and publishes the report, unless nothing was left to do.

    A pass that fails is undone, and the next one has its turn; the report says so. But without hash_tables a graph with tables
    cannot run, so what that raises is raised here.

    Args:
      only: these passes, in place of those that the options leave on.
      obstacle: why nothing may change in the graph, and the remedy; "" for none.

    Raises:
      RewriteError: the graph cannot be rewritten; it is as it was.
    """
    view = GraphView(graph)
    chosen = passes(options) if only is None else list(only)
    obstacle = obstacle or _obstacle(graph)
    if obstacle:
        if any(p.essential and p.requires(view) for p in chosen):
            raise RewriteError(f"rewrite_graph: {obstacle}")
        if not report_of(graph) and any(_is_wanted(p, view) for p in chosen):
            log.once(f"a graph is left as it is: {obstacle}")
        return report_of(graph) or _published(graph, [PassResult(p.name) for p in chosen], obstacle)
    if not any(_is_wanted(p, view) for p in chosen):
        results = [PassResult(p.name, note=nothing_found(p)) for p in chosen]
        return report_of(graph) or _published(graph, results, _AS_IT_WAS)
    with _no_garbage_collection(), _integers_as_sizes():
        return _rewrite(view, chosen)


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Each collection would walk the millions of objects of a large graph, a fifth of the passes' time, and find nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def _integers_as_sizes() -> Iterator[None]:
    """Sizes in shapes are integers and None, also in programs that call disable_v2_behavior: there they are Dimensions, none of which is None."""
    if isinstance(tf.TensorShape([1])[0], int):
        yield
        return
    tf.compat.v1.enable_v2_tensorshape()
    try:
        yield
    finally:
        tf.compat.v1.disable_v2_tensorshape()


def _rewrite(view: GraphView, chosen: Sequence[Pass]) -> Report:
    graph = view.graph
    fetches = fetches_of(view)
    before = _summary(view, fetches)
    results = [_run(p, view) for p in chosen]
    if not any(result.modified for result in results):
        # After a second run the report of the first still holds.
        return report_of(graph) or _published(graph, results, _AS_IT_WAS)
    frozen_graphs.rewritten_graphs.watch(graph)
    fed_tensors.watch(graph)
    fetched_updates.watch(graph)
    split = split_of(graph)
    both = () if split is None else (split.enqueue.name,)
    after = _summary(view, dataclasses.replace(fetches, names=(*fetches.names, *both)))
    memory = variable_memory(view)
    collectives = count_by_kind(
        view.index().ops[number] for number in executed(view, [*step_fetches(view, fetches), *both])
    )
    made = _published(
        graph,
        results,
        before=before,
        after=after,
        counted_from=fetches.said_by,
        memory=memory,
        collectives=collectives,
    )
    log.info_once("\n" + str(made))
    return made


def _is_wanted(p: Pass, view: GraphView) -> bool:
    try:
        return p.requires(view)
    except Exception:  # _run meets it again, and reports it. pylint: disable=broad-except
        return True


def _summary(view: GraphView, fetches: Any) -> Optional[GraphSummary]:
    try:
        return summarize(view, fetches)
    except Exception as error:  # Training does not stop for a figure in the report. pylint: disable=broad-except
        log.once(f"the report cannot count the ops of the graph: {type(error).__name__}: {error}")
        return None


def _run(p: Pass, view: GraphView) -> PassResult:
    view.commit()
    try:
        if not p.requires(view):
            return PassResult(p.name, note=nothing_found(p))
        first_made = len(view.index().ops)
        result = p.run(view)
        p.ensures(view)
        _check_order(view, first_made)
        if not p.essential:
            _check_processes(view, first_made)
        view.commit()
        if not (result.modified or result.skipped or result.note):
            result.note = nothing_found(p)
        return result
    except BaseException as error:
        view.rollback()
        if p.essential or not isinstance(error, Exception):
            raise
        log.once(f"pass '{p.name}' failed and is undone; the graph goes without it: {type(error).__name__}: {error}")
        remedy = f"enable_gpu_booster(disable_passes=['{p.name}']) leaves the pass out"
        return PassResult(
            p.name, skipped=[(p.name, f"failed and is undone: {type(error).__name__}: {error}; {remedy}")]
        )


def _check_order(view: GraphView, first_made: int) -> None:
    """Raises RewriteError if an op from this number on waits for itself: TensorFlow would refuse the graph, and with it the program."""
    index = view.index()
    for component in components(index.before, range(first_made, len(index.ops))):
        on_cycle = len(component) > 1 or component[0] in index.before[component[0]]
        new = next((number for number in component if number >= first_made), None)
        if on_cycle and new is not None and not any(index.ops[number].type == "NextIteration" for number in component):
            raise RewriteError(f"Op '{index.ops[new].name}' would wait for itself.")


def _check_processes(view: GraphView, first_made: int) -> None:
    """Raises RewriteError if an op from this number on is in a process that does not know it: the graph could not run."""
    for op in view.index().ops[first_made:]:
        if op.type.startswith("TfBooster") and view.elsewhere(op):
            raise RewriteError(f"Op '{op.name}' cannot be where it is placed: {view.elsewhere(op)}")


def _obstacle(graph: tf.Graph) -> str:
    if _compat.is_function_graph(graph):
        return "this is the body of a function; rewrite the graph around it."
    if _compat.is_finalized(graph):
        return "the graph is finalized, so nothing in it can change; rewrite it before a MonitoredSession is made."
    return ""


def _published(graph: tf.Graph, results: List[PassResult], note: str = "", **known: Any) -> Report:
    made = Report(results, [describe_table(t) for t in registry.rewritten(graph).values()], note=note, **known)
    publish(made, graph)
    return made
