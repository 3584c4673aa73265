"""One-shot iterators: their dataset is the result of a function, which is made a graph, changed there, and made a function again."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes.base import PassResult
from tf_booster.passes.graph_view import GraphView

FACTORY = "dataset_factory"
REPLACED = (
    "tf_booster",
    "replaced_iterators",
)  # A graph's collection: the names of iterators that nothing reads any more.

_CHANGED = "_by_tf_booster"  # The end of the names of functions that were made here.


def iterators(view: GraphView) -> List[tf.Operation]:
    """The one-shot iterators of the graph, but for those that were changed here, or that another one stands for."""
    replaced = view.graph.get_collection(REPLACED)
    found = [op for op in view.ops("OneShotIterator") if op.name not in replaced]
    return [op for op in found if not op.get_attr(FACTORY).name.endswith(_CHANGED)]


def change_dataset(view: GraphView, op: tf.Operation, change: Callable[[GraphView], PassResult]) -> PassResult:
    """Has the iterator `op` make its dataset as `change` left it, if it changed something.

    The op stays, because Python's iterator makes more ops that read it. Before a session runs, that is: an iterator that ran keeps
    its dataset.
    """
    name, result = changed_factory(view, op, lambda body, _: change(body), _CHANGED)
    if name is not None:
        view.set_functions(op, FACTORY, [name])
    return result


def changed_factory(
    view: GraphView, op: tf.Operation, change: Callable[[GraphView, tf.Operation], PassResult], ending: str
) -> Tuple[Optional[str], PassResult]:
    """The name of a new function of the graph that makes the dataset of the iterator `op` as `change` left it, and what that said.

    Args:
      change: is given the body as a graph, and the Identity whose input is the dataset.
      ending: of the function's name.

    Returns:
      None for the name where nothing has changed, or the function cannot be.
    """
    functions = _compat.functions_by_name(view.graph)
    factory = functions.get(op.get_attr(FACTORY).name)
    if factory is None or factory.signature.input_arg or len(factory.signature.output_arg) != 1:
        return None, PassResult("", skipped=[("dataset_factory", "it is not in the graph, or takes arguments")])
    body, dataset = _compat.graph_of_function(factory, _used_by(factory, functions), view.graph)
    result = change(GraphView(body), dataset.op)
    if not result.modified:
        return None, result
    new = _compat.function_of_graph(body, dataset, factory)
    new.signature.name = factory.signature.name + ending
    view.add_functions([new, *(f for f in _compat.function_definitions(body) if f.signature.name not in functions)])
    return new.signature.name, result


def _used_by(factory: Any, functions: Dict[str, Any]) -> List[Any]:
    """The functions that `factory` calls, and those that they call."""
    used: Dict[str, Any] = {}
    stack = [factory]
    while stack:
        for node in stack.pop().node_def:
            for attr in node.attr.values():
                for name in [attr.func.name, *(f.name for f in attr.list.func)]:
                    if name in functions and name not in used:
                        used[name] = functions[name]
                        stack.append(functions[name])
    return list(used.values())
