"""What an audit costs at 1, 10 and 100 %: requests, bytes and seconds, measured and foretold.

    python benchmarks/audit.py [PARTS] [ROUNDS]

A shard of PARTS parts of 1,000 rows in memory, one filter that skips nine tenths of them. The judge
reads parts as Spark's tasks do, without Spark: its start would hide what is measured. Every blob
that is read is counted. The shares take turns; times are medians of CPU seconds.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from strata.audit.cost import SHARES
from strata.audit.run import Check, Scope, ValidationReport, validate_shard
from strata.audit.soft import Evaluated
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.format.columns import updates_schema
from strata.format.layout import Description
from strata.format.manifest import PartRef
from strata.machine.machine import Machine
from strata.model.runner import serial
from strata.model.settings import StoreSettings
from strata.model.spec import parse_spec
from strata.model.time import MIN_TIME
from strata.parts.write import write_batch, write_parts
from strata.read.scan import read_updates
from strata.state.state import State
from strata.store import keys
from strata.store.open import Stores, open_stores

ROWS = 1000
NAME = "audited"
SPEC = {
    "name": NAME,
    "columns": [{"name": "id", "type": "int64"}, {"name": "note", "type": "string"}],
    "key": ["id"],
    "rollout": {"mode": "soft"},
}


@dataclass
class Counted:
    """A blob store that counts what is read of it."""

    inner: Any
    requests: int = 0
    size_bytes: int = field(default=0)

    def get(self, key: str, *range_: int) -> bytes | None:
        """Return what the store returns."""
        data: bytes | None = self.inner.get(key, *range_)
        self.requests += 1
        self.size_bytes += len(data or b"")
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def filled(parts: int) -> Stores:
    """Return stores with one shard: one batch of `parts` parts, by id."""
    stores = open_stores(StoreSettings("memory://audit", "memory://audit"))
    state = Machine(stores).create(parse_spec(SPEC))
    written = [part for number in range(parts) for part in write_parts(
        stores.blob, keys.part_prefix(NAME), [rows_of(state, number)], state.relation,
        layout="structured", description=Description(0, 1000, MIN_TIME), part_bytes=1 << 24,
        row_group_bytes=1 << 23, stats_spec=state.spec.stats,
    )]  # fmt: skip
    one_run = [replace(part, ref=replace(part.ref, run=0)) for part in written]
    batch = write_batch(stores.blob, NAME, one_run, MIN_TIME, 1000, MIN_TIME)
    Machine(stores).append(NAME, token="t", lower=0, upper=1000, batch=batch)
    return stores


def rows_of(state: State, number: int) -> pa.Table:
    """Return the rows of one part."""
    ids = np.arange(number * ROWS, (number + 1) * ROWS)
    notes = pa.array([f"note {i} {'x' * (i % 90)}" for i in ids.tolist()])
    ones = pa.array(np.ones(ROWS, np.int64))
    schema = updates_schema(state.relation)
    return pa.Table.from_arrays([pa.array(ids), notes, ones, ones], schema=schema)


def audit(stores: Stores, filter: Filter, share: int, run: str) -> tuple[ValidationReport, float]:
    """Return one validation at a share, and the CPU seconds that it took."""
    state = Machine(stores).load(NAME)
    bound = filter.expr.args[1].value  # type: ignore[union-attr]

    def judge(_: Filter, refs: Sequence[PartRef], *__: Any) -> list[Evaluated]:
        found = []
        for ref in refs:
            for _instant in range(2):  # Spark counts the rows, then judges them: two readings
                ids = read_updates(stores, state, ref)["1"].to_numpy()
            found.append(Evaluated(ref.key, len(ids), int((ids > bound).sum())))
        return found

    began = time.process_time()
    report = validate_shard(
        stores,
        NAME,
        [Check("high", filter)],
        judge,
        serial,
        Scope(run, share, check_format=False),
    )
    return report, time.process_time() - began


def main() -> None:
    """Print a line for each share."""
    parts = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    stores = filled(parts)
    expr = Call(
        "greater_than",
        (Column(1, "id", "long"), Literal(parts * ROWS * 9 // 10, "long")),
        "boolean",
    )
    filter = Filter(expr, "id > ...", 0, 0)
    counted = Counted(stores.blob)
    watched = replace(stores, blob=counted)  # type: ignore[arg-type]
    audit(watched, filter, 100, "warm")
    seen: dict[int, list[tuple[int, int, float]]] = {share: [] for share in SHARES}
    told: dict[int, Any] = {}
    for number in range(rounds):
        for share in SHARES:
            counted.requests = counted.size_bytes = 0
            report, seconds = audit(watched, filter, share, f"run {number}")
            seen[share].append((counted.requests, counted.size_bytes, seconds))
            told[share] = (next(c for c in report.costs if c.percent == share), report)
    print("share  parts  requests   MB read   CPU s   foretold at 100 %: parts, requests, MB, s")
    full = told[100][1].costs
    for share, foretold in zip(SHARES, full, strict=True):
        requests, size, seconds = (median(column) for column in zip(*seen[share], strict=True))
        print(
            f"{share:4} % {told[share][0].parts:6} {requests:9.0f} {size / 1e6:9.2f} {seconds:7.3f}"
            f"   {foretold.parts}, {foretold.requests}, {foretold.size_bytes / 1e6:.2f},"
            f" {foretold.seconds:.3f}"
        )


if __name__ == "__main__":
    main()
