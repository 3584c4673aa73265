"""The store of small values: what was put is got, a server that is busy is asked again, one that has ended is an error."""

import http.server
import socket
import threading

import pytest

from tf_booster.parallel.store import Store, StoreError


class Handler(http.server.BaseHTTPRequestHandler):
    """Keeps values; hangs up on the first requests, as many as its server says."""

    def answer(self):
        if self.server.hang_up:
            self.server.hang_up -= 1
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        body = b""
        if self.command == "PUT":
            self.server.kept[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        found = self.command == "PUT" or self.path in self.server.kept
        if self.command == "GET" and found:
            body = self.server.kept[self.path]
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = answer

    def log_message(self, *args):
        pass


@pytest.fixture(name="server")
def _server():
    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    server.kept, server.hang_up = {}, 0
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_what_was_put_is_got(server):
    store = Store(*server.server_address)
    assert store.get("key") is None
    store.put("key", {"a": [1, None]})
    assert store.get("key") == store.wait("key", "it") == {"a": [1, None]}


def test_a_request_that_fails_is_made_again(server):
    store = Store(*server.server_address)
    server.hang_up = 2
    store.put("key", 1)
    server.hang_up = 1
    assert store.get("key") == 1 and server.hang_up == 0


def test_a_server_that_has_ended_is_an_error(server):
    store = Store(*server.server_address)
    server.server_close()
    with pytest.raises(StoreError, match="does not answer"):
        store.put("key", 1)


def test_what_nobody_puts_is_waited_for_as_long_as_it_says(server):
    with pytest.raises(StoreError, match="waited 0 s for rank 1 to begin, in vain"):
        Store(*server.server_address).wait("key", "rank 1 to begin", seconds=0.1)
