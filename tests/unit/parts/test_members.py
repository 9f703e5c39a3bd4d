"""Bloom filters lie beside their part, and its statistics name them."""

import pyarrow as pa

from strata.model.schema import Column
from strata.model.types import parse_type
from strata.parts.members import with_members
from strata.stats.members import PlaceValues, Sought, bloom_name, set_name
from strata.store import keys
from strata.store.memory import MemoryBlob

PREFIX = keys.part_prefix("shard")


def place(number: int) -> Sought:
    column = Column(number, f"c{number}", parse_type("string"))
    return Sought(f"s.{number}", column, (), None, column.type, "text", True, 8)


def test_filters_are_stored_and_named() -> None:
    blob, stats = MemoryBlob(), pa.RecordBatch.from_pylist([{"rows": 5, "s.1": {"nulls": 0}}])
    found = [
        PlaceValues(place(1), None, b"a filter", 700),
        PlaceValues(place(2), [b"x", b"y"], None, 2),
    ]

    made = with_members(blob, PREFIX, stats, found)

    key = keys.bloom_key_of(PREFIX, keys.content_hash(b"a filter"))
    assert [info.key for info in blob.list("")] == [key]
    assert blob.get(key) == b"a filter"
    [row] = made.to_pylist()
    wanted = {"form": "text", "key": key, "size_bytes": 8, "distinct": 700}
    assert row[bloom_name("s.1")] == wanted
    assert row[set_name("s.2")] == {"form": "text", "values": [b"x", b"y"]}
    assert bloom_name("s.2") not in row
    assert with_members(blob, PREFIX, made, found).equals(made.select(made.schema.names))
