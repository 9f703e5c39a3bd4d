"""INT96 times are read to the microsecond, whichever year they are in, or refused."""

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import InvalidRequest, Unavailable
from strata.ingest.land.files import SourceFile
from strata.ingest.readers.formats import parquet as module
from strata.ingest.readers.formats.parquet import read_parquet
from strata.ingest.readers.int96 import with_far_times

at = dt.datetime.fromisoformat
FIRST, LAST, EPOCH = at("0001-01-01"), at("9999-12-31T23:59:59.999999"), at("1970-01-01")
MICROSECOND = dt.timedelta(microseconds=1)


def put(folder: Path, *columns: pa.Array, groups: int = 3) -> SourceFile:
    path = folder / "x.parquet"
    table = pa.table({"n": range(len(columns[0])), **dict(zip("ab", columns, strict=False))})
    pq.write_table(table, path, row_group_size=groups, use_deprecated_int96_timestamps=True)
    return SourceFile(str(path), "x.parquet", path.stat().st_size)


@pytest.mark.parametrize("whole_bytes", [module.WHOLE_BYTES, 1])
def test_times_of_all_years_are_read(
    whole_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WHOLE_BYTES", whole_bytes)
    times = [FIRST, None, LAST, EPOCH, at("1677-01-01"), at("2262-04-12T01:02:03")]
    far, near = pa.array(times, pa.timestamp("us")), pa.array([EPOCH] * 6, pa.timestamp("us"))

    raws = list(read_parquet(put(tmp_path, far, near), ["n", "a", "b"]))

    assert (len(raws) == 1) == (whole_bytes > 1)
    assert [v for raw in raws for v in raw.columns["a"].to_pylist()] == times
    assert [v for raw in raws for v in raw.columns["b"].to_pylist()] == [EPOCH] * 6


INSIDE = {
    "list": (pa.list_(pa.timestamp("us")), lambda t: [t, EPOCH]),
    "large_list": (pa.large_list(pa.timestamp("us")), lambda t: [t, EPOCH]),
    "fixed": (pa.list_(pa.timestamp("us"), 2), lambda t: [t, EPOCH]),
    "struct": (
        pa.struct([("s", pa.string()), ("at", pa.timestamp("us"))]),
        lambda t: {"s": "é", "at": t},
    ),
    "map": (pa.map_(pa.string(), pa.timestamp("us")), lambda t: [("k", t), ("l", EPOCH)]),
    "deep": (
        pa.list_(pa.struct([("at", pa.list_(pa.timestamp("us"))), ("n", pa.int32())])),
        lambda t: [{"at": [t], "n": 1}, None, {"at": None, "n": None}, {"at": [], "n": 2}],
    ),
}


@pytest.mark.parametrize("whole_bytes", [module.WHOLE_BYTES, 1])
@pytest.mark.parametrize("name", INSIDE)
def test_times_inside_columns_are_read(
    name: str, whole_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WHOLE_BYTES", whole_bytes)
    kind, make = INSIDE[name]
    times = [FIRST, None, LAST, EPOCH, at("1677-01-01"), at("2262-04-12T01:02:03")]
    values = [None, *(make(t) for t in times), *([] if name in ("fixed", "struct") else [[]])]
    column = pa.array(values, kind)

    raws = list(read_parquet(put(tmp_path, column), ["n", "a"]))

    assert [v for raw in raws for v in raw.columns["a"].to_pylist()] == column.to_pylist()


def test_a_slice_of_nested_times_is_joined_like_the_whole() -> None:
    kind, make = INSIDE["deep"]
    values = pa.array([make(LAST), None, make(FIRST), [], make(EPOCH)], kind)
    unit = {n: kind_of(kind, n) for n in ("ns", "ms")}
    exact, coarse = (
        pa.table({"a": values.cast(unit[n], safe=False).slice(1, 3)}) for n in ("ns", "ms")
    )
    wrapped = with_far_times("x", pa.table({"a": exact["a"]}), coarse, ["a"])

    assert wrapped["a"].to_pylist() == values.slice(1, 3).to_pylist()


def kind_of(kind: pa.DataType, unit: str) -> pa.DataType:
    """Return a type with another unit of its times."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp(unit)
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(kind_of(f.type, unit)) for f in kind])
    return pa.list_(kind_of(kind.value_type, unit)) if pa.types.is_list(kind) else kind


def test_finer_times_are_left_to_the_cast_unless_others_overflow(tmp_path: Path) -> None:
    fine = pa.array([1, 2_000, None], pa.timestamp("ns"))
    [raw] = read_parquet(put(tmp_path, fine), ["n", "a"])
    assert raw.columns["a"].type == pa.timestamp("ns")
    assert raw.columns["a"].cast(pa.int64()).to_pylist() == [1, 2_000, None]

    exact = pa.table({"a": pa.array([1, 0], pa.timestamp("ns"))})
    coarse = pa.table({"a": pa.array([0, 2**40 * 10], pa.timestamp("ms"))})
    with pytest.raises(InvalidRequest, match="too far from now") as refused:
        with_far_times("x.parquet", exact, coarse, ["a"])
    assert refused.value.details["column"] == "a"
    with pytest.raises(Unavailable, match="changed while it was read"):
        with_far_times("x.parquet", exact, coarse.slice(1), ["a"])


@given(st.lists(st.datetimes(FIRST, LAST) | st.none(), min_size=1, max_size=9))
def test_both_readings_together_say_the_microsecond(times: list[dt.datetime | None]) -> None:
    """The twin counts in Python, whose whole numbers do not overflow."""
    micros = [None if t is None else (t - EPOCH) // MICROSECOND for t in times]
    nanos = [None if u is None else (u * 1000 + 2**63) % 2**64 - 2**63 for u in micros]
    millis = [None if u is None else u // 1000 for u in micros]
    exact = pa.table({"a": pa.array(nanos, pa.int64()).view(pa.timestamp("ns"))})
    coarse = pa.table({"a": pa.array(millis, pa.int64()).view(pa.timestamp("ms"))})

    found = with_far_times("x.parquet", exact, coarse, ["a"])

    assert found["a"].to_pylist() == times


def test_days_that_no_microsecond_reaches_stay_out_of_reach() -> None:
    """INT96 holds millions of years; a wrapped one would be a time of ours."""
    far = np.int64(2**31) * 86_400_000
    nanos = (int(far) * 10**6 + 2**63) % 2**64 - 2**63
    exact = pa.table({"a": pa.array([nanos], pa.int64()).view(pa.timestamp("ns"))})
    coarse = pa.table({"a": pa.array([far], pa.int64()).view(pa.timestamp("ms"))})

    found = with_far_times("x.parquet", exact, coarse, ["a"])["a"].cast(pa.int64())[0].as_py()

    assert found > (LAST - EPOCH) // MICROSECOND
