"""Pruning beside peers, on equal statistics: `python -m benchmarks.pruning_peers --peers PYTHON`.

Speed: planning one read of plain comparisons on three columns. Precision: how many of 1,000 files
are kept for each filter of `benchmarks.pruning_filters`, beside what exact intervals keep.

The peers live in an environment of their own, which PYTHON is the interpreter of:

    python -m venv /tmp/peers
    /tmp/peers/bin/pip install deltalake 'pyiceberg[sql-sqlite]' datafusion pyarrow numpy

A peer that is not there is left out, and named. Rounds are interleaved; CPU time of all threads.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.pruning_filters import DAY_US, FILTERS, TIMED, bounds
from strata.decide.decision import decide
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.types import parse_type

KINDS = {"n": "int64", "amount": "float64", "ts": "timestamptz", "name": "string"}
RELATION = Relation(
    0,
    tuple(Declared(i, name, parse_type(kind)) for i, (name, kind) in enumerate(KINDS.items(), 1)),
    (1,),
    (1,),
)
PROBE = Path(__file__).parent / "pruning_probe.py"
N, AMOUNT = Column(1, "n", "long"), Column(2, "amount", "double")
TS, NAME = Column(3, "ts", "timestamp"), Column(4, "name", "string")
START_DAY = 19_723  # 2024-01-01


def _is(function: str, *args: Expr) -> Call:
    return Call(function, args, "boolean")


def _long(function: str, *args: Expr) -> Call:
    return Call(function, args, "long")


def _n(value: int) -> Literal:
    return Literal(value, "long")


def _d(value: float) -> Literal:
    return Literal(value, "double")


def _text(value: str) -> Literal:
    return Literal(value, "string")


def expressions() -> dict[str, Expr]:
    """Return our own words for the filters, by name."""
    when = Literal((START_DAY + 700) * DAY_US, "timestamp")
    date = Call("cast", (TS,), "date")
    above, floor = _is("greater_than", N, _n(9900)), _long("floor", AMOUNT)
    day = Call("date_trunc", (_text("day"), TS), "timestamp")
    later = Call(
        "timestamp_add_interval", (TS, Literal(DAY_US, "interval day to second")), "timestamp"
    )
    chosen = Call("case_when", (above, AMOUNT, _d(0.0)), "double")
    scaled = Call("multiply", (AMOUNT, _d(100.0)), "double")
    return {
        "n > c": above,
        "n = c": _is("equal_to", N, _n(5000)),
        "between": _is(
            "and", _is("greater_than_or_equal", N, _n(100)), _is("less_than_or_equal", N, _n(200))
        ),
        "in": _is("in", N, _n(7), _n(5000)),
        "not": _is("not", _is("greater_than", N, _n(100))),
        "n + c": _is("greater_than", _long("add", N, _n(10)), _n(9950)),
        "n - c": _is("less_than", _long("subtract", N, _n(10)), _n(40)),
        "n * c": _is("greater_than", _long("multiply", N, _n(2)), _n(19800)),
        "-n": _is("greater_than", _long("unary_minus", N), _n(-50)),
        "abs": _is("less_than", _long("abs", _long("subtract", N, _n(5000))), _n(20)),
        "amount * c": _is("less_than", Call("multiply", (AMOUNT, _d(2.0)), "double"), _d(4.0)),
        "and": _is("and", _is("greater_than", AMOUNT, _d(98.0)), _is("less_than", N, _n(5000))),
        "or": _is("or", _is("greater_than", AMOUNT, _d(98.0)), _is("equal_to", N, _n(3))),
        "floor": _is("equal_to", floor, _n(50)),
        "ts > c": _is("greater_than", TS, when),
        "date_trunc": _is("greater_than", day, when),
        "ts + interval": _is("greater_than", later, when),
        "year": _is("equal_to", Call("year", (date,), "integer"), Literal(2025, "integer")),
        "cast to date": _is("equal_to", date, Literal(START_DAY + 400, "date")),
        "name >= c": _is("greater_than_or_equal", NAME, _text("k09900")),
        "like 'c%'": _is("like", NAME, _text("k012%")),
        "case": _is("greater_than", chosen, _d(50.0)),
        "coalesce": _is("greater_than", _long("coalesce", N, _n(0)), _n(9900)),
        "two columns": _is("greater_than", Call("cast", (N,), "double"), scaled),
        TIMED.name: _is(
            "and",
            _is("greater_than", N, _n(9000)),
            _is("less_than", AMOUNT, _d(50.0)),
            _is("equal_to", NAME, _text("k09500")),
        ),
    }


def statistics_of(files: int) -> pa.Table:
    """Return the same statistics as the peers get."""
    low, high = bounds(files)
    zeros = pa.array(np.zeros(files, np.int64))
    columns: dict[str, pa.Array] = {"rows": pa.array(np.full(files, 100))}
    for number, name in enumerate(KINDS, 1):
        ends = [pa.array(side[name]) for side in (low, high)]
        if name == "ts":
            ends = [end.cast(pa.timestamp("us", "UTC")) for end in ends]
        counts = {"nulls": zeros, **({"nans": zeros} if name == "amount" else {})}
        fields = {**counts, "low": ends[0], "high": ends[1]}
        columns[f"s.{number}"] = pa.StructArray.from_arrays(list(fields.values()), list(fields))
    return pa.table(columns)


def _ours(stats: pa.Table, name: str) -> int:
    filter = Filter(expressions()[name], name, 0, 0)
    return int(decide(filter, stats, RELATION).keep.sum())


def _seconds(stats: pa.Table) -> float:
    filter = Filter(expressions()[TIMED.name], "", 0, 0)
    start = time.process_time()
    for _ in range(5):
        decide(filter, stats, RELATION)
    return (time.process_time() - start) / 5


def _probe(python: str, peer: str, files: int, rounds: int) -> dict[str, Any] | None:
    """Return what a peer says, None if it is not there."""
    with tempfile.TemporaryDirectory() as folder:
        command = [python, str(PROBE), peer, str(files), f"{folder}/{peer}", str(rounds)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{peer} is left out: {(done.stderr.strip() or 'it failed').splitlines()[-1]}")
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def precision(python: str, files: int) -> None:
    """Print how many files each keeps."""
    low, high = bounds(files)
    stats = statistics_of(files)
    found = {p: _probe(python, p, files, 0) for p in ("DataFusion", "delta-rs", "pyiceberg")}
    peers = {peer: answer["kept"] for peer, answer in found.items() if answer is not None}
    print(f"\n{'files kept of ' + str(files):20} {'exact':>8} {'Strata':>8}", end="")
    print("".join(f" {peer:>11}" for peer in peers))
    for asked in FILTERS:
        kept = int(asked.exact(low, high).sum())
        print(f"{asked.name:20} {kept:>8} {_ours(stats, asked.name):>8}", end="")
        print("".join(f" {_cell(answers[asked.name]):>11}" for answers in peers.values()))


def _cell(answer: object) -> str:
    return "no words" if answer is None else (f"{answer}" if isinstance(answer, int) else "error")


def speed(python: str, peer: str, files: int, rounds: int) -> None:
    """Print the medians of interleaved rounds."""
    stats = statistics_of(files)
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(_seconds(stats))
        found = _probe(python, peer, files, 4)
        if found is None:
            return
        theirs.append(statistics.median(found["seconds"][1:]))  # the first one warms up
    mine, other = statistics.median(ours), statistics.median(theirs)
    print(
        f"{peer:12} {files:>8} files: {other * 1e3:9.2f} ms ({other / files * 1e6:.3f} us a file);"
        f" Strata {mine * 1e3:7.3f} ms; ratio {other / mine:7.1f}"
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", required=True, help="the interpreter of the peers' environment")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    speed(options.peers, "delta-rs", 100_000, options.rounds)
    speed(options.peers, "pyiceberg", 10_000, options.rounds)
    precision(options.peers, 1000)


if __name__ == "__main__":
    main()
