"""Source files on S3: by partition, by arrival, in pieces; replaced ones are noticed."""

import gzip
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.errors import Corrupt, InvalidRequest, Unavailable
from strata.ingest.land.files import (
    SourceFile,
    check_unchanged,
    files_at,
    files_by_time,
    read_bytes,
)
from strata.model.settings import IngestSettings, Settings
from strata.store.s3_client import S3Address, S3Client, new_client
from strata.store.s3_read import Bucket
from tests.support import seaweed
from tests.unit.ingest.test_engine import DAY, World


class Landing:
    """A prefix of a bucket, and a shard that takes from it."""

    def __init__(self, url: str, root: Path, **changes: Any) -> None:
        self.url, self.address = url, Bucket.parse(url).address
        self._client = seaweed.client(self.address.endpoint or "")
        self.world = World(root, **changes)
        store = replace(self.world.settings.store, landing=url)
        self.world.settings = Settings(store=store, ingest=IngestSettings(task_bytes=2_000))

    def put(self, name: str, data: bytes) -> None:
        key = self.address.prefix + name
        self._client.put_object(Bucket=self.address.bucket, Key=key, Body=data)

    def ingest(self, *paths: str, **how: Any) -> dict[str, Any]:
        return self.world.ingest(*paths, **how)


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in seaweed.IDENTITY.items():
        monkeypatch.setenv(name, value)
    try:
        return seaweed.fresh_prefix()
    except seaweed.MissingError as error:
        pytest.skip(f"no S3 server: {error}")


def test_partitions_and_late_arrivals_are_taken_once(url: str, tmp_path: Path) -> None:
    columns = [{"name": "id", "type": "int64"}, {"name": "name", "type": "string"}]
    at = Landing(url, tmp_path, columns=columns, source={"format": "csv", "paths": ["in/"]})
    at.put("in/date=1970-01-01/a b?.csv", b"id,name\n1,x\n")
    at.put("in/date=1970-01-02/b.csv.gz", gzip.compress(b"id,name\n2,y\n"))
    at.put("in/_SUCCESS", b"")
    at.put("in/.tmp/1970-01-01.csv", b"half")

    first = at.ingest(lower=0, upper=DAY)
    at.put("in/date=1970-01-01/late.csv", b"id,name\n3,z\n")
    second = at.ingest(lower=DAY, upper=2 * DAY)
    again = at.ingest(lower=DAY, upper=2 * DAY)

    assert (first["updates"], second["updates"], second["late_files"]) == (1, 2, 1)
    assert again["already_committed"]
    at.put("in/date=1970-01-02/b.csv.gz", gzip.compress(b"id,name\n9,y\n"))  # of the same length
    later = at.ingest(lower=2 * DAY, upper=3 * DAY)
    assert later["changed"] == ["in/date=1970-01-02/b.csv.gz"]
    assert later["updates"] == 0


@pytest.fixture
def mocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[World, Any]]:
    """Return a shard that takes from `s3://landing/root`, and a client, both of a mock."""
    moto = pytest.importorskip("moto", reason="moto is not installed: make setup")
    for name, value in seaweed.IDENTITY.items():
        monkeypatch.setenv(name, value)
    columns = [{"name": "id", "type": "int64"}]
    world = World(tmp_path, columns=columns, source={"format": "csv", "paths": ["in/"]})
    url = "s3://landing/root?region=us-east-1"
    world.settings = Settings(store=replace(world.settings.store, landing=url))
    with moto.mock_aws():
        client = new_client(S3Address.parse(url))
        client.create_bucket(Bucket="landing")
        yield world, client


def test_a_key_with_two_slashes_in_a_row_is_taken_in(mocked: tuple[World, Any]) -> None:
    """Joined paths make such keys, and S3 keeps them; they were passed over without a word."""
    world, client = mocked
    names = ("/1970-01-01.csv", "a//1970-01-01.csv", "1970//01/01/x.csv", "/_x//1970-01-01.csv")
    for number, name in enumerate(names):
        body = f"id\n{number}\n".encode()
        client.put_object(Bucket="landing", Key=f"root/in/{name}", Body=body)
    client.put_object(Bucket="landing", Key="root/in/1970-01-01//", Body=b"")

    assert world.ingest(lower=0, upper=DAY)["files"] == 3
    assert world.ingest(lower=0, upper=DAY)["taken_before"] == 3


@pytest.mark.parametrize("paths", [(), ("in",), ("in/",), ("in/1970-01-01",)])
def test_marks_of_folders_are_no_files(mocked: tuple[World, Any], paths: tuple[str, ...]) -> None:
    """Hadoop's were: "the file is empty: it has no header", and no interval passed."""
    world, client = mocked
    marks = (
        "in",
        "in/",
        "in_$folder$",
        "in/1970-01-01_$folder$",
        "in/1970-01-01",
        "in/1970-01-01/",
    )
    for name in marks:
        client.put_object(Bucket="landing", Key=f"root/{name}", Body=b"")
    client.put_object(Bucket="landing", Key="root/in/1970-01-01/a.csv", Body=b"id\n1\n")
    if "in/1970-01-01" not in paths:  # of this name there is a folder: as a file it has to be named
        client.delete_object(Bucket="landing", Key="root/in/1970-01-01")

    assert world.ingest(*paths, lower=0, upper=DAY)["files"] == 1


def test_a_file_without_bytes_that_is_no_mark_is_refused(mocked: tuple[World, Any]) -> None:
    world, client = mocked
    client.put_object(Bucket="landing", Key="root/in/1970-01-01.csv", Body=b"")
    with pytest.raises(InvalidRequest, match="the file is empty"):
        world.ingest(lower=0, upper=DAY)
    with pytest.raises(InvalidRequest, match="the file is empty"):
        world.ingest("in/1970-01-01.csv", lower=0, upper=DAY)
    client.put_object(Bucket="landing", Key="root/a\nb.csv", Body=b"id\n1\n")
    with pytest.raises(InvalidRequest, match="cannot be shown"):
        world.ingest("a\nb.csv", lower=0, upper=DAY)


def test_a_key_that_is_not_whole_by_its_name_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken in, and once more when it was renamed."""
    moto = pytest.importorskip("moto", reason="moto is not installed: make setup")
    for name, value in seaweed.IDENTITY.items():
        monkeypatch.setenv(name, value)
    root = "s3://landing/tmp?region=us-east-1"
    with moto.mock_aws():
        client = new_client(S3Address.parse(root))
        client.create_bucket(Bucket="landing")
        for name in ("1970-01-01.csv.tmp", "1970-01-01.csv", "x.csv~"):
            client.put_object(Bucket="landing", Key=f"tmp/in/{name}", Body=b"id\n1\n")

        assert [f.name for f in files_by_time(root, ["in/"])] == ["in/1970-01-01.csv"]
        assert [f.name for f in files_at(root, ["in"])] == ["in/1970-01-01.csv"]
        assert [f.name for f in files_at(root, ["in/x.csv~"])] == ["in/x.csv~"]


def test_named_objects_and_large_ones_in_pieces(url: str, tmp_path: Path) -> None:
    columns = [{"name": "id", "type": "int64"}, {"name": "name", "type": "string"}]
    at = Landing(url, tmp_path, columns=columns, source={"format": "csv"})
    rows = "".join(f'{n},"line\n{n}"\n' for n in range(1_000))
    at.put("big/all.csv", b"id,name\n" + rows.encode())
    at.put("big/few.csv", b"id,name\n-1,x\n")

    report = at.ingest("big", lower=0, upper=1)
    elsewhere = at.ingest(
        f"s3://{at.address.bucket}/{at.address.prefix}big/few.csv", lower=1, upper=2
    )

    assert (report["updates"], report["files"]) == (1_001, 2)
    assert report["parts"] > 3
    assert elsewhere["taken_before"] == 1
    with pytest.raises(InvalidRequest, match="no such file"):
        at.ingest("nothing/", lower=5, upper=6)


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_other_encodings_are_read_whole_packed_and_in_pieces(
    url: str, tmp_path: Path, encoding: str
) -> None:
    columns = [{"name": "id", "type": "int64"}, {"name": "größe", "type": "string"}]
    source = {"format": "csv", "encoding": encoding, "verify": "always"}
    at = Landing(url, tmp_path, columns=columns, source=source)
    rows = "".join(f'{n},"ä\n{n}"\n' for n in range(1_000))
    at.put("x/all.csv", f"id,größe\n{rows}".encode(encoding))
    at.put("x/few.csv.gz", gzip.compress("id,größe\n-1,ü\n".encode(encoding)))

    report = at.ingest("x", lower=0, upper=1)

    assert (report["updates"], report["files"]) == (1_001, 2)
    assert (report["parts"] > 3) == (encoding == "cp1252")
    assert at.world.rows().keys() >= {(-1, "ü", 0), (7, "ä\n7", 0)}


def test_parquet_is_read_by_ranges(url: str, tmp_path: Path) -> None:
    columns = [{"name": "id", "type": "int64"}]
    at = Landing(url, tmp_path, columns=columns, source={"format": "parquet"})
    pq.write_table(pa.table({"id": range(5_000)}), tmp_path / "x.parquet", row_group_size=500)
    at.put("x.parquet", (tmp_path / "x.parquet").read_bytes())

    assert at.ingest("x.parquet", lower=0, upper=1)["updates"] == 5_000


def test_an_object_that_is_replaced_while_it_is_read_is_refused(url: str, tmp_path: Path) -> None:
    at = Landing(url, tmp_path)
    at.put("x.csv", b"id\n1\n")
    [file] = files_at(url, ["x.csv"])
    assert (file.name, read_bytes(file)) == ("x.csv", b"id\n1\n")
    at.put("x.csv", b"id\n2\n")

    with pytest.raises(Unavailable, match="changed while it was read"):
        read_bytes(file)
    with pytest.raises(Unavailable, match="changed while it was read"):
        check_unchanged(file)
    assert files_by_time(url, ["nothing/"]) == []
    gone = SourceFile(file.path.replace("x.csv", "y.csv"), "y.csv", 5, changed_ns=1)
    with pytest.raises(Unavailable, match="is gone"):
        check_unchanged(gone)


def test_a_sorted_object_stays_where_it_is(url: str, tmp_path: Path) -> None:
    columns = [{"name": "id", "type": "int64"}, {"name": "name", "type": "string"}]
    at = Landing(url, tmp_path, columns=columns, source={"format": "parquet", "in_place": True})
    rows = pa.table({"id": range(5_000), "name": [f"n{n % 7}" for n in range(5_000)]})
    pq.write_table(rows, tmp_path / "x.parquet")
    at.put("a b?/x=1.parquet", (tmp_path / "x.parquet").read_bytes())

    report = at.ingest("a b?/x=1.parquet", lower=0, upper=1)

    assert (report["in_place"], report["updates"]) == (1, 5_000)
    assert at.world.rows() == {(n, f"n{n % 7}", 0): 1 for n in range(5_000)}
    at.put("a b?/x=1.parquet", b"PAR1 something else")
    with pytest.raises(Corrupt, match="changed or removed by its owner"):
        at.world.rows()


def test_a_shorter_object_of_a_server_that_compares_no_tags_has_changed(
    mocked: tuple[World, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was `S3 refused a request: InvalidRange`, without a cure."""
    world, client = mocked
    ask = S3Client.ask

    def replaced(self: S3Client, operation: str, **how: Any) -> Any:
        how.pop("IfMatch", None)
        if operation == "get_object":
            client.put_object(Bucket="landing", Key="root/in/1970-01-01.csv", Body=b"")
        return ask(self, operation, **how)

    client.put_object(Bucket="landing", Key="root/in/1970-01-01.csv", Body=b"id\n1\n")
    with monkeypatch.context() as patch:
        patch.setattr(S3Client, "ask", replaced)
        with pytest.raises(Unavailable, match="changed while it was read"):
            world.ingest(lower=0, upper=DAY)
    client.put_object(Bucket="landing", Key="root/in/1970-01-01.csv", Body=b"id\n2\n")
    assert world.ingest(lower=0, upper=DAY)["files"] == 1


def test_an_object_in_an_archive_has_a_cure(mocked: tuple[World, Any]) -> None:
    world, client = mocked
    where = {"Bucket": "landing", "Key": "root/in/1970-01-01.csv"}
    client.put_object(**where, Body=b"id\n1\n", StorageClass="GLACIER")
    with pytest.raises(Unavailable, match="InvalidObjectState") as refused:
        world.ingest(lower=0, upper=DAY)
    assert "restore-object" in str(refused.value.cure)
