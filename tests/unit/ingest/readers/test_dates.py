"""A form of dates is proposed if all values fit it and no other; else the forms are named."""

import json
from pathlib import Path

import pytest

from strata.ingest.readers.infer import infer
from strata.machine.machine import Machine
from strata.model.spec import parse_spec
from tests.unit.ingest.test_engine import World


@pytest.mark.parametrize(
    ("values", "kind", "form"),
    [
        (["01/02/2024", "31/12/2024"], "date", "dd/MM/yyyy"),
        (["1/2/2024", "31/12/2024"], "date", "d/M/yyyy"),
        (["12/31/2024"], "date", "MM/dd/yyyy"),
        (["2024/01/02", "2024/12/31"], "date", "yyyy/MM/dd"),
        (["Jun 12 1998", "Dec 1 2003"], "date", "MMM d yyyy"),
        (["2001/01/01 00:47"], "timestamp", "yyyy/MM/dd HH:mm"),
        (["31.12.2024 7:05"], "timestamp", "dd.MM.yyyy H:mm"),
        (["31.12.2024 07:05:59.5"], "timestamp", "dd.MM.yyyy HH:mm:ss.SSSSSS"),
        (["13/1/2024 7:05 PM", "1/1/2024 11:05 am"], "timestamp", "d/M/yyyy h:mm a"),
        (["31-12-2024T07:05:59Z"], "timestamptz", "dd-MM-yyyy'T'HH:mm:ssXXX"),
    ],
)
@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_a_form_that_alone_fits_is_proposed_and_ingests(
    values: list[str], kind: str, form: str, format: str, tmp_path: Path
) -> None:
    world = World(tmp_path)
    if format == "csv":
        text = "id,at\n" + "".join(f"{n},{value}\n" for n, value in enumerate([*values, ""]))
    else:
        rows = [{"id": n, "at": value} for n, value in enumerate([*values, None])]
        text = "".join(json.dumps(row) + "\n" for row in rows)
    world.put(f"in/x.{format}", text)

    found = infer(world.settings, "new", "in/")

    types = {c["name"]: c["type"] for c in found.declaration["columns"]}
    assert types["at"] == kind
    setting = "dates" if kind == "date" else "timestamps"
    assert found.declaration["source"][setting] == {"at": form}
    assert found.why[0].setting == f"source.{setting}"
    assert found.notes == ()
    Machine(world.stores).create(parse_spec(found.declaration))


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (["01/02/2024", "03/04/2024"], "dd/MM/yyyy or MM/dd/yyyy"),
        (["1/2/2024"], "d/M/yyyy or M/d/yyyy"),
        (["01/02/2024 10:00"], "dd/MM/yyyy HH:mm or MM/dd/yyyy HH:mm"),
        (["May 1 2024"], "MMM d yyyy or MMMM d yyyy"),
    ],
)
def test_what_no_value_decides_stays_text_and_is_named(
    values: list[str], named: str, tmp_path: Path
) -> None:
    world = World(tmp_path)
    world.put("in/x.csv", "id,at\n" + "".join(f"{n},{v}\n" for n, v in enumerate(values)))
    found = infer(world.settings, "new", "in/")
    assert {c["name"]: c["type"] for c in found.declaration["columns"]}["at"] == "string"
    assert found.declaration["source"].keys().isdisjoint({"dates", "timestamps"})
    [note] = found.notes
    assert f"at: {named}, no value decides" in note


@pytest.mark.parametrize(
    "values", [["31/12/2024", "x"], ["31/12/2024", "12/31/2024"], ["a1"], [""]]
)
def test_other_texts_have_no_form(values: list[str], tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("in/x.csv", "id,at\n" + "".join(f"{n},{v}\n" for n, v in enumerate(values)))
    found = infer(world.settings, "new", "in/")
    assert {c["name"]: c["type"] for c in found.declaration["columns"]}["at"] == "string"
    assert found.notes == ()
