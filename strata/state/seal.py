"""Seal documents with digests, so that a bit flipped on disk or in memory is found.

A sealed document is JSON whose first field is the digest of all bytes after that field:

    {"digest":"0f1e…",<the rest>        digest = blake2b-128 of <the rest>

Older documents lack the field, and are `{` and the rest.
"""

from hashlib import blake2b
from typing import Final

from strata.errors import Corrupt

_HEAD: Final = b'{"digest":"'
_TAIL: Final = b'",'
_BYTES: Final = 16
_START: Final = len(_HEAD) + 2 * _BYTES + len(_TAIL)


def sealed(document: bytes) -> bytes:
    """Return a JSON object with its digest in front; the object has at least one field."""
    assert document.startswith(b'{"'), "only an object with fields is sealed"
    rest = document[1:]
    return b"".join((_HEAD, _digest(rest).hex().encode(), _TAIL, rest))


def is_sealed(data: bytes, name: str) -> bool:
    """Return whether a document has a digest, and verify it.

    Raises: Corrupt when the digest is wrong.
    """
    if not data.startswith(_HEAD):
        return False
    stated = data[len(_HEAD) : _START]
    found = _digest(data[_START:]).hex().encode() + _TAIL
    if stated != found:
        raise Corrupt(
            f"a stored {name} is damaged: its digest is another one",
            digest=stated[:-2].decode(errors="replace"),
            found=found[:-2].decode(),
        )
    return True


def begins_with(data: bytes, field: bytes) -> bool:
    """Return whether a document begins with a digest followed by these bytes."""
    return data.startswith(_HEAD) and data.startswith(field, _START)


def document_digest(data: bytes) -> str:
    """Return the digest of a document in hex: its own, or computed if it has none."""
    if data.startswith(_HEAD):
        return data[len(_HEAD) : len(_HEAD) + 2 * _BYTES].decode("ascii", "replace")
    return _digest(data).hex()


def digest_of(data: bytes | None) -> bytes | None:
    """Return the digest to store beside bytes; None for None."""
    return None if data is None else _digest(data)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_BYTES).digest()
