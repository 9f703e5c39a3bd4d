"""How S3 is asked: bodies go at once, so no answer in between is waited for."""

import random
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import SEEK_CUR, SEEK_END, SEEK_SET, BytesIO
from typing import Any

import pytest

from strata.errors import Unavailable
from strata.store import s3_read
from strata.store.s3 import S3Blob
from strata.store.s3_client import S3Address, S3Client, body_of
from strata.store.s3_read import ObjectStream
from tests.support import seaweed


class Handler(BaseHTTPRequestHandler):
    """Takes each object; a client that asks for leave gets half an answer, and no more."""

    protocol_version = "HTTP/1.1"
    asked: list[str]
    status: HTTPStatus

    def handle_expect_100(self) -> bool:
        self.asked.append(self.path)
        self.wfile.write(b"HTTP/1.1 100 Continue\r\n")
        self.close_connection = True
        return False

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        for name, value in (("ETag", '"a"'), ("Date", "now"), ("Content-Length", "0")):
            self.send_header(name, value)
        self.end_headers()

    def do_HEAD(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    for name, value in seaweed.IDENTITY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Handler, "asked", [], raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()


def blob_of(server: ThreadingHTTPServer) -> S3Blob:
    where = f"s3://b/p?endpoint=http://127.0.0.1:{server.server_port}&region=us-east-1&attempts=1"
    return S3Blob(S3Address.parse(where))


@pytest.mark.timeout(60)
def test_a_body_is_sent_without_asking_for_leave(server: ThreadingHTTPServer) -> None:
    """A connection that ended within the leave was waited for without end."""
    blob = blob_of(server)
    blob.overwrite("key", b"x" * 100_000)
    blob.set("other", b"")
    assert Handler.asked == []


@pytest.mark.parametrize("says", [{"ContentLength": 3}, {"ContentRange": "bytes 5-7/90"}])
def test_a_body_is_whole_if_it_has_as_many_bytes_as_its_headers_say(says: dict[str, Any]) -> None:
    assert body_of({"Body": BytesIO(b"abc"), **says}) == b"abc"
    for data in (b"ab", b"abcd"):
        with pytest.raises(Unavailable, match="ended early"):
            body_of({"Body": BytesIO(data), **says})


@pytest.mark.parametrize(
    "bucket",
    [
        "arn:aws:s3:us-west-2:123456789012:accesspoint:my-ap",
        "arn:aws:s3::123456789012:accesspoint:m1.mrap",
        "my-ap-1a2b3c-s3alias",
        "Old_bucket.of-before",
    ],
)
def test_an_access_point_stands_where_a_bucket_does(bucket: str) -> None:
    assert S3Address.parse(f"s3://{bucket}/p?region=us-west-2") == S3Address(
        bucket, "p/", region="us-west-2"
    )


def test_a_copy_whose_reply_ended_early_may_have_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    class Answering:
        def copy_object(self, **_: Any) -> dict[str, Any]:
            return {"ResponseMetadata": {"HTTPHeaders": {}}}

    monkeypatch.setattr(S3Client, "boto", Answering())

    with pytest.raises(Unavailable, match="ended early") as caught:
        S3Client(S3Address.parse("s3://b/p")).ask("copy_object")
    assert not caught.value.certain


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("status", "cure"),
    [
        (HTTPStatus.BAD_REQUEST, "renew the credentials"),  # they have expired
        (HTTPStatus.FORBIDDEN, "give this identity"),
        (HTTPStatus.SERVICE_UNAVAILABLE, "fewer requests"),
        (HTTPStatus.MOVED_PERMANENTLY, "https:// in place of http://"),
        (HTTPStatus.TEMPORARY_REDIRECT, "https:// in place of http://"),
    ],
)
def test_a_status_without_words_has_a_cure(
    server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch, status: HTTPStatus, cure: str
) -> None:
    """An endpoint that sends on ended in a RecursionError of botocore."""
    monkeypatch.setattr(Handler, "status", status, raising=False)
    blob = blob_of(server)
    for ask in (blob.delete, blob.get):
        with pytest.raises(Unavailable, match=cure):
            ask("key")
    with pytest.raises(Unavailable, match=cure):
        list(blob.list(""))


def test_a_stream_reads_what_stands_at_each_position(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, data = random.Random(7), bytes(range(251)) * 4

    def body(_: ObjectStream, **how: str) -> bytes:
        low, _, high = how["Range"].removeprefix("bytes=").partition("-")
        return data[int(low) : int(high) + 1]

    monkeypatch.setattr(ObjectStream, "_body", body)
    monkeypatch.setattr(s3_read, "AHEAD_BYTES", 64)
    stream, plain = ObjectStream("s3://b/key", len(data), ""), BytesIO(data)
    for place in (500, 2):
        assert stream.seek(place) == plain.seek(place)
        assert stream.read(9) == plain.read(9)
    for _ in range(300):
        if draw.random() < 0.5:
            whence = draw.choice([SEEK_SET, SEEK_CUR, SEEK_END])
            place = plain.tell() if whence == SEEK_CUR else len(data) if whence == SEEK_END else 0
            offset = draw.randrange(len(data) + 9) - place
            assert stream.seek(offset, whence) == plain.seek(offset, whence)
        size = draw.choice([0, 1, 9, 70, 200])
        assert stream.read(size) == plain.read(size)
        assert stream.tell() == plain.tell()
