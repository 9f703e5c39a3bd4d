"""A shard with room for every fault of the catalogue, and how to put many into one."""

import random
from dataclasses import replace
from pathlib import Path

from demo.faults import CATALOGUE, Injected, Site, stated
from strata.format.layout import Description
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.model.spec import RolloutSpec, StatsSpec, parse_spec
from strata.model.time import MIN_TIME
from strata.model.types import parse_type
from strata.parts.write import write_batch, write_parts
from strata.state.schema import AddColumn
from strata.state.state import State
from strata.store import keys
from strata.store.open import Stores, open_stores
from tests.support.shards import updates_table

NAME = "broken"

SPEC = {
    "name": NAME,
    "columns": [
        {"name": "id", "type": "int64"},
        {"name": "other", "type": "int64"},
        {"name": "ratio", "type": "float64"},
        {"name": "title", "type": "string"},
        {"name": "payload", "type": "jsonb"},
    ],
    "key": ["id"],
}


# Faults that touch one part and nothing else: many of them fit into one shard, and one run.
APART = [
    name
    for name in CATALOGUE
    if name not in stated.FAULTS
    and name not in ("statistics of two parts swapped", "two parts exchanged")
]


def settings_in(folder: Path) -> StoreSettings:
    return StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/consensus.db")


def sound_in(folder: Path, rows: tuple[int, int] = (25, 25)) -> Site:
    """Return a sound shard: three batches, each in its layout; `rows`: of a part, then later."""
    stores = open_stores(settings_in(folder))
    machine = Machine(stores)
    state = machine.create(replace(parse_spec(SPEC), rollout=RolloutSpec("soft")))
    append(stores, state, 0, "row" if rows[0] == 25 else "both", rows[0])
    machine.evolve(NAME, AddColumn("added", parse_type("int32")))
    for number, layout in enumerate(("both", "structured"), 1):
        append(stores, machine.load(NAME), number, layout, rows[1])
    return Site(stores, NAME)


def with_many(folder: Path, faults: list[str]) -> tuple[Site, dict[str, Injected]]:
    """Return a shard of small parts with these faults, each in a part of its own."""
    site, broken = sound_in(folder, (13, 6)), {}
    # Those first that need parts with several row groups.
    for name in sorted(faults, key=lambda name: "row group" not in name):
        injected = CATALOGUE[name](site, random.Random(name))
        assert injected is not None, f"no room for {name}"
        broken[name] = injected
        site = replace(site, avoid=site.avoid | {injected.place})
    return site, broken


def append(stores: Stores, state: State, number: int, layout: str, rows: int = 25) -> None:
    draw, lower = random.Random(number), 1000 * number
    width = len(state.relation.columns)
    updates = [
        (row(50 * number + i)[:width], lower + draw.randrange(999), -1 if i % 9 == 5 else 1)
        for i in range(50)
    ]
    table = updates_table(state, updates)
    parts = [
        part
        for start in range(0, 50, rows)
        for part in write_parts(
            stores.blob,
            keys.part_prefix(NAME),
            [table.slice(start, rows)],
            state.relation,
            layout=layout,
            description=Description(lower, lower + 1000, MIN_TIME),
            part_bytes=1 << 20,
            row_group_bytes=1024,
            stats_spec=StatsSpec(budget_bytes=100_000),
        )
    ]
    first = MIN_TIME if not number else lower
    parts = [replace(part, ref=replace(part.ref, run=0)) for part in parts]
    batch = write_batch(stores.blob, NAME, parts, first, lower + 1000, MIN_TIME)
    Machine(stores).append(NAME, token=f"t{number}", lower=lower, upper=lower + 1000, batch=batch)


def row(number: int) -> tuple[object, ...]:
    ratio = float("nan") if number % 7 == 0 else number / 3
    payload = f'{{"n":{number},"s":"text {number}","mixed":{number if number % 2 else "true"}}}'
    other = None if number % 5 == 0 else 1000 - number
    return number, other, ratio, f"title number {number:03}", payload, number % 11
