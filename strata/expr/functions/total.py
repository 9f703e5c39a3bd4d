"""Functions that never fail, but whose result is mostly or entirely unknown.

Knowing only that is worth a rule: a function that may fail keeps every part that reaches it,
regardless of later conditions.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.expr.entry import Context, Entry, Outcome, Transfer, literal, opened, strict, texts
from strata.expr.functions import exact_texts as exact
from strata.expr.functions import many_texts as many
from strata.expr.functions.points import pointwise
from strata.expr.nodes import Call
from strata.expr.sparktype import INT32, spark_type
from strata.expr.spec import (
    NO,
    Bounds,
    Numbers,
    Spec,
    TextBound,
    everything,
    integers,
    none_of,
)

_LONGEST: Final = 100_000  # characters: a constant length below it fits into memory
_ASCII_END: Final = 128
_LAST_BYTE: Final = 255
_LAST_CODE: Final = 0x10FFFF


def _anything(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    return opened(call, args, null=False, fail=False)


def _between(low: int, high: int) -> Transfer:
    """Return the transfer of a function with numbers between two constants."""

    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        kind = spark_type(call.type)
        if kind.family != "int":
            return opened(call, args)
        return strict(args, Outcome(Numbers(integers(low, kind), integers(high, kind))))

    return transfer


def _code_of_first(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the code of the first character, which rises with the text; 0 of no text."""
    values = texts(args[0])
    low, high = _first_bytes(values.low, 0), _first_bytes(values.high, _LAST_BYTE)
    # Beyond ASCII a first byte begins a character, or is read as U+FFFD.
    found = Numbers(
        np.minimum(low, _ASCII_END), np.where(high < _ASCII_END, high, _LAST_CODE), values.empty
    )
    return strict(args, Outcome(found))


def _first_bytes(bound: TextBound, unknown: int) -> Bounds:
    """Return the first byte of each bound, 0 of no text; `unknown` where the bound is open."""
    if bound is None:
        return np.array([unknown])
    first = pc.binary_slice(bound, 0, 1)
    array = pa.array([first.as_py()], pa.binary()) if isinstance(first, pa.Scalar) else first
    padded = pc.binary_join_element_wise(array, b"\0", b"").fill_null(bytes([unknown]))
    whole = padded.combine_chunks() if isinstance(padded, pa.ChunkedArray) else padded
    _, ends, data = whole.buffers()
    starts = np.frombuffer(ends, np.int32)[whole.offset : whole.offset + len(whole)]
    return np.frombuffer(data, np.uint8)[starts].astype(np.int64)


def _padded(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return any text; a length that is not constant may be too long for memory."""
    length = literal(call, 1)
    known = length is not None and isinstance(length.value, int | None)
    small = known and length is not None and (length.value or 0) <= _LONGEST  # type: ignore[operator]
    return opened(call, args, null=False, fail=not small)


def _never_null(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return any value, never null: nulls are hashed too."""
    fail = NO
    for arg in args:
        fail = fail | arg.fail
    return Spec(everything(call.type), NO, fail)


def _try_eval(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the argument, with null where it fails."""
    (arg,) = args
    return Spec(arg.values, arg.null | arg.fail, NO)


def _sha2(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return any text; null for a length that SHA-2 does not have."""
    bits = literal(call, 1)
    if bits is None:
        return opened(call, args, fail=False)
    if bits.value not in (0, 224, 256, 384, 512):
        values = none_of(everything(call.type))
        return strict(args, Outcome(values, null=np.array([True])))
    return opened(call, args, null=False, fail=False)


_MOST: Final = INT32[1]
_ONE, _TWO, _THREE = (1, 1), (2, 2), (3, 3)
_ANY: Final = "any text; never fails"
ENTRIES: Final = (
    Entry("try_eval", "x", _ONE, _try_eval, "x; null where x fails"),
    Entry(
        "string_trim_left",
        "text, [characters]",
        (1, 2),
        pointwise(_anything, exact.trim_left, many=many.trim_left),
        _ANY,
    ),
    Entry(
        "string_trim_right",
        "text, [characters]",
        (1, 2),
        pointwise(_anything, exact.trim_right, many=many.trim_right),
        _ANY,
    ),
    Entry("init_cap", "text", _ONE, pointwise(_anything, exact.init_cap, many=many.init_cap), _ANY),
    Entry("reverse", "text", _ONE, pointwise(_anything, exact.reverse, many=many.reverse), _ANY),
    Entry("string_lpad", "text, length, pad", _THREE, _padded, "any text; length constant"),
    Entry("string_rpad", "text, length, pad", _THREE, _padded, "any text; length constant"),
    Entry("hex", "x", _ONE, _anything, _ANY),
    Entry("sound_ex", "text", _ONE, _anything, _ANY),
    Entry("md5", "bytes", _ONE, _anything, _ANY),
    Entry("sha1", "bytes", _ONE, _anything, _ANY),
    Entry("sha2", "bytes, bits", _TWO, _sha2, "any text; bits constant"),
    Entry("crc32", "bytes", _ONE, _between(0, 2**32 - 1), "32 bits; never fails"),
    Entry("murmur3_hash", "x, ...", (1, None), _never_null, "any integer; never null"),
    Entry("xx_hash64", "x, ...", (1, None), _never_null, "any integer; never null"),
    Entry(
        "ascii",
        "text",
        _ONE,
        pointwise(_code_of_first, exact.code_of_first, many=many.code_of_first),
        "rises with the text; never fails",
    ),
    Entry(
        "string_instr",
        "text, part",
        _TWO,
        pointwise(_between(0, _MOST), exact.first_place, many=many.first_place),
        "not negative; never fails",
    ),
    Entry("find_in_set", "text, list", _TWO, _between(0, _MOST), "not negative; never fails"),
    Entry("levenshtein", "left, right", _TWO, _between(0, _MOST), "not negative; never fails"),
    Entry(
        "octet_length",
        "text",
        _ONE,
        pointwise(_between(0, _MOST), exact.octet_length, many=many.length),
        "not negative; never fails",
    ),
    Entry("bit_count", "x", _ONE, _between(0, 64), "0 to 64; never fails"),
)
