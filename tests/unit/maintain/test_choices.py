"""How a backfill cuts its work, what it reads of a part, and what it knows of its speed."""

from types import SimpleNamespace
from typing import Any

import pytest

from strata.maintain import backfill, schema
from strata.maintain.backfill import chunks
from strata.maintain.collect import half_of
from strata.maintain.estimate import Speed, measured_rate, record_speed
from strata.maintain.exchange import Limit, Selection, statistics_label
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.state.schema import Change, DropColumn, RenameColumn, WidenColumn
from tests.support.stored import memory_stores


@pytest.mark.parametrize(
    ("commit_bytes", "most", "cut"),
    [(20, 9, [2, 2, 1]), (21, 9, [3, 2]), (1, 9, [1] * 5), (1, 2, [3, 2]), (99, 2, [5])],
)
def test_a_commit_has_enough_bytes_and_there_are_not_too_many(
    monkeypatch: pytest.MonkeyPatch, commit_bytes: int, most: int, cut: list[int]
) -> None:
    monkeypatch.setattr(backfill, "COMMITS_MAX", most)
    parts: Any = [SimpleNamespace(size_bytes=10, number=n) for n in range(5)]

    found = list(chunks(parts, commit_bytes))

    assert [part for some in found for part in some] == parts
    assert [len(some) for some in found] == cut


@pytest.mark.parametrize(
    ("read_format", "layout", "half"),
    [
        ("row", "both", "row"),
        ("row", "structured", "structured"),
        ("structured", "both", "structured"),
        ("structured", "row", "row"),
    ],
)
def test_statistics_are_of_the_half_that_readers_use(
    read_format: str, layout: str, half: str
) -> None:
    state: Any = SimpleNamespace(spec=SimpleNamespace(read_format=read_format))
    part: Any = SimpleNamespace(layout=layout)

    assert half_of(state, part) == half


def test_a_run_that_took_no_time_has_no_speed() -> None:
    stores = memory_stores()
    assert measured_rate(stores, "s", whole=True) is None

    record_speed(stores, "s", Speed(1, 2000, 0, whole=True))
    record_speed(stores, "s", Speed(1, 9000, 3, whole=False))
    assert measured_rate(stores, "s", whole=True) is None
    assert measured_rate(stores, "s", whole=False) == 3_000_000


@pytest.mark.parametrize(
    ("limit", "taken"),
    [({"bytes_max": 25}, 3), ({"parts_max": 2}, 2), ({"bytes_max": 1}, 1), ({}, 5)],
)
def test_a_limit_is_shared_by_the_batches(limit: dict[str, int], taken: int) -> None:
    left = Limit(Selection(**limit))

    found = [row for rows in ([0, 1], [2, 3], [4]) for row in left.take(rows, [10] * len(rows))]

    assert found == list(range(taken))


@pytest.mark.parametrize(("lower", "covered"), [(9, True), (10, False), (None, True)])
def test_a_batch_is_covered_up_to_its_last_time(lower: int | None, covered: bool) -> None:
    batch: Any = SimpleNamespace(lower=0, upper=10, since=0, manifest="m")

    assert Selection(lower=lower).covers(batch) == covered


def test_a_column_is_called_by_its_name_or_by_its_number() -> None:
    relation = Relation(
        0, tuple(Column(i, n, parse_type("int64")) for i, n in ((1, "a"), (3, "1"))), (1,), ()
    )

    assert Selection(columns=("a", "1", "3")).ids(relation) == (1, 3, 3)
    assert statistics_label("s.1", relation) == "a"
    assert statistics_label("s.7", relation) == "s.7", "of a column that is no more"


@pytest.mark.parametrize(
    ("change", "breaks"),
    [
        (DropColumn("a"), True),
        (RenameColumn("a", "b"), True),
        (RenameColumn("a", "A"), False),  # Spark finds it by either
        (WidenColumn("a", parse_type("int64")), False),
    ],
)
def test_a_filter_breaks_where_its_column_goes(
    monkeypatch: pytest.MonkeyPatch, change: Change, breaks: bool
) -> None:
    monkeypatch.setattr(schema, "uses_column", lambda _, name: name == "a")
    filters: Any = [SimpleNamespace(name="mine")]

    assert schema._broken(change, filters) == (("mine",) if breaks else ())
