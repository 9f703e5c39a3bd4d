"""The process of one contender of `benchmarks.peers`: it does what it is asked, and measures it.

Each contender has a process of its own for the whole run, so that its memory and bytes are its own,
Java's and other children's included. An answer is looked at outside the time that is measured.
"""

import gc
import importlib.metadata
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import psutil
import pyarrow as pa

from benchmarks.peers_contenders import Contender, Delta, Iceberg
from benchmarks.peers_data import SHAPES, Condition, digest
from benchmarks.peers_engines import DuckDb, Spark, Strata, StrataBoth

CONTENDERS: Final[dict[str, type[Contender]]] = {
    "Strata": Strata,
    "Strata, both layouts": StrataBoth,
    "PyIceberg": Iceberg,
    "delta-rs": Delta,
    "DuckDB": DuckDb,
    "Spark": Spark,
}


@dataclass(frozen=True)
class Took:
    """What one operation took. Units: seconds and bytes, of the process and all below it."""

    cpu: float
    wall: float
    read: int  # asked of the operating system, whether it had them in memory or not
    written: int
    peak: int  # resident at once, code included


@dataclass(frozen=True)
class Done:
    """An operation's answer; `took` is None where there are no words for it."""

    answer: Any
    took: Took | None


@dataclass(frozen=True)
class Asked:
    """An operation on a table, or on all of its conditions in turn."""

    operation: str
    folder: Path
    shape: str
    paths: Sequence[Path] = ()
    conditions: Sequence[Sequence[Condition]] = ()


def _processes() -> list[psutil.Process]:
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def _cpu() -> float:
    """Return the CPU time of all; that of this process is finer than the kernel's ticks."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = time.process_time() + ended.ru_utime + ended.ru_stime
    for child in _processes()[1:]:
        used = child.cpu_times()
        total += used.user + used.system + used.children_user + used.children_system
    return total


def _moved() -> tuple[int, int]:
    """Return the bytes that the processes read and wrote so far."""
    read = written = 0
    for process in _processes():
        counters = process.io_counters()
        read, written = read + counters.read_chars, written + counters.write_chars
    return read, written


def _forget_peaks() -> None:
    """Let the kernel count peaks anew."""
    for process in _processes():
        Path(f"/proc/{process.pid}/clear_refs").write_text("5", "ascii")


def _peak() -> int:
    total = 0
    for process in _processes():
        status = Path(f"/proc/{process.pid}/status").read_text("ascii", "replace")
        lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
        total += sum(int(line.split()[1]) * 1024 for line in lines)
    return total


def measured(call: Callable[[], Any]) -> tuple[Any, Took]:
    """Return what a call returns, and what it took."""
    gc.collect()
    _forget_peaks()
    before, cpu, began = _moved(), _cpu(), time.perf_counter()
    answer = call()
    wall, cpu, after = time.perf_counter() - began, _cpu() - cpu, _moved()
    return answer, Took(cpu, wall, after[0] - before[0], after[1] - before[1], _peak())


def perform(contender: Contender, asked: Asked) -> Done:
    """Do one operation."""
    each: dict[str, Callable[[Sequence[Condition]], Any]] = {
        "plan": contender.plan,
        "count": contender.count,
        "rows": lambda conditions: list(contender.rows(conditions)),
    }
    if (ask := each.get(asked.operation)) is not None:
        found, took = measured(lambda: [ask(conditions) for conditions in asked.conditions])
        if asked.operation == "rows":
            batches = [batch for some in found for batch in some]
            return Done(digest(batches, contender.shape), took)
        return Done(found, took)
    return _whole(contender, asked)


def _whole(contender: Contender, asked: Asked) -> Done:
    """Do an operation on the whole table."""
    if asked.operation == "digest":  # not measured: the check of what is stored
        return Done(digest(list(contender.rows([])), contender.shape), None)
    if asked.operation == "sizes":
        return Done(contender.sizes(), None)
    calls: dict[str, Callable[[], Any]] = {
        "ingest": lambda: contender.ingest(asked.paths),
        "append": lambda: [contender.append(path) for path in asked.paths],
        "upsert": lambda: contender.upsert(asked.paths[0]),
        "full": contender.full,
        "compact": contender.compact,
    }
    answer, took = measured(calls[asked.operation])
    return Done(answer if asked.operation == "full" else None, None if answer is False else took)


def work(name: str, pipe: Connection) -> None:
    """Answer until None is asked; the first thing said is the contender's version."""
    pa.set_cpu_count(2)
    kind = CONTENDERS[name]
    pipe.send(f"{kind.version} {importlib.metadata.version(kind.version)}")
    while (asked := pipe.recv()) is not None:
        try:
            pipe.send(perform(kind(asked.folder, SHAPES[asked.shape]), asked))
        except Exception as error:  # the run says which contender failed, and goes on without it
            pipe.send(error)
    Spark.opened.close()
