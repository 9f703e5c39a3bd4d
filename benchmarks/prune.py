"""How long deciding a filter takes, by number of parts: `python -m benchmarks.prune [PARTS ...]`.

The filter has three leaves on three columns: a recent day by `date_trunc` and interval
arithmetic relative to the clock, arithmetic on a double, and a JSON path read as a number.
Statistics are loaded; nothing else is. Prints the best and the median of some runs,
in milliseconds of one core.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.decision import Decision, decide
from strata.decide.reasons import explain
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.types import parse_type

DAY_US = 86_400_000_000
NOW_US = 1_750_000_000_000_000
RELATION = Relation(
    0,
    (
        Declared(1, "ts", parse_type("timestamptz")),
        Declared(2, "amount", parse_type("float64")),
        Declared(3, "payload", parse_type("jsonb")),
        Declared(4, "customer", parse_type("string")),
        Declared(5, "sizes", parse_type("list<int32>")),
        Declared(6, "attrs", parse_type("map<int32>")),
    ),
    (1,),
    (1,),
)

# With a column whose parts hold more than one text each
RANGED = Relation(
    0,
    (*RELATION.columns, Declared(7, "code", parse_type("string"))),
    RELATION.key,
    RELATION.order,
)


def statistics_of(parts: int, seed: int = 7) -> pa.Table:
    """Return invented statistics: ten years by time, amounts and paths without order."""
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(NOW_US - 3650 * DAY_US, NOW_US, parts))
    amount, number = rng.normal(60, 20, parts), rng.integers(0, 1000, parts).astype(np.float64)
    zeros, rows = np.zeros(parts, np.int64), np.full(parts, 10_000, np.int64)
    customer = pa.array([f"c{i:07d}" for i in rng.integers(0, 10**7, parts)])
    timestamp = pa.timestamp("us", "UTC")
    size = rng.integers(0, 10**6, parts).astype(np.int32)
    lengths = {"shortest": zeros + 1, "longest": zeros + 5}
    inside = {"count": 3 * rows, "nulls": zeros}
    return pa.table(
        {
            "rows": rows,
            "s.1": _struct(
                nulls=zeros,
                low=pa.array(ts).cast(timestamp),
                high=pa.array(ts + DAY_US).cast(timestamp),
            ),
            "s.2": _struct(nulls=zeros, nans=zeros, low=amount, high=amount + 5),
            "s.3": _struct(nulls=zeros),
            "s.3$": _path(rows, maps=rows),
            "s.3$.a": _path(rows, numbers=rows, num_low=number, num_high=number + 10),
            "s.4": _struct(nulls=zeros, low=customer, high=customer),
            "s.5": _struct(nulls=zeros, **lengths),
            "s.5/[]": _struct(**inside, low=size, high=size + 50),
            "s.6": _struct(nulls=zeros, **lengths),
            "s.6/{k}": _struct(**inside, low=customer, high=customer),
            "s.6/{v}": _struct(**inside, low=size, high=size + 50),
        }
    )


def ranged(stats: pa.Table) -> pa.Table:
    """Return the statistics with the column of `RANGED`."""
    customer = stats["s.4"].combine_chunks().field("low")
    behind = pc.binary_join_element_wise(customer, "9", "")
    zeros = np.zeros(stats.num_rows, np.int64)
    return stats.append_column("s.7", _struct(nulls=zeros, low=customer, high=behind))


def _struct(**fields: object) -> pa.Array:
    return pa.StructArray.from_arrays([pa.array(v) for v in fields.values()], list(fields))


def _path(rows: np.ndarray, **known: np.ndarray) -> pa.Array:
    zeros, parts = np.zeros(len(rows), np.int64), len(rows)
    counts = ("json_nulls", "bools", "trues", "numbers", "strings", "lists", "maps")
    nothing = {"str_low": pa.nulls(parts, pa.string()), "str_high": pa.nulls(parts, pa.string())}
    bounds = {name: known.get(name, np.zeros(parts)) for name in ("num_low", "num_high")}
    found = {name: known.get(name, zeros) for name in counts}
    complete = {"complete": np.ones(parts, bool)}
    return _struct(present=rows, **found, **bounds, **nothing, **complete)


def _call(function: str, kind: str, *args: Expr) -> Call:
    return Call(function, args, kind)


def filters() -> dict[str, Expr]:
    """Return the filters that are timed."""
    ts, amount = Column(1, "ts", "timestamp"), Column(2, "amount", "double")
    payload, customer = Column(3, "payload", "string"), Column(4, "customer", "string")
    ago = Literal(-30 * DAY_US, "interval day to second")
    since = _call(
        "timestamp_add_interval", "timestamp", _call("current_timestamp", "timestamp"), ago
    )
    recent = _call(
        "greater_than",
        "boolean",
        _call("date_trunc", "timestamp", Literal("day", "string"), ts),
        since,
    )
    cheap = _call(
        "less_than",
        "boolean",
        _call("multiply", "double", amount, Literal(2.0, "double")),
        Literal(100.0, "double"),
    )
    path = _call("get_json_object", "string", payload, Literal("$.a", "string"))
    number = Call("cast", (path,), "double", (("ansi", "ansi"),))
    near = _call("equal_to", "boolean", number, Literal(5.0, "double"))
    return {
        "three leaves": _call("and", "boolean", recent, cheap, near),
        "three leaves, last first": _call("and", "boolean", near, cheap, recent),
        "thirty leaves": _call("or", "boolean", *(_wide(ts, amount, n) for n in range(10))),
        "thirty leaves, some true": _call(
            "or", "boolean", *(_wide(ts, amount, n, most=110.0 * (2 + n)) for n in range(10))
        ),
        "text prefix": _call("starts_with", "boolean", customer, Literal("c0001", "string")),
        "text equality": _call("equal_to", "boolean", customer, Literal("c0001234", "string")),
        "upper case": _call(
            "equal_to", "boolean", _call("upper", "string", customer), Literal("C01", "string")
        ),
        "text equality, ranges": _call(
            "equal_to", "boolean", Column(7, "code", "string"), Literal("c0001234", "string")
        ),
        **_nested(),
    }


def _nested() -> dict[str, Expr]:
    """Return filters on what is inside a list and a map."""
    sizes, attrs = Column(5, "sizes", "array<int>"), Column(6, "attrs", "map<string,int>")
    many, key = Literal(999_990, "integer"), Literal("c0001234", "string")
    any_size = _call("element", "integer", sizes)
    first = _call("get_array_item", "integer", sizes, Literal(0, "integer"))
    return {
        "list contains": _call("array_contains", "boolean", sizes, Literal(500, "integer")),
        "lambda": _call(
            "exists", "boolean", sizes, _call("greater_than", "boolean", any_size, many)
        ),
        "first element": _call("greater_than", "boolean", first, many),
        "map value": _call(
            "greater_than", "boolean", _call("get_map_value", "integer", attrs, key), many
        ),
    }


def _wide(ts: Expr, amount: Expr, number: int, most: float = 1e6) -> Call:
    """Return three leaves that spare none behind them; no part satisfies them, or one in 170."""
    day = _call("date_trunc", "timestamp", Literal("day", "string"), ts)
    twice = _call("multiply", "double", amount, Literal(2.0 + number, "double"))
    later = Literal(NOW_US + (10 + number) * DAY_US, "timestamp")
    return _call(
        "or",
        "boolean",
        _call("greater_than", "boolean", day, later),
        _call("greater_than", "boolean", twice, Literal(most, "double")),
        _call("less_than", "boolean", ts, Literal(-number, "timestamp")),
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", type=int, default=[1000, 100_000, 1_000_000])
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    print(f"{'filter':26} {'parts':>9} {'kept':>8} {'best ms':>9} {'median ms':>9}")
    for parts in options.parts:
        stats = ranged(statistics_of(parts))
        for name, expr in filters().items():
            filter = Filter(expr, name, NOW_US, NOW_US)
            decision, times = _timed(lambda f=filter, s=stats: decide(f, s, RANGED), options.runs)
            kept = int(decision.keep.sum())
            best, median = min(times) * 1e3, statistics.median(times) * 1e3
            print(f"{name:26} {parts:>9} {kept:>8} {best:>9.2f} {median:>9.2f}")
    print(explain(Filter(filters()["three leaves"], "", NOW_US, NOW_US), stats, RANGED, [0])[0])


def _timed(run: Callable[[], Decision], runs: int) -> tuple[Decision, list[float]]:
    times = []
    for _ in range(runs):
        start = time.process_time()
        decision = run()
        times.append(time.process_time() - start)
    return decision, times


if __name__ == "__main__":
    main()
