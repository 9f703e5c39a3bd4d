"""Rules of values that decide at an edge, each by itself."""

import gc

import pyarrow as pa
import pytest

from strata.ingest.values.collector import uncollected
from strata.ingest.values.nested_arrow import _child
from strata.ingest.values.no_row import why_no_row


@pytest.mark.parametrize("enabled", [False, True])
def test_the_collector_rests_meanwhile_and_is_then_as_it_was(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with uncollected():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_what_is_no_struct_has_no_field() -> None:
    structs = pa.array([{"a": 1}, None], pa.struct({"a": pa.int64()}))

    assert _child(structs, "a").to_pylist() == [1, None]
    assert _child(structs, "b").null_count == 2
    with pytest.raises(TypeError):
        _child(pa.array([1]), "a")


def test_a_message_about_a_row_is_none_unless_it_has_all_columns() -> None:
    assert why_no_row(["op", "after"], ["op", "other"]) is not None
    assert why_no_row(["op", "after"], ["op"]) is None
    assert why_no_row(["a"], ["a", "b"]) is None
    assert why_no_row(["c"], ["a", "b"]) is not None
    assert why_no_row([], ["a", "b"]) is None
