"""A manifest in pages says what the same one in one blob says, near and far, however it is cut."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from strata.decide.descent import load_manifest
from strata.decide.explain import explain_filter
from strata.decide.plan import plan_read
from strata.decide.read_plan import ReadPlan
from strata.decide.skips import decide_all
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.format.manifest import part_refs
from strata.machine.named import named_by
from strata.parts.manifests import StoredManifest
from strata.parts.pages import leaves_of
from strata.state.state import State
from strata.store.open import Stores
from tests.support.paged import Invented, cut, shard_of
from tests.support.sizes import tries
from tests.support.stored import memory_stores

PARTS = st.builds(
    lambda low, width, t, run, known, spread: Invented(low, low + width, t, run, known, spread),
    st.integers(0, 60),
    st.integers(0, 5),
    st.integers(0, 9),
    st.integers(0, 1),
    st.sampled_from([True] * 9 + [False]),
    st.integers(0, 2),
)
BATCHES = st.lists(
    st.lists(PARTS, min_size=1, max_size=25).flatmap(
        lambda parts: st.sampled_from([parts, sorted(parts, key=lambda p: (p.run, p.low))])
    ),
    min_size=1,
    max_size=4,
)
SIZES = st.tuples(st.integers(1, 6), st.integers(2, 4))
FILTERS = st.builds(
    lambda name, value: Filter(
        Call(name, (Column(1, "n", "long"), Literal(value, "long")), "boolean"), "a filter", 0, 0
    ),
    st.sampled_from(["less_than", "greater_than", "equal_to"]),
    st.integers(-2, 66),
)


def both(batches: list[list[Invented]], sizes: tuple[int, int]) -> list[tuple[Stores, State]]:
    """Return the shard with manifests in one blob each, and the same one in pages."""
    plain, paged = memory_stores(), memory_stores()
    # The times of a batch begin where it begins
    moved = [[replace(p, t=p.t + 10 * n) for p in parts] for n, parts in enumerate(batches)]
    with cut(1, paged_parts=10_000):
        found = [(plain, shard_of(plain, *moved))]
    with cut(*sizes):
        return [*found, (paged, shard_of(paged, *moved))]


def far(stores: Stores) -> Stores:
    """Return the same stores as if their blobs were remote, so that manifests are opened ahead."""
    return replace(stores, settings=replace(stores.settings, blob="s3://bucket/far"))


def figures(plan: ReadPlan) -> dict[str, object]:
    return {
        "fetched": plan.fetched,
        "runs": [(r.lower, r.run, len(r.parts)) for r in plan.runs],
        "skipped": sorted(ref.key for ref in plan.skipped),
        "audited": plan.audited,
        "parts": (plan.parts_fetched, plan.parts_skipped),
        "bytes": (plan.bytes_fetched, plan.bytes_skipped, plan.bytes_audited),
        "unknown": plan.without_stats,
        "monotonic": plan.monotonic,
        "proofs": plan.proofs,
        "groups": (plan.groups, plan.groups_fetched),
    }


@settings(max_examples=tries(6, 400), deadline=None)
@given(BATCHES, SIZES, FILTERS, st.integers(0, 39), st.integers(0, 99), st.booleans())
def test_a_read_decides_alike(
    batches: list[list[Invented]],
    sizes: tuple[int, int],
    filter: Filter,
    at: int,
    suspect: int,
    distrusts: bool,
) -> None:
    found = []
    worlds = both(batches, sizes)
    for stores, plain in (*worlds, *((far(stores), state) for stores, state in worlds)):
        state, as_of = plain, min(at, plain.upper - 1)
        if distrusts:
            keys = [ref.key for ref in plan_read(stores, plain).fetched]
            quarantine = (keys[suspect % len(keys)],)
            state = replace(plain, rollout=replace(plain.rollout, quarantine=quarantine))
        plans = [
            plan_read(stores, state, as_of=as_of, filter=asked, mode=mode)
            for asked in (None, filter)
            for mode in ("on", "audit")
        ]
        softly = decide_all(stores, state, filter)
        told = explain_filter(stores, state, filter, as_of)
        found.append(
            (
                [figures(plan) for plan in plans],
                [(s.ref, s.stats) for s in softly.skipped],
                softly.parts_total,
                softly.bytes_total,
                softly.parts_without_stats,
                softly.skipped.size_bytes,
                [(p.ref, p.reason.keep) for p in told.parts],
            )
        )

    assert found[1:] == found[:1] * 3


@settings(max_examples=tries(6, 250), deadline=None)
@given(BATCHES, SIZES)
def test_it_lists_the_same_parts_and_counts_them(
    batches: list[list[Invented]], sizes: tuple[int, int]
) -> None:
    (plain, one), (paged, two) = both(batches, sizes)

    for a, b in zip(one.batches, two.batches, strict=True):
        whole, table = load_manifest(plain, one, a), load_manifest(paged, two, b)
        assert part_refs(table) == part_refs(whole)
        assert replace(a, manifest=None) == replace(b, manifest=None)
        manifest = StoredManifest(paged.blob, "shard", b)
        assert manifest.in_pages == (b.parts > sizes[0])
        if not manifest.in_pages:
            continue
        rows = leaves_of(manifest)
        assert rows["parts"].to_pylist()[:-1] == [sizes[0]] * (rows.num_rows - 1)
        root = manifest.root().table
        assert root.num_rows <= sizes[1]
        assert sum(root["rows"].to_pylist()) == b.updates
        blobs = [key for key in named_by(paged.blob, two, {}, set()) if "/pages/" in key]
        assert set(blobs) == {i.key for i in paged.blob.list("") if "/pages/" in i.key}
        size = sum(len(paged.blob.get(key) or b"") for key in {*manifest.names()} - {b.manifest})
        assert size <= sum(root["stored_bytes"].to_pylist())  # equal pages are stored once


def test_pages_are_passed_by() -> None:
    """Else the law would hold of manifests in which every page is opened."""
    stores = memory_stores()
    with cut(4, 3):
        state = shard_of(stores, [Invented(n, n) for n in range(100)])
    few = Filter(
        Call("equal_to", (Column(1, "n", "long"), Literal(41, "long")), "boolean"), "n = 41", 0, 0
    )

    plan = plan_read(stores, state, filter=few, mode="on")
    told = explain_filter(stores, state, few)

    assert [ref.rows for ref in plan.fetched] == [2]
    assert [some.parts for some in plan.left_out if some.parts > 3] == [36, 4, 4, 24, 28]
    levels = [part.level for part in told.parts]
    assert (levels.count("page"), levels.count("part")) == (96, 4)
