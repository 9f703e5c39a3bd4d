"""What strings at paths of JSON are written like is true of each, and as of a column of them."""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from strata.stats.json_scan import Scanner
from strata.stats.shapes import NONE, TextShape
from strata.stats.wire import Path
from tests.laws.test_shapes import ALIKE, ODD
from tests.twins.shapes import shape_of_each

DOCUMENTS = st.sampled_from(ALIKE).flatmap(
    lambda one: st.lists(one | st.sampled_from((None, 1, True, [1], {"b": "x"})), max_size=12)
)
WITH_POISON = st.tuples(DOCUMENTS, st.lists(st.sampled_from(ODD), max_size=1)).map(
    lambda both: [*both[0], *both[1]]
)


def scanned(documents: list[Any], path: Path, **options: Any) -> list[TextShape]:
    """Return what the strings at a path are written like, for each tree of paths."""
    scanner = Scanner(first=[lambda _: True], **options)
    scanner.add(pa.array([json.dumps(one) for one in documents], pa.string()))
    scanner.finish()
    return [found[path] for found in scanner.shapes() if path in found]


def long_numbers(texts: list[str]) -> bool:
    """Return whether some text has more digits than the scanner reads."""
    return any(sum(char.isdigit() for char in text) > 15 for text in texts)


@given(values=DOCUMENTS | WITH_POISON, escaped=st.booleans())
@example(values=["2024-01-05", "2024-13-01"], escaped=False)
@example(values=["-5", "-0"], escaped=False)
@example(values=["999999999999999.5", "0.1"], escaped=False)
def test_strings_at_a_path_are_as_texts(values: list[Any], escaped: bool) -> None:
    texts = [value for value in values if isinstance(value, str)]
    documents = [{"x": {"a": value}} for value in values]
    found = scanned(documents, ("x", "a"))
    if escaped:
        texts_of_json = [
            json.dumps(one).replace('"0', '"\\u0030').replace("-", "\\u002d") for one in documents
        ]
        scanner = Scanner(first=[lambda _: True])
        scanner.add(pa.array(texts_of_json, pa.string()))
        scanner.finish()
        found = [shapes[("x", "a")] for shapes in scanner.shapes() if ("x", "a") in shapes]
    expected = shape_of_each(texts)

    assert len(found) == (1 if texts else 0)
    if expected is not None:
        assert found[0].patterns == expected.patterns
        if not long_numbers(texts):
            assert (found[0].whole, found[0].number) == (expected.whole, expected.number)
        assert found[0].whole in (None, expected.whole)
        assert found[0].number in (None, expected.number)


@given(first=DOCUMENTS, second=DOCUMENTS)
def test_many_keys_lose_no_shape(first: list[Any], second: list[Any]) -> None:
    """A tree that is full becomes statistics, and a new one begins."""
    values = [*first, *second]
    documents = [{"a": value, f"k{n}": n} for n, value in enumerate(values)]
    expected = shape_of_each([value for value in values if isinstance(value, str)])
    pieces = scanned(documents, ("a",), max_nodes=8)

    whole = pieces[0] if pieces else None
    for piece in pieces[1:]:
        assert whole is not None
        whole = whole.joined(piece)
    assert (whole is None) == (expected is None)
    if whole is not None and expected is not None:
        assert whole.patterns == expected.patterns


def test_strings_in_lists_and_below_eight_keys_have_no_shape() -> None:
    deep: Any = "7"
    for _ in range(9):
        deep = {"k": deep}
    scanner = Scanner(first=[lambda _: True])
    scanner.add(pa.array([json.dumps({"l": ["7"], "deep": deep, "a": "7"})], pa.string()))
    scanner.finish()

    (found,) = scanner.shapes()
    assert found == {("a",): TextShape((7, 7), (7.0, 7.0), frozenset())}


@given(values=DOCUMENTS, repeated=st.integers(1, 40))
def test_only_paths_that_come_first_have_a_shape(values: list[Any], repeated: int) -> None:
    """However many texts there are, and whichever of them has a path first."""
    documents = [{"a": value, "b": {"a": value}} for value in values * repeated]
    scanner = Scanner(first=[[("b", "a")].__contains__])
    texts = pa.array([json.dumps(one) for one in documents], pa.string())
    scanner.add(texts)
    scanner.add(texts)
    (fields,) = scanner.finish()
    (found,) = scanner.shapes()
    expected = shape_of_each([value for value in values if isinstance(value, str)])

    assert not found.get(("a",))
    if expected is not None:
        assert found["b", "a"].patterns == expected.patterns
        assert fields["b", "a"]["strings"] == fields["a",]["strings"]


LIKE_MOMENTS = (
    *("2024-02-29", "2023/02/28", "1900.02.28", "2000 02 29", "29/02/2024", "31-12-9999"),
    *("20240229", "2024-02-29 23:59", "29/02/2024T10:05:59Z", "2024-12-31 23:59:59.1234"),
    *("20240430T23:59:59.123456Z", "2024-01-01T00:00Z", "01.02.0001 00:00:00.1"),
)
LIKE_NUMBERS = ("7", "-12", "-0", "0.5", "-3.25", "123456789012345", "-12345678901234567", "9" * 18)


_AT_ONCE = 200  # more paths of one map have no shapes


def beside(text: str) -> Iterator[str]:
    """Yield a text, and what one edit makes of it."""
    yield text
    for place in range(len(text) + 1):
        for char in "09:Z-":
            yield text[:place] + char + text[place:]
            yield text[:place] + char + text[place + 1 :]
        yield text[:place] + text[place + 1 :]


def test_each_text_that_one_edit_makes_is_as_by_itself() -> None:
    """Days and times at their ends, long numbers, and signs wherever they are."""
    texts = sorted({edited for one in (*LIKE_MOMENTS, *LIKE_NUMBERS) for edited in beside(one)})
    for first in range(0, len(texts), _AT_ONCE):
        some = texts[first : first + _AT_ONCE]
        scanner = Scanner(first=[lambda _: True])
        document = json.dumps({f"k{n}": text for n, text in enumerate(some)})
        scanner.add(pa.array([document], pa.string()))
        scanner.finish()
        (found,) = scanner.shapes()
        for number, text in enumerate(some):
            expected, shape = shape_of_each([text]), found.get((f"k{number}",), NONE)
            assert expected is not None
            assert shape.patterns == expected.patterns, text
            if not long_numbers([text]):
                assert (shape.whole, shape.number) == (expected.whole, expected.number), text
            assert shape.whole in (None, expected.whole), text
            assert shape.number in (None, expected.number), text


def test_two_moments_of_different_forms_have_no_pattern() -> None:
    for one in LIKE_MOMENTS:
        for other in LIKE_MOMENTS:
            (found,) = scanned([{"a": one}, {"a": other}], ("a",)) or [NONE]
            expected = shape_of_each([one, other])
            assert expected is not None
            assert found.patterns == expected.patterns, (one, other)
