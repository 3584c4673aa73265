"""The only file that touches private TensorFlow or asks for its version. Each function says what it stands on.

Sections: graph surgery, devices and kernels, gradients and losses, control flow and functions, Estimator and MonitoredSession, Savers and
checkpoints, SavedModels, feature columns, parsing of Examples. Add a section for another area.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import function_pb2 as _function_pb2
from tensorflow.core.framework import variable_pb2 as _variable_pb2
from tensorflow.core.protobuf import config_pb2 as _config_pb2
from tensorflow.python import tf2 as _tf2
from tensorflow.python.checkpoint import graph_view as _object_graph_view
from tensorflow.python.client import pywrap_tf_session as _session_api
from tensorflow.python.client import session as _session
from tensorflow.python.data.experimental.ops import parsing_ops as _parsing_datasets
from tensorflow.python.data.ops import dataset_ops as _dataset_ops
from tensorflow.python.data.ops import iterator_ops as _iterator_ops
from tensorflow.python.data.ops import readers as _readers
from tensorflow.python.data.util import random_seed as _data_random_seed
from tensorflow.python.data.util import structure as _data_structure
from tensorflow.python.feature_column import feature_column as _fc_v1
from tensorflow.python.feature_column import feature_column_v2 as _fc_v2
from tensorflow.python.feature_column import serialization as _fc_serialization
from tensorflow.python.framework import function_def_to_graph as _function_def_to_graph
from tensorflow.python.framework import graph_to_function_def as _graph_to_function_def
from tensorflow.python.framework import kernels as _kernels
from tensorflow.python.framework import op_def_registry as _op_def_registry
from tensorflow.python.framework import ops as _ops
from tensorflow.python.ops import control_flow_ops as _control_flow_ops
from tensorflow.python.ops import control_flow_v2_func_graphs as _control_flow_v2_func_graphs
from tensorflow.python.ops import gen_dataset_ops as _gen_dataset_ops
from tensorflow.python.ops import gen_experimental_dataset_ops as _gen_experimental_dataset_ops
from tensorflow.python.ops import parsing_ops as _parsing_ops
from tensorflow.python.ops import resources as _resources
from tensorflow.python.ops import variable_scope as _variable_scope
from tensorflow.python.training import monitored_session as _monitored_session
from tensorflow.python.training.saving import saveable_object as _saveable_object

# --- Graph surgery (tf_booster/passes/graph_view.py is the only caller) ---


def update_input(op: tf.Operation, index: int, tensor: tf.Tensor) -> None:
    """Makes `tensor` the input `index` of `op`. TensorFlow checks shapes here, but no dtypes."""
    # Not by op.inputs: that is made anew after each edit, and an op of 1000 features has thousands of inputs.
    dtype = tf.as_dtype(_session_api.TF_OperationInputType(op._tf_input(index)))  # pylint: disable=protected-access
    if dtype.base_dtype != tensor.dtype.base_dtype:
        raise TypeError(
            f"Input {index} of op '{op.name}' ({op.type}) is {dtype.base_dtype.name}, but '{tensor.name}' is {tensor.dtype.name}."
        )
    op._update_input(index, tensor)  # pylint: disable=protected-access


def set_control_inputs(op: tf.Operation, control_inputs: Sequence[tf.Operation]) -> None:
    """Makes `control_inputs` the control inputs of `op`."""
    op._remove_all_control_inputs()  # pylint: disable=protected-access
    if control_inputs:
        op._add_control_inputs(list(control_inputs))  # pylint: disable=protected-access


def collections(graph: tf.Graph) -> Dict[Any, List[Any]]:
    """All collections; get_all_collection_keys() names only those whose keys are strings."""
    return graph._collections  # pylint: disable=protected-access


def set_string_list_attr(op: tf.Operation, name: str, values: Sequence[str]) -> None:
    """Writes a list of strings on `op`; TensorFlow lets attrs through that it does not know if they begin with `_`."""
    strings = tf.compat.v1.AttrValue.ListValue(s=[tf.compat.as_bytes(value) for value in values])
    op._set_attr(name, tf.compat.v1.AttrValue(list=strings))  # pylint: disable=protected-access


def string_list_attr(op: tf.Operation, name: str) -> List[str]:
    """What set_string_list_attr wrote; empty if nothing."""
    try:
        return [tf.compat.as_str(value) for value in op.get_attr(name)]
    except ValueError:
        return []


def functions_of(attr: Any) -> Sequence[Any]:
    """The functions, of .name, that an AttrValue names: one, those of a list, or none."""
    return [attr.func] if attr.HasField("func") else attr.list.func


def set_functions_of(op: tf.Operation, attr: str, names: Sequence[str]) -> None:
    """Has `op` call other functions of its graph, as many as before. Sessions that ran the graph do not see it."""
    value = op.node_def.attr[attr]
    for function, name in zip(functions_of(value), names):
        function.name = name
    op._set_attr(attr, value)  # pylint: disable=protected-access


def set_int_list_attr(op: tf.Operation, name: str, values: Sequence[int]) -> None:
    """Writes an attr of type list(int)."""
    numbers = tf.compat.v1.AttrValue.ListValue(i=list(values))
    op._set_attr(name, tf.compat.v1.AttrValue(list=numbers))  # pylint: disable=protected-access


def set_string_attr(op: tf.Operation, name: str, value: str) -> None:
    """Writes an attr of type string."""
    op._set_attr(name, tf.compat.v1.AttrValue(s=tf.compat.as_bytes(value)))  # pylint: disable=protected-access


def set_xla_scope(op: tf.Operation, scope: Optional[str]) -> None:
    """Writes what tf.xla.experimental.jit_scope writes on ops while they are made; None takes it off."""
    if scope is None:
        op._clear_attr("_XlaCompile")  # pylint: disable=protected-access
        op._clear_attr("_XlaScope")  # pylint: disable=protected-access
        return
    op._set_attr("_XlaCompile", tf.compat.v1.AttrValue(b=True))  # pylint: disable=protected-access
    op._set_attr("_XlaScope", tf.compat.v1.AttrValue(s=scope.encode()))  # pylint: disable=protected-access


def forbid_xla(op: tf.Operation) -> None:
    """Writes what jit_scope(compile_ops=False) writes."""
    op._set_attr("_XlaCompile", tf.compat.v1.AttrValue(b=False))  # pylint: disable=protected-access


def xla_leaves_unmarked_ops() -> bool:
    """Whether XLA compiles marked ops alone. TensorFlow 2.12 and 2.13 take those beside them into the cluster, of whatever shape."""
    return tuple(map(int, tf.version.VERSION.split(".")[:2])) >= (2, 14)


def has_xla_mark(op: tf.Operation) -> bool:
    """Whether jit_scope, set_xla_scope or the user said of `op` that it is to be compiled, or that it is not."""
    try:
        op.get_attr("_XlaCompile")
    except ValueError:
        return False
    return True


def function_definitions(graph: tf.Graph) -> List[Any]:
    """The FunctionDefs of the graph. graph.as_graph_def() has them too, beside a copy of every constant of the graph."""
    return [function.definition for function in graph._functions.values()]  # pylint: disable=protected-access


def functions_by_name(graph: tf.Graph) -> Dict[str, Any]:
    """The same by their names."""
    return {definition.signature.name: definition for definition in function_definitions(graph)}


def fetch_in_place_of(op: tf.Operation, new: tf.Operation) -> None:
    """Sessions that are given `op` or its outputs, as fetches or feeds, take those of `new`, by their numbers; not so by their names,
    by which `op` can no longer be fetched. Graph.as_graph_element asks each object for `_as_graph_element`."""
    op._as_graph_element = lambda: new
    for old, output in zip(op.outputs, new.outputs):
        old._as_graph_element = functools.partial(_itself, output)
    op.graph.prevent_fetching(op)


def _itself(value: Any) -> Any:
    return value


def control_outputs(op: tf.Operation) -> List[tf.Operation]:
    """The ops that wait on `op`."""
    return list(op._control_outputs)  # pylint: disable=protected-access


def set_device(op: tf.Operation, device: str) -> None:
    """Constrains `op` to `device`; "" takes its constraint away."""
    op._set_device(device)  # pylint: disable=protected-access


def is_finalized(graph: tf.Graph) -> bool:
    """Whether `graph` takes no more ops."""
    return bool(graph.finalized)


# --- Devices and kernels ---


def is_stateful(op_type: str) -> bool:
    """Whether TensorFlow calls the op type stateful; False for one that is not registered."""
    definition = _op_def_registry.get(op_type)
    return definition is not None and definition.is_stateful


def first_output_of_type(op_type: str, attr: str) -> Optional[str]:
    """The name of the first output whose type is the attribute `attr`."""
    definition = _op_def_registry.get(op_type)
    return next((arg.name for arg in definition.output_arg if arg.type_attr == attr), None) if definition else None


def calls_functions(op_type: str) -> bool:
    """Whether ops of this type are given functions to call."""
    definition = _op_def_registry.get(op_type)
    return definition is None or any(attr.type in ("func", "list(func)") for attr in definition.attr)


class GpuKernel(NamedTuple):
    """types: for each constrained attr the enum values that it takes. host: names of arguments that live in host memory."""

    types: Tuple[Tuple[str, frozenset], ...]
    host: frozenset


@functools.cache
def _gpu_kernels(op_type: str) -> Tuple[GpuKernel, ...]:
    kernels = _kernels.get_registered_kernels_for_op(op_type).kernel
    return tuple(
        GpuKernel(
            tuple((c.name, frozenset(c.allowed_values.list.type)) for c in kernel.constraint),
            frozenset(kernel.host_memory_arg),
        )
        # DEFAULT serves every device without a kernel of its own: that of ReadVariableOp is the GPU's, too.
        for device_type in ("GPU", "DEFAULT")
        for kernel in kernels
        if kernel.device_type == device_type
    )


def gpu_kernel(op: tf.Operation) -> Optional[GpuKernel]:
    """The GPU kernel that this TensorFlow, with the libraries that are loaded, has for the op and its types."""
    for kernel in _gpu_kernels(op.type):
        if all(_allowed(op.get_attr(name), types) for name, types in kernel.types):
            return kernel
    return None


def _allowed(value: Any, types: frozenset) -> bool:
    values = value if isinstance(value, (list, tuple)) else [value]
    return all(not isinstance(v, tf.DType) or v.as_datatype_enum in types for v in values)


def has_gpu_kernel(op_type: str, types: Mapping[str, tf.DType]) -> bool:
    """Whether an op of this type, with these dtypes for its attributes, would have a GPU kernel."""
    return any(
        all(name in types and types[name].as_datatype_enum in allowed for name, allowed in kernel.types)
        for kernel in _gpu_kernels(op_type)
    )


def input_in_host_memory(op: tf.Operation, index: int) -> bool:
    """Whether the GPU kernel of `op` reads its input `index` from host memory."""
    kernel = gpu_kernel(op)
    return kernel is not None and _argument(op, op.op_def.input_arg, index) in kernel.host


def output_in_host_memory(op: tf.Operation, index: int) -> bool:
    """Whether the GPU kernel of `op` writes its output `index` to host memory."""
    kernel = gpu_kernel(op)
    return kernel is not None and _argument(op, op.op_def.output_arg, index) in kernel.host


def _argument(op: tf.Operation, arguments: Any, index: int) -> str:
    """The name of the argument that the tensor `index` belongs to; an argument may be a list of tensors."""
    for argument in arguments:
        if argument.number_attr:
            index -= op.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            index -= len(op.get_attr(argument.type_list_attr))
        else:
            index -= 1
        if index < 0:
            return argument.name
    return ""


def device_kind(op: tf.Operation) -> str:
    """ "CPU" or "GPU": where TensorFlow puts `op`, as far as its device, its kernels and this machine's devices tell.

    A GPU that is not visible to TensorFlow counts as none.
    """
    if not tf.config.get_visible_devices("GPU"):
        return "CPU"
    wanted = tf.DeviceSpec.from_string(op.device).device_type if op.device else None
    return "CPU" if wanted == "CPU" or gpu_kernel(op) is None else "GPU"


def is_in_gpu_memory(tensor: tf.Tensor) -> bool:
    """Whether TensorFlow's op leaves `tensor` in the memory of a GPU, as far as device_kind knows."""
    return device_kind(tensor.op) == "GPU" and not output_in_host_memory(tensor.op, tensor.value_index)


# --- Gradients and losses ---


def gradients_util() -> Any:
    """The module whose `_GradientsHelper` tf.gradients and every optimizer that is given a loss end in; it is looked up there."""
    from tensorflow.python.ops import gradients_util as module  # pylint: disable=import-outside-toplevel

    return module


def head_classes() -> List[Any]:
    """The classes that define `create_estimator_spec(self, features, mode, …)` for heads, v1's and v2's; each head of theirs has
    `_loss_reduction`, or heads in `_heads`."""
    try:
        from tensorflow_estimator.python.estimator.canned import head  # pylint: disable=import-outside-toplevel
        from tensorflow_estimator.python.estimator.head import (
            base_head,  # pylint: disable=import-outside-toplevel
            multi_head,  # pylint: disable=import-outside-toplevel
        )
    except ImportError:
        return []
    return [head._Head, base_head.Head, multi_head.MultiHead]  # pylint: disable=protected-access


# --- Control flow and functions ---


def in_control_flow(op: tf.Operation) -> bool:
    """Whether `op` stands inside a v1 tf.cond or tf.while_loop."""
    return control_flow_context(op) is not None


def cond_branches(graph: tf.Graph) -> Dict[Any, List[tf.Operation]]:
    """The branches of v1 tf.conds that are in no other tf.cond or tf.while_loop (contexts with `pred`, `pivot` and `branch`), and their ops."""
    found: Dict[Any, List[tf.Operation]] = {}
    for op in graph.get_operations():
        context = control_flow_context(op)
        if is_cond_context(context) and context.outer_context is None:
            found.setdefault(context, []).append(op)
    return found


def control_flow_context(op: tf.Operation) -> Any:
    """Which v1 tf.cond or tf.while_loop `op` stands in, as a context with `outer_context`; None: in none."""
    return op._get_control_flow_context()  # pylint: disable=protected-access


def contexts_around(op: tf.Operation) -> Iterator[Any]:
    """That context and those that it stands in, from within."""
    context = control_flow_context(op)
    while context is not None:
        yield context
        context = context.outer_context


def v1_predicates(op: tf.Operation) -> List[tf.Tensor]:
    """What decides whether, or how often, `op` runs: of the conditions and loops of v1 control flow around it."""
    found = [context.pred if is_cond_context(context) else context.pivot for context in contexts_around(op)]
    return [tensor for tensor in found if tensor is not None]


def set_control_flow_context(op: tf.Operation, context: Any) -> None:
    """Says which tf.cond or tf.while_loop `op` stands in; None: in none."""
    op._set_control_flow_context(context)  # pylint: disable=protected-access


def set_outer_context(context: Any, outer: Any) -> None:
    """Says in which other the tf.cond or tf.while_loop of `context` stands; None: in none."""
    context._outer_context = outer  # pylint: disable=protected-access


def is_cond_context(context: Any) -> bool:
    """Whether it is a branch of a v1 tf.cond, with `pred`, `pivot` and `branch`."""
    return isinstance(context, _control_flow_ops.CondContext)


def in_loop(op: tf.Operation) -> bool:
    """Whether `op` stands in a v1 tf.while_loop. Of an imported graph that is not known: it says False."""
    return any(context.IsWhileContext() for context in contexts_around(op))


def is_function_graph(graph: tf.Graph) -> bool:
    """Whether `graph` is the body of a tf.function, of a v2 cond or while, or of a dataset's function."""
    return bool(graph.building_function)


def is_branch(graph: tf.Graph) -> bool:
    """Whether `graph` is a branch of a v2 tf.cond, which may be in that of another, but in no other function."""
    while isinstance(graph, _control_flow_v2_func_graphs.CondBranchFuncGraph):
        graph = graph.outer_graph
        if not is_function_graph(graph):
            return True
    return False


# --- Estimator and MonitoredSession ---


def estimator_class() -> Any:
    """The class whose `_call_model_fn` every Estimator, v1 or v2, runs; None where tensorflow_estimator is missing."""
    try:
        from tensorflow_estimator.python.estimator import estimator  # pylint: disable=import-outside-toplevel
    except ImportError:
        return None
    return estimator.Estimator


def in_memory_hook_class() -> Any:
    """tf.estimator.experimental.InMemoryEvaluatorHook; only where there is an estimator_class()."""
    from tensorflow_estimator.python.estimator.hooks import hooks  # pylint: disable=import-outside-toplevel

    return hooks.InMemoryEvaluatorHook


def scaffold_class() -> Any:
    """The class whose `finalize` every MonitoredSession runs."""
    return tf.compat.v1.train.Scaffold


def monitored_session_class() -> Any:
    """The base of MonitoredSession and SingularMonitoredSession; its constructor takes (session_creator, hooks, …)."""
    return _monitored_session._MonitoredSession  # pylint: disable=protected-access


def coordinated_session_class() -> Any:
    """What runs the steps of such a session, hooks and all, below what makes a new session after an UnavailableError or AbortedError."""
    return _monitored_session._CoordinatedSession  # pylint: disable=protected-access


def session_creator_classes() -> List[Any]:
    """The classes whose `create_session` finalizes a graph and makes its session."""
    return [tf.compat.v1.train.ChiefSessionCreator, tf.compat.v1.train.WorkerSessionCreator]


def master_of_creator(session_creator: Any) -> Tuple[str, Any]:
    """The target and the ConfigProto (None for the default) of the sessions that a creator of session_creator_classes makes."""
    return session_creator._master or "", session_creator._config  # pylint: disable=protected-access


def config_of_creator(session_creator: Any) -> Any:
    """The ConfigProto of the sessions that a SessionCreator makes; None for the default."""
    return getattr(session_creator, "_config", None)


def graph_elements(graph: tf.Graph, structure: Any) -> List[Any]:
    """The tensors and ops that a session fetches for `structure`, given as such, by names, or as Variables."""
    leaves = tf.nest.flatten(structure, expand_composites=True)
    return [graph.as_graph_element(leaf) for leaf in leaves if leaf is not None]


def base_session_class() -> Any:
    """The base of all sessions; every way to run one goes through its method `_extend_graph`."""
    return tf.compat.v1.Session.__mro__[1]


def fetch_handler_class() -> Any:
    """What all ways to run a session ask, by targets() and fetches(), which ops are to run and which tensors are wanted."""
    from tensorflow.python.client import session  # pylint: disable=import-outside-toplevel

    return session._FetchHandler  # pylint: disable=protected-access


def replace_do_run(session: Any, do_run: Any) -> None:
    """Has `session` run what it is given by `do_run`, whose arguments are those of BaseSession._do_run (lists of ops and tensors)."""
    session._do_run = do_run  # pylint: disable=protected-access


def take_if_collected(session: Any) -> Optional[Callable[[], None]]:
    """For a session whose close() is asked for by its finalizer, by the caller's caller: takes from it what TensorFlow holds, so that the
    finalizer frees nothing, and returns what closes and frees that. Else None."""
    # pylint: disable=protected-access
    asked = sys._getframe(2).f_code
    if asked is not base_session_class().__del__.__code__ or session._closed:
        return None
    held, session._session, session._closed = session._session, None, True

    def close() -> None:
        _session_api.TF_CloseSession(held)
        _session_api.TF_DeleteSession(held)

    return close


def run_options(session: Any, own_thread: bool, trace: bool = False) -> Any:
    """RunOptions as `_do_run` takes them; the memory is kept for good.

    own_thread: a run does not wait for threads of a pool that other runs fill: where that has one thread alone (stays_on_caller()),
    the run stays on its caller's. trace: the run's metadata has the times of all ops.
    """
    options = tf.compat.v1.RunOptions()
    if own_thread and stays_on_caller(session):
        options.inter_op_thread_pool = -1
    if trace:
        # FULL_TRACE begins a profiler, of which a process has one at a time: two runs at once would fail.
        options.trace_level = tf.compat.v1.RunOptions.SOFTWARE_TRACE
    return _session_api.TF_NewBufferFromString(options.SerializeToString())


def stays_on_caller(session: Any) -> bool:
    """Whether runs with own_thread are on their caller's thread."""
    return session._config.inter_op_parallelism_threads == 1  # pylint: disable=protected-access


def can_prepare_runs(session: Any) -> bool:
    """Whether prepared_run() works: not for the session of a server."""
    return not session._target  # pylint: disable=protected-access


def prepared_run(
    session: Any,
    targets: Sequence[tf.Operation],
    fetches: Sequence[tf.Tensor],
    fed: Sequence[tf.Tensor],
    own_thread: bool,
    connected: Sequence[Tuple[tf.Tensor, tf.Tensor]] = (),
) -> Optional[Callable[..., List[Any]]]:
    """Runs `targets` and `fetches` when it is called, with the values of `fed`; results and errors are those of `_do_run`.

    own_thread: as in run_options(). connected: pairs of tensors of which the first stands for the second in this run. A session finds out once what is asked for, not at each call: 13 us in place of 24. None for the session
    of a server, which cannot.
    """
    if not can_prepare_runs(session):
        return None
    wanted = _config_pb2.CallableOptions(
        feed=[tensor.name for tensor in fed],
        fetch=[tensor.name for tensor in fetches],
        target=[op.name for op in targets],
        tensor_connection=[{"from_tensor": given.name, "to_tensor": place.name} for given, place in connected],
    )
    if own_thread and stays_on_caller(session):
        wanted.run_options.inter_op_thread_pool = -1
    do_call = session._do_call  # pylint: disable=protected-access
    prepare = base_session_class()._make_callable_from_options  # pylint: disable=protected-access
    return _refusing_dead(functools.partial(do_call, do_call(prepare, session, wanted)), fetches)


def _refusing_dead(run: Callable[..., List[Any]], fetches: Sequence[tf.Tensor]) -> Callable[..., List[Any]]:
    """`run`, which gives an empty float32 vector in place of TensorFlow's error for what is in a branch that was not taken."""
    no_vectors = [
        i
        for i, tensor in enumerate(fetches)
        if tensor.dtype != tf.float32 or not tf.TensorShape([0]).is_compatible_with(tensor.shape)
    ]

    def run_or_refuse(*values: Any) -> List[Any]:
        found = run(*values)
        for i in no_vectors:
            value = found[i]
            if isinstance(value, np.ndarray) and value.shape == (0,) and value.dtype == np.float32:
                raise tf.errors.InvalidArgumentError(
                    None,
                    fetches[i].op,
                    f"Retval[{i}] does not have value: '{fetches[i].name}' is in a branch that was not taken",
                )
        return found

    return run_or_refuse


def says_something(options: Any) -> bool:
    """Whether RunOptions as `_do_run` takes them ask for anything; without, a run leaves its metadata empty unless tells_costs()."""
    return bool(_session_api.TF_GetBuffer(options))


def tells_costs(session: Any) -> bool:
    """Whether runs of `session` fill their metadata without being asked by their options."""
    return session._config.graph_options.build_cost_model > 0  # pylint: disable=protected-access


def timeout_seconds(options: Any) -> Optional[float]:
    """The timeout of RunOptions as `_do_run` takes them, None for none."""
    if options is None:
        return None
    said = tf.compat.v1.RunOptions.FromString(tf.compat.as_bytes(_session_api.TF_GetBuffer(options)))
    return said.timeout_in_ms / 1e3 or None


def fetch_handler(graph: tf.Graph, fetches: Any) -> Any:
    """What a session makes of `fetches`: lists of ops, targets(), and of tensors, fetches()."""
    return _session._FetchHandler(graph, fetches, {})  # pylint: disable=protected-access


def fed_tensors(graph: tf.Graph, feeds: Any) -> Tuple[tf.Tensor, ...]:
    """The tensors that the feeds of partial_run_setup() stand for."""
    expansions = _session._REGISTERED_EXPANSIONS  # pylint: disable=protected-access
    found: List[tf.Tensor] = []
    for feed in feeds if isinstance(feeds, (list, tuple)) else [] if feeds is None else [feeds]:
        expand = next(feed_fn for kind, _, _, feed_fn in expansions if isinstance(feed, kind))
        found += [graph.as_graph_element(tensor, allow_operation=False) for tensor in expand(feed)]
    return tuple(found)


class RunMetadataBuffer:
    """Where `_do_run` puts a run's metadata."""

    def __init__(self) -> None:
        self.buffer = _session_api.TF_NewBuffer()

    def take(self) -> Any:
        """The RunMetadata; once, after the run."""
        metadata = tf.compat.v1.RunMetadata.FromString(tf.compat.as_bytes(_session_api.TF_GetBuffer(self.buffer)))
        _session_api.TF_DeleteBuffer(self.buffer)
        return metadata


def chrome_trace(step_stats: Any) -> str:
    """A StepStats as chrome://tracing reads it."""
    from tensorflow.python.client import timeline  # pylint: disable=import-outside-toplevel

    return timeline.Timeline(step_stats).generate_chrome_trace_format(show_memory=False)


def is_closed(session: Any) -> bool:
    """Whether the session was closed."""
    return bool(session._closed)  # pylint: disable=protected-access


# --- Savers and checkpoints ---

# What tf.compat.v1.train.Saver saves beside Variables; entries of the collection SAVEABLE_OBJECTS. Public in TensorFlow 1 only.
SaveableObject = _saveable_object.SaveableObject
SaveSpec = _saveable_object.SaveSpec


def checkpoint_utils() -> Any:
    """The module whose `_init_from_checkpoint` every init_from_checkpoint and warm start ends in."""
    from tensorflow.python.training import checkpoint_utils as module  # pylint: disable=import-outside-toplevel

    return module


def warm_starting_util() -> Any:
    """The module whose `_warm_start_var_with_vocab` serves the entries of WarmStartSettings' var_name_to_vocab_info."""
    from tensorflow.python.training import warm_starting_util as module  # pylint: disable=import-outside-toplevel

    return module


def variables_by_name() -> Dict[str, Any]:
    """The Variables that tf.compat.v1.get_variable made in the default graph, each part of a partitioned one by itself."""
    store = _variable_scope._get_default_variable_store()  # pylint: disable=protected-access
    return dict(store._vars)  # pylint: disable=protected-access


def name_based_saver(scaffold: Any) -> None:
    """Builds the Saver for a Scaffold whose saver is a tf.train.Checkpoint, as Scaffold.finalize would do later."""
    checkpoint = scaffold.saver
    if isinstance(checkpoint, tf.train.Checkpoint):
        objects = _object_graph_view.ObjectGraphView(checkpoint).frozen_saveable_objects()
        scaffold._saver = tf.compat.v1.train.Saver(var_list=objects, sharded=True)  # pylint: disable=protected-access


def saveables(scaffold: Any, is_wanted: Callable[[Any], bool]) -> List[Any]:
    """What the Saver of a Scaffold makes of those entries of its var_list that are wanted, or of those of all Variables of the default graph:
    objects with `specs`, and restore(tensors, shapes) that gives an op."""
    from tensorflow.python.training.saving import saveable_object_util

    saver = scaffold.saver if scaffold is not None else None
    listed = getattr(saver, "_var_list", None) or tf.compat.v1.global_variables()
    if isinstance(listed, dict):
        by_name = {name: entry for name, entry in listed.items() if is_wanted(entry)}
    else:
        by_name = saveable_object_util.op_list_to_dict([entry for entry in listed if is_wanted(entry)])
    return saveable_object_util.validate_and_slice_inputs(by_name)


def register_shared_resource(handle: tf.Tensor, create: tf.Operation, is_initialized: tf.Tensor) -> None:
    """Makes Scaffold's default init op run `create`, unless the session restores a checkpoint."""
    _resources.register_resource(handle, create, is_initialized)


def variables_module() -> Any:
    """Where global_variables_initializer finds variables_initializer."""
    from tensorflow.python.ops import variables

    return variables


def saver_class() -> Any:
    """tf.compat.v1.train.Saver; every Saver is built by its `_build`."""
    return tf.compat.v1.train.Saver


def unconverted(function: Any) -> Any:
    """Has autograph call `function` as it calls TensorFlow's own, as it stands: a tf.distribute strategy converts what it calls."""
    from tensorflow.python.autograph.impl import api

    return api.autograph_artifact(function)


def session_converter_class() -> Any:
    """What tf.compat.v1.graph_util.convert_variables_to_constants makes first of (session, GraphDef, names of outputs)."""
    from tensorflow.python.framework import convert_to_constants

    return convert_to_constants._SessionConverterData  # pylint: disable=protected-access


def saver_hook_class() -> Any:
    """The hook by which MonitoredSessions and Estimators save checkpoints."""
    return tf.compat.v1.train.CheckpointSaverHook


def session_with_run(session: Any, fetch: str, run: Any) -> Any:
    """A session like `session`, whose run(fetch, {…: prefix}), as Saver.save calls it, returns run(session, prefix)."""

    class _Session(_session.SessionInterface):
        graph = property(lambda self: session.graph)
        sess_str = property(lambda self: session.sess_str)

        def run(self, fetches: Any, feed_dict: Any = None, *args: Any, **kwargs: Any) -> Any:
            if isinstance(fetches, str) and fetches == fetch:
                return run(session, next(iter(feed_dict.values())))
            return session.run(fetches, feed_dict, *args, **kwargs)

    return _Session()


def leave_graph_unwritten(hook: Any) -> None:
    """Makes a CheckpointSaverHook write no graph.pbtxt and no .meta files."""
    hook._save_graph_def = False  # pylint: disable=protected-access


def graph_io() -> Any:
    """The module whose `write_graph` writes text by its `text_format.MessageToString`."""
    from tensorflow.python.framework import graph_io as module  # pylint: disable=import-outside-toplevel

    return module


def saver_hook_folder(hook: Any) -> str:
    """Where a CheckpointSaverHook saves."""
    return hook._checkpoint_dir  # pylint: disable=protected-access


def has_listeners(hook: Any) -> bool:
    """Whether a CheckpointSaverHook tells somebody when it has saved."""
    return bool(hook._listeners)  # pylint: disable=protected-access


def saves_by_seconds(hook: Any) -> bool:
    """Whether a CheckpointSaverHook saves every n seconds, not every n steps."""
    return triggers_by_seconds(hook._timer)  # pylint: disable=protected-access


def triggers_by_seconds(timer: Any) -> bool:
    """Whether a SecondOrStepTimer triggers every n seconds, not every n steps."""
    return timer._every_secs is not None  # pylint: disable=protected-access


def is_time_to_save(hook: Any) -> bool:
    """Whether the seconds of a CheckpointSaverHook are over."""
    return hook._timer.should_trigger_for_step(float("inf"))  # pylint: disable=protected-access


def save_now(hook: Any, run_context: Any) -> None:
    """What CheckpointSaverHook.after_run does when it is time."""
    step = run_context.session.run(hook._global_step_tensor)  # pylint: disable=protected-access
    hook._timer.update_last_triggered_step(step)  # pylint: disable=protected-access
    if hook._save(run_context.session, step):  # pylint: disable=protected-access
        run_context.request_stop()


# --- SavedModels ---


def op_selector() -> Any:
    """The module whose `get_backward_walk_ops(outputs, stop_at_ts=inputs)` exports ask for what their signatures depend on."""
    from tensorflow.python.ops import op_selector as module  # pylint: disable=import-outside-toplevel

    return module


def added_meta_graph(builder: Any) -> Any:
    """The MetaGraphDef that a tf.compat.v1.saved_model.Builder was given last; save() writes it as it then is."""
    return builder._saved_model.meta_graphs[-1]  # pylint: disable=protected-access


def variable_collections() -> Any:
    """The collections that a MetaGraphDef keeps as VariableDefs."""
    return tf.compat.v1.GraphKeys._VARIABLE_COLLECTIONS  # pylint: disable=protected-access


def names_in_variable_def(serialized: bytes) -> List[str]:
    """The ops and tensors that a serialized VariableDef names."""
    variable = _variable_pb2.VariableDef.FromString(serialized)
    return [variable.variable_name, variable.initializer_name, variable.snapshot_name, variable.initial_value_name]


# --- Feature columns ---


def categorical_column_bases() -> Tuple[type, type]:
    """The classes that TensorFlow's feature columns, v2 and v1, ask a categorical column to be."""
    return _fc_v2.CategoricalColumn, _fc_v1._CategoricalColumn  # pylint: disable=protected-access


def register_feature_column(cls: type) -> type:
    """Lets Keras layers and Estimators that are made from a config find the column's class by its name."""
    if hasattr(_fc_serialization, "register_feature_column"):
        return _fc_serialization.register_feature_column(cls)
    _fc_serialization._FEATURE_COLUMNS.append(cls)  # TensorFlow 2.12. pylint: disable=protected-access
    return cls


# --- Parsing of Examples ---


def parse_example_params(features: Any) -> Tuple[Any, Any]:
    """What tf.io.parse_example makes of `features`, and the features themselves with the unknown dimensions written out.

    The first has sparse_keys, sparse_types, dense_keys, dense_types, dense_shapes, dense_shapes_as_proto, dense_defaults_vec,
    ragged_keys, ragged_value_types, ragged_split_types and num_features. Raises ValueError where tf.io.parse_example does.
    """
    features = _parsing_ops._prepend_none_dimension(features)  # pylint: disable=protected-access
    kinds = [
        tf.io.VarLenFeature, tf.io.SparseFeature, tf.io.FixedLenFeature, tf.io.FixedLenSequenceFeature, tf.io.RaggedFeature
    ]  # fmt: skip
    params = _parsing_ops._ParseOpParams.from_features(features, kinds)  # pylint: disable=protected-access
    return params, features


def composite_features(features: Any, tensors: Dict[str, Any]) -> Dict[str, Any]:
    """SparseFeatures and RaggedFeatures of `features`, put together from the `tensors` that were parsed by key."""
    return _parsing_ops._construct_tensors_for_composite_features(features, tensors)  # pylint: disable=protected-access


def parse_example_raw(serialized: Any, params: Any) -> Dict[str, Any]:
    """tf.io.parse_example without composite features: a tensor of each key of `params`."""
    return _parsing_ops._parse_example_raw(serialized, None, params, None)  # pylint: disable=protected-access


def parse_example_dataset_class() -> Any:
    """What tf.data.experimental.parse_example_dataset and make_batched_features_dataset parse with; its constructor takes
    (input_dataset, features, num_parallel_calls, deterministic)."""
    return _parsing_datasets._ParseExampleDataset  # pylint: disable=protected-access


def compute_as(dataset: tf.data.Dataset, other: tf.data.Dataset) -> None:
    """Makes `dataset`, just constructed, yield what `other` yields; their element_specs must be equal."""
    dataset._variant_tensor_attr = other._variant_tensor  # pylint: disable=protected-access
    dataset._tf_booster_computed_as = other  # Keeps its functions.


# --- Datasets ---


def variant_of_dataset(dataset: tf.data.Dataset) -> tf.Tensor:
    """The scalar that stands for `dataset` among ops."""
    return dataset._variant_tensor  # pylint: disable=protected-access


def eager_iterator_class() -> Any:
    """What `iter(dataset)` makes; its method _create_iterator(dataset) takes the dataset."""
    return _iterator_ops.OwnedIterator


def inputs_of_dataset(dataset: Any) -> List[Any]:
    """The datasets that `dataset` is made of."""
    return dataset._inputs()  # pylint: disable=protected-access


_READERS = (
    _readers.TFRecordDatasetV2,
    _readers.TFRecordDatasetV1,
    _readers.TextLineDatasetV2,
    _readers.TextLineDatasetV1,
    tf.data.experimental.CsvDataset,
    tf.compat.v1.data.experimental.CsvDataset,
)


def reads_records(dataset: Any) -> bool:
    """Whether `dataset` is a TFRecordDataset, TextLineDataset or CsvDataset, or makes datasets of its elements that may be, as interleave does."""
    if isinstance(dataset, _READERS):
        return True
    function = getattr(getattr(dataset, "_map_func", None), "function", None)
    graph = getattr(function, "graph", None)
    return graph is not None and any(
        op.type.startswith(("TFRecordDataset", "TextLineDataset", "FlatMapDataset", "CSVDataset"))
        for op in graph.get_operations()
    )


def keeps_order(dataset: Any) -> bool:
    """Whether `dataset` is a shuffle with one order for all iterators that is drawn at random, or with a seed for a sequence of
    orders that they share. The other two, a new order each or one that follows from a seed, are the same for every copy."""
    if "Shuffle" not in type(dataset).__name__:
        return False
    seeds = [tf.get_static_value(seed) for seed in (dataset._seed, dataset._seed2)]
    return (seeds != [0, 0]) == bool(getattr(dataset, "_reshuffle_each_iteration", True))


def tensor_number(tensor: Any) -> int:
    """A number of an eager tensor that grows with each one that is made."""
    return tensor._id  # pylint: disable=protected-access


def newest_tensor_number() -> int:
    """A number that a tensor made now would have. None is made: that would settle TensorFlow's threads and devices, which the program may
    still want to configure."""
    return _ops.uid()


def changed_dataset(dataset: Any, change: Any) -> Optional[tf.Tensor]:
    """The variant of an eager `dataset`, whose graph `change(graph)` has changed; None where that returned False.

    Raises errors.OpError where a dataset cannot be written as a graph, as one that uses lookup tables.
    """
    serialized = _gen_dataset_ops.dataset_to_graph_v2(variant_of_dataset(dataset), external_state_policy=_FAIL)
    graph_def = tf.compat.v1.GraphDef.FromString(serialized.numpy())
    (returned,) = [node for node in graph_def.node if node.op == "_Retval"]
    graph_def.node.remove(returned)
    with tf.Graph().as_default() as graph:
        result = tf.graph_util.import_graph_def(graph_def, return_elements=[returned.input[0] + ":0"], name="")[0]
        result = tf.identity(result, name="tf_booster_result")
        if not change(graph):
            return None
    changed = tf.compat.v1.graph_util.extract_sub_graph(graph.as_graph_def(), [result.op.name])
    returned.input[:] = [result.op.name]
    changed.node.append(returned)
    return _gen_experimental_dataset_ops.dataset_from_graph(changed.SerializeToString())


_FAIL = 2  # tf.data's ExternalStatePolicy: what has a state is not written.


def dataset_in_place_of(dataset: Any, variant: tf.Tensor) -> Any:
    """A dataset with the elements' structure, and the options, of `dataset`, that computes `variant`."""
    return _dataset_ops.UnaryUnchangedStructureDataset(dataset, variant)


def new_function_definition() -> Any:
    """An empty FunctionDef."""
    return _function_pb2.FunctionDef()


def add_functions(graph_def: Any, definitions: Sequence[Any]) -> None:
    """Adds FunctionDefs to those that a GraphDef brings along.

    TensorFlow takes one with two nodes of a name for different from itself, when it is half in the graph.
    """
    for definition in definitions:
        if len({node.name for node in definition.node_def}) != len(definition.node_def):
            raise ValueError(f"Two nodes of function {definition.signature.name} have one name.")
    functions = _function_pb2.FunctionDefLibrary(function=definitions)
    graph_def.MergeFrom(tf.compat.v1.GraphDef(library=functions))  # Merging appends.


def graph_of_function(definition: Any, library: Sequence[Any], outer: tf.Graph) -> Tuple[tf.Graph, tf.Tensor]:
    """The body of a function without arguments and with one result, as a graph, and an Identity of the result.

    `library`: the FunctionDefs that it calls, in `outer` or anywhere.
    """
    with outer.as_default():
        graph_def, names = _function_def_to_graph.function_def_to_graph_def(definition)
    add_functions(graph_def, library)
    result = names[next(iter(definition.ret.values()))]
    graph = tf.Graph()
    with graph.as_default():
        tensor = tf.graph_util.import_graph_def(graph_def, return_elements=[result], name="")[0]
        return graph, tf.identity(tensor, name="tf_booster_result")


class FunctionCall(NamedTuple):
    """A function that is to become a part of a graph: under a name scope that begins with `name`, for these arguments."""

    definition: Any
    inputs: Sequence[tf.Tensor]
    name: str


class FunctionBody(NamedTuple):
    """What became of one: its ops, its results, and the ops that it runs besides."""

    ops: List[tf.Operation]
    results: List[tf.Tensor]
    besides: List[tf.Operation]


def import_functions(graph: tf.Graph, calls: Sequence[FunctionCall]) -> List[FunctionBody]:
    """Adds the bodies of functions to a graph, all at once: TensorFlow looks at the whole graph each time that it imports into it."""
    joined, given, wanted, ends = tf.compat.v1.GraphDef(), {}, [], []
    with graph.as_default(), graph.name_scope(None), tf.control_dependencies(None), tf.device(None):
        for definition, inputs, name in calls:
            scope = graph.unique_name(name)
            body, names = _function_def_to_graph.function_def_to_graph_def(definition)
            arguments = {arg.name: tensor for arg, tensor in zip(definition.signature.input_arg, inputs)}
            nodes = [node for node in body.node if node.name not in arguments]
            for node in nodes:
                node.attr.pop("_class", None)  # Beside which argument: what it is given may be elsewhere.
                node.name = f"{scope}/{node.name}"
                for index, read in enumerate(node.input):
                    source = read.lstrip("^").split(":")[0]
                    node.input[index] = f"^{scope}/{source}" if read[0] == "^" else f"{scope}/{read}"
                    if source in arguments:
                        given[node.input[index]] = arguments[source]
            joined.node.extend(nodes)
            joined.versions.CopyFrom(body.versions)
            returned = [definition.ret[arg.name] for arg in definition.signature.output_arg]
            besides = [definition.control_ret[control] for control in definition.signature.control_output]
            results = [arguments.get(tensor, f"{scope}/{names[tensor]}") for tensor in returned]
            ends.append((len(nodes), results, len(besides)))
            wanted += [node.name for node in nodes]
            wanted += [result for result in results if isinstance(result, str)]
            wanted += [f"{scope}/{each}" for each in besides]
        made = iter(tf.graph_util.import_graph_def(joined, given, wanted, name=""))
    return [
        FunctionBody(
            [next(made) for _ in range(ops)],
            [next(made) if isinstance(result, str) else result for result in results],
            [next(made) for _ in range(besides)],
        )
        for ops, results, besides in ends
    ]


def called_graphs(op: tf.Operation) -> List[tf.Graph]:
    """The bodies of the functions that `op` is given to call, as graphs with `inputs`."""
    root = op.graph
    while getattr(root, "outer_graph", None) is not None:
        root = root.outer_graph
    definitions = functions_by_name(root)
    attrs = sorted(op.node_def.attr.items())  # A map's own order is another in each process.
    names = [function.name for _, attr in attrs for function in functions_of(attr)]
    with root.as_default():
        return [_function_def_to_graph.function_def_to_graph(definitions[name]) for name in names]


def function_of_graph(graph: tf.Graph, result: tf.Tensor, like: Any) -> Any:
    """What `graph` needs for `result`, as a function without arguments that returns `result`. Name and attributes are those of `like`."""
    operations = _ops_before(result.op)
    made = _graph_to_function_def.graph_to_function_def(graph, operations, [], [result])
    made.signature.name = like.signature.name
    made.signature.is_stateful = like.signature.is_stateful
    for name in like.attr:
        made.attr[name].CopyFrom(like.attr[name])
    return made


def _ops_before(op: tf.Operation) -> List[tf.Operation]:
    """`op` and all that it needs, in the order of the graph."""
    needed, stack = {op}, [op]
    while stack:
        last = stack.pop()
        for before in [*(tensor.op for tensor in last.inputs), *last.control_inputs]:
            if before not in needed:
                needed.add(before)
                stack.append(before)
    return [o for o in op.graph.get_operations() if o in needed]


def flat_types_and_shapes(element_spec: Any) -> Tuple[List[tf.DType], List[tf.TensorShape]]:
    """Of each component of a dataset's element, as the ops of datasets count them: a sparse or ragged tensor is one variant."""
    return _data_structure.get_flat_tensor_types(element_spec), _data_structure.get_flat_tensor_shapes(element_spec)


def op_seeds(seed: Any) -> Tuple[Any, Any]:
    """The two seeds that tf.data's shuffle makes of the user's and the graph's; (0, 0): at random."""
    return _data_random_seed.get_seed(seed)


def copies_of_shuffles_share() -> bool:
    """Whether Dataset.shuffle makes a ShuffleDatasetV3 here, whose copies draw from one sequence of seeds."""
    return _tf2.enabled() and (tf.executing_eagerly() or _ops.inside_function())


def estimator_util() -> Any:
    """The module whose `parse_input_fn_result` makes features, labels and hooks of what an input function returns."""
    try:
        from tensorflow_estimator.python.estimator import util  # pylint: disable=import-outside-toplevel
    except ImportError:
        return None
    return util


def error_interpolation() -> Tuple[Any, str]:
    """The module whose function of that name adds to a message of an error in a graph the lines where the ops in it were made."""
    from tensorflow.python.framework import error_interpolation as module  # pylint: disable=import-outside-toplevel

    name = "interpolate_graph" if hasattr(module, "interpolate_graph") else "interpolate"  # The latter up to 2.12.
    return module, name


def set_op_of_error(error: tf.errors.OpError, op: tf.Operation) -> None:
    """Has an error be one of `op`, whose lines its text gives."""
    error._op, error._node_def = op, op.node_def  # pylint: disable=protected-access


def queue_feeds() -> Any:
    """The module whose `_get_integer_indices_for_next_batch` says which rows of arrays and frames are fed to a queue next."""
    from tensorflow_estimator.python.estimator.inputs.queues import (
        feeding_functions,  # pylint: disable=import-outside-toplevel
    )

    return feeding_functions


def features_and_labels(element: Any) -> Tuple[Any, Any]:
    """How Estimators read a dataset's element: a pair is features and labels, anything else features alone."""
    return estimator_util().parse_iterator_result(element)


# --- Estimators of several ranks ---


def estimator_module() -> Any:
    """The module whose `_verify_and_create_loss_metric` makes the metric "loss" of every evaluation."""
    from tensorflow_estimator.python.estimator import estimator  # pylint: disable=import-outside-toplevel

    return estimator


def evaluation_listener_class() -> Any:
    """The listener by which train_and_evaluate evaluates after checkpoints; its begin() makes a timer."""
    from tensorflow_estimator.python.estimator import training  # pylint: disable=import-outside-toplevel

    return training._NewCheckpointListenerForEvaluate  # pylint: disable=protected-access


def evaluator_class() -> Any:
    """What train_and_evaluate evaluates with; its `_export_eval_result` runs the exporters."""
    from tensorflow_estimator.python.estimator import training  # pylint: disable=import-outside-toplevel

    return training._TrainingExecutor._Evaluator  # pylint: disable=protected-access


def timer_of(listener: Any) -> Any:
    """The SecondOrStepTimer of such a listener, after begin()."""
    return listener._timer  # pylint: disable=protected-access


def session_config(estimator: Any) -> Any:
    """The ConfigProto of the estimator's sessions; None for the default."""
    return estimator._session_config  # pylint: disable=protected-access


def distribution(estimator: Any, mode: str) -> Any:
    """The tf.distribute strategy that divides the estimator's input in `mode`; None without."""
    strategies = {
        tf.estimator.ModeKeys.TRAIN: estimator._train_distribution,  # pylint: disable=protected-access
        tf.estimator.ModeKeys.EVAL: estimator._eval_distribution,  # pylint: disable=protected-access
    }
    return strategies.get(mode)


def batch_length(estimator: Any, predictions: Dict[str, Any]) -> int:
    """The rows of a batch of predictions; raises ValueError as Estimator.predict does where they differ."""
    return estimator._extract_batch_length(predictions)  # pylint: disable=protected-access


def stops_by_steps(hook: Any) -> bool:
    """Whether a hook asks for the end after the same step on all ranks: TensorFlow's own do, but for NaNs, early stopping, and where a
    listener of the program's asks for it behind a checkpoint."""
    if any(not _is_tensorflows(listener) for listener in getattr(hook, "_listeners", None) or ()):
        return False
    early = type(hook).__module__.endswith("early_stopping")
    return _is_tensorflows(hook) and not early and not isinstance(hook, tf.estimator.NanTensorHook)


def _is_tensorflows(made: Any) -> bool:
    return type(made).__module__.startswith(("tensorflow.", "tensorflow_estimator.", "tf_booster."))


def end_by_steps(hook: Any) -> str:
    """When a hook that counts steps ends a session, in words; "" for any other."""
    if isinstance(hook, tf.compat.v1.train.StopAtStepHook):
        return f"after {hook._num_steps} steps" if hook._num_steps is not None else f"at step {hook._last_step}"
    evaluations = getattr(hook, "_num_evals", None) if _is_tensorflows(hook) else None
    return "" if evaluations is None else f"after {evaluations} steps"
