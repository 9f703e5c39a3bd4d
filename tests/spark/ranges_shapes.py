"""Texts of one shape a part, and what they are written like, for `tests/spark/ranges.py`.

`fig` holds figures and `when` moments by one pattern a part; in some parts one text is odd, so that
there is no shape. What is recorded is collected from the rows, in most parts.
"""

import datetime as dt
import random
from collections.abc import Callable

import pyarrow as pa

from strata.format.columns import child
from strata.model.schema import Relation
from strata.stats.shapes import Shapes
from strata.stats.wire import ROWS, SHAPE, SHAPES

COLUMNS = {"fig": "string", "when": "string"}
_ODD = {
    "fig": (
        *("1.5", "1e3", " 5", "", "-0", "+7", "9" * 20, "abc", "1.", ".5", "-0.0", "0x1F", "5 "),
        *("NaN", "Infinity", "-inf", "1d", "2.5f", "1e400", "1e-400", "٣", "--5", "1_000", "\t7"),
    ),
    "when": (
        *("2023-02-29", "2024-01-05t10:00:00", "2024-1-5", "", "2024-01-05 10:00:60", "05"),
        *("2024-01-05 ", "2024-01-05 10:00:00.", "2024-01-05 10:00:00 PST", "1582-10-10", "24:00"),
    ),
}
_STARTS = (-5, 0, 1, 9, 95, 125, 32_765, -32_770, 2**31 - 5, -(2**31) - 5, 10**9, 10**17, -(10**17))
_PATTERNS = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S.%f",
    "%Y-%m-%dT%H:%M:%SZ",
    "%Y-%m-%d %H:%M",
    "%Y/%m/%d %H:%M:%S",
    "%Y%m%d",
    "%d.%m.%Y",
    "%Y-%m-%d %H:%M:%S.%f",
)
_MOMENTS = tuple(
    map(
        dt.datetime.fromisoformat,
        (
            "0001-01-01",
            "1582-10-03",
            "1899-12-30",
            "1969-12-31T12:00",
            "2024-02-28T20:00",
            "2024-01-04",
            "2024-03-10T00:30",
            "2024-11-03T00:30",
            "9999-12-01",
        ),
    )
)


def shaped(rng: random.Random, column: str, count: int) -> list[str]:
    """Return texts of one shape, sometimes but for one."""
    draw = _figures(rng) if column == "fig" else _moments(rng)
    texts = [draw() for _ in range(count)]
    if rng.random() < 0.12:
        texts[rng.randrange(count)] = rng.choice(_ODD[column])
    return texts


def _figures(rng: random.Random) -> Callable[[], str]:
    start, span = rng.choice(_STARTS), rng.choice((1, 3, 10, 1000))
    digits = rng.choice((1, 2, 2, 3, 12))
    kinds: tuple[Callable[[int], str], ...] = (
        str,
        str,
        lambda n: f"{n:06d}",
        lambda n: f"{n}.{rng.randrange(10**digits):0{digits}d}",
        lambda n: f"{n}.{rng.randrange(10**digits):0{digits}d}" if rng.random() < 0.5 else str(n),
        lambda n: f"{abs(n)}{rng.randrange(10**9):09d}",
    )
    kind = rng.choice(kinds)
    return lambda: kind(start + rng.randrange(span))


def _moments(rng: random.Random) -> Callable[[], str]:
    pattern, first = rng.choice(_PATTERNS), rng.choice(_MOMENTS)
    span = rng.choice((60, 7200, 86_400, 20 * 86_400))

    def one() -> str:
        at = first + dt.timedelta(seconds=rng.randrange(span), microseconds=rng.randrange(10**6))
        return at.strftime(pattern.replace("%Y", f"{at.year:04d}"))

    return one


def shape_stats(
    rows: dict[str, pa.Array], relation: Relation, rows_a_part: int, seed: int
) -> dict[str, pa.Array]:
    """Return what the texts of each part are written like, in most parts, for each place."""
    rng = random.Random(seed)
    table = pa.table({child(relation.by_name[name].id): rows[name] for name in rows})
    parts = table.num_rows // rows_a_part
    columns: dict[str, list[object]] = {}
    for part in range(parts):
        shapes = Shapes(relation)
        shapes.add(table.slice(part * rows_a_part, rows_a_part))
        one = shapes.beside(pa.RecordBatch.from_pydict({ROWS: pa.array([rows_a_part])}))
        for name in one.schema.names:
            if name.startswith(SHAPES) and rng.random() < 0.9:
                columns.setdefault(name, [None] * parts)[part] = one.column(name)[0].as_py()
    return {name: pa.array(values, SHAPE) for name, values in columns.items()}
