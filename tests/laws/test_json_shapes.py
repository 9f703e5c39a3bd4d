"""What strings at paths of JSON are written like is true of each, and as of a column of them."""

import json
from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from strata.stats.json_scan import Scanner
from strata.stats.shapes import TextShape
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
