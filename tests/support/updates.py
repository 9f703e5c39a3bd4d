"""Random relations and updates, and the slow twins of order and consolidation.

A plain update is a tuple of Python values (key and value columns in sort order, then t) with a
diff; `Contents` counts them. Values come from small pools with the edges of each type in them,
so that equal rows meet often.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
from hypothesis import strategies as st

from strata.format.columns import D, T, child, updates_schema
from strata.model.schema import Column, Relation
from strata.model.types import Kind, parse_type
from strata.parts.part_facts import APART_BYTES, KEY_BYTES, MOST_KEY_BYTES

NAN = math.nan
POOLS: dict[str, list[object]] = {  # in the order in which they sort; null follows
    "bool": [False, True],
    "int16": [-(2**15), -1, 0, 1, 2**15 - 1],
    "int32": [-(2**31), -1, 0, 1, 2**31 - 1],
    "int64": [-(2**63), -1, 0, 1, 2**63 - 1],
    "float32": [-math.inf, -1.5, 0.0, 1.5, math.inf, NAN],
    "float64": [-math.inf, -1.5, -5e-324, 0.0, 5e-324, math.inf, NAN],
    "numeric(12,2)": [Decimal("-9999999999.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("7.5")],
    "date": [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)],
    "timestamp": [-62_135_596_800_000_000, -1, 0, 253_402_300_799_999_999],
    "timestamptz": [-62_135_596_800_000_000, -1, 0, 253_402_300_799_999_999],
    "string": ["", "\x00", "a", "a\x00", "a\x00b", "ab", "é", "\uffff", "\U00010000"],
    "bytes": [b"", b"\x00", b"\x00\x01", b"\x00\xff", b"\x01", b"\xff", b"\xff\xff"],
    "jsonb": ['"a"', "1", "[1,2]", "null", '{"a":1,"b":null}', '{"a":1}'],
}
INTEGER_TIMES = {Kind.TIMESTAMP, Kind.TIMESTAMPTZ}  # Python's datetime does not reach every value


@st.composite
def relations(draw: st.DrawFn, max_columns: int = 4) -> Relation:
    """Draw a relation: any types, any key, any declared order."""
    types = draw(st.lists(st.sampled_from(sorted(POOLS)), min_size=1, max_size=max_columns))
    columns = tuple(Column(i, f"c{i}", parse_type(t)) for i, t in enumerate(types, 1))
    ids = draw(st.permutations([c.id for c in columns]))
    key = tuple(ids[: draw(st.integers(1, len(ids)))])
    order = tuple(draw(st.permutations(ids))[: draw(st.integers(0, len(ids)))])
    return Relation(0, columns, key, order)


def updates(relation: Relation, max_rows: int = 40) -> st.SearchStrategy[pa.Table]:
    """Draw unsorted updates of a relation."""
    cells = [st.sampled_from([*POOLS[str(c.type)], None]) for c in relation.columns]
    row = st.tuples(*cells, st.integers(0, 4), st.integers(-2, 2))
    return st.lists(row, max_size=max_rows).map(lambda rows: table(relation, rows))


def table(relation: Relation, rows: Sequence[Sequence[object]]) -> pa.Table:
    """Return plain rows (declared columns, t, d) as updates."""
    schema = updates_schema(relation)
    return pa.table(
        [
            pa.array([row[number] for row in rows], field.type)
            for number, field in enumerate(schema)
        ],
        schema=schema,
    )


def plain_rows(rows: pa.Table | pa.RecordBatch, relation: Relation) -> list[tuple[object, ...]]:
    """Return (sort columns..., t, d) of each row; NaN as its name, so that it equals itself."""
    columns = []
    for column_id in relation.sort_ids:
        column = rows.column(child(column_id))
        if relation.by_id[column_id].type.kind in INTEGER_TIMES:
            column = column.cast(pa.int64())
        columns.append(["NaN" if v != v else v for v in column.to_pylist()])  # noqa: PLR0124
    return list(zip(*columns, rows[T].to_pylist(), rows[D].to_pylist(), strict=True))


def contents(tables: Iterable[pa.Table | pa.RecordBatch], relation: Relation) -> Counter:
    """Return how often each (sort columns..., t) occurs: consolidation by counting."""
    counts: Counter = Counter()
    for rows in tables:
        for *update, diff in plain_rows(rows, relation):
            counts[tuple(update)] += diff
    return Counter({update: count for update, count in counts.items() if count})


def sort_key(row: Sequence[object]) -> list[tuple[int, object]]:
    """Return what a plain row sorts by: values, then NaN, then null."""
    return [(2, 0) if cell is None else (1, 0) if cell == "NaN" else (0, cell) for cell in row]


def split(rows: pa.Table, cuts: Iterable[int]) -> list[pa.RecordBatch]:
    """Return `rows` cut at the given positions, in order."""
    edges = sorted({0, rows.num_rows, *(cut % (rows.num_rows + 1) for cut in cuts)})
    whole = rows.combine_chunks()
    pieces = [whole.slice(a, b - a) for a, b in pairwise(edges)]
    return [batch for piece in pieces for batch in piece.to_batches()]


def beginnings(keys: list[bytes]) -> list[bytes]:
    """Return what of the keys of row groups is kept, found byte by byte."""
    found = []
    for number, key in enumerate(keys):
        size = KEY_BYTES
        for other in keys[max(number - 1, 0) : number] + keys[number + 1 : number + 2]:
            alike = 0
            while alike < min(len(key), len(other)) and key[alike] == other[alike]:
                alike += 1
            size = max(size, alike + APART_BYTES)
        found.append(key[: min(size, MOST_KEY_BYTES)])
    return found
