"""One spelling for each value, so that equal rows have equal bytes.

Floats: -0.0 becomes 0.0, every NaN the quiet NaN 0x7ff8000000000000. JSON: keys sorted by code
point, no white space, of repeated keys the last, non-ASCII characters as themselves. Numbers keep
their exact value: an integer of any size stays as it is; a number with a point or an exponent is
written as the shortest text of its float64 where that says the same number, else with all its
digits; minus zero loses its sign. Ingest calls this once for each row that comes in.
"""

import json
import math
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.physical import valid_mask

MAX_DEPTH: Final = 200  # levels of nesting; deeper texts are refused, readers could not follow

# Numbers that orjson might not give back as they are: 16 digits or more, an exponent, minus zero.
EXOTIC: Final = r"[0-9.]{16}|[0-9][eE]|(^|[^0-9A-Za-z])-0"  # a date's -0 is no number


def canonical_floats(array: pa.Array) -> pa.Array:
    """Return a float array with one zero and one NaN; nulls stay null."""
    values = pc.add(array, pa.scalar(0.0, array.type))
    nan = pa.scalar(math.nan, array.type)
    return pc.if_else(pc.is_nan(values), nan, values)


def canonical_json(texts: pa.Array) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Return JSON texts in canonical form, and which of them are not JSON.

    Shape: string array in; string array of the same length out, null where null or invalid came
    in; the mask is true where the text is not null and not JSON (NaN and Infinity, lone
    surrogates and nesting deeper than MAX_DEPTH count as not JSON).
    Cost: one parse a row, outside Arrow.
    """
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
    """Return one JSON text in canonical form, None if it is not JSON.

    `exotic`: the text may hold numbers that only the exact path keeps; True is always right.
    """
    # Counting brackets inside strings, too, errs towards the slow path, where depth is checked.
    if exotic or text.count(b"[") + text.count(b"{") > MAX_DEPTH:
        return _exact(text)
    try:
        return orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS)
    except ValueError:
        return None


def _exact(text: bytes) -> bytes | None:
    try:
        value = json.loads(
            text.decode(), parse_int=_Integer, parse_float=_Real, parse_constant=_refuse
        )
        pieces: list[bytes] = []
        _write(value, pieces, MAX_DEPTH)
    except (ValueError, RecursionError, InvalidOperation):
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
    near, exact = float(text) + 0.0, Decimal(text)
    if math.isfinite(near) and Decimal(repr(near)) == exact:
        return orjson.dumps(near)
    digits = exact.normalize(Context(prec=len(text) + 1))
    return str(digits).lower().encode()
