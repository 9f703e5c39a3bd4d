"""How S3 is asked: bodies go at once, so no answer in between is waited for."""

import random
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import SEEK_CUR, SEEK_END, SEEK_SET, BytesIO
from typing import Any

import pytest

from strata.errors import InvalidRequest, Unavailable
from strata.store import s3_read
from strata.store.s3 import S3Blob
from strata.store.s3_client import (
    S3Address,
    S3Client,
    body_of,
    client_error,
    outside,
    piece_of,
)
from strata.store.s3_read import Bucket, ObjectStream
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


def reply_of(data: bytes, range: str | None = None, status: int = 206) -> dict[str, Any]:
    says = {} if range is None else {"ContentRange": f"bytes {range}"}
    whole = {"ResponseMetadata": {"HTTPStatusCode": status}, "ContentLength": len(data)}
    return {"Body": BytesIO(data), **whole, **says}


@pytest.mark.parametrize(
    "reply",
    [
        reply_of(b"cde"),
        reply_of(b"cde", "1-3/9"),
        reply_of(b"cd", "2-3/9"),
        reply_of(b"cd", "2-4/9"),
        reply_of(b"cdef", "2-5/9"),
        reply_of(b"cde", "2-4/*"),
    ],
)
def test_a_reply_with_other_bytes_is_no_piece(reply: dict[str, Any]) -> None:
    """All but the asked bytes, or none said: they stood for those that were asked for."""
    with pytest.raises(Unavailable, match="ended early"):
        piece_of(reply, 2, 3)


@pytest.mark.parametrize(
    ("reply", "length", "found"),
    [
        (reply_of(b"cde", "2-4/9"), 3, (b"cde", 9)),
        (reply_of(b"cde", "2-4/5"), 9, (b"cde", 5)),
        (reply_of(b"abcdefghi", status=200), 3, (b"cde", 9)),
        (reply_of(b"ab", status=200), 3, (b"", 2)),
    ],
)
def test_a_piece_is_what_was_asked_for(
    reply: dict[str, Any], length: int, found: tuple[bytes, int]
) -> None:
    assert piece_of(reply, 2, length) == found


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


@pytest.mark.parametrize(
    "option",
    ["endpoint=minio:9000", "endpoint=http://[x", "endpoint=https://a..b", "region=eu west"],
)
def test_an_endpoint_or_a_region_that_is_none_is_refused_in_words(option: str) -> None:
    """One without `http://` ended in a traceback of botocore."""
    address = S3Address.parse(f"s3://b/p?{option}")
    for ask in (lambda: S3Blob(address).get("key"), lambda: list(Bucket(address).below(""))):
        with pytest.raises(InvalidRequest, match="endpoint=https://host:port"):
            ask()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("token", [None, "again"])
@pytest.mark.parametrize("listing", ["blobs", "files", "uploads"])
def test_a_listing_that_does_not_go_on_is_no_short_list(
    token: str | None, listing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A landing folder had the files of its first page only; one of blobs never ended."""
    names = ("NextContinuationToken", "NextKeyMarker", "NextUploadIdMarker")
    page = {"IsTruncated": True} | ({} if token is None else dict.fromkeys(names, token))

    class Answering:
        def __getattr__(self, _: str) -> Callable[..., dict[str, Any]]:
            return lambda **_: page

    monkeypatch.setattr(S3Client, "boto", Answering())
    address = S3Address.parse("s3://b/p")
    lists: dict[str, Callable[[], object]] = {
        "blobs": lambda: list(S3Blob(address).list("")),
        "files": lambda: list(S3Client(address).listed("")),
        "uploads": lambda: S3Blob(address)._abort_uploads(0),
    }

    with pytest.raises(Unavailable, match="ended early" if token is None else "leads nowhere"):
        lists[listing]()


@pytest.mark.parametrize("left", [False, True])
def test_a_blob_that_vanishes_while_it_is_compared_has_no_other_bytes(
    left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who deleted it between two requests made the write a bad request, never tried again."""
    blob = S3Blob(S3Address.parse("s3://b/p"))
    monkeypatch.setattr(blob, "_write", lambda *_: False)
    monkeypatch.setattr(blob, "_size", lambda _: 3 if left else None)
    monkeypatch.setattr(blob, "_whole", lambda _: None)

    with pytest.raises(Unavailable, match="vanished while it was written"):
        blob.set("key", b"abc")


@pytest.mark.parametrize(("code", "certain"), [("NoSuchBucket", True), ("NoSuchUpload", False)])
def test_an_upload_that_is_gone_may_have_been_completed(code: str, certain: bool) -> None:
    said = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 404}}
    with (
        pytest.raises(Unavailable, match=code) as caught,
        outside(S3Address.parse("s3://b/p"), "key", certain=False),
    ):
        raise client_error()(said, "CompleteMultipartUpload")
    assert caught.value.certain is certain


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


@pytest.mark.parametrize("ranges", [True, False])
def test_a_stream_reads_what_stands_at_each_position(
    ranges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may know no ranges: its first bytes were taken for those of each position."""
    draw, data = random.Random(7), bytes(range(251)) * 4

    class Answering:
        def get_object(self, Range: str, **_: Any) -> dict[str, Any]:  # noqa: N803 - as boto3
            low, _, high = Range.removeprefix("bytes=").partition("-")
            found = data[int(low) : int(high) + 1]
            if not ranges:
                return reply_of(data, status=200)
            return reply_of(found, f"{low}-{int(low) + len(found) - 1}/{len(data)}")

    monkeypatch.setattr(S3Client, "boto", Answering())
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
