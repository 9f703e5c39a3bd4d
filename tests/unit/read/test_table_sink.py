"""Changes in a table of PostgreSQL: types, new columns, and what is refused with nothing stored."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from threading import Barrier
from typing import Any, cast

import psycopg
import pyarrow as pa
import pytest

from strata.errors import Fenced, InvalidRequest, Unavailable
from strata.model.time import MIN_TIME
from strata.read import table_sink
from strata.read.bookmark import Bookmark
from strata.read.subscription import Delivery, Subscription, Wish, following
from strata.read.table_sink import PostgresTable
from tests.laws.test_changes import fixed_history
from tests.support.postgres import fresh_database
from tests.support.stored import append, create, memory_stores


@pytest.fixture(scope="module")
def address() -> str:
    return fresh_database()


def rows(address: str, text: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(address) as connection:
        return connection.execute(text).fetchall()  # type: ignore[arg-type]


def run(address: str, text: str) -> None:
    with psycopg.connect(address) as connection:
        connection.execute(text)  # type: ignore[arg-type]


def delivery(columns: dict[str, pa.Array], lower: int = MIN_TIME, upper: int = 10) -> Delivery:
    """Return one that belongs to no shard."""
    size = len(next(iter(columns.values())))
    every = {**columns, "t": pa.array([5] * size, pa.int64()), "d": pa.array([1] * size)}
    batch = pa.record_batch(every)
    nobody: Any = None
    mark = Bookmark(upper, "shard", "c").to_text()
    return Delivery(lower, upper, batch.schema, iter([batch]), mark, lower == MIN_TIME, nobody)


def position(sink: PostgresTable) -> int | None:
    there = sink.bookmark()
    return None if there is None else Bookmark.of(there).position


def test_values_arrive_as_they_are(address: str) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    columns = {
        "small": pa.array([-128, None], pa.int8()),
        "big": pa.array([2**64 - 1, None], pa.uint64()),
        "real": pa.array([float("nan"), None], pa.float64()),
        "text": pa.array(["a\tb\\N\n", None]),
        "raw": pa.array([b"\x00\xff", None]),
        "day": pa.array([date(1, 1, 1), None]),
        "at": pa.array([at, None], pa.timestamp("us", "UTC")),
        "local": pa.array([at.replace(tzinfo=None), None], pa.timestamp("us")),
        "money": pa.array([Decimal("123456789012345678901234567890.12"), None]),
        "yes": pa.array([True, None]),
        'odd "name"': pa.array([{"k": [1, None], "u": "ü"}, None]),
    }
    sink = PostgresTable(address, "typed")
    assert position(sink) is None
    assert sink.take(delivery(columns)) == 2
    assert position(sink) == 10

    first, nulls = rows(address, "SELECT * FROM typed ORDER BY small")
    assert first[:2] == (-128, 2**64 - 1)
    assert str(first[2]) == "nan"
    assert first[3:10] == (
        "a\tb\\N\n",
        b"\x00\xff",
        date(1, 1, 1),
        at,
        at.replace(tzinfo=None),
        Decimal("123456789012345678901234567890.12"),
        True,
    )
    assert first[10:] == ({"k": [1, None], "u": "ü"}, 5, 1)
    assert nulls == (*[None] * 11, 5, 1)


def test_a_new_column_joins_the_table(address: str) -> None:
    sink = PostgresTable(address, "public.grown")
    sink.take(delivery({"id": pa.array([1])}))
    sink.take(delivery({"id": pa.array([2]), "note": pa.array(["x"])}, 10, 20))
    assert rows(address, "SELECT id, note FROM grown ORDER BY id") == [(1, None), (2, "x")]


@pytest.mark.parametrize(
    ("before", "after", "value"),
    [
        (pa.int16(), pa.int32(), 2**31 - 1),
        (pa.int32(), pa.int64(), -(2**63)),
        (pa.uint32(), pa.uint64(), 2**64 - 1),
        (pa.int64(), pa.decimal128(20, 0), Decimal(2**64 - 1)),  # as readers see these two
        (pa.float32(), pa.float64(), 1.0000000001),
    ],
    ids=str,
)
def test_a_column_that_was_widened_is_widened_in_the_table(
    address: str, before: pa.DataType, after: pa.DataType, value: Any
) -> None:
    """A float64 was rounded to the column that was there, and large numbers stopped a consumer."""
    name = re.sub(r"\W", "_", f"wide_{before}_{after}")
    sink = PostgresTable(address, name)
    sink.take(delivery({"n": pa.array([1], before)}))
    sink.take(delivery({"n": pa.array([value], after)}, 10, 20))
    sink.take(delivery({"n": pa.array([None], before)}, 20, 30))
    assert rows(address, f"SELECT n FROM {name} ORDER BY n") == [*sorted([(1,), (value,)]), (None,)]


def test_what_the_table_cannot_hold_is_refused_and_nothing_is_stored(address: str) -> None:
    sink = PostgresTable(address, "refused")
    sink.take(delivery({"s": pa.array(["good"])}))
    with pytest.raises(InvalidRequest, match="nothing of them is stored"):
        sink.take(delivery({"s": pa.array(["fine", "nul\x00"])}, 10, 20))
    assert position(sink) == 10
    assert rows(address, "SELECT s FROM refused") == [("good",)]
    assert sink.take(delivery({"s": pa.array(["fine"])}, 10, 20)) == 1


@pytest.mark.parametrize(
    ("there", "values"),
    [
        ("bigint", pa.array(["007"])),
        ("varchar(3)", pa.array(["abc  "])),
        ("char(5)", pa.array(["abc"])),
        ("date", pa.array([0], pa.timestamp("us"))),
        ("timestamp(0)", pa.array([900_000], pa.timestamp("us"))),
        ("timestamp", pa.array([0], pa.timestamp("us", "UTC"))),
        ("timestamptz", pa.array([0], pa.timestamp("us"))),
        ("numeric(10,2)", pa.array([Decimal("1.239")])),
        ("numeric(9,4)", pa.array([Decimal("1.2")], pa.decimal128(8, 2))),
        ("double precision", pa.array([2**53 + 1])),
    ],
    ids=str,
)
def test_a_column_that_would_change_values_is_refused(
    address: str, there: str, values: pa.Array
) -> None:
    """A column that came back in another type filled the old one: "007" became 7."""
    name = re.sub(r"\W", "_", there)
    run(address, f'CREATE TABLE "{name}" (c {there}, t bigint, d bigint)')
    sink = PostgresTable(address, name)
    with pytest.raises(InvalidRequest, match="would change these values") as caught:
        sink.take(delivery({"c": values}))
    assert caught.value.details["column"] == "c"
    assert rows(address, f'SELECT * FROM "{name}"') == []


@pytest.mark.parametrize(
    ("there", "good", "changed"),
    [
        ("uuid", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6"),
        ("uuid", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "{f81d4fae-7dec-11d0-a765-00a0c91e6bf6}"),
        ("uuid", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "f81d4fae7dec11d0a76500a0c91e6bf6"),
        ("jsonb", '{"a":[1,null]}', '{"a":1,"a":2}'),
        ("jsonb", '"x"', ' "x"'),
        ("jsonb", "15", "1.50e1"),
        ("jsonb", '{"a":1,"b":2}', '{"b":2,"a":1}'),
        ("jsonb", "0", "-0"),
    ],
)
def test_a_text_that_a_column_keeps_otherwise_is_refused(
    address: str, there: str, good: str, changed: str
) -> None:
    """A key that stands twice was lost, and texts came back in another spelling."""
    run(address, f"DROP TABLE IF EXISTS spelt; CREATE TABLE spelt (c {there}, t bigint, d bigint)")
    run(address, "DROP TABLE IF EXISTS strata_positions")
    sink = PostgresTable(address, "spelt")
    assert sink.take(delivery({"c": pa.array([good, None])})) == 2
    with pytest.raises(InvalidRequest, match="would change this value") as refused:
        sink.take(delivery({"c": pa.array([None, good, changed])}, 10, 20))
    assert refused.value.details == {"column": "c", "type": there, "value": changed}
    assert rows(address, "SELECT count(*) FROM spelt") == [(2,)]


@pytest.mark.parametrize(
    ("there", "values"),
    [
        ("varchar", pa.array(["abc  "])),
        ("uuid", pa.array(["f81d4fae-7dec-11d0-a765-00a0c91e6bf6"])),
        ("json", pa.array(['{"a": 1.0}'])),
        ("text", pa.array([0], pa.timestamp("us", "UTC"))),
        ("bigint", pa.array([-1], pa.int16())),
        ("timestamp(6)", pa.array([1], pa.timestamp("us"))),
        ("numeric(10,3)", pa.array([Decimal("1.2")], pa.decimal128(9, 2))),
        ("some_text", pa.array(["abc"])),
    ],
    ids=str,
)
def test_a_table_may_be_made_before_with_types_that_keep_each_value(
    address: str, there: str, values: pa.Array
) -> None:
    run(address, "DROP DOMAIN IF EXISTS some_text CASCADE; CREATE DOMAIN some_text AS text")
    name = re.sub(r"\W", "_", f"fits_{there}")
    run(address, f"CREATE TABLE {name} (c {there}, t bigint, d bigint)")
    assert PostgresTable(address, name).take(delivery({"c": values})) == 1


def test_days_beyond_the_calendar_of_python_arrive(address: str) -> None:
    """A day after 9999, or before year 1, stopped a consumer for good."""
    days = pa.array([2_932_897, -719_163, 2_145_031_948, -719_529, 0], pa.int32()).view(pa.date32())
    micros = pa.array([253_402_300_800_000_001, 2**63 - 1, -62_135_596_800_000_001, None, 0])
    pairs = pa.map_(pa.string(), pa.date32())
    columns = {
        "day": days,
        "local": micros.cast(pa.timestamp("us")),
        "at": micros.cast(pa.timestamp("us", "UTC")),
        "inside": pa.array([[("a", day)] for day in days], pairs),
    }
    PostgresTable(address, "beyond").take(delivery(columns))
    run(address, f"ALTER DATABASE {address.rpartition('/')[2]} SET timezone = 'UTC'")
    found = rows(address, "SELECT day::text, local::text, at::text, inside FROM beyond")
    assert found == [
        (
            "10000-01-01",
            "10000-01-01 00:00:00.000001",
            "10000-01-01 00:00:00.000001+00",
            [["a", "+10000-01-01"]],
        ),
        (
            "0001-12-31 BC",
            "294247-01-10 04:00:54.775807",
            "294247-01-10 04:00:54.775807+00",
            [["a", "0000-12-31"]],
        ),
        (
            "5874868-01-01",
            "0001-12-31 23:59:59.999999 BC",
            "0001-12-31 23:59:59.999999+00 BC",
            [["a", "+5874868-01-01"]],
        ),
        ("0002-12-31 BC", None, None, [["a", "-0001-12-31"]]),
        ("1970-01-01", "1970-01-01 00:00:00", "1970-01-01 00:00:00+00", [["a", "1970-01-01"]]),
    ]


def test_a_day_that_postgresql_lacks_is_named_with_a_cure(address: str) -> None:
    day = pa.array([2**31 - 1], pa.int32()).view(pa.date32())
    with pytest.raises(InvalidRequest, match="column day") as caught:
        PostgresTable(address, "late").take(delivery({"day": day}))
    assert caught.value.cure is not None
    assert "--where" in caught.value.cure


def test_a_text_with_a_nul_is_named_by_its_column(address: str) -> None:
    with pytest.raises(InvalidRequest, match="has no NUL") as caught:
        PostgresTable(address, "nul").take(delivery({"a": pa.array(["x"]), "s": pa.array(["a\0"])}))
    assert caught.value.details["column"] == "s"


def test_two_programs_do_not_both_fill_a_table(address: str) -> None:
    one, two = PostgresTable(address, "shared"), PostgresTable(address, "shared")
    one.take(delivery({"id": pa.array([1])}))
    with pytest.raises(Fenced, match="another program"):
        two.take(delivery({"id": pa.array([1])}))
    assert rows(address, "SELECT id FROM shared") == [(1,)]


def test_a_shard_ends_in_a_table(address: str) -> None:
    relation, batches = fixed_history()
    stores = memory_stores()
    create(stores, relation)
    for lower, upper, runs in batches:
        append(stores, "shard", lower, upper, runs)
    sink = PostgresTable(address, "all_changes")
    assert Subscription(stores, "shard", "c", Wish()).into(sink) == (1, 4)
    found = rows(address, "SELECT id, t, d FROM all_changes ORDER BY id")
    assert found == [(0, 0, 1), (1, 5, 1), (10, 10, 1), (11, 15, 1)]


def test_a_database_that_is_away_is_said_without_its_password() -> None:
    with pytest.raises(Unavailable, match="does not answer") as caught:
        PostgresTable("postgresql://u:secret@127.0.0.1:1/x", "t").bookmark()
    assert "secret" not in str(caught.value)


def test_a_standby_is_worth_another_try(address: str) -> None:
    sink = PostgresTable(address, "stands_by")
    name = address.rpartition("/")[2]
    run(address, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    try:
        with pytest.raises(Unavailable, match="read-only transaction"):
            sink.take(delivery({"id": pa.array([1])}))
    finally:
        with psycopg.connect(address, options="-c default_transaction_read_only=off") as mended:
            mended.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only".encode())
    assert sink.take(delivery({"id": pa.array([1])})) == 1


@pytest.mark.parametrize("password", ["p%zz", "sec ret", "se@cret"])
def test_an_address_that_the_driver_does_not_understand_is_said_without_its_password(
    password: str,
) -> None:
    with pytest.raises(InvalidRequest, match="no address") as caught:
        PostgresTable(f"postgresql://u:{password}@127.0.0.1:1/x", "t").bookmark()
    assert not any(part in str(caught.value) for part in ("zz", "sec ret", "cret"))


def test_a_table_has_one_bookmark_by_whatever_name_it_is_called(address: str) -> None:
    PostgresTable(address, "named").take(delivery({"id": pa.array([1])}))
    for name in ("named", "public.named"):
        assert position(PostgresTable(address, name)) == 10
        with pytest.raises(Fenced):
            PostgresTable(address, name).take(delivery({"id": pa.array([1])}))
    elsewhere = f"{address}?options=-csearch_path%3Dother,public"
    run(address, "CREATE SCHEMA other")
    assert position(PostgresTable(elsewhere, "public.named")) == 10
    assert position(PostgresTable(elsewhere, "named")) is None


def test_many_programs_begin_at_one_time_in_one_schema(address: str) -> None:
    """Two of them make the table for bookmarks: PostgreSQL refused one, for good as it seemed."""
    run(address, "CREATE SCHEMA crowd")
    began = Barrier(8)

    def begin(number: int) -> str | None:
        began.wait(timeout=30)
        return PostgresTable(address, f"crowd.t{number}").bookmark()

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(begin, range(8))) == [None] * 8


def test_names_are_taken_as_they_are(address: str) -> None:
    run(address, 'CREATE SCHEMA "a%s"')
    sink = PostgresTable(address, 'a%s.x"; DROP TABLE "y')
    sink.take(delivery({'%s "z"; --': pa.array([1])}))
    assert position(sink) == 10
    assert rows(address, 'SELECT "%s ""z""; --" FROM "a%s"."x""; DROP TABLE ""y"') == [(1,)]


def test_names_that_postgresql_would_cut_are_refused(address: str) -> None:
    """Two tables, or columns, of the same first 63 bytes would be one."""
    for table in ("n" * 64, "", "public.", "strata_positions"):
        with pytest.raises(InvalidRequest):
            PostgresTable(address, table)
    with pytest.raises(InvalidRequest, match="63 bytes"):
        PostgresTable(address, "fine").take(delivery({"ü" * 32: pa.array([1])}))


@pytest.mark.parametrize("name", ["n", "n" * 63, "ü" * 31 + "n", f"{'s' * 63}.{'n' * 63}"])
def test_names_of_63_bytes_are_whole(name: str) -> None:
    assert PostgresTable("postgresql://nobody", name).bookmark is not None


def test_only_who_writes_locks_the_bookmark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at a sink waits for nobody who fills it."""
    asked: list[str] = []

    class Nothing:
        def fetchone(self) -> None:
            return None

    def noted(_: Any, text: str, *__: object) -> Nothing:
        asked.append(text)
        return Nothing()

    monkeypatch.setattr(table_sink, "_run", noted)
    sink, nobody = PostgresTable("postgresql://nobody", "n"), cast(Any, None)
    assert sink._stored(nobody) is None
    assert sink._stored(nobody, lock=True) is None
    assert ["FOR UPDATE" in text for text in asked] == [False, True]


def test_what_json_cannot_hold_is_text_inside_of_it(address: str) -> None:
    """One NaN in a column of type numeric stopped a consumer for good."""
    at = datetime(2026, 1, 2, tzinfo=UTC)
    inside = {"x": float("nan"), "y": [float("-inf"), 1.5], "b": b"\x00\xff", "at": at}
    PostgresTable(address, "nested").take(delivery({"r": pa.array([inside])}))
    assert rows(address, "SELECT r FROM nested") == [
        ({"x": "nan", "y": ["-inf", 1.5], "b": "00ff", "at": "2026-01-02T00:00:00Z"},)
    ]


def test_a_table_that_is_gone_is_not_begun_in_the_middle(address: str) -> None:
    sink = PostgresTable(address, "gone")
    sink.take(delivery({"id": pa.array([1])}))
    run(address, "DROP TABLE gone")
    with pytest.raises(InvalidRequest, match="is gone"):
        sink.bookmark()
    with pytest.raises(InvalidRequest, match="is gone"):
        sink.take(delivery({"id": pa.array([1])}, 10, 20))


def test_a_table_takes_the_changes_of_one_consumer_only(address: str) -> None:
    """The changes before the position of the other were left out, without a word."""
    relation, batches = fixed_history()
    one, two = memory_stores(), memory_stores()
    for stores in (one, two):
        create(stores, relation)
        for lower, upper, runs in batches:
            append(stores, "shard", lower, upper, runs)
    sink = PostgresTable(address, "of_one")
    assert following(one, "shard", "c", sink, Wish()).into(sink) == (1, 4)
    with pytest.raises(InvalidRequest, match="another consumer"):
        following(two, "shard", "other", sink, Wish())
    with pytest.raises(InvalidRequest, match="another consumer"):
        Subscription(two, "shard", "other", Wish()).into(sink)


@pytest.mark.parametrize(
    ("there", "holds"),
    [
        ("numeric(9,2)", True),
        ("numeric(11,4)", True),
        ("numeric(9,4)", False),
        ("numeric(8,2)", False),
        ("numeric(38,1)", False),
    ],
)
def test_a_column_of_decimals_holds_those_whose_digits_fit_on_both_sides(
    there: str, holds: bool
) -> None:
    assert table_sink._holds(there, "numeric(9,2)", pa.decimal128(9, 2)) is holds
