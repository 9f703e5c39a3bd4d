"""Faults in statistics: each makes a statement about a part's rows that is not true of them."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from demo.faults.site import Injected, Place, Site, with_cell
from strata.stats.wire import parse_name

Struct = Mapping[str, Any]
Change = Callable[[Struct], dict[str, Any] | None]


def _claim(change: Change, field: str) -> Callable[[Site, Random], Injected | None]:
    """Return the fault that changes fields of one place's statistics where that is a lie."""

    def inject(site: Site, draw: Random) -> Injected | None:
        for place in site.places(draw):
            table = site.manifest(place.batch)
            names = [n for n in table.column_names if parse_name(n) is not None]
            draw.shuffle(names)
            for name in names:
                old = table[name][place.row].as_py()
                new = None if old is None else change(old)
                if old is not None and new is not None:
                    site.set_cells(place, {name: {**old, **new}})
                    return _injected(site, place, name, field, f"{name}: {new}")
        return None

    return inject


def _injected(site: Site, place: Place, name: str, field: str, what: str) -> Injected:
    parsed = parse_name(name)
    assert parsed is not None
    column = site.state.relation.by_id[parsed[0]].name + name.removeprefix(f"s.{parsed[0]}")
    return Injected(place.ref.key, f"{column}.{field} recorded", what)


def _low_above(s: Struct) -> dict[str, Any] | None:
    apart = s.get("low") is not None and s.get("high") is not None and s["low"] != s["high"]
    return {"low": s["high"]} if apart else None


def _high_below(s: Struct) -> dict[str, Any] | None:
    apart = s.get("low") is not None and s.get("high") is not None and s["low"] != s["high"]
    return {"high": s["low"]} if apart else None


def _inverted(s: Struct) -> dict[str, Any] | None:
    both = _low_above(s), _high_below(s)
    return None if both[0] is None or both[1] is None else {**both[0], **both[1]}


def _nulls_hidden(s: Struct) -> dict[str, Any] | None:
    return {"nulls": 0} if s.get("nulls") else None


def _nulls_invented(s: Struct) -> dict[str, Any] | None:
    return {"nulls": s["nulls"] + 1} if s.get("nulls") is not None and "low" in s else None


def _nans_hidden(s: Struct) -> dict[str, Any] | None:
    return {"nans": 0} if s.get("nans") else None


def _exact_claimed(s: Struct) -> dict[str, Any] | None:
    low = s.get("low")
    number = isinstance(low, int | float) and not isinstance(low, bool) and "low_exact" in s
    return {"low": low - 1, "low_exact": True} if number and low is not None else None


def _presence_denied(s: Struct) -> dict[str, Any] | None:
    return {"present": s["present"] - 1} if s.get("present") else None


def _numbers_cut(s: Struct) -> dict[str, Any] | None:
    ends = s.get("num_low"), s.get("num_high")
    return {"num_high": ends[0]} if None not in ends and ends[0] != ends[1] else None


def _numbers_raised(s: Struct) -> dict[str, Any] | None:
    ends = s.get("num_low"), s.get("num_high")
    return {"num_low": ends[1]} if None not in ends and ends[0] != ends[1] else None


def _texts_raised(s: Struct) -> dict[str, Any] | None:
    ends = s.get("str_low"), s.get("str_high")
    return {"str_low": ends[1]} if None not in ends and ends[0] != ends[1] else None


def _kind_denied(s: Struct) -> dict[str, Any] | None:
    return {"strings": 0, "str_low": None, "str_high": None} if s.get("strings") else None


def _trimmed_too_far(s: Struct) -> dict[str, Any] | None:
    high = s.get("high")
    long = isinstance(high, str | bytes) and len(high) > 1
    return {"high": high[:1], "high_exact": False} if long and high is not None else None


def _low_trimmed_up(s: Struct) -> dict[str, Any] | None:
    low = s.get("low")
    return {"low": f"{low}!", "low_exact": False} if isinstance(low, str) else None


def _path_denied(site: Site, draw: Random) -> Injected | None:
    """Forget a JSON path below a place that says it knows them all."""
    for place in site.places(draw):
        table = site.manifest(place.batch)
        for name in table.column_names:
            parsed = parse_name(name)
            if parsed is None or not parsed[1] or table[name][place.row].as_py() is None:
                continue
            root = table[f"s.{parsed[0]}$"][place.row].as_py()
            if len(parsed[1]) == 1 and root and root["complete"]:
                site.set_cells(place, {name: None})
                return _injected(site, place, name, "present", f"{name} dropped, root complete")
    return None


def _columns_swapped(site: Site, draw: Random) -> Injected | None:
    """Give two columns of one type each other's statistics."""
    for place in site.places(draw):
        table = site.manifest(place.batch)
        known = [
            n
            for n in table.column_names
            if (p := parse_name(n)) is not None
            and p[1] is None
            and table[n][place.row].as_py() is not None
        ]
        for i, a in enumerate(known):
            for b in known[i + 1 :]:
                left, right = table[a][place.row].as_py(), table[b][place.row].as_py()
                alike = table.schema.field(a).type == table.schema.field(b).type
                if alike and left.get("low") is not None and left != right:
                    site.set_cells(place, {a: right, b: left})
                    return Injected(place.ref.key, "recorded", f"{a} and {b} swapped")
    return None


def _parts_swapped(site: Site, draw: Random) -> Injected | None:
    """Give two parts of a batch each other's statistics."""
    for place in site.places(draw):
        table = site.manifest(place.batch)
        names = [n for n in table.column_names if parse_name(n) is not None]
        other = (place.row + 1) % table.num_rows
        mine = [table[n][place.row].as_py() for n in names]
        theirs = [table[n][other].as_py() for n in names]
        if other == place.row or mine == theirs or None in (mine[0], theirs[0]):
            continue
        for name, a, b in zip(names, mine, theirs, strict=True):
            table = with_cell(with_cell(table, name, place.row, b), name, other, a)
        site.record(place.batch, table)
        return Injected(place.ref.key, "recorded", f"statistics of rows {place.row}, {other}")
    return None


FAULTS: Final = {
    "low bound above the rows": _claim(_low_above, "low"),
    "high bound below the rows": _claim(_high_below, "high"),
    "inverted bounds": _claim(_inverted, "low"),
    "nulls hidden": _claim(_nulls_hidden, "nulls"),
    "nulls invented": _claim(_nulls_invented, "nulls"),
    "NaN hidden": _claim(_nans_hidden, "nans"),
    "loose bound called exact": _claim(_exact_claimed, "low_exact"),
    "presence miscounted": _claim(_presence_denied, "present"),
    "JSON number range cut": _claim(_numbers_cut, "num_high"),
    "JSON number range raised": _claim(_numbers_raised, "num_low"),
    "JSON text range raised": _claim(_texts_raised, "str_low"),
    "JSON kind denied": _claim(_kind_denied, "strings"),
    "high bound trimmed without rounding up": _claim(_trimmed_too_far, "high"),
    "low bound trimmed upward": _claim(_low_trimmed_up, "low"),
    "JSON path denied by a complete parent": _path_denied,
    "statistics of two columns swapped": _columns_swapped,
    "statistics of two parts swapped": _parts_swapped,
}
