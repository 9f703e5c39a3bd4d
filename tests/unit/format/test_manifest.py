"""Manifests: they come back whole or in part, and unknown statistics stay unknown."""

from dataclasses import replace

import pyarrow as pa
import pytest

from strata.errors import Corrupt, InvalidRequest
from strata.format import manifest
from strata.format.manifest import (
    VERSION_KEY,
    PartRef,
    Split,
    decode_manifest,
    encode_manifest,
    manifest_table,
    part_refs,
    stats_columns,
    stats_rows,
    unify,
)

PART = PartRef(
    key="flights/parts/ab",
    size_bytes=123,
    rows=10,
    run=0,
    layout="both",
    relation_version=2,
    order=(2, 1),
    t_low=-5,
    t_high=7,
    diffs_sum=-3,
    digest=2**64 - 1,
    retractions=True,
    key_low=b"\x00a",
    key_high=None,
    splits=(Split(0, b"\x00a"), Split(6, b"\x00b")),
    stats_version=1,
    stats_bytes=99,
)
PARTS = [PART, replace(PART, key="p2", key_high=b"", splits=(), order=()), replace(PART, key="p3")]


def stats(**columns: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"rows": 10, **columns}])


LOW = {"nulls": 0, "low": 1, "high": 2}
STATS = [
    stats(**{"s.1": LOW, "s.3$": {"present": 10}, "s.3$.a": {"present": 4}}),
    None,
    stats(**{"s.1": LOW, "s.2": {"nulls": 1}}),
]


def test_parts_come_back_as_they_were() -> None:
    data = encode_manifest(manifest_table(PARTS, STATS))
    assert part_refs(decode_manifest(data)) == PARTS


def test_equal_manifests_have_equal_bytes() -> None:
    table = manifest_table(PARTS, STATS)
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert encode_manifest(table) == encode_manifest(chunked)


def test_a_manifest_without_parts_is_possible() -> None:
    assert part_refs(decode_manifest(encode_manifest(manifest_table([])))) == []
    assert part_refs(decode_manifest(encode_manifest(manifest_table([], [])))) == []


def test_a_statistic_that_a_part_lacks_is_null() -> None:
    table = manifest_table(PARTS, STATS)

    assert stats_columns(table).column_names == ["rows", "s.1", "s.3$", "s.3$.a", "s.2"]
    assert table["s.1"].to_pylist() == [LOW, None, LOW]
    assert table["s.2"].to_pylist() == [None, None, {"nulls": 1}]


def test_statistics_rows_come_back_without_what_is_unknown() -> None:
    rows = stats_rows(decode_manifest(encode_manifest(manifest_table(PARTS, STATS))))
    assert [row and row.to_pylist() for row in rows] == [s and s.to_pylist() for s in STATS]


def test_only_the_columns_asked_for_are_loaded() -> None:
    data = encode_manifest(manifest_table(PARTS, STATS))

    assert decode_manifest(data, ["rows", "s.2", "s.9"]).column_names == ["rows", "s.2"]
    assert decode_manifest(data, ["rows", "s.3$*"]).column_names == ["rows", "s.3$", "s.3$.a"]
    with pytest.raises(InvalidRequest, match="no such column"):
        decode_manifest(data, ["size"])
    with pytest.raises(InvalidRequest, match="asked for"):
        decode_manifest(data, [])


def test_damage_in_columns_not_asked_for_is_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "PACKED_MAX", 0)  # as in a large one
    noise = [stats(**{"s.1": {"low": f"{i * 7919 % 10007:x}" * 40}}) for i in range(3)]
    data = bytearray(encode_manifest(manifest_table(PARTS, noise)))
    whole = decode_manifest(bytes(data), ["key"])
    at = data.rindex(b"\x28\xb5\x2f\xfd")  # the last compressed buffer: s.1's values
    data[at : at + 12] = bytes(12)

    assert decode_manifest(bytes(data), ["key"]) == whole
    with pytest.raises(Corrupt):
        decode_manifest(bytes(data), ["s.1"])


def test_numbers_of_different_width_meet_in_the_wider() -> None:
    narrow = pa.RecordBatch.from_arrays(
        [pa.array([{"low": 5}], pa.struct([("low", pa.int16())]))], ["s.1"]
    )
    wide = pa.RecordBatch.from_arrays(
        [pa.array([{"low": 2**40}], pa.struct([("low", pa.int64())]))], ["s.1"]
    )
    table = manifest_table(PARTS[:2], [narrow, wide])
    assert table["s.1"].to_pylist() == [{"low": 5}, {"low": 2**40}]


def test_types_that_cannot_meet_make_the_older_unknown() -> None:
    text = stats(**{"s.1": {"low": "a"}, "s.2": {"nulls": 0}})
    number = stats(**{"s.1": {"low": 1}})
    table = manifest_table(PARTS[:2], [text, number])
    assert table["s.1"].to_pylist() == [None, {"low": 1}]
    assert table["s.2"].to_pylist() == [{"nulls": 0}, None]


def test_manifests_with_different_statistics_are_put_together() -> None:
    first, second = manifest_table(PARTS[:1], STATS[:1]), manifest_table(PARTS[1:], STATS[1:])
    together = unify([first, second])

    assert part_refs(together) == PARTS
    assert together["s.2"].to_pylist() == [None, None, {"nulls": 1}]


def test_as_many_statistics_as_parts_are_needed() -> None:
    with pytest.raises(InvalidRequest, match="differ"):
        manifest_table(PARTS, STATS[:2])
    two = pa.RecordBatch.from_pylist([{"rows": 1, "s.1": LOW}] * 2)
    with pytest.raises(InvalidRequest, match="one row"):
        manifest_table(PARTS[:1], [two])


def written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def test_what_is_no_manifest_is_corrupt() -> None:
    table = manifest_table(PARTS)
    nulls = table.set_column(0, "key", pa.nulls(3, pa.string()))
    wrong = [
        b"",
        b"ARROW1",
        written(table.replace_schema_metadata({})),
        written(table.replace_schema_metadata({VERSION_KEY: "2"})),
        written(table.drop_columns(["digest"])),
        written(table.set_column(2, "rows", table["rows"].cast(pa.int32()))),
        written(nulls.replace_schema_metadata(table.schema.metadata)),
    ]
    for data in wrong:
        with pytest.raises(Corrupt):
            decode_manifest(data)
    with pytest.raises(Corrupt):
        part_refs(table.drop_columns(["run"]))


def test_a_manifest_cut_short_is_corrupt() -> None:
    data = encode_manifest(manifest_table(PARTS, STATS))
    for size in range(0, len(data), 53):
        with pytest.raises(Corrupt):
            decode_manifest(data[:size])


def test_a_small_manifest_weighs_what_it_says_and_not_its_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wide = [stats(**{f"s.{n}": {"low": "a", "high": "b"} for n in range(200)}) for _ in PARTS]
    table = manifest_table(PARTS, wide)
    small = encode_manifest(table)
    monkeypatch.setattr(manifest, "PACKED_MAX", 0)
    plain = encode_manifest(table)
    assert len(small) < len(plain) / 8
    assert decode_manifest(small) == decode_manifest(plain)
    assert decode_manifest(small, ["s.7", "key"]) == decode_manifest(plain, ["s.7", "key"])
    assert manifest.head_of(small)[1] == manifest.head_of(plain)[1]
    for at in range(0, len(small), 7):
        with pytest.raises(Corrupt):
            decode_manifest(small[:at])
