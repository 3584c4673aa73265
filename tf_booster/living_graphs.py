"""What is in place while tf_booster is switched on, and after that as long as a graph lives that needs it."""

from __future__ import annotations

import threading
import weakref
from typing import Callable

import tensorflow as tf


class LivingGraphs:
    """Calls `put` when the first of both reasons comes up, and `take_away` when the last is gone."""

    def __init__(self, put: Callable[[], None], take_away: Callable[[], None]):
        self._put, self._take_away = put, take_away
        self._lock = threading.RLock()  # A graph may be collected while it is held.
        self._in_place = self._switched_on = False
        self._watched: weakref.WeakSet[tf.Graph] = weakref.WeakSet()
        self._living = 0

    def switch(self, on: bool) -> None:
        """tf_booster is switched on or off."""
        with self._lock:
            self._switched_on = on
            self._update()

    def watch(self, graph: tf.Graph) -> None:
        """`graph` needs it, for as long as it lives."""
        with self._lock:
            if graph in self._watched:
                return
            self._watched.add(graph)
            self._living += 1
            weakref.finalize(graph, self._forget).atexit = False
            self._update()

    def __len__(self) -> int:
        """How many graphs need it."""
        return self._living

    def _forget(self) -> None:
        with self._lock:
            self._living -= 1
            self._update()

    def _update(self) -> None:
        wanted = self._switched_on or self._living > 0
        if wanted != self._in_place:
            self._in_place = wanted
            (self._put if wanted else self._take_away)()
