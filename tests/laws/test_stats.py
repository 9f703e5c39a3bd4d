"""Law 6: statistics enclose the data, collected, united, and trimmed to every budget."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from strata.model.schema import Relation
from strata.stats import collect, concat, encoded_size, encoded_sizes, trim, union
from strata.stats.trim import kept_names
from strata.stats.wire import column_name, parse_name, path_name
from tests.facts import (
    DOCUMENT,
    EVERY_TYPE,
    POISON,
    canonical,
    complaints,
    documents,
    known,
    poison,
    table,
)

DOCUMENTS = Relation(0, (DOCUMENT,), (DOCUMENT.id,), ())
KEEPS = st.sampled_from([(), ("*_at",), ("c_json*",), ("C_BOOL", "c_jsonb.a"), ("*",)])


@given(poison())
def test_collected_statistics_enclose_the_data(rows: pa.Table) -> None:
    assert complaints(collect(rows, EVERY_TYPE), rows, EVERY_TYPE) == []


@given(poison())
def test_collected_bounds_are_those_of_a_loop(rows: pa.Table) -> None:
    """Short values are not cut: the bounds are the least and the greatest, and exact."""
    stats = collect(rows, EVERY_TYPE)

    for column in EVERY_TYPE.columns:
        field = known(stats, column_name(column.id))
        values = _plain(rows, column.id)
        if field is None or "low" not in field or any(_is_long(v) for v in values):
            continue
        expected = (min(values), max(values), True, True) if values else (None, None, False, False)
        assert tuple(field[n] for n in ("low", "high", "low_exact", "high_exact")) == expected


@given(st.lists(documents(), max_size=6))
def test_every_path_of_a_document_is_known(values: list[Any]) -> None:
    stats = collect(table([[canonical(v) for v in values]], DOCUMENTS), DOCUMENTS)

    names = {path_name(DOCUMENT.id, path) for value in values for path in _paths(value)}
    assert names | {path_name(DOCUMENT.id, ())} == set(stats.schema.names[2:])


@given(st.data())
def test_the_union_encloses_every_part(data: st.DataObject) -> None:
    parts = data.draw(st.lists(poison(), min_size=1, max_size=4))
    stats = [collect(rows, EVERY_TYPE) for rows in parts]
    budget = data.draw(st.integers(0, 400))
    some = [trim(s, EVERY_TYPE, budget, ())[0] if data.draw(st.booleans()) else s for s in stats]

    united = union(concat(some, [rows.num_rows for rows in parts]))

    if united is not None:
        assert complaints(united, pa.concat_tables(parts), EVERY_TYPE) == []


@given(st.data())
def test_the_union_of_pieces_is_the_statistics_of_the_whole(data: st.DataObject) -> None:
    rows = data.draw(poison())
    cut = data.draw(st.integers(0, rows.num_rows))
    pieces = [rows.slice(0, cut), rows.slice(cut)]

    united = union(concat([collect(p, EVERY_TYPE) for p in pieces], [p.num_rows for p in pieces]))

    whole = collect(rows, EVERY_TYPE)
    assert united is not None
    assert set(united.schema.names) == set(whole.schema.names)
    for name in whole.schema.names[1:]:
        assert known(united, name) == known(whole, name)


@given(poison(), KEEPS)
def test_trimmed_statistics_enclose_the_data_at_every_budget(
    rows: pa.Table, keep: tuple[str, ...]
) -> None:
    stats = collect(rows, EVERY_TYPE)
    before = encoded_size(stats)
    kept = kept_names(stats.schema.names, EVERY_TYPE, keep)
    kept_cost = encoded_size(stats.select(["rows", *sorted(kept)]))

    for budget in {*range(0, before + 2, max(1, before // 10)), before - 1, before}:
        trimmed, report = trim(stats, EVERY_TYPE, budget, keep)

        assert complaints(trimmed, rows, EVERY_TYPE) == []
        assert (report.bytes_before, report.bytes_after) == (before, encoded_size(trimmed))
        assert report.bytes_after <= min(before, max(budget, kept_cost))
        assert kept <= set(trimmed.schema.names)
        assert _parents(trimmed.schema.names) <= set(trimmed.schema.names)
        assert {*trimmed.schema.names, *report.dropped} == set(stats.schema.names)


@given(poison(), st.integers(0, 300))
def test_kept_statistics_lose_nothing_but_completeness(rows: pa.Table, budget: int) -> None:
    stats = collect(rows, EVERY_TYPE)
    keep = ("c_string", "c_jsonb.*")

    trimmed, _ = trim(stats, EVERY_TYPE, budget, keep)

    for name in kept_names(stats.schema.names, EVERY_TYPE, keep):
        before, after = known(stats, name), known(trimmed, name)
        assert before is not None
        assert after is not None
        assert {**before, "complete": None} == {**after, "complete": None}


@given(st.data())
def test_trimming_again_changes_nothing(data: st.DataObject) -> None:
    stats = collect(data.draw(poison()), EVERY_TYPE)
    budget = data.draw(st.integers(0, 300))

    once, _ = trim(stats, EVERY_TYPE, budget, ("*_at",))
    twice, report = trim(once, EVERY_TYPE, budget, ("*_at",))

    assert twice.equals(once)
    assert report.dropped == ()


@given(st.lists(poison(), min_size=1, max_size=4))
def test_sizes_of_many_are_the_sizes_of_each(parts: list[pa.Table]) -> None:
    stats = [collect(rows, EVERY_TYPE) for rows in parts]
    together = encoded_sizes(concat(stats, [rows.num_rows for rows in parts]))

    missing = [len(set().union(*(s.schema.names for s in stats))) - s.num_columns for s in stats]
    for total, row, absent in zip(together, stats, missing, strict=True):
        # A column that only other parts have costs this one its null bit.
        assert encoded_size(row) <= total <= encoded_size(row) + absent // 8 + 1


def _parents(names: list[str]) -> set[str]:
    parsed = [p for p in map(parse_name, names) if p is not None and p[1]]
    return {path_name(column_id, path[:-1]) for column_id, path in parsed if path}


def _plain(rows: pa.Table, column_id: int) -> list[Any]:
    column = rows[str(column_id)]
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if column.type == pa.date32() else pa.int64())
    return [v for v in column.to_pylist() if v is not None and v == v]  # noqa: PLR0124


def _is_long(value: Any) -> bool:
    text = value.encode() if isinstance(value, str) else value
    return isinstance(text, bytes) and len(text) > 100


def _paths(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inner = value.items() if isinstance(value, dict) else ()
    return [path, *(p for key, child in inner for p in _paths(child, (*path, key)))]


def test_every_storable_type_is_covered() -> None:
    assert {column.type.kind for column in EVERY_TYPE.columns} == {*POISON, DOCUMENT.type.kind}
    assert parse_name(column_name(DOCUMENT.id)) == (DOCUMENT.id, None)
