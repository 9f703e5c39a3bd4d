"""Check the format of a shard's parts in chunks, and keep each finished chunk for a restart.

A killed run that starts again under its name does not check a part twice: the findings of a chunk
are kept beside the verdicts until the run is recorded. Only clean verdicts are reused, and only if
all recorded facts of the part are unchanged.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import numpy as np
import orjson

from strata.audit.batches import Looked
from strata.audit.compare import ColumnCount
from strata.audit.parts import PartTask, PartVerdict, check_part, missing
from strata.audit.verdict import Verdict
from strata.decide.draw import sampled
from strata.errors import Corrupt, InvalidRequest, Unavailable
from strata.format.manifest import part_refs, stats_rows
from strata.kernels.arrays import Bools
from strata.model.runner import Runner
from strata.rollout.basis import basis_of
from strata.state.state import State
from strata.stats import row_stream
from strata.store import keys
from strata.store.named import get_named
from strata.store.open import Stores
from strata.store.retry import retry

CHUNK_BYTES: Final = 256 * 1024 * 1024  # bytes of parts checked between two notes
CHUNK_PARTS: Final = 1000
Wanted: TypeAlias = Callable[[Sequence[str]], Bools]
Known = dict[str, PartVerdict]  # by the fingerprint of the checked facts


def check_parts(  # noqa: PLR0913 - options, by name
    stores: Stores,
    state: State,
    looked: Sequence[Looked],
    runner: Runner,
    *,
    run: str,
    percent: int = 100,
    parts: frozenset[str] | None = None,
) -> Iterator[PartVerdict]:
    """Yield the verdicts on the chosen parts, in the order of the manifests.

    `percent`: a reproducible share of all parts; `parts`: only these.
    Cost: reads each chosen part once, all columns. Holds the tasks of one chunk.
    """
    basis, known = basis_of(state), _taken_up(stores, state.name, run)
    wanted = partial(share_of, run, percent) if parts is None else partial(_named, parts)
    for chunk in _chunks(_tasks(stores, state, looked, run, wanted)):
        names = [_fingerprint(task, basis) for task in chunk]
        left = {n: task for n, task in zip(names, chunk, strict=True) if n not in known}
        done = dict(zip(left, runner(check_part, list(left.values())), strict=False))
        _keep(stores, state.name, run, done)
        for name, task in zip(names, chunk, strict=True):
            yield known.get(name) or done.get(name) or missing(task)


def rest_of_share(
    looked: Sequence[Looked], run: str, percent: int, checked: Collection[str]
) -> tuple[int, int]:
    """Return how many parts of a share were not checked, and their stored bytes.

    Cost: decodes two columns of every manifest.
    """
    parts = size = 0
    for table in (table for one in looked for table in one.slices(["key", "size_bytes"])):
        names = table["key"].to_pylist()
        there = np.fromiter((name in checked for name in names), np.bool_, len(names))
        places = np.flatnonzero(share_of(run, percent, names) & ~there)
        parts += len(places)
        size += int(table["size_bytes"].to_numpy()[places].sum())
    return parts, size


def forget(stores: Stores, shard: str, run: str) -> None:
    """Drop the notes of a recorded run. Notes that this misses are dropped with old verdicts."""
    with suppress(Unavailable):
        for info in retry(lambda: list(stores.blob.list(_prefix(shard, run)))):
            retry(partial(stores.blob.delete, info.key))


def _tasks(
    stores: Stores, state: State, looked: Sequence[Looked], run: str, wanted: Wanted
) -> Iterator[PartTask]:
    """Yield the task of each chosen part, with its statistics."""
    keep = state.spec.stats.keep
    for some in (s for one in looked for s in one.slices()):
        chosen = some.take(np.flatnonzero(wanted(some["key"].to_pylist())))
        for ref, row in zip(part_refs(chosen), stats_rows(chosen), strict=True):
            stats = row_stream(row)
            yield PartTask(run, state.name, stores.settings, ref, state.relations, stats, keep)


def share_of(run: str, percent: int, keys: Sequence[str]) -> Bools:
    """Return which parts belong to a reproducible share. Shape: one element a key."""
    if percent >= 100:
        return np.ones(len(keys), np.bool_)
    return sampled(keys, run, percent)


def _named(parts: frozenset[str], keys: Sequence[str]) -> Bools:
    return np.array([key in parts for key in keys], np.bool_)


def _fingerprint(task: PartTask, basis: str) -> str:
    """Return a hash of what a verdict depends on: the part, its recorded facts, the code."""
    said = f"{basis}\0{task.ref!r}\0{task.keep}\0{[r.version for r in task.relations]}".encode()
    return blake2b(said + (task.stats or b""), digest_size=16).hexdigest()


def _chunks(tasks: Iterable[PartTask]) -> Iterator[list[PartTask]]:
    chunk: list[PartTask] = []
    size = 0
    for task in tasks:
        if chunk and (size >= CHUNK_BYTES or len(chunk) >= CHUNK_PARTS):
            yield chunk
            chunk, size = [], 0
        chunk.append(task)
        size += task.ref.size_bytes
    if chunk:
        yield chunk


def _prefix(shard: str, run: str) -> str:
    return keys.check_notes_prefix(shard, blake2b(run.encode(), digest_size=10).hexdigest())


def _keep(stores: Stores, shard: str, run: str, done: Known) -> None:
    clean = [
        {"of": name, "verdict": asdict(one.verdict), "columns": [asdict(c) for c in one.columns]}
        for name, one in done.items()
        if one.verdict.outcome == "clean"
    ]
    if clean:
        data = orjson.dumps(clean)
        key = f"{_prefix(shard, run)}{keys.content_hash(data)}.json"
        with suppress(InvalidRequest):  # write-once, and the same bytes are stored already
            retry(partial(stores.blob.set, key, data))


def _taken_up(stores: Stores, shard: str, run: str) -> Known:
    known: Known = {}
    for info in retry(lambda: list(stores.blob.list(_prefix(shard, run)))):
        # A missing note must not fail the run: its parts are checked again.
        with suppress(ValueError, TypeError, KeyError, Corrupt):
            data = get_named(stores.blob, info.key, "a note of a validation")
            known |= {item["of"]: _decoded(item) for item in orjson.loads(data)}
    return known


def _decoded(item: dict[str, Any]) -> PartVerdict:
    columns = tuple(ColumnCount(**column) for column in item["columns"])
    return PartVerdict(Verdict(**item["verdict"]), columns)
