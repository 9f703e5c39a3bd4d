"""What is known of each column over many parts: how much there is, and what is left out."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from strata.model.schema import Relation
from strata.stats.counted import CountedPaths
from strata.stats.wire import OF_VALUES, parse_name, parse_pair, place_of

_KINDS: Final = dict(zip(OF_VALUES, ("sets", "blooms", "shapes", "pairs"), strict=True))


@dataclass
class Coverage:
    """What parts know of one column."""

    column: str
    parts: int = 0  # with bounds or counts of it
    places: set[str] = field(default_factory=set)  # that some part knows: the column, or inside it
    known: int = 0  # places, summed over parts
    cut: int = 0  # parts in which a map has keys without statistics
    # Of the part with the most paths of JSON without statistics; None: no part says how many
    widest: CountedPaths | None = None
    values: dict[str, set[str]] = field(default_factory=dict)  # places with sets and so on

    @property
    def left_out(self) -> int | None:
        """Return how many paths of one part have no statistics, at most; None if nobody counted."""
        return None if self.widest is None else self.widest.left_out

    def widen(self, counts: CountedPaths) -> None:
        """Take the paths of another part."""
        self.widest = max(self.widest or counts, counts, key=lambda one: one.paths - one.kept)

    def to_json(self) -> dict[str, Any]:
        """See `Report`."""
        return {
            "column": self.column,
            "parts": self.parts,
            "places": len(self.places),
            "places_a_part": round(self.known / self.parts, 1) if self.parts else 0,
            "parts_with_keys_left_out": self.cut,
            "paths": None if self.widest is None else self.widest.paths,
            "paths_left_out": self.left_out,
            **{kind: len(self.values.get(kind, ())) for kind in _KINDS.values()},
        }


def paths_of(part: Mapping[str, Any]) -> dict[int, CountedPaths]:
    """Return of each JSON column how many paths a part has, and how many have statistics.

    Columns for which the part does not say how many there are (as parts of earlier versions) are
    left out. Shape: as of `coverage`.
    """
    having = Counter(
        parsed[0] for name in part if (parsed := parse_name(name)) is not None and parsed[1]
    )
    counted = {}
    for name, fields in part.items():
        parsed = parse_name(name)
        if parsed is not None and parsed[1] is None and fields.get("paths") is not None:
            counted[parsed[0]] = CountedPaths(fields["paths"], having[parsed[0]])
    return counted


def coverage(parts: Iterable[Mapping[str, Any]], relation: Relation) -> Iterator[Coverage]:
    """Yield what the parts know of each column, in the relation's order.

    Shape: one mapping a part, from names of statistics to their fields.
    """
    found = {column.id: Coverage(column.name) for column in relation.columns}
    for part in parts:
        known: dict[int, list[str]] = {}
        paths = paths_of(part)
        cut = set()
        for name, fields in part.items():
            for side in parse_pair(name) or ():
                of_side = parse_name(side)
                if of_side is not None and of_side[0] in found:
                    found[of_side[0]].values.setdefault("pairs", set()).add(name)
            place = place_of(name)
            parsed = parse_name(place)
            if parsed is None or parsed[0] not in found:
                continue
            if name != place:
                kind = _KINDS[next(prefix for prefix in _KINDS if name.startswith(prefix))]
                found[parsed[0]].values.setdefault(kind, set()).add(place)
                continue
            known.setdefault(parsed[0], []).append(place)
            if fields.get("maps") and fields.get("complete") is False:
                cut.add(parsed[0])
        for column_id in paths.keys() & found.keys():
            found[column_id].widen(paths[column_id])
        for column_id, places in known.items():
            one = found[column_id]
            one.parts, one.known, one.cut = (
                one.parts + 1,
                one.known + len(places),
                one.cut + (column_id in cut),
            )
            one.places.update(places)
    yield from found.values()
