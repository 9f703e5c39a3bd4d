"""A failed task is told in the same words through every transport, and never twice as news."""

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest

from strata_airflow.notify import LINES_MAX, VARIABLE, StrataNotifier, message_of, send, tell_late
from strata_airflow.spark import DEFAULT_ARGS

pytestmark = pytest.mark.dags

ALERT = (
    "shard='flights' part='shards/flights/parts/ab.parquet' column='id' replay='strata validate'"
)


def context(run: str = "manual__2013", alerts: int = 1) -> dict[str, object]:
    ti = SimpleNamespace(
        dag_id="soft_evaluation", task_id="validate", run_id=run, log_url="http://here/log"
    )
    reason = "exit code 3: soft evaluation found a mismatch"
    return {"ti": ti, "exception": "\n".join([reason, *[ALERT] * alerts])}


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[bytes]]]:
    got: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(500 if self.path == "/broken" else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()
    server.server_close()


@pytest.fixture
def mailbox() -> Iterator[tuple[int, list[str]]]:
    """A mail server that says yes to everything."""
    got: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            while line := self.rfile.readline():
                word = line.strip().upper()
                if word == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    while (line := self.rfile.readline()) != b".\r\n":
                        got.append(line.decode())
                self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 yes\r\n")
                if word == b"QUIT":
                    return

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], got
        server.shutdown()


def test_slack_webhook_and_mail_say_the_same(
    receiver: tuple[str, list[bytes]],
    mailbox: tuple[int, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (url, got), (port, mails) = receiver, mailbox
    to = f"slack+{url}/a webhook+{url}/b mailto:ops@here?server=127.0.0.1:{port}&from=s@here"
    monkeypatch.setenv(VARIABLE, to)

    StrataNotifier()(context())

    slack, webhook = (json.loads(data) for data in got)
    assert ALERT in slack["text"]
    assert "http://here/log" in slack["text"]
    assert webhook["text"] == slack["text"]
    assert webhook["dedupe"] == message_of(context()).dedupe
    mail = "".join(mails).replace("=\r\n", "").replace("=3D", "=")
    assert "Subject: Strata: soft_evaluation.validate failed" in mail
    assert "column='id'" in mail


def test_one_receiver_that_fails_does_not_stop_the_others(
    receiver: tuple[str, list[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    url, got = receiver
    reached = send(message_of(context()), f"slack+{url}/broken nonsense webhook+{url}/fine")
    assert reached == [f"webhook+{url}/fine"]
    assert len(got) == 2
    assert "/broken" not in caplog.text  # a webhook's path is a secret


@pytest.mark.parametrize("answer", [b"garbage", b"HTTP/1.1 200 fine\r\na: " + b"b" * 70_000])
def test_an_answer_that_is_none_stops_nothing(
    receiver: tuple[str, list[bytes]], answer: bytes
) -> None:
    url, got = receiver

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            self.request.sendall(answer)

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as odd:
        threading.Thread(target=odd.handle_request, daemon=True).start()
        there = f"webhook+http://127.0.0.1:{odd.server_address[1]}/a"
        assert send(message_of(context()), f"{there} webhook+{url}/b") == [f"webhook+{url}/b"]
    assert len(got) == 1


@pytest.mark.parametrize("address", ["http://here:port/a", "http://[::1/secret", "http://[x]/a"])
def test_an_address_that_is_none_stops_nothing(
    receiver: tuple[str, list[bytes]], address: str, caplog: pytest.LogCaptureFixture
) -> None:
    url, _ = receiver
    reached = send(message_of(context()), f"webhook+{address} webhook+{url}/fine")
    assert reached == [f"webhook+{url}/fine"]
    assert "secret" not in caplog.text


def test_the_same_lie_found_again_has_the_same_key() -> None:
    assert message_of(context("a")).dedupe == message_of(context("b")).dedupe
    assert message_of(context()).dedupe != message_of(context(alerts=2)).dedupe


def test_a_late_run_is_told_of_once(
    receiver: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, got = receiver
    monkeypatch.setenv(VARIABLE, f"webhook+{url}/a")
    for _ in range(2):
        run = {"dag_id": "shard_ingest", "run_id": "scheduled__1"}
        tell_late("ingest of a day", 6, context={"dag_run": run})
    first, second = (json.loads(data) for data in got)
    assert first["dedupe"] == second["dedupe"]
    assert "shard_ingest is late" in first["text"]
    assert "6 hours" in first["text"]


def test_a_message_stays_short() -> None:
    message = message_of(context(alerts=100))
    assert len(message.lines) == LINES_MAX + 1
    assert "80 more" in message.lines[-1]


def test_every_task_tells_when_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    callbacks: list[Callable[..., object]] = DEFAULT_ARGS["on_failure_callback"]
    assert [type(one) for one in callbacks] == [StrataNotifier]
    callbacks[0](context())  # tells nobody, and that is no error
