"""All ranks end after the same step: the one in which no rank has another batch, or which follows a rank's wish to stop."""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Optional, Set

import tensorflow as tf

from tf_booster import _compat
from tf_booster.parallel import row_weights
from tf_booster.parallel.row_weights import STOP

_ASKED = ("tf_booster", "stop_asked")
_ENDS = ("tf_booster", "ends_by_steps")
PROGRAMS_LOOP = ("tf_booster", "programs_loop")


def with_stop(graph: tf.Graph, has_next: tf.Tensor) -> tf.Tensor:
    """`has_next` less STOP in a step before which a hook of this rank asked for the end."""
    asked = tf.compat.v1.placeholder_with_default(tf.zeros([]), [], "stop_asked")
    graph.add_to_collection(_ASKED, asked)
    return has_next - STOP * asked


def note_programs_loop(graph: tf.Graph, elements: List[tf.Operation]) -> None:
    """Notes that `graph` is run by a program's own loop, not an Estimator's, and the ops that get its batches."""
    for op in elements:
        graph.add_to_collection(PROGRAMS_LOOP, op)


def ends_by_steps(graph: tf.Graph) -> List[str]:
    """When hooks end the session of this graph, where they count steps: all ranks must have the same."""
    return graph.get_collection(_ENDS)


class EndTogetherHook(tf.compat.v1.train.SessionRunHook):
    """Ends the loop as the end of input does in one process."""

    def __init__(self) -> None:
        self._has_next: Optional[tf.Tensor] = None
        self._asked: Optional[tf.Tensor] = None
        self._wanted = False

    def ask(self) -> None:
        """Makes all ranks stop after the next step of this one."""
        self._wanted = True

    def after_create_session(self, session: Any, coord: Any) -> None:
        """The graph is rewritten by now; in begin() it was not."""
        del coord
        sums = row_weights.summed_row_weights(session.graph)
        if sums is not None:
            self._has_next = sums.has_next
            (self._asked,) = session.graph.get_collection(_ASKED)[-1:]

    def before_run(self, run_context: Any) -> Any:
        if self._has_next is None:
            return None
        return tf.compat.v1.train.SessionRunArgs(self._has_next, {self._asked: 1.0} if self._wanted else None)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._has_next is None:
            if self._wanted:
                run_context.request_stop()
        elif run_values.results <= 0:
            run_context.request_stop()


class EndOfInputHook(EndTogetherHook):
    """In a program's own loop: runs that read no input are let through; the first that does after the last batch raises OutOfRangeError,
    as in one process."""

    def __init__(self, elements: List[tf.Operation]) -> None:
        """`elements`: the ops that get batches."""
        super().__init__()
        self._elements = set(elements)
        self._reads: Dict[Any, bool] = {}
        self._ended = False

    def before_run(self, run_context: Any) -> Any:
        if not self._reads_input(run_context):
            return None
        if self._ended:
            raise tf.errors.OutOfRangeError(None, None, "End of sequence: no rank has another batch.")
        return super().before_run(run_context)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if run_values.results is None:
            return
        if run_values.results > -STOP / 2:
            self._ended = bool(run_values.results <= 0)
        else:
            run_context.request_stop()

    def _reads_input(self, run_context: Any) -> bool:
        given = run_context.original_args
        fetched = _compat.graph_elements(run_context.session.graph, given.fetches)
        fed = _compat.graph_elements(run_context.session.graph, list(given.feed_dict or ()))
        key = (frozenset(each.name for each in fetched), frozenset(each.name for each in fed))
        if key not in self._reads:
            self._reads[key] = self._are_before(fetched, fed)
        return self._reads[key]

    def _are_before(self, fetched: List[Any], fed: List[Any]) -> bool:
        given = {id(each) for each in fed}
        waiting = [each for each in fetched if id(each) not in given]
        seen: Set[tf.Operation] = set()
        while waiting:
            each = waiting.pop()
            op = each if isinstance(each, tf.Operation) else each.op
            if op in self._elements:
                return True
            if op not in seen:
                seen.add(op)
                waiting += [tensor for tensor in op.inputs if id(tensor) not in given]
                waiting += op.control_inputs
        return False


class _Asking:
    """A run's context for hooks whose wish to stop may be this rank's alone."""

    def __init__(self, context: Any, end: EndTogetherHook) -> None:
        self._context, self._end = context, end

    def request_stop(self) -> None:
        """As SessionRunContext's, but a step later, on all ranks."""
        self._end.ask()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class _AskingHook(tf.compat.v1.train.SessionRunHook):
    """`hook`, whose request_stop() ends all ranks."""

    def __init__(self, hook: Any, end: EndTogetherHook) -> None:
        self._hook, self._end = hook, end

    def begin(self) -> None:
        self._hook.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._hook.after_create_session(session, coord)

    def before_run(self, run_context: Any) -> Any:
        return self._hook.before_run(_Asking(run_context, self._end))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._hook.after_run(_Asking(run_context, self._end), run_values)

    def end(self, session: Any) -> None:
        self._hook.end(session)


def with_end_together(original: Any) -> Any:
    """The constructor of MonitoredSession; in a graph whose input is divided among ranks, hooks stop all ranks."""

    @functools.wraps(original)
    def __init__(self: Any, session_creator: Any, hooks: Any, *args: Any, **kwargs: Any) -> None:
        hooks = list(hooks or [])
        if row_weights.row_weights(tf.compat.v1.get_default_graph()) is not None:
            hooks = together(hooks)
        original(self, session_creator, hooks, *args, **kwargs)

    return __init__


def together(hooks: List[Any]) -> List[Any]:
    """`hooks` with an EndTogetherHook, through which those ask for the end that do not by the count of steps."""
    given = [hook for hook in hooks if isinstance(hook, EndTogetherHook)]
    graph = tf.compat.v1.get_default_graph()
    loop = graph.get_collection(PROGRAMS_LOOP)
    graph.clear_collection(_ENDS)
    for said in filter(None, map(_compat.end_by_steps, hooks)):
        graph.add_to_collection(_ENDS, said)
    end = given[0] if given else EndOfInputHook(loop) if loop else EndTogetherHook()
    asking = [hook if hook is end or _compat.stops_by_steps(hook) else _AskingHook(hook, end) for hook in hooks]
    return asking if given else [*asking, end]
