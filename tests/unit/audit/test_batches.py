"""What a manifest adds up to does not depend on how many parts are looked at at a time."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.audit.batches import _stored, _Sums, _times
from strata.audit.compare import Finding
from strata.format.manifest import PartRef, manifest_table
from strata.model.time import MIN_TIME
from strata.parts.part_facts import KEY_BYTES
from strata.state.state import Batch
from strata.store.memory import MemoryBlob
from tests.support.sizes import tries
from tests.twins.added_up import out_of_order, outside, sums_of

PART = PartRef("k", 9, 9, 0, "both", 0, (1,), 0, 0, 3, 2**63 + 7, False, b"", None)
BATCH = SimpleNamespace(
    parts=3,
    updates=27,
    size_bytes=27,
    diffs_sum=9,
    digest=3 * (2**63 + 7) % 2**64,
    retractions=False,
    layouts=(("both", 3),),
    stats_parts=0,
    versions=(0,),
    runs=(SimpleNamespace(parts=2), SimpleNamespace(parts=1)),
)
LONG = b"b" * KEY_BYTES  # may have been rounded up
KEYS = st.sampled_from([b"", b"a", b"b", b"ba", LONG[1:], LONG, b"c"])
TIMES = st.integers(0, 9) | st.sampled_from([MIN_TIME, 2**63 - 1])


@st.composite
def parts(draw: st.DrawFn) -> list[PartRef]:
    """Draw the parts of up to two runs, in order or not, with odd facts."""
    run = st.sampled_from([0, 0, 0, 1])
    bounds = draw(st.lists(st.tuples(KEYS, KEYS | st.none(), run), max_size=6))
    if draw(st.booleans()):
        bounds.sort(key=lambda b: b[2:])
    return [
        replace(
            PART,
            key=str(n),
            key_low=low,
            key_high=high,
            run=run,
            retractions=draw(st.booleans()),
            order=draw(st.sampled_from([(1,)] * 6 + [(), (2, 1)])),
            layout=draw(st.sampled_from(["both", "row"])),
            relation_version=draw(st.integers(0, 1)),
            stats_version=draw(st.none() | st.just(1)),
            rows=draw(st.sampled_from([0, 9, 2**63 - 1])),
            diffs_sum=draw(st.sampled_from([-(2**63), 3, 2**63 - 1])),
            digest=draw(st.integers(0, 2**64 - 1)),
            t_low=draw(TIMES),
            t_high=draw(TIMES),
        )
        for n, (low, high, run) in enumerate(bounds)
    ]


def added(refs: list[PartRef], at_once: int) -> tuple[_Sums, list[Finding]]:
    sums = _Sums()
    pieces = [refs[i : i + at_once] for i in range(0, len(refs), at_once)]
    return sums, [f for piece in pieces for f in sums.add(manifest_table(piece))]


def found(refs: list[PartRef], at_once: int) -> list[str]:
    sums, told = added(refs, at_once)
    return [f.statement for f in (*told, *sums.findings(BATCH))]  # type: ignore[arg-type]


@settings(max_examples=tries(30, 3000), deadline=None)
@given(parts(), st.integers(1, 6))
def test_columns_add_up_to_what_their_parts_do(refs: list[PartRef], at_once: int) -> None:
    sums, told = added(refs, at_once)
    numbers = {
        **sums.numbers,
        "layouts": sums.layouts,
        "runs": sums.runs,
        "versions": sums.versions,
        "retractions": sums.retractions,
    }
    expected = sums_of(refs)

    assert {name: numbers.get(name, 0) for name in expected} == expected
    assert [f.suspect for f in told] == list(out_of_order(refs))
    assert all(f.what == "runs" for f in told)


@given(parts(), TIMES, TIMES)
def test_times_outside_a_batch_are_named(refs: list[PartRef], lower: int, upper: int) -> None:
    batch = Batch(lower, upper, since=min(lower, 8))

    told = [f.suspect for f in _times(batch, manifest_table(refs))]

    assert told == list(outside(refs, lower, max(upper, batch.since + 1)))


@given(parts(), st.integers(1, 6))
def test_findings_are_the_same_a_few_parts_at_a_time(refs: list[PartRef], at_once: int) -> None:
    assert found(refs, at_once) == found(refs, 99)


def test_pages_of_different_statistics_are_read_together() -> None:
    refs = [replace(PART, key=str(n), key_low=bytes([n])) for n in (1, 0)]
    known, unknown = (manifest_table([ref]) for ref in refs)
    known = known.append_column("s.1", pa.array([{"nulls": 0}]))
    sums = _Sums()

    assert [f.suspect for table in (known, unknown) for f in sums.add(table)] == ["0"]


def test_what_the_state_says_of_its_parts_is_compared() -> None:
    refs = [replace(PART, key=str(n), key_low=bytes([n]), run=n // 2) for n in range(3)]
    assert found(refs, 2) == []
    assert any("comes before" in one for one in found([refs[1], refs[0], refs[2]], 1))
    wrong = [*refs[:2], replace(refs[2], rows=1, digest=0, size_bytes=1, diffs_sum=0)]
    assert [one.split()[3] for one in found(wrong, 2)] == [
        "updates",
        "size_bytes",
        "diffs_sum",
        "digest",
    ]


def test_a_part_that_no_listing_has_yet_is_asked_for() -> None:
    blob = MemoryBlob()
    blob.set("late", b"x")
    stores = SimpleNamespace(blob=blob)
    listed = np.array([True, False, False])
    told = list(_stored(stores, ["listed", "late", "gone"], listed))  # type: ignore[arg-type]
    assert [one.suspect for one in told] == ["gone"]
