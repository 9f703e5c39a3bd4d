"""A reader written from docs/reference/format.md alone reads frozen files and today's parts."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from strata.format.part import Description, encode_part
from strata.model.spec import LAYOUTS
from tests.formats import every_type, stranger
from tests.formats.logical import type_json

HERE = Path(__file__).parent
SETS = sorted(path.name for path in HERE.glob("v*"))


def expected(folder: str) -> tuple[list[int], dict[int, Any], dict[str, Any]]:
    """Return key, types and values of a set of frozen files."""
    what = json.loads((HERE / folder / "expected.json").read_text())
    return what["key"], {int(i): t for i, t in what["types"].items()}, what["values"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("folder", SETS)
def test_a_stranger_reads_both_halves_of_a_frozen_part(folder: str, layout: str) -> None:
    key, types, values = expected(folder)
    data = (HERE / folder / f"part-{layout}.parquet").read_bytes()

    halves = stranger.read_part(data, key, types)

    wanted = {"row": ["rows"], "structured": ["columns"], "both": ["rows", "columns"]}
    assert list(halves) == wanted[layout]
    for half in halves.values():
        assert half.keys() == values.keys()
        for name, column in values.items():
            assert half[name] == column, types.get(int(name) if name.isdecimal() else 0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_stranger_reads_what_is_written_now(layout: str) -> None:
    relation = every_type.RELATION
    made = encode_part(
        every_type.updates(),
        relation,
        layout,
        description=Description(0, 1000, 0),
        row_group_bytes=1 << 20,
    )
    types = {column.id: type_json(column.type) for column in relation.columns}

    for half in stranger.read_part(made.data, list(relation.key), types).values():
        assert half == every_type.values()


def test_a_stranger_believes_no_bad_columns_and_no_future() -> None:
    folder = HERE / "v1_types"
    key, types, values = expected("v1_types")

    found = stranger.read_part((folder / "damaged-both.parquet").read_bytes(), key, types)
    assert found == {"rows": values}
    for name in ("damaged-structured", "future-both"):
        with pytest.raises(stranger.RefusedError):
            stranger.read_part((folder / f"{name}.parquet").read_bytes(), key, types)


def test_a_stranger_reads_the_frozen_manifest() -> None:
    first, second = stranger.read_manifest((HERE / "v1" / "manifest.arrow").read_bytes())

    assert first["key"] == "frozen/parts/1"
    assert first["splits"] == [{"row": 0, "key": b"\x01"}, {"row": 3, "key": b"\x02"}]
    assert (first["order"], first["key_high"], second["stats_version"]) == ([1, 2], None, None)
    assert (first["s.4"]["high"], second["s.4"]) == (2**40, None)


def test_a_stranger_knows_nothing_of_strata() -> None:
    tree = ast.parse((HERE / "stranger.py").read_text())
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert names <= {
        "pyarrow",
        "io",
        "struct",
        "uuid",
        "collections",
        "datetime",
        "decimal",
        "typing",
    }
