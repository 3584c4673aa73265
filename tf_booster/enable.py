"""The one line: switching tf_booster on and off."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

import tensorflow as tf

from tf_booster import _native, log, parsing
from tf_booster import options as _options
from tf_booster.embedding import hash_table
from tf_booster.estimator import device_prefetch, patches, sessions, updatable_exports
from tf_booster.parallel import agreement, calls, evaluation, host_ranks, rank_input, ranks, shared_graphs, watchdog
from tf_booster.passes import eager_datasets, named_features, pipelines, quantized_products, servers, table_placement
from tf_booster.report import Report

_enabled: Optional[_options.Options] = None


def enable_gpu_booster(**options: Any) -> None:
    """Makes TensorFlow rewrite each graph, when it is finished, to faster ops.

    Again with the same options nothing happens; other options hold for the graphs that are not rewritten yet.

    Args:
      **options: see docs/options.md; an unknown one is an error that lists the known ones.

    Raises:
      TypeError, ValueError: an option or value that does not exist, or device="gpu" where no table can be on a card.
      ImportError: the native library is missing or was built for another TensorFlow; says how to build it.
    """
    global _enabled
    wanted = _options.parse(options)
    if wanted == _enabled:
        return
    _native.ops()
    _check_device(wanted)
    if wanted.horovod is not False:
        host_ranks.start()
    ranks.start(wanted)
    shared_graphs.set_partition(wanted.partition)
    watchdog.start(wanted.watchdog, wanted.watchdog_abort)
    calls.start()
    agreement.note_options(vars(wanted))
    if _enabled is None:
        _say_device(wanted)
    else:
        log.warning(
            f"enabled again; graphs that are not rewritten yet get the new options: {_difference(_enabled, wanted)}"
        )
    if wanted.lazy_adam and wanted.fuse_sparse_variables:
        log.warning("lazy_adam=True does nothing here: fuse_sparse_variables=True moves rows without a gradient, too")
    _enabled = wanted
    patches.install(_rewrite)
    parsing.serve_stock_ops(wanted.fast_parser is not False)
    device_prefetch.set_wanted(wanted)
    hash_table.set_rewritten(True)
    rank_input.set_wanted(wanted.shard_input)
    named_features.set_wanted(wanted.repeated_features, any_graph=wanted.xla == "padded")
    updatable_exports.set_wanted(wanted.updatable_exports)
    quantized_products.set_wanted(
        "float32" if "quantized_products" in wanted.disable_passes else wanted.scoring_precision
    )
    evaluation.set_reduction(wanted.gradient_reduction)
    eager_datasets.set_wanted(wanted.fast_parser is not False and "input_pipeline" not in wanted.disable_passes)


def disable_gpu_booster() -> None:
    """Gives TensorFlow back as it was. Graphs that are rewritten stay so."""
    global _enabled
    _enabled = None
    watchdog.stop()
    ranks.stop()
    patches.uninstall()
    parsing.serve_stock_ops(False)
    eager_datasets.set_wanted(False)
    hash_table.set_rewritten(False)


def enabled_options() -> Optional[_options.Options]:
    """The options that hold now; None while tf_booster is off."""
    return _enabled


def rewrite_graph(graph: Optional[tf.Graph] = None, master: str = "", config: Any = None) -> Report:
    """Rewrites a finished graph by hand, for a plain tf.compat.v1.Session. Make the session, or run it, after this.

    An edit after a `session.run` is silently ignored by that session. While tf_booster is enabled, a graph that an open session has
    run is left alone, or refused if it has tables; before, TensorFlow does not tell which graphs were run, and where a session is open
    already its steps are not pipelined. Works whether tf_booster is enabled or not, with the options of enable_gpu_booster or the defaults. A second call
    changes nothing.

    Args:
      graph: the default graph if None.
      master, config: those of the session that will run it, where it is one of a cluster (`server.target`). Its other processes
        are asked whether they have the library's ops; without it, what is placed on them stays TensorFlow's.

    Returns:
      The report of what was done.

    Raises:
      TypeError: `graph` is none.
      RewriteError (a ValueError): the graph has tables and is finalized or was run, or a table is used in a way that cannot be
        served; the message names table, op and remedy, and the graph is as it was.
    """
    graph = tf.compat.v1.get_default_graph() if graph is None else graph
    if not isinstance(graph, tf.Graph):
        raise TypeError(f"rewrite_graph: graph is {graph!r}, wanted a tf.Graph or None")
    shared_graphs.share(graph)
    open_sessions = sessions.num_open(graph)
    obstacle = _HAS_RUN.format(open_sessions) if open_sessions else ""
    options = _enabled or _options.Options()
    if _enabled is None and options.pipeline != "off" and sessions.is_any_made(graph):
        # If it has run, its steps would read the batches that are prepared for others.
        log.once("steps are not pipelined, as a session of the graph is open; call rewrite_graph before it is made")
        options = dataclasses.replace(options, pipeline="off")
    with servers.session_of(servers.Master(master, config)):
        return pipelines.rewrite(graph, options, obstacle=obstacle)


_HAS_RUN = (
    "{} open session(s) ran this graph before and would not see what changes in it; call rewrite_graph before the first "
    "session.run, or close the session first."
)


def _rewrite(graph: tf.Graph) -> None:
    # A new session comes after this, which sees the changes; one that is open goes on with TensorFlow's graph.
    pipelines.rewrite(graph, _enabled or _options.Options())


def _check_device(options: _options.Options) -> None:
    why_not = table_placement.obstacle() if options.device == "gpu" else ""
    if why_not:
        raise ValueError(
            f"enable_gpu_booster: option 'device' is 'gpu', but {why_not}; leave it at 'auto', and tables are in host memory"
        )


def _say_device(options: _options.Options) -> None:
    why_not = table_placement.obstacle()
    if why_not == table_placement.NO_GPU:
        log.once("there is no GPU that TensorFlow can use; everything runs on the CPU.")
    elif options.device == "cpu" or why_not:
        because = f" ({why_not})" if options.device != "cpu" else ""
        log.once(
            f"tables live in host memory and are updated on the CPU{because}; other ops stay where TensorFlow places them."
        )
    else:
        log.once(
            "tables live on the GPU; the report says where each one is. device='cpu' keeps all in host memory, and a "
            "tf.device('/cpu:0') around a table that one."
        )


def _difference(old: _options.Options, new: _options.Options) -> str:
    names = [name for name in vars(new) if getattr(old, name) != getattr(new, name)]
    return ", ".join(f"{name}={getattr(new, name)!r} (was {getattr(old, name)!r})" for name in names)
