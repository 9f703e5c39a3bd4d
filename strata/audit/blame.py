"""Find the statistic that lied: recorded bounds against those of the rows themselves.

The check is independent of the interpreter. It collects statistics anew from the part's rows and
compares them with the recorded ones, field by field; bounds may be loose in one direction. A
statistic that is recorded as unknown cannot lie.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from strata.model.schema import Relation
from strata.stats.wire import Path, column_name, parse_name, path_name


@dataclass(frozen=True, slots=True)
class Lie:
    """One recorded statistic that does not enclose the data."""

    column_id: int
    column: str  # the column's name, with the JSON path if there is one
    field: str  # low, high, nulls, ...
    recorded: object
    found: object

    def __str__(self) -> str:
        """Return the contradiction as text for alerts and reports."""
        return f"{self.column}.{self.field} recorded {self.recorded}, the rows have {self.found}"


_LOWS: Final = ("low", "num_low", "str_low", "shortest", "paths")
_HIGHS: Final = ("high", "num_high", "str_high", "longest")
_EXACT: Final = (
    ("low", "low_exact"),
    ("high", "high_exact"),
    ("num_low", "num_exact"),
    ("num_high", "num_exact"),
    ("str_low", "str_low_exact"),
    ("str_high", "str_high_exact"),
)
_COUNTS: Final = (
    "count", "nulls", "nans", "present", "json_nulls", "bools", "trues", "numbers", "integers",
    "strings", "lists", "maps",
)  # fmt: skip


def find_lies(recorded: pa.RecordBatch, actual: pa.RecordBatch, relation: Relation) -> list[Lie]:
    """Return every recorded statistic that contradicts the actual ones.

    Shape: both have one row and the statistics columns of a manifest; `actual` is untrimmed.
    Errs: never blames a bound that is merely loose, or one that was trimmed away.
    """
    lies: list[Lie] = []
    truth = {name: actual.column(name)[0].as_py() for name in actual.schema.names}
    for name in recorded.schema.names:
        parsed = parse_name(name)
        claim = recorded.column(name)[0].as_py() if parsed else None
        if parsed is None or claim is None or parsed[0] not in relation.by_id:
            continue
        column_id, path = parsed
        label = label_of(name, column_id, relation)
        found = truth.get(name)
        if found is None:
            found = _absent(claim) if path is not None else None
        if found is not None:
            lies += [Lie(column_id, label, *lie) for lie in _contradictions(claim, found)]
    return lies + _incomplete(recorded, truth, relation)


def _absent(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statistics of a path that no row has."""
    return {field: 0 if field in _COUNTS else None for field in claim}


def _contradictions(
    claim: Mapping[str, Any], found: Mapping[str, Any]
) -> Iterator[tuple[str, object, object]]:
    for field, value in claim.items():
        truth = found.get(field)
        if value is not None and truth is not None and _wrong(field, value, truth):
            yield field, value, truth
    for bound, flag in _EXACT:
        value, truth = claim.get(bound), found.get(bound)
        if claim.get(flag) and value is not None and value != truth:
            yield flag, f"{bound} = {value}", truth


def _wrong(field: str, value: Any, truth: Any) -> bool:
    if field in _COUNTS:
        return bool(value != truth)
    if field in _LOWS:
        return bool(value > truth)
    return field in _HIGHS and bool(value < truth)


def label_of(name: str, column_id: int, relation: Relation) -> str:
    """Return the name of a statistics column for people: the column's name and the JSON path."""
    return relation.by_id[column_id].name + name.removeprefix(column_name(column_id))


def _incomplete(
    recorded: pa.RecordBatch, truth: Mapping[str, Any], relation: Relation
) -> list[Lie]:
    """Return the paths in the rows that contradict an ancestor's claim to know all its keys."""
    names = set(recorded.schema.names)
    lies = []
    for name, found in truth.items():
        parsed = parse_name(name)
        if parsed is None or name in names or found is None:
            continue
        column_id, path = parsed
        if not path:
            continue
        claim = _nearest(recorded, column_id, path)
        if claim and claim.get("complete") and column_id in relation.by_id:
            label = label_of(name, column_id, relation)
            lies.append(Lie(column_id, label, "present", 0, found["present"]))
    return lies


def _nearest(recorded: pa.RecordBatch, column_id: int, path: Path) -> Mapping[str, Any] | None:
    """Return the statistics of the nearest recorded ancestor of a path."""
    for length in reversed(range(len(path))):
        name = path_name(column_id, path[:length])
        if name in recorded.schema.names:
            claim: Mapping[str, Any] | None = recorded.column(name)[0].as_py()
            if claim is not None:
                return claim
    return None
