"""What a declaration means beyond its words."""

from typing import Any

from strata.model.spec import ShardSpec, parse_spec


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
