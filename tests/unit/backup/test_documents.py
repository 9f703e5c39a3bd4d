"""Damage to a document of a shard's history is found, named with its cure, and lost to nobody."""

import json
from collections.abc import Callable

import orjson
import pytest

from strata.audit.seen import pairs_of, with_pairs
from strata.backup import Backup, back_up, restore, verify, verify_point, verify_shard
from strata.backup.documents import wrong_with
from strata.backup.verify import AGAIN
from strata.errors import Corrupt
from strata.ingest.quarantine import moved_key, write_index
from strata.maintain.estimate import Speed, record_speed
from strata.store import keys
from strata.store.memory import MemoryBlob
from strata.store.named import fields_digest
from tests.support.garbage import SETTINGS, World

WHO = {"by": "ann", "reason": "the disk is gone"}
ENTRY = [{"filter": {"sql": "id > 6"}, "reads": 2, "version": 1}]


def by_content(kind: Callable[[str, str], str], data: bytes, name: str = "{}") -> tuple[str, bytes]:
    return kind("s", name.format(keys.content_hash(data))), data


def certificate() -> bytes:
    document = {"id": "e1", "shard": "s", "rows": 3}
    return orjson.dumps(document | {"digest": fields_digest(document)}, option=orjson.OPT_INDENT_2)


PLAIN = {
    "rejected rows": by_content(keys.quarantine_key, b'{"raw": "x"}\n', "token/{}"),
    "their list": by_content(keys.quarantine_key, b"[]", "token/index-{}"),
    "rejected rows of old": (keys.quarantine_key("s", "token"), b'{"raw": "x"}\n{"raw": "y"}\n'),
    "verdicts": by_content(keys.verdict_key, b"PAR1 and so on"),
    "a receipt": by_content(keys.receipt_key, b"packed"),
    "a note of a validation": by_content(keys.verdict_key, b"[{}]", "ab12/{}"),
    "a step": by_content(keys.erasure_key, b'{"removed": {}}', "e1/{}"),
    "a certificate": (keys.erasure_key("s", "e1"), certificate()),
    "a speed": (keys.backfill_key("s", 5, keys.content_hash(b'{"ms": 1}')), b'{"ms": 1}'),
}


def flips(data: bytes) -> list[bytes]:
    return [
        data[:at] + bytes([data[at] ^ (1 << at % 7)]) + data[at + 1 :] for at in range(len(data))
    ]


@pytest.mark.parametrize("what", [what for what in PLAIN if "old" not in what])
def test_each_flipped_bit_of_a_document_is_found(what: str) -> None:
    key, data = PLAIN[what]
    assert wrong_with(key, data) == ""
    # The blanks of a certificate are laid out for people, and mean nothing
    means = [bad for bad in flips(data) if what != "a certificate" or not _same(bad, data)]
    assert len(means) > len(data) / 2
    assert all(wrong_with(key, bad) for bad in means)
    assert all(wrong_with(key, data[:end]) for end in range(len(data)))


def _same(one: bytes, other: bytes) -> bool:
    try:
        return bool(orjson.loads(one) == orjson.loads(other))
    except ValueError:
        return False


@pytest.mark.parametrize(
    ("key", "data"),
    [
        PLAIN["rejected rows of old"],
        (keys.usage_key("s", "2026-11-24", "012"), json.dumps(ENTRY).encode()),
        (keys.usage_key("s", "2026-11-24", "summary"), json.dumps(ENTRY * 2).encode()),
        (
            keys.usage_key("s", "2026-11-24", "rolled-002"),
            json.dumps({"012": json.dumps(ENTRY), "013": json.dumps(ENTRY)}).encode(),
        ),
    ],
)
def test_a_document_without_a_digest_is_read(key: str, data: bytes) -> None:
    assert wrong_with(key, data) == ""
    cut = data.rstrip()[:-1]
    assert wrong_with(key, cut).startswith("it cannot be read")
    assert wrong_with(key, data[:9] + b"\xff" + data[10:]).startswith("it cannot be read")


@pytest.fixture
def world() -> World:
    world = World()
    world.append(1, 2, 3)
    for key, data in PLAIN.values():
        world.blob.set(key, data)
    world.blob.set(keys.usage_key("s", "2026-11-24", "012"), json.dumps(ENTRY).encode())
    with_pairs(world.blob, "s", None, pairs_of([]), anew=True)
    record_speed(world.stores, "s", Speed(1, 2, 3, whole=True))
    return world


def spoil(blob: MemoryBlob, key: str) -> None:
    data, at = blob.live[key]
    blob.live[key] = (data[:1] + bytes([data[1] ^ 128]) + data[2:], at)


def test_each_kind_of_history_is_verified_with_a_cure(world: World) -> None:
    history = [key for key in world.stored() if "/parts/" not in key and "/manifests/" not in key]
    assert len(history) == 12
    assert verify_shard(world.stores, "s", SETTINGS).wrong == ()
    for key in history:
        whole = world.blob.live[key]
        spoil(world.blob, key)
        [wrong] = verify_shard(world.stores, "s", SETTINGS).wrong
        assert (wrong.key, bool(wrong.what)) == (key, True)
        assert "backup" in wrong.cure or "delete it" in wrong.cure
        world.blob.live[key] = whole


def test_a_damaged_document_is_saved_said_and_restored(world: World) -> None:
    target = MemoryBlob()
    [key] = [key for key in world.stored() if "/erasures/e1.json" in key]
    spoil(world.blob, key)

    report = back_up(world.stores, target, SETTINGS)

    assert [one.key for one in report.damaged] == [key]
    assert report.to_json()["damaged"][0]["cure"].startswith("copy it from a backup")
    backup = Backup(target)
    [wrong] = verify_point(backup, report.point, report.point.shard("s")).wrong
    assert (wrong.key, wrong.cure) == (key, AGAIN)
    world.machine.drop("s", by="ben", reason="damaged")
    for left in world.stored():
        del world.blob.live[left]
    restore(world.stores, backup, **WHO)
    assert world.blob.get(key) == target.get(key)
    assert [one.key for one in verify_shard(world.stores, "s", SETTINGS).wrong] == [key]


def test_history_that_goes_meanwhile_stops_neither_backup_nor_verification(world: World) -> None:
    """A day of the log of filters is folded, the notes of a validation are dropped."""
    [gone] = [key for key in world.stored() if "/usage/" in key]

    class Going(MemoryBlob):
        def get(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
            if key == gone:
                self.live.pop(key, None)
            return super().get(key, start, length)

    blob, whole = world.blob, dict(world.blob.live)
    blob.__class__ = Going
    assert verify_shard(world.stores, "s", SETTINGS).wrong == ()
    blob.live.update(whole)
    target = MemoryBlob()
    report = back_up(world.stores, target, SETTINGS)
    assert gone not in target.live
    assert gone not in Backup(target).sizes(report.point, report.point.shard("s"))


@pytest.mark.parametrize("erased", [False, True])
def test_a_lost_file_of_rejected_rows_is_missed(world: World, erased: bool) -> None:
    key, _ = PLAIN["rejected rows"]
    index, upper = write_index(world.blob, "s", "token", [key]), world.state.upper
    world.machine.append("s", token="token", lower=upper, upper=upper + 9, rejects=index)
    assert verify_shard(world.stores, "s", SETTINGS).wrong == ()
    target = MemoryBlob()
    del world.blob.live[key]
    if erased:
        note = orjson.dumps({key: None})
        world.blob.set(moved_key(key, keys.content_hash(note)), note)
    report = back_up(world.stores, target, SETTINGS)
    for found in (
        verify_shard(world.stores, "s", SETTINGS),
        verify_point(Backup(target), report.point, report.point.shard("s")),
    ):
        assert [(one.key, one.what) for one in found.wrong] == (
            [] if erased else [(key, "it is missing")]
        )


@pytest.mark.parametrize("lost", [False, True])
def test_a_list_of_rejected_rows_that_is_no_more_is_named_itself(world: World, lost: bool) -> None:
    key, _ = PLAIN["rejected rows"]
    index, upper = write_index(world.blob, "s", "token", [key]), world.state.upper
    world.machine.append("s", token="token", lower=upper, upper=upper + 9, rejects=index)
    if lost:
        del world.blob.live[index]
    else:
        spoil(world.blob, index)

    assert [one.key for one in verify_shard(world.stores, "s", SETTINGS).wrong] == [index]


@pytest.mark.parametrize("details", [{}, {"key": "shards/s/ledger/1"}])
def test_damage_that_leads_nowhere_is_said_instead_of_verified(
    world: World, monkeypatch: pytest.MonkeyPatch, details: dict[str, str]
) -> None:
    """It names no blob, or is met again though its blob was passed over."""

    def damaged(*_: object) -> None:
        raise Corrupt("a node of the ledger is damaged", **details)

    monkeypatch.setattr(verify, "named_by", damaged)

    with pytest.raises(Corrupt, match="a node of the ledger"):
        verify_shard(world.stores, "s", SETTINGS)
