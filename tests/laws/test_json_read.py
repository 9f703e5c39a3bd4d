"""The fast way through JSON says what the exact fold says, or leaves the rows to it."""

import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata.stats.json import fold_texts
from strata.stats.json_fold import Fields
from strata.stats.json_read import Reader
from strata.stats.wire import Path
from tests.facts import NUMBERS, TEXTS, canonical

KEYS = st.sampled_from(["a", "b", "c", "d", "last_at", "it's", "é", "n.m"])
TIMES = ["2013-01-31T05:00:00Z", "2013-01-31 05:00:00", "2013-01-31", "05:00"]
KINDS = {  # the reader takes one kind a path: each key has its own
    "a": st.sampled_from(NUMBERS),
    "b": st.sampled_from([*TEXTS, "null", '"a":null', "x\\"]),
    "c": st.booleans(),
    "d": st.lists(st.sampled_from([1, 2, 3]), max_size=2),
    "last_at": st.sampled_from(TIMES),
    "é": st.integers(-5, 5),
    "n.m": st.floats(allow_nan=False, allow_infinity=False),
}
FLAT = st.fixed_dictionaries({}, optional={k: v | st.none() for k, v in KINDS.items()})
REGULAR = st.fixed_dictionaries({}, optional={**KINDS, "w": FLAT, "l": st.lists(FLAT, max_size=2)})
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([0.5, "x", "NaN", "Infinity"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
PIECES = st.sampled_from(
    ['{"a":1}', '{"a":1', '"b":2}', "{}", '{"a":1,"a":2}', '{"l":[{"a":1,"a":2}]}', "NaN", ",", " ",
     '{"l":[NaN]}', '{"a":Infinity}', '{"a": null}', '{"a":null}', '{"l":[null]}', "\n", "[", "]",
     '{"b":"null"}', '{"a\\"":null}', '{"b":"\\"a\\":null"}', '{"a":01}', '{"a":1e999}', "{'a':1}",
     '{"b":"\\ud800"}', "\ufeff{}", '{"a":{"a":null}}', '{"":null}', '{"a":-}', '{"a":"x\ty"}']
)  # fmt: skip

EDITS = [
    "",
    '"',
    "\\",
    ",",
    ":",
    "{",
    "}",
    "[",
    "]",
    "1",
    "-",
    ".",
    "e",
    " ",
    "\n",
    "n",
    "\x1e",
    "}{",
]


def said(fields: Fields) -> dict[str, Any]:
    """Return fields as they are stored; those that are not given are null."""
    names = ("num_low", "num_high", "str_low", "str_high")
    return {**dict.fromkeys(names), **fields}


def agree(fast: Fields, slow: Fields) -> bool:
    """Tell whether two statistics are equal, but for number bounds a step looser in `fast`."""
    one, two = said(fast), said(slow)
    low, high = one["num_low"], one["num_high"]
    if (one["num_low"] is None) != (two["num_low"] is None):
        return False
    if low is not None:
        near = math.nextafter(math.nextafter(low, math.inf), math.inf)
        if not low <= two["num_low"] <= near or high < two["num_high"]:
            return False
    loose = {"num_low": None, "num_high": None}
    if not one["num_exact"]:
        loose["num_exact"] = None
    return {**one, **loose} == {**two, **loose}


@given(st.lists(REGULAR, min_size=1, max_size=6), st.booleans())
def test_regular_documents_are_read_alike(documents: list[dict[str, Any]], plain: bool) -> None:
    if plain:  # escapes and odd keys send nulls to the fold
        documents = [{k: v for k, v in d.items() if k not in ("b", "é", "n.m")} for d in documents]
    check([canonical(d) for d in documents])


@given(st.lists(ANYTHING, max_size=4))
def test_any_documents_are_read_alike_or_left_to_the_fold(documents: list[Any]) -> None:
    check([canonical(d) for d in documents])


@given(st.lists(st.lists(PIECES, max_size=3).map("".join), max_size=3))
@example(['{"a":1} {"a":2}', ""])
@example(['{"a":1}{"a":2}', "{"])
@example(['{"l":[{"a":null},{"a":1}]}', '{"a":2}'])
def test_texts_that_are_no_json_are_never_read(texts: list[str]) -> None:
    check(texts)


@given(st.lists(REGULAR, min_size=1, max_size=2), st.integers(0, 200), st.sampled_from(EDITS))
def test_a_slip_in_a_text_is_not_read_over(
    documents: list[dict[str, Any]], place: int, slip: str
) -> None:
    texts = [canonical(d) for d in documents]
    whole = "\x1e".join(texts)  # one slip anywhere, borders of rows included
    place %= len(whole)
    check((whole[:place] + slip + whole[place + 1 :]).split("\x1e"))


@given(st.lists(st.lists(REGULAR, min_size=1, max_size=3), min_size=2, max_size=4))
def test_what_one_chunk_taught_does_not_mislead_the_next(
    chunks: list[list[dict[str, Any]]],
) -> None:
    reader = Reader()
    for documents in chunks:
        texts = pa.array([canonical(d) for d in documents])
        compare(reader.read(texts), texts)


def test_texts_like_times_are_learnt_once_and_may_be_gone() -> None:
    reader = Reader()
    for texts in (
        ['{"at":"2013-01-31","w":{"n":1,"s":"2013-01-31"}}'],
        ['{"at":"x","w":{"n":1.5}}'],
        ['{"at":7}'],
        ['{"b":true,"w":{}}'],
    ):
        array = pa.array(texts)
        found = reader.read(array)
        assert found is not None
        compare(found, array)


def check(texts: list[str]) -> None:
    """Compare both ways on the same texts."""
    array = pa.array(texts, pa.string())
    compare(Reader().read(array), array)


def compare(fast: dict[Path, Fields] | None, texts: pa.Array) -> None:
    """Check what the fast way said, if it said anything, against the fold."""
    if fast is None:
        return
    slow = fold_texts(texts)
    assert set(fast) == set(slow)
    for path, fields in fast.items():
        assert agree(fields, slow[path]), (path, fields, slow[path])


@pytest.mark.parametrize(
    "documents",
    [
        [{"a": 1, "w": {"x": 1.5, "s": "t"}}, {"a": None, "w": {"x": 2}}],
        [{"at": "2013-01-31T05:00:00Z", "w": {"at2": "2013-01-31"}, "n": 1}],
        [{}, {}],
        [{"l": [1, 2]}, {"l": []}, {"k": True}],
        [{"b": 'quoted " and \\ back'}],
        [{"only": None}],
    ],
)
def test_what_is_regular_takes_the_fast_way(documents: list[dict[str, Any]]) -> None:
    texts = pa.array([json.dumps(d, separators=(",", ":")) for d in documents])

    assert Reader().read(texts) is not None
    check(texts.to_pylist())


@pytest.mark.parametrize(
    "texts",
    [
        ['{"a":1}', '{"a":"x"}'],  # two kinds
        ["1"],
        ['{"l":[NaN]}'],
        ['{"l":[null],"a":1}'],
        ['{"a":null,"w":{"a":null}}'],  # which of the two?
        ['{"a": null}'],
        ['{"l":[{"b":1,"b":2}]}'],
        ['{"a":1} {"a":2}', "{}"],
    ],
)
def test_doubt_ends_in_the_fold(texts: list[str]) -> None:
    assert Reader().read(pa.array(texts)) is None
