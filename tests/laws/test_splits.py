"""Law: pieces of texts lie in what is known of them, and a piece that may be missing may fail.

What is known comes from the least and the greatest text of each part, and from their shape.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from strata.decide.decision import decide
from strata.decide.specs import PartSpecs
from strata.expr.entry import Context
from strata.expr.filter import Filter
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.expr.spec import Numbers, Spec, Texts
from strata.format.columns import updates_schema
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.types import parse_type
from strata.stats import collect, concat
from strata.stats.shapes import Shapes

RELATION = Relation(0, (Declared(5, "text", parse_type("string")),), (5,), ())
TEXT = Column(5, "text", "string")
DELIMITERS = ("-", ", ", "é", "--", "/", " ", "€", "\0")
ODD = frozenset(("é", "€", "\0"))  # no regular expressions of letters that all languages share
PIECES = st.sampled_from(("", "a", "b", "ab", "é", "z", "\U0010ffff", "a\0", "0", "x" * 70))


@st.composite
def parts(draw: st.DrawFn) -> tuple[str, list[list[str]]]:
    """Return a delimiter, and the texts of one to three parts, which begin alike or as moments."""
    delimiter = draw(st.sampled_from(DELIMITERS))

    def joined(most: int) -> st.SearchStrategy[str]:
        return st.lists(PIECES, max_size=most).map(delimiter.join)

    found = []
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.just("") | joined(4) | joined(4).map(lambda text: text + delimiter))
        behind = st.lists(joined(3).map(lambda text, start=start: start + text), min_size=1)
        moments = st.lists(st.datetimes().map(lambda at: at.isoformat(" ")[:16]), min_size=1)
        found.append(draw(behind | behind | moments))
    return delimiter, found


def statistics(texts: list[list[str]]) -> pa.Table:
    """Return the statistics of parts with these texts."""
    found = []
    for part in texts:
        rows = [pa.array(part, pa.string()), *[pa.array([0] * len(part), pa.int64())] * 2]
        table = pa.Table.from_arrays(rows, schema=updates_schema(RELATION))
        shapes = Shapes(RELATION)
        shapes.add(table)
        found.append(shapes.beside(collect(table, RELATION)))
    return concat(found, [len(part) for part in texts])


def seen(expr: Expr, stats: pa.Table) -> Spec:
    """Return what is known of an expression in each part."""
    view = PartSpecs(stats, RELATION, ()).at(slice(0, stats.num_rows))
    return Interpreter(Context(0, 0), lenient=False).evaluate(expr, view)


def encloses(spec: Spec, part: int, value: Any) -> bool:
    """Return whether a result lies in what is known of a part."""
    values = spec.values
    if isinstance(values, Numbers):
        low, high = (end[part if end.size > 1 else 0] for end in (values.low, values.high))
        return bool(low <= value <= high)
    assert isinstance(values, Texts)
    low, high = (_end(end, part) for end in (values.low, values.high))
    data = value.encode()
    return (low is None or low <= data) and (high is None or data <= high)


def _end(end: Any, part: int) -> bytes | None:
    if end is None:
        return None
    found = end if isinstance(end, pa.Scalar) else end[part if len(end) > 1 else 0]
    return found.as_py()


def split(delimiter: str, limit: int = -1) -> Call:
    """Return a split by a delimiter, as Spark writes it."""
    args = (TEXT, Literal(delimiter, "string"), Literal(limit, "integer"))
    return Call("string_split", args, "array<string>", (("checked", "true"),))


def placed(function: str, delimiter: str, place: int) -> Call:
    """Return a function of the text, a delimiter and a number."""
    args = (TEXT, Literal(delimiter, "string"), Literal(place, "integer"))
    return Call(function, args, "string")


def in_front(text: str, delimiter: str, count: int) -> str:
    """Return what Spark's `substring_index` yields."""
    pieces = text.split(delimiter)
    if count >= 0:
        return delimiter.join(pieces[:count])
    return delimiter.join(pieces[max(len(pieces) + count, 0) :])


@given(made=parts(), place=st.integers(-3, 5))
@example(made=("\0", [["a", "a"]]), place=2)
@example(made=("\0", [["a\0b", "a\0b"]]), place=3)
@example(made=("€", [["bd", "b€x"]]), place=1)
@example(made=("-", [["a-b", "a-c"]]), place=0)
@example(made=("-", [["a-b-c", "b-c-d"]]), place=-1)
def test_every_piece_lies_in_what_is_known(made: tuple[str, list[list[str]]], place: int) -> None:
    delimiter, texts = made
    stats = statistics(texts)
    part_of = seen(placed("split_part", delimiter, place), stats)
    front = seen(placed("substring_index", delimiter, place), stats)
    failing = np.broadcast_to(part_of.fail, len(texts))
    assert failing.all() == (place == 0)
    assert not part_of.null.any()
    assert not front.null.any()
    assert not front.fail.any()
    for number, part in enumerate(texts):
        for text in part:
            pieces = text.split(delimiter)
            at = place - 1 if place > 0 else len(pieces) + place
            if place:
                there = 0 <= at < len(pieces)
                assert encloses(part_of, number, pieces[at] if there else "")
            if delimiter != "--" or place > 0:  # in other cases Spark counts those that overlap
                assert encloses(front, number, in_front(text, delimiter, place))


@given(
    made=parts().filter(lambda made: made[0] not in ODD),
    place=st.integers(1, 5),
    limit=st.sampled_from((-1, -1, 0, 1, 2, 3)),
)
@example(made=("-", [["a-b-c", "a-b-d"]]), place=3, limit=2)
@example(made=("-", [["a-b-c", "a-b-d"]]), place=2, limit=2)
def test_every_element_of_a_split_lies_in_what_is_known(
    made: tuple[str, list[list[str]]], place: int, limit: int
) -> None:
    delimiter, texts = made
    stats, index = statistics(texts), Literal(place - 1, "integer")
    item = seen(Call("get_array_item", (split(delimiter, limit), index), "string"), stats)
    size = seen(Call("size", (split(delimiter, limit),), "integer"), stats)
    for number, part in enumerate(texts):
        for text in part:
            pieces = text.split(delimiter, limit - 1 if limit > 0 else -1)
            assert encloses(size, number, len(pieces))
            failing = np.broadcast_to(item.fail, len(texts))[number]
            there = place <= len(pieces)
            assert encloses(item, number, pieces[place - 1]) if there else failing


def test_a_number_of_a_piece_that_varies_may_be_0() -> None:
    args = (TEXT, Literal("-", "string"), Call("length", (TEXT,), "integer"))
    found = seen(Call("split_part", args, "string"), statistics([["a-b", "c-d"]]))

    assert found.fail.all()


def test_a_piece_that_all_texts_share_is_known() -> None:
    found = seen(placed("split_part", "-", 2), statistics([["a-bc-d", "a-bc-e"], ["-x-a", "-x-b"]]))
    first = seen(placed("substring_index", "-", 1), statistics([["a-bc-d", "a-bd-e"]]))

    assert isinstance(found.values, Texts)
    assert isinstance(first.values, Texts)
    for number, piece in enumerate((b"bc", b"x")):
        assert [_end(end, number) for end in (found.values.low, found.values.high)] == [piece] * 2
    assert [_end(end, 0) for end in (first.values.low, first.values.high)] == [b"a", b"a"]


@given(made=parts(), place=st.integers(1, 4), data=st.data())
def test_an_element_is_that_of_its_index(
    made: tuple[str, list[list[str]]], place: int, data: st.DataObject
) -> None:
    delimiter, texts = made
    if delimiter not in ODD:
        split_up, stats = split(delimiter), statistics(texts)
        from_0, from_1 = (
            seen(Call(name, (split_up, Literal(place - 1 + first, "integer")), "string"), stats)
            for name, first in (("get_array_item", 0), ("element_at", 1))
        )
        assert np.array_equal(*np.broadcast_arrays(from_0.fail, from_1.fail))
        for number in range(len(texts)):
            ends = [
                [_end(getattr(one.values, side), number) for side in ("low", "high")]
                for one in (from_0, from_1)
            ]
            assert ends[0] == ends[1]


def kept(expr: Expr, texts: list[list[str]]) -> list[bool]:
    """Return which parts a filter keeps."""
    return decide(Filter(expr, "", 0, 0), statistics(texts), RELATION).keep.tolist()


def test_a_piece_behind_a_shared_start_is_bounded_and_does_not_fail() -> None:
    texts = [["INV-2001-7", "INV-2001-9"], ["INV-2001-9", "INV-2003-1"], ["INV-1", "X-2004-5"]]
    piece = Call("get_array_item", (split("-"), Literal(1, "integer")), "string")

    def equal(one: Expr, value: str) -> Expr:
        return Call("equal_to", (one, Literal(value, "string")), "boolean")

    assert kept(equal(piece, "2001"), texts) == [True, True, True]
    assert kept(equal(piece, "2002"), texts) == [False, True, True]
    assert kept(equal(piece, "2004"), texts) == [False, False, True]
    assert kept(equal(placed("split_part", "-", 2), "2004"), texts) == [False, False, True]
    assert kept(equal(placed("substring_index", "-", 2), "INV-2003"), texts) == [False, True, True]
    second = Call("element_at", (split("-"), Literal(3, "integer")), "string")
    assert kept(equal(second, "8"), texts) == [True, True, True]
    assert kept(equal(second, "2"), texts) == [False, True, True]


def test_a_moment_has_as_many_pieces_as_its_pattern() -> None:
    texts = [["2001-01-30 10:00", "2002-02-03 20:00"], ["2001-01-30 10:00", "yesterday"]]
    items = [Call("get_array_item", (split(c), Literal(1, "integer")), "string") for c in " -"]
    never = Call("less_than", (TEXT, Literal("1", "string")), "boolean")

    for item in items:
        either = Call("is_null", (item,), "boolean")
        assert kept(Call("and", (either, never), "boolean"), texts) == [False, True]
