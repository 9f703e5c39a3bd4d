"""What a manifest adds up to does not depend on how many parts are looked at at a time."""

from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from strata.audit.batches import Looked, _again, _stored, _Sums, _told_apart
from strata.format.manifest import PartRef, manifest_table
from strata.store.memory import MemoryBlob

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
KEYS = st.sampled_from([b"a", b"b", b"c"])


@st.composite
def parts(draw: st.DrawFn) -> list[PartRef]:
    bounds = draw(st.lists(st.tuples(KEYS, KEYS | st.none(), st.integers(0, 1)), max_size=6))
    return [
        replace(PART, key=str(n), key_low=low, key_high=high, run=run, retractions=n == 4)
        for n, (low, high, run) in enumerate(sorted(bounds, key=lambda b: b[2]))
    ]


def found(refs: list[PartRef], at_once: int) -> list[str]:
    sums = _Sums()
    told = [f for i in range(0, len(refs), at_once) for f in sums.add(refs[i : i + at_once])]
    return [f.statement for f in (*told, *sums.findings(BATCH))]  # type: ignore[arg-type]


@given(parts(), st.integers(1, 6))
def test_findings_are_the_same_a_few_parts_at_a_time(refs: list[PartRef], at_once: int) -> None:
    assert found(refs, at_once) == found(refs, 99)


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


def test_parts_that_are_gone_or_named_twice_are_told() -> None:
    blob = MemoryBlob()
    blob.set("late", b"x")  # there, though no listing has it yet
    stores = SimpleNamespace(blob=blob)
    keys = pa.chunked_array([["listed", "late", "gone"]])
    told = list(_stored(stores, keys, pa.array(["listed"])))  # type: ignore[arg-type]
    assert [one.suspect for one in told] == ["gone"]

    refs = [replace(PART, key=key) for key in ("a", "b", "c")]
    manifests = [manifest_table(some)["key"] for some in (refs[:2], refs[1:])]
    once, twice = (
        [
            f.suspect
            for one in _told_apart([Looked(BATCH, None, names, ()) for names in some])  # type: ignore[arg-type]
            for f in one.findings
        ]
        for some in (manifests[:1], manifests)
    )
    assert (once, twice) == ([], ["b", "b"])


def test_two_runs_may_name_one_part_and_one_run_may_not() -> None:
    names, runs = pa.chunked_array([["a", "b"], ["a", "b"]]), [0, 0, 1, 0]

    again = _again(names, pa.chunked_array([pa.array(runs, pa.int32())]))
    (told,) = _told_apart([Looked(BATCH, None, names, (), again=again)])  # type: ignore[arg-type]

    assert [(one.suspect, one.statement) for one in told.findings] == [("b", "b is named 2 times")]
