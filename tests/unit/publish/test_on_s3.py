"""A shard on S3 is published on S3: PyIceberg reads it there through its own client."""

from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from strata.model.schema import Column, Relation
from strata.model.settings import StoreSettings
from strata.model.types import parse_type
from strata.publish.catalogs import FilesTable
from strata.publish.place import open_folder
from strata.store.open import open_stores
from tests.support import seaweed
from tests.support.published import World, sums
from tests.support.stored import append, create
from tests.support.updates import table

pytestmark = pytest.mark.slow
RELATION = Relation(
    0, (Column(1, "id", parse_type("int64")), Column(2, "text", parse_type("string"))), (1,), ()
)


def test_a_table_in_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        url = seaweed.fresh_prefix()
    except seaweed.MissingError as error:
        pytest.skip(f"no S3 server: {error}")
    for name, value in seaweed.IDENTITY.items():
        monkeypatch.setenv(name, value)
    path, _, options = url.partition("?")
    world = World(tmp_path)
    world.stores = open_stores(StoreSettings(url, f"sqlite:///{tmp_path}/states.db"))
    world.place = open_folder(f"{path}/iceberg/shard?{options}")
    create(world.stores, RELATION)
    for lower in (0, 10):
        rows = [(i + lower, f"text {i}", lower, 1) for i in range(5)]
        append(world.stores, "shard", lower, lower + 10, [table(RELATION, rows)])
        done = world.publication().publish()
    client = {
        "s3.endpoint": seaweed.server(),
        "s3.region": "us-east-1",
        "s3.access-key-id": seaweed.IDENTITY["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": seaweed.IDENTITY["AWS_SECRET_ACCESS_KEY"],
    }
    read = StaticTable.from_metadata(f"{path}/iceberg/shard", client)

    assert done.location == f"{path}/iceberg/shard"
    assert {
        task.file.file_path.startswith(f"{path}/shards/shard/parts/")
        for task in read.scan().plan_files()
    } == {True}
    assert sums(read.scan().to_arrow()) == world.expected()
    assert world.place.blob.get("metadata/version-hint.text") == b"2"
    world.publication(FilesTable(world.place)).drop()
    assert world.place.keys("") == []
