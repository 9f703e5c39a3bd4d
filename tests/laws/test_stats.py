"""Law 6: statistics enclose the data, collected, united, and trimmed to every budget."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.format.encodings import ENCODINGS, encoding
from strata.model.schema import Column, Relation
from strata.model.types import ColumnType, Kind, parse_type
from strata.stats import collect, concat, encoded_size, encoded_sizes, trim, union
from strata.stats.protected import protected_names, sort_statistics
from strata.stats.size import column_bits
from strata.stats.trim import trim_table, trim_together
from strata.stats.union import _enclosing, union_columns
from strata.stats.wire import column_name, field_step, parent_name, parse_name, path_name
from tests.support.facts import (
    DOCUMENT,
    EVERY_TYPE,
    canonical,
    complaints,
    documents,
    fields,
    known,
    plain,
    poison,
    table,
)
from tests.support.values import arrays, every_type
from tests.twins import trim as trim_twin

DOCUMENTS = Relation(0, (DOCUMENT,), (DOCUMENT.id,), ())
EACH_TYPE = [Relation(0, (column,), (column.id,), ()) for column in EVERY_TYPE.columns]
each_type = pytest.mark.parametrize("relation", EACH_TYPE, ids=lambda r: str(r.columns[0].type))
few = settings(max_examples=max(5, settings.default.max_examples // 6))  # of 48 types each
KEEPS = st.sampled_from([(), ("*_at",), ("c_json*",), ("C_BOOL", "c_jsonb.a", "*.d"), ("*",)])


@each_type
@few
@given(st.data())
def test_collected_statistics_enclose_the_data(relation: Relation, data: st.DataObject) -> None:
    rows = data.draw(poison(relation))

    assert complaints(collect(rows, relation), rows, relation) == []


@each_type
@few
@given(st.data())
def test_a_chunk_boundary_changes_nothing(relation: Relation, data: st.DataObject) -> None:
    rows = data.draw(poison(relation))
    cut = data.draw(st.integers(0, rows.num_rows))

    chunked = pa.concat_tables([rows.slice(0, cut), rows.slice(cut)])

    assert collect(chunked, relation).equals(collect(rows, relation))


@each_type
@few
@given(st.data())
def test_collected_bounds_are_those_of_a_loop(relation: Relation, data: st.DataObject) -> None:
    """Short values are not cut: the bounds are the least and the greatest, and exact."""
    rows = data.draw(poison(relation))
    stats = collect(rows, relation)

    column = relation.columns[0]
    field = known(stats, column_name(column.id))
    assert field is not None
    values = _plain(rows, column.id)
    if "low" in field and not any(_is_long(v) for v in values):
        expected = (min(values), max(values), True, True) if values else (None, None, False, False)
        assert tuple(field[n] for n in ("low", "high", "low_exact", "high_exact")) == expected


@each_type
def test_nothing_is_silently_unbounded(relation: Relation) -> None:
    """Every scalar type has bounds, and every place in a nested one has statistics."""
    column = relation.columns[0]
    names = {f"s.{column.id}{way}" for way in _ways(column.type)}

    stats = collect(table([[]], relation), relation)

    assert names | {"rows"} == {n for n in stats.schema.names if "$" not in n}
    if encoding(column.type).stats == "range" and column.type != parse_type("numeric"):
        assert stats.schema.field(f"s.{column.id}").type.get_field_index("low") >= 0


def _ways(declared: ColumnType) -> Iterator[str]:
    yield ""
    below = {field_step(f.name): f.type for f in fields(declared)}
    if declared.element is not None and declared.kind is Kind.LIST:
        below = {"[]": declared.element}
    if declared.element is not None and declared.kind is Kind.MAP:
        below = {"{k}": ColumnType(Kind.STRING), "{v}": declared.element}
    for step, inner in below.items():
        yield from (f"/{step}{way}" for way in _ways(inner))


@given(st.lists(documents(), max_size=6))
def test_every_path_of_a_document_is_known(values: list[Any]) -> None:
    stats = collect(table([[canonical(v) for v in values]], DOCUMENTS), DOCUMENTS)

    names = {path_name(DOCUMENT.id, path) for value in values for path in _paths(value)}
    assert names | {path_name(DOCUMENT.id, ())} == set(stats.schema.names[2:])


@given(st.data())
def test_the_union_encloses_every_part(data: st.DataObject) -> None:
    relation = data.draw(_some_columns())
    parts = data.draw(st.lists(poison(relation), min_size=1, max_size=4))
    stats = [collect(rows, relation) for rows in parts]
    budget = data.draw(st.integers(0, 100))
    some = [trim(s, relation, budget, ())[0] if data.draw(st.booleans()) else s for s in stats]

    united = union(concat(some, [rows.num_rows for rows in parts]))

    if united is not None:
        assert complaints(united, pa.concat_tables(parts), relation) == []


@each_type
@few
@given(st.data())
def test_the_union_of_pieces_is_the_statistics_of_the_whole(
    relation: Relation, data: st.DataObject
) -> None:
    rows = data.draw(poison(relation))
    cut = data.draw(st.integers(0, rows.num_rows))
    pieces = [rows.slice(0, cut), rows.slice(cut)]

    united = union(concat([collect(p, relation) for p in pieces], [p.num_rows for p in pieces]))

    whole = collect(rows, relation)
    assert united is not None
    assert set(united.schema.names) == set(whole.schema.names)
    for name in whole.schema.names[1:]:
        assert known(united, name) == known(whole, name)


@each_type
@few
@given(st.data())
def test_a_part_is_its_own_union(relation: Relation, data: st.DataObject) -> None:
    """The short way for a single row finds what the long way does."""
    rows = data.draw(poison(relation))
    budget = data.draw(st.integers(0, 200))
    row, _ = trim(collect(rows, relation), relation, budget, ())
    one = concat([row], [rows.num_rows])

    short, long = union_columns(one), _enclosing(one)

    assert short.keys() == long.keys()
    for name, found in short.items():
        assert found.equals(long[name]), name


@each_type
@few
@given(st.data())
def test_the_size_of_one_row_is_that_of_the_first_of_two(
    relation: Relation, data: st.DataObject
) -> None:
    """One row is measured value by value, several are measured as arrays."""
    row = collect(data.draw(poison(relation)), relation)
    for name, column in zip(row.schema.names, row.columns, strict=True):
        if name.startswith("s."):
            twice = pa.concat_arrays([column, column])
            assert column_bits(column)[0] == column_bits(twice)[0], name


@each_type
@few
@given(st.data())
def test_each_type_is_enclosed_at_every_budget(relation: Relation, data: st.DataObject) -> None:
    rows = data.draw(poison(relation))
    stats = collect(rows, relation)

    for budget in {*range(0, 9), *range(0, encoded_size(stats) + 2, 7)}:
        trimmed, _ = trim(stats, relation, budget, ())

        assert complaints(trimmed, rows, relation) == []
        sorted_by = sort_statistics(stats.schema.names, relation)
        assert sorted_by <= set(trimmed.schema.names)
        assert encoded_size(trimmed) <= max(budget, encoded_size(stats.select([*sorted_by])))


@pytest.mark.parametrize("declared", every_type(), ids=str)
@few
@given(st.data())
def test_canonical_values_are_enclosed_together_and_trimmed(
    declared: ColumnType, data: st.DataObject
) -> None:
    relation = Relation(0, (Column(1, "c", declared),), (1,), ())
    parts = data.draw(st.lists(arrays(declared, max_rows=4), min_size=1, max_size=3))
    tables = [pa.table([part], names=["1"]) for part in parts]
    budget = data.draw(st.integers(0, 80))
    rows = [trim(collect(part, relation), relation, budget, ())[0] for part in tables]

    for row, part in zip(rows, tables, strict=True):
        assert complaints(row, part, relation) == []
    united = union(concat(rows, [part.num_rows for part in tables]))
    if united is not None:
        assert complaints(united, pa.concat_tables(tables), relation) == []


@given(st.data(), KEEPS)
def test_trimmed_statistics_enclose_the_data_at_every_budget(
    data: st.DataObject, keep: tuple[str, ...]
) -> None:
    relation = data.draw(_some_columns())
    rows = data.draw(poison(relation))
    stats = collect(rows, relation)
    before = encoded_size(stats)
    kept = protected_names(stats.schema.names, relation, keep)
    kept_cost = encoded_size(stats.select(["rows", *sorted(kept)]))

    for budget in {*range(0, before + 2, max(1, before // 10)), before - 1, before}:
        trimmed, report = trim(stats, relation, budget, keep)

        assert complaints(trimmed, rows, relation) == []
        assert (report.bytes_before, report.bytes_after) == (before, encoded_size(trimmed))
        assert report.bytes_after <= min(before, max(budget, kept_cost))
        assert kept <= set(trimmed.schema.names)
        assert _parents(trimmed.schema.names) <= set(trimmed.schema.names)
        assert {*trimmed.schema.names, *report.dropped} == set(stats.schema.names)


@given(st.data(), st.integers(0, 200), KEEPS)
def test_trimming_many_parts_is_trimming_each(
    data: st.DataObject, budget: int, keep: tuple[str, ...]
) -> None:
    relation = data.draw(_some_columns("string", "jsonb"))
    parts = data.draw(st.lists(poison(relation), min_size=1, max_size=4))
    stats = [collect(rows, relation) for rows in parts]
    weights = {name: float(len(name) % 3) for name in stats[0].schema.names}
    together = concat(stats, [rows.num_rows for rows in parts])

    found, reports = trim_table(together, relation, budget, keep, weights)

    for part, row in enumerate(stats):
        known_row = row.select([n for n in row.schema.names if row[n].null_count == 0])
        expected, report = trim_twin.trim(known_row, relation, budget, keep, weights)
        assert trim(known_row, relation, budget, keep, weights) == (expected, report)
        assert reports[part] == report
        left = {n: found[n][part] for n in found.column_names if found[n][part].is_valid}
        assert set(left) == set(expected.schema.names)
        assert all(left[name] == expected[name][0] for name in left)


@given(st.data(), st.integers(0, 200), KEEPS)
def test_trimming_some_rows_is_trimming_each(
    data: st.DataObject, budget: int, keep: tuple[str, ...]
) -> None:
    relation = data.draw(_some_columns())
    stats = [collect(data.draw(poison(relation)), relation) for _ in range(3)]
    weights = {name: float(len(name) % 3) for name in stats[0].schema.names}
    rows = data.draw(st.lists(st.sampled_from(stats), max_size=5))  # some have the same columns

    found = trim_together(rows, relation, budget, keep, weights)

    expected = [trim(row, relation, budget, keep, weights) for row in rows]
    assert [report for _, report in found] == [report for _, report in expected]
    for (row, report), (wanted, _) in zip(found, expected, strict=True):
        assert row.schema == wanted.schema  # in the same order: manifests keep it
        assert row.equals(wanted)
        row.validate(full=True)
        assert report.bytes_after == encoded_size(row)


@given(st.data(), st.integers(0, 300))
def test_kept_statistics_lose_nothing_but_completeness(data: st.DataObject, budget: int) -> None:
    relation = data.draw(_some_columns("string", "jsonb"))
    stats = collect(data.draw(poison(relation)), relation)
    keep = ("c_string", "c_jsonb.*", "sent_at", "c_range*")

    trimmed, _ = trim(stats, relation, budget, keep)

    for name in protected_names(stats.schema.names, relation, keep):
        before, after = known(stats, name), known(trimmed, name)
        assert before is not None
        assert after is not None
        assert {**before, "complete": None} == {**after, "complete": None}


@given(st.data())
def test_trimming_again_changes_nothing(data: st.DataObject) -> None:
    relation = data.draw(_some_columns())
    stats = collect(data.draw(poison(relation)), relation)
    budget = data.draw(st.integers(0, 200))

    once, _ = trim(stats, relation, budget, ("*_at",))
    twice, report = trim(once, relation, budget, ("*_at",))

    assert twice.equals(once)
    assert report.dropped == ()


@given(st.data())
def test_sizes_of_many_are_the_sizes_of_each(data: st.DataObject) -> None:
    relation = data.draw(_some_columns())
    parts = data.draw(st.lists(poison(relation), min_size=1, max_size=4))
    stats = [collect(rows, relation) for rows in parts]
    together = encoded_sizes(concat(stats, [rows.num_rows for rows in parts]))

    missing = [len(set().union(*(s.schema.names for s in stats))) - s.num_columns for s in stats]
    for total, row, absent in zip(together, stats, missing, strict=True):
        # A column that only other parts have costs this one its null bit.
        assert encoded_size(row) <= total <= encoded_size(row) + absent // 8 + 1


@st.composite
def _some_columns(draw: st.DrawFn, *types: str) -> Relation:
    """Draw a relation of a few columns, those of `types` among them."""
    chosen = draw(st.lists(st.sampled_from(EVERY_TYPE.columns), max_size=5, unique=True))
    fixed = [column for column in EVERY_TYPE.columns if column.name.removeprefix("c_") in types]
    columns = tuple(dict.fromkeys([*fixed, *chosen])) or EVERY_TYPE.columns[:1]
    return Relation(0, columns, (columns[0].id,), ())


def _parents(names: list[str]) -> set[str]:
    return {above for name in names if (above := parent_name(name)) is not None}


def _plain(rows: pa.Table, column_id: int) -> list[Any]:
    column = rows[str(column_id)]
    values = column.cast(plain(column.type)).to_pylist()
    return [v for v in values if v is not None and v == v]  # noqa: PLR0124


def _is_long(value: Any) -> bool:
    text = value.encode() if isinstance(value, str) else value
    return isinstance(text, bytes) and len(text) > 100


def _paths(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inner = value.items() if isinstance(value, dict) else ()
    return [path, *(p for key, child in inner for p in _paths(child, (*path, key)))]


def test_every_storable_type_is_covered() -> None:
    assert {column.type.kind for column in EVERY_TYPE.columns} == set(ENCODINGS)
    assert parse_name(column_name(DOCUMENT.id)) == (DOCUMENT.id, None)
