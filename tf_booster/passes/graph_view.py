"""The only graph surgery: everything that edits a graph's edges or collections is here, and can be undone."""

from __future__ import annotations

import contextlib
import functools
import weakref
from typing import Any, Callable, Collection, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

import tensorflow as tf

from tf_booster import _compat
from tf_booster.passes import journal, servers
from tf_booster.passes.graph_index import GraphIndex

_REMOVED = ("tf_booster", "removed_variables")
_UNDONE = "tf_booster/undone"
_superseded: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph -> WeakSet of its ops.
_left_functions: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph -> names of functions.
_before: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph -> inputs_before() of it.
_stand_ins: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph -> by a tensor's name, its stand_in_of()'s.
_relied_on: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Graph -> names of tensors; see rely_on().
ORIGINALS = "_tf_booster_originals"


class GraphView:
    """A graph with the questions and edits that passes need. Ops cannot be removed from a graph, only cut off.

    Edits are kept in a journal from the view's making on: rollback() takes back those since the last commit(). Ops made
    in between stay behind, unreachable.
    """

    def __init__(self, graph: tf.Graph):
        self.graph = graph
        self._moved: Dict[Any, tf.Tensor] = {}
        self._handle_ops: Dict[str, Tuple[int, Set[Optional[tf.Operation]]]] = {}
        self._index = GraphIndex(graph)
        self._journal = journal.Journal(graph, self._index.edited)
        self.commit()

    # --- Questions ---

    def index(self) -> GraphIndex:
        """All ops and what is before each, as it is now. Making it is linear in the graph, later calls in what changed."""
        return self._index.refresh()

    def ops(self, *types: str) -> List[tf.Operation]:
        """All ops of the given types, in the order in which they were made."""
        return self.index().of_types(types)

    def upstream_of_initializers(self) -> Set[int]:
        """Numbers, in index(), of the ops that run when Variables are initialized, or local ones, or lookup tables."""
        keys = tf.compat.v1.GraphKeys
        variables = [
            *self.graph.get_collection(keys.GLOBAL_VARIABLES),
            *self.graph.get_collection(keys.LOCAL_VARIABLES),
        ]
        ops = [v.initializer for v in variables if isinstance(getattr(v, "initializer", None), tf.Operation)]
        ops += [op for op in self.graph.get_collection(keys.TABLE_INITIALIZERS) if isinstance(op, tf.Operation)]
        return self.index().upstream(op for op in ops if op.graph is self.graph)

    def originals(self, op: tf.Operation) -> List[str]:
        """Names of the ops that `op` stands for, as note_originals() was told."""
        return originals(op)

    def runs_on_cpu(self, op: tf.Operation) -> bool:
        """Whether TensorFlow will run `op` on the CPU: see device_kind."""
        return _compat.device_kind(op) == "CPU"

    def elsewhere(self, op: tf.Operation) -> str:
        """Why nothing of the library can run in the process where `op` is, such as a parameter server without it; "" if it can."""
        return servers.why_not(op)

    def can_stand_for(self, op: tf.Operation, fused_type: str, **types: tf.DType) -> bool:
        """Whether an op of `fused_type` with these dtypes can run where TensorFlow runs `op`: has the process the library, the GPU a kernel?

        Asks TensorFlow's registry of kernels, so what the native library was built with decides.
        """
        if self.elsewhere(op):
            return False
        return self.runs_on_cpu(op) or _compat.has_gpu_kernel(fused_type, types)

    def functions_with(self, *types: str) -> Dict[str, tf.compat.v1.NodeDef]:
        """Functions of the graph (tf.function, v2 control flow, tf.data) that hold an op of these types -> one such op."""
        found = {}
        left = _left_functions.get(self.graph, ())
        for function in _compat.function_definitions(self.graph):
            for node in function.node_def:
                if node.op in types and function.signature.name not in left:
                    found[function.signature.name] = node
        return found

    def in_collection(self, name: str, handle_op: tf.Operation) -> bool:
        """Whether a Variable on `handle_op` is in the collection. Cheap for many in turn: asks a set, made anew at each commit and where the length is another."""
        items = _compat.collections(self.graph).get(name, ())
        if self._handle_ops.get(name, (-1, set()))[0] != len(items):
            self._handle_ops[name] = len(items), {variable_handle_op(item) for item in items}
        return handle_op in self._handle_ops[name][1]

    def is_plain_on_cpu(self, op: tf.Operation) -> bool:
        """Whether `op` runs on the CPU as it stands: XLA does not compile it, and it is not inside of control flow."""
        return self.is_plain(op) and self.runs_on_cpu(op)

    def is_plain(self, op: tf.Operation, *fused_types: str) -> bool:
        """Whether `op` runs as it stands, and ops of the fused types, which have no types to choose, can where TensorFlow runs it."""
        return (
            not is_marked_for_compilation(op)
            and not self.elsewhere(op)
            and all(self.can_stand_for(op, fused_type) for fused_type in fused_types)
            and not _compat.in_control_flow(op)
        )

    @staticmethod
    def downstream(ops: Iterable[tf.Operation]) -> Set[tf.Operation]:
        """`ops` and all that follows from them over data and control edges."""
        seen: Set[tf.Operation] = set()
        stack = list(ops)
        while stack:
            op = stack.pop()
            if op in seen:
                continue
            seen.add(op)
            for output in op.outputs:
                stack.extend(output.consumers())
            stack.extend(_compat.control_outputs(op))
        return seen

    @staticmethod
    def control_outputs(op: tf.Operation) -> List[tf.Operation]:
        """The ops that wait on `op`."""
        return _compat.control_outputs(op)

    def current(self, tensor: tf.Tensor) -> tf.Tensor:
        """What stands in the place of `tensor` after all consumers of it were redirected; itself if they were not."""
        while tensor.ref() in self._moved:
            tensor = self._moved[tensor.ref()]
        return tensor

    def is_superseded(self, op: tf.Operation) -> bool:
        """Whether a pass has left `op` only for those who hold its results: to merge it with ops that run would make it run."""
        return is_superseded(op)

    # --- Undoing ---

    def commit(self) -> None:
        """Keeps all edits for good."""
        self._journal.commit()
        self._committed = self.graph.version
        self._handle_ops.clear()
        self._collections = {key: list(items) for key, items in _compat.collections(self.graph).items()}

    def rollback(self) -> int:
        """Takes back the edits since the last commit(), last first, and cuts off the ops made since.

        Collections are as they were too, whoever changed them. Returns how many edges were edited.
        """
        undone = self._journal.rollback()
        for key, items in _compat.collections(self.graph).items():
            items[:] = self._collections.get(key, [])
        if self.graph.version != self._committed and not _compat.is_finalized(self.graph):
            self.cut_off(self.graph.get_operations()[self._committed :])
            self.commit()
        return undone

    def cut_off(self, left: Sequence[tf.Operation]) -> None:
        """Nothing reads `left` any more; when they too read nothing, who looks at a tensor's consumers does not meet them."""
        inside = set(left)
        stand_ins: Dict[Any, tf.Tensor] = {}
        for op in left:
            if not inside.issuperset(op.control_inputs):
                _set_control_inputs(op, [c for c in op.control_inputs if c in inside])
            for index, tensor in enumerate(op.inputs):
                if tensor.op in inside:
                    continue
                like = (tensor.dtype.base_dtype, str(tensor.shape))
                if like not in stand_ins:
                    with self.inserting(None):
                        stand_ins[like] = tf.compat.v1.placeholder(like[0], tensor.shape, name=_UNDONE)
                try:
                    update_input(op, index, stand_ins[like])
                except (ValueError, TypeError, tf.errors.OpError):
                    continue  # A shape function that wants to know more; the op is unreachable all the same.

    def on_rollback(self, undo: Callable[[], Any]) -> None:
        """Has rollback() call `undo`, for what a pass changes outside of the graph."""
        self._journal.add(undo)

    # --- Edits ---

    def note_originals(self, new_op: tf.Operation, old_ops: Iterable[tf.Operation]) -> None:
        """Writes on `new_op` which ops it stands for, so that timelines, TensorBoard and the report lead back to them.

        Where an old op stands itself for others, those are noted.
        """
        names = list(dict.fromkeys(name for op in old_ops for name in originals(op) or [op.name]))
        _compat.set_string_list_attr(new_op, ORIGINALS, names)

    def supersede(self, ops: Iterable[tf.Operation]) -> None:
        """Notes that nothing but a fetch by name runs these ops any more."""
        left = _superseded.setdefault(self.graph, weakref.WeakSet())
        new = [op for op in ops if op not in left]
        self._journal.add(lambda: left.difference_update(new))
        left.update(new)

    def rely_on(self, tensors: Iterable[tf.Tensor]) -> None:
        """Notes that the graph is what it is because of the values of these constants: they must not be fed others."""
        names = _relied_on.setdefault(self.graph, set())
        new = {tensor.name for tensor in tensors} - names
        self._journal.add(lambda: names.difference_update(new))
        names.update(new)

    def stand_in(self, new_op: tf.Operation, old_ops: Sequence[tf.Operation]) -> None:
        """What waits on `old_ops`, whose outputs nothing reads any more, waits on `new_op`, which stands for them; they are superseded."""
        self.redirect_control(old_ops, new_op)
        self.note_originals(new_op, old_ops)
        self.supersede(old_ops)

    def add_functions(self, definitions: Sequence[Any]) -> None:
        """Adds FunctionDefs to the graph's library."""
        with self.graph.as_default():
            tf.graph_util.import_graph_def(self._graph_def([], definitions), name="")

    def add_nodes(
        self, nodes: Sequence[Any], definitions: Sequence[Any], inputs: Sequence[tf.Tensor], name: str
    ) -> List[tf.Operation]:
        """Adds ops as the NodeDefs `nodes`, under `name`, and the FunctionDefs that they call.

        A node's inputs are names of others, or "input_0" and so on for `inputs`.
        """
        placeholders: Any = {f"input_{i}:0": tensor for i, tensor in enumerate(inputs)}
        names = [node.name for node in nodes]
        return tf.graph_util.import_graph_def(self._graph_def(nodes, definitions), placeholders, names, name)

    def _graph_def(self, nodes: Sequence[Any], definitions: Sequence[Any]) -> Any:
        graph_def = tf.compat.v1.GraphDef(node=nodes)
        graph_def.versions.CopyFrom(self.graph.graph_def_versions)
        _compat.add_functions(graph_def, definitions)
        return graph_def

    def set_functions(self, op: tf.Operation, attr: str, names: Sequence[str]) -> None:
        """Has `op` call other functions of the graph for its attr, one or a list of as many as before."""
        before = [function.name for function in _compat.functions_of(op.node_def.attr[attr])]
        _compat.set_functions_of(op, attr, names)
        self._journal.add(functools.partial(_compat.set_functions_of, op, attr, before))

    def set_ints(self, op: tf.Operation, attr: str, values: Sequence[int]) -> None:
        """Writes a list of integers on `op`."""
        before = list(op.get_attr(attr))
        _compat.set_int_list_attr(op, attr, values)
        self._journal.add(functools.partial(_compat.set_int_list_attr, op, attr, before))

    def set_string(self, op: tf.Operation, attr: str, value: str) -> None:
        """Writes a string on `op`."""
        before = tf.compat.as_str(op.get_attr(attr))
        _compat.set_string_attr(op, attr, value)
        self._journal.add(functools.partial(_compat.set_string_attr, op, attr, before))

    def mark_for_compilation(self, op: tf.Operation, scope: str) -> None:
        """Has XLA compile `op` together with the others of `scope`."""
        _compat.set_xla_scope(op, scope)
        self._journal.add(lambda: _compat.set_xla_scope(op, None))

    def keep_from_compilation(self, op: tf.Operation) -> None:
        """Has neither XLA compile `op`, nor a pass merge it with others: it runs in one of two branches."""
        _compat.forbid_xla(op)
        self._journal.add(lambda: _compat.set_xla_scope(op, None))

    def leave_function(self, name: str) -> None:
        """Notes that nothing calls the function `name` of the graph any more."""
        left = _left_functions.setdefault(self.graph, set())
        self._journal.add(lambda: left.discard(name))
        left.add(name)

    @contextlib.contextmanager
    def inserting(self, device: Optional[str], control_inputs: Sequence[tf.Operation] = ()) -> Iterator[None]:
        """Ops made inside get this device and these control inputs, and nothing of the scopes around the caller."""
        with self.graph.as_default(), self.graph.name_scope(None), tf.control_dependencies(None), tf.device(None):
            with tf.device(device), tf.control_dependencies(list(control_inputs)):
                yield

    def redirect(
        self, old: tf.Tensor, new: tf.Tensor, consumers: Optional[Callable[[tf.Operation], bool]] = None
    ) -> int:
        """Makes the consumers of `old` (those that `consumers` accepts) read `new`. Returns how many edges moved."""
        return self.redirect_all([(old, new)], consumers)

    def redirect_all(
        self,
        moves: Sequence[Tuple[tf.Tensor, tf.Tensor]],
        consumers: Optional[Callable[[tf.Operation], bool]] = None,
    ) -> int:
        """redirect() for many pairs (old, new). Returns how many edges moved.

        Looks once at the inputs of an op, however many of `moves` it reads: an op of 1000 lookups has thousands.
        """
        wanted: Dict[tf.Operation, Dict[int, tf.Tensor]] = {}
        for old, new in moves:
            if consumers is None:
                before = self._moved.get(old.ref())
                self._journal.add(functools.partial(self._restore_moved, old, before))
                self._moved[old.ref()] = new
            for op in old.consumers():
                if op is not new.op and (consumers is None or consumers(op)):
                    wanted.setdefault(op, {})[id(old)] = new
        moved = 0
        for op, by_old in wanted.items():
            _keep_inputs(op)
            for index, tensor in enumerate(tuple(op.inputs)):
                if id(tensor) in by_old:
                    _compat.update_input(op, index, by_old[id(tensor)])
                    journal.note(op, functools.partial(_compat.update_input, op, index, tensor))
                    moved += 1
        return moved

    def replace_all(self, moves: Sequence[Tuple[tf.Tensor, tf.Tensor]]) -> None:
        """redirect_all() to new tensors each of which stands for one old one and for nothing else: what the old one is fed, it is."""
        self.redirect_all(moves)
        kept = _stand_ins.setdefault(self.graph, {})
        for old, new in moves:
            kept[old.name] = new.name
            self._journal.add(functools.partial(kept.pop, old.name))

    def redirect_control(self, old: Sequence[tf.Operation], new: tf.Operation) -> int:
        """Makes the ops that wait on one of `old`, and are not in it, wait on `new` instead. Returns how many."""
        return self.redirect_control_all([(old, new)])

    def redirect_control_all(self, moves: Sequence[Tuple[Sequence[tf.Operation], tf.Operation]]) -> int:
        """redirect_control() for many pairs (old, new). Returns how many ops wait on others now.

        Changes an op once, however many of `moves` it waits on: a Saver's last op waits on all Variables.
        """
        gone: Dict[tf.Operation, Set[tf.Operation]] = {}
        instead: Dict[tf.Operation, List[tf.Operation]] = {}
        for old, new in moves:
            replaced = set(old)
            for op in _distinct(waiting for o in old for waiting in _compat.control_outputs(o)):
                if op not in replaced and op is not new:
                    gone.setdefault(op, set()).update(replaced)
                    instead.setdefault(op, []).append(new)
        for op, new in instead.items():
            _set_control_inputs(op, _distinct([*(c for c in op.control_inputs if c not in gone[op]), *new]))
        return len(instead)

    def cut_control(self, ops: Sequence[tf.Operation]) -> int:
        """Makes nothing wait on `ops` any more. Returns how many ops waited."""
        gone = set(ops)
        waiting = _distinct(op for o in ops for op in _compat.control_outputs(o))
        for op in waiting:
            _set_control_inputs(op, [c for c in op.control_inputs if c not in gone])
        return len(waiting)

    def remove_variables(self, handle_ops: Iterable[tf.Operation]) -> int:
        """Takes the Variables on `handle_ops` out of every collection. Returns how many entries went."""
        gone = set(handle_ops)
        self.graph.get_collection_ref(_REMOVED).extend(op.name for op in gone)
        removed = 0
        for name in self.graph.get_all_collection_keys():
            items = self.graph.get_collection_ref(name)
            kept = [item for item in items if variable_handle_op(item) not in gone]
            removed += len(items) - len(kept)
            items[:] = kept
        return removed

    def remove_from_collection(self, name: str, unwanted: Callable[[Any], bool]) -> None:
        """Takes the entries that `unwanted` accepts out of the collection, of a finalized graph too."""
        items = self.graph.get_collection_ref(name)
        items[:] = [item for item in items if not unwanted(item)]

    def add_to_collection(self, name: str, item: Any) -> None:
        """Adds `item` to the collection."""
        self.graph.add_to_collection(name, item)

    def _restore_moved(self, old: tf.Tensor, before: Optional[tf.Tensor]) -> None:
        if before is None:
            del self._moved[old.ref()]
        else:
            self._moved[old.ref()] = before


def inputs_before(graph: tf.Graph) -> Dict[str, List[str]]:
    """By the names of the ops that were edited: the inputs of each before its first edit, as a NodeDef writes them."""
    return dict(_before.get(graph, {}))


def num_edited(graph: tf.Graph) -> int:
    """How many ops were edited."""
    return len(_before.get(graph, ()))


def stand_in_of(tensor: tf.Tensor) -> Optional[tf.Tensor]:
    """What replace_all() put in the place of `tensor`, of its type and shape; None: nothing."""
    name = _stand_ins.get(tensor.graph, {}).get(tensor.name)
    return None if name is None else tensor.graph.get_tensor_by_name(name)


def is_superseded(op: tf.Operation) -> bool:
    """Whether a pass has called supersede() for it."""
    return op in _superseded.get(op.graph, ())


def is_relied_on(tensor: tf.Tensor) -> bool:
    """Whether a pass has called rely_on() for it."""
    return tensor.name in _relied_on.get(tensor.graph, ())


def names_with_stand_in(graph: tf.Graph) -> Collection[str]:
    """Of the tensors of `graph` that have a stand_in_of()."""
    return _stand_ins.get(graph, {}).keys()


def name_of(tensor: tf.Tensor) -> str:
    """Of an input, as a NodeDef writes it."""
    return tensor.op.name + (f":{tensor.value_index}" if tensor.value_index else "")


def named_inputs(op: tf.Operation) -> List[str]:
    """The inputs of `op` as a NodeDef writes them."""
    return [name_of(t) for t in op.inputs] + [f"^{c.name}" for c in op.control_inputs]


def is_undone(name: str) -> bool:
    """Whether an op of this name is what the rest of a pass that was undone reads."""
    return name.startswith(_UNDONE)


def removed_variables(graph: tf.Graph) -> List[str]:
    """Names of the VarHandleOps whose Variables remove_variables took out of the graph."""
    return list(graph.get_collection(_REMOVED))


def update_input(op: tf.Operation, index: int, tensor: tf.Tensor) -> None:
    """Makes `tensor`, of the same dtype, the input `index` of `op`."""
    old = op.inputs[index]
    _keep_inputs(op)
    _compat.update_input(op, index, tensor)
    journal.note(op, lambda: _compat.update_input(op, index, old))


def set_device(op: tf.Operation, device: str) -> None:
    """Constrains `op` to `device`; "" takes its constraint away."""
    old = op.device
    _compat.set_device(op, device)
    journal.note(op, lambda: _compat.set_device(op, old))


def add_control_input(op: tf.Operation, before: tf.Operation) -> None:
    """Makes `op` wait on `before`."""
    if before not in op.control_inputs:
        _set_control_inputs(op, [*op.control_inputs, before])


def drop_control_input(op: tf.Operation, before: tf.Operation) -> None:
    """Makes `op` no longer wait on `before`."""
    if before in op.control_inputs:
        _set_control_inputs(op, [other for other in op.control_inputs if other is not before])


def is_marked_for_compilation(op: tf.Operation) -> bool:
    """Whether `op` says already that XLA is to compile it, or is not to."""
    return _compat.has_xla_mark(op)


def originals(op: tf.Operation) -> List[str]:
    """Names of the ops that a fused op stands for; none for an op that no pass made."""
    return _compat.string_list_attr(op, ORIGINALS)


def add_copy(graph_def: Any, op: tf.Operation) -> Any:
    """Adds a node like `op` to a GraphDef, without inputs and without what names other ops of the graph; returns it."""
    node = graph_def.node.add()
    node.CopyFrom(op.node_def)
    for attr in ("_class", ORIGINALS):
        node.attr.pop(attr, None)
    del node.input[:]
    return node


def variable_handle_op(item: Any) -> Optional[tf.Operation]:
    """The VarHandleOp of a resource Variable; None for anything else, as what a tf.distribute strategy has made of several."""
    if isinstance(item, tf.distribute.DistributedValues):  # Their own handle is an error outside of a replica.
        item = item.values[0] if len(item.values) == 1 else None
    if not isinstance(item, tf.Variable):
        return None
    handle = getattr(item, "handle", None)
    return handle.op if isinstance(handle, tf.Tensor) and hasattr(handle, "op") else None


def _keep_inputs(op: tf.Operation) -> None:
    kept = _before.setdefault(op.graph, {})
    if op.name not in kept:
        kept[op.name] = named_inputs(op)


def _set_control_inputs(op: tf.Operation, control_inputs: Sequence[tf.Operation]) -> None:
    old = list(op.control_inputs)
    _keep_inputs(op)
    _compat.set_control_inputs(op, control_inputs)
    journal.note(op, lambda: _compat.set_control_inputs(op, old))


def _distinct(ops: Iterable[tf.Operation]) -> List[tf.Operation]:
    return list(dict.fromkeys(ops))
