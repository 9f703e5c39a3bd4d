"""Letters in another case, characters that are exchanged, and matches of regular expressions.

The prefix that all texts of a range share is known, and so is its other case. The front end has
checked that Java can compile the regular expressions.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.expr.elements import Elements
from strata.expr.entry import Context, Entry, Outcome, Transfer, literal, opened, strict, texts
from strata.expr.functions import exact_texts as exact
from strata.expr.functions import many_texts as many
from strata.expr.functions.patterns import as_binary, as_chars
from strata.expr.functions.points import pointwise
from strata.expr.functions.text import may_overflow
from strata.expr.nodes import Call
from strata.expr.spec import (
    NO,
    YES,
    Numbers,
    Spec,
    Texts,
    both,
    either,
    exactly,
    gate,
    hull,
    occupied,
    text_compare,
    text_where,
)

_SHOWN: Final = 24  # bytes of a shared prefix that are used
_LONGEST: Final = 100_000  # characters: a constant length below it fits into memory


def _cased(upper: bool) -> Transfer:
    """Return the transfer of upper or lower, which is known for a shared ASCII prefix.

    Languages disagree about the case of an i (with a dot or without), and Java may follow any of
    them. Text after an ASCII prefix does not change the case of the prefix.
    """
    first, last = (b"a", b"z") if upper else (b"A", b"Z")
    mapped = np.arange(256).astype(np.uint8)
    mapped[first[0] : last[0] + 1] ^= 32
    behind_i = ("\u0131" if upper else "\u0132").encode()  # sorts right after its odd form

    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        values = texts(args[0])
        if values.low is None or values.high is None or call.type != "string":
            return opened(call, args, null=False, fail=False)
        return strict(args, Outcome(_started(values, mapped, behind_i)))

    return transfer


_KNOWN: Final = np.array([0 < byte < 128 and chr(byte) not in "iI" for byte in range(256)])


def _started(values: Texts, mapped: np.ndarray[Any, Any], behind_i: bytes) -> Texts:
    """Return the texts with the mapped prefix that a range's texts share."""
    sizes = pc.binary_length(values.low)
    width = min(_SHOWN, (sizes if isinstance(sizes, pa.Scalar) else pc.max(sizes)).as_py() or 0)
    low, high = np.broadcast_arrays(*(as_chars(x, width + 2) for x in (values.low, values.high)))
    same = np.logical_and.accumulate(low == high, axis=1)
    shared = np.logical_and.accumulate(same & _KNOWN[low], axis=1)
    shared[:, width:] = False  # room for an odd letter
    one, length = _single(values, low, sizes), np.count_nonzero(shared, axis=1)
    row = np.arange(len(low))
    dotted = same[row, length] & (low[row, length] & 0xDF == ord("I"))
    chars = np.where(shared | (one[:, None] & (low > 0)), mapped[low], np.uint8(0))
    behind = chars.copy()
    rows = np.flatnonzero((length > 0) & ~one & ~dotted)
    behind[rows, length[rows] - 1] += 1  # ASCII: never the last byte
    rows = np.flatnonzero(dotted & ~one)
    chars[rows, length[rows]] = mapped[low[rows, length[rows]]]
    behind[rows, length[rows]], behind[rows, length[rows] + 1] = behind_i
    some = (length > 0) | one | dotted
    first, last = (text_where(some, _unpadded(x), None) for x in (chars, behind))
    if len(low) == 1:  # of one element, which stands for all parts
        first, last = (x if x is None else x[0] for x in (first, last))
    return Texts(first, last, values.empty)


def _single(values: Texts, low: np.ndarray[Any, Any], sizes: Any) -> np.ndarray[Any, Any]:
    """Return where all texts are the same ASCII text, with the same case in all languages."""
    same = text_compare("equal", values.low, values.high, unknown=False)
    length = np.asarray(sizes.as_py() if isinstance(sizes, pa.Scalar) else sizes.fill_null(-1))
    plain = low.max(axis=1) < 128
    return np.asarray(same & plain & (np.count_nonzero(low, axis=1) == length))


def _unpadded(chars: np.ndarray[Any, Any]) -> pa.Array:
    """Return texts without the zeros that pad their rows."""
    return pc.utf8_rtrim(as_binary(chars).cast(pa.string()), characters="\0").cast(pa.binary())


def _exchanged(pairs: Callable[[str, str], dict[str, str] | None]) -> Transfer:
    """Return the transfer of a function that puts single characters in place of others.

    `pairs` takes the constants; None: they are no single characters of ASCII.
    """

    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        constants = [literal(call, place) for place in (1, 2)]
        texts_of = [c.value for c in constants if c is not None and isinstance(c.value, str)]
        found = pairs(*texts_of) if len(texts_of) == 2 else None
        values = texts(args[0])
        if found is None or values.low is None or values.high is None or call.type != "string":
            return opened(call, args, null=False, fail=False)
        mapped = np.arange(256).astype(np.uint8)
        for one, other in found.items():
            mapped[ord(one)] = ord(other)
        return strict(args, Outcome(_behind_shared(values, mapped)))

    return transfer


def _plain(*characters: str) -> bool:
    return all(0 < ord(char) < 127 for char in characters)


def _replacing(search: str, other: str) -> dict[str, str] | None:
    one = len(search) == len(other) == 1 and _plain(search, other)
    return {search: other} if one else None


def _translating(matching: str, other: str) -> dict[str, str] | None:
    if not matching or len(matching) != len(other) or not _plain(*matching, *other):
        return None
    return dict(reversed(list(zip(matching, other, strict=True))))  # the first one counts


def _behind_shared(values: Texts, mapped: np.ndarray[Any, Any]) -> Texts:
    """Return the texts that begin with what a range's texts share, byte by byte of ASCII mapped."""
    low, high = np.broadcast_arrays(*(as_chars(x, _SHOWN) for x in (values.low, values.high)))
    plain = (low > 0) & (low < 127) & (mapped[low] < 127)
    shared = np.logical_and.accumulate((low == high) & plain, axis=1)
    length = np.count_nonzero(shared, axis=1)
    chars = np.where(shared, mapped[low], np.uint8(0))
    behind, rows = chars.copy(), np.flatnonzero(length)
    behind[rows, length[rows] - 1] += 1
    first, last = (text_where(length > 0, _unpadded(x), None) for x in (chars, behind))
    if len(low) == 1:  # of one element, which stands for all parts
        first, last = (x if x is None else x[0] for x in (first, last))
    return Texts(first, last, values.empty)


def _matched(result: Callable[[Call, Sequence[Spec]], Spec]) -> Transfer:
    """Return the transfer of a function of matches, which fails only for other expressions."""

    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        if may_overflow(call):
            return opened(call, args)
        return result(call, args)

    return transfer


def _any_text(call: Call, args: Sequence[Spec]) -> Spec:
    return opened(call, args, null=False, fail=False)


def _any_texts(call: Call, args: Sequence[Spec]) -> Spec:
    return strict(args, Outcome(Elements(NO, lambda: Spec(Texts(None, None)))))


def _place(call: Call, args: Sequence[Spec]) -> Spec:
    return strict(args, Outcome(_LENGTH))


def _locate(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return a position, or 0; also 0 where the start is null, for any texts."""
    found = strict(args[:2], Outcome(_LENGTH))
    nothing = gate(exactly(0, "integer").values, args[2].null)
    return Spec(hull(found.values, nothing), found.null, found.fail | args[2].fail)


def _repeated(position: int) -> Transfer:
    """Return the transfer of a repeated text: with a varying count it may be too long."""

    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        count = literal(call, position)
        value = count.value if count is not None else _LONGEST + 1
        known = value is None or (isinstance(value, int) and value <= _LONGEST)
        return opened(call, args, null=False, fail=not known)

    return transfer


def _total(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    return opened(call, args, null=False, fail=False)


def _concat_ws(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return any text: null only where the separator is, since nulls are left out."""
    found = opened(call, args[:1], null=False, fail=False)
    fail, there = found.fail, YES
    for arg in args[1:]:
        fail, there = either(fail, arg.fail), both(there, either(occupied(arg.values), arg.null))
    return Spec(gate(found.values, there), found.null, fail)


_LENGTH: Final = Numbers(np.array([0]), np.array([2**31 - 1]))
_ONE, _TWO, _THREE = (1, 1), (2, 2), (3, 3)
_ANY: Final = "any text; never fails"
_CHECKED: Final = "for a constant that Java can compile"
ENTRIES: Final = (
    Entry(
        "upper",
        "text",
        _ONE,
        pointwise(_cased(True), exact.upper, many=many.upper),
        "the start that texts share",
    ),
    Entry(
        "lower",
        "text",
        _ONE,
        pointwise(_cased(False), exact.lower, many=many.lower),
        "the start that texts share",
    ),
    Entry(
        "string_replace",
        "text, search, replacement",
        _THREE,
        pointwise(_exchanged(_replacing), exact.replaced, many=many.replaced),
        "the start that texts share, for single characters",
    ),
    Entry(
        "string_translate",
        "text, matching, replacement",
        _THREE,
        pointwise(_exchanged(_translating), exact.translated, many=many.translated),
        "the start that texts share, for single characters",
    ),
    Entry(
        "reg_exp_extract",
        "text, expression, group",
        _THREE,
        pointwise(_matched(_any_text), exact.extracted),
        f"any text, {_CHECKED}",
    ),
    Entry(
        "reg_exp_extract_all",
        "text, expression, group",
        _THREE,
        _matched(_any_texts),
        f"any texts, {_CHECKED}",
    ),
    Entry(
        "reg_exp_replace",
        "text, expression, replacement, start",
        (4, 4),
        pointwise(_matched(_any_text), exact.replaced_matches),
        f"any text, {_CHECKED}",
    ),
    Entry(
        "reg_exp_in_str",
        "text, expression, group",
        _THREE,
        _matched(_place),
        f"not negative, {_CHECKED}",
    ),
    Entry(
        "string_locate",
        "part, text, start",
        _THREE,
        pointwise(_locate, exact.locate, many=many.locate),
        "not negative; never fails",
    ),
    Entry("string_repeat", "text, count", _TWO, _repeated(1), "any text; count constant"),
    Entry("string_space", "count", _ONE, _repeated(0), "any text; count constant"),
    Entry("chr", "number", _ONE, _total, _ANY),
    Entry(
        "bit_length",
        "text",
        _ONE,
        pointwise(_total, exact.bit_length, many=many.bit_length),
        "any number; never fails",
    ),
    Entry("overlay", "text, part, start, length", (4, 4), _total, _ANY),
    Entry(
        "concat_ws",
        "separator, x, ...",
        (1, None),
        pointwise(_concat_ws, exact.concat_ws, strict=False),
        "any text; nulls are left out",
    ),
)
