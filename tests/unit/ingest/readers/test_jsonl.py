"""JSON lines: values by key, exact numbers, and lines that are no objects."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.errors import InvalidRequest
from strata.ingest.land.files import FileRange, SourceFile
from strata.ingest.readers.json_table import SMALL_BYTES
from strata.ingest.readers.jsonl import exact_lines, one_by_one, read_json, read_jsonl, read_objects
from strata.ingest.readers.objects import read_lines
from strata.ingest.readers.source import WantedColumn, rejects, typed_rows
from strata.ingest.values.cast import from_objects
from strata.ingest.values.exact_json import NumberText
from strata.model.types import parse_type
from tests.support.sizes import tries


@pytest.fixture
def put(tmp_path: Path):
    def write(data: bytes) -> SourceFile:
        (tmp_path / "x.jsonl").write_bytes(data)
        return SourceFile(str(tmp_path / "x.jsonl"), "x.jsonl", len(data))

    return write


def test_a_missing_key_is_null_and_other_keys_are_ignored(put) -> None:
    raw = read_jsonl(put(b'{"a":1,"z":2}\r\n\n{"b":null}\n'), ["a", "b"])

    assert raw.columns == {"a": [1, None], "b": [None, None]}
    assert raw.count == 2


def test_lines_that_are_no_objects_are_rejected_with_their_line(put) -> None:
    data = b'{"a":1}\n\nnot json\n[1]\n{"a":"x"}\n{"a":\xff}\n{"a":2}'
    raw = read_jsonl(put(data), ["a"])

    found = rejects(raw, typed_rows(raw, [WantedColumn("a", parse_type("int32"), True)]).bad)

    assert [(r.line, r.column, r.value) for r in found] == [
        (3, None, None),
        (4, None, None),
        (5, "a", "x"),
        (6, None, None),
    ]
    assert found[0].raw == "not json"
    assert found[1].reason == "not a JSON object"
    assert found[3].raw == '{"a":\\xff}'


def test_numbers_keep_their_exact_value(put) -> None:
    big = "123456789012345678901234567890"
    raw = read_jsonl(
        put(f'{{"a":{{"n":{big},"e":1.00}},"b":0.10000000000000000001}}\n'.encode()), "ab"
    )

    wanted = [
        WantedColumn("a", parse_type("jsonb"), True),
        WantedColumn("b", parse_type("numeric(38,20)"), True),
    ]
    typed = typed_rows(raw, wanted)
    assert f'"n":{big}' in typed.columns["a"][0].as_py()
    assert str(typed.columns["b"][0].as_py()) == "0.10000000000000000001"


def test_a_file_without_any_object_is_the_wrong_shape(put) -> None:
    with pytest.raises(InvalidRequest) as error:
        read_jsonl(put(b"a,b\n1,2\n"), ["a"])

    assert error.value.message == "the file holds no JSON lines"
    assert error.value.details["file"] == "x.jsonl"
    assert error.value.details["line"] == 1


def test_an_empty_file_has_no_rows(put) -> None:
    assert read_jsonl(put(b""), ["a"]).count == 0


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(
    st.lists(
        st.dictionaries(st.sampled_from("ab"), VALUES).filter(lambda row: {*row} != {"b"}),
        max_size=5,
    )
)
def test_jsonb_columns_hold_what_the_lines_say(tmp_path_factory, rows: list[dict]) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "x.jsonl"
    path.write_bytes(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows))
    raw = read_jsonl(SourceFile(str(path), "x.jsonl", 0), ["a"])

    typed = typed_rows(raw, [WantedColumn("a", parse_type("jsonb"), True)])

    texts = typed.columns["a"].to_pylist()
    assert [None if t is None else orjson.loads(t) for t in texts] == [r.get("a") for r in rows]
    assert not typed.bad


SAFE = [
    '{"a":1}',
    '{"a":"2013-03-01"}',
    "",
    '{"a":-0.5}',
    '{"a":1234567890.123456}',
    '{"a":-0.8444218515250481}',
    '{"a":-0.01}',
    '{"a":0}',
]
UNSAFE = [
    '{"a":1e5}',
    '{"a":-0}',
    '{"a":-0.0}',
    '{"a":-0.00000000000000000}',
    '{"a":5.5E-7}',
    '{"a":0.10000000000000000}',
    '{"a":0.84442185152504811}',
    '{"a":1234567890123456}',
    '{"a":12345678901234567.5}',
    "1234567890123456",
    '{"a":123456789012345.60}',
    '{"a":"1.2.3.4.5.6.7.8.9"}',
    '{"a":0.00000000000000012}',
]


@given(st.lists(st.sampled_from(SAFE + UNSAFE)))
def test_every_line_with_an_unsafe_number_is_found(lines: list[str]) -> None:
    found = exact_lines("\n".join(lines).encode())

    assert found == {n for n, line in enumerate(lines, 1) if line not in SAFE}


NUMBERS = st.sampled_from(["1e5", "1e400", "-1e-400", "0e9", "-0.0", "5e-324"]).map(NumberText)


@pytest.mark.parametrize(
    "kind",
    [
        "float64",
        "float32",
        "numeric",
        "numeric(38,18)",
        "int64",
        "jsonb",
        "string",
        "bool",
        "list<float32>",
        "map<numeric>",
    ],
)
@given(st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1000, 1000))
@settings(max_examples=tries(25, 600))
def test_a_float_in_its_shortest_text_is_the_same_as_its_text(kind: str, number: float) -> None:
    text = repr(number)
    if exact_lines(f'{{"a":{text}}}'.encode()):
        return
    wrap: dict[str, Callable[[Any], Any]] = {"l": lambda v: [v], "m": lambda v: {"a": v}}
    inside = wrap.get(kind[0], lambda v: v)

    quick = from_objects([inside(number), None], parse_type(kind))
    exact = from_objects([inside(NumberText(text)), None], parse_type(kind))

    assert quick.values.equals(exact.values)
    assert quick.bad.tolist() == exact.bad.tolist()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | NUMBERS | st.none()))
def test_floats_beside_kept_texts_are_those_read_alone(mixed: list[Any]) -> None:
    kind = parse_type("float64")

    found = from_objects(mixed, kind)

    alone = [from_objects([value], kind) for value in mixed]
    assert found.values.to_pylist() == [one.values[0].as_py() for one in alone]
    assert found.bad.tolist() == [row for row, one in enumerate(alone) if len(one.bad)]


values: dict[str, list[Any]] = {  # of each type, Arrow reads some as meant
    "int16": [1, 70_000, "7", 5.0],
    "int64": [1, -(2**63), 2**63, None],
    "uint64": [1, 2**64 - 1, -1],
    "float64": [0.1, 3, -0.0, 1e300, None, "x"],
    "bool": [True, None, 1],
    "numeric(10,2)": ["1.50", 2.25, 7, None, "1.505", 10**12],
    "string": ["x", "", "é", None, 5],
    "varchar(2)": ["ab", "abc", None],
    "date": ["2020-01-01", "x", None, 5],
    "timestamp": ["2020-01-01T00:00:00", "2020-01-01", None],
    "timestamptz": ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00+01:00", "x"],
    "uuid": ["00112233-4455-6677-8899-aabbccddeeff", "x", None],
    "jsonb": [{"b": [1, {"a": '\\"}{,:'}], "a": 1.0}, None, [1e300, -0.0], "x\n\u2028", 5, True],
}
objects = st.lists(
    st.sampled_from([*values]).flatmap(  # one odd column in each row at most
        lambda odd: st.fixed_dictionaries(
            {},
            optional={
                "other": st.sampled_from([None, {"a": None}, [1]]),
                **{k: st.sampled_from(v if k == odd else v[:2]) for k, v in values.items()},
            },
        )
    ),
    min_size=1,
    max_size=3,
)


@settings(deadline=None)
@given(objects, st.sets(st.sampled_from([*values])), st.sampled_from(["", "\n"]))
def test_what_arrow_reads_is_what_is_read_one_by_one(
    some: list[dict[str, Any]], optional: set[str], end: str
) -> None:
    data = b"\n".join(map(orjson.dumps, some)) + end.encode()
    types = {name: parse_type(name) for name in values}
    file = SourceFile("x", "x", len(data), piece=FileRange(0, len(data), len(data), 7, data=data))

    fast = read_objects(file, data, [*values], optional, types)

    slow = one_by_one(file, read_lines(file, data), [*values], optional)
    if fast is None:
        return
    assert fast.count == slow.count
    assert not any(any(lacks) for lacks in slow.lacking.values())
    for name, kind in types.items():
        a, b = (raw.convert(raw.columns[name], kind) for raw in (fast, slow))
        assert a.values.equals(b.values), name
        assert a.bad.tolist() == b.bad.tolist(), name
        for row in a.bad.tolist():
            assert fast.shown(fast.columns[name], row) == slow.shown(slow.columns[name], row)
    rows = np.arange(fast.count)
    assert fast.locate(rows) == slow.locate(rows)


def test_a_large_file_is_read_as_a_table_and_a_small_one_is_not(put) -> None:
    types = {"a": parse_type("int64"), "b": parse_type("string")}
    lines = [orjson.dumps({"a": n, "b": "x" * 100}) for n in range(2000)]

    large, small = (
        read_jsonl(put(b"\n".join(some)), "ab", (), types) for some in (lines, lines[:2])
    )

    assert isinstance(large.columns["a"], pa.Array)
    assert small.columns["a"] == [0, 1]
    assert read_jsonl(put(b"\n".join(lines)), "ab").columns["a"] == [*range(2000)]


CASES = pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            b'{"ID": 1, "name": "a"}',
            "the key ID differs from the column id in capital letters alone",
        ),
        (b'{"id": 1, "Name": "a"}', "the key Name differs from the column name in capital letters"),
        (b'{"\\u0049D": 1, "name": "a"}', "the key ID differs from the column id"),
        (b'{"id": 1, "ID": 2, "name": "a"}', ""),  # the column is there
        (b'{"id": 1, "title": "Name"}', ""),
    ],
)


@CASES
@pytest.mark.parametrize("size", [1, SMALL_BYTES // 20])
def test_a_key_in_other_capital_letters_is_no_missing_key(
    put, line: bytes, reason: str, size: int
) -> None:
    # Spark and other tools write such keys; a row of nulls would lose the values.
    types = {"id": parse_type("int64"), "name": parse_type("string")}
    data = b'{"id": 1, "name": "b"}\n' * size + line + b"\n"
    raw = read_jsonl(put(data), list(types), (), types)

    assert [(one.line, one.reason[: len(reason)]) for one in raw.malformed] == (
        [(size + 1, reason)] if reason else []
    )
    assert raw.count == size + (not reason)


@pytest.mark.parametrize("size", [1, SMALL_BYTES // 20])
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{" id": 1, "größe": "a"}', "the key  id differs from the column id in blanks or capital"),
        ('{"id  " : 1, "größe": "a"}', "the key id   differs from the column id in blanks or"),
        ('{"id": 1, "GRÖSSE": "a"}', ""),  # two letters for one
        ('{"id": 1, "GRößE": "a"}', "the key GRößE differs from the column größe in capital"),
        ('{"id": 1, "GRÖßE": "a"}', "the key GRÖßE differs from the column größe in capital"),
        ('{"id": 1, "GR\\u00d6ßE": "a"}', "the key GRÖßE differs from the column größe in"),
        ('{"id": 1, "text": " größe", "more": "größe "}', ""),
    ],
)
def test_a_key_with_blanks_or_in_other_letters_is_no_missing_key(
    put, line: str, reason: str, size: int
) -> None:
    types = {"id": parse_type("int64"), "größe": parse_type("string")}
    data = '{"id": 1, "größe": "b"}\n' * size + line + "\n"
    raw = read_jsonl(put(data.encode()), list(types), (), types)

    assert [(one.line, one.reason[: len(reason)]) for one in raw.malformed] == (
        [(size + 1, reason)] if reason else []
    )


MESSAGES = {
    "Debezium": {"before": None, "after": {"id": 1}, "source": {"table": "t"}, "op": "c"},
    "schema": {"schema": {}, "payload": {"op": "c", "after": {"id": 1}}},
    "a record": {"key": {"id": 1}, "value": {"id": 1}},
    "Maxwell": {"database": "shop", "table": "t", "type": "insert", "ts": 1, "data": {"id": 1}},
    "Canal": {
        "data": [{"id": 1}],
        "database": "shop",
        "id": 9,
        "isDdl": False,
        "table": "t",
        "type": "INSERT",
    },
    "wal2json": {"action": "I", "table": "t", "columns": [{"name": "id", "value": 1}]},
    "none of the columns": {"other": 1},
}


@pytest.mark.parametrize(("what", "message"), MESSAGES.items(), ids=MESSAGES)
@pytest.mark.parametrize("times", [1, 5000])
def test_an_object_that_is_no_row_is_rejected(put, what: str, message: Any, times: int) -> None:
    """All its columns were null, or what the message says of itself."""
    rows: list[Any] = [{"id": 1, "note": None}, {}, message, {"id": 2}] * times
    names = ["id", "note"]
    types = {name: parse_type(kind) for name, kind in (("id", "int64"), ("note", "string"))}
    raw = read_jsonl(
        put(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)),
        names,
        types=types,
    )
    assert [bad.line for bad in raw.malformed] == [4 * n + 3 for n in range(times)]
    assert what in raw.malformed[0].reason
    assert raw.count == 3 * times


def test_a_row_may_be_called_as_a_message(put) -> None:
    """The shard has its `data`, or all columns are there, or its keys are those of many rows."""
    for what, names in (
        ("Maxwell", ["data", "note"]),
        ("Maxwell", ["database", "ts"]),
        ("a record", ["key", "note"]),
    ):
        assert not read_jsonl(put(orjson.dumps(MESSAGES[what]) + b"\n"), names).malformed


@pytest.mark.parametrize(
    ("text", "line", "value"),
    [
        (b'[{"id": 1},\n{"id": 2, "x": NaN}]', 2, ' 1},\n{"id": 2, "x": NaN}]'),
        (b'[{"id": 1},]', 1, '[{"id": 1},]'),
        (b'[{"id": 1, "x": "\xff"},]', 1, ""),
        (b'[{"id": 1, "x": "\\ud83d}]', 1, '"x": "\\ud83d}]'),
    ],
)
def test_an_array_that_is_no_json_is_refused_with_what_is_there(
    tmp_path: Path, text: bytes, line: int, value: str
) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text)

    with pytest.raises(InvalidRequest, match="the file is no JSON") as error:
        read_json(SourceFile(str(path), "x.json", len(text)), ["id", "x"])

    details = error.value.details
    assert (details["file"], details["line"]) == ("x.json", line)
    assert value in details["value"]


def test_letters_that_are_no_text_reject_an_element_as_they_reject_a_line(tmp_path: Path) -> None:
    """One half of a character in one value refused a whole array."""
    elements = [
        b'{"id": 1, "x": "\\ud83d\\ude00"}',
        b'{"id": 2, "x": "\\ud83d"}',
        b'{"id": 3,\n "x": "\xff"}',
        b'{"id": 4, "x": "a\tb"}',
        b'{"id": 5, "\\udc00": [",", "]"]}',
        b'{"id": 6.0, "x": "\\\\ud800"}',
        b"null",
        b'"\\ud800"',
        b'{"id": 123456789012345678901234567890, "x": "{\\"}"}',
    ]
    found = []
    for name, data in (
        ("x.json", b"[" + b" ,\n".join(elements) + b"]\n"),
        ("x.jsonl", b"\n".join(one.replace(b"\n", b" ") for one in elements)),
    ):
        (tmp_path / name).write_bytes(data)
        read = read_json if name == "x.json" else read_jsonl
        raw = read(SourceFile(str(tmp_path / name), name, len(data)), ["id", "x"])
        bad = [(one.line, one.reason, one.raw, one.data) for one in raw.malformed]
        found.append((raw.columns, raw.locate(np.arange(raw.count)), sorted(bad, key=str)))

    assert found[0] == found[1]
    assert found[0][0]["x"] == ["\U0001f600", "\\ud800", '{"}']
    assert [line for line, *_ in found[0][2]] == [2, 3, 4, 5, 7, 8]
