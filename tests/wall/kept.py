"""Faults that the wall found, each with its least values, in `found/*.json`.

A file says what the fault is, whether it is `open`, what failures of a cell it `excuses` while it
is (expressions that must all be found in them), and `values`: type, source, and the value as it
stands in a source file (`beside`: further rows of the file). A mended fault stays here: its values
are tried for ever.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from strata.ingest.twin import (
    Unreadable,
    csv_fields,
    from_connect,
    from_json,
    from_python,
    parse_json_line,
)
from strata.model.types import parse_type
from tests.wall import typed
from tests.wall.cells import SOURCES, TYPES, Failure, Verdict, judged
from tests.wall.rows import Row, outcome
from tests.wall.sources import csv_value

FOUND: Final = Path(__file__).parent / "found"
FIELDS: Final = ("type", "source", "value", "expected", "got")
LITERALS: Final = {"Decimal": Decimal, "nan": float("nan"), "inf": float("inf"), "__builtins__": {}}


@dataclass(frozen=True)
class Fault:
    """What is or was wrong with ingest."""

    name: str
    fault: str
    open: bool
    excuses: tuple[dict[str, str], ...]
    values: tuple[dict[str, Any], ...]


@cache
def faults() -> tuple[Fault, ...]:
    """Return what was found."""
    some = [(path.stem, json.loads(path.read_text())) for path in sorted(FOUND.glob("*.json"))]
    return tuple(
        Fault(name, f["fault"], f["open"], tuple(f["excuses"]), tuple(f["values"]))
        for name, f in some
    )


def unexcused(failures: Iterable[Failure]) -> list[Failure]:
    """Return the failures that no open fault explains."""
    excuses = [excuse for fault in faults() if fault.open for excuse in fault.excuses]
    return [one for one in failures if not any(_excused(one, excuse) for excuse in excuses)]


def _excused(failure: Failure, excuse: dict[str, str]) -> bool:
    assert excuse.keys() <= set(FIELDS)
    return all(re.search(form, getattr(failure, name)) for name, form in excuse.items())


def replay(value: dict[str, Any], root: Path) -> Verdict:
    """Try one value again."""
    name, source = value["type"], SOURCES[value["source"]]
    beside = [{**value, "value": other} for other in value.get("beside", ())]
    rows = [row_of(one, number) for number, one in enumerate([value, *beside], 1)]
    return judged(name, source, rows, root)


def row_of(value: dict[str, Any], number: int) -> Row:
    """Return the row of a kept value; the twin reads it anew."""
    column_type, source = parse_type(value["type"]), value["source"]
    must = value.get("must", False)
    if "arrow" in value:
        arrow_type = _arrow_types()[value["arrow"]]
        item = eval(value["value"], LITERALS)
        expected = outcome(lambda: from_python(item, arrow_type, column_type))
        return Row(number, value["value"], expected, must, cell=(arrow_type, item))
    text = value["value"].encode("latin-1")
    if "csv" in source:
        read = csv_fields(b"1," + text)[1]
        expected = csv_value(read, column_type)
        return Row(number, value["value"], expected, must, cell=text)
    row = Row(number, value["value"], None, must, cell=text)
    try:
        parsed = parse_json_line(b'{"v":%s}' % text)["v"]
    except Unreadable as error:
        row.expected, row.whole = error, True
    else:
        if "debezium" in source:
            schema = value.get("schema")
            row.expected = outcome(lambda: from_connect(parsed, schema, column_type))
        else:
            row.expected = outcome(lambda: from_json(parsed, column_type))
    if "debezium" in source:
        row.cell = (value.get("schema"), text)
    return row


@cache
def _arrow_types() -> dict[str, pa.DataType]:
    return {str(one): one for name in TYPES for one in typed.arrow_types(parse_type(name))}
