"""What is erased is in no byte that is stored; everything else is as it was, at every time."""

import gzip
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import count, repeat
from pathlib import Path
from typing import Any

import orjson
import pytest

from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.erase import ErasureRequest, as_text, certificates
from strata.erase.certificate import known_certificate
from strata.erase.remove import known_suppressed, parts_of
from strata.errors import Corrupt, Fenced, InvalidRequest, Unavailable
from strata.gc.drop import drop_shard
from strata.gc.leaks import find_leaks
from strata.gc.sweep import collect
from strata.history.metrics import Metrics
from strata.history.operations import note
from strata.ingest.quarantine import rejected
from strata.machine.machine import Machine
from strata.machine.named import named_by
from strata.machine.writer_lease import Lease
from strata.model.settings import MetricsSettings, Settings
from strata.model.spec import parse_spec
from strata.parts.write import WrittenPart, write_batch
from strata.read.scan import scan
from strata.shard import Shard
from strata.state import tombstone
from strata.state.holds import hold, release
from strata.store.keys import quarantine_key, receipt_key, usage_key
from tests.support.erasing import WHO, erased, eraser, places_of
from tests.support.failing_stores import Faults, FaultyBlob, FaultyConsensus, Outcome
from tests.unit.ingest.test_engine import SPEC, World

BOB = "bob@example.org"
READ = {"shards": [{"shard": "s", "rows": 1}]}
TIMES = (9, 10, 15, 19, 25, 30, 39, 45)
COLUMNS = [
    {"name": "id", "type": "int64", "nullable": False},
    {"name": "name", "type": "string"},
    {"name": "n", "type": "int16"},
]


def text_of(day: int, *extra: str) -> str:
    lines = [f"{100 * day + i},person{i % 9}@example.org,{i}" for i in range(60)]
    return "\n".join(["id,name,n", *lines, *extra]) + "\n"


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, columns=COLUMNS, part_bytes=2048, row_group_bytes=1024)
    for day in range(1, 5):
        bobs = [f"{100 * day + 70 + i},{BOB},{i}" for i in range(3)] if day != 3 else []
        bad = [f"7,{BOB},no number"] if day == 2 else []
        file = world.put(f"day{day}.csv", text_of(day, *bobs, *bad))
        world.ingest(file, lower=10 * day, upper=10 * day + 10)
    return world


def at_all_times(world: World, but: str = "") -> dict[int, Counter[Any]]:
    state = world.state
    found = {}
    for as_of in {t for t in TIMES if t < state.upper} | {state.upper - 1}:
        rows: Counter[Any] = Counter()
        plan = plan_read(world.stores, state, as_of=as_of)
        for batch in scan(world.stores, state, plan, consolidate=True):
            for row in batch.to_pylist():
                if row["name"] != but:
                    rows[row["id"], row["name"], row["n"]] += row["d"]
        found[as_of] = rows
    return found


def test_no_byte_that_is_stored_holds_the_rows_and_all_others_stay(world: World) -> None:
    before, whole = at_all_times(world, but=BOB), at_all_times(world)
    assert len(places_of(world.stores, BOB)) > 5

    found = erased(world.stores, "s", "name", BOB)

    assert places_of(world.stores, BOB) == []
    assert at_all_times(world) == before != whole
    assert found["complete"]
    assert found["rows"] == 9
    assert found["rows_about"] == found["rejected_rows"] == 1
    assert [one["matching"] for one in found["proof"]] == [0, 0]
    assert found["proof"][0]["rows"] == 240
    assert world.state.erasing is None
    assert not list(rejected(world.stores, "s"))


def test_nothing_leaks_after_an_erasure_nor_while_one_is_looked_at(world: World) -> None:
    """An erasure beside the look: what it removes is not missing. Nothing waits for a sweep."""
    settings, stores = Settings(), world.stores
    assert find_leaks(stores, settings, ["s"]).clean
    calls, found = count(1), []

    class Beside(FaultyBlob):
        def get(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
            if next(calls) == 2:
                found.append(erased(stores, "s", "name", BOB))
            return super().get(key, start, length)

    beside = replace(stores, blob=Beside(stores.blob, Faults()))
    assert find_leaks(beside, settings, ["s"]).clean
    assert found
    assert find_leaks(stores, settings, ["s", "s.rejected"]).clean


@pytest.mark.parametrize("cut", [0.5, 0.9])
@pytest.mark.parametrize("kind", ["rejected rows", "a receipt"])
def test_what_cannot_be_searched_is_named(world: World, kind: str, cut: float) -> None:
    """It was a traceback of what reads JSON, or of what unpacks."""
    blob = world.stores.blob
    if kind == "a receipt":
        key, data = receipt_key("s", "00ff"), gzip.compress(b'{"filter": "name is null"}' * 90)
    else:
        prefix = quarantine_key("s", "x").removesuffix("x.jsonl")
        listed = (info.key for info in blob.list(prefix))
        [key] = [key for key in listed if not key.rpartition("/")[2].startswith("index-")]
        data = blob.get(key) or b""
        blob.delete(key)
    blob.set(key, data[: int(len(data) * cut)])
    with pytest.raises(Corrupt, match="cannot be searched") as caught:
        erased(world.stores, "s", "name", BOB)
    assert caught.value.details["key"] == key
    assert caught.value.cure


def test_only_parts_that_hold_rows_are_rewritten(world: World) -> None:
    def parts() -> set[str]:
        blob, state = world.stores.blob, world.state
        return {key for key in named_by(blob, state, {}, set()) if "/parts/" in key}

    before = parts()

    found = erased(world.stores, "s", "name", BOB)

    gone = {one["part"] for one in found["rewritten"] if one["shard"] == "s"}
    assert gone == before - parts()
    assert 0 < len(gone) < len(before) / 2


def test_figures_of_batches_are_those_of_what_stays(world: World) -> None:
    erased(world.stores, "s", "name", BOB)

    # A merge compares sums and digests of its inputs and of what it writes.
    report = compact_shard(world.stores, "s", world.settings, full=True)
    assert [one.outcome for one in report.requests] == ["applied"]
    assert sum(batch.updates for batch in world.state.batches) == 240


def test_the_same_file_again_does_not_bring_the_rows_back(world: World) -> None:
    erased(world.stores, "s", "name", BOB)
    before = at_all_times(world)[world.state.upper - 1]

    report = world.ingest(str(world.root / "day2.csv"), again=True)

    assert report["suppressed"] == 4, "three rows, and a rejected one"
    assert report["rejected"] == 0
    assert report["updates"] == 60
    assert places_of(world.stores, BOB) == []
    rows = at_all_times(world)[world.state.upper - 1]
    assert rows.keys() == before.keys()


def test_a_key_with_other_rows_stays_welcome(world: World) -> None:
    world.ingest(world.put("e.csv", "id,name,n\n470,carol@example.org,5\n"), lower=50, upper=60)
    erased(world.stores, "s", "name", BOB)
    known = known_suppressed(world.stores, world.state)
    assert len(known.of("key")) == 8
    assert len(known.of("row")) == 1

    text = f"id,name,n\n470,dave@example.org,6\n470,{BOB},0\n471,dave@example.org,7\n"
    report = world.ingest(world.put("f.csv", text), lower=60, upper=70)

    assert report["suppressed"] == 2, "the erased row of 470, and every row of 471"
    assert report["updates"] == 1


def test_what_sweeps_set_aside_goes_too(world: World) -> None:
    compact_shard(world.stores, "s", world.settings, full=True)
    for key in [k for k in world.blobs() if "/parts/" in k][:3]:
        world.stores.blob.delete(key)
        world.stores.blob.restore(key)
    live = {b.manifest for b in world.state.batches}
    manifests = [k for k in world.blobs() if k.startswith("shards/s/manifests/")]
    dead = next(k for k in manifests if k not in live)
    world.stores.blob.delete(dead)

    erased(world.stores, "s", "name", BOB)

    assert places_of(world.stores, BOB) == []
    assert world.stores.blob.deleted == {}


def test_a_merge_under_way_that_has_read_the_rows_cannot_bring_them_back(world: World) -> None:
    state = world.state
    with Lease(world.machine, "s", "compact"):
        for _ in range(2):  # also when its generation has begun already
            with pytest.raises(Unavailable, match="compact") as stopped:
                erased(world.stores, "s", "name", BOB)
            assert "what is done stays" in str(stopped.value)
    assert state.erasing is None
    assert world.state.erasing is not None

    assert erased(world.stores, "s", "name", BOB)["complete"]
    assert places_of(world.stores, BOB) == []


def test_a_writer_without_a_lease_that_began_before_is_fenced(world: World) -> None:
    refs = [WrittenPart(ref, None) for ref in parts_of(world.stores, world.state).values()]
    late = write_batch(world.stores.blob, "s", refs[-1:], 60, 70, world.state.since)
    erased(world.stores, "s", "name", BOB)

    with pytest.raises(Fenced):
        world.machine.append("s", token="late", lower=60, upper=70, batch=late)


def test_readers_of_a_state_of_before_are_waited_for(world: World) -> None:
    move = lambda state, now: hold(state, now, name="reader", since=state.upper, lease_ms=1000)
    world.machine.apply("s", move)
    with pytest.raises(Unavailable, match="reader"):
        erased(world.stores, "s", "name", BOB)
    assert places_of(world.stores, BOB) != []

    world.machine.apply("s", lambda state, now: release(state, now, name="reader"))
    assert erased(world.stores, "s", "name", BOB)["complete"]
    assert places_of(world.stores, BOB) == []


def test_without_the_second_step_nothing_changes(world: World) -> None:
    before = (world.state, world.blobs())

    plan = eraser(world.stores, "s", "name", BOB).plan()

    assert (world.state, world.blobs()) == before
    assert [(one["shard"], one["rows"]) for one in plan["shards"]] == [("s", 9), ("s.rejected", 1)]
    assert plan["rejected_rows"] == 1
    assert plan["confirm"] == ErasureRequest("s", f"name = {BOB!r}").code


def test_another_erasure_waits_for_the_one_under_way(world: World) -> None:
    with Lease(world.machine, "s", "ingest"), pytest.raises(Unavailable):
        erased(world.stores, "s", "name", BOB)

    with pytest.raises(InvalidRequest, match="another erasure"):
        erased(world.stores, "s", "name", "person1@example.org")


def test_a_second_erasure_keeps_what_the_first_suppressed(world: World) -> None:
    erased(world.stores, "s", "name", BOB)
    erased(world.stores, "s", "name", "person1@example.org")

    report = world.ingest(str(world.root / "day1.csv"), again=True)

    assert report["suppressed"] == 3 + 7
    assert len(certificates(world.stores, "s")) == 2
    assert places_of(world.stores, "person1@example.org") == []


def test_journals_and_logs_that_mention_the_person_are_erased(world: World) -> None:
    for text in (f"asked for {BOB}", "asked for nobody"):
        note(world.stores, Metrics(MetricsSettings()), "read", 5, READ, 1, error=text)
    blob = world.stores.blob
    blob.set("shards/s/usage/1970-01-01/03.json", orjson.dumps({"filter": f"name = '{BOB}'"}))
    blob.set("shards/s/usage/1970-01-01/04.json", orjson.dumps({"filter": "name = 'x'"}))
    blob.set(
        "shards/s/verdicts/run/ab.json",
        orjson.dumps({"replay": f"strata validate s --filter \"name = '{BOB}'\""}),
    )

    found = erased(world.stores, "s", "name", BOB)

    assert places_of(world.stores, BOB) == []
    assert places_of(world.stores, "asked for nobody") != []
    assert [k for k in world.blobs() if "/usage/" in k] == ["shards/s/usage/1970-01-01/04.json"]
    removed = {one["what"]: one["blobs"] for one in found["removed"]}
    assert removed["logged filters"] == removed["verdicts"] == 1


def test_logs_of_the_shards_about_it_are_erased(world: World) -> None:
    """A filter on rejected rows is logged with theirs; no run of the erasure was complete."""
    note(world.stores, Metrics(MetricsSettings()), "read", 0, READ, 0)
    names = world.machine.names()
    assert {"s.rejected", "strata_operations"} <= {*names}
    for name in names:
        entry = orjson.dumps([{"filter": {"sql": f"value = '{BOB}'"}}])
        world.stores.blob.set(usage_key(name, "2026-01-01", "001"), entry)
    assert eraser(world.stores, "s", "name", BOB).plan()["logs"] == len(names)

    found = erased(world.stores, "s", "name", BOB)

    assert found["complete"]
    assert places_of(world.stores, BOB) == []


def test_what_cannot_be_removed_is_named(world: World) -> None:
    note_text = f"see the mail of {BOB}"
    move = lambda state, now: (
        replace(
            state,
            seqno=state.seqno + 1,
            walltime_ms=state.walltime_ms + 1,
            rollout=replace(state.rollout, reason=note_text),
        ),
        None,
    )
    world.machine.apply("s", move)

    found = erased(world.stores, "s", "name", BOB)

    assert not found["complete"]
    assert any(place.startswith("state") for place in found["proof"][0]["left"])
    assert "NOT complete" in as_text(found)


def test_a_certificate_names_no_value_and_shows_when_it_was_changed(world: World) -> None:
    found = erased(world.stores, "s", "name", BOB)
    assert BOB not in orjson.dumps(found).decode()
    assert BOB not in as_text(found)

    key = f"shards/s/erasures/{found['id']}.json"
    data, at_ms = world.stores.blob.live[key]
    world.stores.blob.live[key] = (data.replace(b'"rows": 9', b'"rows": 8'), at_ms)
    with pytest.raises(Corrupt):
        known_certificate(world.stores, "s", found["id"])


def test_a_certificate_of_another_erasure_ends_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = erased(world.stores, "s", "name", BOB)
    work = eraser(world.stores, "s", "name", "person1@example.org")
    with monkeypatch.context() as patch:
        patch.setattr(type(work), "_carried_out", interrupted)
        with pytest.raises(KeyboardInterrupt):
            work.erase(at_ms=1, **WHO)
    begun = Machine(world.stores).load("s").erasing
    assert begun is not None
    blobs = world.stores.blob.live
    blobs[f"shards/s/erasures/{begun.id}.json"] = blobs[f"shards/s/erasures/{first['id']}.json"]

    with pytest.raises(Corrupt, match="not what was issued"):
        work.erase(at_ms=1, **WHO)
    del blobs[f"shards/s/erasures/{begun.id}.json"]
    assert work.erase(at_ms=1, **WHO)["rows"] > 0


def test_a_row_that_is_still_found_issues_no_certificate(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = eraser(world.stores, "s", "name", BOB)
    removal = work._removal("s")
    monkeypatch.setattr(type(removal), "find", lambda *_: ([], {}))

    with pytest.raises(Corrupt, match="still found"):
        work.erase(at_ms=1, **WHO)

    assert certificates(world.stores, "s") == []
    assert Machine(world.stores).load("s").erasing is not None


def test_labels_stay_readable_without_the_rows_and_one_that_names_the_person_goes(
    world: World,
) -> None:
    shard = Shard(world.stores, world.state.name)
    shard.tag("release-1", at=15)
    shard.tag("before-bobby", at=19)
    assert at_all_times(world) != at_all_times(world, but=BOB)
    request = eraser(world.stores, shard.name, "name", BOB, "bobby")
    assert request.plan()["labels"] == ["before-bobby"]

    request.erase(at_ms=1, **WHO)

    assert [label.name for label in shard.tags()] == ["release-1"]
    rows = [name for one in shard.scan(as_of="release-1") for name in one["name"].to_pylist()]
    assert rows
    assert BOB not in rows
    assert places_of(world.stores, "before-bobby") == []


def test_a_second_erasure_in_the_same_second_is_carried_out(world: World) -> None:
    first = erased(world.stores, "s", "name", BOB)
    world.ingest(world.put("late.csv", f"id,name,n\n999,{BOB},1\n"), lower=50, upper=60)

    second = erased(world.stores, "s", "name", BOB)

    assert second["id"] != first["id"]
    assert second["rows"] == 1
    assert places_of(world.stores, BOB) == []
    assert [one["id"] for one in certificates(world.stores, "s")] == [first["id"], second["id"]]


def left_under_way(world: World) -> World:
    """Stop an erasure while it waits for a writer of a journal."""
    note(world.stores, Metrics(MetricsSettings()), "read", 5, READ, 1, error=f"asked for {BOB}")
    with Lease(world.machine, "strata_operations", "ingest"), pytest.raises(Unavailable):
        erased(world.stores, "s", "name", BOB)
    assert world.machine.load("strata_operations").erasing is not None
    return world


def test_an_erasure_that_waits_for_another_shards_names_that_shard(world: World) -> None:
    left_under_way(world)
    world.machine.create(parse_spec({**SPEC, "name": "other", "columns": COLUMNS}))

    with pytest.raises(InvalidRequest, match="another erasure") as error:
        erased(world.stores, "other", "name", BOB)

    assert (error.value.details["shard"], error.value.details["of"]) == ("strata_operations", "s")
    assert "'s'" in (error.value.cure or "")


def test_an_erasure_ends_everywhere_when_its_shard_is_dropped(world: World) -> None:
    left_under_way(world)
    drop_shard(world.machine, "s", by="ann", reason="moved", force=False)

    for name in world.machine.names():
        assert world.machine.load(name).erasing is None


def test_a_drop_that_is_refused_leaves_the_erasure_under_way(world: World) -> None:
    left_under_way(world)
    with Lease(world.machine, "s", "compact"), pytest.raises(InvalidRequest, match="in use"):
        drop_shard(world.machine, "s", by="ann", reason="moved", force=False)

    assert world.machine.load("strata_operations").erasing is not None
    assert erased(world.stores, "s", "name", BOB)["complete"]


def test_an_erasure_that_a_dropped_shard_left_behind_ends_with_the_next(world: World) -> None:
    left_under_way(world)
    move = partial(tombstone.drop, by="ann", reason="moved")
    world.machine.apply("s", move, dropped=True)  # as earlier versions dropped it
    world.now += 86_400_000
    world.machine.create(parse_spec({**SPEC, "columns": COLUMNS}), revive=True)
    world.ingest(world.put("new.csv", text_of(1, f"170,{BOB},1")), lower=10, upper=20)

    assert erased(world.stores, "s", "name", BOB)["complete"]

    assert world.machine.load("strata_operations").erasing is None


def test_a_sweep_beside_an_erasure_reports_no_damage(world: World) -> None:
    wanted = at_all_times(world, but=BOB)[world.state.upper - 1]
    faults = Faults(sleep=lambda _: None)
    stores = replace(
        world.stores,
        blob=FaultyBlob(world.stores.blob, faults),
        consensus=FaultyConsensus(world.stores.consensus, faults),
    )
    for at in range(2, 10):
        name = f"person{at % 8}@example.org" if at > 2 else BOB
        faults.interlude = lambda name=name: erased(world.stores, "s", "name", name)  # type: ignore[misc]
        faults.plan([*repeat(Outcome.WORKS, at), Outcome.INTERRUPTED])
        gone = {n: c for n, c in wanted.items() if n[1] == name}
        wanted -= Counter(gone)

        collect(stores, "s", world.settings)

        assert at_all_times(world)[world.state.upper - 1] == wanted
    assert faults.drawn[Outcome.INTERRUPTED] == 8
