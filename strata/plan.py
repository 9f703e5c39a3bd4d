"""Planning a read: which parts it needs, decided on statistics alone.

The state comes first (whole batches, by the union of their statistics), then the manifests
(parts). A part is skipped only where the filter is proven neither to be true nor to fail on any
of its rows; the filter itself is never executed here: the caller does that on rows.
"""

from collections.abc import Collection, Sequence
from functools import partial
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.fetch import StoredManifest, load_manifest_of
from strata.format.manifest import SCHEMA, PartRef, part_refs, stats_columns
from strata.groups import row_groups, wants_groups
from strata.model.spec import MODES
from strata.model.time import MIN_TIME, format_time
from strata.planned import LeftOut, Parts, PlannedRun, ReadPlan
from strata.prune import Decision, conjuncts, decide, needed_columns, proofs
from strata.rollout.obey import mode_of, obeyed
from strata.state.state import Batch, State
from strata.stats.absent import fill_absent
from strata.store.open import Stores

__all__ = [
    "LeftOut",
    "PlannedRun",
    "ReadPlan",
    "batch_stats",
    "check_mode",
    "check_pushdown",
    "load_manifest",
    "may_matter",
    "part_stats",
    "plan_read",
    "readable_batches",
    "resolve_as_of",
    "suspects",
]

Mask = npt.NDArray[np.bool_]


def plan_read(  # noqa: PLR0913 - options, by name
    stores: Stores,
    state: State,
    *,
    as_of: int | None = None,
    filter: Filter | None = None,
    pushdown: str | None = None,
    mode: str | None = None,
    kill: bool = False,
    groups: bool = True,
) -> ReadPlan:
    """Return which parts a read at `as_of` fetches; None is the newest readable time.

    A read obeys the shard's rollout: `off` and `soft` fetch everything, `on` skips, `audit` skips
    all but a sample; what was approved for other code than this counts as `soft`. `pushdown` is
    what the reader wishes: "off" fetches everything; "on" is what the shard allows, never more.
    `kill` and the switch in the consensus (`strata.rollout.kill`) fetch everything, whatever else.
    `groups` chooses row groups of the parts as well, where parts are skipped at all.

    `mode` says what would be skipped were the shard in it: for what explains, checks or measures a
    decision. Nothing that a reader can set may reach it.

    Errs: may fetch a part that has no needed row, never leaves out one that has.
    Raises: InvalidRequest for an `as_of` outside [since, upper), or a pushdown that is none;
    Corrupt for a bad manifest.
    Cost: one manifest a batch that is not dropped.
    """
    wish = check_pushdown(pushdown)
    chosen = check_mode(mode or ("off" if wish == "off" else mode_of(state)))
    applied = "off" if filter is None else obeyed(stores, chosen, kill=kill)
    at = resolve_as_of(state, as_of)
    if at is None:
        return ReadPlan(state.name, MIN_TIME, applied)
    proof = filter if filter is not None and applied in ("audit", "on") else None
    percent = _sample_percent(state, mode, applied)
    search = _Search(stores, state, at, proof, percent, groups=groups)
    for batch in readable_batches(state, at):
        search.visit(batch)
    return ReadPlan(
        state.name, at, applied, tuple(search.runs), frozenset(search.audited),
        tuple(search.left_out), tuple(search.dropped), tuple(search.tally.parts),
        search.groups,
    )  # fmt: skip


class _Search:
    """What a read finds out, batch by batch: in each, piece by piece of its manifest."""

    def __init__(
        self,
        stores: Stores,
        state: State,
        at: int,
        proof: Filter | None,
        percent: int,
        *,
        groups: bool = True,
    ) -> None:
        self._stores, self._state, self._at = stores, state, at
        self._proof, self._percent = proof, percent
        self._wants_groups = groups and proof is not None and wants_groups(proof, state.relation)
        self.runs: list[PlannedRun] = []
        self.left_out: list[LeftOut] = []
        self.dropped: list[Batch] = []
        self.audited: set[str] = set()
        self.groups: dict[str, tuple[int, ...]] = {}
        self.tally = _Tally(state, proof)

    def visit(self, batch: Batch) -> None:
        """Decide which parts of a batch are fetched."""
        by_batch = self.tally.rules_out(batch)
        if by_batch and not self._percent:
            self.dropped.append(batch)
            return
        manifest = StoredManifest(self._stores.blob, self._state.name, batch)
        fetched: list[pa.Table] = []
        seen = 0
        for piece in range(manifest.pieces):
            found, rows = self._choose(batch, manifest, piece, by_batch=by_batch)
            seen += rows
            fetched += [] if found is None else [found]
        manifest.check_parts(seen)
        if fetched:
            self.runs += _runs(batch, pa.concat_tables(fetched))

    def _choose(
        self, batch: Batch, manifest: StoredManifest, piece: int, *, by_batch: bool
    ) -> tuple[pa.Table | None, int]:
        """Return the rows of a piece whose parts are fetched, and how many it has."""
        judged = manifest.read(self._judged_by(), piece)
        rows = np.flatnonzero(judged["t_low"].to_numpy() <= self._at)
        some = judged if len(rows) == judged.num_rows else judged.take(pa.array(rows))
        keep = _keep(self._state, some, None if by_batch else self._proof, self.tally)
        keep &= not by_batch
        sampled = np.zeros(len(rows), np.bool_)
        if self._percent:
            salt = f"{self._state.seqno}/{self._at}"
            sampled = ~keep & _sampled(some["key"].to_pylist(), salt, self._percent)
            self.audited.update(some["key"].filter(pa.array(sampled)).to_pylist())
        fetched = keep | sampled
        if not fetched.all():
            sizes = some["size_bytes"].to_numpy()[~fetched]
            again = partial(_refs, self._stores, self._state, batch, piece, rows[~fetched])
            self.left_out.append(LeftOut(len(sizes), int(sizes.sum()), again))
        if not fetched.any():
            return None, judged.num_rows
        details = manifest.read(SCHEMA.names, piece).select(SCHEMA.names)
        if fetched.sum() < details.num_rows:
            details = details.take(pa.array(rows[fetched]))
        if self._proof is not None and self._wants_groups and keep.any():
            exact = pa.array(keep[fetched])  # a sampled part is read whole
            known = judged.take(pa.array(rows[keep]))
            self.groups |= _groups(self._state, details.filter(exact), known, self._proof)
        return details, judged.num_rows

    def _judged_by(self) -> set[str]:
        """Return the columns that tell which parts are fetched; the rest is read of these only."""
        columns = {"t_low", "size_bytes"}
        if self._proof is not None:
            columns |= {"relation_version", *needed_columns(self._proof)}
        if self._percent or _names_parts(self._state):
            columns.add("key")
        return columns


def _refs(
    stores: Stores, state: State, batch: Batch, piece: int, rows: npt.NDArray[np.intp]
) -> list[PartRef]:
    table = StoredManifest(stores.blob, state.name, batch).read(SCHEMA.names, piece)
    return part_refs(table.take(pa.array(rows)))


def check_mode(mode: str) -> str:
    """Return `mode` if it is one.

    Raises: InvalidRequest.
    """
    if mode not in MODES:
        raise InvalidRequest("unknown filter mode", mode=mode, cure=f"one of {', '.join(MODES)}")
    return mode


def check_pushdown(pushdown: str | None) -> str | None:
    """Return what a reader wishes, "off" or "on"; None leaves it to the shard, as "on" does.

    Raises: InvalidRequest.
    """
    if pushdown not in (None, "off", "on"):
        raise InvalidRequest("unknown pushdown", value=pushdown, cure="on, off, or leave it out")
    return pushdown


def resolve_as_of(state: State, as_of: int | None) -> int | None:
    """Return the time of a read; None only for a shard that nothing was written to.

    Raises: InvalidRequest for a time that cannot be read, naming since and upper.
    """
    if as_of is None and state.upper == MIN_TIME:
        return None
    at = state.upper - 1 if as_of is None else as_of
    if state.since <= at < state.upper:
        return at
    since, upper = (f"{t} ({format_time(t)})" for t in (state.since, state.upper))
    raise InvalidRequest(
        "no read is possible at this time",
        shard=state.name, as_of=at, since=state.since, upper=state.upper,
        cure=f"choose since {since} <= as_of < upper {upper}",
    )  # fmt: skip


def readable_batches(state: State, as_of: int) -> list[Batch]:
    """Return the batches with parts that a read at `as_of` must look at, in time order."""
    return [b for b in state.batches if b.manifest is not None and b.lower <= as_of]


def load_manifest(
    stores: Stores, state: State, batch: Batch, columns: Collection[str] | None = None
) -> pa.Table:
    """Return a batch's manifest, or only some of its columns; see `strata.format.manifest`.

    Raises: Corrupt, naming shard and manifest.
    """
    return load_manifest_of(stores.blob, state.name, batch, columns)


def batch_stats(batch: Batch) -> pa.Table | None:
    """Return the union of a batch's statistics, one row; None when it is not known.

    Errs: what cannot be decoded is unknown.
    """
    if batch.stats_union is None:
        return None
    try:
        table = pa.ipc.open_stream(batch.stats_union).read_all()
    except (pa.ArrowException, OSError, ValueError):
        return None
    return table if table.num_rows == 1 else None


def may_matter(state: State, batch: Batch, filter: Filter) -> bool:
    """Return False only where no row of the batch can satisfy the filter or make it fail."""
    decision = _of_batch(state, batch, filter)
    return decision is None or bool(decision.keep[0])


def _of_batch(state: State, batch: Batch, filter: Filter) -> Decision | None:
    """Return the verdict on a whole batch; None where its statistics are not known."""
    if _names_parts(state):
        return None  # a part that lied may be in any batch, and in its union: ask the manifests
    stats = batch_stats(batch)
    if stats is None or "rows" not in stats.column_names:
        return None
    if stats["rows"][0].as_py() != batch.updates:  # not about these updates
        return None
    # A column that is there now was never dropped: what the youngest part predates, all do.
    stats = fill_absent(stats, [max(batch.versions)], state.relations, needed_columns(filter))
    return decide(filter, stats, state.relation, quarantine=state.rollout.quarantine)


def part_stats(state: State, manifest: pa.Table, filter: Filter | None = None) -> pa.Table:
    """Return what is known of a manifest's parts, columns that are younger than a part included.

    `filter` names the columns that matter; None fills them all in.
    """
    wanted = None if filter is None else needed_columns(filter)
    versions = manifest["relation_version"].to_numpy()
    return fill_absent(stats_columns(manifest), versions, state.relations, wanted)


class _Tally:
    """Counts, while a read is planned, how many parts each conjunct of its filter rules out."""

    def __init__(self, state: State, filter: Filter | None) -> None:
        self._state, self._filter = state, filter
        count = 0 if filter is None else conjuncts(filter, state.rollout.quarantine)
        self.parts = [0] * count

    def rules_out(self, batch: Batch) -> bool:
        """Tell whether no row of the batch can matter, and count its parts if so."""
        decision = None if self._filter is None else _of_batch(self._state, batch, self._filter)
        if decision is None or decision.keep[0]:
            return False
        self.count(decision, batch.parts)
        return True

    def count(self, decision: Decision, times: int = 1) -> None:
        """Count the parts that a decision leaves out."""
        found = proofs(decision, len(self.parts))
        self.parts = [old + times * new for old, new in zip(self.parts, found, strict=True)]


def _keep(
    state: State, manifest: pa.Table, filter: Filter | None, tally: _Tally | None = None
) -> Mask:
    if filter is None or not manifest.num_rows:
        return np.ones(manifest.num_rows, np.bool_)
    quarantine = state.rollout.quarantine
    stats = part_stats(state, manifest, filter)
    decision = decide(filter, stats, state.relation, quarantine=quarantine)
    if tally is not None:
        tally.count(decision)
    return decision.keep | suspects(state, manifest) if _names_parts(state) else decision.keep


def _names_parts(state: State) -> bool:
    """Return whether parts are in quarantine: their keys are the words with a slash."""
    return any("/" in word for word in state.rollout.quarantine)


def _groups(
    state: State, manifest: pa.Table, judged: pa.Table, filter: Filter
) -> dict[str, tuple[int, ...]]:
    """Return the row groups to read of kept parts; one in quarantine is read whole."""
    if _names_parts(state):
        plain = pa.array(~suspects(state, manifest))
        manifest, judged = manifest.filter(plain), judged.filter(plain)
    stats = part_stats(state, judged, filter)
    return row_groups(filter, manifest, stats, state.relations, state.rollout.quarantine)


def suspects(state: State, manifest: pa.Table) -> Mask:
    """Return which parts of a manifest are in quarantine: nothing may be concluded about them."""
    words = pa.array(state.rollout.quarantine, pa.string())
    mask: Mask = pc.is_in(manifest["key"], value_set=words).to_numpy()
    return mask


def _sample_percent(state: State, asked: str | None, applied: str) -> int:
    # `on` stays sampled where the shard's own rollout says so; a supposed `on` is not.
    sampled = applied == "audit" or (applied == "on" and asked is None)
    return state.rollout.audit_percent if sampled else 0


def _sampled(part_keys: Sequence[str], salt: str, percent: int) -> Mask:
    """Return a share of the parts: the same ones whenever part and salt are the same."""
    if percent <= 0:
        return np.zeros(len(part_keys), np.bool_)
    draws = [blake2b(f"{salt}\0{k}".encode(), digest_size=8).digest() for k in part_keys]
    return np.array([int.from_bytes(d, "big") * 100 < percent << 64 for d in draws], np.bool_)


def _runs(batch: Batch, fetched: pa.Table) -> list[PlannedRun]:
    of_run = fetched["run"].to_numpy()
    numbers = np.unique(of_run).tolist()
    return [
        PlannedRun(
            batch.lower, batch.upper, batch.since, run,
            Parts(fetched if len(numbers) == 1 else fetched.filter(pa.array(of_run == run))),
        )
        for run in numbers
    ]  # fmt: skip
