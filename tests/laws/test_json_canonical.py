"""The kernel that writes JSON texts in their one spelling agrees with parsing each of them."""

import json
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as trying
from hypothesis import strategies as st

from strata.format.values import json_text
from strata.format.values.json_text import _one_by_one, _usual, canonical_json
from tests.support.sizes import tries

KEYS: Final = st.sampled_from(
    ["", "a", "aa", "ab", "b", "A", "é", "ключ", "a b", 'q"', "\\", "\x7f"]
)
REALS: Final = st.sampled_from([0.5, -0.5, 100.0, 0.001, 0.0001, 1e16, 1e20, 123456.789, 0.1])
SCALARS: Final = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | REALS
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
)
VALUES: Final = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=12,
)
SPACES: Final = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r")])
PIECES: Final = st.sampled_from(
    ['"', ",", ":", "{", "}", "[", "]", "0", "-", ".", "\\", "\\/", "\\u0041", " ", "e1", "\x00"]
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw a JSON text, or one that an edit has made odd."""
    text = json.dumps(draw(VALUES), ensure_ascii=draw(st.booleans()), separators=draw(SPACES))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(PIECES) + text[at + draw(st.integers(0, 1)) :]
    if draw(st.booleans()):
        text = f'{{"b":1,"a":[],"b":{text}}}'
    return text


@trying(deadline=None, max_examples=tries(100, 5000))
@given(st.lists(st.none() | texts(), min_size=1, max_size=20), st.integers(0, 3))
def test_a_text_has_one_spelling_whichever_way_it_is_written(
    some: list[str | None], start: int
) -> None:
    column = pa.array([None, "[1]", '{"x":2}', *some], pa.string())[start:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "FEW_TEXTS", 0)
        found, bad = canonical_json(column)

    slow, wrong = _one_by_one(column)
    found.validate(full=True)
    assert found.to_pylist() == slow.to_pylist()
    assert bad.tolist() == wrong.tolist()


USUAL: Final[list[tuple[str, str]]] = [
    ('{"b": 1, "a": 2}', '{"a":2,"b":1}'),
    ('{"a": 1, "a": 2}', '{"a":2}'),
    ('{"b":{"d":1,"c":[{"f":1,"e":2}]},"a":1}', '{"a":1,"b":{"c":[{"e":2,"f":1}],"d":1}}'),
    (
        "[1.50, 1.0, -0.5, 0.001, 100, true, false, null]",
        "[1.5,1.0,-0.5,0.001,100,true,false,null]",
    ),
    (r'["a\/b", "\n\t\r\b\f", "\"", "\\"]', r'["a/b","\n\t\r\b\f","\"","\\"]'),
    (' {"é" : "ü" , "" : { } , "x" : [ ] } ', '{"":{},"x":[],"é":"ü"}'),
    ("123456789012345678", "123456789012345678"),
    ("[" * 64 + "]" * 64, "[" * 64 + "]" * 64),
]
# The exact way decides them; some are no JSON.
UNUSUAL: Final = [
    "",
    " ",
    "-0",
    "01",
    "1.",
    "-",
    "1e5",
    "1E5",
    "0.0",
    "-0.0",
    "0.0001",
    "1234567890123456789",
    "1234567890.123456",
    '"\\u0041"',
    '"\x7f"',
    '"\x01"',
    r'{"a\n":1}',
    "[1,]",
    '{"a":1,}',
    '{"a"}',
    "{,}",
    "[1 2]",
    "nul",
    "truefalse",
    "[",
    '{"a":',
    '"',
    "1 1",
    "[" * 65 + "]" * 65,
]


@pytest.mark.parametrize(("text", "form"), USUAL)
def test_usual_texts_are_written_by_the_kernel(text: str, form: str) -> None:
    found, done = _usual(pa.array([text]))
    assert done.tolist() == [True]
    assert found.to_pylist() == [form]
    assert _one_by_one(pa.array([text]))[0].to_pylist() == [form]


@pytest.mark.parametrize("text", UNUSUAL)
def test_unusual_texts_are_left_to_the_exact_way(text: str) -> None:
    assert _usual(pa.array([text]))[1].tolist() == [False]


def test_an_object_of_many_members_and_one_of_more_than_fit() -> None:
    for count, fits in ((128, True), (129, False), (2000, False)):
        text = json.dumps({f"k{n:04}": n for n in reversed(range(count))})
        found, done = _usual(pa.array([text]))
        assert done.tolist() == [fits]
        if fits:
            assert json.loads(found[0].as_py()) == json.loads(text)
            assert found.to_pylist() == _one_by_one(pa.array([text]))[0].to_pylist()


def test_offsets_outside_the_bytes_are_refused() -> None:
    buffers: list[Any] = [
        None,
        pa.py_buffer(np.array([0, 5, 2], np.int32)),
        pa.py_buffer(b"[1]"),
    ]
    with pytest.raises(ValueError, match="offsets are invalid"):
        _usual(pa.Array.from_buffers(pa.string(), 2, buffers))


@pytest.mark.parametrize("number", ["1", "1e5", "12345678901234567890"])
@pytest.mark.parametrize("half", [r'"\ud83d"', r'"\udc00x"', r'{"\udfff":1}'])
def test_half_of_a_surrogate_pair_is_bad_unless_a_repeated_key_hides_it(
    number: str, half: str
) -> None:
    """Numbers that go the exact way beside it change nothing."""
    texts = [f"[{half},{number}]", f'{{"a":{half},"a":{number}}}', f"[{number}]"]

    found, bad = canonical_json(pa.array(texts))

    assert bad.tolist() == [True, False, False]
    shown = canonical_json(pa.array([number]))[0][0].as_py()
    assert found.to_pylist() == [None, f'{{"a":{shown}}}', f"[{shown}]"]


def test_texts_that_are_no_utf8_are_left_to_the_exact_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Arrow reads files unchecked; a letter may begin in one text and end in the next."""
    monkeypatch.setattr(json_text, "FEW_TEXTS", 0)
    texts = pa.array([b'"a"', b'"\xff"', None, b'"\xed\xa0\x80"', b'"\xc3', b'\xa9"'], pa.binary())

    found, bad = canonical_json(texts.view(pa.string()))

    assert found.to_pylist() == ['"a"', None, None, None, None, None]
    assert bad.tolist() == [False, True, False, True, True, True]
