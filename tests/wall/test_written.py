"""Hostile texts of dates in a declared form are stored as they mean, or rejected with the form.

The oracle is the twin. Each source has the same texts; rows are read twice and compared.
"""

import csv
import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.errors import Corrupt, InvalidRequest
from strata.ingest import verify
from strata.ingest.twin import Unreadable, from_form
from strata.model.types import ColumnType, parse_type
from tests.support.sizes import tries
from tests.wall.rows import File, outcome
from tests.wall.world import World

VALUES = tries(120, 3000)
FORMS = {
    "date": ["dd/MM/yyyy", "d.M.yyyy", "MMM d, yyyy", "MM-dd-yy from 1950", "yyyyMMdd"],
    "timestamp": ["dd/MM/yyyy HH:mm:ss", "d MMMM yyyy h:mm a", "yyyy/MM/dd'T'HH:mm:ss.SSSSSS"],
    "timestamptz": ["dd.MM.yyyy HH:mmXXX", "dd.MM.yyyy"],
}
PIECES = [
    "31", "30", "29", "02", "2", "12", "1", "00", "0", "13", "2024", "1999", "50", "49", "Feb",
    "june", "SEPTEMBER", "/", ".", "-", ",", " ", ":", "T", "Z", "+02:00", "am", "PM", "é", "٣",
    "\u2003", "''",
]  # fmt: skip
GOOD = {
    "dd/MM/yyyy": "{d:02}/{m:02}/{y}", "d.M.yyyy": "{d}.{m}.{y}", "MMM d, yyyy": "Feb {d}, {y}",
    "MM-dd-yy from 1950": "{m:02}-{d:02}-{s:02}", "yyyyMMdd": "{y}{m:02}{d:02}",
    "dd/MM/yyyy HH:mm:ss": "{d:02}/{m:02}/{y} {h:02}:{s:02}:00",
    "d MMMM yyyy h:mm a": "{d} September {y} {h}:{m:02} pm",
    "yyyy/MM/dd'T'HH:mm:ss.SSSSSS": "{y}/{m:02}/{d:02}T{h:02}:00:59.{s}",
    "dd.MM.yyyy HH:mmXXX": "{d:02}.{m:02}.{y} {h:02}:{m:02}-03:30",
    "dd.MM.yyyy": "{d:02}.{m:02}.{y}",
}  # fmt: skip


def texts(form: str, count: int) -> list[str]:
    """Return texts, most of them nearly of the form, each once."""
    draw = Random(form)
    found = []
    for _ in range(count):
        parts = {"d": draw.randint(1, 31), "m": draw.randint(1, 12), "y": draw.randint(1990, 2030)}
        text = GOOD[form].format(**parts, h=draw.randint(0, 24), s=draw.randint(0, 99))
        for _ in range(draw.choice([0, 0, 1, 1, 4])):
            at = draw.randint(0, len(text))
            text = text[:at] + draw.choice(PIECES) + text[at + draw.randint(0, 2) :]
        found.append(text)
    return list(dict.fromkeys(found))


def as_csv(values: list[str]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([["id", "v"], *enumerate(values)])
    return out.getvalue().encode()


def as_lines(values: list[str]) -> bytes:
    return b"".join(json.dumps({"id": n, "v": v}).encode() + b"\n" for n, v in enumerate(values))


def as_array(values: list[str]) -> bytes:
    return json.dumps([{"id": n, "v": v} for n, v in enumerate(values)]).encode()


def as_parquet(values: list[str]) -> bytes:
    sink = io.BytesIO()
    ids = pa.array(range(len(values)), pa.int64())
    pq.write_table(pa.table({"id": ids, "v": pa.array(values).dictionary_encode()}), sink)
    return sink.getvalue()


WAYS: dict[str, tuple[dict[str, Any], Callable[[list[str]], bytes]]] = {
    "csv": ({"format": "csv"}, as_csv),
    "jsonl": ({"format": "jsonl"}, as_lines),
    "upsert": ({"format": "jsonl", "envelope": "upsert"}, as_lines),
    "json": ({"format": "json"}, as_array),
    "parquet": ({"format": "parquet"}, as_parquet),
}


def world_of(root: Path, kind: str, form: str, **source: Any) -> World:
    setting = "dates" if kind == "date" else "timestamps"
    return World(root, parse_type(kind), {**source, setting: {"v": form}, "verify": "always"})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", FORMS)
def test_a_text_is_stored_as_its_form_says_or_rejected(kind: str, way: str, tmp_path: Path) -> None:
    source, write = WAYS[way]
    for form in FORMS[kind]:
        values = texts(form, VALUES)
        world = world_of(tmp_path, kind, form, **source)
        world.ingest([File(f"in/x.{source['format']}", write(values))])
        column_type = parse_type(kind)
        meant = {n: outcome(partial(from_form, v, form, column_type)) for n, v in enumerate(values)}
        good = {n: value for n, value in meant.items() if not isinstance(value, Unreadable)}
        assert len(values) / 8 < len(good) < len(values)
        assert {n: value for n, value, _ in world.rows()} == good
        rejected = world.rejected()
        assert {row["value"] for row in rejected} == {values[n] for n in meant.keys() - good.keys()}
        for row in rejected:
            assert row["column_name"] == "v"
            assert row["reason"] == f"not readable as {kind}, written {form}"


def test_what_is_no_text_needs_no_form(tmp_path: Path) -> None:
    world = world_of(tmp_path, "date", "dd/MM/yyyy", format="parquet")
    sink = io.BytesIO()
    days = pa.array([19_000, None], pa.int32()).view(pa.date32())
    pq.write_table(pa.table({"id": pa.array([0, 1], pa.int64()), "v": days}), sink)
    world.ingest([File("in/x.parquet", sink.getvalue())])
    assert [str(value) for _, value, _ in sorted(world.rows())] == ["2022-01-08", "None"]


def test_a_value_that_a_schema_made_a_text_has_no_form(tmp_path: Path) -> None:
    """In `yyyy-dd-MM` the text of day 19,000 would be another day."""
    world = world_of(tmp_path, "date", "yyyy-dd-MM", format="jsonl", envelope="upsert")
    field = {"field": "v", "type": "int32", "name": "org.apache.kafka.connect.data.Date"}
    texted = {"field": "v", "type": "string"}
    lines = []
    for n, value, schema in ((0, 19_000, field), (1, "2022-08-01", texted)):
        row = {"schema": {"fields": [schema]}, "payload": {"v": value}}
        lines.append(json.dumps({"key": {"id": n}, "value": row}).encode())
    world.ingest([File("in/x.jsonl", b"\n".join(lines))])
    assert [str(value) for _, value, _ in sorted(world.rows())] == ["2022-01-08", "2022-01-08"]
    assert world.rejected() == []


def test_a_file_in_which_no_text_has_the_form_is_refused(tmp_path: Path) -> None:
    world = world_of(tmp_path, "date", "dd/MM/yyyy", format="csv")
    with pytest.raises(InvalidRequest, match="every row of the file is unreadable") as error:
        world.ingest([File("in/x.csv", as_csv(["2024-01-31", "2024-02-28"]))])
    assert "written dd/MM/yyyy" in str(error.value.details)


def test_a_twin_that_read_otherwise_would_be_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are read a second time by the form too: another reading ends the run."""

    def swapped(text: str, form: str, column_type: ColumnType) -> Any:
        return from_form(text, "MM/dd/yyyy", column_type)

    monkeypatch.setattr(verify.twin, "from_form", swapped)
    world = world_of(tmp_path, "date", "dd/MM/yyyy", format="csv")
    with pytest.raises(Corrupt, match="would have been stored as another one"):
        world.ingest([File("in/x.csv", as_csv(["01/02/2024"]))])
