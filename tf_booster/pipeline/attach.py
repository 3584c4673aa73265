"""Gives sessions on split graphs their drivers.

A graph stays split when tf_booster is switched off, and a session on it that nobody drives would wait for its first batch for ever.
So what attaches drivers stays in place until the last split graph is gone, whatever the switch says.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Optional

import tensorflow as tf

from tf_booster import _compat
from tf_booster.living_graphs import LivingGraphs
from tf_booster.pipeline.driver import Driver
from tf_booster.pipeline.split import Split, split_of

# By which a program runs a session.
_WAYS_IN = ("_do_run", "make_callable", "_make_callable_from_options", "partial_run_setup")
_originals: Dict[str, Any] = {}  # Methods of TensorFlow's sessions that are replaced.


def driver_of(session: tf.compat.v1.Session) -> Optional[Driver]:
    """The driver of a session on a split graph, from its first run on; None for other sessions."""
    return getattr(session, "_tf_booster_driver", None)


def _put() -> None:
    session = _compat.base_session_class()
    _originals.update({name: session.__dict__[name] for name in _WAYS_IN})
    for name, original in _originals.items():
        setattr(session, name, _attach_first(name, original, _originals["_do_run"]))


def _take_away() -> None:
    session = _compat.base_session_class()
    for name, original in _originals.items():
        setattr(session, name, original)
    _originals.clear()


split_graphs = LivingGraphs(_put, _take_away)


def _attach_first(name: str, original: Any, do_run: Any) -> Any:
    """Wraps a method of the sessions: one on a split graph gets its driver with its first run."""

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not getattr(self, "_tf_booster_looked_for_split", False):
            self._tf_booster_looked_for_split = True
            split = split_of(self.graph)
            if split is not None:
                _attach(self, split, do_run)
                return getattr(self, name)(*args, **kwargs)
        return original(self, *args, **kwargs)

    return method


def _attach(session: tf.compat.v1.Session, split: Split, do_run: Any) -> None:
    split_graphs.watch(session.graph)  # An imported graph is known from here on.
    driver = Driver(session, split, functools.partial(do_run, session))
    # On the session, not on its class: what is split stays so when tf_booster is switched off.
    _compat.replace_do_run(session, driver.do_run)
    session._tf_booster_driver = driver
    session.close = driver.close
    session.partial_run_setup = driver.partial_run_setup
    session.make_callable = functools.partial(_make_callable, session)
    session._make_callable_from_options = functools.partial(_make_callable_from_options, session)


def _make_callable(
    session: tf.compat.v1.Session, fetches: Any, feed_list: Any = None, accept_options: bool = False
) -> Callable[..., Any]:
    """Stands for Session.make_callable, which would not come by the driver."""
    del accept_options  # run() takes them by the names by which the callable would.

    def run(*values: Any, **kwargs: Any) -> Any:
        return session.run(fetches, dict(zip(feed_list or (), values)), **kwargs)

    return run


def _make_callable_from_options(session: tf.compat.v1.Session, said: Any) -> Callable[..., Any]:
    """The same for what Keras calls. said: CallableOptions; a tensor connection is fetched, and fed."""
    fed = [*said.feed, *(connection.to_tensor for connection in said.tensor_connection)]
    connected = [connection.from_tensor for connection in said.tensor_connection]
    targets = [session.graph.as_graph_element(name) for name in said.target]

    def run(*values: Any, run_metadata: Any = None) -> Any:
        values = [*values, *session.run(connected)]
        fetches = {"fetches": list(said.fetch), "targets": targets}
        return session.run(fetches, dict(zip(fed, values)), said.run_options, run_metadata)["fetches"]

    return run
