"""Answers to a request for a step, given on its page: who may give one, and that they gave it.

The home of the console says who is there, and lets only those answer who may do so elsewhere. An
answer comes from a form that was made for this person and this request, on a page of this console:
a signature in the form and the browser's own word say so. Whether the answer is right is for the
same rules as everywhere: `strata.rollout.ladder`.
"""

import hmac
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs

from strata.audit.standing import pool_among
from strata.errors import InvalidRequest, StrataError
from strata.history.metrics import Metrics
from strata.history.operations import note
from strata.machine.machine import Machine
from strata.model.settings import Settings
from strata.rollout import ladder
from strata.rollout.people import REASON_MAX, Person
from strata.rollout.policy import policy_of
from strata.store.open import Stores, store_user

LASTS_MS: Final = 8 * 3_600_000  # a form is good this long
LONGEST: Final = 64 * 1024  # bytes of a form: the longest reason, each character in up to 12
WORDS: Final = ("approve", "reject")
FORM: Final = "application/x-www-form-urlencoded"
_FIELDS: Final = ("answer", "request", "reason", "proof")


@dataclass(frozen=True)
class Desk:
    """How a home of the console lets people answer.

    `person` is a dependency of FastAPI: it returns the name of who is there if they may answer,
    else None. `secret` signs forms; all processes of the home have the same.
    `hosts`: where browsers find the console, beside the host that they name.
    """

    person: Callable[..., str | None]
    secret: bytes
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer as a form sent it."""

    answer: str
    request: str
    reason: str
    proof: str


def check_from_here(headers: Mapping[str, str], hosts: Collection[str]) -> None:
    """Refuse an answer that does not come from a page of this console.

    Raises: InvalidRequest, also if the browser does not say where it comes from.
    """
    origin = headers.get("origin", "")
    own = {host.lower() for host in (headers.get("host", ""), *hosts) if host}
    site = headers.get("sec-fetch-site", "same-origin")
    if site != "same-origin" or origin.partition("://")[2].lower() not in own:
        raise InvalidRequest(
            "this answer does not come from a page of the console",
            origin=origin or "none",
            site=site,
            cure="open the rollout page, and answer there",
        )
    if headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise InvalidRequest("an answer is a form", content_type=headers.get("content-type", ""))


def parsed(body: bytes) -> GivenAnswer:
    """Return the answer in a form.

    Raises: InvalidRequest for one that is too long, lacks a field or has one twice.
    """
    if len(body) > LONGEST:
        raise InvalidRequest("a form this long is not taken", most=LONGEST)
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=8)
    except ValueError as error:
        raise InvalidRequest("this is not a form", reason=str(error)) from error
    if sorted(fields) != sorted(_FIELDS) or any(len(some) != 1 for some in fields.values()):
        raise InvalidRequest("an answer has other fields", fields=sorted(fields))
    # A browser sends each end of a line as two characters, and counts one.
    given = GivenAnswer(**{n: fields[n][0].strip().replace("\r\n", "\n") for n in _FIELDS})
    if given.answer not in WORDS:
        raise InvalidRequest("an answer is one of two words", answer=given.answer, known=WORDS)
    if len(given.reason) > REASON_MAX:
        raise InvalidRequest("a reason this long is not taken", most=REASON_MAX)
    return given


@dataclass(frozen=True)
class Answers:
    """Takes answers to the requests of one pair of stores."""

    stores: Stores
    settings: Settings
    secret: bytes
    reason_max: ClassVar[int] = REASON_MAX  # characters

    def person(self, name: str) -> Person:
        """Return a person whom the home knows; our user of the database speaks for them."""
        return Person(name, store_user(self.stores))

    def proof(self, name: str, shard: str, request: str) -> str:
        """Return what a form for this person and this request holds."""
        return self._signed(self.stores.clock() + LASTS_MS, name, shard, request)

    def refusal(self, name: str, asked: Any) -> str:
        """Return why an approval of an open request by this person would be refused, or nothing."""
        rules = policy_of(self.stores, self.settings.rollout)
        try:
            rules.check_approver(self.person(name), Person(asked["by"], asked["user"]))
        except InvalidRequest as error:
            return error.message
        return ""

    def give(self, name: str, shard: str, given: GivenAnswer) -> None:
        """Carry out an answer, and leave a row in the history of operations.

        Raises: InvalidRequest for a form that is not this person's or too old, and as
        `strata.rollout.ladder.approve` and `.reject`; Conflict; Unavailable.
        """
        self._check_proof(given.proof, name, shard, given.request)
        began, code, problem = self.stores.clock(), 0, ""
        try:
            self._move(self.person(name), shard, given)
        except StrataError as error:
            code, problem = error.exit_code, f"{type(error).__name__}: {error}"
            raise
        finally:
            note(
                self.stores,
                Metrics(self.settings.metrics),
                f"rollout {given.answer}",
                began,
                {"shard": shard},
                code,
                by=name,
                error=problem,
                reason=given.reason,
            )

    def _move(self, person: Person, shard: str, given: GivenAnswer) -> None:
        machine = Machine(self.stores)
        said: dict[str, Any] = {
            "who": person.name,
            "user": person.user,
            "reason": given.reason,
            "request": given.request,
        }
        if given.answer == "reject":
            machine.apply(shard, partial(ladder.reject, **said))
            return
        asked = machine.load(shard).rollout.request
        pool = pool_among(machine, shard) if asked is not None and asked.pooled else None
        policy = policy_of(self.stores, self.settings.rollout)
        machine.apply(shard, partial(ladder.approve, policy=policy, pool=pool, **said))

    def _check_proof(self, proof: str, name: str, shard: str, request: str) -> None:
        until, _, _ = proof.partition(".")
        good = (
            until.isascii()
            and until.isdigit()
            and len(until) < 20
            and hmac.compare_digest(
                proof.encode(), self._signed(int(until), name, shard, request).encode()
            )
        )
        if not good or int(until) < self.stores.clock():
            raise InvalidRequest(
                "this form was made for somebody else, for another request, or too long ago",
                shard=shard,
                request=request,
                cure="look at the page again, and answer there",
            )

    def _signed(self, until: int, *said: str) -> str:
        text = "\0".join((str(until), *(f"{len(one)}:{one}" for one in said)))
        return f"{until}.{hmac.new(self.secret, text.encode(), sha256).hexdigest()}"
