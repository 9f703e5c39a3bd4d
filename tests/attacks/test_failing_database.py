"""A database that fails is said to fail, at once: not 50 lost races after 102 seconds."""

import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from strata.errors import Unavailable
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.state.transitions import advance_since
from strata.store.open import Stores, open_stores
from strata.store.retry import retry
from tests.support.batches import spec
from tests.support.postgres import MissingError, Server

pytestmark = pytest.mark.slow

SOON_S = 20.0  # on a machine with much else to do


@contextmanager
def full_at(size_bytes: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size: SQLite calls that `disk I/O error`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def shard(stores: Stores) -> Machine:
    machine = Machine(stores)
    machine.create(spec())
    machine.append("events", token="0", lower=0, upper=10)
    return machine


def fails(change: Callable[[], object]) -> Unavailable:
    """Return the error of a change that the database cannot take, which comes soon."""
    began = time.monotonic()
    with pytest.raises(Unavailable) as told:
        change()
    assert time.monotonic() - began < SOON_S
    return told.value


def test_an_input_output_error_of_sqlite_is_one(tmp_path: Path) -> None:
    """It reads on, and what is to be written is too large: so it was on a disk that failed."""
    machine = shard(
        open_stores(StoreSettings(f"file://{tmp_path}/b", f"sqlite:///{tmp_path}/c.db"))
    )
    large = partial(machine.append, "events", token="x" * 100_000, lower=10, upper=20)
    with full_at(65_536):
        error = fails(large)
    assert "disk I/O error" in str(error)
    assert (error.details["shard"], error.details["seqno"]) == ("events", 3)
    assert "c.db" in str(error.details["address"])
    assert machine.load("events").seqno == 2
    large()
    assert machine.load("events").upper == 20


def test_a_lost_connection_to_postgresql_is_one(tmp_path: Path) -> None:
    try:
        server = Server()
    except MissingError as error:
        pytest.skip(f"no PostgreSQL: {error}")
    address = server.address.replace("+psycopg", "")
    machine = shard(open_stores(StoreSettings(f"file://{tmp_path}/b", address)))
    server.stop()
    change = partial(machine.apply, "events", partial(advance_since, since=5))
    told = fails(change)
    assert "connection" in str(told)
    assert str(server.port) in str(told.details["address"])
    assert server.start()
    change()
    assert machine.load("events").since == 5
    machine.stores.consensus.close()  # type: ignore[attr-defined]
    server.close()


def test_an_error_of_an_object_store_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = b"<Error><Code>InternalError</Code><Message>we are broken</Message></Error>"
            self.send_response(500)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_HEAD = do_PUT = answer  # noqa: N815 - their names

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    server = HTTPServer(("127.0.0.1", 0), Broken)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"s3://bucket/p?endpoint=http://127.0.0.1:{server.server_port}&region=us-east-1"
    blob = open_stores(StoreSettings(url, "memory://none")).blob
    began = time.monotonic()
    for call in (lambda: blob.get("shards/a/x"), lambda: blob.set("shards/a/x", b"1")):
        with pytest.raises(Unavailable) as told:
            retry(call)
        assert "InternalError" in str(told.value)
    assert time.monotonic() - began < 2 * SOON_S
    server.shutdown()
