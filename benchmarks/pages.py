"""Planning a read of a shard of very many parts, cold: `python -m benchmarks.pages [PARTS ...]`.

Writes the manifests of a shard in pages. Each batch is half the one before, and all have the same
ten years. The filter is on time, and matches one part in ten thousand. All indexes are
stored. Of the pages, those are stored that hold times from a day before the filter's on. Each of
the others is a row of an index, with bounds and counts of its own and the unions of a page that is
stored; a plan that opened it would fail. Each round plans in a fresh process: the
state is at hand, blobs are read from files in the operating system's cache. Prints the medians of
wall and CPU time, the blobs and bytes that were read, and the most memory of the process.

`--count` counts the rows of the last day of the ten years (one part in 3,650): most parts by their
manifests, and those at its edges by reading them. These exist: 10,000 rows each, in files of 128
MiB with a hole before the footer.

`--everything` stores every page, a few of them different, and measures what a read of everything
takes of a driver: its plan, the inputs of Spark's tasks, and the first parts one after the other.

`--consolidate` does so for a consolidated read. Every page is stored, with keys of its own: each
batch is one run over all keys. It also measures what a task does before it reads parts, and what
Spark's driver holds: the tasks as one function has them, and as a data source sends them.
"""

import argparse
import json
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.metadata import BYTES, ORDER, ROWS, SHARD, SPEC, manifest_of
from benchmarks.plan import _most_kib
from benchmarks.prune import DAY_US, NOW_US, RELATION
from strata.decide.plan import plan_count, plan_read
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.format.columns import D, T, updates_schema
from strata.format.layout import Description
from strata.format.pages import PAGE_PARTS
from strata.format.part import encode_part
from strata.model.settings import StoreSettings
from strata.model.time import MIN_TIME
from strata.parts.manifests import StoredManifest
from strata.parts.pages import PageTarget
from strata.read.count import count_rows
from strata.state.state import Batch, Rollout, RunSummary, Spine, SpineBatch, State
from strata.store.open import Stores, open_stores

YEARS_US = 3650 * DAY_US
SHARE = 1 / 10_000  # of the parts that match
DAY = 1 / 3650  # of the parts that hold the rows of a day
SECOND_US = 1_000_000
WALKED = 300_000  # parts
DIFFERENT = 8  # pages of a batch that are stored whole
TRIED = 20  # tasks


def filter_of(share: float = SHARE) -> Filter:
    """Return a filter on time that one in `1 / share` parts may satisfy."""
    least = Literal(int(NOW_US - share * YEARS_US), "timestamp")
    expr = Call("greater_than_or_equal", (Column(1, "ts", "timestamp"), least), "boolean")
    return Filter(expr, "ts >= ...", NOW_US, NOW_US)


def timed_page(seed: int, edges: tuple[int, int]) -> pa.Table:
    """Return a page whose parts divide a stretch of time among them."""
    page = manifest_of(PAGE_PARTS, seed)
    bounds = np.linspace(*edges, PAGE_PARTS + 1).astype(np.int64)
    place = page.schema.get_field_index("s.1")
    return page.set_column(place, "s.1", _between(page["s.1"], bounds[:-1], bounds[1:]))


def _between(column: pa.ChunkedArray, low: np.ndarray, high: np.ndarray) -> pa.StructArray:
    """Return statistics of times with other bounds."""
    old = column.combine_chunks()
    known = dict(zip([f.name for f in old.type], old.flatten(), strict=True))
    kind = known["low"].type
    known |= {"low": pa.array(low).cast(kind), "high": pa.array(high).cast(kind)}
    return pa.StructArray.from_arrays(list(known.values()), names=list(known))


def rows_of(target: PageTarget, pages: int, seed: int) -> pa.Table:
    """Return the rows of an index for pages of ten years; store those that a filter may open."""
    edges = np.linspace(NOW_US - YEARS_US, NOW_US, pages + 1).astype(np.int64)
    first = int(np.searchsorted(edges, NOW_US - int(DAY * YEARS_US) - DAY_US)) - 1
    stored = [
        target.put_page(timed_page(seed + page, (edges[page], edges[page + 1])))
        for page in range(max(first, 0), pages)
    ]
    rows = stored[0].take(pa.array(np.zeros(max(first, 0), np.int64)))
    names = np.random.default_rng(seed).bytes(20 * max(first, 1)).hex()
    keys = [f"shards/{SHARD}/pages/{names[40 * n : 40 * n + 40]}.arrow" for n in range(first)]
    rows = rows.set_column(0, rows.schema.field(0), pa.array(keys, pa.string()))
    place = rows.schema.get_field_index("s.1")
    times = _between(rows["s.1"], edges[: rows.num_rows], edges[1 : rows.num_rows + 1])
    rows = rows.set_column(
        place, rows.schema.field("s.1"), times.cast(rows.schema.field("s.1").type)
    )
    return pa.concat_tables([rows, *stored])


def same_rows(target: PageTarget, pages: int, seed: int) -> pa.Table:
    """Return the rows of an index for pages that are all stored, a few of them different."""
    edges = (NOW_US - YEARS_US, NOW_US)
    stored = [target.put_page(timed_page(seed + n, edges)) for n in range(min(pages, DIFFERENT))]
    return pa.concat_tables(stored).take(pa.array(np.arange(pages) % len(stored)))


def sorted_rows(target: PageTarget, pages: int, seed: int) -> pa.Table:
    """Return the rows of an index for pages that are all stored and divide the keys among them."""
    page, parts = timed_page(seed, (NOW_US - YEARS_US, NOW_US)), pages * PAGE_PARTS
    field, place = page.schema.field("order"), page.schema.get_field_index("order")
    page = page.set_column(place, field, pa.array([RELATION.sort_ids] * PAGE_PARTS, field.type))
    stored = []
    for start in range(0, parts, PAGE_PARTS):
        numbers = range(start, start + PAGE_PARTS + 1)
        bounds = [((n << 64) // parts).to_bytes(9) for n in numbers]
        for name, keys in (("key_low", bounds[:-1]), ("key_high", bounds[1:])):
            field, place = page.schema.field(name), page.schema.get_field_index(name)
            page = page.set_column(place, field, pa.array(keys, field.type))
        stored.append(target.put_page(page))
    return pa.concat_tables(stored)


def store(
    folder: Path, parts: int, rows_of_batch: Callable[[PageTarget, int, int], pa.Table]
) -> list[dict[str, Any]]:
    """Write the manifests; return what `state_of` has to know of each."""
    target = PageTarget(open_stores(_settings(folder)).blob, SHARD, 0)
    found, left = [], parts
    while left > PAGE_PARTS:
        pages = max(left // 2 // PAGE_PARTS, 1)
        rows = rows_of_batch(target, pages, left)
        found.append({"manifest": target.put_tree(rows), "parts": pages * PAGE_PARTS})
        left -= pages * PAGE_PARTS
    return found


def state_of(manifests: list[dict[str, Any]]) -> State:
    """Return the state of a shard with one batch for each manifest; their unions are unknown."""
    batches = [
        Batch(
            n,
            n + 1,
            MIN_TIME,
            m["parts"] * ROWS,
            m["parts"] * BYTES,
            m["parts"],
            (RunSummary(m["parts"], m["parts"] * ROWS, m["parts"] * BYTES, ORDER),),
            m["manifest"],
            (("structured", m["parts"]),),
            m["parts"],
            900 * m["parts"],
        )
        for n, m in enumerate(manifests)
    ]
    slots = tuple(SpineBatch(n, n + 1, MIN_TIME, (batch,)) for n, batch in enumerate(batches))
    state = State(1, 1, SPEC, (RELATION,), since=0, upper=len(batches), spine=Spine(slots))
    return replace(state, rollout=Rollout(mode="on"))


def _settings(folder: Path) -> StoreSettings:
    return StoreSettings(blob=f"file://{folder}/blob", consensus=f"sqlite:///{folder}/state.db")


class Counting:
    """A blob store that counts what is read."""

    def __init__(self, inner: Any) -> None:
        """Count for `inner`."""
        self.inner, self.blobs, self.size = inner, 0, 0

    def get(self, key: str, *piece: int) -> bytes | None:
        """Return what the store returns."""
        data: bytes | None = self.inner.get(key, *piece)
        self.blobs, self.size = self.blobs + 1, self.size + len(data or b"")
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def plan_once(folder: Path) -> dict[str, float]:
    """Return what one plan costs in this process."""
    known = json.loads((folder / "manifests.json").read_text())
    plain, state = open_stores(_settings(folder)), state_of(known)
    blob: Any = Counting(plain.blob)
    stores: Stores = replace(plain, blob=blob)
    before = _most_kib()
    wall, cpu = time.perf_counter(), time.process_time()
    plan = plan_read(stores, state, filter=filter_of(), mode="on")
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = _most_kib()
    pages = sum(StoredManifest(plain.blob, SHARD, b).root(()).table.num_rows for b in state.batches)
    return {
        "wall": wall,
        "cpu": cpu,
        "fetched": plan.parts_fetched,
        "skipped": plan.parts_skipped,
        "blobs read": blob.blobs,
        "MB read": blob.size / 1e6,
        "rows of roots": pages,
        "before, MiB": before / 1024,
        "peak, MiB": peak / 1024,
    }


def store_edges(folder: Path) -> None:
    """Write the parts that the count of a day has to read."""
    state = _counted_state(folder)
    stores = open_stores(_settings(folder))
    plan, _ = plan_count(stores, state, filter=filter_of(DAY), by="day", mode="on")
    for ref in plan.fetched:
        path = folder / "blob" / ref.key
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_sparse(path, _edge_part())


def _edge_part() -> bytes:
    """Return a part of ROWS rows, half of them before the day that is counted."""
    kinds = {field.name: field.type for field in updates_schema(RELATION)}
    begin = NOW_US - int(DAY * YEARS_US)
    times = np.linspace(begin - SECOND_US, begin + SECOND_US, ROWS).astype(np.int64)
    spread = pa.array(times).cast(kinds["1"])
    known = {"1": spread, T: pa.array(np.zeros(ROWS, np.int64)), D: pa.array(np.ones(ROWS, int))}
    arrays = [known.get(name, pa.nulls(ROWS, kind)) for name, kind in kinds.items()]
    updates = pa.Table.from_arrays(arrays, schema=updates_schema(RELATION))
    description = Description(0, 10, MIN_TIME)
    size = SPEC.row_group_bytes
    return encode_part(
        updates, RELATION, "structured", description=description, row_group_bytes=size
    ).data


def _write_sparse(path: Path, part: bytes) -> None:
    """Write a part as a file of BYTES bytes: its footer at the end, its pages at the beginning."""
    footer = int.from_bytes(part[-8:-4], "little") + 8
    with path.open("wb") as file:
        file.write(part[:-footer])
        file.seek(BYTES - footer)
        file.write(part[-footer:])


def _counted_state(folder: Path) -> State:
    """Return the state of the shard; the parts that `manifest_of` invents have times up to 9."""
    return replace(state_of(json.loads((folder / "manifests.json").read_text())), upper=10)


def count_once(folder: Path) -> dict[str, float]:
    """Return what it costs to count the rows of a day in this process."""
    plain, state = open_stores(_settings(folder)), _counted_state(folder)
    blob: Any = Counting(plain.blob)
    before = _most_kib()
    wall, cpu = time.perf_counter(), time.process_time()
    found = count_rows(replace(plain, blob=blob), state, filter=filter_of(DAY), by="day", mode="on")
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "wall": wall,
        "cpu": cpu,
        "rows": found.count,
        "counted": found.parts_counted,
        "read": found.plan.parts_fetched,
        "skipped": found.plan.parts_skipped,
        "blobs read": blob.blobs,
        "MB read": blob.size / 1e6,
        "before, MiB": before / 1024,
        "peak, MiB": _most_kib() / 1024,
    }


class Steps:
    """The figures of a process, step by step."""

    def __init__(self) -> None:
        """Begin."""
        self.figures: dict[str, float] = {"before, MiB": _most_kib() / 1024}

    def step(self, name: str, work: Callable[[], Any]) -> Any:
        """Return what `work` returns, and note what it costs."""
        began = time.process_time()
        found = work()
        self.figures[f"{name}, CPU s"] = time.process_time() - began
        self.figures[f"{name}, peak MiB"] = _most_kib() / 1024
        return found


def read_all(folder: Path) -> dict[str, float]:
    """Return what a read of everything costs its driver, step by step."""
    from strata.spark.rows import task_parts

    known = json.loads((folder / "manifests.json").read_text())
    stores, state = open_stores(_settings(folder)), state_of(known)
    steps = Steps()
    figures, step = steps.figures, steps.step
    plan = step("plan", lambda: plan_read(stores, state))
    figures["parts"] = plan.parts_fetched
    tasks = step("tasks", lambda: [pickle.dumps(t) for t in task_parts(plan.parts, 16)])
    figures["tasks of Spark"], figures["MB of tasks"] = len(tasks), sum(map(len, tasks)) / 1e6
    figures["walked"] = step("walk", lambda: sum(1 for _ in islice(plan.each(), WALKED)))
    return figures


def _parts_of(task: Any) -> int:
    """Return how many parts a task reads; it reads their pages first."""
    reader = pickle.loads(task.reader).slice_of(task.number)
    return 0 if reader is None else sum(map(len, reader.runs))


def consolidate_all(folder: Path) -> dict[str, float]:
    """Return what a consolidated read of everything costs its driver, and a task."""
    from strata.read.stretches import stretches_of
    from strata.spark.datasource import Merged
    from strata.spark.slices import _Tasks, slice_tasks

    known = json.loads((folder / "manifests.json").read_text())
    stores, state = open_stores(_settings(folder)), state_of(known)
    steps = Steps()
    figures, step = steps.figures, steps.step
    plan = step("plan", lambda: plan_read(stores, state))
    figures["parts"] = plan.parts_fetched
    tasks = step("tasks", lambda: slice_tasks(stores, state, plan, RELATION.columns, 16))
    figures["tasks of Spark"] = len(tasks)
    together = step("one function", lambda: pickle.dumps(_Tasks.of(tasks)))
    figures["one function, MB"] = len(together) / 1e6
    sizes = step("partitions", lambda: sum(len(pickle.dumps(Merged(t))) for t in tasks))
    figures["partitions, MB"] = sizes / 1e6

    def walk() -> int:
        whole, walked = stretches_of(state, plan), 0
        for stretch in () if whole is None else whole.each():
            walked += sum(map(len, stretch.read(stores.blob)))
            if walked > WALKED:
                break
        return walked

    figures["walked"] = step("walk", walk)
    some = tasks[:: max(len(tasks) // TRIED, 1)]
    parts = step("some tasks", lambda: [_parts_of(one) for one in some])
    figures["some tasks"], figures["parts of a task"] = len(some), statistics.median(parts)
    return figures


def _measured(asked: argparse.Namespace) -> Callable[[Path], dict[str, float]]:
    if asked.consolidate:
        return consolidate_all
    return count_once if asked.count else read_all if asked.everything else plan_once


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", type=int, default=[1_000_000, 100_000_000])
    parser.add_argument("--runs", type=int, default=5)
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--everything", action="store_true")
    way.add_argument("--count", action="store_true")
    way.add_argument("--consolidate", action="store_true")
    parser.add_argument("--once", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.once:
        sys.stdout.write(json.dumps(_measured(asked)(Path(asked.once))))
        return
    for parts in asked.parts:
        with tempfile.TemporaryDirectory(prefix="strata-pages-") as name:
            folder = Path(name)
            rows = rows_of
            if asked.everything or asked.consolidate:
                rows = same_rows if asked.everything else sorted_rows
            (folder / "manifests.json").write_text(json.dumps(store(folder, parts, rows)))
            if asked.count:
                store_edges(folder)
            command = [sys.executable, "-m", "benchmarks.pages", "--once", name]
            ways = ("everything", "count", "consolidate")
            command += [f"--{way}" for way in ways if getattr(asked, way)]
            rounds = [
                json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
                for _ in range(asked.runs)
            ]
            for what in rounds[0]:
                figure = statistics.median(one[what] for one in rounds)
                print(f"{parts:>13,}  {what:18} {figure:>16,.3f}", flush=True)


if __name__ == "__main__":
    main()
