"""The server of `strata ui` serves its user while others send too much, too little or too late."""

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

from strata.ui import serving
from strata.ui.serving import HEAD_BYTES, server_config

PATIENCE_S = 0.3
MOST = 20
LARGE = 32 << 20


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Serve a small page and a large one, with little patience."""
    monkeypatch.setattr(serving, "PATIENCE_S", PATIENCE_S)
    monkeypatch.setattr(serving, "CONNECTIONS", MOST)
    app = FastAPI()

    @app.get("/")
    def small() -> str:
        return "here"

    @app.get("/slow")
    def slow() -> str:
        time.sleep(4 * PATIENCE_S)
        return "late"

    @app.get("/large")
    def large() -> PlainTextResponse:
        return PlainTextResponse("a" * LARGE)

    config = server_config(app, "127.0.0.1", 0)
    listener = config.bind_socket()
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join(10)


@pytest.fixture
def others() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connected(port: int, others: ExitStack, sent: bytes = b"") -> socket.socket:
    found = others.enter_context(socket.create_connection(("127.0.0.1", port), 10))
    if sent:
        found.sendall(sent)
    return found


def answer(port: int, path: str = "/") -> tuple[int, int]:
    """Return the status of a page, and its bytes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path)
    found = connection.getresponse()
    size = len(found.read())
    connection.close()
    return found.status, size


def ended(connection: socket.socket) -> bool:
    """Return whether the server ends a connection soon; what it sent before is read."""
    connection.settimeout(20 * PATIENCE_S)
    try:
        while connection.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


BEGUN = (
    b"",
    b"GET / HT",
    b"GET / HTTP/1.1\r\nHost: a\r\nX: ",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\nab",
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
)


@pytest.mark.parametrize("sent", BEGUN)
def test_who_sends_no_whole_request_is_sent_away(port: int, others: ExitStack, sent: bytes) -> None:
    connections = [connected(port, others, sent) for _ in range(3)]
    assert all(map(ended, connections))
    assert answer(port) == (200, 6)


def test_a_byte_now_and_then_is_no_whole_request(port: int, others: ExitStack) -> None:
    connection = connected(port, others, b"GET / HTTP/1.1\r\nX: ")
    end = time.monotonic() + 20 * PATIENCE_S
    with suppress(ConnectionError):
        while time.monotonic() < end:
            connection.sendall(b"a")
            time.sleep(PATIENCE_S / 4)
    assert time.monotonic() < end


def test_a_page_that_takes_long_is_waited_for(port: int) -> None:
    assert answer(port, "/slow") == (200, 6)


def test_who_does_not_read_an_answer_is_sent_away(port: int, others: ExitStack) -> None:
    connection = connected(port, others, b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
    time.sleep(5 * PATIENCE_S)
    assert answer(port) == (200, 6)
    assert ended(connection)
    assert answer(port, "/large") == (200, LARGE), "whoever reads gets it"


@pytest.mark.parametrize("sent", BEGUN)
def test_of_too_many_connections_the_oldest_ends(port: int, others: ExitStack, sent: bytes) -> None:
    connections = [connected(port, others, sent) for _ in range(5 * MOST)]
    assert answer(port) == (200, 6)
    assert ended(connections[0])


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"a" * 4096),
        (b"GET / HTTP/1.1\r\nHost: a\r\n", b"X: a\r\n" * 700),
        (b"GET /?", b"a=b&" * 1024),
    ],
)
def test_the_head_of_a_request_has_a_bounded_size(
    port: int, others: ExitStack, first: bytes, piece: bytes
) -> None:
    connection = connected(port, others, first)
    sent = 0
    with suppress(ConnectionError):
        while sent < 64 << 20:
            sent += connection.send(piece)
    assert sent < HEAD_BYTES + (16 << 20), "the machine's own buffers"
    assert answer(port) == (200, 6)


def test_a_filter_of_the_greatest_length_is_taken(port: int) -> None:
    assert answer(port, f"/?where={'%F0%9F%98%80' * serving.LONGEST}")[0] == 200


def test_a_web_socket_is_no_way_around_the_token(port: int, others: ExitStack) -> None:
    upgrade = (
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    connection = connected(port, others, upgrade)
    assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
    assert ended(connection)
