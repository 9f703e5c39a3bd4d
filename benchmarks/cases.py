"""How long parts are judged value by value: `python -m benchmarks.cases`.

Each part has a set of 32 texts, and no bounds that help. Printed are the seconds of CPU of a
decision, and the parts that are kept: no text of any set satisfies the filters, so those that are
kept are beyond the values that one decision judges (`strata.decide.by_value.LISTED_MAX`). The last
filter is answered by bounds, for comparison.
"""

import argparse
import time
from typing import Final

import numpy as np
import pyarrow as pa

from strata.decide.by_value import LISTED_MAX
from strata.decide.decision import decide
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.types import parse_type
from strata.stats.wire import SET, scalar_type

VALUES: Final = 32  # of a set
DIFFERENT: Final = 1000  # sets
TEXT: Final = parse_type("string")
RELATION: Final = Relation(0, (Declared(1, "x", TEXT),), (1,), ())
X: Final = Column(1, "x", "string")


def text(value: str) -> Literal:
    """Return a constant."""
    return Literal(value, "string")


FILTERS: Final[dict[str, Expr]] = {
    "lower(x) = 'a'": Call("equal_to", (Call("lower", (X,), "string"), text("a")), "boolean"),
    "x LIKE '%a1%'": Call("like", (X, text("%a1%")), "boolean"),
    "length(x) > 20": Call(
        "greater_than", (Call("length", (X,), "integer"), Literal(20, "integer")), "boolean"
    ),
    "x < 'B'": Call("less_than", (X, text("B")), "boolean"),
}


def statistics(parts: int) -> pa.Table:
    """Return the statistics of parts whose texts lie between the same ends."""
    rng = np.random.default_rng(1)
    sets = [
        [b"Value-%06d" % n for n in np.sort(rng.choice(100_000, VALUES, replace=False))]
        for _ in range(DIFFERENT)
    ]
    chosen = rng.integers(0, DIFFERENT, parts)
    values = pa.array([sets[n] for n in chosen], pa.list_(pa.binary()))
    form = pa.array(["text"] * parts)
    ends = {"nulls": 0, "low": "C", "high": "z", "low_exact": False, "high_exact": False}
    bounds = pa.array([ends], scalar_type(TEXT)).take(pa.array(np.zeros(parts, np.int64)))
    return pa.table(
        {
            "rows": pa.array([1000] * parts, pa.int64()),
            "s.1": bounds,
            "s.set.1": pa.StructArray.from_arrays([form, values], fields=list(SET)),
        }
    )


def main() -> None:
    """Print a line for each number of parts and each filter."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, nargs="*", default=[10_000, 30_000, 100_000])
    print(f"sets of {VALUES}; at most {LISTED_MAX:,} values a decision")
    for parts in parser.parse_args().parts:
        stats = statistics(parts)
        for sql, expr in FILTERS.items():
            began = time.process_time()
            kept = int(decide(Filter(expr, sql, 0, 0), stats, RELATION).keep.sum())
            seconds = time.process_time() - began
            print(f"{parts:>9,} parts  {sql:<16} {seconds:6.2f} s  kept {kept:,}")


if __name__ == "__main__":
    main()
