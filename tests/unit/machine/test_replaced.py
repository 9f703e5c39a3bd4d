"""Who reads a shard that is dropped by force and swept at once hears of the drop, not of damage."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from strata import gc
from strata.backup.save import back_up
from strata.errors import Conflict, Corrupt, Fenced, InvalidRequest
from strata.machine.replaced import _may_be_swept, noticed, unless_dropped
from strata.maintain.revert import revert_interval
from strata.model.settings import GcSettings, ReadSettings, Settings
from strata.read.folder_sink import ParquetFolder
from strata.shard import Shard
from strata.store import keys
from strata.store.memory import MemoryBlob
from strata.store.open import Stores
from strata.sums.run import maintain_sums
from strata.sums.wish import SumsWish
from tests.support.garbage import SPEC, World

AT_ONCE = Settings(gc=GcSettings(grace_ms=0))
Read = Callable[[Stores, ReadSettings, Path], Any]


class Gets:
    """A store of blobs where somebody does something before one of the reads."""

    def __init__(self, inner: Any, at: int, then: Callable[[], None]) -> None:
        self._inner, self._left, self._then = inner, at, then

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def happened(self) -> bool:
        return self._left <= 0

    def get(self, *how: Any) -> bytes | None:
        self._left -= 1
        if not self._left:
            self._then()
        found: bytes | None = self._inner.get(*how)
        return found


def dropped(world: World) -> None:
    world.machine.drop("s", by="ann", reason="personal data", force=True)
    for _ in range(3):
        world.now_ms += 1000
        gc.collect(world.stores, "s", AT_ONCE)
    assert not world.stored("parts", "manifests")


def made_anew(world: World) -> None:
    dropped(world)
    world.machine.create(SPEC, revive=True)


def shard(stores: Stores, settings: ReadSettings) -> Shard:
    return Shard(stores, "s", settings)


def added_up(stores: Stores, settings: ReadSettings, _: Path) -> Any:
    return maintain_sums(stores, SumsWish("s", "sums", ("text",)), settings)


def saved(stores: Stores, settings: ReadSettings, _: Path) -> Any:
    return back_up(stores, MemoryBlob(), replace(AT_ONCE, read=settings), ["s"])


READS: dict[str, Read] = {
    "scan": lambda stores, how, _: list(shard(stores, how).scan()),
    "plan": lambda stores, how, _: shard(stores, how).plan(),
    "consolidated": lambda stores, how, _: list(shard(stores, how).scan(consolidate=True)),
    "filtered": lambda stores, how, _: list(shard(stores, how).scan(where="id > 2")),
    "dataset": lambda stores, how, _: shard(stores, how).dataset().to_table(),
    "count": lambda stores, how, _: shard(stores, how).count(where="text like '%1%'"),
    "least": lambda stores, how, _: shard(stores, how).min("text"),
    "changed": lambda stores, how, _: list(shard(stores, how).changed_rows(5)),
    "listen": lambda stores, how, _: list(next(iter(shard(stores, how).listen()))[1]),
    "deliver": lambda stores, how, root: (
        shard(stores, how).subscribe("c", ParquetFolder(root / "c")).into(ParquetFolder(root / "c"))
    ),
    "sums": added_up,
    "revert": lambda stores, how, _: revert_interval(stores, "s", 10, 20, settings=how),
    "revert, dry": lambda stores, how, _: revert_interval(
        stores, "s", 10, 20, dry_run=True, settings=how
    ),
    "backup": saved,
}


def made() -> World:
    world = World()
    world.append(1, 3, 5)
    world.append(2, 4, 6)
    world.append(7)
    return world


@pytest.mark.parametrize("hold_ms", [0, 60_000])
@pytest.mark.parametrize("name", READS)
def test_a_forced_drop_is_no_damage(tmp_path: Path, name: str, hold_ms: int) -> None:
    """Readers called for a backup: `Corrupt: a part is missing`."""
    at, refused = 0, list[tuple[str, object]]()
    while True:
        at += 1
        world = made()
        blob = Gets(world.inner.blob, at, partial(dropped, world))
        stores = replace(world.inner, blob=blob)
        try:
            READS[name](stores, ReadSettings(hold_ms=hold_ms), tmp_path / str(at))
        except InvalidRequest as error:
            refused.append((error.message, error.details["reason"]))
        if not blob.happened:
            break
    assert set(refused) == {("this shard was dropped", "personal data")}


@pytest.mark.parametrize("hold_ms", [0, 60_000])
@pytest.mark.parametrize("name", READS)
def test_a_shard_that_is_made_anew_is_no_damage(tmp_path: Path, name: str, hold_ms: int) -> None:
    """Its readers called for a backup of what was dropped on purpose."""
    at, refused = 0, Counter[type[Exception]]()
    while True:
        at += 1
        world = made()
        blob = Gets(world.inner.blob, at, partial(made_anew, world))
        stores = replace(world.inner, blob=blob)
        try:
            READS[name](stores, ReadSettings(hold_ms=hold_ms), tmp_path / str(at))
        except (Fenced, InvalidRequest, Conflict) as error:
            refused[type(error)] += 1
        if not blob.happened:
            break
    assert refused[Fenced]


def test_a_backup_of_all_shards_goes_on_without_one_that_is_dropped() -> None:
    at, left_out = 0, set[tuple[str, ...]]()
    while True:
        at += 1
        world = made()
        world.machine.create(replace(SPEC, name="other"))
        blob = Gets(world.inner.blob, at, partial(dropped, world))
        report = back_up(replace(world.inner, blob=blob), MemoryBlob(), AT_ONCE)
        left_out.add(report.left_out)
        if not blob.happened:
            break
    assert left_out == {(), ("s",)}


def test_a_lost_part_of_a_shard_that_is_there_is_damage(tmp_path: Path) -> None:
    world = made()
    for key in world.state_parts():
        world.blob.delete(key)
    with pytest.raises(Corrupt, match="a part is missing"):
        READS["scan"](world.stores, ReadSettings(), tmp_path)


@pytest.mark.parametrize(
    ("key", "swept"),
    [
        (keys.part_key(keys.part_prefix("s", 2), "ab"), True),
        (keys.part_key(keys.part_prefix("s", 3), "ab"), False),  # a writer may still commit it
        (keys.part_key(keys.part_prefix("s", 4), "ab"), False),
        (keys.part_key(keys.part_prefix("other", 2), "ab"), False),
        (keys.verdict_key("s", "run"), False),  # no read needs it
        ("elsewhere/2", False),
    ],
)
def test_only_what_lies_behind_the_fence_went_with_a_sweep(key: str, swept: bool) -> None:
    assert _may_be_swept(replace(World().state, fence=3), key) == swept


def test_of_a_lost_blob_alone_it_is_known_whose_shard_was_dropped() -> None:
    world = made()
    [part, *_] = world.state_parts()
    dropped(world)

    with pytest.raises(InvalidRequest, match="was dropped"), unless_dropped(world.machine):
        raise Corrupt("a part is missing", part=part)


def test_a_lost_blob_is_damage_where_what_the_state_names_is_not_known() -> None:
    world = made()
    manifest = next(batch.manifest for batch in world.state.batches if batch.manifest)
    _, written_ms = world.blob.live[manifest]
    world.blob.live[manifest] = (b"damaged", written_ms)
    gone = keys.part_key(keys.part_prefix("s"), "ab")

    with pytest.raises(Corrupt, match="a part is missing"), noticed(world.machine, "s"):
        raise Corrupt("a part is missing", part=gone)
