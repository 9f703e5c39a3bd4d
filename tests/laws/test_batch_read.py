"""What is read of an Arrow file buffer by buffer is what Arrow's own reader reads of it."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.decide.specs import PartSpecs
from strata.decide.statistics import Statistics
from strata.errors import Corrupt, InvalidRequest
from strata.format.batch_read import head_of_file, read_columns, schema_of
from strata.format.manifest import (
    PIECE_PARTS,
    decode_manifest,
    encode_manifest,
    has_columns,
    head_of,
    manifest_table,
)
from strata.format.pack import open_table, unpack
from tests.spec.language import RELATION
from tests.support.paged import Invented, part

INNER = pa.struct([("low", pa.int64()), ("text", pa.string()), ("whole", pa.bool_())])
KINDS = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.just(0),
    pa.int32(): st.just(7),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(allow_nan=False),
    pa.timestamp("us", "UTC"): st.integers(0, 10**15),
    pa.date32(): st.integers(0, 10_000),
    pa.decimal128(10, 2): st.integers(-(10**9), 10**9).map(lambda n: Decimal(n).scaleb(-2)),
    pa.string(): st.text(max_size=40),
    pa.binary(): st.binary(max_size=200),
    pa.list_(pa.int32()): st.lists(st.none() | st.integers(0, 9), max_size=3),
    INNER: st.fixed_dictionaries(
        {
            "low": st.none() | st.integers(0, 9),
            "text": st.none() | st.text(max_size=9),
            "whole": st.booleans(),
        }
    ),
    pa.list_(INNER): st.lists(st.just({"low": 1, "text": None, "whole": True}), max_size=2),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Return a table of some columns; some of its values repeat often enough to be compressed."""
    kinds = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=5))
    rows, times = draw(st.integers(0, 5)), draw(st.sampled_from([1, 1, 300, 5000]))
    columns = []
    for kind in kinds:
        values = draw(st.lists(st.none() | KINDS[kind], min_size=rows, max_size=rows))
        columns.append(pa.array(values * times, kind))
    return pa.table(columns, names=[f"c{n}" for n in range(len(kinds))])


def stored(table: pa.Table, codec: str | None, most: int | None = None) -> bytes:
    """Return a table as an Arrow file."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks(), max_chunksize=most)
    return bytes(sink.getvalue().to_pybytes())


@given(tables(), st.sampled_from(["zstd", None]), st.data())
def test_columns_are_those_that_arrow_reads(
    table: pa.Table, codec: str | None, data: st.DataObject
) -> None:
    numbers = data.draw(st.sets(st.integers(0, table.num_columns - 1), min_size=1).map(sorted))
    file = stored(table.replace_schema_metadata({"a": "b"}), codec)
    head = head_of_file(file)
    assert head is not None
    found = read_columns(file, head, tuple(numbers))

    assert schema_of(head).equals(open_table(file).schema, check_metadata=True)
    if table.num_rows == 0:  # Arrow writes no batch, or one without rows
        assert found is None or found.num_rows == 0
        return
    expected = open_table(file, numbers).get_batch(0)
    assert found is not None
    found.validate(full=True)
    assert found.equals(expected, check_metadata=True)


def test_what_is_unusual_is_left_to_arrow() -> None:
    table = pa.table({"a": list(range(2000)), "b": ["x"] * 2000})
    coded = table.set_column(1, "b", table["b"].dictionary_encode())
    viewed = table.set_column(1, "b", table["b"].cast(pa.string_view()))
    for file in (
        stored(table, "lz4"),
        stored(table, "zstd", most=1000),
        stored(coded, "zstd"),
        stored(viewed, "zstd"),
    ):
        head = head_of_file(file)
        assert head is not None
        assert read_columns(file, head, (0,)) is None

    assert head_of_file(b"") is None
    assert head_of_file(stored(table, None)[:-1]) is None
    assert head_of_file(stored(table, None)[1:]) is None


PARTS = [part(n, Invented(n, n + 3, n)) for n in range(30)]
MANIFEST = encode_manifest(manifest_table(*map(list, zip(*PARTS, strict=True))), packed=False)  # type: ignore[arg-type]


@given(st.integers(8, len(MANIFEST) - 1), st.integers(1, 255), st.booleans())
def test_damage_is_an_error_or_does_no_harm(place: int, change: int, cut: bool) -> None:
    damaged = bytearray(MANIFEST)
    damaged[place] ^= change
    if cut:
        del damaged[place : place + change]
    try:
        table = decode_manifest(bytes(damaged), ["key", "rows", "splits", "s.1"])
    except (Corrupt, InvalidRequest):
        return
    table.validate(full=True)


@pytest.mark.parametrize("rows", [1, 70_000, 200_000])
def test_the_pieces_of_a_manifest_are_counted_as_arrow_does(rows: int) -> None:
    whole = decode_manifest(MANIFEST).take(pa.array([0] * rows))
    for packed in (True, False):
        data = encode_manifest(whole, packed=packed)
        assert head_of(data) == ("1", open_table(unpack(data)).num_record_batches)
        assert head_of(data)[1] == -(-rows // PIECE_PARTS)


@pytest.mark.parametrize(("prefix", "there"), [("s.", True), ("s.1", True), ("s.bloom.", False)])
def test_a_schema_says_which_columns_may_be_there(prefix: str, there: bool) -> None:
    assert has_columns(MANIFEST, prefix) is there
    assert has_columns(b"damaged", prefix)


@given(st.lists(st.tuples(st.none() | st.integers(0, 9), st.booleans()), max_size=8), st.data())
def test_statistics_in_several_chunks_are_those_in_one(
    rows: list[tuple[int | None, bool]], data: st.DataObject
) -> None:
    kind = pa.struct([("nulls", pa.int64()), ("low", pa.int32())])
    values = [{"nulls": n, "low": n} if there else None for n, there in rows]
    table = pa.table({"rows": pa.array([1] * len(rows), pa.int64()), "s.1": pa.array(values, kind)})
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    pieces = [table.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    several = pa.concat_tables(pieces)
    parts = slice(0, len(rows))

    for name, field in (("rows", ""), ("s.1", ""), ("s.1", "low"), ("s.1", "nulls"), ("s.1", "x")):
        one, other = (Statistics(t, RELATION, ()).field(name, field) for t in (table, several))
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert one.known(parts).tolist() == other.known(parts).tolist()
            assert len(one.array) == len(other.array) == len(rows)
            assert not field or one.array.equals(other.array)
    assert PartSpecs(several, RELATION, ()).num_rows == len(rows)


def test_what_is_kept_for_many_files_cannot_be_changed() -> None:
    file = stored(pa.table({"a": [0] * 1000}), "zstd")
    head = head_of_file(file)
    assert head is not None
    one, other = (read_columns(file, head, (0,)) for _ in range(2))
    assert one is not None
    assert other is not None
    assert one.column(0).buffers()[1].address == other.column(0).buffers()[1].address
    assert not one.column(0).buffers()[1].is_mutable
