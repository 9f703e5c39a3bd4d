"""The documents of a shard, one a sequence number: whole ones, and changes since the one before.

A state is small, yet most of it stays as it is when something is committed. So a document says what
changed, and whose successor it is; now and then one is **whole**, and all that follow it to the
next whole one build upon it:

    seqno      1      2        3        4        5      6
             whole  change   change   change   whole  change
    base       1      1        1        1        5      5

A reader of state 4 needs documents 1 to 4: one range of the consensus, as each change names its
base. A whole one is written when the changes since the last are as long as it, or `RUN_MAX`
of them: a commit writes what changed, twice at most.

A change names the digest of the document before it, so that none is applied to another's state.
Before one is written it is read back and compared; where it should say anything else, the whole
state is written. Documents from before there were changes are whole.
"""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

import orjson

from strata import __version__
from strata.errors import Corrupt, InvalidRequest
from strata.state.codec import decode_state, dump, encode_state
from strata.state.delta import changed, changes
from strata.state.seal import begins_with, document_digest, is_sealed, sealed
from strata.state.state import State

FORMAT: Final = 2  # of a change; a whole document has the codec's
RUN_MAX: Final = 64  # changes behind one whole document
LEAST_BYTES: Final = 4096  # of changes before a whole document is worth writing again

# Mostly read again: by one who plans, writes and plans again, and by who reads what came since.
_KNOWN_MAX: Final = 256
_KNOWN: Final[OrderedDict[bytes, "Version"]] = OrderedDict()  # by document
_DIGESTS: Final[dict[str, "Version"]] = {}  # the same, by the digest of the document
_LOCK: Final = Lock()


@dataclass(frozen=True, slots=True)
class Version:
    """A state, and the document that it was read from or is stored as."""

    state: State
    digest: str  # of the document
    base: int  # seqno of the whole document it builds upon; its own if it is whole
    base_bytes: int  # of that document
    run: int = 0  # changes behind the base, this one included
    run_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    """What a change says of where it belongs."""

    base: int
    before: str  # digest of the document before it


def link_of(data: bytes) -> Link | None:
    """Return what a document builds upon; None of a whole one.

    Raises: Corrupt for damage; InvalidRequest for a format that a newer version of Strata wrote.
    """
    document = _change(data)
    return None if document is None else Link(document["base"], document["before"])


def known(data: bytes) -> Version | None:
    """Return the version of a document that was read or written here lately."""
    with _LOCK:
        return _KNOWN.get(bytes(data))


def known_by(digest: str) -> Version | None:
    """Return the version whose document has a digest, if it was read or written here lately."""
    with _LOCK:
        return _DIGESTS.get(digest)


def remember(data: bytes, version: Version) -> None:
    """Keep what reading a document gives for the next who asks: mostly who has committed it.

    The state must be equal to what the bytes say; where it holds values that a caller made up, and
    that JSON may give back otherwise, only reading tells.
    """
    with _LOCK:
        _KNOWN[bytes(data)] = _DIGESTS[version.digest] = version
        while len(_KNOWN) > _KNOWN_MAX:
            _, oldest = _KNOWN.popitem(last=False)
            _DIGESTS.pop(oldest.digest, None)


def forget_known() -> None:
    """Forget all that is kept, as a new process would have it."""
    with _LOCK:
        _KNOWN.clear()
        _DIGESTS.clear()


def read(data: bytes, before: Version | None) -> Version:
    """Return the version of a document; `before` is the one that a change builds upon.

    Raises: Corrupt for damage, and where a change is another state's; InvalidRequest for what a
    newer version of Strata wrote.
    """
    data = bytes(data)
    if (found := known(data)) is not None:
        return found
    document = _change(data)
    if document is None:
        state = decode_state(data)
        found = Version(state, document_digest(data), state.seqno, len(data))
    else:
        found = _after(data, document, before)
    remember(data, found)
    return found


def whole(state: State) -> tuple[bytes, Version]:
    """Return the document of a state as a whole. Raises: as `encode_state`."""
    data = encode_state(state)
    return data, Version(state, document_digest(data), state.seqno, len(data))


def successor(before: Version, state: State, *, as_whole: bool = False) -> tuple[bytes, Version]:
    """Return the document of the state that follows a version: what changed, or the whole.

    Raises: as `encode_state`.
    """
    if as_whole or before.run >= RUN_MAX or _is_long(before):
        return whole(state)
    head = {"base": before.base, "before": before.digest, "by": __version__, "format": FORMAT}
    data = sealed(dump({**head, "state": changes(before.state, state)}))
    document = orjson.loads(data)
    found = _after(data, document, before)
    if found.state != state:
        return whole(state)
    return data, found


def walltime_ms(data: bytes) -> int | None:
    """Return the walltime that a change sets; None of a whole document. Raises: as `link_of`."""
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
            base=document["base"], before=document["before"],
            found=None if before is None else before.digest,
        )  # fmt: skip
    return Version(
        changed(before.state, document["state"]), document_digest(data), before.base,
        before.base_bytes, before.run + 1, before.run_bytes + len(data),
    )  # fmt: skip


def _change(data: bytes) -> dict[str, Any] | None:
    """Return a document that is a change, checked but for what it changes; None of a whole one."""
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
            written_by=document.get("by", "unknown"), this=__version__, format=written,
            known=FORMAT, cure="use that version here too; a shard is never read by guessing",
        )  # fmt: skip
    if (
        written != FORMAT
        or type(document.get("base")) is not int
        or type(document.get("before")) is not str
        or type(document.get("state")) is not dict
    ):
        raise Corrupt("a stored change cannot be understood", format=written)
    return document
