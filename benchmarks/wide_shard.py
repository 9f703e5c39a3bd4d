"""Which JSON paths a shard keeps at ingest and at a merge: `python -m benchmarks.wide_shard`.

Events of 2,000 paths, a batch a day; ten paths in every other event grow from day to day. Filters
of the log ask for five of these. Then more days come in, and all is merged; the ids of two days lie
between each other, so that a merge writes each part anew. Paths are chosen by frequency, and by
worth, in turns A B A B. Each line has the parts kept by look-ups of the five paths and of the other
five, bytes of the manifests, and CPU time.
"""

import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import orjson

from benchmarks.wide_events import event
from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.history import usage
from strata.history.metrics import Metrics
from strata.ingest.engine import ingest
from strata.machine.machine import Machine
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.stats.worth import NO_WORTH
from strata.store.open import Stores, open_stores

PATHS, DAYS, EVENTS, BUDGET = 2000, 5, 40, 16 << 10
SPEC = {
    "name": "wide",
    "columns": [{"name": "id", "type": "int64"}, {"name": "doc", "type": "jsonb"}],
    "key": ["id"],
    "source": {"format": "jsonl", "verify": "never"},
    "stats": {"budget_bytes": BUDGET, "keep": []},
    "part_bytes": 1 << 18,
    "write_format": "structured",
}
TURNS = 2
NUMBERS = count()


def day(number: int) -> bytes:
    """Return the events of a day; ten paths of every other event say when it was."""
    draw = random.Random(number)
    lines, first = [], 2 * EVENTS * (number // 2) + number % 2
    for n in range(EVENTS):
        found = event(PATHS, draw)
        if n % 2:
            found["late"] = {f"q{k}": 1000 * number + 10 * n + k for k in range(10)}
        lines.append(orjson.dumps({"id": first + 2 * n, "doc": found}))
    return b"\n".join(lines) + b"\n"


def looked_up(path: int, number: int) -> Filter:
    """Return the filter for a value that stands in one event of a day."""
    arguments = (Column(2, "doc", "string"), Literal(f"$.late.q{path}", "string"))
    text = Call("get_json_object", arguments, "string")
    value = Literal(1000 * number + 10 + path, "long")
    expr = Call("equal_to", (Call("cast", (text,), "long"), value), "boolean")
    return Filter(expr, f"q{path} {number}", 0, 0)


@contextmanager
def by_frequency() -> Iterator[None]:
    """Choose paths as if nothing was known beside the rows."""
    with (
        patch("strata.ingest.engine.paths_used", lambda *_: {}),
        patch("strata.compact.run.merged_worth", lambda *_: NO_WORTH),
    ):
        yield


def kept(stores: Stores, paths: range) -> str:
    """Return how many parts look-ups keep, on average, and how many there are."""
    state = Machine(stores).load("wide")
    filters = [looked_up(path, number) for path in paths for number in (1, 2 * DAYS - 1)]
    plans = [plan_read(stores, state, filter=one, mode="on") for one in filters]
    parts = sum(len(plan.parts) for plan in plans) / len(plans)
    return f"{parts:.1f} of {plans[0].parts_total}"


def manifest_bytes(stores: Stores) -> int:
    """Return the stored size of all manifests."""
    batches = Machine(stores).load("wide").batches
    return sum(len(stores.blob.get(b.manifest) or b"") for b in batches if b.manifest)


def turn(name: str, days: list[bytes], root: Path) -> None:
    """Fill a shard, log filters, fill it more, merge it, and print a line for each step."""
    store = StoreSettings(*[f"memory://wide-{next(NUMBERS)}"] * 2, str(root))
    settings, stores = Settings(store=store), open_stores(store, lambda: 1_000_000)
    Machine(stores).create(parse_spec(SPEC))
    took = [0.0, 0.0]

    def fill(numbers: range) -> None:
        for number in numbers:
            file = root / f"{number}.jsonl"
            file.write_bytes(days[number])
            began = time.process_time()
            ingest(stores, settings, "wide", paths=[str(file)], lower=number, upper=number + 1)
            took[0] += time.process_time() - began

    fill(range(DAYS))
    state = Machine(stores).load("wide")
    for path in range(5):
        one = looked_up(path, 3)
        plan = plan_read(stores, state, filter=one, mode="on")
        usage.record(stores, state, plan, one, settings.usage, Metrics())
    fill(range(DAYS, 2 * DAYS))
    for step in ("ingested", "merged"):
        if step == "merged":
            began = time.process_time()
            compact_shard(stores, "wide", settings, full=True)
            took[1] = time.process_time() - began
        sys.stdout.write(
            f"{name}, {step}: asked {kept(stores, range(5))}, others {kept(stores, range(5, 10))}, "
            f"{manifest_bytes(stores):,} bytes, {took[step == 'merged']:.2f} s\n"
        )


def main() -> None:
    """Print two turns of each way."""
    days = [day(number) for number in range(2 * DAYS)]
    with TemporaryDirectory() as root:
        for _ in range(TURNS):
            with by_frequency():
                turn("frequency", days, Path(root))
            turn("worth", days, Path(root))


if __name__ == "__main__":
    main()
