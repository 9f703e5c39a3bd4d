"""However a text is stored, a term in it is found, and no part of a longer word is."""

import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.erase.spellings import pattern_of
from strata.erase.texts import Terms
from strata.ingest.quarantine import rejected
from tests.support.erasing import erased, places_of
from tests.unit.ingest.test_engine import World

TERMS = (
    "bob@example.org",
    'O"Brien',
    "O'Brien",
    "Müller",
    "a\\b/12",
    "tab\there",
    "李小龙李",
    "𝒳𝒴𝒵𝒳",
)
SPELLINGS: dict[str, Callable[[str], str]] = {
    "itself": str,
    "upper": str.upper,
    "JSON": lambda text: orjson.dumps(text).decode(),
    "JSON in ASCII": json.dumps,
    "JSON in JSON": lambda text: json.dumps({"a": json.dumps([text])}),
    "three times JSON": lambda text: json.dumps([json.dumps([json.dumps(text)])]),
    "slashes escaped": lambda text: json.dumps(text).replace("/", "\\/"),
    "SQL": lambda text: "name = '" + text.replace("'", "''") + "'",
    "SQL in JSON": lambda text: json.dumps("name = '" + text.replace("'", "\\'") + "'"),
    "CSV": lambda text: '"' + text.replace('"', '""') + '"',
    "CSV in JSON": lambda text: json.dumps('1,"' + text.replace('"', '""') + '",2'),
    "a path": lambda text: f"s3://b/name={quote(text, safe='')}/1.csv",
}
KEPT_IN: dict[str, tuple[pa.DataType, Callable[[bytes], Any]]] = {
    "string": (pa.binary(), bytes),
    "list<string>": (pa.list_(pa.binary()), lambda one: [b"x", one, b"y"]),
    "map<string>": (pa.map_(pa.string(), pa.binary()), lambda one: [("a", one), ("b", b"y")]),
    "record<a: string>": (pa.struct({"a": pa.binary()}), lambda one: {"a": one}),
}
BESIDE = ("", " ", "\t", "\n", "\r", "\b", ",", "\u00fc", "\U0001f600", "'", '"', "\\", "\x01")


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("term", TERMS)
def test_a_term_is_found_however_it_is_spelt(term: str, spelling: str) -> None:
    spelt = SPELLINGS[spelling]
    for beside in BESIDE:
        text = spelt(f"1{beside and beside + term + beside}" if beside else term)
        assert Terms((term,)).within(text.encode()), text


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_part_of_a_word_is_no_term(spelling: str) -> None:
    for text in ("xbob@example.org", "bob@example.orgs", "bob@example_org", "_bob@example.org"):
        assert not Terms(("bob@example.org",)).within(SPELLINGS[spelling](text).encode()), text


def test_a_term_that_begins_within_another_hit_is_found() -> None:
    assert Terms(("ab ab",)).within(b"xab ab ab")


@pytest.mark.parametrize("encoding", ["cp1252", "cp850", "mac-roman", "utf-16-le", "gb18030"])
def test_a_row_in_an_encoding_that_nobody_declared_is_found(encoding: str) -> None:
    raw = b64encode("1,MÜLLER,Müller".encode(encoding)).decode()
    assert Terms(("Müller",)).lines("x", orjson.dumps({"raw": "1,M", "raw_base64": raw})) == [True]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16-le"])
@pytest.mark.parametrize("kind", KEPT_IN)
def test_a_row_that_is_no_text_is_searched_as_it_is_kept(
    tmp_path: Path, kind: str, encoding: str
) -> None:
    """The text for people escapes such bytes, and the whole row lay beside it; both stayed."""
    pairs = {"id": "int64", "name": kind, "n": "int16"}
    columns = [{"name": name, "type": its} for name, its in pairs.items()]
    source = {"format": "parquet", "max_rejected": 0.9}
    world = World(tmp_path, columns=columns, source=source)
    values = [b"ann", "J\u00f6rg M\u00fcller".encode(encoding), b"eve"]
    arrow, made = KEPT_IN[kind]
    names = pa.array([made(value) for value in values], arrow)
    rows = pa.table({"id": [0, 1, 2], "name": names, "n": [0, 99999, 99999]})
    pq.write_table(rows, tmp_path / "a.parquet")
    assert world.ingest(str(tmp_path / "a.parquet"), lower=0, upper=1)["rejected"] == 2

    found = erased(world.stores, "s", "id", 7, "J\u00f6rg M\u00fcller")

    assert (found["rejected_rows"], found["rows_about"], found["complete"]) == (1, 1, True)
    [left] = [row for some in rejected(world.stores, "s") for row in some.rows]
    assert b"eve" in left["raw"]


def test_composed_and_decomposed_characters_are_one() -> None:
    assert Terms(("Mu\u0308ller",)).within("M\u00fcller".encode())
    assert Terms(("M\u00fcller",)).within("Mu\u0308ller".encode())


def test_a_rejected_row_of_a_file_with_tabs_goes(tmp_path: Path) -> None:
    """A tab is `\\t` in JSON, and that `t` is no letter in front of the name."""
    columns = [{"name": "name", "type": "string"}, {"name": "n", "type": "int16"}]
    source = {"format": "csv", "delimiter": "\t", "max_rejected": 0.9}
    world = World(tmp_path, columns=columns, key=["n"], source=source)
    bob = "bob@example.org"
    rows = ("ann\t1", f"{bob}\t2", f"no number\t{bob}", "bad\tbad")
    world.ingest(world.put("a.csv", "name\tn\n" + "\n".join(rows) + "\n"), lower=0, upper=1)
    assert places_of(world.stores, bob)

    found = erased(world.stores, "s", "name", bob)

    assert places_of(world.stores, bob) == []
    assert (found["rows"], found["rejected_rows"], found["complete"]) == (1, 1, True)
    assert places_of(world.stores, "bad")


def test_a_quote_is_found_where_sql_or_csv_doubles_it() -> None:
    assert pattern_of(("o'neil",)).search(b"name = 'o''neil'")
    assert pattern_of(('the "boss"',)).search(b'1,"the ""boss"""')


@pytest.mark.parametrize("term", ["jos\u00e9 x", "\u00a35 each", "\U0001f600 smith", "a/b\tc"])
def test_a_letter_is_found_however_json_and_addresses_escape_it(term: str) -> None:
    pattern = pattern_of((term,))

    for text in (json.dumps(term), json.dumps(json.dumps(term)), quote(term), term):
        assert pattern.search(text.lower().encode()), text
    assert not pattern.search(json.dumps(f"{term}y").lower().encode())
