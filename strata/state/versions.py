"""The documents of a shard, one a sequence number: whole states, and changes since the one before.

A state is small, yet a commit leaves most of it unchanged. So a document usually holds only the
change from its predecessor. From time to time one is **whole**, and all documents up to the next
whole one build upon it:

    seqno      1      2        3        4        5      6
             whole  change   change   change   whole  change
    base       1      1        1        1        5      5

A reader of state 4 needs documents 1 to 4: one range of the consensus, since each change names its
base. A whole document is written when the changes since the last one are as long as it, or when
there are `RUN_MAX` of them. So the total written is at most twice the size of the changes.

A change names the digest of the document before it, so it is never applied to another state. Before
it is written it is decoded and compared; if the result differs, the whole state is written. A state
that builds upon a whole document of an older format is followed by a whole one. The oldest
documents are all whole.
"""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

import orjson

from strata import __version__
from strata.errors import Corrupt, InvalidRequest
from strata.state.codec import STATE_FORMAT, decode_document, encode_state
from strata.state.delta import apply_changes, changes_between
from strata.state.plain import dump
from strata.state.seal import begins_with, document_digest, is_sealed, sealed
from strata.state.state import State

FORMAT: Final = 2  # of a change; a whole document has the codec's format
RUN_MAX: Final = 64  # most changes after one whole document
LEAST_BYTES: Final = 4096  # least bytes of changes before the next whole document
# The document of a tombstone contains one of these: whole, or as the change that makes it. No other
# change may follow it but a revival. Other documents contain them only in declared options.
TOMBSTONE_MARKS: Final = (b'"dropped":{', b'"dropped":["set",{')

# Versions are usually read again: by a writer that plans again, by a reader of newer changes.
_KNOWN_MAX: Final = 256
_KNOWN: Final[OrderedDict[bytes, "Version"]] = OrderedDict()  # by document
_DIGESTS: Final[dict[str, "Version"]] = {}  # the same, by the digest of the document
_LOCK: Final = Lock()


@dataclass(frozen=True, slots=True)
class Version:
    """A state, and the document that stores it."""

    state: State
    digest: str  # of the document
    base: int  # seqno of the whole document that it builds upon; its own if it is whole
    base_bytes: int  # of that document
    base_format: int  # in which it is written
    run: int = 0  # changes behind the base, this one included
    run_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    """The place of a change among the documents, as it states it."""

    base: int
    before: str  # digest of the document before it


def link_of(data: bytes) -> Link | None:
    """Return what a document builds upon; None for a whole one.

    Raises: Corrupt for damage; InvalidRequest for a format that a newer version of Strata wrote.
    """
    document = _change(data)
    return None if document is None else Link(document["base"], document["before"])


def known(data: bytes) -> Version | None:
    """Return the cached version of a document that this process read or wrote lately."""
    with _LOCK:
        return _KNOWN.get(bytes(data))


def known_by(digest: str) -> Version | None:
    """Return the cached version of the document with a digest, if there is one."""
    with _LOCK:
        return _DIGESTS.get(digest)


def remember(data: bytes, version: Version) -> None:
    """Cache the version of a document, usually of one that was just committed.

    The state must equal what the bytes decode to. If it holds a caller's values that JSON may
    change, only decoding can show that.
    """
    with _LOCK:
        _KNOWN[bytes(data)] = _DIGESTS[version.digest] = version
        while len(_KNOWN) > _KNOWN_MAX:
            _, oldest = _KNOWN.popitem(last=False)
            _DIGESTS.pop(oldest.digest, None)


def forget_known() -> None:
    """Empty the cache, as in a new process."""
    with _LOCK:
        _KNOWN.clear()
        _DIGESTS.clear()


def read_version(data: bytes, before: Version | None) -> Version:
    """Return the version of a document; `before` is the version that a change builds upon.

    Raises: Corrupt for damage, and for a change of another state; InvalidRequest for a document
    that a newer version of Strata wrote.
    """
    data = bytes(data)
    if (found := known(data)) is not None:
        return found
    document = _change(data)
    if document is None:
        state, written = decode_document(data)
        found = Version(state, document_digest(data), state.seqno, len(data), written)
    else:
        found = _after(data, document, before)
    remember(data, found)
    return found


def whole_document(state: State) -> tuple[bytes, Version]:
    """Return a whole document of a state. Raises: as `encode_state`."""
    data = encode_state(state)
    return data, Version(state, document_digest(data), state.seqno, len(data), STATE_FORMAT)


def successor(before: Version, state: State, *, as_whole: bool = False) -> tuple[bytes, Version]:
    """Return the document of the state after a version: a change, or a whole one.

    Raises: as `encode_state`.
    """
    older = before.base_format < STATE_FORMAT
    if as_whole or older or before.run >= RUN_MAX or _is_long(before):
        return whole_document(state)
    head = {"base": before.base, "before": before.digest, "by": __version__, "format": FORMAT}
    data = sealed(dump({**head, "state": changes_between(before.state, state)}))
    document = orjson.loads(data)
    found = _after(data, document, before)
    if found.state != state:
        return whole_document(state)
    return data, found


def walltime_ms(data: bytes) -> int | None:
    """Return the walltime that a change sets; None for a whole document. Raises: as `link_of`."""
    document = _change(data)
    try:
        return None if document is None else int(document["state"]["walltime_ms"][1])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise Corrupt("a stored change has no walltime", reason=str(error)) from error


def _is_long(version: Version) -> bool:
    return version.run_bytes >= max(version.base_bytes, LEAST_BYTES)


def _after(data: bytes, document: dict[str, Any], before: Version | None) -> Version:
    if before is None or (before.digest, before.base) != (document["before"], document["base"]):
        raise Corrupt(
            "a stored change does not follow the state before it",
            base=document["base"],
            before=document["before"],
            found=None if before is None else before.digest,
        )
    return Version(
        apply_changes(before.state, document["state"]),
        document_digest(data),
        before.base,
        before.base_bytes,
        before.base_format,
        before.run + 1,
        before.run_bytes + len(data),
    )


def _change(data: bytes) -> dict[str, Any] | None:
    """Return a change with its frame checked, but not its content; None for a whole document."""
    if not begins_with(data, b'"base":') or not is_sealed(data, "state"):
        return None
    try:
        document: dict[str, Any] = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Corrupt("a stored state is not JSON", reason=str(error)) from error
    written = document.get("format")
    if type(written) is int and written > FORMAT:
        raise InvalidRequest(
            "a stored state was written by a newer version of Strata",
            written_by=document.get("by", "unknown"),
            this=__version__,
            format=written,
            known=FORMAT,
            cure="use that version here too; a shard is never read by guessing",
        )
    if (
        written != FORMAT
        or type(document.get("base")) is not int
        or type(document.get("before")) is not str
        or type(document.get("state")) is not dict
    ):
        raise Corrupt("a stored change cannot be understood", format=written)
    return document
