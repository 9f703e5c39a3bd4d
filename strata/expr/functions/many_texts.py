"""What functions of text make of many texts of ASCII at once; for `strata.expr.functions.points`.

A manifest may have a text of its own in each of a million parts. Each function here says, by Arrow,
what its namesake in `strata.expr.functions.exact_texts` says of one text after another, or null:
then that one is asked. Law (tests/laws/test_many_texts.py): what is not null is the same.

Shape: one argument is an array of texts, whose nulls are none of ASCII; the others are constants.
Raises: NotEvaluated for constants, or places of the array, that are not handled.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.expr.functions.points import NotEvaluated
from strata.expr.nodes import Call

_INT_MAX: Final = 2**31 - 1
_SEARCHED: Final = 256  # characters of a text that is compared with a pattern
_MOST: Final = 1 << 20  # characters of a text in which others are replaced


def _array(args: tuple[Any, ...], place: int = 0) -> pa.StringArray:
    """Return the array; it must stand at a place."""
    if not isinstance(args[place], pa.StringArray):
        raise NotEvaluated
    return args[place]


def _plain(value: Any) -> str:
    """Return a constant, which must be a text of ASCII with something in it."""
    if not isinstance(value, str) or not value or not value.isascii():
        raise NotEvaluated
    return value


def upper(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return texts in upper case."""
    return pc.ascii_upper(_array(args))


def lower(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return texts in lower case."""
    return pc.ascii_lower(_array(args))


def init_cap(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return texts of letters and spaces whose words begin in upper case."""
    texts = _array(args)
    return pc.if_else(_made_of(texts, _LETTERS), pc.ascii_title(texts), None)


_LETTERS: Final = np.array(
    [byte == 32 or (byte < 128 and chr(byte).isalpha()) for byte in range(256)]
)


def _made_of(texts: pa.StringArray, known: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Array:
    """Return where a text has known bytes only."""
    offsets, data = _buffers(texts)
    others = np.concatenate([[0], np.cumsum(~known[data])])
    return pa.array(others[offsets[1:]] == others[offsets[:-1]])


def _buffers(texts: pa.StringArray) -> tuple[Any, Any]:
    """Return where texts begin and end, and the bytes from the first to the last of them."""
    _, ends, data = texts.buffers()
    offsets = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    every = np.frombuffer(data or b"", np.uint8)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], every


def length(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return numbers of characters, which are bytes."""
    return pc.binary_length(_array(args)).cast(pa.int64())


def bit_length(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return numbers of bits."""
    return pc.multiply(length(call, args), 8)


def code_of_first(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return codes of first characters, 0 of no text."""
    texts = _array(args)
    offsets, data = _buffers(texts)
    some = offsets[1:] > offsets[:-1]
    codes = np.zeros(len(texts), np.int64)
    codes[some] = data[offsets[:-1][some]]
    return _valid(texts, pa.array(codes))


def _valid(texts: pa.StringArray, made: pa.Array) -> pa.Array:
    """Return results, null where a text is."""
    return made if not texts.null_count else pc.if_else(pc.is_valid(texts), made, None)


def reverse(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return the characters from the last to the first."""
    return pc.ascii_reverse(_array(args))


def substring(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return characters from a place, which is counted from 1, or from the end."""
    texts, place, count = _array(args), args[1], args[2]
    if not isinstance(place, int) or not isinstance(count, int):
        raise NotEvaluated
    start = max(place - 1, 0) if place >= 0 else place
    if start >= 0:
        stop = min(start + count, _INT_MAX)
        return pc.utf8_slice_codeunits(texts, min(start, stop), stop) if count > 0 else _none(texts)
    if count <= 0:
        return _none(texts)
    end = start + count if start + count < 0 else None
    return pc.utf8_slice_codeunits(texts, start, end)


def _none(texts: pa.StringArray) -> pa.Array:
    """Return empty texts."""
    return _valid(texts, pa.array([""] * len(texts), pa.string()))


def joined_texts(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return texts behind and in front of others."""
    if any(not isinstance(arg, str | pa.StringArray) for arg in args):
        raise NotEvaluated
    return pc.binary_join_element_wise(*args, "")


def ends_with(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return whether texts end with another."""
    return pc.ends_with(_array(args), _plain(args[1]))


def contains(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return whether texts have another in them."""
    return pc.match_substring(_array(args), _plain(args[1]))


def like(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return whether texts match a pattern of LIKE with % at its ends only."""
    texts, pattern = _array(args), _plain(args[1])
    fixed = _plain(pattern.strip("%"))
    if set(fixed) & {"%", "_", call.option("escape", "\\")} or "%%" in pattern:
        raise NotEvaluated
    first, last = pattern.startswith("%"), pattern.endswith("%")
    match first, last:
        case True, True:
            found = pc.match_substring(texts, fixed)
        case True, False:
            found = pc.ends_with(texts, fixed)
        case False, True:
            found = pc.starts_with(texts, fixed)
        case _:
            found = pc.equal(texts, fixed)
    return pc.if_else(pc.less_equal(pc.binary_length(texts), _SEARCHED), found, None)


def stripped(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return texts without spaces, or some characters, around them."""
    return pc.ascii_trim(_array(args), characters=_trimmed(args))


def trim_left(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return texts without spaces, or some characters, in front."""
    return pc.ascii_ltrim(_array(args), characters=_trimmed(args))


def trim_right(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return texts without spaces, or some characters, behind them."""
    return pc.ascii_rtrim(_array(args), characters=_trimmed(args))


def _trimmed(args: tuple[Any, ...]) -> str:
    return _plain(args[1]) if len(args) == 2 else " "


def replaced(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return texts with another in place of each piece."""
    texts, search, other = _array(args), _plain(args[1]), args[2]
    if not isinstance(other, str):
        raise NotEvaluated
    small = pc.less_equal(pc.binary_length(texts), _MOST // (1 + len(other)))
    return pc.if_else(small, pc.replace_substring(texts, search, other), None)


def translated(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return texts with single characters in place of others."""
    texts, matching, other = _array(args), _plain(args[1]), _plain(args[2])
    if len(matching) > len(other) or "\0" in matching + other:
        raise NotEvaluated
    table = np.arange(256, dtype=np.uint8)
    for one, changed in zip(reversed(matching), reversed(other[: len(matching)]), strict=True):
        table[ord(one)] = ord(changed)  # the first one counts
    offsets, data = _buffers(texts)
    buffers = (pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(table[data]))
    return _valid(texts, pa.StringArray.from_buffers(len(texts), *buffers))


def split_part(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return pieces by their number, from 1 or from the end; no text where there is none."""
    texts, delimiter, number = _array(args), _plain(args[1]), args[2]
    if not isinstance(number, int) or not number or abs(number) > _MOST:
        raise NotEvaluated
    lists = pc.split_pattern(texts, delimiter)
    ends = np.asarray(lists.offsets)
    place = ends[:-1] + number - 1 if number > 0 else ends[1:] + number
    inside = (place >= ends[:-1]) & (place < ends[1:])
    pieces = pc.fill_null(lists.values.take(pa.array(place, mask=~inside)), "")
    return pc.if_else(pc.greater(pc.binary_length(texts), 0), pieces, None)


def substring_index(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return what is in front of the first delimiter, or behind the last one of one character."""
    delimiter, count = _plain(args[1]), args[2]
    if count != 1 and (count != -1 or len(delimiter) > 1):
        raise NotEvaluated
    return split_part(call, args)


def first_place(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return first places of a part in texts, from 1; 0 where it is not there."""
    found = pc.find_substring(_array(args), _plain(args[1]))
    return pc.add(found.cast(pa.int64()), 1)


def locate(call: Call, args: tuple[Any, ...]) -> pa.Array:
    """Return first places of a part, given first, in texts; 0 where it is not there."""
    if args[2] != 1:
        raise NotEvaluated
    return first_place(call, (_array(args, 1), args[0]))
