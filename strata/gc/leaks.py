"""The leak detector: compares what is stored with what should be, in both directions.

A *leak* is a blob that should be gone. It is dead behind the last sweep's fence and still there, or
its key is not one of ours, or its shard does not exist. A *gap* is worse: the newest state names a
blob that is not stored.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from strata.errors import InvalidRequest
from strata.gc.live import LiveNumbers
from strata.gc.reach import all_named
from strata.gc.sweep import SweepReport, of_newest, survey
from strata.gc.verdicts import Fate, JudgedBlob
from strata.machine.machine import Machine
from strata.model.settings import Settings
from strata.store.keys import parse_key, shard_prefix
from strata.store.open import Stores
from strata.store.retry import relisted, retry

ROOT: Final = "shards/"


@dataclass(frozen=True)
class LeakReport:
    """The leaks and gaps among the blobs of some shards. Units: bytes."""

    shards: tuple[SweepReport, ...]
    missing: tuple[str, ...]  # named by the newest states but not stored
    overdue: tuple[JudgedBlob, ...]  # dead behind the current fence, and still stored
    strays: tuple[JudgedBlob, ...]  # blobs of no shard, and keys that are not ours

    @property
    def clean(self) -> bool:
        """Return whether nothing is wrong."""
        return not (self.missing or self.overdue or self.strays)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        leaks = (*self.overdue, *self.strays)
        kept = ("shard", "generation", "fence", "states", "held_by")
        counts = [f"{fate.value}{end}" for fate in Fate for end in ("", "_bytes")]
        return {
            "clean": self.clean,
            "missing": list(self.missing),
            "leaked": len(leaks),
            "leaked_bytes": sum(one.size_bytes for one in leaks),
            "leaks": [
                {"key": one.key, "bytes": one.size_bytes, "kind": one.kind, "reason": one.reason}
                for one in leaks
            ],
            "shards": [
                {name: document[name] for name in (*kept, *counts)}
                for document in (report.to_json() for report in self.shards)
            ],
        }


def find_leaks(
    stores: Stores, settings: Settings, names: Iterable[str] | None = None
) -> LeakReport:
    """Return what is stored but should not be, and what is not stored but should be.

    With `names` None, checks every shard and also blobs without a shard. Changes nothing.
    Raises: as `strata.gc.plan`. Cost: a plan for each shard, and one listing of the store.
    """
    machine = Machine(stores)
    chosen = machine.names(dropped=True) if names is None else list(names)
    reports, strays = [], []
    missing: list[str] = []
    overdue: list[JudgedBlob] = []
    for name in chosen:
        report, gone = _looked_at(machine, name, settings)
        reports.append(replace(report, dead=(), others=()))
        missing += gone
        overdue += report.dead
        strays += [one for one in report.others if one.fate is Fate.UNKNOWN]
    if names is None:
        strays += _homeless(machine, set(chosen))
    return LeakReport(tuple(reports), tuple(missing), tuple(overdue), tuple(strays))


def _looked_at(machine: Machine, name: str, settings: Settings) -> tuple[SweepReport, list[str]]:
    """Return a plan for a shard, and what its newest state names and is not stored.

    What is missing counts only if the state is still the newest: an erasure or a sweep may have
    taken it since.
    """

    def look() -> tuple[SweepReport, list[str]]:
        stores, head = machine.stores, machine.load(name, dropped=True)
        report, found = survey(machine, head, head.fence, settings, stores.clock(), every=True)
        there = {one.key for one in report.others}
        named = found.live
        if isinstance(named, LiveNumbers):
            named = frozenset(
                key for key in all_named(stores.blob, head, set()) if key not in there
            )
        return report, [*_missing(stores, named - there)]

    return of_newest(machine, name, look, lambda found: bool(found[1]))


def _missing(stores: Stores, named: Iterable[str]) -> Iterator[str]:
    """Yield the blobs that the store does not have.

    A listing may be stale, so blobs missing from it are checked by name.
    """
    for key in sorted(named):
        if retry(partial(stores.blob.get, key, 0, 1)) is None:
            yield key


def _homeless(machine: Machine, names: set[str]) -> Iterator[JudgedBlob]:
    """Yield the blobs of no shard; `names`: the known shards, to which later ones are added."""
    unknown: set[str] = set()
    for info in relisted(machine.stores.blob, ROOT):
        try:
            shard = parse_key(info.key).shard
        except InvalidRequest:
            if not any(info.key.startswith(shard_prefix(name)) for name in names):
                yield JudgedBlob(info.key, info.size_bytes, "foreign", Fate.UNKNOWN, "of no shard")
            continue
        if shard not in names and shard not in unknown:
            names.update(machine.names(dropped=True))  # it may have begun meanwhile
            unknown |= {shard} - names
        if shard in unknown:
            yield JudgedBlob(
                info.key, info.size_bytes, "foreign", Fate.UNKNOWN, f"there is no shard {shard!r}"
            )
