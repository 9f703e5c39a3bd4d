"""A shard's state as bytes: JSON, `{"digest": "…", "by": "0.1.0", "format": 3, "state": {...}}`.

The digest covers all bytes after it (`strata.state.seal`). Older documents have no digest, and are
read if every field is known. Every program that writes newer fields also writes digests, so an
unknown field without a digest is damage.

Every field is written, including defaults, so that a default may change without changing the
meaning of old documents; a field marked UNWRITTEN is not while it has its default, which then never
changes. A missing field takes its default. A document with its digest and with an
unknown field or format was written by a newer program, and is refused.
Bytes are base64, a column type is its text, times are integers, and the sort order of a run of many
columns is a text of ranges (`strata.state.order`).

Format 1 has an object for each item. Format 3 has tables (`strata.state.rows`); only whole states
have it. Format 2 is that of changes (`strata.state.versions`).
"""

import json
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, lru_cache
from itertools import cycle
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import orjson

from strata import __version__
from strata.errors import Corrupt, InvalidRequest, StrataError
from strata.model.types import ColumnType, parse_type
from strata.state.order import order_of
from strata.state.plain import dump, plain
from strata.state.rows import MismatchError, NewerError, check_batch, from_tables, to_tables
from strata.state.seal import is_sealed, sealed
from strata.state.state import Batch, Commit, RunSummary, State

T = TypeVar("T")

FORMAT: Final = 1
STATE_FORMAT: Final = 3  # of a whole state; older ones have format 1
_BEFORE_DIGESTS: Final = {"by", "format", "state"}  # the fields of a document without a digest


def encode_state(state: State) -> bytes:
    """Return the bytes of a state; equal states give equal bytes.

    Raises: InvalidRequest for a value that JSON cannot hold; Corrupt for statistics of a batch that
    differ from those it was made with.
    """
    return sealed(dump({"by": __version__, "format": STATE_FORMAT, **to_tables(state)}))


def decode_state(data: bytes) -> State:
    """Return the state that `encode_state` wrote.

    Raises: Corrupt, naming the wrong digest, format or field; InvalidRequest for a state that a
    newer version of Strata wrote.
    """
    return decode_document(data)[0]


def decode_document(data: bytes) -> tuple[State, int]:
    """Return a state as `decode_state` does, and the format in which it is written."""
    old = not is_sealed(data, "state")
    document = _document(data, "state", State, old=old)
    state: State = _value(document, "state", State, old=old)
    return state, document["format"]


def decode_field(raw: Any, kind: Any) -> Any:
    """Return the value of a state's field, decoded from parsed JSON.

    Raises: Corrupt, naming the wrong field inside it; InvalidRequest for a field that a newer
    version of Strata wrote.
    """
    try:
        return _decoder(kind)(raw)
    except NewerError as error:
        raise _newer("state", {}, at=f"state{error}") from error
    except MismatchError as error:
        raise Corrupt("a stored state cannot be understood", at=f"state{error}") from error


def encode_sealed(name: str, value: object) -> bytes:
    """Return a sealed document of the consensus that holds one value under its name.

    Raises: InvalidRequest for a value that JSON cannot hold.
    """
    return sealed(dump({"by": __version__, "format": FORMAT, name: plain(value)}))


def decode_sealed(data: bytes, name: str, kind: type[T]) -> T:
    """Return the value that `encode_sealed` wrote.

    Raises: Corrupt, also for a document without a digest; InvalidRequest for one that a newer
    version of Strata wrote.
    """
    if not is_sealed(data, name):
        raise Corrupt(f"a stored {name} has no digest")
    value: T = _load(data, name, kind)
    return value


def encode_commits(commits: tuple[Commit, ...]) -> bytes:
    """Return the bytes of a ledger blob."""
    return dump({"format": FORMAT, "commits": commits})


def decode_commits(data: bytes) -> tuple[Commit, ...]:
    """Return the commits of a ledger blob.

    Raises: Corrupt.
    """
    commits: tuple[Commit, ...] = _load(data, "commits", tuple[Commit, ...])
    return commits


@dataclass(frozen=True, slots=True)
class LedgerNode:
    """A ledger blob that names others, with marks of the tokens that each may have."""

    keys: tuple[str, ...]  # oldest first
    marks: tuple[bytes | None, ...]  # of each key; None: unknown, look inside


def encode_nodes(node: LedgerNode) -> bytes:
    """Return the bytes of a ledger blob that names others."""
    return dump({"format": FORMAT, "nodes": node.keys, "marks": plain(node.marks)})


def decode_nodes(data: bytes) -> LedgerNode:
    """Return the content of a node of the ledger. Older nodes have no marks.

    Raises: Corrupt.
    """
    keys: tuple[str, ...] = _load(data, "nodes", tuple[str, ...])
    marks: tuple[bytes | None, ...] = (None,) * len(keys)
    if "marks" in orjson.loads(data):
        marks = _load(data, "marks", tuple[bytes | None, ...])
    if len(marks) != len(keys) or any(mark is not None and len(mark) % 4 for mark in marks):
        raise Corrupt("a ledger's marks are not those of its keys")
    return LedgerNode(keys, marks)


def _load(data: bytes, name: str, kind: Any, *, old: bool = False) -> Any:
    """Return the value of a document under `name`; `old`: no newer version can have written it."""
    return _value(_document(data, name, kind, old=old), name, kind, old=old)


def _document(data: bytes, name: str, kind: Any, *, old: bool) -> dict[str, Any]:
    """Return a parsed document of a known format that has a field `name`."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Corrupt(f"a stored {name} is not JSON", reason=str(error)) from error
    if not isinstance(document, dict) or name not in document:
        raise Corrupt(f"stored bytes are no {name}")
    if old and (strange := sorted(document.keys() - _BEFORE_DIGESTS)):
        raise Corrupt(f"a stored {name} has an unknown field, and no digest", field=strange[0])
    formats = (FORMAT, STATE_FORMAT) if kind is State and not old else (FORMAT,)
    written = document.get("format")
    if type(written) is int and written in formats:
        return document
    details = {"format": written, "known": " and ".join(map(str, formats))}
    if type(written) is int and written > FORMAT and not old:
        raise _newer(name, document, **details)
    raise Corrupt(f"a stored {name} has an unknown format", **details)


def _value(document: dict[str, Any], name: str, kind: Any, *, old: bool) -> Any:
    try:
        raw = from_tables(document) if document["format"] == STATE_FORMAT else document[name]
        return _decoder(kind)(raw)
    except NewerError as error:
        if old:
            raise Corrupt(
                f"a stored {name} has an unknown field, and no digest", field=f"{name}{error}"
            ) from error
        raise _newer(name, document, at=f"{name}{error}") from error
    except MismatchError as error:
        raise Corrupt(f"a stored {name} cannot be understood", at=f"{name}{error}") from error
    except StrataError as error:
        raise Corrupt(f"a stored {name} contradicts itself", reason=str(error)) from error


def _newer(name: str, document: dict[str, Any], **details: object) -> InvalidRequest:
    """Return the refusal of a document that a newer program wrote; it is not damaged."""
    return InvalidRequest(
        f"a stored {name} was written by a newer version of Strata",
        written_by=document.get("by", "unknown"),
        this=__version__,
        **details,
        cure="use that version here too; a shard is never read by guessing",
    )


@cache
def _decoder(kind: Any) -> Callable[[Any], Any]:
    """Return the function that turns JSON into a value of a field's type; cached by type."""
    if kind in _LEAVES:
        return _LEAVES[kind]
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return lambda raw: _one_of(raw, args)
    if origin in (Union, UnionType):
        return _optional(args)
    if origin is tuple:
        return _tuple(args)
    assert is_dataclass(kind), f"no decoder for {kind}"
    return _dataclass(kind)


def _leaf(kind: type[T]) -> Callable[[Any], T]:
    def decode(raw: Any) -> T:
        if type(raw) is not kind:  # not isinstance: True is an int
            raise MismatchError(f": {json.dumps(raw)[:80]} is not {kind.__name__}")
        return raw

    return decode


_check_str, _check_list, _check_dict = _leaf(str), _leaf(list), _leaf(dict)
_check_float = _leaf(float)


def _decode_bytes(raw: Any) -> bytes:
    try:
        return b64decode(_check_str(raw), validate=True)
    except (Base64Error, ValueError) as error:
        raise MismatchError(": not base64") from error


def _decode_order(raw: Any) -> tuple[int, ...]:
    if isinstance(raw, str):
        try:
            return order_of(raw)
        except ValueError as error:
            raise MismatchError(f": {error}") from error
    order: tuple[int, ...] = _decoder(tuple[int, ...])(raw)
    return order


_parsed_type = lru_cache(maxsize=4096)(parse_type)  # a state's columns have few types

_LEAVES: Final[dict[Any, Callable[[Any], Any]]] = {
    int: _leaf(int),
    str: _check_str,
    bool: _leaf(bool),
    # JSON does not distinguish 5 from 5.0, so neither may we
    float: lambda raw: float(raw) if type(raw) is int else _check_float(raw),
    bytes: _decode_bytes,
    object: lambda raw: raw,  # any JSON value
    ColumnType: lambda raw: _parsed_type(_check_str(raw)),
}


def _one_of(raw: Any, allowed: tuple[Any, ...]) -> Any:
    if raw not in allowed:
        raise MismatchError(f": {json.dumps(raw)[:80]} is not one of {allowed}")
    return raw


def _optional(args: tuple[Any, ...]) -> Callable[[Any], Any]:
    (inner,) = (_decoder(arg) for arg in args if arg is not NoneType)
    return lambda raw: None if raw is None else inner(raw)


def _tuple(args: tuple[Any, ...]) -> Callable[[Any], Any]:
    inner = [_decoder(arg) for arg in args if arg is not Ellipsis]
    endless = args[-1] is Ellipsis

    def decode(raw: Any) -> tuple[Any, ...]:
        items = _check_list(raw)
        if not endless and len(items) != len(inner):
            raise MismatchError(f": {len(items)} items instead of {len(inner)}")
        values: list[Any] = []
        try:
            for decoder, item in zip(cycle(inner), items, strict=False):
                values.append(decoder(item))
        except MismatchError as error:
            raise type(error)(f"[{len(values)}]{error}") from error
        return tuple(values)

    return decode


def _dataclass(kind: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(kind)
    decoders = {f.name: _decoder(hints[f.name]) for f in fields(kind)}
    if kind is RunSummary:
        decoders["order"] = _decode_order
    required = {
        f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING
    }

    def decode(raw: Any) -> Any:
        items = _check_dict(raw)
        if items.keys() != decoders.keys():  # seldom; what differs takes longer to find
            if unknown := sorted(items.keys() - decoders.keys()):
                raise NewerError(f".{unknown[0]}")
            if missing := sorted(required - items.keys()):
                raise MismatchError(f".{missing[0]}: missing")
        values: dict[str, Any] = {}
        name = ""
        try:
            for name, item in items.items():
                values[name] = decoders[name](item)
        except MismatchError as error:
            raise type(error)(f".{name}{error}") from error
        value = kind(**values)
        if kind is Batch:
            check_batch(value)
        return value

    return decode
