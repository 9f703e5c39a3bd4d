"""Law 2 without Spark: filters put together from expressions whose answers Spark has given.

    python -m tools.certify --keep FILE
    python -m tools.combine FILE --filters 20000 --seed 1

Certificates leave behind what Spark answered on every row for thousands of expressions. Compared
with constants near these answers and nested in and, or, not, if, coalesce, case and null tests,
whose meaning on rows is a few lines here, they make any number of filters a minute. A part that
`decide` skips must hold no row on which such a filter is true or fails. `tests/spark/pushdown.py`
asks Spark for all of it, and takes hours.
"""

import argparse
import pickle
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.decision import decide
from strata.decide.static import outlook
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Expr, Literal
from strata.expr.sparktype import spark_type
from tests.spark.escapes import NOW_US, Answers, physical
from tests.spark.ranges import RELATION, ROWS_A_PART, Parts, random_parts
from tools.certify import MODES

Flags = np.ndarray[Any, np.dtype[np.bool_]]
COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "equal_to": np.equal,
    "less_than": np.less,
    "less_than_or_equal": np.less_equal,
    "greater_than": np.greater,
    "greater_than_or_equal": np.greater_equal,
}
SPAN: Final = (NOW_US - 10**15, NOW_US + 10**15)  # Spark's clock was the real one
COMPARED: Final = ("int", "float", "text", "decimal")
DEPTH: Final = 4


@dataclass(frozen=True)
class Judged:
    """A condition, and what it is on every row: true, null, failed, else false."""

    expr: Expr
    true: Flags
    null: Flags
    fail: Flags

    @property
    def false(self) -> Flags:
        """Return the rows on which it is false."""
        return ~(self.true | self.null | self.fail)


@dataclass(frozen=True)
class World:
    """What Spark answered in one mode."""

    parts: Parts
    found: list[tuple[str, Expr, Answers]]


def worlds(path: Path) -> list[World]:
    """Return the observations of every mode."""
    seed, count, kept = pickle.loads(path.read_bytes())
    found = zip(MODES, kept, strict=True)
    return [World(random_parts(seed + n, count), some) for n, (_, some) in enumerate(found)]


class Draw:
    """Draws filters of one world."""

    def __init__(self, rng: random.Random, world: World) -> None:
        self.rng, self.world = rng, world

    def condition(self, depth: int = DEPTH) -> Judged:
        """Return a condition; at depth 0 one expression, compared."""
        if depth <= 0 or self.rng.random() < 0.2:
            return self.leaf()
        a, b, c = (self.condition(depth - 1) for _ in range(3))
        return self.rng.choice(
            (
                lambda: both(a, b),
                lambda: both(a, both(b, c)),
                lambda: either(a, b),
                lambda: denied(a),
                lambda: chosen(a, b, c),
                lambda: coalesced(a, b),
                lambda: is_null(a),
            )
        )()

    def leaf(self) -> Judged:
        """Return an expression that Spark has answered, as a condition."""
        while True:
            _, expr, answers = self.rng.choice(self.world.found)
            found = self._compared(expr, answers)
            if found is not None:
                return found

    def _compared(self, expr: Expr, answers: Answers) -> Judged | None:
        null = pc.is_null(answers.values).to_numpy(zero_copy_only=False) & ~answers.failed
        there = ~null & ~answers.failed
        if self.rng.random() < 0.1:
            return Judged(
                Call("is_not_null", (expr,), "boolean"), there, np.zeros_like(null), answers.failed
            )
        if expr.type == "boolean":
            true = np.asarray(answers.values.fill_null(False)) & there
            return Judged(expr, true, null, answers.failed)
        if spark_type(expr.type).family not in COMPARED or expr.type == "binary":
            return None
        if not there.any():
            return None
        values = _values(answers.values.filter(pa.array(there)), expr.type)
        constant = self._near(values)
        name = self.rng.choice(tuple(COMPARISONS))
        true = np.zeros(len(there), np.bool_)
        with np.errstate(invalid="ignore"):
            true[there] = COMPARISONS[name](values, constant).astype(np.bool_)
        if values.dtype == np.float64 and name.startswith("greater"):
            true[np.flatnonzero(there)[np.isnan(values)]] = True  # NaN is the greatest
        literal = Literal(_plain(constant, expr.type), expr.type)
        return Judged(Call(name, (expr, literal), "boolean"), true, null, answers.failed)

    def _near(self, values: np.ndarray[Any, Any]) -> Any:
        """Return an answer, or what is next to one."""
        value = values[self.rng.randrange(len(values))]
        if isinstance(value, bytes):
            return value if self.rng.random() < 0.7 else value.decode()[:-1].encode()
        if isinstance(value, float | np.floating):
            value = 0.0 if not np.isfinite(value) else float(value)
            return value + self.rng.choice((0.0, 0.0, 0.5, -0.5))
        return (
            int(value) if abs(int(value)) > 2**30 else int(value) + self.rng.choice((0, 0, 1, -1))
        )


def _values(values: pa.Array, kind: str) -> np.ndarray[Any, Any]:
    if spark_type(kind).family == "text":
        return np.array([v.encode() for v in values.to_pylist()], object)
    return physical(values, kind)


def _plain(value: Any, kind: str) -> object:
    """Return a constant as literals have it."""
    if isinstance(value, bytes):
        return value.decode()
    if spark_type(kind).family == "decimal":
        return Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -spark_type(kind).scale))
    return value


# What conditions mean on rows; what stands behind is evaluated where the first leaves it open.


def both(a: Judged, b: Judged) -> Judged:
    """Return `a and b`."""
    fail = a.fail | (~a.false & b.fail)
    null = ~fail & ((a.null & ~b.false) | (a.true & b.null))
    return Judged(Call("and", (a.expr, b.expr), "boolean"), a.true & b.true, null, fail)


def either(a: Judged, b: Judged) -> Judged:
    """Return `a or b`."""
    fail = a.fail | (~a.true & b.fail)
    true = a.true | (~fail & b.true)
    null = ~fail & ((a.null & ~b.true) | (a.false & b.null))
    return Judged(Call("or", (a.expr, b.expr), "boolean"), true, null, fail)


def denied(a: Judged) -> Judged:
    """Return `not a`."""
    return Judged(Call("not", (a.expr,), "boolean"), a.false, a.null, a.fail)


def chosen(a: Judged, b: Judged, c: Judged) -> Judged:
    """Return `if(a, b, c)`, or the same as a case."""
    other = ~a.true & ~a.fail
    call = Call("if", (a.expr, b.expr, c.expr), "boolean")
    return Judged(
        call,
        (a.true & b.true) | (other & c.true),
        (a.true & b.null) | (other & c.null),
        a.fail | (a.true & b.fail) | (other & c.fail),
    )


def coalesced(a: Judged, b: Judged) -> Judged:
    """Return `coalesce(a, b)`."""
    call = Call("coalesce", (a.expr, b.expr), "boolean")
    return Judged(call, a.true | (a.null & b.true), a.null & b.null, a.fail | (a.null & b.fail))


def is_null(a: Judged) -> Judged:
    """Return `a is null`."""
    return Judged(Call("is_null", (a.expr,), "boolean"), a.null, np.zeros_like(a.null), a.fail)


@dataclass
class Tally:
    """What was tried."""

    filters: int = 0
    parts: int = 0
    skipped: int = 0
    pruning: int = 0
    failing_and_pruning: int = 0


def try_one(judged: Judged, world: World, tally: Tally) -> str:
    """Decide one filter; return what is wrong, if anything."""
    stats = world.parts.stats
    filter = Filter(judged.expr, "", *SPAN)
    keep = decide(filter, stats, RELATION).keep
    needed = (judged.true | judged.fail).reshape(-1, ROWS_A_PART).any(axis=1)
    tally.filters += 1
    tally.parts += len(keep)
    tally.skipped += int((~keep).sum())
    tally.pruning += not keep.all()
    tally.failing_and_pruning += bool(judged.fail.any()) and not keep.all()
    if not keep.all() and not outlook(filter).could_skip:
        return f"prunes, though it never could: {judged.expr}"
    lost = np.flatnonzero(needed & ~keep)
    return f"part {lost[0]} of {judged.expr}" if len(lost) else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Try many filters and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--filters", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    rng, tally, wrong = random.Random(options.seed), Tally(), 0
    draws = [Draw(rng, world) for world in worlds(options.file)]
    for number in range(options.filters):
        draw = draws[number % len(draws)]
        found = try_one(draw.condition(), draw.world, tally)
        if found:
            wrong += 1
            sys.stdout.write(f"WRONG {found}\n")
    sys.stdout.write(f"{vars(tally)}, wrong {wrong}\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
