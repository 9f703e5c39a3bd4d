"""States that were once stored are read for ever: the files in `tests/formats` are never edited.

A new format gets a new folder; a field that joins a format must have a default, and is then
left out of the frozen document, as it is out of those in the world.
"""

from dataclasses import replace
from pathlib import Path

from strata.model.schema import Column, Relation
from strata.model.spec import parse_spec
from strata.model.types import parse_type
from strata.state import spine as spines
from strata.state.codec import decode_document, decode_state
from strata.state.seal import digest_of
from strata.state.state import (
    Batch,
    Commit,
    Hold,
    Merge,
    Rollout,
    RolloutEntry,
    RunSummary,
    Spine,
    SpineBatch,
    State,
)
from tests.support.batches import spec

FILE = Path(__file__).parents[2] / "formats" / "v1" / "state.json"
SEALED = FILE.with_name("state-sealed.json")
TABLES = FILE.parents[1] / "state_v3" / "state.json"

RELATION = Relation(
    0,
    (
        Column(1, "id", parse_type("int64"), nullable=False),
        Column(2, "note", parse_type("string"), default="none"),
        Column(3, "price", parse_type("numeric(10,2)"), default=0),
        Column(4, "at", parse_type("record<lat: float64, tags: list<string>>")),
    ),
    key=(1,),
    order=(2, 1),
)
OLD = Batch(
    -62_135_596_800_000, 1_356_998_400_000, 1_356_000_000_000, 100, 4096, 3,
    (RunSummary(2, 60, 3000, (2, 1)), RunSummary(1, 40, 1096, ())),
    "shards/events/manifests/00ff.arrow", (("both", 2), ("row", 1)), 2, 700, b"\x00union\xff",
    98, 2**64 - 1, True,
)  # fmt: skip
EMPTY = Batch(1_356_998_400_000, 1_357_084_800_000, -62_135_596_800_000)
STATE = State(
    7,
    1_700_000_000_000,
    spec("events", order=["note"], rollout={"mode": "soft", "audit_percent": 5}),
    (RELATION,),
    since=1_356_000_000_000,
    upper=1_357_084_800_000,
    spine=Spine((SpineBatch(0, 1, 7, (OLD,)), SpineBatch(1, 2, 0, (EMPTY,))), 2),
    holds=(Hold("backup", 1_356_500_000_000, None, "opaque"), Hold("r", 1_356_600_000_000, 5)),
    rollout=Rollout("audit", 10, 1_699_000_000_000, "ann", "3000 clean", ("5", "date_trunc")),
    commits=(Commit("token", 2, 0, 1_356_998_400_000, 100, 3, 4096, 1),),
    ledger=("shards/events/ledger/m5_10_00ff.json",),
    verdicts=("shards/events/verdicts/run.parquet",),
)


def test_a_state_of_format_1_is_read() -> None:
    assert decode_state(FILE.read_bytes()) == STATE


def test_a_state_with_digests_is_read() -> None:
    """Of the document, and of the statistics in it; the one above is of before there were any."""
    told = replace(OLD, stats_digest=digest_of(OLD.stats_union))
    slots = (SpineBatch(0, 1, 7, (told,)), *STATE.spine.slots[1:])
    assert decode_state(SEALED.read_bytes()) == replace(
        STATE, spine=replace(STATE.spine, slots=slots)
    )


def two_versions() -> State:
    """Return a state with what only tables and places of columns can get wrong.

    Two versions of a relation that share columns, a declaration of its newest columns, several
    batches in a slot, several runs in a batch, a sort order of many columns, merges, entries.
    """
    names = [f"c{number}" for number in range(20)]
    columns = [{"name": "id", "type": "int64"}, *({"name": n, "type": "date"} for n in names)]
    declared = parse_spec({"name": "events", "columns": columns, "order": ["id", *names]})
    first = replace(declared, columns=declared.columns[:-1], key=("id",), order=()).relation()
    second = replace(declared.relation(), version=1)
    merge = Merge(5, 9, 0, 1_357_084_800_000, 0, "due", 2, 9, 9, 800, 700, 2, 1, seconds=0.25)
    entry = RolloutEntry(5, "declared", "off", "soft", 5, "ann", "first", gates=(1, 2))
    run = RunSummary(1, 7, 700, second.sort_ids)
    key = "shards/events/{}/g1/00ff.arrow"
    later = Batch(EMPTY.upper, EMPTY.upper + 5, 0, 7, 700, 1, (run,), key.format("manifests"))
    later = replace(later, versions=(0, 1), union=key.format("unions"))
    slots = (*STATE.spine.slots[:1], SpineBatch(1, 3, 3, (EMPTY, later)))
    return replace(
        STATE,
        spec=declared,
        relations=(first, second),
        upper=later.upper,
        spine=Spine(slots, 3),
        merges=(merge,),
        rollout=replace(STATE.rollout, entries=(entry,)),
    )


def test_a_state_of_format_3_is_read() -> None:
    assert decode_document(TABLES.read_bytes()) == (two_versions(), 3)


def test_the_frozen_states_are_ones_that_can_occur() -> None:
    for state in (STATE, two_versions()):
        assert spines.problems(state.spine, -62_135_596_800_000, state.upper) == []
