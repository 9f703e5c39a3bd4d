"""A note says what an erasure did, one that did not come about goes, and a lost one is damage."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from strata.erase.notes import (
    ASIDE,
    Cleared,
    Total,
    _came_about,
    expunging,
    forget_undone,
    noted_steps,
    notes_of,
    remove_blob,
    store_note,
)
from strata.errors import Corrupt, InvalidRequest
from strata.state.state import Spine, SpineBatch
from strata.state.transitions import replace_manifests
from strata.store.interface import BlobInfo
from strata.store.keys import manifest_key
from strata.store.memory import MemoryBlob
from tests.support.batches import batch
from tests.support.garbage import World


def step(manifest: str, instead: str | None, lower: int = 10, upper: int = 20) -> dict[str, Any]:
    bounds = {"lower": lower, "upper": upper}
    return {"manifest": manifest, "instead": instead, "parts": [], **bounds}


@pytest.mark.parametrize(
    ("note", "came_about"),
    [
        (step("before", "after"), False),  # the batch is as it was
        (step("gone", "after"), True),
        (step("gone", "merged since"), None),
        (step("gone", None), True),  # nothing is left of it
        (step("gone", None, 10, 25), None),
        (step("gone", None, 5, 20), None),
        (step("gone", None, 40, 50), None),
        (step("before", None), False),
    ],
)
def test_a_state_knows_whether_a_commit_came_about(
    note: dict[str, Any], came_about: bool | None
) -> None:
    batches = (
        batch(0, 10, 1, manifest="before"),
        batch(10, 20, 0),
        batch(20, 30, 1, manifest="after"),
        batch(30, 40, 0),
    )
    spine = Spine((SpineBatch(0, 4, 1, batches),), 4)

    assert _came_about(replace(World().state, spine=spine), note) is came_about


def test_notes_of_what_did_not_come_about_go() -> None:
    world = World()
    manifest = world.append(1).manifest
    assert manifest is not None
    undone = step(manifest, "never")
    made = step("before", manifest)
    for note in (undone, made, {"what": "parts", "removed": {"a": 1}}):
        store_note(world.stores, "s", "e1", note)

    forget_undone(world.stores, "s", "e1")

    assert noted_steps(world.stores, ["s"], "e1") == [made]
    assert len([*notes_of(world.stores, "s", "e1")]) == 2
    assert [*notes_of(world.stores, "s", "e")] == []


def test_the_note_of_a_commit_stays_though_earlier_states_have_what_it_replaced() -> None:
    world = World()
    old = world.append(1)
    new = replace(old, manifest=manifest_key("s", "0f" * 16))
    replaced = partial(replace_manifests, replacements={str(old.manifest): new})
    world.machine.apply("s", replaced)
    world.append(2)
    made, undone = (step(str(old.manifest), instead) for instead in (new.manifest, "never"))
    for note in (made, undone):  # a merge was faster than the other one
        store_note(world.stores, "s", "e1", note)

    forget_undone(world.stores, "s", "e1")

    assert noted_steps(world.stores, ["s"], "e1") == [made]


def test_what_all_runs_removed_is_added_up_once() -> None:
    """A killed run has set aside what another one then removes: it is what it was."""
    world = World()
    cleared = Cleared(world.stores, "s", "e1")
    cleared.note("parts", {"a": 10, "b": 20})
    cleared.note(ASIDE, {"b": 20, "c": 5})
    cleared.note("parts", {})
    cleared.note_states("s", 3, 7)
    cleared.note_states("s", 5, 9)
    cleared.note_states("t", 3, 4)
    cleared.note_states("t", 4, 4)
    cleared.note_collections("one", 2)
    cleared.note_collections("two", 3)

    assert cleared.total() == Total({"parts": (2, 30), ASIDE: (1, 5)}, 7, 5)
    assert len([*notes_of(world.stores, "s", "e1")]) == 7, "nothing is noted of nothing"


class Stale(MemoryBlob):
    """A store that lists a blob that is gone."""

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        yield BlobInfo(f"{prefix}00ff.json", 1, 0)


def test_a_note_that_is_missing_or_damaged_issues_no_certificate() -> None:
    world = World()
    key = store_note(world.stores, "s", "e1", {"what": "parts", "removed": {"a": 1}})
    world.blob.live[key] = (b'{"what":"parts","removed":{}}', 0)

    for stores in (world.stores, replace(world.stores, blob=Stale())):
        with pytest.raises(Corrupt, match="missing or damaged") as caught:
            Cleared(stores, "s", "e1").total()
        assert caught.value.details["key"]


def test_a_blob_is_removed_for_good_once_and_again() -> None:
    world = World()
    world.blob.set("shards/s/usage/2026-01-01/001.json", b"x")

    for _ in range(2):
        remove_blob(world.stores, "shards/s/usage/2026-01-01/001.json")

        assert world.stored() == []
        assert world.blob.deleted == {}


def test_a_store_that_keeps_what_was_deleted_erases_nothing() -> None:
    with pytest.raises(InvalidRequest, match="for good"):
        expunging(replace(World().stores, blob=object()))  # type: ignore[arg-type]
