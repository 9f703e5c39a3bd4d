"""JSON texts in their one spelling, so that equal values have equal bytes.

Keys are sorted by code point, without white space; the last of repeated keys counts; non-ASCII
characters are not escaped. Numbers keep their exact value. An integer of any size is unchanged. A
number with a point or an exponent is written as the shortest text of its float64 if that is the
same number, else with all its digits. Minus zero loses its sign.
"""

import json
import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from typing import Any, Final, NoReturn

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.values.physical import kernel_bytes, offsets, pack_mask, valid_mask
from strata.kernels.arrays import Bools

MAX_DEPTH: Final = (
    200  # levels of nesting; deeper texts are refused because readers could not parse them
)

FEW_TEXTS: Final = 256  # fewer are parsed one by one: the compiler takes longer to load
_WORDS: Final = np.frombuffer(b"truefalsenull", np.uint8)
# Numbers that orjson might change: 16 digits or more, an exponent, minus zero.
EXOTIC: Final = r"[0-9.]{16}|[0-9][eE]|(^|[^0-9A-Za-z])-0"  # the -0 of a date is not a number


def canonical_json(texts: pa.Array) -> tuple[pa.Array, Bools]:
    """Return JSON texts in canonical form, and which of them are not JSON.

    Shape: string array in; string array of the same length out, null where null or invalid came
    in; the mask is true where the text is not null and not JSON (NaN and Infinity, lone
    surrogates and nesting deeper than MAX_DEPTH count as not JSON).
    Cost: a kernel for usual texts, where there are many; one parse for each of the others.
    """
    if len(texts) < FEW_TEXTS:
        return _one_by_one(texts)
    found, done = _usual(texts)
    if done.all():
        return found, np.zeros(len(texts), np.bool_)
    rest, bad = _one_by_one(texts.filter(pa.array(~done)))
    if done.any():
        rest = pc.replace_with_mask(found, pa.array(~done), rest)
    wrong = np.zeros(len(texts), np.bool_)
    wrong[~done] = bad
    return rest, wrong


def _usual(texts: pa.Array) -> tuple[pa.Array, Bools]:
    """Return the canonical form of usual texts, and where there is one or a null.

    Shape: an empty text where there is none.
    """
    from strata.kernels import json_canonical as kernels  # loads the compiler

    borders, valid = offsets(texts), valid_mask(texts)
    source = kernel_bytes(texts.buffers()[2])
    if borders[0] < 0 or borders[-1] > len(source) or (borders[1:] < borders[:-1]).any():
        raise ValueError("the texts' offsets are invalid")
    skip = np.zeros(len(texts), np.bool_) if valid is None else ~valid
    if not _are_utf8(texts):
        return pa.array([None if none else "" for none in skip.tolist()], pa.string()), skip
    out = np.empty(borders[-1] - borders[0], np.uint8)
    ends, done = np.empty(len(borders), np.int64), np.empty(len(texts), np.bool_)
    room = np.empty(int(np.diff(borders).max(initial=0)), np.uint8)
    scratch = np.empty((6, kernels.MEMBERS), np.int64)
    kernels.canonical(source, borders, skip, out, ends, done, _WORDS, scratch, room)
    buffers = [pack_mask(~skip), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers), done | skip


def _are_utf8(texts: pa.Array) -> bool:
    """Return whether all texts are UTF-8, which Arrow does not check where it reads files."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def warm() -> None:
    """Call the kernel once, so that it is compiled."""
    canonical_json(pa.array(['{"b":1.5,"a":"x"}'] * FEW_TEXTS))


def _one_by_one(texts: pa.Array) -> tuple[pa.Array, Bools]:
    exotic = pc.match_substring_regex(texts, EXOTIC).to_pylist()
    out: list[bytes | None] = []
    for text, slow in zip(texts.cast(pa.binary()).to_pylist(), exotic, strict=True):
        out.append(None if text is None else canonical_text(text, exotic=slow))
    result = pa.array(out, pa.binary()).cast(pa.string())
    valid_in, valid_out = valid_mask(texts), valid_mask(result)
    if valid_out is None:
        return result, np.zeros(len(texts), np.bool_)
    return result, ~valid_out if valid_in is None else valid_in & ~valid_out


def canonical_text(text: bytes, *, exotic: bool = True) -> bytes | None:
    """Return one JSON text in canonical form, or None if it is not JSON.

    `exotic`: the text may hold numbers that only the exact path keeps; True is always right.
    """
    # The count includes brackets in strings: it errs towards the slow path, which checks depth.
    if exotic or text.count(b"[") + text.count(b"{") > MAX_DEPTH:
        return _exact(text)
    try:
        return orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS)
    except ValueError:  # or half of a surrogate pair in a value that a repeated key hides
        return _exact(text)


def _exact(text: bytes) -> bytes | None:
    try:
        value = json.loads(
            text.decode(), parse_int=_Integer, parse_float=_Real, parse_constant=_refuse
        )
        pieces: list[bytes] = []
        _write(value, pieces, MAX_DEPTH)
    except (ValueError, orjson.JSONEncodeError, RecursionError, InvalidOperation):
        return None
    return b"".join(pieces)


class _Integer(str):
    """The text of a JSON integer."""

    __slots__ = ()


class _Real(str):
    """The text of a JSON number with a point or an exponent."""

    __slots__ = ()


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _write(value: Any, pieces: list[bytes], depth: int) -> None:
    """Append the canonical text of a parsed value.

    Raises: ValueError below `depth` levels and for what UTF-8 cannot hold.
    """
    if isinstance(value, dict | list) and depth == 0:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        pieces.append(b"{")
        for i, key in enumerate(sorted(value)):
            pieces += (b"," if i else b"", orjson.dumps(key), b":")
            _write(value[key], pieces, depth - 1)
        pieces.append(b"}")
    elif isinstance(value, list):
        pieces.append(b"[")
        for i, item in enumerate(value):
            pieces.append(b"," if i else b"")
            _write(item, pieces, depth - 1)
        pieces.append(b"]")
    elif isinstance(value, _Integer):
        pieces.append(b"0" if value == "-0" else value.encode())
    elif isinstance(value, _Real):
        pieces.append(_real(value))
    else:
        pieces.append(orjson.dumps(value))


def _real(text: str) -> bytes:
    """Return the canonical text of a number with a point or an exponent."""
    near = float(text) + 0.0
    try:
        exact = Decimal(text)
    except InvalidOperation as error:
        raise ValueError("an exponent that nothing holds") from error
    if math.isfinite(near) and Decimal(repr(near)) == exact:
        return orjson.dumps(near)
    # Without these exponent limits, the context would turn 1e-999999999 into zero.
    digits = exact.normalize(Context(prec=len(text) + 1, Emin=MIN_EMIN, Emax=MAX_EMAX))
    return str(digits).lower().encode()
