"""A shard's state as bytes: canonical JSON, `{"format": 1, "state": {...}}`.

Every field is written, defaults included, so that a default may change without changing what
old documents mean. A document with a field that is missing here takes the field's default; one
with a field or a format that is unknown here was written by a newer program and is refused.
Bytes are base64, a column type is its text, times are integers.
"""

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import orjson

from strata.errors import Corrupt, InvalidRequest, StrataError
from strata.model.types import ColumnType, parse_type
from strata.state.state import Commit, State

T = TypeVar("T")

FORMAT: Final = 1


class _MismatchError(Exception):
    """A value that does not fit its field; becomes Corrupt with the path to it."""


def encode_state(state: State) -> bytes:
    """Return the bytes of a state; equal states give equal bytes.

    Raises: InvalidRequest for a value that JSON cannot hold.
    """
    return _dump({"format": FORMAT, "state": _plain(state)})


def decode_state(data: bytes) -> State:
    """Return the state that `encode_state` wrote.

    Raises: Corrupt, naming the format or the field that is wrong.
    """
    state: State = _load(data, "state", State)
    return state


def encode_commits(commits: tuple[Commit, ...]) -> bytes:
    """Return the bytes of a ledger blob."""
    return _dump({"format": FORMAT, "commits": _plain(commits)})


def decode_commits(data: bytes) -> tuple[Commit, ...]:
    """Return the commits of a ledger blob.

    Raises: Corrupt.
    """
    commits: tuple[Commit, ...] = _load(data, "commits", tuple[Commit, ...])
    return commits


def _dump(document: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise InvalidRequest("this state cannot be stored", reason=str(error)) from error


def _load(data: bytes, name: str, kind: Any) -> Any:
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Corrupt(f"a stored {name} is not JSON", reason=str(error)) from error
    if not isinstance(document, dict) or name not in document:
        raise Corrupt(f"stored bytes are no {name}")
    if document.get("format") != FORMAT:
        raise Corrupt(
            f"a stored {name} has an unknown format",
            format=document.get("format"), known=FORMAT, cure="use a newer version of Strata",
        )  # fmt: skip
    try:
        return _decoder(kind)(document[name])
    except _MismatchError as error:
        raise Corrupt(f"a stored {name} cannot be understood", at=f"{name}{error}") from error
    except StrataError as error:
        raise Corrupt(f"a stored {name} contradicts itself", reason=str(error)) from error


def _plain(value: object) -> Any:
    """Return `value` as orjson takes it."""
    match value:
        case ColumnType():
            return str(value)
        case bytes():
            return b64encode(value).decode("ascii")
        case tuple():
            return [_plain(item) for item in value]
        case _ if is_dataclass(value):
            return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return value


@cache
def _decoder(kind: Any) -> Callable[[Any], Any]:
    """Return the function that turns JSON into a value of a field's type; made once a type."""
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


def _check(raw: Any, kind: type[T]) -> T:
    if type(raw) is not kind:  # not isinstance: True is an int
        raise _MismatchError(f": {json.dumps(raw)[:80]} is not {kind.__name__}")
    return raw


def _decode_bytes(raw: Any) -> bytes:
    try:
        return b64decode(_check(raw, str), validate=True)
    except (Base64Error, ValueError) as error:
        raise _MismatchError(": not base64") from error


_LEAVES: Final[dict[Any, Callable[[Any], Any]]] = {
    int: lambda raw: _check(raw, int),
    str: lambda raw: _check(raw, str),
    bool: lambda raw: _check(raw, bool),
    # JSON does not tell 5 from 5.0, and neither may we
    float: lambda raw: float(raw) if type(raw) is int else _check(raw, float),
    bytes: _decode_bytes,
    object: lambda raw: raw,  # any JSON value
    ColumnType: lambda raw: parse_type(_check(raw, str)),
}


def _one_of(raw: Any, allowed: tuple[Any, ...]) -> Any:
    if raw not in allowed:
        raise _MismatchError(f": {json.dumps(raw)[:80]} is not one of {allowed}")
    return raw


def _optional(args: tuple[Any, ...]) -> Callable[[Any], Any]:
    (inner,) = (_decoder(arg) for arg in args if arg is not NoneType)
    return lambda raw: None if raw is None else inner(raw)


def _tuple(args: tuple[Any, ...]) -> Callable[[Any], Any]:
    inner = [_decoder(arg) for arg in args if arg is not Ellipsis]
    endless = args[-1] is Ellipsis

    def decode(raw: Any) -> tuple[Any, ...]:
        items = _check(raw, list)
        if not endless and len(items) != len(inner):
            raise _MismatchError(f": {len(items)} items instead of {len(inner)}")
        decoders = inner * len(items) if endless else inner
        return tuple(
            _at(f"[{i}]", decoder, item)
            for i, (decoder, item) in enumerate(zip(decoders, items, strict=True))
        )

    return decode


def _dataclass(kind: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(kind)
    decoders = {f.name: _decoder(hints[f.name]) for f in fields(kind)}
    required = {
        f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING
    }

    def decode(raw: Any) -> Any:
        items = _check(raw, dict)
        if unknown := sorted(items.keys() - decoders.keys()):
            raise _MismatchError(
                f".{unknown[0]}: unknown here, written by a newer version of Strata"
            )
        if missing := sorted(required - items.keys()):
            raise _MismatchError(f".{missing[0]}: missing")
        return kind(**{k: _at(f".{k}", decoders[k], v) for k, v in items.items()})

    return decode


def _at(place: str, decoder: Callable[[Any], Any], raw: Any) -> Any:
    try:
        return decoder(raw)
    except _MismatchError as error:
        raise _MismatchError(f"{place}{error}") from error
