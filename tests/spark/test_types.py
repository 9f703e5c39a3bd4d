"""Every type, in every layout, looks the same to all readers; filters lose nothing."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.datasource import GreaterThan

from strata.decide.plan import plan_read
from strata.format.columns import updates_schema
from strata.format.values.view import to_view
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import LAYOUTS
from strata.model.types import NESTED, parse_type
from strata.read.scan import read_updates, scan, scan_schema
from strata.spark import snapshot
from strata.spark.carried import packed_up
from strata.spark.datasource import StrataSource
from strata.spark.front.catalyst import analyse
from strata.spark.front.pushed import pushed_filter
from strata.spark.rows import quoted
from strata.store.open import open_stores
from tests.formats.every_type import ROWS, TYPES, updates
from tests.support.stored import append, spec_of
from tests.support.values import plain, same

pytestmark = pytest.mark.usefixtures("read_by")

NAME = "types"
ODD = "a name, `quoted`; é.b"  # of one column
# Type, and a filter on its column, which is called `c`.
FILTERS = [
    ("string", "c < 'b'"),
    ("bool", "c"),
    ("uint8", "c > 127"),
    ("uint16", "c between 1 and 40000"),
    ("uint32", "c = 4294967295"),
    ("uint64", "c >= 9223372036854775808"),
    ("oid", "c + 1 > 2"),
    ("mz_timestamp", "c <= 1700000000000"),
    ("float64", "c > 0 or isnan(c)"),
    ("numeric(38,9)", "c < 0"),
    ("numeric", "c.approx < 0"),
    ("numeric", "c.text = 'NaN'"),
    ("date", "c > date'2000-01-01'"),
    ("time", "c >= '23:59:60'"),
    ("time", "c = '01:01:01.000000000'"),
    ("timestamptz", "c > timestamp'2024-01-01 00:00:00'"),
    ("interval", "c.months < 0"),
    ("interval day to second", "c >= interval '1' day"),
    ("interval day to second", "c < interval '0' second"),
    ("interval year to month", "c >= interval '1' year"),
    ("interval year to month", "c = interval '-1' month"),
    ("char(5)", "c = 'a'"),
    ("bytes", "c = X'00FF'"),
    ("jsonb", "get_json_object(c, '$.a') = '1'"),
    ("uuid", "c = 'f81d4fae-7dec-11d0-a765-00a0c91e6bf6'"),
    ("uuid", "c < '1'"),
    ("aclitem", "c.grantee = 0 and c.mode > 5"),
    ("mz_aclitem", "c.grantee = 'p'"),
    ("list<int32>", "array_contains(c, 1)"),
    ("list<int32>", "size(c) > 2"),
    ("array<int64>", "size(c.dims) = 2"),
    ("map<int64>", "c['a'] = 1"),
    (
        "record<lat: float64, a.b: list<int32>, odd `name`: record<deep: time>, none: record<>>",
        "c.lat > 1 and c.`odd ``name```.deep is not null",
    ),
    ("record<>", "c is null"),
    ("range<int32>", "c.lower <= 5 or c.empty"),
    ("range<numeric>", "c.upper.approx >= 1000"),
    ("range<timestamptz>", "c.upper < timestamp'1970-01-01 00:00:00'"),
]

# Flat types of which no part is skipped by these filters.
UNPRUNED: set[str] = set()


def column_name(kind: str) -> str:
    return ODD if kind == "uuid" else f"c{list(TYPES).index(kind)}"


RELATION = Relation(
    0,
    (
        Column(1, "id", parse_type("int64"), nullable=False),
        *(Column(i, column_name(kind), parse_type(kind)) for i, kind in enumerate(TYPES, 2)),
    ),
    key=(1,),
    order=(),
)


def rows(first: int) -> pa.Table:
    """Return updates: the values of every type, with ids from `first` on."""
    table = updates()
    ids = pa.array(range(first, first + ROWS), pa.int64())
    zeros, ones = (pa.array([n] * ROWS, pa.int64()) for n in (0, 1))
    values = [table.column(str(i)).combine_chunks() for i in range(1, len(TYPES) + 1)]
    schema = updates_schema(RELATION)
    return pa.Table.from_arrays([ids, *values, zeros, ones], schema=schema)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Write a batch in each layout, each row a part of its own; return how to reach them."""
    folder: Path = tmp_path_factory.mktemp("types")
    settings = Settings(StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/consensus.db"))
    stores = open_stores(settings.store)
    Machine(stores).create(spec_of(RELATION, NAME))
    for number, layout in enumerate(LAYOUTS):
        table = rows(ROWS * number)
        at = table.schema.get_field_index("t")
        times = pa.array([number] * ROWS, pa.int64())
        table = table.set_column(at, table.schema.field(at), times)
        runs = [table.slice(row, 1) for row in range(ROWS)]
        append(stores, NAME, number, number + 1, runs, layout)
    return settings


def expected() -> pa.Table:
    """Return what every reader must see, by id."""
    tables = [rows(ROWS * number) for number in range(len(LAYOUTS))]
    whole = pa.concat_tables(tables).combine_chunks()
    columns = [
        to_view(column.chunk(0), column_of.type)
        for column, column_of in zip(whole.columns, RELATION.columns, strict=False)
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(list(scan_schema(RELATION))[:-2]))


def assert_expected(found: pa.Table) -> None:
    """Compare columns by name, in order of the ids, in the types of an Arrow scan."""
    want = expected()
    found = found.sort_by("id").select(want.column_names).cast(want.schema)
    for name in want.column_names:
        assert same(plain(found.column(name)), plain(want.column(name))), name


def test_a_snapshot_shows_the_view_of_every_type(spark: SparkSession, settings: Settings) -> None:
    frame = snapshot(spark, NAME, config=settings)

    assert_expected(packed_up(frame).toArrow())
    kinds = dict(frame.dtypes)
    assert kinds[column_name("interval year to month")] == "interval year to month"
    assert kinds[column_name("interval day to second")] == "interval day to second"


def test_consolidated_rows_of_every_type_come_once(spark: SparkSession, settings: Settings) -> None:
    assert_expected(packed_up(snapshot(spark, NAME, consolidate=True, config=settings)).toArrow())


@pytest.mark.parametrize("consolidate", ["false", "true"])
def test_the_data_source_shows_the_same(
    spark: SparkSession,
    settings: Settings,
    tmp_path: Path,
    consolidate: str,
) -> None:
    config = tmp_path / "strata.toml"
    store = settings.store
    config.write_text(f'[store]\nblob = "{store.blob}"\nconsensus = "{store.consensus}"\n')
    spark.dataSource.register(StrataSource)

    frame = (
        spark.read.format("strata")
        .option("shard", NAME)
        .option("config", str(config))
        .option("consolidate", consolidate)
        .load()
    )
    assert dict(frame.dtypes)[column_name("interval year to month")] == "int"
    assert_expected(frame.toArrow())


def test_an_arrow_scan_shows_the_same(settings: Settings) -> None:
    stores = open_stores(settings.store)
    state = Machine(stores).load(NAME)

    for consolidate in (False, True):
        batches = scan(stores, state, plan_read(stores, state), consolidate=consolidate)
        assert_expected(pa.Table.from_batches(batches, schema=scan_schema(RELATION)))


def condition(kind: str, sql: str) -> str:
    """Return the filter with `c` replaced by the name of the type's column."""
    name = quoted(column_name(kind))
    return re.sub(r"(?<![\w.'])c(?![\w'(])", lambda _: name, sql)


def test_no_filter_skips_a_part_that_has_a_row_for_it(
    spark: SparkSession, settings: Settings
) -> None:
    """Spark says which rows satisfy each filter; the plan must fetch the parts of all of them."""
    stores = open_stores(settings.store)
    state = Machine(stores).load(NAME)
    everything = plan_read(stores, state, mode="off").fetched
    ids = {ref.key: read_updates(stores, state, ref)["1"][0].as_py() for ref in everything}
    conditions = [condition(kind, sql) for kind, sql in FILTERS]
    whole = snapshot(spark, NAME, config=settings)
    told = whole.select("id", *(fn.expr(sql).alias(f"f{n}") for n, sql in enumerate(conditions)))
    rows_ = told.collect()

    pruned = set()
    for n, ((kind, _), sql) in enumerate(zip(FILTERS, conditions, strict=True)):
        right = {row.id for row in rows_ if row[f"f{n}"]}
        plan = plan_read(stores, state, filter=analyse(spark, RELATION, sql, now=0), mode="on")
        assert right, sql
        assert right <= {ids[ref.key] for ref in plan.fetched}, sql
        if plan.parts_skipped:
            pruned.add(kind)
    flat = {kind for kind, _ in FILTERS if parse_type(kind).kind not in NESTED}
    assert flat - pruned <= UNPRUNED


def test_rows_are_filtered_by_views(spark: SparkSession, settings: Settings) -> None:
    text = condition("uuid", "c > 'f'")
    number = condition("uint64", "c > 9223372036854775807")
    frame = snapshot(spark, NAME, columns=["id"], where=f"{text} and {number}", config=settings)

    assert sorted(row.id for row in frame.collect()) == [2, 10, 18]


RECORD = next(kind for kind in TYPES if kind.startswith("record<lat"))


@pytest.mark.parametrize(
    ("kind", "path", "value", "sql"),
    [
        (RECORD, ("lat",), 1.5, "c.lat > 1.5D"),
        (RECORD, ("odd `name`", "deep"), "12", "c.`odd ``name```.deep > '12'"),
        ("numeric", ("approx",), 0.5, "c.approx > 0.5D"),
        ("uuid", (), "a", "c > 'a'"),
    ],
)
def test_a_pushed_filter_is_the_analysed_one(
    spark: SparkSession, kind: str, path: tuple[str, ...], value: object, sql: str
) -> None:
    found = pushed_filter([GreaterThan((column_name(kind), *path), value)], RELATION)

    assert found is not None
    assert found.expr == analyse(spark, RELATION, condition(kind, sql), now=0).expr
