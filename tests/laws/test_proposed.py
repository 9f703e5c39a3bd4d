"""Law: what is proposed from a file takes in all its rows, or says which ones it would reject."""

import math
import re
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import InvalidRequest
from strata.ingest.engine import ingest
from strata.ingest.readers.infer import infer
from strata.model.spec import parse_spec
from strata.shard import Shard
from tests.unit.ingest.test_engine import World

LATE = 253_402_300_800  # the first second behind the year 9999
LEAVES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [0, 2**63 - 1],
    pa.uint64(): [0, 2**64 - 1],
    pa.float64(): [0.1, math.nan, -math.inf],
    pa.string(): ["", "a", "\0"],
    pa.binary(): [b"", b"\xff"],
    pa.date32(): [0, 3_000_000],
    pa.timestamp("us"): [0, LATE * 10**6],
    pa.timestamp("ms", "+05:30"): [0, LATE * 1_000 - 1, LATE * 1_000],
    pa.timestamp("ns"): [1_000, 1],
    pa.time64("ns"): [0, 1],
    pa.duration("ns"): [1_000, 1],
    pa.decimal128(38, 38): [Decimal(0), Decimal("0.5")],
    pa.decimal256(60, 0): [Decimal(1), Decimal(10**59 + 1)],
}
KINDS = st.recursive(
    st.sampled_from(list(LEAVES)),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.lists(inner, min_size=1, max_size=2).map(
            lambda kinds: pa.struct([(f"f{n}", kind) for n, kind in enumerate(kinds)])
        ),
    ),
    max_leaves=3,
)


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Return values of a type, null among them."""
    if pa.types.is_map(kind):
        some = st.dictionaries(st.sampled_from("ab"), values(kind.item_type), max_size=2)
        return st.none() | some.map(lambda found: list(found.items()))
    if pa.types.is_list(kind):
        return st.none() | st.lists(values(kind.value_type), max_size=2)
    if pa.types.is_struct(kind):
        return st.none() | st.fixed_dictionaries({f.name: values(f.type) for f in kind})
    return st.sampled_from([None, *LEAVES[kind]])


@given(st.data())
def test_a_proposal_takes_the_rows_in_or_says_which_not(data: st.DataObject) -> None:
    kind = data.draw(KINDS)
    column = pa.array(data.draw(st.lists(values(kind), min_size=1, max_size=4)), kind)
    with TemporaryDirectory() as folder:
        world = World(Path(folder))
        table = pa.table({"id": pa.array(range(len(column))), "v": column})
        pq.write_table(table, Path(folder) / "x.parquet")

        found = infer(world.settings, "new", "x.parquet")

        said = [
            re.match(r"v: (\d+) of \d+ examined rows would be rejected", n) for n in found.notes
        ]
        source = {**found.declaration["source"], "max_rejected": 1.0}
        world.machine.create(parse_spec({**found.declaration, "source": source}))
        try:
            report = ingest(world.stores, world.settings, "new", paths=["x.parquet"]).to_json()
        except InvalidRequest:
            assert any(note.startswith("no ingest") for note in found.notes)
        else:
            assert report["rejected"] == sum(int(one[1]) for one in said if one)


CELLS: dict[str, list[Any]] = {
    "int": [7, -1, None],
    "float": [1.5, math.nan, None],
    "day": ["2024-01-31", None],
    "text": ["a", "NULL", "\\N", "nan", "x y", "", None],
}


@given(st.data())
def test_null_is_read_as_it_was_written_or_the_column_is_named(data: st.DataObject) -> None:
    null = data.draw(st.sampled_from(["", "NULL", "\\N", "NaN", "-"]))
    kind = data.draw(st.sampled_from(list(CELLS)))
    cells = data.draw(st.lists(st.sampled_from(CELLS[kind]), min_size=1, max_size=5))
    written = [null if c is None else '""' if c == "" else str(c) for c in cells]
    lines = ["id,v", *(f"{n},{text}" for n, text in enumerate(written))]
    with TemporaryDirectory() as folder:
        world = World(Path(folder))
        world.put("x.csv", "\n".join(lines) + "\n")

        found = infer(world.settings, "new", "x.csv")

        if kind == "text" and found.declaration["columns"][1]["type"] != "string":
            return  # words alone, such as nan, are no texts
        world.machine.create(parse_spec(found.declaration))
        ingest(world.stores, world.settings, "new", paths=["x.csv"])
        rows = [row for batch in Shard(world.stores, "new").scan() for row in batch.to_pylist()]
        read = [row["v"] for row in sorted(rows, key=lambda row: row["id"])]
        if null == "-" and {"a", "x y", ""} & {*cells}:  # a dash among texts is one
            cells = [null if cell is None else cell for cell in cells]
        same = [_shown(value) for value in read] == [_shown(value) for value in cells]
        assert same or any(note.startswith("v: ") for note in found.notes), (read, found.notes)


def _shown(value: Any) -> str:
    return str(float(value) if type(value) is int else value)
