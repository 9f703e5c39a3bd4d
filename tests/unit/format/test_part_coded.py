"""Texts that a part has in dictionaries come as codes where that is asked for, and pays."""

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.errors import Corrupt
from strata.format import part as part_module
from strata.format.columns import updates_schema
from strata.format.part import Description, encode_part, read_part
from strata.format.values.coded import CODE, CODED_BYTES, decoded, is_coded
from strata.model.schema import Column, Relation
from strata.model.types import parse_type

TYPES = ("int64", "string", "bytes", "varchar(9)", "jsonb", "list<string>")
COLUMNS = tuple(Column(i, f"c{i}", parse_type(kind)) for i, kind in enumerate(TYPES, 1))
RELATION = Relation(0, COLUMNS, (1,), ())
ROWS = 600


def updates(rows: int = ROWS, texts: int = 3) -> pa.Table:
    """Return rows of which each text is one of a few; some are null."""
    names = [None if i % 11 == 0 else f"é{i % texts}" for i in range(rows)]
    columns = {
        "1": range(rows),
        "2": names,
        "3": [n and n.encode() for n in names],
        "4": names,
        "5": [n and f'"{n}"' for n in names],
        "6": [[n] for n in names],
        "t": [0] * rows,
        "d": [1] * rows,
    }
    return pa.table(columns, schema=updates_schema(RELATION))


def part(table: pa.Table, layout: str = "structured", group_bytes: int = 2**20) -> bytes:
    description = Description(0, 9, 0)
    encoded = encode_part(
        table, RELATION, layout, description=description, row_group_bytes=group_bytes
    )
    return encoded.data


def read(data: bytes | io.BytesIO, relation: Relation = RELATION, **options: Any) -> pa.Table:
    relations = [RELATION, relation]
    return pa.Table.from_batches(list(read_part(data, relation, relations=relations, **options)))


def coded(table: pa.Table) -> list[str]:
    return [field.name for field in table.schema if is_coded(field.type)]


@pytest.fixture(autouse=True)
def _small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_module, "CODED_ROWS", 50)


@pytest.mark.parametrize("group_bytes", [2**20, 20_000])
@pytest.mark.parametrize("batch_rows", [64, 1000])
def test_texts_come_as_codes_and_are_what_they_were(group_bytes: int, batch_rows: int) -> None:
    data = part(updates(), group_bytes=group_bytes)
    batches = list(read_part(data, RELATION, coded=True, batch_rows=batch_rows))

    assert {tuple(coded(batch)) for batch in batches} == {("2", "3", "4")}
    assert sum(batch.num_rows for batch in batches) == ROWS
    assert pa.concat_tables([pa.table(decoded(b)) for b in batches]).equals(updates())
    assert read(data).equals(updates())
    assert coded(read(data)) == []


def test_only_what_is_asked_for_comes() -> None:
    data = part(updates(), group_bytes=20_000)
    groups = pq.ParquetFile(io.BytesIO(data)).num_row_groups
    found = read(data, coded=True, columns=[2, 1], row_groups=[groups - 1])

    assert (groups > 1, coded(found)) == (True, ["2"])
    assert decoded(found).equals(
        updates().select(["1", "2", "t", "d"]).slice(ROWS - found.num_rows)
    )


@pytest.mark.parametrize("layout", ["row", "both"])
def test_rows_of_the_codec_have_no_codes(layout: str) -> None:
    found = read(part(updates(), layout), coded=True, read_format="row")
    assert (coded(found), found.equals(updates())) == ([], True)


def test_both_halves_are_compared_as_texts() -> None:
    found = read(part(updates(), "both"), coded=True, read_format="row_with_validate")
    assert (coded(found), found.equals(updates())) == ([], True)


def test_a_column_that_was_widened_comes_as_texts() -> None:
    wide = [
        Column(c.id, c.name, parse_type("varchar(20)") if c.id == 4 else c.type) for c in COLUMNS
    ]
    found = read(part(updates()), Relation(1, tuple(wide), (1,), ()), coded=True)

    assert coded(found) == ["2", "3"]
    assert decoded(found).equals(updates())


def test_a_column_with_another_name_comes_as_codes() -> None:
    other = tuple(Column(c.id, f"other {c.id}", c.type) for c in COLUMNS)
    assert coded(read(part(updates()), Relation(1, other, (1,), ()), coded=True)) == ["2", "3", "4"]


def test_small_row_groups_are_read_together_as_texts() -> None:
    found = read(part(updates(), group_bytes=2_000), coded=True)
    assert (coded(found), found.equals(updates())) == ([], True)


def test_several_row_groups_of_a_file_are_fetched_together_as_texts() -> None:
    data = part(updates(), group_bytes=20_000)
    assert coded(read(io.BytesIO(data), coded=True)) == []
    assert coded(read(io.BytesIO(data), coded=True, row_groups=[0])) == ["2", "3", "4"]


def test_a_row_group_with_many_texts_makes_no_codes_of_the_others() -> None:
    """What is in a dictionary somewhere only would come in two kinds of batches."""
    rows = pa.concat_tables([updates(), updates(texts=10**9)])
    found = read(part(rows, group_bytes=20_000), coded=True)
    assert decoded(found).equals(rows)


def test_large_dictionaries_are_not_kept() -> None:
    long = [
        f"{i % 9}" + "x" * (CODED_BYTES // 8) for i in range(ROWS)
    ]  # nine texts, compressed well
    rows = updates().set_column(1, updates_schema(RELATION).field("2"), [long])
    found = read(part(rows), coded=True)

    assert coded(found) == ["3", "4"]
    assert decoded(found).equals(rows)


@pytest.mark.parametrize("layout", ["structured", "both"])
def test_other_readers_see_texts(layout: str) -> None:
    """Codes are how they were handed over, and nothing that the file says."""
    file = pq.ParquetFile(io.BytesIO(part(updates(), layout)))

    assert file.schema_arrow.field("v_s").type.field("2").type == pa.string()
    assert file.read()["v_s"].combine_chunks().field("2").to_pylist() == updates()["2"].to_pylist()
    column = next(
        file.metadata.row_group(0).column(i)
        for i in range(file.metadata.num_columns)
        if file.metadata.row_group(0).column(i).path_in_schema == "v_s.2"
    )
    assert (column.has_dictionary_page, column.statistics.min, column.statistics.max) == (
        True,
        "é0",
        "é2",
    )
    assert column.statistics.null_count == len([n for n in updates()["2"].to_pylist() if n is None])


def test_a_code_without_a_text_is_corrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Page checksums find flipped bits; this is a file that was written so."""
    data, real = part(updates()), pq.ParquetFile.iter_batches

    def beyond(*args: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        for batch in real(*args, **options):
            struct = batch.column("v_s")
            codes = pa.DictionaryArray.from_arrays(
                pa.array([7] * len(struct), CODE), pa.array(["a"]), safe=False
            )
            arrays = [codes if f.name == "2" else struct.field(f.name) for f in struct.type]
            broken = pa.StructArray.from_arrays(arrays, names=[f.name for f in struct.type])
            index = batch.schema.get_field_index("v_s")
            yield batch.set_column(index, "v_s", broken)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", beyond)
    with pytest.raises(Corrupt, match="not in its dictionary"):
        read(data, coded=True)
