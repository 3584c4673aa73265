"""The pass that names the program's own collectives in functions.

Horovod's ranks meet by the names of ops. That of an op in a function (of a tf.cond of control flow v2, as hvd.DistributedOptimizer has around each of its all-reduces) is put
together when a session takes the function into its graph: `cond/then/_9/HorovodAllreduce_…`. The number counts what was taken in before, in an order in
which what an op reads comes in front of it; so where a rank has functions more than another, as rank 0 has that saves checkpoints, a rewrite that has a
gradient read something newer gives ranks different names, and they wait for each other for ever. Here each goes by a name that says nothing of scopes. Attributes are gone through by name: a map of Protobuf's has another
order in each process.
"""

from __future__ import annotations

from typing import Any, Dict, List, Set

import tensorflow as tf

from tf_booster import _compat
from tf_booster.parallel import progress, ranks
from tf_booster.parallel.collectives import is_horovods, is_users_collective
from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.sources import called_functions, functions_in

_WITHOUT_SCOPES = "ignore_name_scope"  # Horovod's attribute.


class CollectiveNames(Pass):
    """Has the program's collectives in functions go by names of their own, the same on all ranks, with marks for the watchdog where there is one.

    It is for ranks that tf_booster leaves to the program, too (`horovod=False`), whose graphs are rewritten all the same.
    """

    name = "collective_names"
    seeks = "collective of the program's own in a function"
    essential = True  # Ranks that go on without it could wait for each other for ever.

    def requires(self, view: GraphView) -> bool:
        """Whether functions of the graph have collectives that Horovod would name by their scopes."""
        return bool(_Namer(view).unnamed)

    def run(self, view: GraphView) -> PassResult:
        """Makes copies of the functions, one for each call."""
        namer = _Namer(view)
        for op in view.graph.get_operations():
            namer.name_in(op)
        view.add_functions(namer.made)
        for op, attr, functions in namer.moved:
            view.set_functions(op, attr, functions)
        change = f"{namer.count} collectives of the program's, in functions, have names without scopes"
        return PassResult(self.name, modified=bool(namer.count), changes=[change] if namer.count else [])

    def ensures(self, view: GraphView) -> None:
        """Raises RewriteError if an op still calls such a function."""
        unnamed = _Namer(view).unnamed
        for op in view.graph.get_operations() if unnamed else ():
            if not unnamed.isdisjoint(called_functions(op)):
                raise RewriteError(f"Op '{op.name}' calls a function whose collectives are named by their scopes.")


class _Namer:
    """unnamed: functions that have or call such collectives. made: functions for the graph, and moved: (op, attribute, functions) of what calls
    them. count: of the collectives in them."""

    def __init__(self, view: GraphView) -> None:
        self.made: List[Any] = []
        self.moved: List[Any] = []
        self.count = 0
        self._bodies: Dict[str, Any] = _compat.functions_by_name(view.graph)
        self._taken: Set[str] = {op.name for op in view.graph.get_operations() if is_users_collective(op)}
        for node in (node for body in self._bodies.values() for node in body.node_def if is_horovods(node.op)):
            if not _is_unnamed(node):
                self._taken.add(node.name.rpartition("/")[2])
        self.unnamed: Set[str] = {name for name, body in self._bodies.items() if any(map(_is_unnamed, body.node_def))}
        size = -1
        while self.unnamed and size != len(self.unnamed):
            size = len(self.unnamed)
            self.unnamed |= {name for name, body in self._bodies.items() if any(map(self._calls, body.node_def))}

    def name_in(self, op: tf.Operation) -> None:
        """Makes the functions that `op` is to call."""
        if self.unnamed.isdisjoint(called_functions(op)):
            return
        for attr, value in sorted(op.node_def.attr.items()):
            if not self.unnamed.isdisjoint(functions_in(value)):
                self.moved.append((op, attr, [self._own(name) for name in functions_in(value)]))

    def _calls(self, node: Any) -> bool:
        return any(not self.unnamed.isdisjoint(functions_in(attr)) for attr in node.attr.values())

    def _own(self, function: str) -> str:
        """The function itself, or a copy of it for one call."""
        return self._copy(function) if function in self.unnamed else function

    def _copy(self, function: str) -> str:
        copy = _compat.new_function_definition()
        copy.CopyFrom(self._bodies[function])
        copy.signature.name = f"{function}_named_{len(self.made)}"
        self.made.append(copy)
        for node in copy.node_def:
            for called in [f for attr in sorted(node.attr) for f in _compat.functions_of(node.attr[attr])]:
                called.name = self._own(called.name)
        mine = [node for node in copy.node_def if _is_unnamed(node)]
        names = [self._free_name(node.name.rpartition("/")[2]) for node in mine]
        _rename(copy, {node.name: _beside(node.name, name) for node, name in zip(mine, names)})
        for node, name in zip(mine, names):
            node.attr[_WITHOUT_SCOPES].b = True
            if ranks.current().size > 1:
                progress.mark_in_function(copy, node, name)
        self.count += len(mine)
        return copy.signature.name

    def _free_name(self, wanted: str) -> str:
        name, number = wanted, 0
        while name in self._taken:
            number += 1
            name = f"{wanted}_again_{number}"
        self._taken.add(name)
        return name


def _beside(name: str, own: str) -> str:
    scope, slash, _ = name.rpartition("/")
    return f"{scope}{slash}{own}"


def _is_unnamed(node: Any) -> bool:
    return is_horovods(node.op) and _WITHOUT_SCOPES in node.attr and not node.attr[_WITHOUT_SCOPES].b


def _rename(definition: Any, renamed: Dict[str, str]) -> None:
    """Gives nodes of a FunctionDef other names."""

    def now(tensor: str) -> str:
        before, name = ("^", tensor[1:]) if tensor.startswith("^") else ("", tensor)
        node, colon, output = name.partition(":")
        return f"{before}{renamed.get(node, node)}{colon}{output}"

    for node in definition.node_def:
        node.name = renamed.get(node.name, node.name)
        node.input[:] = [now(tensor) for tensor in node.input]
    for results in (definition.ret, definition.control_ret):
        for result in list(results):
            results[result] = now(results[result])
