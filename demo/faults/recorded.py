"""Faults in what a manifest says of a part, beside its statistics."""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from demo.faults.site import Injected, Place, Site

Cells = Callable[[Site, Place], dict[str, Any] | None]


def _says(names: str, cells: Cells) -> Callable[[Site, Random], Injected | None]:
    """Return the fault that writes other values into the row of some part."""

    def inject(site: Site, draw: Random) -> Injected | None:
        for place in site.places(draw):
            new = cells(site, place)
            if new is not None:
                site.set_cells(place, new)
                return Injected(place.ref.key, names, f"manifest says {sorted(new)} otherwise")
        return None

    return inject


def _t_low(site: Site, place: Place) -> dict[str, Any] | None:
    late = place.ref.t_low < place.ref.t_high
    return {"t_low": place.ref.t_high} if late else None


def _t_high(site: Site, place: Place) -> dict[str, Any] | None:
    late = place.ref.t_low < place.ref.t_high
    return {"t_high": place.ref.t_low} if late else None


def _retractions(site: Site, place: Place) -> dict[str, Any] | None:
    return {"retractions": False} if place.ref.retractions else None


def _sorted(place: Place, cells: dict[str, Any]) -> dict[str, Any] | None:
    return cells if place.ref.order else None


def _split_keys(site: Site, place: Place) -> dict[str, Any] | None:
    """Move the keys of row groups one group on, so that readers look into the wrong ones."""
    splits = place.ref.splits
    if len(splits) < 2 or splits[0].key == splits[1].key or not place.ref.order:
        return None
    moved = [splits[0].key, *(s.key for s in splits[:-1])]
    return {"splits": [{"row": s.row, "key": k} for s, k in zip(splits, moved, strict=True)]}


def _split_rows(site: Site, place: Place) -> dict[str, Any] | None:
    splits = place.ref.splits
    if len(splits) < 2:
        return None
    rows = [splits[0].row, *(s.row - 1 for s in splits[1:])]
    return {"splits": [{"row": r, "key": s.key} for s, r in zip(splits, rows, strict=True)]}


def _group_forgotten(site: Site, place: Place) -> dict[str, Any] | None:
    splits = place.ref.splits
    short = [{"row": s.row, "key": s.key} for s in splits[:-1]]
    return {"splits": short} if len(splits) > 1 else None


def _other_version(site: Site, place: Place) -> dict[str, Any] | None:
    versions = [r.version for r in site.state.relations if r.version != place.ref.relation_version]
    return {"relation_version": versions[0]} if versions else None


def _layout(site: Site, place: Place) -> dict[str, Any] | None:
    return {"layout": "structured" if place.ref.layout != "structured" else "both"}


FAULTS: Final = {
    "first time too late": _says("t_low", _t_low),
    "last time too early": _says("t_high", _t_high),
    "sum of diffs": _says("diffs_sum", lambda s, p: {"diffs_sum": p.ref.diffs_sum + 1}),
    "content digest": _says("digest", lambda s, p: {"digest": (p.ref.digest + 1) % 2**64}),
    "retractions denied": _says("retractions", _retractions),
    "number of rows": _says("rows", lambda s, p: {"rows": p.ref.rows - 1}),
    "size of the part": _says("size_bytes", lambda s, p: {"size_bytes": p.ref.size_bytes + 1}),
    "low key above the rows": _says("key_low", lambda s, p: _sorted(p, {"key_low": b"\xff"})),
    "high key below the rows": _says("key_high", lambda s, p: _sorted(p, {"key_high": b"\x00"})),
    "keys of row groups moved": _says("splits", _split_keys),
    "rows of row groups moved": _says("splits", _split_rows),
    "row group forgotten": _says("splits", _group_forgotten),
    "wrong schema version": _says("relation_version", _other_version),
    "wrong layout": _says("layout", _layout),
}
