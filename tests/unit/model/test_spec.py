"""What a declaration means beyond its words."""

from dataclasses import fields
from typing import Any

from strata.model.spec import UNWRITTEN, ShardSpec, SourceSpec, parse_spec


def test_row_groups_of_wide_rows_have_room_for_each_column() -> None:
    def made(count: int, kind: str = "int64", **more: Any) -> ShardSpec:
        columns = [{"name": f"c{n}", "type": kind} for n in range(count)]
        return parse_spec({"name": "s", "columns": columns, "key": ["c0"], **more})

    assert made(32, row_group_bytes=1024).group_bytes == 1024
    assert made(200, row_group_bytes=1024).group_bytes == 168 * 4096
    assert made(200, row_group_bytes=1024, part_bytes=65_536).group_bytes == 65_536
    assert made(200).group_bytes == 8 << 20
    nested = "record<a: int64, b: map<list<string>>>"
    assert made(200, nested, row_group_bytes=1024).group_bytes == (600 - 32) * 4096


def test_settings_that_older_programs_do_not_know_stay_unwritten_while_nobody_sets_them() -> None:
    """A setting without the mark would be in each document, which older programs then refuse."""
    marked = {one.name for one in fields(SourceSpec) if one.metadata.get(UNWRITTEN)}
    written = {"encoding", "decimal", "thousands", "header", "escape", "skip_blanks"}
    assert marked == {"names", "in_place"} | written
