"""What is known of each column over many parts: how much there is, and what is left out."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from strata.model.schema import Relation
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
    values: dict[str, set[str]] = field(default_factory=dict)  # places with sets and so on

    def to_json(self) -> dict[str, Any]:
        """See `Report`."""
        return {
            "column": self.column,
            "parts": self.parts,
            "places": len(self.places),
            "places_a_part": round(self.known / self.parts, 1) if self.parts else 0,
            "parts_with_keys_left_out": self.cut,
            **{kind: len(self.values.get(kind, ())) for kind in _KINDS.values()},
        }


def coverage(parts: Iterable[Mapping[str, Any]], relation: Relation) -> Iterator[Coverage]:
    """Yield what the parts know of each column, in the relation's order.

    Shape: one mapping a part, from names of statistics to their fields.
    """
    found = {column.id: Coverage(column.name) for column in relation.columns}
    for part in parts:
        known: dict[int, list[str]] = {}
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
        for column_id, places in known.items():
            one = found[column_id]
            one.parts, one.known, one.cut = (
                one.parts + 1,
                one.known + len(places),
                one.cut + (column_id in cut),
            )
            one.places.update(places)
    yield from found.values()
