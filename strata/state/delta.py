"""Encode what one commit changes in a state, as JSON of the size of the change.

    a dataclass      ["in", {"upper": ["set", 7], "rollout": ["in", {...}]}]   fields that differ
    a tuple          ["by", [[0, 127], {...}, {...}]]      items 0 to 126 of before, then two new
    the spine        ["spine", {"next_id": 9, "slots": [[0, 5, 12, 3], ...], "batches": [...]}]
    anything else    ["set", ...]                                               as a state has it

Every append rearranges slots, but batches stay. So the batches are listed for the spine as a whole,
and each slot has only its ids, its level and its number of batches.

Law: `changed(old, changes(old, new)) == new`, for any two states. The machine compares both each
time before it commits (`strata.state.versions`), because readers have nothing but the change.
"""

from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import chain
from operator import is_
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from strata.errors import Corrupt
from strata.state.codec import decode_field
from strata.state.plain import plain
from strata.state.state import Batch, Spine, SpineBatch, State

T = TypeVar("T")

_SET: Final = "set"
_IN: Final = "in"
_BY: Final = "by"
_SPINE: Final = "spine"


def changes_between(old: State, new: State) -> Any:
    """Return the change from `old` to `new`; short if they share values, as successors do.

    Raises: InvalidRequest for a value that JSON cannot hold; Corrupt for statistics of a batch that
    differ from those it was made with.
    """
    return _changes(old, new)


def apply_changes(old: State, change: Any) -> State:
    """Return the new state that `changes(old, ...)` encodes.

    Raises: Corrupt, naming the field, for a change that does not fit this state; InvalidRequest for
    a field that a newer version of Strata wrote.
    """
    try:
        found = _changed(old, change)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise Corrupt("a stored change does not fit its state", reason=str(error)) from error
    assert isinstance(found, State)
    return found


def _changes(old: Any, new: Any) -> dict[str, Any]:
    found = {}
    for field in fields(old):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before is not after and before != after:
            found[field.name] = _change(before, after, _hints_of(old)[field.name])
    return found


def _change(old: Any, new: Any, hint: Any) -> list[Any]:
    if isinstance(new, Spine):
        return [_SPINE, _of_spine(old, new)]
    if is_dataclass(new) and type(old) is type(new):
        return [_IN, _changes(old, new)]
    if isinstance(old, tuple) and isinstance(new, tuple) and _item(hint) is not None:
        return [_BY, _script(old, new)]
    return [_SET, plain(new)]


def _of_spine(old: Spine, new: Spine) -> dict[str, Any]:
    slots = [[s.id_lower, s.id_upper, s.level, len(s.batches)] for s in new.slots]
    script = _script(_batches(old), _batches(new))
    return {"next_id": new.next_id, "slots": slots, "batches": script}


def _batches(spine: Spine) -> tuple[Batch, ...]:
    return tuple(chain.from_iterable(slot.batches for slot in spine.slots))


def _script(old: tuple[Any, ...], new: tuple[Any, ...]) -> list[Any]:
    """Return the items of `new`, each as a new item or as a range [from, to) of those of `old`."""
    # A commit leaves nearly all items where they are, so they are compared in one call.
    end = [*map(is_, old, new), False].index(False)  # of the last copied range
    script: list[Any] = [[0, end]] if end else []
    places = {id(item): place for place, item in enumerate(old[end:], end)}
    for item in new[end:]:
        same = end < len(old) and (old[end] is item or old[end] == item)
        place = end if same else places.get(id(item))
        if place is None:
            script.append(plain(item))
        elif script and type(script[-1]) is list and script[-1][1] == place:
            script[-1][1] = end = place + 1
        else:
            end = place + 1
            script.append([place, end])
    return script


def _changed(old: Any, change: Any) -> Any:
    if type(change) is not dict:
        raise ValueError("no object")
    hints, values = _hints_of(old), {}
    for name, (how, what) in change.items():
        if name not in hints:
            # Refuses fields that only a newer program can have written
            decode_field({name: None}, type(old))
        values[name] = _apply(getattr(old, name), how, what, hints[name])
    return replace(old, **values)


def _apply(old: Any, how: str, what: Any, hint: Any) -> Any:
    if how == _SET:
        return decode_field(what, hint)
    if how == _IN and is_dataclass(old):
        return _changed(old, what)
    if how == _BY and (item := _item(hint)) is not None:
        return _items(old, what, item)
    if how == _SPINE and isinstance(old, Spine):
        return _spine(old, what)
    raise ValueError(f"{how!r} is no change of {type(old).__name__}")


def _spine(old: Spine, change: dict[str, Any]) -> Spine:
    batches = _items(_batches(old), change["batches"], Batch)
    slots: list[SpineBatch] = []
    begin = 0
    for id_lower, id_upper, level, count in decode_field(
        change["slots"], tuple[tuple[int, ...], ...]
    ):
        slots.append(SpineBatch(id_lower, id_upper, level, batches[begin : begin + count]))
        begin += count
    if begin != len(batches):
        raise ValueError("the slots do not hold the batches")
    return Spine(tuple(slots), decode_field(change["next_id"], int))


def _items(old: tuple[Any, ...], script: list[Any], kind: Any) -> tuple[Any, ...]:
    found: list[Any] = []
    for one in script:
        if type(one) is not list:
            found.append(decode_field(one, kind))
            continue
        begin, end = one
        if type(begin) is not int or type(end) is not int or not 0 <= begin < end <= len(old):
            raise IndexError(f"{one} of {len(old)} items")
        found += old[begin:end]
    return tuple(found)


def _hints_of(value: object) -> dict[str, Any]:
    kind: Any = type(value)
    return _hints(kind)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _item(hint: Any) -> Any:
    """Return the item type of a field that is a tuple of any length; otherwise None.

    Also None for items that are tuples themselves, since they would look like ranges.
    """
    args = get_args(hint)
    if get_origin(hint) is not tuple or len(args) != 2 or args[1] is not Ellipsis:
        return None
    return None if get_origin(args[0]) is tuple else args[0]
