"""The policy of a store: what a step up requires, and who may approve one.

It is one document of the consensus, `KEY`, for all its shards. A store without the document has
the built-in thresholds, and anybody except the asker may approve. Settings of a process tighten
the policy and never loosen it: `Policy.tightened`. Like a step, a change is requested by one
person and approved by another. Each state of the document stays stored, and each policy carries the
thresholds of those before it.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Any, Final, Literal

from strata.errors import Conflict, Corrupt, InvalidRequest
from strata.model.declared import as_declared
from strata.model.near import one_of
from strata.model.settings import RolloutSettings, Thresholds
from strata.rollout.people import Person, are_one, check_said, folded_name, identity_of, look_of
from strata.state.codec import decode_sealed, encode_sealed
from strata.store.interface import Versioned
from strata.store.open import Stores
from strata.store.retry import Sleep, retry

KEY: Final = "gates"
ATTEMPTS: Final = 20
ENTRIES_MAX: Final = 64  # lines of history in the document
FORMER_MAX: Final = 256  # former thresholds in the document; a request from before is asked again
DAY_MS: Final = 86_400_000
# Histories hold the thresholds in this order: new ones are added at the end.
THRESHOLDS: Final = (
    "audit_parts",
    "audit_runs",
    "audit_days",
    "stratum_parts",
    "failed_permille",
    "on_parts",
    "on_days",
    "on_percent",
    "request_days",
    "sample_parts",
)
_LESS_IS_STRICTER: Final = ("failed_permille", "request_days")
_NAMES: Final = ("approvers", "vouchers")

Done = Literal["requested", "approved", "rejected", "lapsed"]


@dataclass(frozen=True, slots=True)
class FormerGates:
    """The thresholds of a policy that another one replaced."""

    number: int
    gates: tuple[int, ...]  # in the order of THRESHOLDS


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules for all shards of a store."""

    gates: Thresholds = field(default_factory=Thresholds)
    approvers: tuple[str, ...] = ()  # who may approve; empty: anybody except the asker
    vouchers: tuple[str, ...] = ()  # users of the database that speak for people; `people`
    release_people: int = 1  # who must agree to release the kill switch: 1 or 2
    number: int = 0  # of its document; 0: the store has none
    former: tuple[FormerGates, ...] = ()  # of the policies before, oldest first

    def tightened(self, settings: RolloutSettings) -> "Policy":
        """Return the policy with each threshold at least as strict as in `settings`."""
        return self.at_least({name: getattr(settings, name) for name in THRESHOLDS})

    def at_least(self, figures: Mapping[str, int | None]) -> "Policy":
        """Return the policy with each threshold at least as strict as in `figures`.

        A threshold that is None, or missing, changes nothing.
        """
        own = {name: getattr(self.gates, name) for name in THRESHOLDS}
        for name in THRESHOLDS:
            choose, given = min if name in _LESS_IS_STRICTER else max, figures.get(name)
            own[name] = own[name] if given is None else choose(own[name], given)
        return replace(self, gates=Thresholds(**own))

    def figures(self) -> tuple[int, ...]:
        """Return the thresholds in the order of `THRESHOLDS`, as histories hold them."""
        return tuple(getattr(self.gates, name) for name in THRESHOLDS)

    def since(self, number: int) -> list[dict[str, int]] | None:
        """Return the thresholds of each policy after that `number` and before this one.

        None if one of them is not known, or if `number` is of no policy that this one replaced.
        """
        known = {one.number: one.gates for one in self.former}
        between = range(number + 1, self.number)
        if number > self.number or any(one not in known for one in between):
            return None
        return [dict(zip(THRESHOLDS, known[one], strict=False)) for one in between]

    def check_approver(self, who: Person, asked: Person, **where: object) -> None:
        """Refuse a person who may not approve the request.

        Raises: InvalidRequest.
        """
        if are_one(who, asked, self.vouchers):
            raise InvalidRequest(
                "who asks for a step cannot approve it",
                **where,
                by=asked.name,
                user=asked.user or "unknown",
                cure="let somebody else look at the evidence; on a database with users each"
                " person has one of their own, and Airflow's is named in `vouchers`",
            )
        allowed = {folded_name(name) for name in self.approvers}
        if allowed and who.identity(self.vouchers) not in allowed:
            raise InvalidRequest(
                "who answers may not approve",
                **where,
                by=who.name,
                user=who.user or "unknown",
                approvers=list(self.approvers),
                cure="let one of them answer, or change the policy: strata rollout gates",
            )


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """A requested change that is not answered yet."""

    policy: Policy  # the proposed policy, with the number of the policy it replaces
    by: str
    user: str
    reason: str
    at_ms: int
    expires_ms: int


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """One line of the history of the policy."""

    at_ms: int
    what: Done
    number: int  # of the policy that held afterwards
    changes: tuple[str, ...]  # "audit_parts: 3000 -> 10"
    by: str
    user: str
    reason: str
    request: str  # the id of the request
    asked_by: str = ""
    asked_user: str = ""


@dataclass(frozen=True, slots=True)
class Book:
    """The document: the current policy, the open request, and the history."""

    policy: Policy = field(default_factory=Policy)
    request: PolicyRequest | None = None
    entries: tuple[PolicyEntry, ...] = ()  # newest last


def policy_of(stores: Stores, settings: RolloutSettings) -> Policy:
    """Return the policy of the store, tightened by the settings.

    Raises: Corrupt for a damaged document; Unavailable.
    """
    return book_of(stores)[0].policy.tightened(settings)


def book_of(stores: Stores) -> tuple[Book, int | None]:
    """Return the stored document and its number, which is None if there is no document.

    Raises: Corrupt; Unavailable.
    """
    head = retry(lambda: stores.consensus.head(KEY))
    if head is None:
        return Book(), None
    try:
        book: Book = decode_sealed(head.data, KEY, Book)
    except Corrupt as error:
        raise Corrupt(
            error.message,
            key=KEY,
            seqno=head.seqno,
            **error.details,
            cure="restore this row of the database of states from a backup",
        ) from error
    return book, head.seqno


def change(stores: Stores, move: Callable[[Book, int], Book], sleep: Sleep = time.sleep) -> Book:
    """Commit the next state of the document: `move` of the newest state and the time.

    Raises: what `move` raises; Conflict after many lost races.
    """
    for attempt in range(ATTEMPTS):
        book, seqno = book_of(stores)
        new = move(book, stores.clock())
        value = Versioned((seqno or 0) + 1, encode_sealed(KEY, new))
        if stores.consensus.compare_and_set(KEY, seqno, value):
            return new
        sleep(0.01 * (attempt + 1))
    raise Conflict("the policy could not be changed", attempts=ATTEMPTS, cure="run it again")


def ask(book: Book, now_ms: int, *, to: Mapping[str, Any], who: Person, reason: str) -> Book:
    """Ask for a change of the policy; `to`: new values by name.

    Raises: InvalidRequest for an invalid value, for no change, or while a request is open.
    """
    check_said("a change of the policy", who.name, reason)
    book = _lapsed(book, now_ms)
    if book.request is not None:
        raise InvalidRequest(
            "a change of the policy is already asked for",
            by=book.request.by,
            request=request_id(book.request),
            cure="approve or reject it first",
        )
    wanted = _with(book.policy, to)
    if wanted == book.policy:
        raise InvalidRequest("this changes nothing", policy=book.policy.number)
    expires = now_ms + book.policy.gates.request_days * DAY_MS
    asked = PolicyRequest(replace(wanted, former=()), who.name, who.user, reason, now_ms, expires)
    entered = _with_line(book, asked, now_ms, "requested", who, reason)
    return replace(entered, request=asked)


def approve(book: Book, now_ms: int, *, request: str, who: Person, reason: str) -> Book:
    """Apply the requested change; `request` is its id, as the approver was shown it.

    Raises: InvalidRequest if no request is open, if another one is, or if the asker approves.
    """
    check_said("a change of the policy", who.name, reason)
    book = _lapsed(book, now_ms)
    asked = _open(book, request)
    old = book.policy
    old.check_approver(who, Person(asked.by, asked.user), policy=old.number)
    former = (*old.former, FormerGates(old.number, old.figures()))[-FORMER_MAX:]
    new = replace(book, policy=replace(asked.policy, number=old.number + 1, former=former))
    return replace(
        _with_line(new, asked, now_ms, "approved", who, reason, before=old), request=None
    )


def reject(book: Book, now_ms: int, *, request: str, who: Person, reason: str) -> Book:
    """Refuse the requested change. Raises: InvalidRequest if no such request is open."""
    check_said("a change of the policy", who.name, reason)
    book = _lapsed(book, now_ms)
    asked = _open(book, request)
    return replace(_with_line(book, asked, now_ms, "rejected", who, reason), request=None)


def request_id(asked: PolicyRequest) -> str:
    """Return the id of a request: a digest of all that is asked, by whom and when."""
    return identity_of(astuple(asked))


def what_differs(old: Policy, new: Policy) -> tuple[str, ...]:
    """Return the differences between two policies, one line for each name."""
    was, now = _flat(old), _flat(new)
    return tuple(f"{name}: {was[name]} -> {now[name]}" for name in was if was[name] != now[name])


def _flat(policy: Policy) -> dict[str, Any]:
    rest = {name: ", ".join(getattr(policy, name)) or "-" for name in _NAMES}
    figures = dict(zip(THRESHOLDS, policy.figures(), strict=True))
    return {**figures, **rest, "release_people": policy.release_people}


def _with(policy: Policy, to: Mapping[str, Any]) -> Policy:
    known = (*THRESHOLDS, *_NAMES, "release_people")
    for name in to:
        if name not in known:
            cure = one_of(name, known, listed=len(known))
            raise InvalidRequest("the policy has no such value", name=name, cure=cure)
    people = to.get("release_people", policy.release_people)
    if people not in (1, 2):
        raise InvalidRequest("one or two people release the kill switch", release_people=people)
    approvers = tuple(to.get("approvers", policy.approvers))
    if approvers and len({look_of(name) for name in approvers}) < 2:
        raise InvalidRequest(
            "one approver alone could approve nothing that they ask for",
            approvers=list(approvers),
            cure="name two people or more, or nobody",
        )
    own = asdict(policy.gates) | {n: v for n, v in to.items() if n in THRESHOLDS}
    gates = as_declared(Thresholds, own, lambda _: {})
    vouchers = tuple(to.get("vouchers", policy.vouchers))
    return replace(
        policy, gates=gates, approvers=approvers, vouchers=vouchers, release_people=people
    )


def _with_line(  # noqa: PLR0913 - the fields of one line
    book: Book,
    asked: PolicyRequest,
    now_ms: int,
    what: Done,
    who: Person,
    reason: str,
    *,
    before: Policy | None = None,
) -> Book:
    """Return the document with one more line of history."""
    asker = ("", "") if what == "requested" else (asked.by, asked.user)
    entry = PolicyEntry(
        now_ms,
        what,
        book.policy.number,
        what_differs(before or book.policy, asked.policy),
        who.name,
        who.user,
        reason,
        request_id(asked),
        *asker,
    )
    return replace(book, entries=(*book.entries, entry)[-ENTRIES_MAX:])


def _lapsed(book: Book, now_ms: int) -> Book:
    """Return the document without an expired request."""
    asked = book.request
    if asked is None or now_ms < asked.expires_ms:
        return book
    nobody = Person("nobody")
    entered = _with_line(book, asked, asked.expires_ms, "lapsed", nobody, "nobody answered in time")
    return replace(entered, request=None)


def _open(book: Book, named: str) -> PolicyRequest:
    if book.request is None:
        lines = (one for one in reversed(book.entries) if one.what in {"approved", "rejected"})
        last = next((one for one in lines if one.request == named.strip()), None)
        raise InvalidRequest(
            "no change of the policy is asked for",
            reason=f"it was {last.what} already, by {last.by}" if last else "nobody asked",
            cure="strata rollout gates",
        )
    there = request_id(book.request)
    if named.strip() != there:
        raise InvalidRequest(
            "another request is open than the one that was answered",
            request=named,
            open=there,
            by=book.request.by,
            cure="look at `strata rollout gates show`, and answer what it shows",
        )
    return book.request


def as_document(policy: Policy) -> dict[str, Any]:
    """Return a policy as a JSON document, also for display."""
    gates = asdict(policy.gates)
    rest = {name: list(getattr(policy, name)) for name in _NAMES}
    return {"number": policy.number, **gates, **rest, "release_people": policy.release_people}
