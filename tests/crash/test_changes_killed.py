"""A change stream survives lost replies and crashes between any two calls; rejected rows, too."""

import random
from pathlib import Path
from typing import Any

import pytest

from strata.errors import Unavailable
from strata.ingest.engine import ingest_steps
from strata.ingest.plan import steps_of
from strata.ingest.quarantine import rejected
from strata.store.open import Stores
from tests.support.failing_stores import (
    CrashError,
    Faults,
    FaultyBlob,
    FaultyConsensus,
    Outcome,
    seeded,
)
from tests.unit.ingest.changes.test_tasks import Table, event, put, table_at, world_of
from tests.unit.ingest.test_engine import DAY

DAYS = 5
FAILURES = {
    Outcome.REPLY_LOST: 0.03,
    Outcome.REQUEST_LOST: 0.02,
    Outcome.REFUSED: 0.02,
    Outcome.CRASH_BEFORE: 0.02,
    Outcome.CRASH_AFTER: 0.02,
}


def stream(draw: random.Random) -> tuple[list[list[dict[str, Any]]], list[Table], int]:
    """Return the events of each day, the table at its end, and how many contradict."""
    table: Table = {}
    days, tables, wrong = [], [], 0
    for day in range(DAYS):
        events = []
        for _ in range(12):
            key, time = draw.randrange(6), day * DAY + len(events)
            if draw.random() < 0.1:
                absent = key + 100
                events.append(event("d", absent, t=time))
                wrong += 1
            elif key in table and draw.random() < 0.3:
                del table[key]
                events.append(event("d", key, t=time))
            else:
                row = (f"n{draw.randrange(9)}", None)
                events.append(event("u" if key in table else "c", key, row, time))
                table[key] = row
        days.append(events)
        tables.append(dict(table))
    return days, tables, wrong


@pytest.mark.parametrize("seed", range(2))
def test_each_change_counts_once_whatever_fails(tmp_path: Path, seed: int) -> None:
    world = world_of(tmp_path, "debezium", contradictions="quarantine", max_rejected=1.0)
    days, tables, wrong = stream(random.Random(seed))
    for day, events in enumerate(days, 1):
        put(world, day, events[:6], name="a")
        put(world, day, events[6:], name="b")
    faults = Faults(seeded(seed, FAILURES), sleep=lambda _: None)
    shaky = Stores(
        FaultyBlob(world.stores.blob, faults),
        FaultyConsensus(world.stores.consensus, faults),
        world.stores.clock,
        world.settings.store,
    )

    failures = 0
    for _ in range(300):
        try:
            list(ingest_steps(shaky, world.settings, "s", steps_of(0, DAYS * DAY, "P1D")))
            break
        except (CrashError, Unavailable):
            failures += 1

    assert failures > 0
    for day, table in enumerate(tables, 1):
        assert table_at(world, day * DAY - 1) == table
    assert sum(len(found.rows) for found in rejected(world.stores, "s")) == wrong
