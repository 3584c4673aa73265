"""What ranks tell each other outside of training steps: plans, metrics, predictions.

Each exchange is one collective, in a session of its own. All ranks must come to the same ones in the same order; a label tells if they
did not.
"""

from __future__ import annotations

import pickle
from typing import Any, List, Optional

import numpy as np
import tensorflow as tf

from tf_booster.parallel import collectives, progress, ranks
from tf_booster.passes.graph_view import GraphView

COLLECTIVE = "tf_booster/other/host_exchange"


class Exchange:
    """A session for exchanges, to be used by `with`."""

    def __init__(self, config: Optional[tf.compat.v1.ConfigProto] = None) -> None:
        """`config`: the program's. Its first session, which may be this, settles TensorFlow's threads and memory on cards."""
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            self._send, self._counts = (tf.compat.v1.placeholder(dtype, [None]) for dtype in (tf.uint8, tf.int32))
            received = collectives.all_to_all(self._send, self._counts, "other", "host_exchange")
            self._received = [collectives.pin(each) for each in received]  # Behind the marks.
            progress.mark_collectives(GraphView(graph))
        self._session = tf.compat.v1.Session(graph=graph, config=config)

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._session.close()

    def all_gather(self, value: Any, label: str) -> List[Any]:
        """The `value` of each rank, anything that pickle takes, on all ranks, in the order of ranks.

        Raises:
          RuntimeError: another rank has come with another `label`; names what each does.
        """
        return self._run(value, label, range(ranks.current().size))

    def gather(self, value: Any, label: str) -> List[Any]:
        """As all_gather, but only rank 0 gets the values; the others get none."""
        return self._run(value, label, [0])

    def _run(self, value: Any, label: str, receivers: Any) -> List[Any]:
        data = np.frombuffer(pickle.dumps((label, value), pickle.HIGHEST_PROTOCOL), np.uint8)
        counts = [len(data) if rank in receivers else 0 for rank in range(ranks.current().size)]
        feed = {self._send: np.tile(data, len(receivers)), self._counts: counts}
        received, lengths = self._session.run(self._received, feed)
        parts = np.split(received, np.cumsum(lengths)[:-1])
        told = [pickle.loads(part.tobytes()) for part in parts if part.size]
        if any(theirs != label for theirs, _ in told):
            doing = "; ".join(f"rank {rank}: {theirs}" for rank, (theirs, _) in enumerate(told))
            raise RuntimeError(f"tf_booster: ranks are at different places of the program. {doing}")
        return [each for _, each in told]


def all_gather(value: Any, label: str, config: Optional[tf.compat.v1.ConfigProto] = None) -> List[Any]:
    """Exchange.all_gather, once."""
    with Exchange(config) as exchange:
        return exchange.all_gather(value, label)


def from_rank_0(value: Any, label: str, config: Optional[tf.compat.v1.ConfigProto] = None) -> Any:
    """Rank 0's `value`, on all ranks."""
    return all_gather(value if ranks.current().rank == 0 else None, label, config)[0]
