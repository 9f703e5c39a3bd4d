"""Canonical values: one spelling for each, and no number changed."""

import json
import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata.format.types.numbers import canonical_floats
from strata.format.values.json_text import MAX_DEPTH, canonical_json, canonical_text

NUMBERS = st.one_of(
    st.integers(),
    st.integers(0, 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20),
)


@st.composite
def number_texts(draw: st.DrawFn) -> str:
    text = str(draw(NUMBERS)).lower()
    return (
        text
        if "." in text or "e" in text
        else text + draw(st.sampled_from(["", ".0", "e3", "E-7", ".50"]))
    )


TEXTS = st.recursive(
    st.sampled_from(["null", "true"]) | number_texts() | st.text(max_size=5).map(json.dumps),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: "[ " + " , ".join(items) + " ]")
        | st.lists(st.tuples(st.text(max_size=3).map(json.dumps), inner), max_size=3).map(
            lambda items: "{ " + " , ".join(f"{k} : {v}" for k, v in items) + " }"
        )
    ),
    max_leaves=6,
)


def exact(text: str) -> Any:
    """Return a JSON text's value with every number exact: integers as int, others as Decimal."""
    return json.loads(text, parse_float=Decimal)


@given(TEXTS)
@example("[1e400, 1e-400, -0, -0.0, 123456789012345678901234567890, 0.1000000000000000055511151]")
def test_a_text_keeps_its_value_and_is_canonical_once(text: str) -> None:
    result, invalid = canonical_json(pa.array([text]))
    [canonical] = result.to_pylist()

    assert not invalid[0]
    assert exact(canonical) == exact(text)
    assert canonical_text(canonical.encode()) == canonical.encode()


@given(TEXTS)
def test_the_fast_and_the_exact_path_write_the_same(text: str) -> None:
    [fast] = canonical_json(pa.array([text]))[0].to_pylist()
    assert canonical_text(text.encode(), exotic=True) == fast.encode()


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (' {"b": 1, "a" : [ ] } ', '{"a":[],"b":1}'),
        ('{"a":1,"a":2}', '{"a":2}'),
        ("1.10", "1.1"),
        ("1.0", "1.0"),
        ("1e2", "100.0"),
        ("-0.0", "0.0"),
        ("-0", "0"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("0.1000000000000000055511151", "0.1000000000000000055511151"),
        ('"\\u00e9\\/"', '"é/"'),
        ('{"é":1,"z":2,"\\ud83d\\ude00":3,"\\uffff":4}', '{"z":2,"é":1,"\uffff":4,"😀":3}'),
    ],
)
def test_the_spelling_is(text: str, canonical: str) -> None:
    assert canonical_json(pa.array([text]))[0].to_pylist() == [canonical]


@pytest.mark.parametrize(
    "text",
    ["", "{", "NaN", "[Infinity]", "01", "1.", '"\\ud800"', "1 2", "{'a':1}", "\ufeff1",
     "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "[1e10, NaN]", "1e99999999999999999999999"],
)  # fmt: skip
def test_what_is_not_json_is_said(text: str) -> None:
    result, invalid = canonical_json(pa.array([text, None, "1"]))
    assert result.to_pylist() == [None, None, "1"]
    assert invalid.tolist() == [True, False, False]


def test_nesting_up_to_the_limit_is_kept() -> None:
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert canonical_json(pa.array([text]))[0].to_pylist() == [text]


def test_no_texts_are_no_texts() -> None:
    result, invalid = canonical_json(pa.array([], pa.string()))
    assert result == pa.array([], pa.string())
    assert invalid.tolist() == []


@pytest.mark.parametrize(
    ("kind", "code", "nan"),
    [(pa.float64(), "<d", "000000000000f87f"), (pa.float32(), "<f", "0000c07f")],
)
def test_floats_have_one_zero_and_one_nan(kind: pa.DataType, code: str, nan: str) -> None:
    strange = struct.unpack(code, bytes.fromhex(nan)[:-1] + b"\xff")[0]
    found = canonical_floats(pa.array([-0.0, 0.0, strange, math.nan, 1.5, None], kind))

    bits = [v if v is None else struct.pack(code, v).hex() for v in found.to_pylist()]
    zero, one = struct.pack(code, 0.0).hex(), struct.pack(code, 1.5).hex()
    assert bits == [zero, zero, nan, nan, one, None]
    assert found.type == kind
