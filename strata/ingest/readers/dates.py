"""Proposes the form in which text columns of examined files write dates.

A form is proposed if all values fit it and fit no other: 31/12/2024 decides that the day comes
first. Where several fit, the column stays text, and the forms are named.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from strata.ingest.land.source_file import SourceFile
from strata.ingest.readers.examined import typed_files
from strata.ingest.readers.propose import Why
from strata.ingest.values.written import read_written
from strata.model.spec import FORMS_OF
from strata.model.types import ColumnType, Kind
from strata.model.written import parse_form

LOOKED_AT: Final = 50  # values that rule out most forms
LONGEST: Final = 48  # characters of a date with a time of day
# Of one way to write days the strict form and the lenient one: the first that fits stands for both.
_DAYS: Final = (
    *((f"dd{s}MM{s}yyyy", f"d{s}M{s}yyyy") for s in "/.-"),
    *((f"MM{s}dd{s}yyyy", f"M{s}d{s}yyyy") for s in "/.-"),
    *((f"yyyy{s}MM{s}dd", f"yyyy{s}M{s}d") for s in "/.-"),
    *((f"dd{s}MMM{s}yyyy", f"d{s}MMM{s}yyyy") for s in " -/"),
    *((f"MMM dd{s}yyyy", f"MMM d{s}yyyy") for s in (" ", ", ")),
    ("dd MMMM yyyy", "d MMMM yyyy"),
    *((f"MMMM dd{s}yyyy", f"MMMM d{s}yyyy") for s in (" ", ", ")),
)
_CLOCK: Final = re.compile(
    r"(?P<gap> |T)\d{1,2}:\d\d(?P<s>:\d\d)?(?P<f>\.\d+)?"
    r"(?P<a> ?[aApP][mM])?(?P<z> ?(?:Z|[+-]\d\d:\d\d))?$"
)


def dates_written(
    declaration: dict[str, Any], files: Sequence[SourceFile]
) -> tuple[dict[str, Any], tuple[Why, ...], tuple[str, ...]]:
    """Return the declaration with the forms that decide themselves, why, and notes about others.

    Shape: as in the YAML file. Cost: reads the files once more if a column is text.
    """
    names = [c["name"] for c in declaration["columns"] if c["type"] == "string"]
    values: dict[str, list[pa.Array]] = {name: [] for name in names}
    if names:
        for _, typed in typed_files(declaration, files, []):
            for name in names:
                values[name].append(typed.columns[name].drop_null())
    found = {name: list(_fitting(pa.chunked_array(values[name], pa.string()))) for name in names}
    chosen = {name: forms[0] for name, forms in found.items() if len(forms) == 1}
    why = [
        Why(f"source.{FORMS_OF[k]}", n, f"all texts fit {f}, and no other form")
        for n, (k, f) in chosen.items()
    ]
    notes = [
        f"{name}: {' or '.join(form for _, form in forms)}, no value decides; to read it, declare "
        f"type: {forms[0][0]} and source: {{{FORMS_OF[forms[0][0]]}: {{{name}: {forms[0][1]!r}}}}}"
        for name, forms in found.items()
        if len(forms) > 1
    ]
    return _declared(declaration, chosen), tuple(why), tuple(notes)


def _declared(
    declaration: dict[str, Any], chosen: Mapping[str, tuple[Kind, str]]
) -> dict[str, Any]:
    columns = [
        {**column, "type": str(chosen[column["name"]][0])} if column["name"] in chosen else column
        for column in declaration["columns"]
    ]
    forms: dict[str, dict[str, str]] = {}
    for name, (kind, form) in chosen.items():
        forms.setdefault(FORMS_OF[kind], {})[name] = form
    return {**declaration, "columns": columns, "source": {**declaration["source"], **forms}}


def _fitting(values: pa.ChunkedArray) -> Iterator[tuple[Kind, str]]:
    """Yield a type and a form for each way of writing days that all values fit."""
    if not len(values) or pc.max(pc.utf8_length(values)).as_py() > LONGEST:
        return
    some = values.slice(0, LOOKED_AT).combine_chunks()
    first = some[0].as_py().strip()
    if not any(letter.isdigit() for letter in first):
        return
    clock = _CLOCK.search(first)
    kind, behind = _behind(clock)
    whole = values.combine_chunks()
    for ways in _DAYS:
        for form in (f"{days}{time}" for time in behind for days in ways):
            if _all_fit(some, kind, form) and _all_fit(whole, kind, form):
                yield kind, form
                break


def _behind(clock: re.Match[str] | None) -> tuple[Kind, Sequence[str]]:
    """Return the type and the ends of the forms that a time of day like this one has."""
    if clock is None:
        return Kind.DATE, ("",)
    seconds = ":ss" if clock["s"] else ""
    parts = ".SSSSSS" if clock["f"] else ""
    zone = clock["z"].rstrip("Z0123456789:+-") + "XXX" if clock["z"] else ""
    gap = "'T'" if clock["gap"] == "T" else " "
    half = "" if clock["a"] is None else f"{' ' if clock['a'].startswith(' ') else ''}a"
    hours = ("hh", "h") if half else ("HH", "H")
    ends = [f"{gap}{hour}:mm{seconds}{parts}{half}{zone}" for hour in hours]
    return (Kind.TIMESTAMPTZ if zone else Kind.TIMESTAMP), ends


def _all_fit(values: pa.Array, kind: Kind, form: str) -> bool:
    return not len(
        read_written(values.cast(pa.binary()), ColumnType(kind), parse_form(form, kind)).bad
    )
