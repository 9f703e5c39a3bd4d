"""An ingest without a lease beside others whose sweeps leave no grace: commits, or is fenced."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from strata.compact import compact_shard
from strata.errors import Fenced
from strata.gc.drop import drop_shard
from strata.gc.sweep import collect
from strata.ingest.engine import ingest
from strata.ingest.tables import Rows, commit_tables, open_batch, table_task
from strata.model.settings import GcSettings
from strata.model.spec import parse_spec
from strata.model.time import MIN_TIME
from tests.unit.ingest.test_engine import SPEC, World

UPSERTS: dict[str, Any] = {"source": {**SPEC["source"], "format": "jsonl", "envelope": "upsert"}}


class Between:
    """A blob store where something happens before one of its operations."""

    def __init__(self, blob: Any, at: int, event: Callable[[], None]) -> None:
        self._blob, self._left, self._event = blob, at, event

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._blob, name)

        def call(*args: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                self._event()
            return operation(*args, **named)

        return call

    @property
    def happened(self) -> bool:
        return self._left <= 0


def text(world: World, first: int) -> str:
    some = range(first, first + 20)
    if world.state.spec.source.format == "csv":
        return "id,name\n" + "".join(f"{i},of {first}\n" for i in some)
    return "".join(f'{{"id": {i}, "name": "of {first}"}}\n' for i in some)


def swept(world: World) -> None:
    """Others ingest and merge, and sweep three times."""
    settings = replace(world.settings, gc=GcSettings(grace_ms=0))
    for first in (100, 110, 300):
        world.now += 5
        world.ingest(world.put(f"{first}", text(world, first)))
    compact_shard(world.stores, "s", settings)
    for _ in range(3):
        world.now += 5
        collect(world.stores, "s", settings)


@pytest.mark.parametrize("spec", [{}, UPSERTS], ids=["rows", "upserts"])
def test_what_others_replaced_and_swept_fences_an_ingest(
    tmp_path: Path, spec: dict[str, Any]
) -> None:
    outcomes: Counter[str] = Counter()
    for at in range(1, 99):
        world = World(tmp_path / f"{at}", **spec)
        for first in (0, 10, 20):
            world.now += 5
            world.ingest(world.put(f"{first}", text(world, first)))
        blob = Between(world.stores.blob, at, lambda: swept(world))  # noqa: B023  runs below
        file = world.put("late", text(world, 15))
        try:
            stores = replace(world.stores, blob=blob)  # type: ignore[arg-type]
            ingest(stores, world.settings, "s", paths=[file])
            outcomes["committed"] += 1
        except Fenced as error:
            outcomes["replaced" if "this run reads" in str(error) else "fenced"] += 1
            assert not world.ingest(file)["already_committed"]
        assert "of 15" in {row[1] for row in world.rows() if row[0] == 34}
        if not blob.happened:
            break
    assert min(outcomes[one] for one in ("committed", "replaced", "fenced")) > 0


def anew(world: World, *, sweeps: int = 3) -> None:
    """Others drop the shard, sweep it, and create it again."""
    settings = replace(world.settings, gc=GcSettings(grace_ms=0))
    drop_shard(world.machine, "s", by="Ann", reason="of a test", force=True)
    for _ in range(sweeps):
        world.now += 5
        collect(world.stores, "s", settings)
    world.machine.create(parse_spec({**SPEC, **UPSERTS}), revive=True)


@pytest.mark.parametrize("hand_over", [0, 1 << 20], ids=["stored", "in_memory"])
@pytest.mark.parametrize("sweeps", [0, 3])
def test_changes_of_a_program_end_with_the_life_of_the_shard(
    hand_over: int, sweeps: int, tmp_path: Path
) -> None:
    """As appended rows do: also where the new shard would contradict them."""
    fenced = 0
    for at in range(99):
        world = World(tmp_path / f"{at}", **UPSERTS)
        world.ingest(world.put("0", text(world, 0)), lower=0, upper=5)
        rows = Rows(5, 9, envelope="upsert", deleted_column="gone")
        opened = open_batch(world.stores, world.settings, "s", rows)
        task = replace(opened.task, hand_over=hand_over)
        gone = pa.table({"id": [3], "name": ["of 0"], "gone": [True]})
        results = list(table_task(task, [gone], 0, 1 << 20, world.stores.blob))
        blob = Between(world.stores.blob, at, lambda: anew(world, sweeps=sweeps))  # noqa: B023
        if not at:
            anew(world, sweeps=sweeps)
        try:
            stores = replace(world.stores, blob=blob)  # type: ignore[arg-type]
            commit_tables(stores, world.settings, opened, results)
        except Fenced:
            fenced += 1
            assert (world.state.upper, world.rows()) == (MIN_TIME, {})
        else:
            assert at > 2
            break
    assert fenced == at > 2
