"""The places where TensorFlow is hooked into, and how the hooks are put in and taken out.

The start of `Scaffold.finalize` sees every graph that a MonitoredSession runs: train, evaluate, predict, train_and_evaluate,
and MonitoredTrainingSession without an Estimator. `Estimator.export_saved_model` makes a plain Session, so there the
graph is rewritten when the model function has returned, before the Saver is made.

A SavedModel of a graph without tables stays TensorFlow's, unless an option asks for more of it: it is served where tf_booster need not be.

Sessions are noted when they first run, because what is edited later they do not see. What an EstimatorSpec says of fetches is noted for
the report. The constructor of MonitoredSession gets a hook that notes the tables' sizes for the report, and one that gives back what an evaluation
within a training was lent. The creators of its sessions
say on which master they are, so that the rewrite can ask the cluster's other processes what they know.

Evaluations and exports within a training read its tables: what runs them is wrapped, and so are the hooks while which it waits.

What takes long in graphs of hundreds of features is replaced by what does not (large_graphs.py), and so is how rows of arrays are picked for a
queue (row_numbers.py).

init_from_checkpoint, and with it WarmStartSettings, names Variables before the rewrite; what it says of tables is kept for it.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, Callable, List, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.checkpoint import increments, lending, lent_variables, rank_hooks, rank_savers, warm_start
from tf_booster.estimator import (
    device_prefetch,
    error_words,
    frozen_graphs,
    in_memory_evaluation,
    large_graphs,
    resource_variables,
    row_numbers,
    saved_model,
    sessions,
    updatable_exports,
)
from tf_booster.estimator.table_stats import TableStatsHook
from tf_booster.parallel import (
    agreed_time,
    agreement,
    calls,
    end_together,
    evaluation,
    failed_runs,
    graph_iterators,
    initial_values,
    loss_reduction,
    own_sessions,
    prediction,
    program_input,
    quiet,
    rank_0_decides,
    rank_input,
    ranks,
    raw_gradients,
    shared_graphs,
    told_loss,
)
from tf_booster.passes import eager_datasets, fetches, named_features, quantized_products, servers
from tf_booster.pipeline import attach

Rewrite = Callable[[tf.Graph], Any]

_installed: List[Tuple[Any, str, Any]] = []  # Class or module, name in it, TensorFlow's own.
_exporting = threading.local()


def install(rewrite: Rewrite) -> None:
    """Makes TensorFlow call `rewrite(graph)` on each finished graph. Does nothing when it already does."""
    if _installed:
        return
    _replace(_compat.scaffold_class(), "finalize", lambda original: _finalize(original, rewrite))
    for creator in _compat.session_creator_classes():
        _replace(creator, "create_session", _create_session)
    _replace(_compat.monitored_session_class(), "__init__", _with_hooks)
    _replace(_compat.base_session_class(), "_extend_graph", sessions.note_run)
    _replace(_compat.base_session_class(), "_do_call", error_words.with_op_of_program)
    _replace(*_compat.error_interpolation(), error_words.with_ops_of_program)
    _replace(_compat.graph_io(), "text_format", large_graphs.TextFormat)
    _replace(_compat.op_selector(), "get_backward_walk_ops", large_graphs.get_backward_walk_ops)
    attach.split_graphs.switch(True)
    frozen_graphs.rewritten_graphs.switch(True)
    estimator = _compat.estimator_class()
    if estimator is not None:
        _replace(estimator, "_call_model_fn", lambda original: _call_model_fn(original, rewrite))
        _replace(estimator, "_add_meta_graph_for_mode", _add_meta_graph_for_mode)
        _replace(estimator, "evaluate", lending.evaluate)
        hook = _compat.in_memory_hook_class()
        _replace(hook, "begin", in_memory_evaluation.wrap_begin)
        _replace(hook, "after_create_session", in_memory_evaluation.wrap_after_create_session)
        _replace(hook, "_evaluate", in_memory_evaluation.wrap_evaluate)
        _replace(_compat.estimator_util(), "parse_input_fn_result", device_prefetch.wrap)
        _replace(_compat.queue_feeds(), "_get_integer_indices_for_next_batch", row_numbers.wrap)
    _replace(_compat.eager_iterator_class(), "_create_iterator", eager_datasets.wrap)
    if ranks.current().size > 1:
        _install_for_several_ranks()
    _replace(_compat.saver_class(), "_build", rank_savers.wrap_build)
    _replace(_compat.saver_class(), "save", rank_savers.wrap_save)
    _replace(_compat.saver_class(), "restore", lent_variables.wrap_restore)
    _replace(_compat.saver_hook_class(), "begin", rank_hooks.wrap_begin)
    _replace(_compat.saver_hook_class(), "begin", lent_variables.wrap_begin)
    _replace(_compat.saver_hook_class(), "after_run", rank_hooks.wrap_after_run)
    for method in ("after_create_session", "after_run", "end"):
        _replace(_compat.saver_hook_class(), method, lending.waits)
    _replace(_compat.checkpoint_utils(), "_init_from_checkpoint", _init_from_checkpoint)
    _replace(_compat.variables_module(), "variables_initializer", warm_start.wrap_variables_initializer)
    _replace(_compat.warm_starting_util(), "_warm_start_var_with_vocab", _warm_start_var_with_vocab)


def _install_for_several_ranks() -> None:
    _replace(_compat.gradients_util(), "_GradientsHelper", raw_gradients.mark_helper)
    _replace(tf.GradientTape, "gradient", raw_gradients.mark_tape)
    for head in _compat.head_classes():
        _replace(head, "create_estimator_spec", loss_reduction.note_head)
    _replace(_compat.coordinated_session_class(), "run", failed_runs.note_failure)
    _replace(_compat.monitored_session_class(), "__init__", initial_values.with_broadcast_hook)
    _replace(_compat.monitored_session_class(), "__init__", end_together.with_end_together)
    _replace(_compat.monitored_session_class(), "__init__", agreed_time.with_agreed_timers)
    _replace(
        _compat.monitored_session_class(), "__init__", program_input.with_divided_input
    )  # Before hooks see the graph.
    _replace(_compat.monitored_session_class(), "__init__", own_sessions.with_agreement)
    if ranks.current().rank > 0:
        _replace(tf.get_logger(), "filters", quiet.only_warnings)
        _replace(tf.compat.v1.summary.FileWriterCache, "get", quiet.silent_writer)
    estimator = _compat.estimator_class()
    if estimator is not None:
        _replace(estimator, "_train_with_estimator_spec", told_loss.with_told_loss)
        _replace(estimator, "_call_input_fn", rank_input.call_input_fn)
        _replace(_compat.estimator_util(), "parse_input_fn_result", rank_input.parse_input_fn_result)
        _replace(_compat.estimator_module(), "_verify_and_create_loss_metric", evaluation.loss_metric)
        _replace(estimator, "train", calls.train)
        _replace(estimator, "evaluate", rank_0_decides.evaluate)
        _replace(estimator, "predict", prediction.predict)
        _replace(estimator, "_export_all_saved_models", rank_0_decides.export)
        _replace(_compat.evaluator_class(), "evaluate_and_export", calls.by_listener)
        _replace(_compat.evaluator_class(), "_export_eval_result", rank_0_decides.export)
        _replace(_compat.evaluation_listener_class(), "begin", rank_0_decides.begin_listener)


def uninstall() -> None:
    """Puts TensorFlow's own methods back."""
    while _installed:
        owner, name, original = _installed.pop()
        setattr(owner, name, original)
    attach.split_graphs.switch(False)
    frozen_graphs.rewritten_graphs.switch(False)


def _replace(owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    original = owner.__dict__[name]
    replacement = wrap(original)
    setattr(owner, name, _compat.unconverted(replacement) if callable(replacement) else replacement)
    _installed.append((owner, name, original))


def _rewrite(graph: tf.Graph, scaffold: Any, rewrite: Rewrite) -> None:
    # A tf.train.Checkpoint would find the Variables that stand for tables again, after the rewrite; a Saver's ops it can edit.
    if _has_ops(graph, "TfBoosterStandIn"):
        _compat.name_based_saver(scaffold)
    rewrite(graph)


def _has_ops(graph: tf.Graph, start: str) -> bool:
    return any(op.type.startswith(start) for op in graph.get_operations())


def _with_hooks(original: Any) -> Any:
    @functools.wraps(original)
    def __init__(self: Any, session_creator: Any, hooks: Any, *args: Any, **kwargs: Any) -> None:
        ours = [TableStatsHook(), lent_variables.GiveBackHook()]
        original(self, session_creator, [*(hooks or []), *ours], *args, **kwargs)

    return __init__


def _create_session(original: Any) -> Any:
    @functools.wraps(original)
    def create_session(self: Any) -> Any:
        with servers.session_of(servers.Master(*_compat.master_of_creator(self))):
            return original(self)

    return create_session


def _finalize(original: Any, rewrite: Rewrite) -> Any:
    @functools.wraps(original)
    def finalize(self: Any) -> Any:
        graph = tf.compat.v1.get_default_graph()
        # A session that is made anew after an error finds the graph finalized, and rewritten.
        if not _compat.is_finalized(graph):
            shared_graphs.share(graph)
            graph_iterators.follow(graph)
            _rewrite(graph, self, rewrite)
            lent_variables.rewritten(graph)
            if isinstance(self.saver, tf.compat.v1.train.Saver):
                rank_savers.prepare(self.saver, graph)
            increments.prepare_all(graph)
            in_memory_evaluation.prepare_all(graph)
            rank_savers.prepare_all(graph)
            agreement.agree(graph)
        result = original(self)
        warm_start.forget_resources(graph)
        return result

    return finalize


def _call_model_fn(original: Any, rewrite: Rewrite) -> Any:
    @functools.wraps(original)
    def _call_model_fn(self: Any, features: Any, labels: Any, mode: Any, config: Any) -> Any:
        given = named_features.of_model_fn(features)
        with resource_variables.for_stand_ins():
            spec = original(self, features=features, labels=labels, mode=mode, config=config)
        graph = tf.compat.v1.get_default_graph()
        rank_input.decide(graph, mode == tf.estimator.ModeKeys.TRAIN)
        fetches.note_spec(graph, spec)
        named_features.note_spec(graph, given, spec)
        if getattr(_exporting, "graphs", None) is not None and _is_wanted(graph):
            _rewrite(graph, spec.scaffold, rewrite)
            updatable_exports.add(graph, spec.scaffold)
            _exporting.graphs.append(graph)
        return spec

    return _call_model_fn


def _is_wanted(graph: tf.Graph) -> bool:
    """Whether an export of `graph` is rewritten, and needs tf_booster where it is served."""
    return _has_ops(graph, "TfBooster") or named_features.is_wanted(graph) or quantized_products.is_wanted(graph)


def _add_meta_graph_for_mode(original: Any) -> Any:
    @functools.wraps(original)
    def _add_meta_graph_for_mode(
        self: Any, builder: Any, input_receiver_fn_map: Any, checkpoint_path: Any, *args: Any, **kwargs: Any
    ) -> Any:
        outer, _exporting.graphs = getattr(_exporting, "graphs", None), []
        try:
            with lending.from_checkpoint(checkpoint_path, exports=True):
                result = original(self, builder, input_receiver_fn_map, checkpoint_path, *args, **kwargs)
            for graph in _exporting.graphs:
                saved_model.finish_last(builder, graph)
            return result
        finally:
            _exporting.graphs = outer

    return _add_meta_graph_for_mode


def _init_from_checkpoint(original: Any) -> Any:
    @functools.wraps(original)
    def _init_from_checkpoint(ckpt_dir_or_file: Any, assignment_map: Any) -> None:
        warm_start.init_from_checkpoint(original, ckpt_dir_or_file, assignment_map)

    return _init_from_checkpoint


def _warm_start_var_with_vocab(original: Any) -> Any:
    @functools.wraps(original)
    def _warm_start_var_with_vocab(var: Any, *args: Any, **kwargs: Any) -> Any:
        warm_start.refuse_vocabulary(var)
        return original(var, *args, **kwargs)

    return _warm_start_var_with_vocab
