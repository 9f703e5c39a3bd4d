"""What the detector of leaks looks for: each direction by itself, and each stray once."""

from dataclasses import replace

import pytest

from strata import gc
from strata.gc.leaks import LeakReport, find_leaks
from strata.gc.verdicts import Fate, JudgedBlob
from strata.machine.machine import Machine
from strata.store import keys
from tests.support.garbage import HOUR, SETTINGS, SPEC, World

BLOB = JudgedBlob("shards/s/x", 1, "foreign", Fate.UNKNOWN, "a test")


@pytest.mark.parametrize(
    ("found", "clean"),
    [
        (LeakReport((), (), (), ()), True),
        (LeakReport((), ("shards/s/x",), (), ()), False),
        (LeakReport((), (), (BLOB,), ()), False),
        (LeakReport((), (), (), (BLOB,)), False),
    ],
)
def test_one_leak_or_gap_of_any_kind_is_enough(found: LeakReport, clean: bool) -> None:
    assert found.clean == found.to_json()["clean"] == clean


def test_a_blob_without_a_byte_is_stored() -> None:
    """A listing may lack it; then it is asked for by its name."""
    world = World()
    manifest = world.append(1).manifest
    assert manifest is not None
    [part] = world.state_parts()
    world.blob.live[part] = (b"", world.now_ms)
    listed = world.blob.list

    world.blob.list = lambda prefix: (  # type: ignore[method-assign]
        info for info in listed(prefix) if info.key not in {part, manifest}
    )

    assert find_leaks(world.stores, SETTINGS).missing == ()
    del world.blob.live[part]
    assert find_leaks(world.stores, SETTINGS).missing == (part,)


def test_shards_that_were_dropped_are_known_and_their_dead_blobs_are_overdue() -> None:
    world = World()
    Machine(world.stores).create(replace(SPEC, name="other"))
    world.append(1)
    stored = set(world.stored())
    world.machine.drop("s", by="ann", reason="a trial")
    world.now_ms += HOUR

    found = find_leaks(world.stores, SETTINGS)

    assert [report.shard for report in found.shards] == ["other", "s"]
    assert ({one.key for one in found.overdue}, found.strays) == (stored, ())
    named = find_leaks(world.stores, SETTINGS, ["other"])
    assert ([report.shard for report in named.shards], named.clean) == (["other"], True)


def test_each_stray_is_told_once_and_none_hides_those_behind_it() -> None:
    world = World()
    world.append(1)
    strays = {
        "shards/aaa/strange",
        keys.manifest_key("nobody", "00ff"),
        keys.manifest_key("nobody", "01ff"),
        keys.manifest_key("somebody", "00ff"),
        "shards/s/strange",
        "shards/zzz/strange",
    }
    for key in strays:
        world.blob.set(key, b"?")
    asked: list[bool] = []
    names = Machine.names

    def counted(machine: Machine, *, dropped: bool = False) -> object:
        asked.append(dropped)
        return names(machine, dropped=dropped)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Machine, "names", counted)
        found = find_leaks(world.stores, SETTINGS)

    assert sorted(one.key for one in found.strays) == sorted(strays)
    assert asked == [True] * 3  # at first, and once for each name that nobody knows


def test_a_shard_that_was_dropped_meanwhile_is_no_stranger() -> None:
    """It begins and ends after the names were read, and its blobs still wait."""
    world = World()
    listed = world.blob.list

    def later(prefix: str) -> object:
        if prefix == "shards/":
            Machine(world.stores).create(replace(SPEC, name="later"))
            Machine(world.stores).drop("later", by="ann", reason="a trial")
            world.blob.set(keys.manifest_key("later", "00ff"), b"1")
        return listed(prefix)

    world.blob.list = later  # type: ignore[assignment, method-assign]

    assert find_leaks(world.stores, SETTINGS).clean


def test_a_plan_of_a_shard_names_only_what_is_not_understood() -> None:
    world = World()
    world.append(1)

    assert gc.plan(world.stores, "s", SETTINGS).others == ()
    assert len(gc.plan(world.stores, "s", SETTINGS, every=True).others) == 2
    assert world.sweep().others == ()
