"""A set, a bloom filter or a shape that is not true of all rows puts its column into quarantine."""

from typing import Any

import pyarrow as pa
import pytest

from strata.audit.members import find_member_lies
from strata.format.columns import updates_schema
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.stats.bloom import bloom_hashes, filter_of
from strata.stats.wire import BITS, BLOOM, SET, SHAPE, bloom_name, set_name, shape_name

RELATION = Relation(0, (Column(1, "code", parse_type("string")),), (1,), ())
UPDATES = pa.table({"1": ["3", "7"], "t": [1, 1], "d": [1, 1]}, updates_schema(RELATION))
WITH_BITS = pa.struct([*BLOOM, (BITS, pa.binary())])
NAMES = {"set": set_name("s.1"), "bloom": bloom_name("s.1"), "shape": shape_name("s.1")}


def claimed(what: str, values: list[str]) -> pa.RecordBatch:
    """Return what the statistics of a part with these values say of them."""
    stored = pa.array([value.encode() for value in values], pa.binary())
    bits = filter_of(bloom_hashes(stored), 16)
    ends = [float(min(values)), float(max(values))]
    claims: dict[str, tuple[dict[str, Any], pa.DataType]] = {
        "set": ({"form": "text", "values": stored.to_pylist()}, SET),
        "bloom": ({"form": "text", "key": "key", BITS: bits}, WITH_BITS),
        "shape": ({"low": ends[0], "high": ends[1], "whole": True, "patterns": ""}, SHAPE),
    }
    claim, kind = claims[what]
    return pa.RecordBatch.from_arrays([pa.array([claim], kind)], [NAMES[what]])


@pytest.mark.parametrize("what", NAMES)
def test_what_lacks_a_value_of_the_rows_is_a_lie_about_its_column(what: str) -> None:
    [lie] = find_member_lies(claimed(what, ["3", "5"]), UPDATES, RELATION)

    assert (lie.column_id, lie.column, lie.field) == (1, "code", what)
    assert find_member_lies(claimed(what, ["3", "7", "9"]), UPDATES, RELATION) == []
