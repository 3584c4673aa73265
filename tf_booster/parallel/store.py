"""A store of small values that all ranks read and write, beside Horovod's collectives: it answers while a collective hangs.

It is the HTTP server that Horovod's launcher runs for its own rendezvous; where ranks were started otherwise (MPI), rank 0 runs one like it.
A request takes about a millisecond, so nothing here belongs into a training step.
"""

from __future__ import annotations

import functools
import http.client
import json
import os
import socket
import time
from typing import Any, Callable, Optional, Tuple

import tensorflow as tf

from tf_booster import log
from tf_booster.parallel import meetings, ranks

_SCOPE = "tf_booster"
_REQUEST_SECONDS = 10
# Between tries of one request: the launcher may be busy with other ranks or resumed just now. One that has ended refuses at once.
_PAUSES = (0.1, 0.5, 2.0)
_SAY_AFTER_SECONDS = 30
_LOOK_SECONDS = 2.0  # Between looks whether another rank has left the call. Where its process ends, the launcher ends the job before.
# Longer than any rank computes between two meetings; a rank that is dead ends the job long before.
LIMIT_SECONDS = 3600.0


class StoreError(RuntimeError):
    """The store does not answer, or another rank did not put what was waited for."""


class RankFailed(StoreError):
    """What was waited for will not come: a rank has left the call with an error."""


class Store:
    """Values of JSON by keys without slashes."""

    def __init__(self, host: str, port: int):
        self._address = (host, port)

    def put(self, key: str, value: Any) -> None:
        """Sets `key`. Raises StoreError."""
        self._request("PUT", key, json.dumps(value).encode())

    def get(self, key: str) -> Any:
        """The value of `key`, None if there is none. Raises StoreError."""
        status, body = self._request("GET", key)
        return json.loads(body) if status == 200 else None

    def wait(
        self, key: str, what: str, seconds: float = LIMIT_SECONDS, in_vain: Callable[[], bool] = lambda: False
    ) -> Any:
        """The value of `key`, once there is one; None once it is known to be waited for in vain.

        Args:
          what: "rank 1 to save its shard": what is being waited for, for the log and the error.
          seconds: StoreError after these.
          in_vain: asked whether it is, again and again.

        Raises:
          RankFailed: a rank has left this training, evaluation or prediction with an error.
          StoreError: see `seconds`; or the store does not answer.
        """
        begin = said = looked = time.monotonic()
        pause = 0.002
        while True:
            value = self.get(key)
            if value is not None or in_vain():
                return value
            now = time.monotonic()
            if now - begin > seconds:
                raise StoreError(f"rank {ranks.launched().rank} waited {seconds:.0f} s for {what}, in vain")
            if now - looked > _LOOK_SECONDS:
                looked = now
                self._check_calls(what)
            if now - said > _SAY_AFTER_SECONDS:
                said = now
                log.warning(f"rank {ranks.launched().rank} has waited {now - begin:.0f} s for {what}")
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)

    def _check_calls(self, what: str) -> None:
        for failed in map(self.get, meetings.failure_keys()):
            if failed is not None:
                raise RankFailed(
                    f"rank {ranks.launched().rank} waited for {what}, in vain: this call of rank {failed['rank']}'s has ended with {failed['error']}"
                )

    def _request(self, method: str, key: str, body: Optional[bytes] = None) -> Tuple[int, bytes]:
        for pause in (*_PAUSES, None):
            try:
                return self._ask(method, key, body)
            except (OSError, http.client.HTTPException) as error:
                if pause is None:
                    host, port = self._address
                    raise StoreError(
                        f"rank {ranks.launched().rank}: the launcher's store at {host}:{port} does not answer ({error}); it ended, or the network is cut"
                    ) from error
            time.sleep(pause)
        raise AssertionError("The last try raises or returns.")

    def _ask(self, method: str, key: str, body: Optional[bytes]) -> Tuple[int, bytes]:
        # Not by urllib, which would go through the proxy that the environment names.
        connection = http.client.HTTPConnection(*self._address, timeout=_REQUEST_SECONDS)
        try:
            headers = {} if body is None else {"Content-Length": str(len(body))}
            connection.request(method, f"/{_SCOPE}/{key}", body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


@functools.cache
def store() -> Store:
    """The job's store, for use where current().size is above 1. Without a launcher's, the first call is a broadcast over all ranks."""
    host, port = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR"), os.environ.get("HOROVOD_GLOO_RENDEZVOUS_PORT")
    if host and port:
        return Store(host, int(port))
    from horovod.runner.http.http_server import KVStoreServer  # pylint: disable=import-outside-toplevel

    address = None
    if ranks.current().rank == 0:
        address = (socket.gethostbyname(socket.gethostname()), KVStoreServer(verbose=0).start_server())
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return Store(*ranks.horovod().broadcast_object(address, root_rank=0, session=session))
