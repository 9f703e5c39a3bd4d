"""The conformance suite of blobs on moto, a mock of AWS's own S3 inside this process.

There blobs are listed in AWS's order and reached without an endpoint, as SeaweedFS is not.
The mock looks whether a name is taken and stores an object in two steps, so that two writers at
once can both win; S3's conditional write is one step, and so requests take turns here.
"""

import os
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from strata.errors import Corrupt, InvalidRequest
from strata.store.interface import Overwriting
from strata.store.keys import content_hash
from strata.store.reference import look_outside, outside_address, refer_to
from strata.store.s3 import S3Blob
from strata.store.s3_client import S3Address, new_client
from tests.conformance.blob import REFERENCE, BlobSuite
from tests.support.seaweed import IDENTITY

NUMBERS = count()
moto = pytest.importorskip("moto", reason="moto is not installed: make setup")
BotocoreStubber = pytest.importorskip("moto.core.botocore_stubber").BotocoreStubber


class Raw:
    """What is stored, by the mock's own client."""

    def __init__(self, client: Any, prefix: str) -> None:
        self.client, self.prefix = client, prefix

    def read(self, key: str) -> bytes | None:
        try:
            reply = self.client.get_object(Bucket="bucket", Key=self.prefix + key)
        except self.client.exceptions.NoSuchKey:
            return None
        return bytes(reply["Body"].read())

    def write(self, key: str, data: bytes) -> None:
        self.client.put_object(Bucket="bucket", Key=self.prefix + key, Body=data)

    def keys(self) -> list[str]:
        found = self.client.list_objects_v2(Bucket="bucket", Prefix=self.prefix)
        keys = [one["Key"].removeprefix(self.prefix) for one in found.get("Contents", [])]
        return sorted(key for key in keys if not key.startswith(".deleted/"))


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Return a client of the mock: to make one for each test takes longer than the tests."""
    turn = threading.Lock()

    def alone(stubber: Any, request: Any) -> Any:
        with turn:
            return answer(stubber, request)

    with pytest.MonkeyPatch.context() as patch, moto.mock_aws():
        answer = BotocoreStubber.process_request
        patch.setattr(BotocoreStubber, "process_request", alone)
        for name, value in IDENTITY.items():
            patch.setenv(name, value)
        found = new_client(S3Address.parse("s3://bucket/prefix?region=us-east-1"))
        found.create_bucket(Bucket="bucket")
        yield found


class TestS3BlobOnMoto(BlobSuite):
    @pytest.fixture
    def blob(self, client: Any) -> S3Blob:
        blob = S3Blob(S3Address.parse(f"s3://bucket/p{next(NUMBERS)}?region=us-east-1"))
        blob.client._client, blob.client._pid = client, os.getpid()
        return blob

    @pytest.fixture
    def raw(self, blob: S3Blob) -> Raw:
        return Raw(blob.client.boto, blob.address.prefix)

    def test_a_document_is_overwritten(self, blob: S3Blob) -> None:
        assert isinstance(blob, Overwriting)
        blob.overwrite("a/hint", b"1")
        blob.overwrite("a/hint", b"22")

        assert blob.get("a/hint") == b"22"
        assert [info.key for info in blob.list("")] == ["a/hint"]
        with pytest.raises(InvalidRequest):
            blob.overwrite("../a", b"x")


def test_references_reach_into_other_buckets(client: Any) -> None:
    """Its ETag tells a changed object; the same bytes written anew are hashed and believed."""
    blob = S3Blob(S3Address.parse("s3://bucket/references/?region=us-east-1"))
    client.create_bucket(Bucket="lake")
    data = bytes(range(256)) * 9
    where = {"Bucket": "lake", "Key": "a b/1.parquet"}
    client.put_object(Body=data, **where)
    made, whole = refer_to(look_outside(outside_address("s3a://lake/a b/1.parquet")), b"tail")
    blob.overwrite(REFERENCE, made.encoded())

    assert blob.get(REFERENCE) == data + b"tail"
    assert blob.get(REFERENCE, 2300, 6) == data[2300:] + b"ta"
    assert content_hash(data + b"tail") == whole
    client.put_object(Body=data, **where)
    assert blob.get(REFERENCE, 1, 3) == data[1:4]
    client.put_object(Body=data[:-1] + b"!", **where)
    with pytest.raises(Corrupt, match="changed or removed"):
        blob.get(REFERENCE, 1, 3)
    client.delete_object(**where)
    with pytest.raises(Corrupt, match="changed or removed"):
        blob.get(REFERENCE, 1, 3)
    with pytest.raises(InvalidRequest, match="missing"):
        look_outside("s3://lake/none.parquet")
