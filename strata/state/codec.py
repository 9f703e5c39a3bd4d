"""A shard's state as bytes: JSON, `{"digest": "…", "by": "0.1.0", "format": 1, "state": {...}}`.

The digest covers all bytes after it (`strata.state.seal`). Older documents have no digest, and are
read if every field is known. Every program that writes newer fields also writes digests, so an
unknown field without a digest is damage.

Every field is written, including defaults, so that a default may change without changing the
meaning of old documents; a field marked UNWRITTEN is not while it has its default, which then never
changes. A missing field takes its default. A document with its digest and with an
unknown field or format was written by a newer program, and is refused.
Bytes are base64, a column type is its text, times are integers, and the sort order of a run of many
columns is a text of ranges (`strata.state.order`).
"""

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from functools import cache
from itertools import cycle
from threading import Lock
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import orjson

from strata import __version__
from strata.errors import Corrupt, InvalidRequest, StrataError
from strata.model.spec import UNWRITTEN
from strata.model.types import ColumnType, parse_type
from strata.state.order import SPELLED_OUT, order_of, order_text
from strata.state.seal import digest_of, is_sealed, sealed
from strata.state.state import Batch, Commit, RunSummary, SpineBatch, State

T = TypeVar("T")

FORMAT: Final = 1
_BEFORE_DIGESTS: Final = {"by", "format", "state"}  # the fields of a document without a digest

# Successive states share most values, whose JSON is cached here.
_FRAGMENTS: Final[dict[int, tuple[object, orjson.Fragment]]] = {}
_FRAGMENTS_MAX: Final = 64
_PIECES: Final[dict[int, tuple[object, orjson.Fragment]]] = {}
_PIECES_MAX: Final = 4096
_LOCK: Final = Lock()


class _MismatchError(Exception):
    """A value that does not fit its field; becomes Corrupt with the path to it."""


class _NewerError(_MismatchError):
    """An unknown field; becomes the refusal of a state from a newer version."""


def encode_state(state: State) -> bytes:
    """Return the bytes of a state; equal states give equal bytes.

    Raises: InvalidRequest for a value that JSON cannot hold; Corrupt for statistics of a batch that
    differ from those it was made with.
    """
    # orjson handles dataclasses and tuples; only these two hold column types, which it would split.
    ready: dict[str, Any] = {
        name: _fragment(getattr(state, name)) for name in ("spec", "relations")
    }
    # All but the newest of these were in the state before, so their JSON is cached.
    ready["commits"] = _pieces(state.commits)
    slots = _pieces(state.spine.slots, _check_slot, _shortened)
    ready["spine"] = replace(state.spine, slots=slots)  # type: ignore[arg-type]
    rest = {f.name: getattr(state, f.name) for f in fields(state) if f.name not in ready}
    return sealed(dump({"by": __version__, "format": FORMAT, "state": ready | rest}))


def decode_state(data: bytes) -> State:
    """Return the state that `encode_state` wrote.

    Raises: Corrupt, naming the wrong digest, format or field; InvalidRequest for a state that a
    newer version of Strata wrote.
    """
    state: State = _load(data, "state", State, old=not is_sealed(data, "state"))
    return state


def decode_field(raw: Any, kind: Any) -> Any:
    """Return the value of a state's field, decoded from parsed JSON.

    Raises: Corrupt, naming the wrong field inside it; InvalidRequest for a field that a newer
    version of Strata wrote.
    """
    try:
        return _decoder(kind)(raw)
    except _NewerError as error:
        raise _newer("state", {}, at=f"state{error}") from error
    except _MismatchError as error:
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


def dump(document: Any) -> bytes:
    """Return JSON with sorted keys. Raises: InvalidRequest for a value that it cannot hold."""
    try:
        return orjson.dumps(document, default=plain, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise InvalidRequest("this state cannot be stored", reason=str(error)) from error


def _load(data: bytes, name: str, kind: Any, *, old: bool = False) -> Any:
    """Return the value of a document under `name`; `old`: no newer version can have written it."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Corrupt(f"a stored {name} is not JSON", reason=str(error)) from error
    if not isinstance(document, dict) or name not in document:
        raise Corrupt(f"stored bytes are no {name}")
    if old and (strange := sorted(document.keys() - _BEFORE_DIGESTS)):
        raise Corrupt(f"a stored {name} has an unknown field, and no digest", field=strange[0])
    written = document.get("format")
    if type(written) is int and written > FORMAT and not old:
        raise _newer(name, document, format=written, known=FORMAT)
    if written != FORMAT:
        raise Corrupt(f"a stored {name} has an unknown format", format=written, known=FORMAT)
    try:
        return _decoder(kind)(document[name])
    except _NewerError as error:
        if old:
            raise Corrupt(
                f"a stored {name} has an unknown field, and no digest", field=f"{name}{error}"
            ) from error
        raise _newer(name, document, at=f"{name}{error}") from error
    except _MismatchError as error:
        raise Corrupt(f"a stored {name} cannot be understood", at=f"{name}{error}") from error
    except StrataError as error:
        raise Corrupt(f"a stored {name} contradicts itself", reason=str(error)) from error


def _fragment(value: object) -> orjson.Fragment:
    """Return a value as an orjson fragment; successive states share most of them."""
    with _LOCK:
        known = _FRAGMENTS.get(id(value))
        if known is None:
            if len(_FRAGMENTS) >= _FRAGMENTS_MAX:
                _FRAGMENTS.clear()
            # The value is kept with it, so that no other value gets its id meanwhile.
            known = _FRAGMENTS[id(value)] = (value, orjson.Fragment(dump(plain(value))))
    return known[1]


def _pieces(
    values: tuple[T, ...],
    check: Callable[[T], None] = lambda _: None,
    shorten: Callable[[T], object] = lambda value: value,
) -> list[orjson.Fragment]:
    """Return values as JSON; each is encoded and checked once while it stays in states."""
    with _LOCK:
        if len(_PIECES) > _PIECES_MAX:
            _PIECES.clear()
        for value in values:
            if id(value) not in _PIECES:
                check(value)
                # The value is kept with it, so that no other value gets its id meanwhile.
                _PIECES[id(value)] = (value, orjson.Fragment(dump(shorten(value))))
        return [_PIECES[id(value)][1] for value in values]


def _shortened(slot: SpineBatch) -> object:
    """Return a slot as it is stored; itself if no order in it becomes shorter, which is faster."""
    runs = (run for batch in slot.batches for run in batch.runs)
    return plain(slot) if any(len(run.order) > SPELLED_OUT for run in runs) else slot


def _check_slot(slot: SpineBatch) -> None:
    for batch in slot.batches:
        _check_batch(batch)


def _check_batch(batch: Batch) -> None:
    """Refuse statistics that differ from those the batch was made with; old ones have no digest.

    Raises: Corrupt.
    """
    if batch.stats_digest is not None and batch.stats_digest != digest_of(batch.stats_union):
        raise Corrupt(
            "the statistics of a batch are damaged: their digest is another one",
            lower=batch.lower,
            upper=batch.upper,
            manifest=batch.manifest,
        )


def _newer(name: str, document: dict[str, Any], **details: object) -> InvalidRequest:
    """Return the refusal of a document that a newer program wrote; it is not damaged."""
    return InvalidRequest(
        f"a stored {name} was written by a newer version of Strata",
        written_by=document.get("by", "unknown"),
        this=__version__,
        **details,
        cure="use that version here too; a shard is never read by guessing",
    )


def plain(value: object) -> Any:
    """Return `value` as orjson takes it.

    Raises: InvalidRequest for a value that JSON cannot hold.
    """
    match value:
        case ColumnType():
            return str(value)
        case bytes():
            return b64encode(value).decode("ascii")
        case tuple():
            return [plain(item) for item in value]
        case RunSummary(order=order) if len(order) > SPELLED_OUT:
            figures = ((f.name, getattr(value, f.name)) for f in fields(value))
            return dict(figures) | {"order": order_text(order)}
        case _ if is_dataclass(value):
            found = {f.name: getattr(value, f.name) for f in fields(value) if _is_written(f, value)}
            return {name: plain(one) for name, one in found.items()}
        case None | bool() | int() | float() | str() | list() | dict():
            return value
    raise InvalidRequest("this state cannot be stored", reason=f"{type(value).__name__} in it")


def _is_written(field: Field[Any], value: object) -> bool:
    return UNWRITTEN not in field.metadata or getattr(value, field.name) != field.default


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
            raise _MismatchError(f": {json.dumps(raw)[:80]} is not {kind.__name__}")
        return raw

    return decode


_check_str, _check_list, _check_dict = _leaf(str), _leaf(list), _leaf(dict)
_check_float = _leaf(float)


def _decode_bytes(raw: Any) -> bytes:
    try:
        return b64decode(_check_str(raw), validate=True)
    except (Base64Error, ValueError) as error:
        raise _MismatchError(": not base64") from error


def _decode_order(raw: Any) -> tuple[int, ...]:
    if isinstance(raw, str):
        try:
            return order_of(raw)
        except ValueError as error:
            raise _MismatchError(f": {error}") from error
    order: tuple[int, ...] = _decoder(tuple[int, ...])(raw)
    return order


_LEAVES: Final[dict[Any, Callable[[Any], Any]]] = {
    int: _leaf(int),
    str: _check_str,
    bool: _leaf(bool),
    # JSON does not distinguish 5 from 5.0, so neither may we
    float: lambda raw: float(raw) if type(raw) is int else _check_float(raw),
    bytes: _decode_bytes,
    object: lambda raw: raw,  # any JSON value
    ColumnType: lambda raw: parse_type(_check_str(raw)),
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
        items = _check_list(raw)
        if not endless and len(items) != len(inner):
            raise _MismatchError(f": {len(items)} items instead of {len(inner)}")
        values: list[Any] = []
        try:
            for decoder, item in zip(cycle(inner), items, strict=False):
                values.append(decoder(item))
        except _MismatchError as error:
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
        if unknown := sorted(items.keys() - decoders.keys()):
            raise _NewerError(f".{unknown[0]}")
        if missing := sorted(required - items.keys()):
            raise _MismatchError(f".{missing[0]}: missing")
        values: dict[str, Any] = {}
        name = ""
        try:
            for name, item in items.items():
                values[name] = decoders[name](item)
        except _MismatchError as error:
            raise type(error)(f".{name}{error}") from error
        value = kind(**values)
        if kind is Batch:
            _check_batch(value)
        return value

    return decode
