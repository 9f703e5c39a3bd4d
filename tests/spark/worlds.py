"""Random shards for the end-to-end law: every kind of type, several layouts, relations, budgets.

A world is a shard on disk, made from a seed. Its parts hold values of a narrow window each, so
that filters have something to prove, and poison: the limits of types, NaN, infinities, nulls,
texts that no cast takes, JSON paths of mixed kinds.
"""

import datetime as dt
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from strata.format.columns import updates_schema
from strata.format.encodings import arrow_type
from strata.machine.machine import Machine
from strata.maintain.backfill import Selection, backfill_shard
from strata.maintain.schema import change_schema
from strata.model.schema import Column, Relation
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import StatsSpec
from strata.model.types import ColumnType, Kind, parse_type
from strata.parts.write import write_batch, write_parts
from strata.state.schema import AddColumn, Change, DropColumn, RenameColumn, WidenColumn
from strata.state.state import State
from strata.stats.members import wanted_places
from strata.stats.nested import places
from strata.stats.pairs import wanted_pairs
from strata.store import keys
from strata.store.open import Stores, open_stores
from strata.updates.consolidate import consolidate
from strata.updates.order import sort_updates
from tests.formats.every_type import TYPES
from tests.formats.logical import stored
from tests.support.shards import let_skip

NAME: Final = "world"
PARTS, ROWS = 8, 6  # a batch, a part
PAIRED: Final = 40  # pairs whose differences are recorded: of those that a relation has
DAY_US: Final = 86_400_000_000
DAY: Final = 15_706  # 2013-01-01
RECORD: Final = "record<i: int32, s: string, at: timestamptz, in: record<d: float64, n: int64>>"
NESTED: Final = ("list<int32>", "map<int32>", "list<record<k: string, x: int32>>", "list<string>")
# Often pruned by, so often there; the others come one or two a world.
COMMON: Final = ("int32", "int64", "float64", "numeric(10,2)", "date", "timestamptz", "timestamp",
                 "string", "bool", "jsonb", RECORD, *NESTED)  # fmt: skip
RARE: Final = tuple(text for text in TYPES if text not in (*COMMON, "record<>"))
# Fields of records and keys of JSON whose values may be recorded, beside whole columns
MEMBERS: Final = ("n", "s", "m", "b", "o.x", "none", "i", "k", "x", "in.n")
INTEGERS: Final = ("int16", "int32", "int64")
FLOATS: Final = ("float32", "float64")
# What parts hold beside the edges in `TYPES`, in order.
USUAL: Final[dict[str, list[Any]]] = {
    **{kind: [-7, -3, -1, 0, 1, 2, 5, 9, 12, 60, 100, 2013] for kind in INTEGERS},
    **{kind: [-7.5, -1.0, 0.0, 0.5, 1.0, 2.5, 9.0, 100.25, 1e9] for kind in FLOATS},
    "numeric(10,2)": ["-99999999.99", "-1.50", "0.00", "0.01", "2.50", "99.99", "99999999.99"],
    "date": [DAY + n for n in (-400, -1, 0, 1, 5, 30, 31, 58, 59, 365)],
    "timestamptz": [DAY * DAY_US + n for n in (-1, 0, 1, DAY_US // 2, DAY_US, 31 * DAY_US, 10**15)],
    "timestamp": [DAY * DAY_US + n for n in (-1, 0, 1, DAY_US // 2, DAY_US, 31 * DAY_US, 10**15)],
    "string": ["", "0", "10", "12", "2013-01-05", "2013-01-05 12:00:00", "9", "AA", "a", "aa", "ab",
               "b", "k1", "k2", "nan", "true", "z", "😀", "😁", "😂", "🤖"],
    "bool": [False, True],
    "numeric": ["-101", "-1", "0", "0.5", "12"],
}  # fmt: skip


@dataclass(frozen=True)
class World:
    """A shard that was written from a seed."""

    seed: int
    settings: Settings

    @property
    def stores(self) -> Stores:
        return open_stores(self.settings.store)

    @property
    def state(self) -> State:
        return Machine(self.stores).load(NAME)


def build(folder: Path, seed: int) -> World:
    """Write a shard: rows without statistics, then both encodings, then columns, then evolved."""
    rng = random.Random(seed)
    settings = Settings(StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/consensus.db"))
    world = World(seed, settings)
    machine = Machine(world.stores)
    machine.create(_spec(_relation(rng)))
    _append(world, 0, "row", 10_000, rng)
    if rng.random() < 0.5:
        known = _stats(world.state.relation, 0, seed)
        some = Selection(parts_max=PARTS // 2, sets=known.sets, blooms=known.blooms)
        backfill_shard(world.stores, NAME, some)
    _append(world, 1, "both", rng.choice((100, 300, 10_000)), rng)
    for change in _changes(world.state.relation, rng):
        change_schema(machine, NAME, change)
    _append(world, 2, "structured", rng.choice((0, 40, 200, 1024)), rng)
    _append(world, 3, "structured", 100_000, rng)
    let_skip(world.stores, NAME)
    return world


def _spec(relation: Relation) -> Any:
    from tests.support.stored import spec_of

    return replace(spec_of(relation, NAME), part_bytes=1 << 20, row_group_bytes=1 << 20)


def _relation(rng: random.Random) -> Relation:
    chosen = [*COMMON, *rng.sample(COMMON, 4), *rng.sample(RARE, 5)]
    columns = [Column(1, "id", parse_type("int64"), nullable=False)]
    columns += [Column(i, f"c{i}", parse_type(text)) for i, text in enumerate(chosen, 2)]
    order = tuple(rng.sample(range(1, 6), 3)) if rng.random() < 0.5 else ()
    return Relation(0, tuple(columns), key=(1, 2), order=order)


def _changes(relation: Relation, rng: random.Random) -> list[Change]:
    """Return changes of the relation that are legal in this order."""
    free = [c for c in relation.columns if c.id not in (*relation.sort_ids, *relation.key)]
    found: list[Change] = [AddColumn("added", parse_type("int32"), default=5)]
    found.append(AddColumn("later", parse_type("timestamptz")))
    wider = {"int16": "int32", "int32": "int64", "float32": "float64", "uint8": "uint32"}
    for column in rng.sample(free, min(4, len(free))):
        if str(column.type) in wider:
            found.append(WidenColumn(column.name, parse_type(wider[str(column.type)])))
        elif rng.random() < 0.3:
            found.append(DropColumn(column.name))
        else:
            found.append(RenameColumn(column.name, f"{column.name}_new"))
    return found


def _append(world: World, number: int, layout: str, budget: int, rng: random.Random) -> None:
    """Append a batch of parts, each a run of its own."""
    state, blob = world.state, world.stores.blob
    lower, upper = 1000 * number, 1000 * number + 1000
    from strata.format.layout import Description
    from strata.model.time import MIN_TIME

    parts = []
    for run in range(PARTS):
        table = random_updates(state.relation, lower, (number * PARTS + run) * ROWS, ROWS, rng)
        rows = consolidate(sort_updates(table, state.relation), state.relation)
        parts += write_parts(
            blob,
            keys.part_prefix(NAME),
            [rows],
            state.relation,
            layout=layout,
            description=Description(lower, upper, MIN_TIME),
            part_bytes=1 << 20,
            row_group_bytes=1 << 20,
            stats_spec=_stats(state.relation, budget, number),
            run=run,
        )
    first = MIN_TIME if number == 0 else lower
    batch = write_batch(blob, NAME, parts, first, upper, MIN_TIME)
    Machine(world.stores).append(NAME, token=f"t{number}", lower=first, upper=upper, batch=batch)


def _stats(relation: Relation, budget: int, seed: int) -> StatsSpec:
    """Return a budget, and sets or bloom filters of every other place."""
    rng = random.Random(seed)
    names = [c.name for c in relation.columns]
    names += [f"{c.name}.{key}" for c in relation.columns for key in MEMBERS]
    known = [n for n in names if wanted_places(relation, StatsSpec(sets=(n,)))]
    sets, blooms = (tuple(n for n in known if rng.random() < 0.4) for _ in range(2))
    pairs = _pairs(relation)
    pairs = tuple(random.Random(seed + 1).sample(pairs, min(len(pairs), PAIRED)))
    return StatsSpec(budget_bytes=budget, sets=sets, blooms=blooms, bloom_bits=12, pairs=pairs)


@cache
def _pairs(relation: Relation) -> tuple[tuple[str, str], ...]:
    """Return the names of places whose differences can be recorded, in order."""
    names = [c.name for c in relation.columns]
    for column in relation.columns:
        inside = {".".join(place.names) for place in places(column.type)}
        names += [f"{column.name}.{key}" for key in MEMBERS if key in inside]
    found = permutations(names, 2)
    return tuple(some for some in found if wanted_pairs(relation, StatsSpec(pairs=(some,))))


def random_updates(
    relation: Relation, lower: int, first_id: int, rows: int, rng: random.Random, span: int = 1000
) -> pa.Table:
    """Return updates of consecutive ids, within `span` of times from `lower` on."""
    arrays = [
        pa.array([first_id + n for n in range(rows)], pa.int64())
        if column.name == "id"
        else _column(
            column.type, rows, nullable=column.nullable and column.id not in relation.key, rng=rng
        )
        for column in relation.columns
    ]
    times = [lower + rng.randrange(span) for _ in range(rows)]
    diffs = [rng.choice((1, 1, 1, 2, -1)) for _ in range(rows)]
    arrays += [pa.array(times, pa.int64()), pa.array(diffs, pa.int64())]
    return pa.Table.from_arrays(arrays, schema=updates_schema(relation))


def _column(kind: ColumnType, rows: int, *, nullable: bool, rng: random.Random) -> pa.Array:
    """Return the values of a column in one part: of a window, some poison, some nulls."""
    draw = _documents(rng) if kind.kind is Kind.JSONB else _window(kind, rng)
    values = [draw() for _ in range(rows)]
    if nullable and rng.random() < 0.35:
        share = rng.choice((0.2, 0.2, 1.0))
        values = [None if rng.random() < share else value for value in values]
    return pa.array([stored(value, kind) for value in values], arrow_type(kind))


def _window(kind: ColumnType, rng: random.Random) -> Callable[[], Any]:
    """Return a draw from a few neighbours among the usual values, or among the edges."""
    text = str(kind)
    if text in (*NESTED, RECORD):
        return _nested(kind, rng)
    if text == "string" and rng.random() < 0.4:
        return _alike(rng)
    usual, edges = USUAL.get(text, TYPES.get(text, [])), TYPES.get(text, USUAL.get(text, []))
    pool = usual if rng.random() < 0.8 else edges
    start = rng.randrange(len(pool))
    few = pool[start : start + rng.choice((1, 2, 3, 5))]
    if rng.random() < 0.1:
        few = [*few, rng.choice(edges)]
    return lambda: rng.choice(few)


def _alike(rng: random.Random) -> Callable[[], str]:
    """Return a draw of texts that are written alike, as numbers, days or times; some are not."""
    start, days = rng.choice((-7, 0, 5, 9, 98, 2**31 - 4)), rng.randrange(-400, 400)
    writes: tuple[Callable[[int], str], ...] = (
        str,
        lambda n: f"{n:05}",
        lambda n: f"{n}.{abs(n) % 4}5",
        lambda n: str(dt.date(2013, 1, 5) + dt.timedelta(days=n % 40 + days)),
        lambda n: f"2013-01-{5 + n % 20:02} 1{n % 10}:00:00",
        lambda n: f"2013-01-{5 + n % 20:02}T05:0{n % 10}:00Z",
        lambda n: f"{1 + n % 28:02}/{1 + n % 12:02}/2013",
        lambda n: f"2013{1 + n % 12:02}{1 + n % 28:02}",
    )
    written, odd = rng.choice(writes), rng.choice((0.0, 0.0, 0.0, 0.1))
    poison = rng.choice(("", "-0", "1e3", "2013-02-29", "13/13/2013", " 5"))
    return lambda: poison if rng.random() < odd else written(start + rng.randrange(4))


def _nested(kind: ColumnType, rng: random.Random) -> Callable[[], Any]:
    """Return a draw of records, lists or maps: what is inside comes from windows, too."""
    none = rng.choice((0.0, 0.0, 0.2))
    if kind.kind is Kind.RECORD:
        draws = [_nested(field.type, rng) for field in kind.fields]
        return lambda: [None if rng.random() < none else draw() for draw in draws]
    if kind.element is None:
        return _window(kind, rng)
    inner, most = _nested(kind.element, rng), rng.choice((0, 1, 2, 2, 4))
    least = rng.randrange(most + 1)

    def items() -> list[Any]:
        count = rng.randint(least, most)
        return [None if rng.random() < none else inner() for _ in range(count)]

    if kind.kind is Kind.LIST:
        return items
    names = rng.sample(("a", "b", "k1", "k2", "z"), rng.randint(1, 4))
    return lambda: [[k, v] for k, v in zip(sorted(rng.sample(names, len(names))), items())]  # noqa: B905


def _documents(rng: random.Random) -> Callable[[], str]:
    """Return a draw of JSON texts: one kind a path as a rule, any kind as poison."""
    low = rng.choice((-5, 0, 10, 1000, 2**53))
    mixed = rng.random() < 0.2
    missing = rng.choice((0.0, 0.0, 0.2, 1.0))
    day = rng.randrange(1, 28)

    def one() -> str:
        whole = low + rng.randrange(4)
        odd = [1, "x", True, None, [1], {"y": 1}, 2.5, "7", 1e300, 2**70]
        made = {
            "n": rng.choice(odd) if mixed else whole,
            "f": whole + 0.5,
            "s": rng.choice(odd) if mixed else f"k{whole}",
            "at": f"2013-01-{day:02}T0{rng.randrange(9)}:00:00Z",
            "t": str(whole),
            "b": rng.random() < 0.5,
            "o": {"x": whole, "y": {"z": f"a{whole % 3}"}},
            "a": [whole, {"x": 1}],
            "m": rng.choice(odd),
        }
        kept = {key: value for key, value in made.items() if rng.random() >= missing}
        value = rng.choice(odd) if rng.random() < 0.02 else kept
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    return one
