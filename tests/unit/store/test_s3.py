"""Blobs on S3 keep the contract of the seam on a real server, whatever the network does."""

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError

import strata.store.s3 as module
from strata.errors import InvalidRequest, Unavailable
from strata.model.settings import StoreSettings
from strata.store import bill
from strata.store.open import is_near, open_stores
from strata.store.s3 import S3Blob
from strata.store.s3_client import S3Address
from strata.store.s3_read import Bucket, ObjectStream
from tests.conformance.blob import KEYS, BlobSuite
from tests.support import seaweed
from tests.support.garbage import World

pytestmark = pytest.mark.slow

CONFLICT = "<Error><Code>ConditionalRequestConflict</Code></Error>"
THROTTLED = "<Error><Code>SlowDown</Code></Error>"
FORBIDDEN = "<Error><Code>AccessDenied</Code></Error>"


@pytest.fixture(scope="session")
def endpoint() -> str:
    try:
        return seaweed.server()
    except seaweed.MissingError as error:
        pytest.skip(f"no S3 server: {error}")


@pytest.fixture
def url(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in seaweed.IDENTITY.items():
        monkeypatch.setenv(name, value)
    return seaweed.fresh_prefix()


@pytest.fixture
def blob(url: str) -> S3Blob:
    return S3Blob(S3Address.parse(url))


class RawPrefix:
    def __init__(self, blob: S3Blob) -> None:
        self.client = seaweed.client(str(blob.address.endpoint))
        self.where = {"Bucket": blob.address.bucket}
        self.prefix = blob.address.prefix

    def read(self, key: str) -> bytes | None:
        try:
            reply = self.client.get_object(**self.where, Key=self.prefix + key)
        except self.client.exceptions.NoSuchKey:
            return None
        return bytes(reply["Body"].read())

    def write(self, key: str, data: bytes) -> None:
        self.client.put_object(**self.where, Key=self.prefix + key, Body=data)

    def keys(self) -> list[str]:
        found = self.client.list_objects_v2(**self.where, Prefix=self.prefix).get("Contents", [])
        keys = [one["Key"].removeprefix(self.prefix) for one in found]
        return sorted(key for key in keys if not key.startswith(".deleted/"))


class TestS3Blob(BlobSuite):
    @pytest.fixture
    def blob(self, url: str) -> S3Blob:
        return S3Blob(S3Address.parse(url))

    @pytest.fixture
    def raw(self, blob: S3Blob) -> RawPrefix:
        return RawPrefix(blob)


@pytest.fixture
def network(blob: S3Blob) -> Iterator[Callable[[str, Callable[..., Any]], None]]:
    """Let a function answer, once, in place of the server: `network("PutObject", answer)`."""
    client = blob.client.boto
    waits: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.sleep", waits.append)

        def once(operation: str, answer: Callable[..., Any]) -> None:
            used: list[bool] = []

            def handler(request: Any, **_: Any) -> Any:
                if used:
                    return None
                used.append(True)
                return answer(request)

            client.meta.events.register_last(f"before-send.s3.{operation}", handler)

        yield once


def says(status: int, body: str, **headers: str) -> Callable[..., AWSResponse]:
    class Raw:
        def stream(self, *_: Any) -> Iterator[bytes]:
            yield body.encode()

        def read(self, *_: Any) -> bytes:
            return body.encode()

    return lambda request: AWSResponse(request.url, status, headers, Raw())


def loses_the_reply(request: Any) -> Any:
    """Send the request to the server, and the reply nowhere."""
    from botocore.httpsession import URLLib3Session

    URLLib3Session().send(request)
    raise ConnectionClosedError(endpoint_url=request.url)


def test_a_lost_reply_to_a_write_is_no_failure(blob: S3Blob, network: Any) -> None:
    network("PutObject", loses_the_reply)
    blob.set("a/b", b"one")
    assert blob.get("a/b") == b"one"


@pytest.mark.parametrize("answer", [says(409, CONFLICT), says(503, THROTTLED)])
def test_a_conflict_and_throttling_are_tried_again(
    blob: S3Blob, network: Any, answer: Callable[..., Any]
) -> None:
    network("PutObject", answer)
    blob.set("a/b", b"one")
    assert blob.get("a/b") == b"one"


@pytest.mark.parametrize("operation", ["GetObject", "HeadObject", "ListObjectsV2"])
def test_a_reply_that_ends_within_its_headers_is_not_taken_for_an_empty_one(
    blob: S3Blob, network: Any, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """http.client takes the headers that came for all of them, and no body for an empty one."""
    calls = {
        "GetObject": lambda: blob.get("a/b"),
        "HeadObject": lambda: blob.get("a/b", length=0),
        "ListObjectsV2": lambda: [info.key for info in blob.list("a")],
    }
    monkeypatch.setattr("strata.store.s3_read.client_of", lambda _: blob.client)
    found = Bucket(blob.address)
    blob.set("a/b", b"one")

    network(operation, says(200, ""))
    with pytest.raises(Unavailable, match="ended early"):
        calls[operation]()
    if operation != "GetObject":
        network(operation, says(200, ""))
        with pytest.raises(Unavailable, match="ended early"):
            found.at("a/b") if operation == "HeadObject" else list(found.below("a"))

    assert [call() for call in calls.values()] == [b"one", b"", ["a/b"]]


@pytest.mark.parametrize("operation", ["PutObject", "UploadPart", "CompleteMultipartUpload"])
def test_a_write_whose_reply_ends_within_its_headers_is_not_taken_for_done(
    blob: S3Blob, network: Any, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 says 200 while it still puts an upload together; a state would name what is not there."""
    if operation != "PutObject":
        monkeypatch.setattr("strata.store.s3.SINGLE", 2)
    network(operation, says(200, ""))
    with pytest.raises(Unavailable, match="ended early") as caught:
        blob.set("a/b", b"one")
    assert not caught.value.certain
    assert blob.get("a/b") is None
    blob.set("a/b", b"one")
    assert blob.get("a/b") == b"one"


def test_a_whole_reply_to_a_write_need_not_say_a_tag(blob: S3Blob, network: Any) -> None:
    """A header that a lenient server leaves out is no reply that ended early."""
    network("PutObject", says(200, "", **{"Content-Length": "0"}))
    blob.set("a/b", b"one")
    network("PutObject", says(200, "", **{"Content-Length": ""}))
    with pytest.raises(Unavailable, match="ended early"):
        blob.set("a/b", b"one")


def test_a_bucket_whose_reply_ends_early_is_not_taken_for_one_without_versions(
    blob: S3Blob, network: Any
) -> None:
    network("GetBucketVersioning", says(200, ""))
    assert blob.keeps_versions()
    never = "<VersioningConfiguration/>"
    network("GetBucketVersioning", says(200, never, **{"Transfer-Encoding": "chunked"}))
    assert not blob.keeps_versions()


def test_a_purge_whose_reply_ends_early_does_not_call_blobs_removed(
    blob: S3Blob, network: Any
) -> None:
    blob.set("a/b", b"one")
    blob.delete("a/b")
    network("DeleteObjects", says(200, ""))
    with pytest.raises(Unavailable, match="ended early"):
        blob.purge(2**62)
    assert blob.purge(2**62) == 3


def test_a_copy_whose_reply_ends_within_its_headers_costs_no_blob(
    blob: S3Blob, network: Any
) -> None:
    """What is deleted can be restored: so nothing goes before its copy is known to be there."""
    blob.set("a/b", b"one")
    network("CopyObject", says(200, ""))
    with pytest.raises(Unavailable, match="ended early"):
        blob.delete("a/b")
    assert blob.get("a/b") == b"one"
    blob.delete("a/b")
    blob.restore("a/b")
    assert blob.get("a/b") == b"one"


def test_a_source_object_is_asked_for_again_when_a_reply_ends_early(
    blob: S3Blob, network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob.set("a/b", b"one")
    monkeypatch.setattr("strata.store.s3_read.client_of", lambda _: blob.client)
    bucket = Bucket(blob.address)
    [found] = bucket.below("a/")
    network("GetObject", says(200, ""))

    assert ObjectStream(bucket.url("a/b"), found.size_bytes, found.version).read() == b"one"


def test_what_is_forbidden_is_told_with_the_cure(blob: S3Blob, network: Any) -> None:
    network("PutObject", says(403, FORBIDDEN))
    with pytest.raises(Unavailable, match="AccessDenied") as caught:
        blob.set("a/b", b"one")
    assert caught.value.certain
    assert "s3:PutObject" in str(caught.value) or "PutObject" in str(caught.value)
    assert blob.get("a/b") is None


def test_a_server_that_is_away_is_unavailable_and_no_secret_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "who")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-very-secret-word")
    away = S3Blob(S3Address.parse("s3://b/p?endpoint=http://127.0.0.1:9&region=x&attempts=1"))
    for call in (lambda: away.get("a"), lambda: away.set("a", b""), lambda: list(away.list(""))):
        with pytest.raises(Unavailable) as caught:
            call()
        assert "a-very-secret-word" not in str(caught.value)


@pytest.mark.parametrize("size", [0, 1, 999, 1_000, 1_001, 5_500])
def test_long_blobs_travel_in_pieces(
    blob: S3Blob, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(module, "PIECE", 1_000)
    data = hashlib.shake_128(b"x").digest(size)
    bill.settle()
    blob.set("a/b", data)
    assert bill.bill_counts(bill.settle())["s3_puts"] == blob.requests["put_object"] == 1
    assert blob.get("a/b") == data
    assert blob.get("a/b", 300, 2_100) == data[300:2_400]
    assert blob.requests["bytes_out"] == size
    assert blob.requests["get_object"] >= max(1, -(-size // 1_000))


def test_an_upload_in_parts_is_write_once_too(
    blob: S3Blob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SINGLE", 1_000)
    monkeypatch.setattr(module, "PIECE", 5 * 1024 * 1024)  # S3 takes no smaller part
    data = hashlib.shake_128(b"y").digest(11 * 1024 * 1024)
    blob.set("a/b", data)
    blob.set("a/b", data)
    assert blob.get("a/b") == data
    with pytest.raises(InvalidRequest, match="write-once"):
        blob.set("a/b", data[::-1])
    assert blob.get("a/b") == data
    assert blob.requests["abort_multipart_upload"] == 2


def test_purge_forgets_what_was_deleted_long_enough_ago(blob: S3Blob) -> None:
    blob.set("a/b", b"12345")
    blob.set("a/c", b"1")
    blob.delete("a/b")
    assert blob.purge(0) == 0
    blob.restore("a/b")
    blob.delete("a/b")
    assert blob.purge(4_000_000_000_000) == 5
    with pytest.raises(InvalidRequest, match="nothing is left"):
        blob.restore("a/b")
    assert blob.get("a/c") == b"1"


def test_purge_leaves_the_uploads_of_other_writers(
    blob: S3Blob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload that somebody has just begun stays, even if nothing deleted is kept."""
    name = blob.address.prefix + "a/big"
    begun = blob.client.ask("create_multipart_upload", Key=name)["UploadId"]

    def uploads() -> list[str]:
        page = blob.client.ask("list_multipart_uploads", Prefix=name)
        return [one["UploadId"] for one in page.get("Uploads", [])]

    blob.purge(time.time_ns() // 1_000_000 + 60_000)
    assert uploads() == [begun]
    monkeypatch.setattr(module, "ABANDONED_MS", -60_000)
    blob.purge(0)  # as backups and sinks do, where what is deleted stays
    assert uploads() == []


@pytest.mark.parametrize("page", [1, 3, 1_000])
def test_listings_of_many_pages_are_whole(
    blob: S3Blob, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(module, "PAGE", page)
    keys = sorted([*KEYS[1:], "b/c/a", "b/c/b", "b.c", "z"])
    for key in keys:
        blob.set(key, b"x")
    assert [info.key for info in blob.list("")] == keys
    assert [info.key for info in blob.list("b/")] == [key for key in keys if key.startswith("b/")]


def test_a_store_below_another_prefix_is_not_seen(blob: S3Blob) -> None:
    blob.set("a/b", b"1")
    whole = blob.address
    other = S3Blob(S3Address(whole.bucket, whole.prefix[:-1] + "x/", whole.endpoint, whole.region))
    other.set("a/b", b"2")
    assert [info.key for info in blob.list("")] == ["a/b"]
    assert blob.get("a/b") == b"1"


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3:///p",
        "s3://user:secret@b/p",
        "s3://b/../p",
        "s3://b/p?paralel=3",
        "s3://b/p?parallel=none",
        "s3://b/p?attempts=0",
        "s3://b/in#1?region=x",
        "s3://b/p?region=x#1",
        "s3://b/p\n/q",
        "s3://b:9000/p",
        "s3://[b/p",
        "s3://b/p?parallel=²",
        "s3://b/p?attempts=" + "9" * 5000,
    ],
)
def test_an_address_that_says_nothing_clear_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        S3Address.parse(url)
    assert "secret" not in str(caught.value)
    assert "store.blob" not in str(caught.value)  # it may be that of a landing folder, or a report
    with pytest.raises(InvalidRequest, match=r"store\.blob|blob key"):
        open_stores(StoreSettings(blob=url, consensus="memory://s3"))


def test_the_settings_open_it_and_know_that_it_is_far() -> None:
    settings = StoreSettings(blob="s3://b/p?region=eu-central-1", consensus="memory://s3")
    stores = open_stores(settings)
    assert isinstance(stores.blob, S3Blob)
    assert stores.blob.address == S3Address("b", "p/", None, "eu-central-1")
    assert not is_near(settings)


def test_a_shard_lives_on_s3_as_it_does_in_memory(blob: S3Blob, url: str) -> None:
    far, near = World(), World()
    far.inner = open_stores(replace(far.inner.settings, blob=url), far.inner.clock)
    far.stores = far.inner

    def stored(world: World) -> list[str]:
        return [info.key for info in world.stores.blob.list("")]

    for world in (far, near):
        for number in range(4):
            world.append(*range(number, 400, 4))
        world.compact()
        world.check()
    assert stored(far) == stored(near)  # the same bytes have the same names
    assert far.settle() == near.settle() > 0
    assert stored(far) == stored(near)
    far.check()
