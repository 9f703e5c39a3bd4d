"""A file without a readable row is refused with a cure that helps, and the cure does help."""

import io
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.errors import InvalidRequest
from strata.ingest.readers.cures import TOO_FINE, VARIANT, Problem, has_variant, is_too_fine
from strata.ingest.values.shown import shown_scalar
from strata.model.types import parse_type
from tests.wall.rows import File
from tests.wall.world import World

FINE = 1_700_000_000_123_456_789


def world_of(root: Path, kind: str, form: str) -> World:
    return World(root, parse_type(kind), {"format": form, "verify": "always"})


def parquet(values: pa.Array) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(range(len(values)), pa.int64()), "v": values}), sink)
    return sink.getvalue()


def refused(world: World, data: bytes, form: str) -> InvalidRequest:
    with pytest.raises(InvalidRequest, match="every row of the file is unreadable") as error:
        world.ingest([File(f"in/x.{form}", data)])
    assert "ingest again" in str(error.value.cure)
    assert list(world.rows()) == []
    assert world.rejected() == []
    return error.value


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_nanoseconds_that_no_time_holds_are_named_and_jsonb_keeps_them(
    zone: str | None, tmp_path: Path
) -> None:
    data = parquet(pa.array([FINE, FINE + 1], pa.timestamp("ns", zone)))
    error = refused(
        world_of(tmp_path, "timestamptz" if zone else "timestamp", "parquet"), data, "parquet"
    )
    assert TOO_FINE in error.details["reason"]
    assert "declare the column as jsonb" in str(error.cure)
    texts = world_of(tmp_path, "jsonb", "parquet")
    texts.ingest([File("in/y.parquet", data)])
    end = "+00:00" if zone else ""
    assert [value for _, value, _ in sorted(texts.rows())] == [
        f'"2023-11-14T22:13:20.{nanos}{end}"' for nanos in (123456789, 123456790)
    ]


NANOS: Final = {  # of a day, as JSON
    45_296_123_456_789: "12:34:56.123456789",
    45_296_123_456_000: "12:34:56.123456",
    45_296_000_000_000: "12:34:56",
    1: "00:00:00.000000001",
}


@pytest.mark.parametrize(
    ("make", "form"),
    [
        (lambda t: (t, lambda n: n), '"{}"'),
        (lambda t: (pa.list_(t), lambda n: [n]), '["{}"]'),
        (lambda t: (pa.list_(t, 1), lambda n: [n]), '["{}"]'),
        (lambda t: (pa.struct([("a", pa.list_(t))]), lambda n: {"a": [n]}), '{{"a":["{}"]}}'),
        (lambda t: (pa.map_(pa.string(), t), lambda n: [("a", n)]), '{{"a":"{}"}}'),
    ],
)
def test_nanoseconds_of_a_day_stay_in_json(make: Any, form: str, tmp_path: Path) -> None:
    """Python's times have none, and they were cut off."""
    kind, wrap = make(pa.time64("ns"))
    counts, _ = make(pa.int64())
    values = pa.array([wrap(n) for n in NANOS], counts).cast(kind)
    world = world_of(tmp_path, "jsonb", "parquet")
    world.ingest([File("in/x.parquet", parquet(values))])
    assert [value for _, value, _ in sorted(world.rows())] == [
        form.format(text) for text in NANOS.values()
    ]


def test_a_time_of_nanoseconds_is_shown_with_all_its_places() -> None:
    value = pa.scalar(45_296_123_456_789, pa.time64("ns"))
    assert shown_scalar(value) == "12:34:56.123456789"


def test_one_time_too_fine_says_so_beside_others_that_fit(tmp_path: Path) -> None:
    world = world_of(tmp_path, "timestamp", "parquet")
    values = pa.array([FINE - 789, FINE, None], pa.timestamp("ns"))
    world.ingest([File("in/x.parquet", parquet(values))])
    (row,) = world.rejected()
    assert row["reason"] == f"not readable as timestamp: {TOO_FINE}"
    assert len(list(world.rows())) == 2


def test_bytes_that_are_no_text_are_to_be_converted(tmp_path: Path) -> None:
    error = refused(world_of(tmp_path, "string", "csv"), b"id,v\n1,a\xff\n2,\xfe\n", "csv")
    assert "its bytes are not UTF-8" in error.details["reason"]
    assert error.cure == Problem.NOT_UTF8.cure


def test_a_single_row_that_cannot_be_read_does_not_wait_in_quarantine(tmp_path: Path) -> None:
    world = World(tmp_path, parse_type("string"), {"format": "csv", "max_rejected": 0.05})
    with pytest.raises(InvalidRequest, match="nothing was committed") as error:
        world.ingest([File("in/x.csv", b"id,v\n1,a\xff\n")])
    assert "no row waits for `strata quarantine retry`" in str(error.value.cure)
    assert world.rejected() == []


def test_only_times_of_nanoseconds_are_too_fine() -> None:
    fine = pa.array([FINE, FINE - 789, None], pa.timestamp("ns"))
    assert [is_too_fine(fine, n) for n in range(3)] == [True, False, False]
    assert is_too_fine(pa.chunked_array([fine]), 0)
    assert not is_too_fine(fine.cast(pa.int64()), 0)
    assert not is_too_fine(pa.array([1], pa.timestamp("us")), 0)
    assert not is_too_fine(["x"], 0)


VARIANT_TYPE: Final = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
SHREDDED: Final = pa.struct([*VARIANT_TYPE, ("typed_value", pa.int64())])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (VARIANT_TYPE, {"metadata": b"\1\0\0", "value": b"\x0c\x11"}),
        (SHREDDED, {"metadata": b"\1\0\0", "value": None, "typed_value": 17}),
        (pa.list_(VARIANT_TYPE), [{"metadata": b"\1\0\0", "value": b"\x0c\x11"}]),
    ],
)
def test_a_variant_is_named_and_its_text_comes_in(
    kind: pa.DataType, value: object, tmp_path: Path
) -> None:
    error = refused(
        world_of(tmp_path, "jsonb", "parquet"), parquet(pa.array([value] * 2, kind)), "parquet"
    )
    assert VARIANT in error.details["reason"]
    assert "write it as JSON text (to_json(v) in Spark" in str(error.cure)
    texts = world_of(tmp_path, "jsonb", "parquet")
    texts.ingest([File("in/y.parquet", parquet(pa.array(["17", "17"])))])
    assert [value for _, value, _ in texts.rows()] == ["17", "17"]


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct([("metadata", pa.string()), ("value", pa.binary())]),
        pa.struct([("metadata", pa.binary())]),
        pa.struct([*VARIANT_TYPE, ("size", pa.int64())]),
        pa.map_(pa.string(), pa.binary()),
        pa.dictionary(pa.int8(), pa.string()),
        pa.run_end_encoded(pa.int32(), pa.string()),
        pa.dense_union([pa.field("a", pa.int64())]),
        pa.list_view(pa.int64()),
        pa.null(),
    ],
)
def test_what_looks_otherwise_is_no_variant(kind: pa.DataType) -> None:
    assert not has_variant(pa.chunked_array([], kind))


def test_a_variant_is_found_inside_of_a_map() -> None:
    assert has_variant(pa.chunked_array([], pa.map_(pa.string(), SHREDDED)))
