"""What `strata explain` shows to people."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from strata.cli.parts import short_names
from strata.cli.tables import Table, pairs, rows, shown_bytes
from strata.cli.visible import shown_count, shown_time

if TYPE_CHECKING:
    from strata.advise import Advised

_GROUP: Final = ("cause", "expression", "parts", "bytes", "help")
_REASON: Final = ("verdict", "cause", "expression", "help")
_ADVICE: Final = (
    "id",
    "kind",
    "what",
    "reads",
    "parts_saved",
    "bytes_saved",
    "read_bytes",
    "written_bytes",
    "declare",
)
_PART: Final = ("part", "verdict", "level", "rows", "bytes", "why", "ranges", "row groups")


def explain_tables(document: Mapping[str, Any]) -> list[Table | str]:
    """Return a summary, how much each level leaves, and why."""
    tables: list[Table | str] = [
        pairs(
            "",
            {
                "filter": document["filter"],
                "skipped": _skipped(document),
                "as of": shown_time(document["as_of"]),
            },
        ),
        rows("levels", document["levels"], ("level", "total", "kept")),
        rows("row groups", document["row_groups"], ("because", "parts", "total", "kept")),
        rows("kept because", document["kept_because"], _GROUP),
        rows("skipped because", document["skipped_because"], _GROUP[1:4]),
    ]
    if not document["static"]["could_skip"]:
        tables += static_tables("no part can ever be skipped", document["static"])
    return [*tables, *_part_tables(document["parts"])] if "parts" in document else tables


def static_tables(title: str, found: Mapping[str, Any]) -> list[Table]:
    """Return whether a filter could ever skip a part, and what each conjunct proves."""
    columns = ("expression", "proves", "fails", "because")
    return [pairs(title, found), rows("conjuncts", found["conjuncts"], columns)]


def advice_tables(found: "Advised") -> list[Table | str]:
    """Return the advice on a shard, and how much of the shard it was measured on."""
    sample = found.sample
    looked = (
        f"Measured on the whole shard: {shown_count(sample.parts, 'part')}."
        if sample.whole
        else f"Measured on {sample.parts:,} of {shown_count(sample.parts_total, 'part')}, "
        f"{shown_bytes(sample.size_bytes)} of {shown_bytes(sample.bytes_total)}, spread evenly."
    )
    title = f"advice on {found.shard}, the most saved for its cost first"
    return [rows(title, found.to_json()["advice"], _ADVICE), f"{looked} {_summary(found)}\n"]


def _summary(found: "Advised") -> str:
    if not found.advice:
        return f"None of {found.tried} changes that were tried would have skipped more."
    return (
        f"{len(found.advice)} of {found.tried} changes that were tried would have skipped more, "
        "each by itself."
    )


def _skipped(document: Mapping[str, Any]) -> str:
    parts, kept = document["parts_total"], document["parts_kept"]
    size, left = document["bytes_total"], document["bytes_kept"]
    skipped = f"{parts - kept:,} of {shown_count(parts, 'part')}"
    return f"{skipped}, {shown_bytes(size - left)} of {shown_bytes(size)}"


def _part_tables(parts: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Return each reason once, with a number, and the parts with the number of theirs.

    Texts of one reason differ in the ranges of a part, in brackets at the end: these stay with it.
    """
    names = short_names([part["key"] for part in parts])
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for part in parts:
        groups.setdefault(tuple(part[name] for name in _REASON), []).append(part)
    why, lines = [], {}
    for number, (key, found) in enumerate(groups.items(), 1):
        texts = [part["reason"] for part in found]
        shared = _shared(texts)
        size = sum(part["bytes"] for part in found)
        why.append(
            dict(zip(_REASON, key, strict=True))
            | {
                "number": number,
                "parts": len(found),
                "bytes": size,
                "reason": shared,
            }
        )
        for part in found:
            lines[part["key"]] = {
                **part,
                "part": names[part["key"]],
                "why": number,
                "ranges": part["reason"][len(shared) :].strip(),
                "row groups": _row_groups(part["row_groups"]),
            }
    return [
        rows("why", why, ("number", "verdict", "parts", "bytes", "reason", "help")),
        rows("parts", [lines[part["key"]] for part in parts], _PART),
    ]


def _shared(texts: Sequence[str]) -> str:
    """Return what texts have in common at their beginning, without a range that is cut."""
    low, high = min(texts), max(texts)  # in this order no other text agrees with less of them
    if low == high:
        return low
    same = next(
        at for at, pair in enumerate(zip(low, f"{high} ", strict=False)) if len(set(pair)) > 1
    )
    return low[:same].rpartition(" (")[0]


def _row_groups(groups: Mapping[str, Any] | None) -> str:
    if groups is None or groups["total"] < 2:
        return ""
    return f"{groups['kept']} of {groups['total']}: {groups['reason'] or groups['because']}"
