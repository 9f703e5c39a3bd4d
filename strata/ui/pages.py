"""The pages as HTML. Templates escape all that they are given; style and script are constants.

A page holds its style and script, and its policy names them by their hashes: so it is the same page
on a server and in a file, loads nothing, and runs nothing that data says.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from shlex import quote as quoted
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from strata.audit.findings import findings
from strata.audit.standing import standing
from strata.errors import InvalidRequest, StrataError, bounded
from strata.history import usage
from strata.history.operation_log import OperationLog
from strata.machine.machine import Machine
from strata.model.journals import EVERY_SHARD
from strata.model.settings import Settings
from strata.model.shown import sql_word, visible
from strata.rollout.gates import LADDER
from strata.rollout.kill import is_killed
from strata.state.state import State
from strata.store.open import Stores
from strata.ui import charts, evidence, facts, growth, nights, shown
from strata.ui.answers import Answers
from strata.ui.blocks import Picture, picture_of
from strata.ui.capped import capped_paths
from strata.ui.helped import Measured
from strata.ui.needs import quarantined
from strata.ui.one_by_one import StillAsking
from strata.ui.savings import savings_of
from strata.ui.svg import spine_svg, summary
from strata.ui.what_if import Analyst, WhatIf

FOLDER: Final = Path(__file__).parent / "templates"
HISTORY: Final = 60  # states that the slider looks through
OFFERED: Final = 12  # known filters on a page
FRAMES: Final = 12  # pictures of former states in a file
STATES: Final = 256  # former states that the evidence is drawn from
FINDINGS: Final = 10  # shown on a page
PATIENCE: Final = 0.7  # seconds that a page waits for Spark; then it asks again by itself
LATEST: Final = 12  # operations on a page
ASKED_PARTS: Final = 1 << 17  # that a shared server asks of a filter: each takes 10 microseconds
TEXT_MAX: Final = 20_000  # characters of one text
FRAME_CELLS: Final = 300  # cells of such a picture


@cache
def policy(*, file: bool = False) -> str:
    """Return the policy of content of every page; `file`: of a page that is a file."""
    rules = {
        "default-src": "'none'",
        "style-src": _hash("console.css"),
        "script-src": _hash("console.js"),
        "form-action": "'none'" if file else "'self'",
        "base-uri": "'none'",
    }
    if not file:  # a page cannot say this of itself
        rules["frame-ancestors"] = "'self'"
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(name: str) -> str:
    digest = hashlib.sha256((FOLDER / name).read_bytes()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def _templates() -> Environment:
    env = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_seen,
    )
    env.globals |= {
        name: getattr(shown, name)
        for name in (
            *("counted", "several", "size", "sizes", "money"),
            *("when", "age", "doer", "trouble", "with_commas"),
        )
    }
    env.globals |= {
        "css": Markup((FOLDER / "console.css").read_text("utf-8")),
        "js": Markup((FOLDER / "console.js").read_text("utf-8")),
        "ladder": LADDER,
        **{name: getattr(charts, name) for name in ("percent", "rate", "sparkline", "nightly")},
    }
    for marks in (shown.whole_names, shown.with_code):  # markup is not finalized
        env.filters[marks.__name__] = partial(_marked, marks)
    env.filters["quoted"] = lambda text: quote(str(text), safe="")
    return env


def _seen(value: Any) -> Any:
    """Return what a template shows: long texts are cut, and what shows nothing is spelled out."""
    plain = isinstance(value, str) and not isinstance(value, Markup)
    return visible(bounded(value, TEXT_MAX), lines=True) if plain else value


def _marked(marks: Callable[[str], Markup], text: str) -> Markup:
    return marks(_seen(text))


@dataclass(frozen=True)
class Asked:
    """What the address of a shard's page asks for."""

    where: str = ""
    seqno: int | None = None
    batch: int | None = None
    help: bool = False  # also measure what would skip more


@dataclass(frozen=True)
class Answering:
    """Who looks at the rollout page where requests can be answered, and what went wrong before."""

    answers: Answers
    who: str | None  # None: they may look, but not answer
    error: str = ""
    reason: str = ""  # that they typed


@dataclass(frozen=True)
class Helped:
    """What a page says of changes that would skip more, or how to learn it."""

    command: str  # that measures it as well
    can_measure: bool
    document: Mapping[str, Any] | None = None
    waits: bool = False
    error: str = ""


@dataclass(frozen=True)
class ConsolePages:
    """Makes the pages about one pair of stores. `base` begins the address of each."""

    stores: Stores
    settings: Settings
    analyst: Analyst
    log: OperationLog = field(default_factory=OperationLog)  # of a home, for all of its requests
    measured: Measured | None = None  # None: people are shown the command that measures

    def close(self) -> None:
        """Forget what waits for an answer, and wait for what is worked on."""
        self.analyst.close()
        if self.measured is not None:
            self.measured.close()

    def shards(self, base: str) -> str:
        """Return the first page: all shards, those that need a person first."""
        listing = self._listing()
        return self._rendered(
            "shards.html",
            base,
            lines=listing.lines(),
            now=self.stores.clock(),
            killed=is_killed(self.stores),
            debt=self.settings.compact,
        )

    def shard(self, base: str, name: str, asked: Asked) -> str:
        """Return the page of a shard: its spine, and what a filter would skip.

        Raises: InvalidRequest for an unknown shard, state or batch.
        """
        state = Machine(self.stores).load(name)
        past = self._past(state)
        chosen = state if asked.seqno is None else _of_seqno(past, asked.seqno)
        if asked.batch is not None and asked.batch >= len(chosen.batches):
            raise InvalidRequest("no such batch", batch=asked.batch, batches=len(chosen.batches))
        answer, error, waits = self._answered(chosen, asked.where)
        newest = chosen.seqno == state.seqno and asked.batch is None
        helped = self._helped(chosen, answer, asks=asked.help) if newest else None
        listing = self._listing()
        picture = picture_of(self.stores, chosen, chosen=asked.batch)
        linked = "" if asked.batch is not None else f"?{_query(asked)}batch="
        return self._rendered(
            "shard.html", base, tab="spine", line=listing.line(name), state=chosen, asked=asked,
            newest=state.seqno, past=[one.seqno for one in past],
            picture=picture, what=summary(picture), answer=answer, error=error, waits=waits,
            helped=helped,
            drawing=spine_svg(picture, answer.marks if answer else None, linked=linked),
            known=list(self.analyst.known(state))[:OFFERED], takes_any=self.analyst.takes_any,
            latest=listing.operations.latest(name, LATEST), now=self.stores.clock(),
            capped=capped_paths(self.stores, state) if newest else [],
        )  # fmt: skip

    def rollout(self, base: str, name: str, answering: "Answering | None" = None) -> str:
        """Return the page of a shard's rollout; `answering`: who may answer an open request here.

        Raises: InvalidRequest for an unknown shard.
        """
        state, listing = Machine(self.stores).load(name), self._listing()
        return self._rendered(
            "rollout.html",
            base,
            tab="rollout",
            line=listing.line(name),
            now=self.stores.clock(),
            answering=answering,
            **self._standing(state, listing),
        )

    def audits(self, base: str, name: str) -> str:
        """Return the page of a shard's nights, sizes and costs.

        Raises: InvalidRequest for an unknown shard; Corrupt for a damaged table of verdicts.
        """
        state, listing = Machine(self.stores).load(name), self._listing()
        return self._rendered(
            "audits.html",
            base,
            tab="audits",
            line=listing.line(name),
            now=self.stores.clock(),
            **self._nights(state, listing),
        )

    def file(self, name: str, wheres: tuple[str, ...]) -> str:
        """Return everything about a shard as one page that needs no server.

        Raises: InvalidRequest for an unknown shard, or a filter that cannot be analysed.
        """
        state, listing = Machine(self.stores).load(name), self._listing()
        texts = wheres or tuple(self.analyst.known(state))[:OFFERED]
        answers = [self.analyst.answer(state, where) for where in texts]
        drawn = [(one, self._drawn(state, one)) for one in answers]
        frames = [
            (one.seqno, one.walltime_ms, spine_svg(self._small(one)))
            for one in self._past(state)[-FRAMES:]
            if one.batches
        ]
        picture = picture_of(self.stores, state)
        return self._rendered(
            "report.html", "", line=listing.line(name), state=state, picture=picture,
            drawing=spine_svg(picture), what=summary(picture), drawn=drawn, frames=frames,
            latest=listing.operations.latest(name, LATEST), now=self.stores.clock(),
            capped=capped_paths(self.stores, state),
            content_policy=policy(file=True), answering=None, **self._standing(state, listing),
        )  # fmt: skip

    def problem(self, base: str, title: str, text: str) -> str:
        """Return a page that says what went wrong."""
        return self._rendered("problem.html", base, title=title, text=text)

    def _rendered(self, template: str, base: str, **values: Any) -> str:
        return _templates().get_template(template).render(base=base, **values)

    def _answered(self, state: State, where: str) -> tuple[WhatIf | None, str, bool]:
        """Return the answer, or why there is none, or that Spark still works on it."""
        if not where.strip():
            return None, "", False
        try:
            self._check_parts(state, where)
            return self.analyst.answer(state, where, PATIENCE), "", False
        except StillAsking:
            return None, "", True
        except InvalidRequest as error:
            return None, str(error), False

    def _check_parts(self, state: State, where: str) -> None:
        """Refuse to keep a server that many share busy for long. Raises: InvalidRequest."""
        parts = sum(batch.parts for batch in state.batches)
        if parts > ASKED_PARTS and not self.analyst.takes_any:
            raise InvalidRequest(
                "this page asks shards of fewer parts what a filter would skip",
                parts=parts,
                most=ASKED_PARTS,
                cure=f"strata explain {quoted(state.name)} --where {sql_word(where)}",
            )

    def _helped(self, state: State, answer: WhatIf | None, *, asks: bool) -> "Helped | None":
        """Return what would skip more of the parts that a filter keeps; None if it keeps none."""
        if answer is None or not answer.document["parts_kept"]:
            return None
        command = f"strata explain {quoted(state.name)} --where {sql_word(answer.where)} --advise"
        if self.measured is None or not asks:
            return Helped(command, can_measure=self.measured is not None)
        try:
            found = self.measured.of(state, answer.explanation.filter, PATIENCE)
        except StillAsking:
            return Helped(command, can_measure=True, waits=True)
        except StrataError as error:
            return Helped(command, can_measure=True, error=str(error))
        return Helped(command, can_measure=True, document=found)

    def _past(self, state: State) -> list[State]:
        """Return former states with another spine, oldest first, and the newest."""
        found: list[State] = []
        for one in reversed(Machine(self.stores).history(state.name, HISTORY)):
            if found and _shape(found[-1]) == _shape(one):
                found[-1] = one
            else:
                found.append(one)
        return found

    def _small(self, state: State) -> Picture:
        return picture_of(self.stores, state, cells=FRAME_CELLS)

    def _drawn(self, state: State, answer: WhatIf) -> Markup:
        return spine_svg(picture_of(self.stores, state), answer.marks)

    def _listing(self) -> facts.Listing:
        return facts.Listing(self.stores, self.settings, self.log)

    def _standing(self, state: State, listing: facts.Listing) -> Mapping[str, Any]:
        rules = listing.policy
        states = Machine(self.stores).history(state.name, STATES)
        validations = listing.operations.validations(state.name)
        found = standing(self.stores, rules, state, found=validations)
        points = evidence.points_of(states, validations)
        targets = [("audit", rules.gates.audit_parts), ("on", rules.gates.on_parts)]
        return {
            "found": found,
            "quarantined": quarantined(state),
            "bullets": facts.bullets(found["gates"]),
            "heat": facts.heat_map(found["evidence"]["strata"], rules.gates.stratum_parts),
            "approvers": rules.approvers,
            "points": points,
            "kept_since": states[-1].walltime_ms,
            "grown": evidence.evidence_svg(points, evidence.events_of(state, LADDER), targets),
            "savings": savings_of(self.stores, state, self.settings.usage),
            "days": self.settings.usage.days,
            "bad": findings(self.stores, state, FINDINGS),
            "validated": next(iter(validations), None),
        }

    def _nights(self, state: State, listing: facts.Listing) -> Mapping[str, Any]:
        now = self.stores.clock()
        states = Machine(self.stores).history(state.name, STATES)
        mine = listing.operations.on(state.name)
        validations = listing.operations.validations(state.name)
        oldest = [mine["at_ms"][-1].as_py()] if mine.num_rows else []
        first = min([*oldest, states[-1].walltime_ms])
        calendar = nights.nights_of(validations, first, now)
        used = usage.by_day(self.stores, state.name, nights.SHOWN)
        sizes = growth.shard_sizes(states)
        prices = self.settings.prices
        on_s3 = self.settings.store.blob.startswith("s3://")
        return {
            "nights": calendar,
            "calendar": nights.calendar_svg(calendar),
            "checked": nights.checked_filters(validations, now),
            "used": nights.filters_by_night(used, OFFERED),
            "bad": findings(self.stores, state, FINDINGS),
            "validated": next(iter(validations), None),
            "sizes": sizes,
            "grown": growth.growth_svg(sizes),
            "kinds": growth.KINDS,
            "costs": growth.costs_of(mine, prices),
            "shared": growth.costs_of(listing.operations.on(EVERY_SHARD), prices),
            "prices": prices,
            # Only a store that counts requests has these prices.
            "month": growth.month_price(sum(sizes[-1].size_bytes), prices) if on_s3 else None,
            "since": first,
        }


def _shape(state: State) -> tuple[str | None, ...]:
    return tuple(batch.manifest for batch in state.batches)


def _of_seqno(past: list[State], seqno: int) -> State:
    """Return a former state. Raises: InvalidRequest when it is not kept."""
    found = next((one for one in past if one.seqno == seqno), None)
    if found is None:
        raise InvalidRequest(
            "this state is not kept", seqno=seqno, cure=f"one of {[s.seqno for s in past]}"
        )
    return found


def _query(asked: Asked) -> str:
    parts = {"where": asked.where, "seqno": asked.seqno}
    return "".join(f"{k}={quote(str(v), safe='')}&" for k, v in parts.items() if v)


def rendered_problem(pages: ConsolePages, base: str, error: StrataError) -> tuple[int, str]:
    """Return the status and the page of an error."""
    kind = type(error).__name__
    missing = isinstance(error, InvalidRequest)
    status, title = (404, "Not found") if missing else (503, kind)
    return status, pages.problem(base, title, str(error))
