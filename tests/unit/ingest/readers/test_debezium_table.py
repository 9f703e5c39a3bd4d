"""Change events read by Arrow are those that are read one by one, or are not read by Arrow."""

import zipfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.ingest.land.files import FileRange, SourceFile
from strata.ingest.readers.change import SOURCE_TIME, WHOLE
from strata.ingest.readers.columns import SourceColumns
from strata.ingest.readers.debezium import FLAT, PLACEHOLDERS, one_by_one
from strata.ingest.readers.debezium_table import read_events
from strata.ingest.readers.json_table import read_table
from strata.ingest.readers.objects import read_lines
from strata.ingest.readers.source import RawFile
from strata.model.schema import Relation
from strata.model.spec import SourceSpec, parse_spec
from tests.debezium.shards import TABLES, declaration

RECORDED: Final = Path(__file__).parents[3] / "debezium" / "recorded.zip"
UNSENT: Final = "__debezium_unavailable_value"
COLUMNS: Final = {
    "id": "int64",
    "name": "string",
    "lsn": "int32",
    "price": "numeric(10,2)",
    "day": "date",
    "at": "timestamp",
    "rate": "float64",
    "ok": "bool",
    "note": "varchar(4)",
    "doc": "jsonb",
    "tm": "time",
    "tz": "timestamptz",
}


def relation_of(table: str) -> Relation:
    return parse_spec(declaration(table)).relation()


def here(columns: dict[str, str]) -> Relation:
    declared = [{"name": n, "type": t, "nullable": n != "id"} for n, t in columns.items()]
    source = {"format": "jsonl", "envelope": "debezium"}
    spec = {"name": "s", "columns": declared, "key": ["id"], "source": source}
    return parse_spec(spec).relation()


def file_of(data: bytes) -> SourceFile:
    piece = FileRange(0, len(data), len(data), 0, data=data, whole=True)
    return SourceFile("f", "f", len(data), piece=piece)


def fast(data: bytes, relation: Relation) -> RawFile | None:
    names = [*relation.by_name, SOURCE_TIME]
    return read_events(file_of(data), data, relation, names, SOURCE_TIME, sorted(PLACEHOLDERS))


def slow(data: bytes, relation: Relation) -> RawFile:
    file = file_of(data)
    return one_by_one(file, read_lines(file, data), relation, [*relation.by_name, SOURCE_TIME])


def assert_same(one: RawFile, other: RawFile, relation: Relation) -> None:
    assert (one.count, one.passed) == (other.count, other.passed)
    assert (other.malformed, other.undeclared) == ([], set())
    assert one.message_names is None
    assert other.message_names is not None
    whole = np.isin(other.ops, WHOLE)
    told = {other.message_names.told[kind] for kind in other.message_names.of_row[whole].tolist()}
    assert told <= {frozenset(relation.by_name)}
    assert one.ops is not None
    assert other.ops is not None
    assert one.ops.tolist() == other.ops.tolist()
    for name in ("commit", "lsn", "snapshot", "ends"):
        assert getattr(one.places, name).tolist() == getattr(other.places, name).tolist()
    assert {n: m.tolist() for n, m in one.same.items()} == {
        n: m.tolist() for n, m in other.same.items()
    }
    for column in relation.columns:
        a, b = (raw.convert(raw.columns[column.name], column.type) for raw in (one, other))
        assert a.values.equals(b.values), column
        assert a.bad.tolist() == b.bad.tolist(), column
    times = [raw.convert(raw.columns[SOURCE_TIME], INT64).values for raw in (one, other)]
    assert times[0].equals(times[1])
    rows = np.arange(one.count)
    assert one.locate(rows) == other.locate(rows)


INT64: Final = here({"id": "int64"}).columns[0].type


def test_what_debezium_told_is_read_alike_and_mostly_by_arrow() -> None:
    ways: Counter[bool] = Counter()
    with zipfile.ZipFile(RECORDED) as kept:
        for path in sorted(kept.namelist()):
            table = Path(path).parent.suffix[1:]
            if table not in TABLES:
                continue
            relation, data = relation_of(table), kept.read(path)
            found = fast(data, relation)
            ways[found is not None] += 1
            if found is not None:
                assert_same(found, slow(data, relation), relation)

    assert ways == {True: 107, False: 15}


values: Final[dict[str, list[Any]]] = {  # after None: those that Arrow does not read as meant
    "id": [-5, 0, 5],
    "name": ["x", "", "é", UNSENT, '}null"', "\\", None],
    "lsn": [1, 2**31, None, "7", 5.0],
    "price": ["1.50", 2.25, 7, None, "1.505", " 1", UNSENT],
    "day": [0, 19_000, -800_000, None, 10**10, "2020-01-01"],
    "at": [0, 10**15, 10**18, -(10**17), None, "2020-01-01"],
    "rate": [0.1, 3, -0.0, 1e300, None, "NaN"],
    "ok": [True, None, 1],
    "note": ["abcd", "abcde", None],
    "doc": ['{"a": 1.0}', "{", None, {"a": 1}],
    "tm": [0, 86_399_999_999, 10**12, None],
    "tz": ["2020-01-01T00:00:00.5Z", "yesterday", None],
}
plain_values: Final = {
    name: st.sampled_from(some[: some.index(None) + 1] if None in some else some)
    for name, some in values.items()
}
any_values: Final = {name: st.sampled_from([*some, None]) for name, some in values.items()}
rows: Final = st.fixed_dictionaries(plain_values)
odd_rows: Final = st.fixed_dictionaries({}, optional={**any_values, "new": st.just(1)})
sources: Final = st.fixed_dictionaries(
    {
        "lsn": st.integers(1, 99) | st.none(),
        "ts_ms": st.integers(0, 10**13) | st.none(),
        "snapshot": st.sampled_from(["false", "true", "last", "incremental", None]),
        "sequence": st.sampled_from(['["1","2"]', '[null,"3"]', None, "[]", '["x",1]']),
        "connector": st.sampled_from(["postgresql", "postgresql", "mysql"]),
    }
)
PLACED: Final = {
    "lsn": 9,
    "ts_ms": 5,
    "snapshot": "false",
    "sequence": '["1","9"]',
    "connector": "postgresql",
    "name": "source",
}


@st.composite
def events(draw: Any, recorded: bool) -> Any:
    plain = draw(st.integers(0, 5)) > 0  # mostly what Arrow reads
    row = rows if plain else rows | odd_rows | st.none()
    op = draw(st.sampled_from("crud" if plain else "crudtmx"))
    before, after = (draw(row) if op in (("d",), "crudtmx")[n] else None for n in (0, 1))
    if plain and op == "d":
        after = None
    event = {
        "before": before,
        "after": after,
        "op": op,
        "ts_ms": 7,
        "transaction": None,
        "source": PLACED if plain else draw(sources),
    }
    if not recorded:
        return event
    kept = draw(st.sampled_from([event, event, event, None]))
    return {"key": {"id": draw(any_values["id"])}, "value": kept}


texts: Final = st.booleans().flatmap(
    lambda recorded: st.lists(events(recorded), min_size=1, max_size=4).map(
        lambda some: b"\n".join(orjson.dumps(one) for one in some)
    )
)


@settings(deadline=None)
@given(texts)
def test_events_are_read_alike(data: bytes) -> None:
    relation = here(COLUMNS)
    found = fast(data, relation)
    if found is not None:
        assert_same(found, slow(data, relation), relation)


@pytest.mark.parametrize(
    ("change", "read"),
    [
        ({}, True),
        ({"after": {"id": 1}}, False),  # a column is missing: to be reported
        ({"after": {"id": 1, "name": None}}, True),
        ({"after": {"id": 1}, "source": {**PLACED, "name": None}}, False),  # one null is told
        ({"after": {"id": 1, "name": "x", "new": 1}}, False),
        ({"op": "t"}, False),
        ({"op": "u", "before": {"id": 2, "name": "x"}}, False),  # the key changes
        ({"source": {"lsn": None}}, False),
        ({"source": {**PLACED, "sequence": '[null,"9"]'}}, True),
        ({"source": {**PLACED, "sequence": '["1","9",]'}}, False),  # no JSON: it has no place
        ({"source": {**PLACED, "sequence": '["1","9"'}}, False),
        ({"more": 1}, False),
    ],
)
def test_what_needs_more_than_a_table_is_left_to_the_slow_way(
    change: dict[str, Any], read: bool
) -> None:
    relation = here({"id": "int64", "name": "string"})
    row = {"id": 1, "name": "x"}
    event = {"before": None, "after": row, "op": "c", "source": PLACED, **change}

    assert (fast(orjson.dumps(event), relation) is not None) == read


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1}{"a":2}', b'{"a":\n1}', b'{"a":1} null {"a":2}', b'{"a":1}null\n{"a":2}', b"null",
        b'{"a":1}\nnull', b'{"a":NaN}', b'{"s":"\xff"}', b'{"a":1,"a":2}', b'{"a":1}\r\n{"a":2}',
        b"[1]", b"", b"\n", b'{"a":1', b'{"b":1}', b'{"a":5.0}',
    ],
)  # fmt: skip
def test_what_arrow_reads_otherwise_or_cannot_read_is_not_read_by_it(data: bytes) -> None:
    schema = pa.schema([("a", pa.float64() if b"NaN" in data else pa.int64()), ("s", pa.string())])

    assert read_table(data, schema, others=False) is None


@pytest.mark.parametrize("lacks", ["value", "key"])
def test_a_record_that_lacks_its_value_or_key_is_no_tombstone(lacks: str) -> None:
    relation = here({"id": "int64", "name": "string"})
    event = {"before": None, "after": {"id": 1, "name": "x"}, "op": "c", "source": PLACED}
    record = {"key": {"id": 1}, "value": event}
    whole = orjson.dumps(record) + b'\n{"key":{"id":2},"value":null}\n'
    less = orjson.dumps({name: part for name, part in record.items() if name != lacks})

    assert fast(whole, relation) is not None
    assert fast(whole + less, relation) is None
    assert [one.reason for one in slow(whole + less, relation).malformed] == [FLAT]


@pytest.mark.parametrize("place", [{"lsn": 2**63}, {"lsn": -2}, {"sequence": f'["{2**63}","9"]'}])
def test_a_place_that_no_log_has_is_none(place: dict[str, Any]) -> None:
    relation = here({"id": "int64", "name": "string"})
    row = {"id": 1, "name": "x"}
    events = [
        {"before": None, "after": row, "op": "c", "source": {**PLACED, **more}}
        for more in (place, {})
    ]
    data = b"\n".join(map(orjson.dumps, events))

    assert fast(data, relation) is None
    places = slow(data, relation).places
    assert places is not None
    assert (places.commit.tolist(), places.lsn.tolist()) == ([-1, 1], [-1, 9])


@pytest.mark.parametrize(
    ("text", "read"),
    [("99.99", True), ("-99", True), ("100", False), ("-1234", False), ("9999.0", False)],
)
def test_a_decimal_has_no_more_digits_than_its_type(text: str, read: bool) -> None:
    kind = pa.decimal128(4, 2)
    for data, schema in (
        (f'{{"a":{text}}}', pa.schema([("a", kind)])),
        (f'{{"r":{{"a":"{text}"}}}}\n{{"r":null}}', pa.schema([("r", pa.struct([("a", kind)]))])),
    ):
        assert (read_table(data.encode(), schema, others=False) is not None) == read


def test_blank_lines_are_no_rows() -> None:
    table = read_table(b'\n{"a":1}\n\n{"a":2}\n', pa.schema([("a", pa.int64())]), others=False)

    assert table is not None
    assert table["a"].to_pylist() == [1, 2]


def test_a_large_file_is_read_by_arrow_and_says_where_a_row_is_wrong(tmp_path: Path) -> None:
    from strata.ingest.readers.debezium import read_debezium
    from strata.ingest.readers.source import WantedColumn, rejects, typed_rows

    relation = here({"id": "int64", "at": "date"})
    lines = [
        {
            "before": None,
            "after": {"id": n, "at": 9_999_999 if n == 700 else n},
            "op": "c",
            "source": PLACED,
        }
        for n in range(1000)
    ]
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    wanted = SourceColumns(relation, SourceSpec(), tuple(relation.by_name), ())
    raw = read_debezium(SourceFile(str(path), "x.jsonl", path.stat().st_size), wanted)

    assert isinstance(raw.columns["id"], pa.Array)
    typed = typed_rows(raw, [WantedColumn(c.name, c.type, c.nullable) for c in relation.columns])
    [reject] = rejects(raw, typed.bad)
    assert (reject.line, reject.column) == (701, "at")
    assert reject.raw == orjson.dumps(lines[700]).decode()
