"""A task that finds no part says of a shard that was dropped, or made anew, that it was."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strata import gc
from strata.decide.plan import plan_read
from strata.errors import Corrupt, Fenced, InvalidRequest, StrataError
from strata.machine.machine import Machine
from strata.model.settings import GcSettings
from strata.spark.rows import PartReader
from strata.spark.slices import SliceReader, slice_tasks
from tests.support.shards import NAME, Events, copied


def dropped(events: Events) -> None:
    machine = Machine(events.stores)
    machine.drop(NAME, by="ann", reason="personal data", force=True)
    settings = replace(events.settings, gc=GcSettings(grace_ms=0))
    later = replace(events.stores, clock=lambda: events.stores.clock() + 60_000)
    gc.collect(later, NAME, settings)


def made_anew(events: Events) -> None:
    spec = events.state.spec
    dropped(events)
    Machine(events.stores).create(spec, revive=True)


def lost(events: Events) -> None:
    for part in plan_read(events.stores, events.state).parts:
        events.stores.blob.delete(part.key)


def unseen(events: Events) -> None:
    """Lose parts where a task has no way to the state."""
    lost(events)
    (Path(events.settings.store.consensus.removeprefix("sqlite:///"))).unlink()


def reads(events: Events) -> Iterator[Any]:
    """Yield what tasks do for a read of a state: rows of parts, and merged ones of a slice."""
    state = events.state
    plan = plan_read(events.stores, state)
    columns = state.relation.columns
    reader = PartReader(events.stores.settings, state.relations, columns)
    yield lambda: list(reader.read(plan.parts))
    task = slice_tasks(events.stores, state, plan, columns, 1)[0]
    assert isinstance(pickle.loads(task.reader), SliceReader)
    yield lambda: list(task.read())


@pytest.mark.parametrize(
    ("beside", "kind"),
    [(dropped, InvalidRequest), (made_anew, Fenced), (lost, Corrupt), (unseen, Corrupt)],
)
def test_a_task_says_why_a_part_is_missing(
    tmp_path: Path, beside: Any, kind: type[StrataError]
) -> None:
    """It called for a backup of what was dropped on purpose."""
    events = copied(tmp_path)
    planned = list(reads(events))
    beside(events)

    for read in planned:
        with pytest.raises(kind):
            read()
