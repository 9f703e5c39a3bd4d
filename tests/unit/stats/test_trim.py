"""Trimming loses in a stated order, and says what it lost. Soundness is in tests/laws."""

from typing import Any

import pyarrow as pa
import pytest

from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.stats import collect, encoded_size, trim, trim_table
from strata.stats.flat import struct_row
from strata.stats.trim import _drop_shapes
from strata.stats.wire import parse_name, path_name, shape_name
from tests.support.facts import known

COLUMNS = {
    "key": "int64",
    "url": "string",
    "sent_at": "timestamptz",
    "doc": "jsonb",
    "blob": "bytes",
}
RELATION = Relation(
    0, tuple(Column(i, n, parse_type(t)) for i, (n, t) in enumerate(COLUMNS.items(), 1)), (1,), ()
)
PREFIX = "https://example.org/"


def stats(**changes: list[Any]) -> pa.RecordBatch:
    """Return the statistics of two rows."""
    values: dict[str, list[Any]] = {
        "key": [1, 2],
        "url": [PREFIX + "a" * 70, PREFIX + "y" * 70],
        "sent_at": [1_356_998_400_000_000, 1_357_000_000_000_000],
        "doc": ['{"a":1,"mixed":1,"last_seen":"x"}', '{"a":2,"mixed":"s","last_seen":"y"}'],
        "blob": [b"\x00" * 60, b"\xff" * 60],
    } | changes
    arrays = [pa.array(v, pa.int64() if n == "sent_at" else None) for n, v in values.items()]
    arrays[2] = arrays[2].cast(pa.timestamp("us", "UTC"))
    return collect(pa.table(arrays, names=[str(i) for i in range(1, 6)]), RELATION)


def test_within_the_budget_nothing_is_touched() -> None:
    row = stats()

    trimmed, report = trim(row, RELATION, encoded_size(row), ())

    assert trimmed is row
    assert (report.dropped, report.shortened) == ((), ())


def test_mixed_paths_go_first() -> None:
    row = stats()

    trimmed, report = trim(row, RELATION, encoded_size(row) - 1, ())

    assert report.dropped == ("s.4$.mixed",)
    assert report.shortened == ()
    assert known(trimmed, "s.4$")["complete"] is False  # type: ignore[index]


def test_then_bounds_are_cut_behind_what_they_share() -> None:
    row = stats()

    trimmed, report = trim(row, RELATION, encoded_size(row) - 150, ())

    assert report.dropped == ("s.4$.mixed",)
    assert "s.2" in report.shortened
    url = known(trimmed, "s.2")
    assert url is not None
    assert url["low"].startswith(PREFIX + "a")
    assert url["high"].startswith(PREFIX + "y")
    assert (url["low_exact"], url["high_exact"]) == (False, False)


def test_a_loose_bound_that_fits_stays_loose() -> None:
    row = stats(url=["a", "b" * 90])
    fields = (known(row, "s.2") or {}) | {"low": "A", "low_exact": False}
    loose = struct_row(row.schema.field("s.2").type, fields)
    columns = dict(zip(row.schema.names, row.columns, strict=True)) | {"s.2": loose}
    row = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    trimmed, report = trim(row, RELATION, encoded_size(row) - 60, ())

    assert "s.2" in report.shortened
    url = known(trimmed, "s.2")
    assert url is not None
    assert (url["low"], url["low_exact"], url["high_exact"]) == ("A", False, False)


def test_a_high_that_has_no_shorter_stand_in_stays() -> None:
    trimmed, _ = trim(stats(), RELATION, 200, ())

    blob = known(trimmed, "s.5")
    assert blob is not None
    assert len(blob["low"]) < 60
    assert blob["high"] == b"\xff" * 60


def test_the_most_expensive_go_before_the_cheap_and_the_sort_column_never() -> None:
    trimmed, report = trim(stats(), RELATION, 0, ())

    dropped = [name for name in report.dropped if "$" not in name]
    assert dropped[0] == "s.5"  # its high could not be shortened
    assert known(trimmed, "s.1") == known(stats(), "s.1")


def test_a_time_goes_after_what_no_filter_has_named_and_before_what_one_has() -> None:
    """Of a wide relation little fits, and most filters are about time."""
    kinds = ["int64", *["int64"] * 40, "timestamptz", "date"]
    wide = Relation(
        0, tuple(Column(i, f"c{i}", parse_type(k)) for i, k in enumerate(kinds, 1)), (1,), ()
    )
    arrays = [pa.array([1, 2], pa.int64()) for _ in kinds]
    arrays[-2:] = arrays[-2].cast(pa.timestamp("us", "UTC")), pa.array([1, 2], pa.date32())
    row = collect(pa.table(arrays, names=[str(i) for i in range(1, len(kinds) + 1)]), wide)

    _, plain = trim(row, wide, 0, ())
    _, used = trim(row, wide, 0, (), {"s.20": 0.05})

    assert set(plain.dropped[-2:]) == set(used.dropped[-3:-1]) == {"s.42", "s.43"}
    assert used.dropped[-1] == "s.20"


def test_what_filters_used_goes_later() -> None:
    _, plain = trim(stats(), RELATION, 0, ())
    _, used = trim(stats(), RELATION, 0, (), {"s.5": 2.0})

    assert plain.dropped.index("s.5") < plain.dropped.index("s.3")
    assert used.dropped[-1] == "s.5"


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        (("*_at",), {"s.3"}),
        (("SENT_*",), {"s.3"}),
        (("last_*",), set()),  # JSON is not what these are about
        (("doc.last_*",), {"s.4$.last_seen", "s.4$"}),
        (("doc.a",), {"s.4$.a", "s.4$"}),
        (("doc",), {"s.4", "s.4$"}),
        (("mixed",), set()),
        (("*.mixed",), {"s.4$.mixed", "s.4$"}),
        ((), set()),
    ],
)
def test_the_keep_list_survives_a_budget_of_nothing(keep: tuple[str, ...], kept: set[str]) -> None:
    trimmed, report = trim(stats(), RELATION, 0, keep)

    assert set(trimmed.schema.names) == {"rows", "s.1", *kept}
    assert report.bytes_after == encoded_size(trimmed)


def test_a_dropped_path_is_not_taken_for_an_absent_one() -> None:
    trimmed, _ = trim(stats(), RELATION, 0, ("doc.last_seen",))

    assert known(trimmed, "s.4$")["complete"] is False  # type: ignore[index]
    assert "s.4$.a" not in trimmed.schema.names


@pytest.mark.parametrize("budget", range(0, 60, 3))
def test_an_expensive_parent_goes_after_its_cheap_children(budget: int) -> None:
    row = stats(
        doc=['{"w":"a long text that costs more than a number"}', '{"w":{"a":1,"b":{"c":2}}}']
    )

    trimmed, _ = trim(row, RELATION, budget, ())

    paths = [p[1] for p in map(parse_name, trimmed.schema.names) if p and p[1]]
    assert all(path_name(4, path[:-1]) in trimmed.schema.names for path in paths)


def test_columns_that_the_relation_dropped_may_go_too() -> None:
    smaller = Relation(1, RELATION.columns[:2], (1,), ())

    trimmed, _ = trim(stats(), smaller, 0, ("*",))

    assert set(trimmed.schema.names) == {"rows", "s.1", "s.2"}


def test_what_stands_below_a_lost_statistic_is_dropped_all_the_same() -> None:
    """A column whose statistics could not be widened is null, those of its paths are not."""
    row = stats()
    names = [n for n in row.schema.names if n == "rows" or n.startswith("s.4$")]
    lost = {"s.4$": pa.nulls(1, row["s.4$"].type)}
    table = pa.table({name: lost.get(name, row[name]) for name in names})

    trimmed, [report] = trim_table(table, RELATION, 0, ())

    assert set(report.dropped) == set(names) - {"rows", "s.4$"}
    assert set(trimmed.column_names) == {"rows", "s.4$"}
    assert trimmed["s.4$"].null_count == 1


def test_a_lost_statistic_stays_lost_when_a_path_below_it_goes() -> None:
    row = stats()
    names = [n for n in row.schema.names if n == "rows" or n.startswith("s.4$")]
    lost = {"s.4$": pa.nulls(1, row["s.4$"].type)}
    few = pa.RecordBatch.from_arrays([lost.get(n, row[n]) for n in names], names=names)

    trimmed, report = trim(few, RELATION, 0, ("doc",))

    assert set(report.dropped) == set(names) - {"rows", "s.4$"}
    assert trimmed["s.4$"].to_pylist() == [None]


def test_shapes_go_with_the_path_that_they_are_of() -> None:
    """The shape of a plain column stays, and ends no search for others."""
    shape = pa.array([{"digits": 1}])
    plain, path = shape_name("s.2"), shape_name(path_name(4, ("a",)))
    columns = {plain: shape, path: shape}

    _drop_shapes(columns)

    assert list(columns) == [plain]
