"""Erase rows of a shard, and texts about them, for good; prove it, and issue a certificate.

    begin -> suppress what is rejected -> remove rows (main shard, then shards about it) -> logs
          -> wait for readers -> drop states and blobs -> scrub the database -> prove -> certificate

A run that ends early is run again with the same filter and terms, and goes on where it was.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Any, Final

from strata.audit.table import SHARD as VERDICTS
from strata.erase.certificate import (
    certificate_of,
    known_certificate,
    store_certificate,
)
from strata.erase.clear import clear, scrubbed
from strata.erase.history import History
from strata.erase.notes import Cleared, expunging, noted_steps
from strata.erase.parts import Finder, find_terms, tasks_of
from strata.erase.prove import Erased, Proof, prove
from strata.erase.remove import Log, Removal, Waiting, known_suppressed
from strata.erase.request import ErasureRequest
from strata.erase.texts import Terms
from strata.errors import Corrupt, InvalidRequest, StrataError
from strata.expr.filter import Filter
from strata.format.manifest import PartRef
from strata.history.operations import SHARD as OPERATIONS
from strata.ingest.quarantine import SUFFIX, catch_up, rejected_shard
from strata.kernels.arrays import Ints
from strata.machine.machine import Machine
from strata.model.runner import Runner, serial
from strata.state import erasing
from strata.state.labels import drop_labels, labels_of
from strata.state.state import Erasure, State
from strata.store.open import Stores
from strata.store.retry import retry
from strata.sums.follow import declared_sums

ID_CHARS: Final = 8  # of the fingerprint, in the id of an erasure


@dataclass(frozen=True)
class TermFinder:
    """Finds rows of any shard that mention a term in a text."""

    stores: Stores
    terms: Terms
    runner: Runner = serial

    def __call__(self, state: State, refs: Sequence[PartRef], /) -> dict[str, Ints]:
        """Return the numbers of the rows by part. Cost: reads every part."""
        from strata.parts.suppressed import empty

        tasks = tasks_of(self.stores, state, refs, {}, empty())
        found = self.runner(partial(find_terms, self.terms), tasks)
        return {ref.key: rows for ref, rows in zip(refs, found, strict=True)}


@dataclass(frozen=True)
class Eraser:
    """One request, and how it is carried out."""

    stores: Stores
    request: ErasureRequest
    filter: Filter
    finder: Finder
    runner: Runner = serial
    patience: Waiting = field(default_factory=Waiting)
    log: Log = lambda _: None
    not_reached: tuple[str, ...] = ()  # what the caller knows to be out of reach
    let_go: Log = lambda _: None  # called with each shard, before its readers are waited for

    @property
    def machine(self) -> Machine:
        """Return the machine of the stores."""
        return Machine(self.stores)

    @property
    def terms(self) -> Terms:
        """Return the terms to look for."""
        return Terms(self.request.searched(self.filter))

    @property
    def history(self) -> History:
        """Return what is written about the shard beside its parts."""
        return self._history(self.request.shard)

    def _history(self, shard: str) -> History:
        return History(self.stores, shard, self.terms)

    def plan(self) -> dict[str, Any]:
        """Return what an erasure would find now; change nothing.

        Cost: reads the parts that statistics do not rule out, and all texts about the shard.
        """
        name = self.request.shard
        state = self.machine.load(name)
        shards = [self._planned(self._removal(name), state)]
        for other in self._about():
            planned = self._planned(self._removal(other), self.machine.load(other))
            if planned["rows"]:
                shards.append(planned)
        files = [*self.history.rejected_files()]
        logs = [log for one in (name, *self._about()) for log in self._history(one).logs(())]
        aside = expunging(self.stores)
        return {
            "shard": name,
            "shards": shards,
            "rows": sum(one["rows"] for one in shards),
            "labels": [*self._labels(state)],
            "rejected_rows": sum(sum(lines) for _, _, lines in files),
            "logs": len(logs),
            "terms": len(self.terms.terms),
            "set_aside": retry(lambda: sum(1 for _ in aside.set_aside(f"shards/{name}/"))),
            "under_way": None if state.erasing is None else state.erasing.id,
            "confirm": self.request.code,
        }

    def _labels(self, state: State) -> Iterator[str]:
        """Yield the labels whose names mention a term: they go, and the states that list them.

        Other labels stay. They keep a time readable, and at every readable time the rows are gone.
        """
        for label in labels_of(state):
            if self.terms.within(label.name.encode()):
                yield label.name

    def _sums(self) -> Iterator[str]:
        """Yield, for the certificate, the shards that keep sums of this one."""
        for wish in declared_sums(self.stores).get(self.request.shard, []):
            groups = ", ".join(wish.by)
            yield (
                f"sums that `{wish.target}` keeps by {groups}: they count the erased rows until "
                f"`strata sums {self.request.shard} --into {wish.target} --rebuild`; groups that "
                "name the person stay in its history until they are erased there"
            )

    def _planned(self, removal: Removal, state: State) -> dict[str, Any]:
        found, rows = removal.find(state)
        return {
            "shard": removal.shard,
            "rows": sum(len(one) for one in rows.values()),
            "parts": len(rows),
            "bytes": sum(one.size_bytes for one in found),
            "batches": len(found),
            "held_by": [hold.name for hold in state.holds if hold.seqno],
        }

    def erase(self, *, at_ms: int, by: str, reason: str) -> dict[str, Any]:
        """Carry the request out and return its certificate.

        Raises: InvalidRequest without a person or a reason, and while another erasure is under way;
        Unavailable when readers or writers of before stay for too long; Conflict; Corrupt when
        a blob cannot be read, or a row is still found.
        """
        if not by.strip() or not reason.strip():
            raise InvalidRequest("to erase takes a person and a reason", shard=self.request.shard)
        expunging(self.stores)
        name = self.request.shard
        wanted = Erasure(self._new_id(at_ms), at_ms, by, reason, self.request.fingerprint)
        erasure: Erasure = self.machine.apply(name, partial(erasing.begin, erasure=wanted))
        found = known_certificate(self.stores, name, erasure.id)
        if found is None:
            found = self._certified(erasure)
        for shard in (*self._about(), name):
            self.machine.apply(shard, partial(erasing.finish, id=erasure.id))
        return found

    def _certified(self, erasure: Erasure) -> dict[str, Any]:
        """Carry an erasure out; return its certificate, or that of another run that was faster."""
        name = self.request.shard
        try:
            found = self._carried_out(erasure)
            store_certificate(self.stores, name, erasure.id, found)
        except StrataError:  # as what that run has removed is not there, and its certificate is
            faster = known_certificate(self.stores, name, erasure.id)
            if faster is None:
                raise
            return faster
        return found

    def _new_id(self, at_ms: int) -> str:
        """Return an id that no certificate has: of two in one second, or after the clock went back.

        The certificate of the earlier one would end this one before it has begun.
        """
        began = datetime.fromtimestamp(at_ms / 1000, UTC)
        first = id = f"{began:%Y%m%dT%H%M%S}-{self.request.fingerprint[:ID_CHARS]}"
        for number in count(2):
            if known_certificate(self.stores, self.request.shard, id) is None:
                break
            id = f"{first}-{number}"
        return id

    def _join(self, shard: str, erasure: Erasure) -> None:
        """Begin the erasure in a shard about it, where one of the same request may have been left.

        Raises: InvalidRequest while another one is under way.
        """
        begin = partial(erasing.begin, erasure=erasure)
        try:
            there: Erasure = self.machine.apply(shard, begin)
        except InvalidRequest as error:
            raise self._in_the_way(shard, error) from error
        if there.id != erasure.id:
            self.machine.apply(shard, partial(erasing.finish, id=there.id))
            self.machine.apply(shard, begin)

    def _in_the_way(self, shard: str, error: InvalidRequest) -> InvalidRequest:
        """Return the error with the name of the shard whose erasure is under way in `shard`."""
        about = (OPERATIONS, VERDICTS)
        for name in self.machine.names():
            found = self.machine.load(name).erasing
            if name in about or name.endswith(SUFFIX) or found is None:
                continue
            if found.id == error.details.get("id"):
                cure = f"run that one of {name!r} again until it is done"
                return InvalidRequest(error.message, cure=cure, **{**error.details, "of": name})
        return error

    def _carried_out(self, erasure: Erasure) -> dict[str, Any]:
        name = self.request.shard
        cleared = Cleared(self.stores, name, erasure.id)
        catch_up(self.stores, self.machine.load(name))
        shards = [name, *self._about()]
        labels = tuple(self._labels(self.machine.load(name)))
        self.machine.apply(name, partial(drop_labels, names=labels))
        self.history.suppress_rejected(erasure)
        self.history.erase_collections(cleared)
        closed: dict[str, int] = {}
        for shard in shards:
            if shard != name:
                self._join(shard, erasure)
            closed[shard] = self._removal(shard).close(erasure)
        steps = noted_steps(self.stores, shards, erasure.id)
        parts = {part["part"] for step in steps for part in step["parts"]}
        self.history.erase_rejected(cleared)
        for shard in shards:
            self._history(shard).erase_logs(parts, cleared)
        for shard in shards:
            self.let_go(shard)
            clear(self.stores, shard, closed[shard], self.patience, cleared)
            self.log(f"{shard}: no state before {closed[shard]} is left")
        beyond = [*self.not_reached, *self._sums(), *filter(None, [scrubbed(self.stores)])]
        proofs = [*self._proofs(shards, erasure)]
        return certificate_of(
            erasure,
            name,
            steps,
            cleared.total(),
            proofs,
            beyond,
            known_suppressed(self.stores, self.machine.load(name)),
            self.stores.clock(),
        )

    def _proofs(self, shards: Sequence[str], erasure: Erasure) -> Iterator[tuple[Proof, Erased]]:
        for shard in shards:
            finder = self._removal(shard).finder
            proof, erased = prove(self.stores, shard, finder, erasure.id, self.terms, self.runner)
            if proof.matching or proof.hash_hits:
                raise Corrupt(
                    "rows of an erasure are still found, no certificate is issued",
                    shard=shard,
                    matching=proof.matching,
                    hashes=proof.hash_hits,
                    cure="they came meanwhile: run the same command again; if that does not help, "
                    "set the shard's mode to off first, since a statistic may be wrong",
                )
            yield proof, erased

    def _removal(self, shard: str) -> Removal:
        mine = shard == self.request.shard
        finder: Finder = self.finder if mine else TermFinder(self.stores, self.terms, self.runner)
        return Removal(
            self.stores,
            shard,
            finder,
            self.filter if mine else None,
            mine,
            self.runner,
            self.patience,
            self.log,
        )

    def _about(self) -> list[str]:
        """Return the shards that may hold texts about the rows: rejected ones, and the journals."""
        name = self.request.shard
        if not self.terms.terms or name.endswith(SUFFIX):
            return []
        there = {*self.machine.names()} - {name}
        return [one for one in (rejected_shard(name), OPERATIONS, VERDICTS) if one in there]


def moment_of(state: State, request: ErasureRequest, clock: Callable[[], int]) -> int:
    """Return the time at which the filter's clock stands: that of an erasure under way, or now."""
    found = state.erasing
    return found.at_ms if found is not None and found.request == request.fingerprint else clock()
