"""The pages as HTML. Templates escape all that they are given; style and script are constants.

A page holds its style and script, and its policy names them by their hashes: so it is the same page
on a server and in a file, loads nothing, and runs nothing that data says.
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from strata.audit.standing import standing
from strata.errors import InvalidRequest, StrataError
from strata.machine.machine import Machine
from strata.model.settings import Settings
from strata.rollout.gates import LADDER
from strata.rollout.policy import policy_of
from strata.state.state import State
from strata.store.open import Stores
from strata.ui import facts, shown
from strata.ui.blocks import Picture, picture_of
from strata.ui.svg import spine_svg, summary
from strata.ui.what_if import Analyst, Answer

FOLDER: Final = Path(__file__).parent / "templates"
HISTORY: Final = 60  # states that the slider looks through
OFFERED: Final = 12  # known filters on a page
FRAMES: Final = 12  # pictures of former states in a file
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
        loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    env.globals |= {
        name: getattr(shown, name) for name in ("counted", "size", "sizes", "when", "age")
    }
    env.globals |= {
        "css": Markup((FOLDER / "console.css").read_text("utf-8")),
        "js": Markup((FOLDER / "console.js").read_text("utf-8")),
        "ladder": LADDER,
    }
    env.filters["quoted"] = lambda text: quote(str(text), safe="")
    return env


@dataclass(frozen=True)
class Asked:
    """What the address of a shard's page asks for."""

    where: str = ""
    seqno: int | None = None
    batch: int | None = None


@dataclass(frozen=True)
class Pages:
    """Makes the pages about one pair of stores. `base` begins the address of each."""

    stores: Stores
    settings: Settings
    analyst: Analyst

    def shards(self, base: str) -> str:
        """Return the first page: all shards, those that need a person first."""
        lines = facts.shard_lines(self.stores, self.settings)
        return self._rendered("shards.html", base, lines=lines, now=self.stores.clock())

    def shard(self, base: str, name: str, asked: Asked) -> str:
        """Return the page of a shard: its spine, and what a filter would skip.

        Raises: InvalidRequest for an unknown shard, state or batch.
        """
        state = Machine(self.stores).load(name)
        past = self._past(state)
        chosen = state if asked.seqno is None else _of_seqno(past, asked.seqno)
        if asked.batch is not None and asked.batch >= len(chosen.batches):
            raise InvalidRequest("no such batch", batch=asked.batch, batches=len(chosen.batches))
        answer, error = self._answered(chosen, asked.where)
        picture = picture_of(self.stores, chosen, chosen=asked.batch)
        linked = "" if asked.batch is not None else f"?{_query(asked)}batch="
        return self._rendered(
            "shard.html", base, tab="spine", line=self._line(name), state=chosen, asked=asked,
            newest=state.seqno, past=[one.seqno for one in past],
            picture=picture, what=summary(picture), answer=answer, error=error,
            drawing=spine_svg(picture, answer.marks if answer else None, linked=linked),
            known=list(self.analyst.known(state))[:OFFERED], takes_any=self.analyst.takes_any,
            latest=facts.latest(self.stores, name), merges=facts.merges(state),
            now=self.stores.clock(),
        )  # fmt: skip

    def rollout(self, base: str, name: str) -> str:
        """Return the page of a shard's rollout. Raises: InvalidRequest for an unknown shard."""
        state = Machine(self.stores).load(name)
        return self._rendered(
            "rollout.html", base, tab="rollout", line=self._line(name), now=self.stores.clock(),
            **self._standing(state),
        )  # fmt: skip

    def file(self, name: str, wheres: tuple[str, ...]) -> str:
        """Return everything about a shard as one page that needs no server.

        Raises: InvalidRequest for an unknown shard, or a filter that cannot be analysed.
        """
        state = Machine(self.stores).load(name)
        texts = wheres or tuple(self.analyst.known(state))[:OFFERED]
        answers = [self.analyst.answer(state, where) for where in texts]
        drawn = [(one, self._drawn(state, one)) for one in answers]
        frames = [
            (one.seqno, one.walltime_ms, spine_svg(self._small(one)))
            for one in self._past(state)[-FRAMES:]
        ]
        picture = picture_of(self.stores, state)
        return self._rendered(
            "report.html", "", line=self._line(name), state=state, picture=picture,
            drawing=spine_svg(picture), what=summary(picture), drawn=drawn, frames=frames,
            latest=facts.latest(self.stores, name), now=self.stores.clock(),
            content_policy=policy(file=True), **self._standing(state),
        )  # fmt: skip

    def problem(self, base: str, title: str, text: str) -> str:
        """Return a page that says what went wrong."""
        return self._rendered("problem.html", base, title=title, text=text)

    def _rendered(self, template: str, base: str, **values: Any) -> str:
        return _templates().get_template(template).render(base=base, **values)

    def _line(self, name: str) -> facts.ShardLine:
        return facts.shard_line(self.stores, self.settings, Machine(self.stores), name)

    def _answered(self, state: State, where: str) -> tuple[Answer | None, str]:
        if not where.strip():
            return None, ""
        try:
            return self.analyst.answer(state, where), ""
        except InvalidRequest as error:
            return None, str(error)

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

    def _drawn(self, state: State, answer: Answer) -> Markup:
        return spine_svg(picture_of(self.stores, state), answer.marks)

    def _standing(self, state: State) -> Mapping[str, Any]:
        rules = policy_of(self.stores, self.settings.rollout)
        found = standing(self.stores, rules, state)
        return {
            "found": found, "bullets": facts.bullets(found["gates"]),
            "heat": facts.heat_map(found["evidence"]["strata"], rules.gates.stratum_parts),
            "approvers": rules.approvers,
        }  # fmt: skip


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


def rendered_problem(pages: Pages, base: str, error: StrataError) -> tuple[int, str]:
    """Return the status and the page of an error."""
    kind = type(error).__name__
    missing = isinstance(error, InvalidRequest)
    return (404 if missing else 503), pages.problem(base, kind, str(error))
