"""Which passes a finished graph goes through, in which order, and why.

1. hash_tables: first, because it takes Variables out of the graph that no other pass should see.
"""

from __future__ import annotations

import os
from typing import List, Optional

import tensorflow as tf

from tf_booster import _compat, log
from tf_booster.embedding import registry
from tf_booster.options import Options
from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.hash_tables import HashTables
from tf_booster.report import Report, describe_table, publish, report


def passes(options: Options) -> List[Pass]:
    """The passes in their order."""
    ranks = 1 if options.horovod is False else int(os.environ.get("HOROVOD_SIZE") or 1)
    return [HashTables(seed=options.seed, check_numerics=options.check_numerics, ranks=ranks)]


def rewrite(graph: Optional[tf.Graph], options: Options) -> Report:
    """Runs all passes on `graph` (None: the default graph) and publishes the report, unless nothing was left to do.

    Raises:
      RewriteError: the graph cannot be rewritten; it is as it was.
    """
    graph = graph or tf.compat.v1.get_default_graph()
    view = GraphView(graph)
    todo = [p for p in passes(options) if p.requires(view)]
    if not todo:
        return _nothing_to_do(graph)
    if _compat.is_function_graph(graph):
        raise RewriteError("rewrite_graph: this is the body of a function; rewrite the graph around it.")
    if _compat.is_finalized(graph):
        raise RewriteError(
            "rewrite_graph: the graph is finalized, so nothing in it can change; rewrite it before a MonitoredSession is made."
        )
    results = []
    for p in todo:
        results.append(p.run(view))
        p.ensures(view)
    made = _report(graph, results)
    publish(made, graph)
    log.info("\n" + str(made))
    return made


def _nothing_to_do(graph: tf.Graph) -> Report:
    if registry.rewritten(graph):
        return report()  # A second run changes nothing, the report of the first still holds.
    made = Report(passes=[PassResult(HashTables.name)], note="This graph has no tables; it is as it was.")
    publish(made, graph)
    return made


def _report(graph: tf.Graph, results: List[PassResult]) -> Report:
    return Report(results, [describe_table(t) for t in registry.rewritten(graph).values()])
