"""An early look rules out only what the interpreter does, and settles only what never varies."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from strata.decide import early
from strata.decide.decision import Decision, decide
from strata.expr.entry import Context
from strata.expr.filter import Filter
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.expr.spec import NO, YES, Bools, Numbers, Spec
from tests.spec.language import RELATION, col
from tests.support.expressions import Enclosed, Part, expressions, parts, read_by
from tests.twins.concrete import Failed, evaluate

MANY = settings(max_examples=settings().max_examples * 2)


class _Some:
    """Drawn parts in place of their statistics."""

    def __init__(self, found: list[Part]) -> None:
        self.found = found

    def column(self, column: Column) -> Spec:
        specs = [part.specs[column.id] for part in self.found]
        numbers = [spec.values for spec in specs]
        lanes = [
            np.concatenate([np.asarray(getattr(one, name)) for one in numbers])
            for name in ("low", "high", "empty", "nan")
        ]
        return Spec(Numbers(*lanes), np.concatenate([spec.null for spec in specs]))


def _interpreter() -> Interpreter:
    return Interpreter(Context(0, 0), lenient=False)


def _lanes(expr: Expr, part: Part) -> list[bool]:
    spec = _interpreter().evaluate(expr, Enclosed(part))
    assert isinstance(spec.values, Bools)
    return [bool(lane[0]) for lane in (spec.values.true, spec.values.false, spec.null, spec.fail)]


def _numeric(expr: Expr) -> bool:
    return not {column.type for column in read_by(expr)} & {"string", "boolean"}


@MANY
@given(
    expr=expressions("boolean"),
    size=st.integers(1, 3),
    null_matters=st.booleans(),
    data=st.data(),
)
def test_blocks_say_what_their_parts_say(
    expr: Expr, size: int, null_matters: bool, data: st.DataObject
) -> None:
    assume(_numeric(expr))
    found = data.draw(st.lists(parts(expr), min_size=1, max_size=5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(early, "BLOCK_PARTS", size)
        look = early.EarlyLook(
            expr, _interpreter(), _Some(found), len(found), null_matters=null_matters
        )
    out = np.broadcast_to(look.ruled_out(_Some(found), slice(0, len(found))), len(found))

    for ruled_out, part in zip(out.tolist(), found, strict=True):
        true, _, null, fail = _lanes(expr, part)
        if ruled_out:
            assert not true
            assert not fail
            assert not (null_matters and null)
            assert {_concrete(expr, row) for row in part.rows} <= {False, None}
        assert _lanes(look.conjunct, part) == _lanes(expr, part)


def _concrete(expr: Expr, row: dict[int, object]) -> object:
    try:
        return evaluate(expr, row, 0)  # type: ignore[arg-type]
    except Failed:
        return "an error"


@given(
    texts=st.lists(st.binary(max_size=10) | st.sampled_from([b"", b"same", b"text"]) | st.none()),
    value=st.binary(max_size=10) | st.sampled_from([b"same", b"a text of some length"]),
    alike=st.booleans(),
    cut=st.integers(0, 3),
)
def test_texts_that_are_unlike_differ(
    texts: list[bytes | None], value: bytes, alike: bool, cut: int
) -> None:
    if alike:  # all of the constant's length, some equal to it
        texts = [(t or value)[: len(value)].ljust(len(value), b"x") for t in texts]
    array = pa.array(texts, pa.binary()).slice(cut)
    found = np.broadcast_to(early.unlike(array, value), len(array)).tolist()

    for differs, text in zip(found, texts[cut:], strict=True):
        assert not (differs and text in (None, value))
        if differs is False and None not in texts[cut:] and text is not None:
            assert len(text) == len(value)


_VALUES = st.binary(min_size=1, max_size=10) | st.sampled_from([b"same", b"a text of some length"])


@st.composite
def _near(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """Draw a value and texts, mostly of one length, that are like it but for some bytes."""
    value = draw(_VALUES)
    size = draw(st.integers(1, 24) | st.none())

    def text(cut: int, step: int, more: bytes) -> bytes:
        changed = bytearray(value)
        at = cut % len(value)
        changed[at] = (changed[at] + step) % 256
        found = bytes(changed) + more
        return found if size is None else found[:size].ljust(size, b"x")

    drawn = st.builds(
        text, st.integers(0, 20), st.sampled_from([0, 0, 1, 255]), st.binary(max_size=4)
    )
    return value, draw(st.lists(drawn, min_size=1, max_size=6))


@MANY
@given(drawn=_near(), cut=st.integers(0, 2))
def test_texts_that_begin_otherwise_do_not_begin_so(
    drawn: tuple[bytes, list[bytes]], cut: int
) -> None:
    prefix, texts = drawn
    array = pa.array(texts, pa.binary()).slice(cut)
    found = np.broadcast_to(early.begins_otherwise(array, prefix), len(array)).tolist()

    for otherwise, text in zip(found, texts[cut:], strict=True):
        assert not (otherwise and text.startswith(prefix))
        if not otherwise:
            assert text[len(prefix) - 1 : len(prefix)] == prefix[-1:]


@MANY
@given(drawn=_near(), above=st.booleans())
def test_texts_beyond_a_value_are_on_that_side_of_all_that_begin_with_it(
    drawn: tuple[bytes, list[bytes]], above: bool
) -> None:
    value, texts = drawn
    array = pa.array(texts, pa.binary())
    found = np.broadcast_to(early.beyond(array, value, above=above), len(texts)).tolist()

    same = len({len(text) for text in texts}) == 1
    width = next(w for w in (8, 4, 2, 1) if w <= min(len(texts[0]), len(value)))
    for beyond, text in zip(found, texts, strict=True):
        first, wanted = text[:width], value[:width]
        assert beyond == (same and (first > wanted if above else first < wanted))


def test_texts_that_may_be_null_or_that_nothing_is_known_of_are_left() -> None:
    some = pa.array([b"x", None], pa.binary())
    for look in (early.begins_otherwise, early.beyond, early.unlike):
        assert look(some, b"abc") is NO
        assert look(None, b"abc") is NO
    assert early.begins_otherwise(pa.array([b"x"], pa.binary()), b"") is NO
    assert early.beyond(pa.array([b"x"], pa.binary()), b"") is NO


_LETTERS = st.sampled_from(["", "a", "b", "ab", "abcdefgh", "abcdefgi", "xbcdefgh", "abcdefghij"])
_ENDS = st.none() | _LETTERS
N, S = col("n").expr, col("name").expr


def _text(value: str) -> Literal:
    return Literal(value, "string")


def _compared(function: str, one: Expr, other: Expr) -> Call:
    return Call(function, (one, other), "boolean")


def _number(value: int) -> Literal:
    return Literal(value, "integer")


FIRST = st.one_of(
    st.builds(_compared, st.just("equal_to"), st.just(S), _LETTERS.map(_text)),
    st.builds(_compared, st.just("equal_null_safe"), _LETTERS.map(_text), st.just(S)),
    st.builds(_compared, st.just("starts_with"), st.just(S), _LETTERS.map(_text)),
    st.builds(
        _compared,
        st.sampled_from(["less_than", "equal_to", "equal_null_safe", "greater_than_or_equal"]),
        st.just(N),
        st.integers(-6, 6).map(_number),
    ),
)
OVERFLOWS = _compared("greater_than", Call("add", (N, _number(2147483645)), "integer"), _number(0))


@MANY
@given(
    numbers=st.lists(
        st.tuples(
            st.none() | st.integers(-5, 5), st.none() | st.integers(-5, 5), st.integers(0, 10)
        ),
        min_size=1,
        max_size=9,
    ),
    texts=st.lists(st.tuples(_ENDS, _ENDS, st.integers(0, 10)), min_size=9, max_size=9),
    alike=st.booleans(),
    conjuncts=st.lists(
        FIRST | st.tuples(FIRST, FIRST).map(lambda two: Call("or", two, "boolean")), min_size=1
    ),
    fallible=st.booleans(),
    setting=st.tuples(
        st.integers(1, 4),
        st.integers(1, 5),
        st.sampled_from([(), ("equal_to",), ("6",), ("1",)]),
    ),
)
def test_a_decision_is_the_same_without_an_early_look(
    numbers: list[tuple[int | None, int | None, int]],
    texts: list[tuple[str | None, str | None, int]],
    alike: bool,
    conjuncts: list[Expr],
    fallible: bool,
    setting: tuple[int, int, tuple[str, ...]],
) -> None:
    block, chunk, quarantine = setting
    exprs = (*conjuncts, OVERFLOWS) if fallible else tuple(conjuncts)
    stats = pa.table(
        {
            "rows": [10] * len(numbers),
            f"s.{N.id}": _bounds(numbers, pa.int32()),  # type: ignore[union-attr]
            f"s.{S.id}": _bounds(  # type: ignore[union-attr]
                [(a, a if alike else b, n) for a, b, n in texts[: len(numbers)]], pa.string()
            ),
        }
    )
    with _many(block, chunk):
        found = _decided(exprs, stats, quarantine)
    assert _said(found) == _said(_decided(exprs, stats, quarantine))


def _ranges(least: int, most: int) -> st.SearchStrategy[list[list[str]]]:
    """Draw the least and the greatest text of each part."""
    ends = st.lists(st.text("ab", min_size=least, max_size=most), min_size=2, max_size=2)
    return st.lists(ends.map(sorted), min_size=1, max_size=6)


@MANY
@given(
    bounds=st.sampled_from([1, 2, 8, 9]).flatmap(lambda size: _ranges(size, size)) | _ranges(0, 9),
    function=st.sampled_from(["starts_with", "equal_to", "equal_null_safe"]),
    wanted=st.text("ab", max_size=9) | st.text("ab", max_size=2),
    alike=st.booleans(),
    setting=st.tuples(
        st.integers(1, 3), st.sampled_from([(), (), ("starts_with",), ("equal_to",)])
    ),
)
def test_a_decision_about_texts_is_the_same_without_an_early_look(
    bounds: list[list[str]],
    function: str,
    wanted: str,
    alike: bool,
    setting: tuple[int, tuple[str, ...]],
) -> None:
    chunk, quarantine = setting
    exprs = (_compared(function, S, _text(wanted)),)
    rows = [(low, low if alike else high, 0) for low, high in bounds]
    kept = _bounds(rows, pa.string())
    stats = pa.table({"rows": [10] * len(rows), f"s.{S.id}": kept})  # type: ignore[union-attr]
    with _many(1, chunk):
        found = _decided(exprs, stats, quarantine)
    assert _said(found) == _said(_decided(exprs, stats, quarantine))


@contextmanager
def _many(block: int, chunk: int) -> Iterator[None]:
    """Look early at tables of few parts, too."""
    with pytest.MonkeyPatch.context() as patch:
        module = import_module("strata.decide.decision")
        patch.setattr(module, "EARLY_PARTS", 1)
        patch.setattr(early, "BLOCK_PARTS", block)
        patch.setattr(module, "CHUNK_PARTS", chunk)
        yield


def _decided(exprs: Sequence[Expr], stats: pa.Table, quarantine: tuple[str, ...]) -> Decision:
    whole = exprs[0] if len(exprs) == 1 else Call("and", tuple(exprs), "boolean")
    return decide(Filter(whole, "", 0, 0), stats, RELATION, quarantine=quarantine)


def _said(found: Decision) -> list[list[object]]:
    lanes = (found.keep, found.may_be_true, found.may_fail, found.proof)
    return [lane.tolist() for lane in lanes]


def _bounds(rows: list[tuple[object, object, int]], kind: pa.DataType) -> pa.Array:
    found = [{"nulls": nulls, "low": low, "high": high} for low, high, nulls in rows]
    return pa.array(found, pa.struct([("nulls", pa.int64()), ("low", kind), ("high", kind)]))


def test_words_are_compared_only_where_each_part_holds_one_text() -> None:
    one, other = (pa.array([b"abcdefgh", b"abcdefgx"], pa.binary()) for _ in range(2))

    assert early.unlike(one, b"abcdefgx").tolist() == [True, False]
    assert early.unlike(other, b"a").tolist() == [True]


def test_what_a_lambda_yields_step_by_step_is_never_a_constant() -> None:
    inner = _compared("less_than", N, _number(5))
    whole = Call("aggregate", (inner, inner, inner, inner), "boolean")
    outer = Call("or", (inner, whole), "boolean")
    never = Spec(Bools(NO, YES))

    found = early.with_constants(outer, {id(inner): never})
    assert isinstance(found, Call)
    assert found.args[0] == Literal(False, "boolean")
    assert found.args[1] is whole
    assert early.with_constants(whole, {id(whole): never}) == Literal(False, "boolean")
