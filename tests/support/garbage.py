"""A shard in memory with a clock that tests set, and who writes, compacts, reads and sweeps it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import pyarrow as pa

from strata import gc
from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.format.columns import updates_schema
from strata.format.layout import Description
from strata.machine.machine import Machine
from strata.maintain.backfill import backfill_shard
from strata.maintain.trim import trim_shard
from strata.model.settings import GcSettings, Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.model.time import MIN_TIME
from strata.parts.manifests import load_manifest_of
from strata.parts.write import write_batch, write_parts
from strata.read.scan import scan
from strata.state.state import Batch, State
from strata.store import keys
from strata.store.memory import MemoryBlob, MemoryConsensus
from strata.store.open import Stores, open_stores

HOUR = 3_600_000
SPEC = parse_spec(
    {
        "name": "s",
        "columns": [{"name": "id", "type": "int64"}, {"name": "text", "type": "string"}],
        "key": ["id"],
        "part_bytes": 2048,
    }
)
SETTINGS = Settings(gc=GcSettings(grace_ms=HOUR))
_numbers = count()


@dataclass
class World:
    """One shard and its twin: the ids that were ever committed."""

    time: list[int] = field(default_factory=lambda: [1_000_000_000_000])  # one for all who share it
    ids: list[int] = field(default_factory=list)
    wrap: Callable[[Stores], Stores] = lambda stores: stores  # where a store fails

    def __post_init__(self) -> None:
        self.open()
        Machine(self.inner).create(SPEC)

    def open(self) -> None:
        name = f"memory://garbage-{next(_numbers)}"
        self.inner = open_stores(StoreSettings(name, name), clock=lambda: self.now_ms)
        self.stores = self.wrap(self.inner)

    def copy(self, wrap: Callable[[Stores], Stores]) -> "World":
        """Return another shard that is the same in all."""
        new = World.__new__(World)
        new.time, new.ids, new.wrap = [*self.time], [*self.ids], wrap
        new.open()
        new.blob.live.update(self.blob.live)
        assert isinstance(new.inner.consensus, MemoryConsensus)
        assert isinstance(self.inner.consensus, MemoryConsensus)
        new.inner.consensus.log.update({k: [*v] for k, v in self.inner.consensus.log.items()})
        return new

    def healthy(self) -> "World":
        """Return somebody else's view of the same shard, to whom nothing happens."""
        other = World.__new__(World)
        other.__dict__.update(self.__dict__)
        other.stores = self.inner
        return other

    @property
    def now_ms(self) -> int:
        return self.time[0]

    @now_ms.setter
    def now_ms(self, value: int) -> None:
        self.time[0] = value

    @property
    def machine(self) -> Machine:
        return Machine(self.stores, sleep=lambda _: None)

    @property
    def blob(self) -> MemoryBlob:
        assert isinstance(self.inner.blob, MemoryBlob)
        return self.inner.blob

    @property
    def state(self) -> State:
        return Machine(self.inner).load("s")

    def write(self, ids: list[int], state: State | None = None, *, layout: str = "both") -> Batch:
        """Write a batch as somebody does who began when the shard was in `state`."""
        began = state or self.state
        lower = max(began.upper, 0)
        columns = [
            sorted(ids),
            [f"row {i}" for i in sorted(ids)],
            [lower] * len(ids),
            [1] * len(ids),
        ]
        schema = updates_schema(began.relation)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        parts = write_parts(
            self.stores.blob,
            keys.part_prefix("s", began.generation),
            [pa.Table.from_arrays(arrays, schema=schema)],
            began.relation,
            layout=layout,
            description=Description(lower, lower + 10, MIN_TIME),
            part_bytes=SPEC.part_bytes,
            row_group_bytes=2048,
            stats_spec=SPEC.stats,
        )
        return write_batch(self.stores.blob, "s", parts, lower, lower + 10, MIN_TIME)

    def commit(self, batch: Batch, ids: list[int], token: str = "") -> None:
        token = token or f"t{batch.upper}"
        bounds = {"lower": batch.lower, "upper": batch.upper}
        done = self.machine.append("s", token=token, batch=batch, **bounds)
        if not done.already_committed:
            self.ids += ids

    def append(self, *ids: int) -> Batch:
        batch = self.write(list(ids))
        self.commit(batch, list(ids))
        return batch

    def compact(self) -> None:
        compact_shard(self.stores, "s", Settings(), full=True)

    def backfill(self) -> None:
        backfill_shard(self.stores, "s")

    def trim(self, budget_bytes: int) -> None:
        trim_shard(self.stores, "s", budget_bytes=budget_bytes)

    def sweep(self, hours: float = 1) -> gc.SweepReport:
        self.now_ms += int(hours * HOUR)
        return gc.collect(self.stores, "s", SETTINGS)

    def settle(self) -> int:
        """Sweep until everything is gone that is dead now; return how many blobs went."""
        return sum(self.sweep().deleted for _ in range(2))

    def read(self, state: State | None = None, as_of: int | None = None) -> list[int]:
        """Return the ids that a reader gets who planned when the shard was in `state`."""
        found = state or self.state
        batches = scan(self.inner, found, plan_read(self.inner, found, as_of=as_of))
        return sorted(i for batch in batches for i in batch.column("id").to_pylist())

    def check(self) -> None:
        assert self.read() == sorted(self.ids)

    def stored(self, *kinds: str) -> list[str]:
        found = [info.key for info in self.blob.list("")]
        return [k for k in found if not kinds or keys.parse_key(k).kind in kinds]

    def state_parts(self) -> list[str]:
        """Return the keys of the parts of the newest state."""
        found: list[str] = []
        for batch in self.state.batches:
            if batch.manifest is not None:
                found += load_manifest_of(self.inner.blob, "s", batch)["key"].to_pylist()
        return found
