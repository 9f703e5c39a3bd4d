"""The types that are proposed for columns of Arrow: one for each way to hold the same values."""

import pyarrow as pa
import pytest

from strata.ingest.readers.guess import guess_arrow


@pytest.mark.parametrize(
    ("kinds", "proposed"),
    [
        ((pa.string(), pa.large_string(), pa.string_view()), "string"),
        ((pa.binary(), pa.large_binary(), pa.binary_view()), "bytes"),
        ((pa.list_(pa.string_view()), pa.large_list(pa.string())), "list<string>"),
        ((pa.timestamp("us"), pa.timestamp("ns")), "timestamp"),
        ((pa.struct({"a": pa.int64()}), None), "jsonb"),
    ],
)
def test_ways_to_hold_the_same_values(kinds: tuple[pa.DataType | None, ...], proposed: str) -> None:
    assert {guess_arrow(kind) for kind in kinds} == {proposed}
