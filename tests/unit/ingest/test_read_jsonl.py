"""JSON lines: values by key, exact numbers, and lines that are no objects."""

from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import InvalidRequest
from strata.ingest.files import SourceFile
from strata.ingest.read_jsonl import exact_lines, read_jsonl
from strata.ingest.source import Wanted, rejects, typed_rows
from strata.model.types import parse_type


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

    found = rejects(raw, typed_rows(raw, [Wanted("a", parse_type("int32"), True)]).bad)

    assert [(r.line, r.column, r.value) for r in found] == [
        (3, None, None), (4, None, None), (5, "a", "x"), (6, None, None),
    ]  # fmt: skip
    assert found[0].raw == "not json"
    assert found[1].reason == "not a JSON object"
    assert found[3].raw == '{"a":\\xff}'


def test_numbers_keep_their_exact_value(put) -> None:
    big = "123456789012345678901234567890"
    raw = read_jsonl(
        put(f'{{"a":{{"n":{big},"e":1.00}},"b":0.10000000000000000001}}\n'.encode()), "ab"
    )

    wanted = [
        Wanted("a", parse_type("jsonb"), True),
        Wanted("b", parse_type("numeric(38,20)"), True),
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
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@given(st.lists(st.dictionaries(st.sampled_from("ab"), VALUES), max_size=5))
def test_jsonb_columns_hold_what_the_lines_say(tmp_path_factory, rows: list[dict]) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "x.jsonl"
    path.write_bytes(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows))
    raw = read_jsonl(SourceFile(str(path), "x.jsonl", 0), ["a"])

    typed = typed_rows(raw, [Wanted("a", parse_type("jsonb"), True)])

    texts = typed.columns["a"].to_pylist()
    assert [None if t is None else orjson.loads(t) for t in texts] == [r.get("a") for r in rows]
    assert not typed.bad


@given(st.lists(st.sampled_from(['{"a":1}', '{"a":1e5}', '{"a":-0}', '{"a":1234567890.123456}',
                                 '{"a":"2013-03-01"}', '{"a":-0.5}', ""])))  # fmt: skip
def test_every_line_with_an_unsafe_number_is_found(lines: list[str]) -> None:
    found = exact_lines("\n".join(lines).encode())

    safe = {'{"a":1}', '{"a":"2013-03-01"}', ""}
    assert found == {n for n, line in enumerate(lines, 1) if line not in safe}
