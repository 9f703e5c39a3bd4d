"""Cut long strings and bytes to bounds of limited length for statistics.

A cut bound is looser, never wrong. For every value `v` and every limit

    cut_low(v, limit)  <=  v  <=  cut_high(v, limit)

in the order of unsigned bytes. For strings this is the order of code points, which Parquet, Arrow
and Spark use. Units: limits are (UTF-8) bytes. A high bound of None means that no value within the
limit sorts at or after the value: the column has no bound on that side.
"""

import sys
from typing import Final, TypeVar

SURROGATES: Final = range(0xD800, 0xE000)  # code points that no UTF-8 text contains

S = TypeVar("S", str, bytes)


def cut_low(value: S, limit_bytes: int) -> S:
    """Return the longest prefix of `value` that fits; a prefix never sorts after its whole.

    >>> cut_low("naïve", 3), cut_low(b"abc", 2)
    ('na', b'ab')
    """
    if isinstance(value, bytes):
        return value[:limit_bytes]
    return value.encode()[:limit_bytes].decode(errors="ignore")


def cut_high(value: S, limit_bytes: int) -> S | None:
    r"""Return the smallest value that fits and does not sort before `value`, if there is one.

    >>> cut_high("abcdef", 3), cut_high(b"a\xff\xff", 2), cut_high(b"\xff\xff", 1)
    ('abd', b'b', None)
    """
    prefix = cut_low(value, limit_bytes)
    if prefix == value:
        return value
    if isinstance(prefix, bytes):
        return _successor_bytes(prefix)
    return _successor(prefix, limit_bytes)


def common_prefix_bytes(low: S, high: S) -> int:
    """Return how many leading bytes two bounds share.

    >>> common_prefix_bytes("2013-01-04", "2013-01-31")
    8
    """
    a, b = (v if isinstance(v, bytes) else v.encode() for v in (low, high))
    for position, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return position
    return min(len(a), len(b))


def _successor_bytes(prefix: bytes) -> bytes | None:
    """Return the smallest bytes after everything that starts with `prefix`."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def _successor(prefix: str, limit_bytes: int) -> str | None:
    """Return the smallest text that fits after everything that starts with `prefix`."""
    while prefix:
        stem, code = prefix[:-1], ord(prefix[-1]) + 1
        if code in SURROGATES:
            code = SURROGATES.stop
        # The successor of U+007F has two bytes, so it may no longer fit.
        if code <= sys.maxunicode and len((stem + chr(code)).encode()) <= limit_bytes:
            return stem + chr(code)
        prefix = stem
    return None
