"""Cut the key space into slices of about equal stored bytes.

Only the size and the bounds of a row group are known, so its bytes are assumed to be spread evenly
between the bounds. Slices end where these estimates are equal, usually inside row groups, which
both slices then read. Cutting at the start of a group would not avoid that, because the group
before may end with the same key.
"""

from collections.abc import Generator, Sequence
from heapq import heappop, heappush
from itertools import islice
from math import ceil, floor
from typing import Final

from strata.format.manifest import PartRef
from strata.model.schema import Relation
from strata.updates.order import shared_bytes
from strata.updates.slices import NO_GROUPS, Groups, Slice, has_keys_of

SPARE: Final = 1 / 20  # of a slice: a smaller rest gets no slice of its own
KEY_DIGITS: Final = 64  # bytes of a key that determine its place
DIGITS: Final = 8  # of a key between two others, after their common prefix

Group = tuple[bytes, bytes, float]  # bytes at or before its rows, bytes near its end, its weight


def cut(
    parts: Sequence[PartRef],
    relation: Relation,
    relations: Sequence[Relation],
    slice_bytes: int,
    groups: Groups = NO_GROUPS,
) -> list[Slice]:
    """Return slices with about equal shares of the parts' stored bytes.

    Returns the fewest that hold at most about `slice_bytes` each. For a part in `groups` only these
    row groups count.
    Errs: a slice may hold more where many rows share a key or parts have no usable bounds.
    Cost: n log n, plus at each row group the sum over the groups open there.
    """
    return cut_groups(_groups(parts, relation, relations, groups), slice_bytes)


def cut_groups(found: Sequence[Group], most: float) -> list[Slice]:
    """Return the fewest slices that hold at most about `most` each of the weight of groups.

    Shape: `found` in the order of least keys. Errs, Cost: as `cut`.
    """
    total = sum(weight for _, _, weight in found)
    count = ceil(total / max(most, 1) - SPARE)
    edges: list[bytes] = []
    for edge in islice(_edges(found, total / max(count, 1)), max(count - 1, 0)):
        if edge > (edges[-1] if edges else b""):
            edges.append(edge)
    return [Slice(a, b) for a, b in zip([b"", *edges], [*edges, None], strict=True)]


def _groups(
    parts: Sequence[PartRef],
    relation: Relation,
    relations: Sequence[Relation],
    groups: Groups,
) -> list[Group]:
    """Return the row groups that count, in the order of their least keys."""
    found = []
    known: dict[tuple[tuple[int, ...], int], bool] = {}  # most parts are alike
    for ref in parts:
        kind = (ref.order, ref.relation_version)
        if kind not in known:
            known[kind] = has_keys_of(ref, relation, relations)
        if not known[kind]:
            continue
        lows = [split.key for split in ref.splits] or [ref.key_low]
        ends = [*lows[1:], lows[-1] if ref.key_high is None else ref.key_high]
        starts = [*(split.row for split in ref.splits), ref.rows] if ref.splits else [0, ref.rows]
        chosen = groups.get(ref.key) if ref.splits else None
        for i in range(len(lows)) if chosen is None else chosen:
            weight = ref.size_bytes * (starts[i + 1] - starts[i]) / max(ref.rows, 1)
            found.append((lows[i], ends[i], weight))
    return sorted(found)


def _edges(
    groups: Sequence[Group], step: float, shared: bytes = b"", before: float = 0.0, edge: int = 1
) -> Generator[bytes, None, int]:
    """Yield the keys with `edge`, `edge` + 1, ... times `step` of the weight before them.

    The weight `before` lies before all groups, and all their keys begin with `shared`. Returns the
    next multiple of `step`.
    The density of the open groups is summed anew at each key, because a running sum would lose the
    small terms once a narrow group has been added and removed.
    """
    opened: dict[int, float] = {}  # group -> its weight per unit of the key space
    ends: list[tuple[bytes, int]] = []  # of the open groups, as a heap
    # At the current place: groups that begin and end with the same KEY_DIGITS
    alike: list[Group] = []
    place, at, number = b"", 0, 0
    while number < len(groups) or ends:
        begins = number < len(groups) and (not ends or groups[number][0] <= ends[0][0])
        key = groups[number][0] if begins else ends[0][0]
        reached = _number(key)
        if reached > at and alike:
            edge = yield from _among(alike, step, shared, before, edge)
            before, alike = before + _weight(alike), []
        after = before + sum(opened.values()) * (reached - at)
        while before < after and edge * step <= after:
            yield shared + between(place, key, (edge * step - before) / (after - before))
            edge += 1
        place, at, before = key, reached, after
        if not begins:
            del opened[heappop(ends)[1]]
            continue
        low, end, weight = groups[number]
        if (width := _number(end) - reached) > 0:
            opened[number] = weight / width
            heappush(ends, (end, number))
        else:
            alike.append((low, end, weight))
        number += 1
    return (yield from _among(alike, step, shared, before, edge)) if alike else edge


def _among(
    alike: Sequence[Group], step: float, shared: bytes, before: float, edge: int
) -> Generator[bytes, None, int]:
    """Yield the keys of `_edges` that lie among groups whose keys begin with the same KEY_DIGITS.

    Later bytes distinguish such keys. Keys without later bytes stay together: a slice that would
    end among them begins with them instead.
    """
    rest = [(low[KEY_DIGITS:], end[KEY_DIGITS:], weight) for low, end, weight in alike]
    if any(low < end for low, end, _ in rest):
        shared += alike[-1][0][:KEY_DIGITS]  # the greatest key: it is no shorter
        return (yield from _edges(sorted(rest), step, shared, before, edge))
    if edge * step <= before + _weight(alike):
        yield shared + alike[0][0]
        edge = floor((before + _weight(alike)) / step) + 1
    return edge


def _weight(groups: Sequence[Group]) -> float:
    return sum(weight for _, _, weight in groups)


def between(low: bytes, high: bytes, part: float) -> bytes:
    """Return the key at a fraction of the way from `low` to `high`, or one of these.

    >>> between(b"aa", b"ae", 0.5)
    b'ac'
    """
    shared = shared_bytes(low, high)
    first, last = (_number(key[shared:], DIGITS) for key in (low, high))
    # As a fraction: a float would round the difference up, to a place behind `high`.
    parts, whole = min(max(part, 0.0), 1.0).as_integer_ratio()
    place = first + (last - first) * parts // whole
    key = low[:shared] + place.to_bytes(DIGITS, "big").rstrip(b"\0")
    return min(max(key, low), high)


def _number(key: bytes, digits: int = KEY_DIGITS) -> int:
    return int.from_bytes(key[:digits].ljust(digits, b"\0"), "big")
