"""Parts: what is written can be read by everybody, and damage is found."""

import io
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.errors import Corrupt, InvalidRequest, StrataError, Unavailable
from strata.format import layout as layout_module
from strata.format.check import MAX_SHOWN
from strata.format.columns import updates_schema
from strata.format.layout import Footer, part_schema
from strata.format.part import (
    Description,
    EncodedPart,
    PartCheck,
    encode_part,
    read_footer,
    read_part,
    validate_part,
)
from strata.format.part_write import row_groups
from strata.format.rowcodec.codec import encode_rows
from strata.model.schema import Column, Relation
from strata.model.spec import LAYOUTS
from strata.model.types import parse_type

DESCRIPTION = Description(0, 1000, 0)
RELATION = Relation(
    3,
    (
        Column(1, "carrier", parse_type("string"), nullable=False),
        Column(2, "amount", parse_type("numeric(10,2)")),
        Column(4, "seen_at", parse_type("timestamptz")),
        Column(11, "payload", parse_type("jsonb")),
        Column(12, "count", parse_type("int16")),
    ),
    key=(4, 1),
    order=(1,),
)


def updates(rows: int = 10) -> pa.Table:
    seen = [datetime(2024, 1, 1 + i % 28, tzinfo=UTC) for i in range(rows)]
    columns = {
        "1": [f"carrier {i}" for i in range(rows)],
        "2": [None if i % 4 == 0 else Decimal(i * 100) for i in range(rows)],
        "4": seen,
        "11": [f'{{"n":{i}}}' for i in range(rows)],
        "12": range(rows),
        "t": range(rows),
        "d": [1] * rows,
    }
    return pa.table(columns, schema=updates_schema(RELATION))


def part(
    table: pa.Table | None = None,
    layout: str = "both",
    relation: Relation = RELATION,
    row_group_bytes: int = 1 << 20,
) -> EncodedPart:
    return encode_part(
        updates() if table is None else table,
        relation,
        layout,
        description=DESCRIPTION,
        row_group_bytes=row_group_bytes,
    )


def read(source: Any, relation: Relation = RELATION, **options: Any) -> pa.Table:
    return pa.Table.from_batches(list(read_part(source, relation, **options)))


def tampered(layout: str = "both", metadata: dict[str, str] | None = None, **columns: Any) -> bytes:
    """Return a part with some of its columns or footer entries replaced."""
    table = pq.read_table(io.BytesIO(part(layout=layout).data))
    for name, values in columns.items():
        index = table.schema.get_field_index(name)
        table = table.set_column(index, table.schema.field(index), [values])
    footer = {
        **(table.schema.metadata or {}),
        **{k.encode(): v.encode() for k, v in (metadata or {}).items()},
    }
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(footer), sink)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_part_has_the_columns_of_its_layout_named_by_id(layout: str) -> None:
    file = pq.ParquetFile(io.BytesIO(part(layout=layout).data))

    columns = ["t", "d", "k_s.4", "k_s.1", "v_s.2", "v_s.11", "v_s.12"]
    wanted = {"row": ["k", "v", "t", "d"], "structured": columns, "both": ["k", "v", *columns]}
    assert [file.schema.column(i).path for i in range(len(file.schema))] == wanted[layout]


def test_the_footer_says_how_the_part_was_written() -> None:
    footer = read_footer(part(layout="structured").data)

    assert footer == Footer("structured", 3, DESCRIPTION, 10)
    assert footer.writer.startswith("strata ")


def test_pyarrow_sees_typed_columns() -> None:
    table = pq.read_table(io.BytesIO(part(layout="structured").data))

    assert table.schema.field("v_s").type.field("2").type == pa.decimal128(10, 2)
    assert table.schema.field("k_s").type.field("4").type == pa.timestamp("us", "UTC")
    extension = table.schema.field("k_s").type.field("4").metadata[b"ARROW:extension:name"]
    assert extension == b"strata.timestamptz.v1"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_duckdb_opens_a_part(layout: str, tmp_path: Any) -> None:
    path = tmp_path / "part.parquet"
    path.write_bytes(part(layout=layout).data)

    with duckdb.connect() as connection:
        count = connection.execute(f"select count(*), sum(d) from '{path}'").fetchone()
        assert count == (10, 10)
        if layout != "row":
            query = (
                f"""select k_s."1", v_s."2" * 2, year(k_s."4") from '{path}' where v_s."12" = 3"""
            )
            assert connection.execute(query).fetchone() == ("carrier 3", 600, 2024)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.filterwarnings("ignore:Extension type")
def test_polars_opens_a_part(layout: str) -> None:
    frame = polars.read_parquet(part(layout=layout).data)

    assert frame["d"].sum() == 10
    if layout != "row":
        key = frame["k_s"].struct.unnest()
        value = frame["v_s"].struct.unnest()
        assert value["2"].ext.storage().sum() == 3300
        assert key["4"].ext.storage().dtype == polars.Datetime("us", "UTC")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rows", [0, 1, 10])
def test_a_part_gives_back_its_updates_in_declared_order(layout: str, rows: int) -> None:
    table = updates(rows)
    batches = list(read_part(part(table, layout).data, RELATION))

    assert pa.Table.from_batches(batches, updates_schema(RELATION)) == table


def test_a_part_without_rows_still_says_what_it_is() -> None:
    empty = part(updates(0))
    assert empty.row_groups == []
    assert read_footer(empty.data).relation_version == 3
    assert list(read_part(empty.data, RELATION)) == []


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("key", [(), (1, 2, 4, 11, 12)])
def test_a_side_without_columns_can_be_stored(layout: str, key: tuple[int, ...]) -> None:
    relation = Relation(3, RELATION.columns, key, ())
    data = part(layout=layout, relation=relation).data

    assert read(data, relation) == updates()
    if layout != "row":
        empty = pq.read_table(io.BytesIO(data))["k_s" if not key else "v_s"].type
        assert empty == pa.struct([("_", pa.bool_())])


@pytest.mark.parametrize("make", [bytes, pa.py_buffer, io.BytesIO, pa.BufferReader])
def test_parts_are_read_from_memory_and_from_files(make: Any) -> None:
    assert read(make(part().data)) == updates()


def test_row_groups_are_cut_by_bytes_and_can_be_read_alone() -> None:
    table = updates(20_000)
    written = part(table, row_group_bytes=300_000)

    assert len(written.row_groups) > 2
    assert sum(written.row_groups) == 20_000
    assert max(written.row_groups) * table.nbytes // 20_000 < 350_000
    first, second = written.row_groups[:2]
    assert read(written.data, row_groups=[1]) == table.slice(first, second)
    with pytest.raises(InvalidRequest, match="row group"):
        read(written.data, row_groups=[len(written.row_groups)])


def test_one_huge_row_does_not_drag_its_neighbours_along() -> None:
    wide = pa.table({"a": ["x"] * 5000 + ["y" * 1_000_000] + ["x"] * 5000})
    groups = row_groups(wide, 100_000)
    assert sum(groups) == 10_001
    assert all(groups)


@pytest.mark.parametrize("layout", ["both", "structured"])
def test_only_wanted_columns_are_decoded(layout: str) -> None:
    data = part(layout=layout).data
    assert read(data, columns=[12, 1]) == updates().select(["1", "12", "t", "d"])
    assert read(data, columns=[]) == updates().select(["t", "d"])

    # The bytes of other columns may even be gone.
    spoiled = bytearray(data)
    chunk = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    for i in range(chunk.num_columns):
        if chunk.column(i).path_in_schema == "v_s.11":
            start = chunk.column(i).dictionary_page_offset or chunk.column(i).data_page_offset
            size = chunk.column(i).total_compressed_size
            spoiled[start : start + size] = bytes(size)
    assert read(bytes(spoiled), columns=[12, 1]) == updates().select(["1", "12", "t", "d"])
    with pytest.raises(Corrupt):
        read(bytes(spoiled), columns=[11])


def test_unknown_columns_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="no such column"):
        read(part().data, columns=[3])


def test_read_format_row_reads_the_codec_and_nothing_else() -> None:
    other = updates().column("11").combine_chunks()
    wrong = pq.read_table(io.BytesIO(part().data))["v_s"].combine_chunks()
    swapped = pa.StructArray.from_arrays(
        [wrong.field("2"), other.take(pa.array([1] * 10)), wrong.field("12")],
        fields=list(wrong.type),
    )
    data = tampered(v_s=swapped)

    assert read(data, read_format="row") == updates()
    assert read(data, read_format="structured")["11"].unique().to_pylist() == ['{"n":1}']


def test_a_structured_part_has_no_rows_to_read() -> None:
    with pytest.raises(InvalidRequest, match="no row codec"):
        read(part(layout="structured").data, read_format="row")
    with pytest.raises(InvalidRequest, match="unknown read format"):
        read(part().data, read_format="arrow")


def spoiled_counts() -> bytes:
    """Return a part whose `count` column disagrees with the codec in three rows."""
    values = pq.read_table(io.BytesIO(part().data))["v_s"].combine_chunks()
    counts = pa.array([0, 1, 2, 3, 99, 5, None, 7, 8, -9], pa.int16())
    return tampered(
        v_s=pa.StructArray.from_arrays(
            [values.field("2"), values.field("11"), counts], fields=list(values.type)
        )
    )


def test_validation_counts_and_names_every_disagreement() -> None:
    check = validate_part(spoiled_counts(), RELATION)

    assert check.rows == 10
    assert check.invalid == {4: 0, 1: 0, 2: 0, 11: 0, 12: 3}
    assert check.valid[12] == 7
    assert [(m.row, m.column, m.codec, m.columns) for m in check.first] == [
        (4, 12, "4", "99"),
        (6, 12, "6", "None"),
        (9, 12, "9", "-9"),
    ]


def test_a_validating_read_reports_and_yields_the_columns() -> None:
    checks: list[PartCheck] = []
    table = read(spoiled_counts(), read_format="row_with_validate", on_check=checks.append)

    assert table["12"].to_pylist()[4] == 99
    assert sum(check.mismatches for check in checks) == 3


def test_a_validating_read_that_nobody_listens_to_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="disagree"):
        read(spoiled_counts(), read_format="row_with_validate")


def test_many_mismatches_are_counted_but_not_all_kept() -> None:
    table = updates(100)
    file = pq.read_table(io.BytesIO(part(table).data))
    types = [c.type for c in RELATION.key_columns]
    keys = [table["4"].combine_chunks(), pa.array(["?"] * 100)]
    rows = file.set_column(0, "k", encode_rows(keys, types))
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)

    check = validate_part(sink.getvalue(), RELATION)

    assert check.invalid[1] == 100
    assert len(check.first) == MAX_SHOWN


# ---- relation versions

OLD = Relation(
    0,
    (
        Column(1, "a", parse_type("string")),
        Column(2, "b", parse_type("int16")),
        Column(3, "c", parse_type("float32")),
        Column(5, "n", parse_type("numeric(4,2)")),
    ),
    key=(1,),
    order=(),
)
NEW = Relation(
    2,
    (
        Column(7, "b", parse_type("int32"), default=50),
        Column(1, "a", parse_type("string")),
        Column(3, "c", parse_type("float64")),
        Column(5, "n", parse_type("numeric(8,2)")),
        Column(6, "z", parse_type("jsonb")),
    ),
    key=(1,),
    order=(),
)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_old_part_comes_in_the_columns_of_the_new_relation(layout: str) -> None:
    # The scenario of the design: drop b, add b again with default 50; the 5 must not come back.
    table = pa.table(
        {"1": ["hello"], "2": [5], "3": [0.5], "5": [Decimal("1.25")], "t": [0], "d": [1]},
        schema=updates_schema(OLD),
    )
    data = part(table, layout, OLD).data

    found = read(data, NEW, relations=[OLD, NEW])

    assert found.schema.types == updates_schema(NEW).types
    assert found.to_pylist() == [
        {"7": 50, "1": "hello", "3": 0.5, "5": Decimal("1.25"), "6": None, "t": 0, "d": 1}
    ]


def test_a_part_of_an_unknown_relation_version_is_corrupt() -> None:
    data = part(relation=RELATION).data
    with pytest.raises(Corrupt, match="relation version"):
        read(data, OLD, relations=[OLD, NEW])


def test_a_column_that_became_narrower_is_refused() -> None:
    narrow = Relation(9, (Column(12, "count", parse_type("bool")),), (), ())
    with pytest.raises(Corrupt, match="cannot hold"):
        read(part().data, narrow, relations=[RELATION])


# ---- damage


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"strata.format_version": "2"}, "format version"),
        ({"strata.format_version": "x"}, "footer"),
        ({"strata.migration": "2"}, "migration"),
        ({"strata.layout": "rows"}, "layout"),
        ({"strata.layout": "row"}, "wrong columns"),
        ({"strata.relation_version": ""}, "footer"),
        ({"strata.rows": "11"}, "lost or gained"),
    ],
)
def test_a_footer_that_makes_no_sense_is_corrupt(metadata: dict[str, str], reason: str) -> None:
    with pytest.raises(Corrupt, match=reason):
        read(tampered(metadata=metadata))


def test_a_file_that_is_no_part_is_corrupt() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), sink)
    for data in (b"", b"PAR1", b"hello, world", sink.getvalue().to_pybytes()):
        with pytest.raises(Corrupt):
            read(data)


def test_columns_of_a_bad_migration_are_not_believed() -> None:
    metadata = {"strata.migration": "0"}
    assert 0 in layout_module.IGNORED_MIGRATIONS
    wrong = pq.read_table(io.BytesIO(part().data))["v_s"].combine_chunks()
    data = tampered(metadata=metadata, v_s=wrong.take(pa.array([0] * 10)))

    assert read(data) == updates()
    assert read(data, read_format="row_with_validate") == updates()
    with pytest.raises(Corrupt, match="believed"):
        read(tampered("structured", metadata))


def test_a_column_of_another_type_is_named() -> None:
    table = pq.read_table(io.BytesIO(part(layout="structured").data))
    place = table.schema.get_field_index("v_s")
    struct = table["v_s"].combine_chunks()
    wide = pa.StructArray.from_arrays(
        [*struct.flatten()[:-1], struct.field("12").cast(pa.int32())], names=["2", "11", "12"]
    )
    sink = io.BytesIO()
    pq.write_table(table.set_column(place, "v_s", wide), sink)

    with pytest.raises(Corrupt, match="column has the wrong type") as caught:
        read(sink.getvalue())
    assert caught.value.details["column"] == "v_s"


def test_an_update_without_time_is_corrupt() -> None:
    table = pq.read_table(io.BytesIO(part().data))
    schema = pa.schema(
        [f.with_nullable(True) for f in table.schema], metadata=table.schema.metadata
    )
    index = schema.get_field_index("t")
    holes = table.cast(schema).set_column(
        index, schema.field("t"), [pa.array([None] * 10, pa.int64())]
    )
    sink = pa.BufferOutputStream()
    pq.write_table(holes, sink)
    with pytest.raises(Corrupt, match="time"):
        read(sink.getvalue())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_flipped_byte_is_believed(layout: str) -> None:
    data = part(updates(50), layout).data
    whole = updates(50)
    wrong = []
    for at in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[at] ^= 0x55
        try:
            found = read(bytes(damaged))
        except Corrupt:
            continue
        if found != whole:
            wrong.append(at)
    # Footer metadata that nobody checks (names of writers, bounds for others) may change unseen.
    assert wrong == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_part_cut_short_is_corrupt(layout: str) -> None:
    data = part(layout=layout).data
    for size in range(0, len(data), 97):
        with pytest.raises(Corrupt):
            read(data[:size])


class FailingFile(io.BytesIO):
    """A file whose disk fails after the footer was read."""

    def __init__(self, data: bytes, error: Exception) -> None:
        super().__init__(data)
        self.error = error
        self.size = len(data)

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() < self.size // 2:
            raise self.error
        return super().read(size)


def test_a_failing_disk_is_not_damage() -> None:
    data = part(updates(5000)).data
    with pytest.raises(Unavailable):
        read(FailingFile(data, OSError(5, "input/output error")))
    with pytest.raises(StrataError) as caught:
        read(FailingFile(data, Unavailable("the store is gone", certain=True)))
    assert type(caught.value) is Unavailable


# ---- what cannot be written


def test_updates_in_the_wrong_shape_are_refused() -> None:
    table = updates()
    for wrong in (
        table.drop_columns(["12"]),
        table.set_column(4, "12", pa.array(range(10), pa.int32())),
        table.select(["2", "1", "4", "11", "12", "t", "d"]),
    ):
        with pytest.raises(InvalidRequest, match="wrong columns"):
            part(wrong)
    for name in ("t", "d"):
        place = table.schema.names.index(name)
        nulls = pa.nulls(len(table), table.schema.types[place])
        with pytest.raises(InvalidRequest, match="needs a time and a diff"):
            part(table.set_column(place, name, nulls))
    with pytest.raises(InvalidRequest, match="layout"):
        part(layout="columns")
    with pytest.raises(InvalidRequest, match="empty"):
        encode_part(
            table, RELATION, "both", description=Description(5, 5, 0), row_group_bytes=1 << 20
        )


def test_encodings_are_chosen_for_each_column() -> None:
    file = pq.ParquetFile(io.BytesIO(part(updates(3000), "structured").data))
    group = file.metadata.row_group(0)
    encodings = {
        group.column(i).path_in_schema: group.column(i).encodings for i in range(group.num_columns)
    }
    assert "DELTA_BINARY_PACKED" in encodings["d"]  # as small, and in half the time
    assert "DELTA_BINARY_PACKED" in encodings["k_s.4"]
    assert "RLE_DICTIONARY" not in encodings["k_s.1"]
    assert "RLE_DICTIONARY" not in encodings["t"]


def test_struct_children_are_nullable_even_where_the_column_is_not() -> None:
    schema = part_schema(RELATION, Footer("structured", 3, DESCRIPTION, 10))
    assert all(schema.field(side).type.field(i).nullable for side in ("k_s", "v_s") for i in (0, 1))
