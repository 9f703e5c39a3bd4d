"""Pieces of texts: all texts of a range, one by one, against what the range is said to give."""

from itertools import product

import pyarrow as pa
import pytest

from strata.expr.entry import Context
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.expr.registry import REGISTRY
from strata.expr.spec import Spec, TextBound, Texts

WORDS = sorted("".join(letters) for n in range(4) for letters in product("-aBi\u00e9~", repeat=n))
TEXT = Column(1, "s", "string")


def ranges(step: int) -> tuple[list[tuple[str, str]], Spec]:
    """Return ranges of words, and all of them as the Spec of as many parts."""
    found = [(a, b) for a, b in product(WORDS[::step], WORDS[::step]) if a <= b]
    low, high = (pa.array([pair[n].encode() for pair in found]) for n in (0, 1))
    return found, Spec(Texts(low, high))


def outcome(function: str, spec: Spec, *constants: Expr) -> Texts:
    """Return what a function of texts and constants may give."""
    call = Call(function, (TEXT, *constants), "string")
    args = [spec, *(Spec(Texts(None, None)) for _ in constants)]
    found = REGISTRY[function].transfer(call, args, Context(0, 0))
    assert not found.fail.any()
    assert isinstance(found.values, Texts)
    return found.values


def inside(values: Texts, part: int, word: str) -> bool:
    """Return whether a range of a part holds a word."""

    def at(bound: TextBound) -> bytes | None:
        if bound is None or isinstance(bound, pa.Scalar):
            return None if bound is None else bound.as_py()
        return bound[part].as_py()

    low, high, data = at(values.low), at(values.high), word.encode()
    return (low is None or low <= data) and (high is None or data <= high)


@pytest.mark.parametrize("delimiter", ["-", "a", "~", "B-", "i"])
@pytest.mark.parametrize("function", ["substring_index", "split_part"])
def test_the_first_piece_lies_in_its_range(function: str, delimiter: str) -> None:
    pairs, spec = ranges(9)
    constants = (Literal(delimiter, "string"), Literal(1, "integer"))
    values = outcome(function, spec, *constants)

    for part, (low, high) in enumerate(pairs):
        for word in WORDS:
            if low <= word <= high:
                assert inside(values, part, word.split(delimiter)[0]), (low, word, high)


@pytest.mark.parametrize("function", ["upper", "lower"])
def test_the_other_case_lies_in_its_range(function: str) -> None:
    """Also where a language has an i with a dot of its own."""
    pairs, spec = ranges(9)
    values = outcome(function, spec)
    turkish = str.maketrans("iI", "\u0130I" if function == "upper" else "i\u0131")

    for part, (low, high) in enumerate(pairs):
        for word in WORDS:
            if low <= word <= high:
                assert inside(values, part, getattr(word, function)()), (low, word, high)
                odd = getattr(word.translate(turkish), function)()
                assert word.isascii() or inside(values, part, odd), (low, word, high)


def test_what_texts_share_bounds_the_other_case() -> None:
    low, high = pa.array([b"Ab1", b"same", b"Ix"]), pa.array([b"Ab9", b"same", b"Iz"])
    values = outcome("lower", Spec(Texts(low, high)))

    assert values.low.to_pylist() == [b"ab", b"same", b"i"]
    assert values.high.to_pylist() == [b"ac", b"same", "\u0132".encode()]


def test_one_range_for_all_parts_stays_one() -> None:
    point = pa.scalar(b"Ab")
    values = outcome("upper", Spec(Texts(point, point)))

    assert (values.low.as_py(), values.high.as_py()) == (b"AB", b"AB")
    assert isinstance(values.low, pa.Scalar)


def test_the_first_piece_ends_before_a_letter_that_a_delimiter_may_stand_for() -> None:
    spec = Spec(Texts(pa.array([b"AB-12", b"AB5", None]), pa.array([b"AB-99", b"AC", None])))
    values = outcome("split_part", spec, Literal("-", "string"), Literal(1, "integer"))

    assert values.low.to_pylist() == [b"AB", b"AB5", b""]
    assert values.high.to_pylist() == [b"AB-99", b"AC", None]
