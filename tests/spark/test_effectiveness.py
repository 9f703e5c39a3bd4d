"""Law 10: filters that must prune do prune. How many of a hundred parts each of them keeps.

Part p of the shard holds the day p of 2013, ids p*10 to p*10+9, and so on: see `_row`. The clock
stands on the last of these days. The number is that of the parts which hold a matching row, but
where a comment says why more are kept.
"""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from strata.decide.plan import plan_read
from strata.decide.static import outlook
from strata.format.columns import updates_schema
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.spec import StatsSpec
from strata.model.types import parse_type
from strata.spark.front.catalyst import analyse
from strata.store.open import Stores
from tests.support.stored import append, create, memory_stores

pytestmark = pytest.mark.spark
PARTS, ROWS = 100, 10
START = datetime(2013, 1, 1, tzinfo=UTC)
NOW_US = int(datetime(2013, 4, 10, 12, tzinfo=UTC).timestamp()) * 1_000_000
TYPES = {
    "id": "int64", "carrier": "string", "at": "timestamptz", "day": "date", "local": "timestamp",
    "born": "date", "seconds": "int64", "price": "numeric(10,2)", "ratio": "float64",
    "small": "int16", "wide": "uint16", "flag": "bool", "gap": "int32", "raw": "bytes",
    "payload": "jsonb",
    "st": "record<i: int32, at: timestamptz, in: record<d: float64, s: string>>",
    "tags": "list<string>", "scores": "list<float64>", "attrs": "map<int32>",
    "legs": "list<record<at: timestamptz, stop: string>>",
}  # fmt: skip
RELATION = Relation(
    0,
    tuple(Column(i, name, parse_type(kind)) for i, (name, kind) in enumerate(TYPES.items(), 1)),
    (2, 1),
    (),
)
J = "get_json_object(payload, '$.{}')".format

CASES: list[tuple[str, int]] = [
    # Times.
    ("at >= timestamp'2013-04-01 00:00:00'", 10),
    ("at < '2013-01-02'", 1),
    ("date_trunc('month', at) = timestamp'2013-02-01 00:00:00'", 28),
    ("date_trunc('day', at) > now() - interval 5 days", 5),
    ("date_trunc('week', at) = timestamp'2013-01-07 00:00:00'", 7),
    ("date_trunc('quarter', at) = timestamp'2013-04-01 00:00:00'", 10),
    ("at > now() - interval '36' hour", 2),
    ("at between timestamp'2013-01-05 00:00:00' and timestamp'2013-01-06 23:00:00'", 2),
    ("at + interval '1' month < timestamp'2013-02-03 00:00:00'", 2),
    ("cast(at as date) = date'2013-01-10'", 1),
    ("to_date(at) between '2013-01-10' and '2013-01-12'", 3),
    ("year(at) = 2012", 0),
    ("unix_timestamp(at) < 1356998400 + 86400 * 2", 2),
    ("unix_millis(at) >= 1365552000000", 1),
    ("timestamp_seconds(seconds) < timestamp'2013-01-03 00:00:00'", 2),
    ("at - timestamp'2013-01-01 00:00:00' < interval '3' day", 3),
    ("local >= timestamp_ntz'2013-04-10 00:00:00'", 1),
    ("cast(local as date) < date'2013-01-04'", 3),
    # Dates.
    ("day = '2013-02-01'", 1),
    ("day > current_date() - 3", 3),
    ("day + interval 1 month > date'2013-04-30'", 10),
    ("add_months(day, 1) >= date'2013-05-05'", 6),
    ("date_add(day, 30) < date'2013-02-05'", 5),
    ("date_sub(day, 1) = date'2013-03-01'", 1),
    ("datediff(day, date'2013-01-01') < 3", 3),
    ("trunc(day, 'month') = date'2013-03-01'", 31),
    ("last_day(day) = date'2013-01-31'", 31),
    ("month(day) = 1", 31),
    ("monthname(day) = 'Feb'", 28),
    ("dayname(day) = 'Mon'", 14),
    ("year(born) = 1950", 1),
    ("extract(year from born) in (1921, 1999)", 2),
    ("make_date(year(born), 1, 1) > date'2015-06-01'", 4),
    # Key prefixes, texts.
    ("carrier like 'B%'", 10),
    ("carrier >= 'J9'", 1),
    ("startswith(carrier, 'C1')", 1),
    ("substring(carrier, 1, 1) = 'D'", 10),
    ("left(carrier, 2) = 'E5'", 1),
    ("carrier in ('A00', 'J99')", 2),
    ("concat(carrier, 'x') < 'A1'", 1),
    ("carrier between 'B2' and 'B39'", 2),
    ("concat('x', st.in.s, '-', carrier) = 'xs012-B20'", 1),
    ("st.in.s || '/' || cast(id as string) in ('s012/125', 's013/120')", 1),
    ("concat_ws('-', st.in.s, carrier) = 's012-B25'", 1),
    ("cast(id as string) = '777'", 1),
    ("cast(flag as string) = 'true' and id < 600", 1),
    ("carrier = 'A00' and id < 1000", 1),
    # Numbers.
    ("id = 555", 1),
    ("id in (5, 15, 995)", 3),
    ("id between 100 and 119", 2),
    ("id = 5 or id = 995", 2),
    ("not (id < 10 or id > 19)", 1),
    ("id + 1 > 990", 1),
    ("id * 2 < 40", 2),
    ("-id > -10", 1),
    ("id div 100 = 3", 10),
    ("id / 10 >= 99", 1),
    ("abs(small) <= 1", 3),
    ("small < -48", 2),
    ("wide >= 59400", 1),
    ("price >= 99", 1),
    ("price = 5.05", 1),
    ("price * 2 < 1", 1),
    ("round(price) = 50", 1),
    ("floor(price) = 3", 1),
    ("cast(price as int) = 5", 1),
    ("cast(small as double) > 48.5", 1),
    ("ratio between 1 and 1.5", 3),
    ("raw = X'05'", 1),
    # NaN and null.
    ("isnan(ratio)", 1),
    ("ratio = double('NaN')", 1),
    ("ratio > 1e6", 1),
    ("gap is null", 20),
    ("gap is not null and id < 210", 1),
    ("gap <=> null", 20),
    ("not (gap is not null)", 20),
    ("gap > 95", 4),
    # Choices.
    ("case when id < 500 then 'low' else 'high' end = 'low'", 50),
    ("if(flag, id, 0) > 950", 5),
    ("coalesce(gap, -1) = -1", 20),
    ("nvl(gap, 0) > 95", 4),
    ("nullif(id, 5) is null", 1),
    ("greatest(id, 500) = 500", 51),
    ("least(small, 0) < -48", 2),
    # Booleans.
    ("flag", 41),
    ("not flag", 60),
    ("flag and id < 650", 6),
    ("flag is false", 60),
    ("flag or id = 5", 42),
    # Forms that give null instead of an error.
    ("try_add(id, 1) > 990", 1),
    ("try_divide(id, 10) >= 99", 1),
    ("try_cast(price as int) = 7", 1),
    # JSON.
    (f"{J('s')} = 'k042'", 1),
    (f"{J('s')} like 'k09%'", 10),
    (f"cast({J('n')} as int) < 20", 2),
    (f"cast({J('n')} as bigint) + 1 > 990", 1),
    (f"cast({J('f')} as double) = 12.5", 1),
    (f"{J('o.x')} is not null and cast({J('o.x')} as int) = 7", 1),
    (f"{J('o.y.z')} > 'z097'", 2),
    (f"{J('late')} is not null", 10),
    (f"cast({J('late')} as int) > 95", 4),
    (f"{J('b')} = 'true'", 40),
    (f"{J('none')} = 'x'", 0),
    # Fields of structs.
    ("st.i = 5", 1),
    ("st.in.d > 24", 3),
    ("st.in.s like 's09%'", 10),
    ("coalesce(st.i, 0) > 97", 2),
    ("date_trunc('day', st.at) = timestamp'2013-01-03 00:00:00'", 1),
    # Elements of lists: part p holds the tags t{p} and t{p+1}, one more from part 50 on.
    ("array_contains(tags, 't042')", 2),
    ("tags[0] = 't042'", 2),  # an element may stand anywhere
    ("element_at(tags, 1) in ('t000', 't099')", 3),
    ("element_at(tags, -1) > 't098'", 2),
    ("try_element_at(tags, 3) is not null", 50),
    ("get(tags, 2) = 't055'", 2),
    ("size(tags) > 2", 50),
    ("array_size(tags) = 2 and array_contains(tags, 't051')", 0),
    ("exists(tags, t -> t like 't09%')", 11),
    ("exists(tags, t -> upper(t) = 'T010')", 19),  # known of upper is the start that tags share
    ("forall(tags, t -> t < 't003')", 3),
    ("size(filter(tags, t -> t >= 't098')) > 0", 3),
    ("array_max(tags) = 't100'", 1),
    ("array_min(tags) < 't001'", 1),
    ("arrays_overlap(tags, array('t000', 't097'))", 3),
    ("array_position(tags, 't042') > 0", 2),
    ("array_contains(transform(tags, t -> substring(t, 1, 3)), 't07')", 11),
    ("element_at(array_distinct(tags), 1) = 't042'", 2),
    ("sort_array(tags)[0] = 't042'", 2),
    ("exists(scores, x -> isnan(x))", 1),
    ("array_max(scores) > 98", 3),  # NaN is the greatest
    ("scores[0] + 1 > 99.5", 3),
    ("exists(scores, x -> x is null)", 1),
    ("array_max(transform(scores, (x, n) -> x + n)) > 99.5", 4),
    # Maps: the keys are k{p / 10} and n, the values p and 1.
    ("attrs['k3'] is not null", 40),  # n sorts behind all k
    ("attrs['n'] = 1 and attrs['k0'] > 0", 10),
    ("attrs['k9'] > 97", 2),
    ("element_at(attrs, 'k9') > 97", 2),
    ("try_element_at(attrs, 'a') = 1", 0),
    ("map_contains_key(attrs, 'k0')", 10),
    ("array_contains(map_keys(attrs), 'k0')", 10),
    ("array_contains(map_values(attrs), 99)", 1),
    ("exists(map_values(attrs), v -> v > 97)", 2),
    ("exists(map_entries(attrs), e -> e.value > 97 and e.key like 'k%')", 2),
    ("cardinality(attrs) > 2", 0),
    # Fields of records in lists.
    ("legs[0].stop = 's042'", 1),
    ("array_contains(legs.stop, 's042')", 1),
    ("exists(legs, l -> l.at >= timestamp'2013-04-09 00:00:00')", 2),
    ("exists(legs.stop, s -> s > 's097')", 2),
    # Pieces of texts.
    ("lower(carrier) = 'b55'", 1),
    ("upper(carrier) = 'B55'", 1),
    ("carrier ilike 'b%'", 10),
    ("lower(carrier) like 'i%'", 10),
    ("substring_index(st.in.s, '-', 1) = 's042'", 1),
    ("split_part(st.in.s, '-', 1) between 's041' and 's042'", 2),
    ("regexp_replace(carrier, '[0-9]', '') = 'A' and id < 20", 2),
    ("locate('A', carrier) > 0 and id < 20", 2),
    ("split(carrier, '-')[0] = 'A00' and id < 20", 1),
    ("concat_ws('-', carrier, st.in.s) > 'A' and id < 20", 2),
    # Intervals, buckets, and differences in months.
    ("at + make_dt_interval(1) < timestamp'2013-01-04 00:00:00'", 2),
    ("day + make_ym_interval(0, 1) >= date'2013-05-05'", 6),
    ("at > timestamp'2013-04-01 00:00:00' + interval '1' day * 5", 5),
    ("timestamp'2013-01-01 00:00:00' + interval '1' day * small > at", 0),
    ("extract(hour from (at - timestamp'2013-01-01 00:00:00')) > 18", 0),
    ("array_contains(array(id, id + 1), 500L)", 2),
    ("timestampdiff(month, timestamp'2013-01-01 00:00:00', at) >= 3", 10),
    ("timestampdiff(year, at, timestamp'2020-01-01 00:00:00') < 5", 0),
    ("width_bucket(ratio, 0D, 25D, 5) = 5", 20),
    # Several conjuncts, each of which rules out some.
    ("id >= 100 and at < timestamp'2013-01-21 00:00:00' and not flag", 10),
    ("cast(carrier as int) > 5 and id < 0", 100),  # the cast fails before id is looked at
    ("id < 0 and cast(carrier as int) > 5", 0),
]
# Nothing is known of these functions: such a filter keeps every part, and is known to.
HOPELESS = ["rand() < 0.5", "pmod(hash(id), 2) = 0", "rand() < 0.5 and id < 0"]


def _row(p: int, r: int) -> tuple[Any, ...]:
    at = START + timedelta(days=p, hours=2 * r)
    document = {
        "n": p * 10 + r,
        "f": p + 0.5,
        "s": f"k{p:03}",
        "o": {"x": p, "y": {"z": f"z{p:03}"}},
        "b": p >= 60,
        **({"late": p} if p >= 90 else {}),
    }
    return (
        p * 10 + r, f"{'ABCDEFGHIJ'[p // 10]}{p % 10}{r}", at, at.date(), at.replace(tzinfo=None),
        date(1920 + p, 7, 1), int(at.timestamp()), Decimal(p * 100 + r).scaleb(-2),
        float("nan") if (p, r) == (7, 0) else p / 4 + r / 100, p - 50, p * 600,
        p >= 60 or (p, r) == (30, 0), None if p < 20 else p, bytes([p]),
        json.dumps(document, sort_keys=True, separators=(",", ":")),
        {"i": p, "at": at, "in": {"d": p / 4, "s": f"s{p:03}"}},
        [f"t{p:03}", f"t{p + 1:03}", f"t{p:03}"][: 3 if p >= 50 else 2],
        [p + r / 10, float("nan") if (p, r) == (5, 0) else p, None if (p, r) == (6, 0) else p],
        [(f"k{p // 10}", p), ("n", 1)],
        [{"at": at, "stop": f"s{p:03}"}, {"at": at, "stop": None}],
    )  # fmt: skip


def _run(p: int) -> pa.Table:
    rows = [(*_row(p, r), p // 50, 1) for r in range(ROWS)]
    schema = updates_schema(RELATION)
    columns = zip(zip(*rows, strict=True), schema, strict=True)
    return pa.Table.from_arrays([pa.array(v, f.type) for v, f in columns], schema=schema)


@pytest.fixture(scope="module")
def stores() -> Iterator[Stores]:
    """Write two batches of fifty parts."""
    stores = memory_stores()
    spec = StatsSpec(budget_bytes=100_000)
    create(stores, RELATION, stats=spec, part_bytes=1 << 20, row_group_bytes=1 << 20)
    for number in range(2):
        runs = [_run(p) for p in range(50 * number, 50 * number + 50)]
        append(stores, "shard", number, number + 1, runs, "structured")
    return stores


def test_filters_keep_no_more_parts_than_they_must(spark: SparkSession, stores: Stores) -> None:
    state = Machine(stores).load("shard")
    found = []
    for sql, _ in CASES:
        filter = analyse(spark, RELATION, sql, now=NOW_US)
        plan = plan_read(stores, state, filter=filter, mode="on")
        assert plan.parts_total == PARTS
        found.append((sql, plan.parts_fetched))
        assert plan.parts_fetched == PARTS or outlook(filter).could_skip, sql

    assert len(CASES) >= 60
    wrong = [(sql, kept, n) for (sql, n), (_, kept) in zip(CASES, found, strict=True) if kept != n]
    assert not wrong, "\n".join(f"{sql}: kept {kept}, expected {n}" for sql, kept, n in wrong)


def test_hopeless_filters_are_known_to_be(spark: SparkSession, stores: Stores) -> None:
    state = Machine(stores).load("shard")
    for sql in HOPELESS:
        filter = analyse(spark, RELATION, sql, now=NOW_US)

        assert not outlook(filter).could_skip, sql
        assert not plan_read(stores, state, filter=filter, mode="on").parts_skipped, sql
