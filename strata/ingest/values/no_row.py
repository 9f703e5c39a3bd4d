"""JSON objects that are no rows: they have no column at all, or are messages about a change.

A missing key is null, and other keys are ignored. Of such an object nothing would be left, or what
the message says of itself.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class ChangeMessage:
    """A kind of message, by keys that it has."""

    what: str
    keys: frozenset[str]
    body: str  # the key of the row in it
    sure: bool  # whether it is one also if it has some of the columns
    cure: str


_EVENTS: Final = "declare source.envelope: debezium"
_ROWS: Final = "give the rows alone, or events of Debezium"
CHANGE_MESSAGES: Final = tuple(
    ChangeMessage(what, frozenset(keys.split()), body, sure, cure)
    for what, keys, body, sure, cure in (
        ("an event of Debezium", "op after", "after", True, _EVENTS),
        ("a message with its schema", "schema payload", "payload", False, _EVENTS),
        ("a record", "key value", "value", False, "declare source.envelope: upsert, or debezium"),
        ("a message of Maxwell or Canal", "database table type data", "data", True, _ROWS),
        ("a message of wal2json", "action columns", "columns", True, _ROWS),
        ("a message of wal2json", "change", "change", False, _ROWS),
        ("a message of DMS", "data metadata", "data", False, _ROWS),
    )
)


def why_no_row(keys: Collection[str], names: Collection[str]) -> str | None:
    """Return why an object with these keys is no row with the columns `names`; None: it may be."""
    if not keys or all(name in keys for name in names):
        return None
    what, nothing = message_of(keys, names), set(keys).isdisjoint(names)
    if what is not None and (nothing or what.sure):
        return f"this is {what.what}, whose row lies under {what.body}: {what.cure}"
    if nothing:
        return "the object has none of the columns: declare one that each object has"
    return None


def message_of(keys: Collection[str], names: Collection[str]) -> ChangeMessage | None:
    """Return the kind of message that has these keys; None if it may be a row."""
    there = set(keys)
    fits = (one for one in CHANGE_MESSAGES if one.keys <= there and one.body not in names)
    return next(fits, None)


def no_rows(
    objects: Iterable[Mapping[str, Any] | None], names: Collection[str]
) -> list[str | None]:
    """Return `why_no_row` of the keys of each object; an empty list if all may be rows."""
    known = frozenset(names)
    judged: dict[tuple[str, ...], str | None] = {}  # many objects have the same keys
    found: list[str | None] = []
    for value in objects:
        keys = () if value is None or known <= value.keys() else tuple(value)
        if keys not in judged:
            judged[keys] = why_no_row(keys, known)
        found.append(judged[keys])
    return found if any(judged.values()) else []
