"""Reads at their edges: the first moment that changes begin at, and the part that is read alone."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from strata.errors import InvalidRequest
from strata.format.manifest import PartRef
from strata.model.time import MIN_TIME
from strata.read.as_of import until
from strata.read.changes import planned_stretch
from strata.read.merged import LEAST_BYTES, LEAST_ROWS, _is_alone
from strata.updates.slices import Slice
from tests.support.garbage import World


@pytest.mark.parametrize(
    ("lower", "upper", "known"),
    [
        (6, 20, True),
        (5, 20, False),  # its rows may have moved to there
        (4, 20, False),
        (6, 21, False),  # not complete yet
        (6, 6, True),
        (3, 3, True),  # of no time at all: nothing can have moved
        (7, 6, False),
        (MIN_TIME, 6, True),  # from the beginning on: where they moved to lies within
        (MIN_TIME, 5, False),
    ],
)
def test_changes_begin_behind_what_compaction_may_have_moved(
    lower: int, upper: int, known: bool
) -> None:
    world = World()
    state = replace(world.state, since=5, upper=20)
    if known:
        assert planned_stretch(world.stores, state, lower, upper, None)[0].parts == ()
    else:
        with pytest.raises(InvalidRequest):
            planned_stretch(world.stores, state, lower, upper, None)


LARGE = {"key_low": b"d", "key_high": b"g", "t_low": 5, "t_high": 5}
LARGE |= {"rows": LEAST_ROWS, "size_bytes": LEAST_BYTES}


@pytest.mark.parametrize(
    ("change", "within", "alone"),
    [
        ({}, Slice(), True),
        ({}, Slice(b"d", b"h"), True),  # the slice begins and ends just where the part does
        ({}, Slice(b"d\0", None), False),
        ({}, Slice(b"e", b"h"), False),
        ({}, Slice(b"d", b"g\xff"), False),
        ({}, Slice(b"", b"h"), True),
        ({"key_high": None}, Slice(), True),
        ({"key_high": None}, Slice(b"", b"z"), False),  # nobody knows where it ends
        ({"rows": LEAST_ROWS - 1}, Slice(), True),  # large enough by its bytes
        ({"size_bytes": LEAST_BYTES - 1}, Slice(), True),
        ({"rows": LEAST_ROWS - 1, "size_bytes": LEAST_BYTES - 1}, Slice(), False),
        ({"t_high": 6}, Slice(), False),  # a row may be there at two times
    ],
)
def test_a_part_that_is_read_alone_lies_in_the_slice_and_is_worth_it(
    change: dict[str, Any], within: Slice, alone: bool
) -> None:
    ref = cast(PartRef, SimpleNamespace(**{**LARGE, **change}))

    assert _is_alone(ref, within) == alone


@pytest.mark.parametrize("t_high", [None, 3])
def test_only_rows_of_later_times_are_left_out(t_high: int | None) -> None:
    rows = pa.table({"t": pa.array([1, 2, 3], pa.int64())})

    assert [until(rows, at, t_high).num_rows for at in (0, 1, 2, 3, 4)] == [0, 1, 2, 3, 3]
    assert until(rows.slice(3), 1, t_high).num_rows == 0
