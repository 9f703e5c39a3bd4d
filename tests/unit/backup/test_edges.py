"""What a backup keeps, drops and refuses: each rule by itself."""

from types import SimpleNamespace
from typing import Any

import pytest

from strata.backup import Backup, back_up, restore, save, verify
from strata.backup.documents import OTHER_BYTES, wrong_with
from strata.backup.point import BEGUN
from strata.errors import Corrupt, InvalidRequest
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.settings import Settings
from strata.model.types import parse_type
from strata.store.draft import ABANDONED_MS
from strata.store.memory import MemoryBlob
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

RELATION = Relation(0, (Column(1, "id", parse_type("int64")),), (1,), ())
NONE: Any = None


def test_what_a_state_names_has_other_bytes_also_under_a_name_that_is_no_hash() -> None:
    assert wrong_with("shards/s/parts/r0/mine.parquet", b"x") == OTHER_BYTES


def test_a_shard_that_exists_is_left_alone_only_if_that_is_asked_for() -> None:
    stores, target = memory_stores(), MemoryBlob()
    create(stores, RELATION)
    append(stores, "shard", 0, 1, [table(RELATION, [(1, 0, 1)])], "both")
    back_up(stores, target, Settings())
    before = Machine(stores).load("shard")

    with pytest.raises(InvalidRequest, match="shard"):
        restore(stores, Backup(target), by="ann", reason="lost")
    restore(stores, Backup(target), missing=True, by="ann", reason="lost")
    assert Machine(stores).load("shard") == before


@pytest.mark.parametrize(
    ("took_ms", "marks"),
    [(0, (BEGUN,)), (ABANDONED_MS - 1, (BEGUN,)), (ABANDONED_MS + 1, (BEGUN, save.LATE))],
)
def test_only_a_backup_of_a_day_has_a_second_mark(
    monkeypatch: pytest.MonkeyPatch, took_ms: int, marks: tuple[str, ...]
) -> None:
    dropped: list[tuple[str, ...]] = []
    began = 9 * ABANDONED_MS
    times = iter([began, began, began])  # then it has ended
    monkeypatch.setattr(save, "_drop_marks", lambda *given: dropped.append(given[-1]))
    for name in ("check_no_drop", "_check_apart", "drop_abandoned", "_added"):
        monkeypatch.setattr(save, name, lambda *_: None)
    stores: Any = SimpleNamespace(blob=None, clock=lambda: next(times, began + took_ms))

    back_up(stores, MemoryBlob(), Settings())

    assert dropped == [marks]


@pytest.mark.parametrize("details", [{}, {"key": "a"}, {"manifest": "a", "key": "b"}])
def test_damage_that_leads_nowhere_is_an_error(
    monkeypatch: pytest.MonkeyPatch, details: dict[str, str]
) -> None:
    asked: list[set[str]] = []

    def named_by(*given: Any) -> set[str]:
        asked.append({*given[-1]})
        if len(asked) > 2:
            return set()
        raise Corrupt("damaged", cure="copy it", **details)

    monkeypatch.setattr(verify, "named_by", named_by)

    with pytest.raises(Corrupt, match="damaged"):
        verify._named(NONE, NONE)
    assert asked == ([set()] if not details else [set(), {"a"}])
