"""What a driver holds for many parts: `python -m benchmarks.driver_memory [PARTS] [--cap MIB]`.

The shard of `benchmarks.metadata`: a million parts. None of them exists, but the store says
that it does, and lists them. `--folder` keeps the shard for the next time. Each thing that a driver
does before and around its tasks runs in a process of its own, whose data may not grow beyond the
cap (`RLIMIT_DATA`; tasks are not run): plan a read with a filter and without, plan and cut a merge
of everything, choose the parts of a validation, decide a filter for a soft evaluation and draw its
sample, plan a sweep. Peak is of resident memory, imports included. An operation that does not fit
is named, and the exit code is 1.
"""

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.metadata import BYTES, SHARD, build
from benchmarks.prune import NOW_US, filters
from strata.audit.budget import in_chunks
from strata.audit.cost import shares_of
from strata.compact.plan import plan as plan_compaction
from strata.compact.run import _prepare
from strata.decide.plan import plan_read
from strata.decide.skips import decide_all
from strata.expr.filter import Filter
from strata.gc import plan as plan_sweep
from strata.machine.machine import Machine
from strata.model.settings import CompactSettings, Settings, StoreSettings
from strata.parts.manifests import StoredManifest
from strata.state.schema import SortBy, evolve
from strata.state.state import State
from strata.store import keys
from strata.store.interface import BlobInfo
from strata.store.open import Stores, open_stores

CAP_MIB: Final = 2048  # a driver's memory by default: spark.driver_memory_mib
OPERATIONS: Final[dict[str, Callable[[Stores], object]]] = {}


def operation(name: str) -> Callable[[Callable[[Stores], object]], Callable[[Stores], object]]:
    """Register what a driver does."""

    def register(work: Callable[[Stores], object]) -> Callable[[Stores], object]:
        OPERATIONS[name] = work
        return work

    return register


@operation("load the state alone")
def state_alone(stores: Stores) -> object:
    """Return the state."""
    return Machine(stores).load(SHARD)


@operation("plan a read, filter")
def plan_filtered(stores: Stores) -> object:
    """Return a plan that skips."""
    filter = Filter(filters()["three leaves"], "", NOW_US, NOW_US)
    return plan_read(stores, Machine(stores).load(SHARD), filter=filter, mode="on")


@operation("plan a read, all")
def plan_all(stores: Stores) -> object:
    """Return a plan of everything."""
    return plan_read(stores, Machine(stores).load(SHARD))


@operation("plan and cut a full merge")
def cut(stores: Stores) -> object:
    """Return how many tasks a merge of everything has; those of a stretch are held at a time."""
    return _tasks(stores, Machine(stores).load(SHARD))


@operation("the same, another order")
def cut_anew(stores: Stores) -> object:
    """Return how many tasks write everything anew in another sort order."""
    state = Machine(stores).load(SHARD)
    names = [state.relation.by_id[i].name for i in state.relation.sort_ids]
    return _tasks(stores, evolve(state, stores.clock(), change=SortBy((names[-1],)))[0])


def _tasks(stores: Stores, state: State) -> int:
    settings = CompactSettings()
    found = 0
    for request in plan_compaction(state, settings, full=True).requests:
        prepared = _prepare(stores, state, request, settings, None, {})
        found += len(prepared.rest) + sum(map(len, prepared.later()))
    return found


@operation("validate, 1 % of the parts")
def choose(stores: Stores) -> object:
    """Return the parts whose format a validation checks, after a look at all manifests."""
    from strata.audit import format as checks
    from strata.audit.batches import look

    state = Machine(stores).load(SHARD)
    looked = look(stores, state)
    assert not any(one.findings for one in looked)
    tasks = checks._tasks(stores, state, looked, "run", partial(checks.share_of, "run", 1))
    return sum(len(chunk) for chunk in checks._chunks(tasks))  # one is held at a time


@operation("soft evaluation, 1 %")
def softly(stores: Stores) -> object:
    """Return the parts that a filter would skip and soft evaluation fetches, and what it costs."""
    filter = Filter(filters()["three leaves"], "", NOW_US, NOW_US)
    found = decide_all(stores, Machine(stores).load(SHARD), filter)
    chosen = found.skipped.drawn(1, "run", 5)
    told = shares_of(found, "run", 5)
    return sum(len(found.skipped.make(some)) for some in in_chunks(chosen, None)), told


@operation("plan a sweep")
def sweep(stores: Stores) -> object:
    """Return what a sweep would delete."""
    return plan_sweep(stores, SHARD, Settings())


class Existing:
    """A blob store in which every part is."""

    def __init__(self, stores: Stores) -> None:
        """Ask the blob store of `stores` for everything else."""
        self._stores, self._blob = stores, stores.blob

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blob, name)

    def get(self, key: str, *piece: int) -> bytes | None:
        """Return one byte of a part."""
        return b"P" if f"/{keys.BlobKind.PART}/" in key else self._blob.get(key, *piece)

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        """Yield what is stored, and the parts, which are in no order."""
        yield from self._blob.list(prefix)
        if not f"{keys.shard_prefix(SHARD)}{keys.BlobKind.PART}/".startswith(prefix):
            return
        for batch in Machine(self._stores).load(SHARD).batches:
            if batch.manifest is not None:
                for piece in StoredManifest(self._blob, SHARD, batch).pieces(most=16_384):
                    for key in piece.read(["key"])["key"].to_pylist():
                        yield BlobInfo(key, BYTES, 0)


def capped(name: str, store: StoreSettings, cap: int, pipe: Any) -> None:
    """Do one operation under the cap; send CPU seconds and peak memory, or what went wrong."""
    resource.setrlimit(resource.RLIMIT_DATA, (cap, cap))
    began = time.process_time()
    try:
        stores = open_stores(store)
        existing: Any = Existing(stores)
        OPERATIONS[name](replace(stores, blob=existing))
    except MemoryError as error:
        pipe.send((None, None, type(error).__name__))
        return
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    pipe.send((time.process_time() - began, peak, ""))


def measure(name: str, store: StoreSettings, cap: int) -> tuple[float | None, int | None, str]:
    """Return CPU seconds, peak bytes and an error of one operation."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=capped, args=(name, store, cap, there))
    process.start()
    there.close()
    try:
        found: tuple[float | None, int | None, str] = here.recv()
    except EOFError:
        found = (None, None, "killed")
    process.join()
    return found


def main() -> int:
    """Print a line for each operation; return 1 if one did not fit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--cap", type=int, default=CAP_MIB, help="MiB of data of a process")
    parser.add_argument("--folder", type=Path, help="where the shard is, or is built and stays")
    parser.add_argument("--only", default="", help="operations with these words in their name")
    asked = parser.parse_args()
    kept = None if asked.folder is None else nullcontext(asked.folder)
    with kept or tempfile.TemporaryDirectory(prefix="strata-driver-") as folder:
        store = StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/consensus.db")
        wrong = 0
        if not Path(folder, "consensus.db").exists():
            context = multiprocessing.get_context("spawn")
            builder = context.Process(target=partial(_build, store, asked.parts))
            builder.start()
            builder.join()
            wrong = builder.exitcode or 0
        print(f"{asked.parts:,} parts, data of a process at most {asked.cap} MiB")
        for name in (name for name in OPERATIONS if asked.only in name):
            seconds, peak, error = measure(name, store, asked.cap << 20)
            if error or seconds is None or peak is None:
                wrong = 1
                print(f"{name:28} does not fit: {error}", flush=True)
            else:
                print(f"{name:28} {seconds:8.2f} CPU s {peak >> 20:8,} MiB", flush=True)
    return wrong


def _build(store: StoreSettings, parts: int) -> None:
    build(open_stores(store), parts)


if __name__ == "__main__":
    sys.exit(main())
