"""A store for the console's tests: batches, a request, evidence, and hostile texts on request."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from strata.audit.receipts import keep_receipt
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.machine.machine import Machine
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.settings import Settings
from strata.model.types import parse_type
from strata.rollout import ladder
from strata.rollout.policy import Policy
from strata.state.state import Evidence, RolloutEntry, State, Stratum
from strata.state.step import step
from strata.store.open import Stores
from strata.ui.pages import ConsolePages
from strata.ui.what_if import Analyst
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

RELATION = Relation(
    0, (Declared(1, "n", parse_type("int64")), Declared(2, "word", parse_type("string"))), (1,), ()
)
DAY = 86_400_000
NAME = "shard"


def above(than: int, sql: str = "") -> Filter:
    """Return a filter whose text may be anything: a page shows it, and nobody parses it."""
    expr = Call("greater_than", (Column(1, "n", "long"), Literal(than, "long")), "boolean")
    return Filter(expr, sql or f"n > {than}", 0, 0)


def understood(relation: Relation, where: str) -> Filter:
    """Analyse filters of one form, as Spark would."""
    return above(int(where.rpartition(">")[2]), where)


def filled(days: int = 6, texts: Sequence[str] = ()) -> Stores:
    """Return stores with one shard of a part a day; `texts` go wherever a text goes in."""
    stores = memory_stores()
    create(stores, RELATION)
    for day in range(days):
        rows = [(n, f"word {n}", day * DAY, 1) for n in range(10 * day, 10 * day + 10)]
        layout = "row" if day == 0 else "both"
        append(stores, NAME, day * DAY, (day + 1) * DAY, [table(RELATION, rows)], layout)
    machine = Machine(stores)
    for text in texts:
        keep_receipt(stores, machine.load(NAME), above(24, text))
    keep_receipt(stores, machine.load(NAME), above(24))
    by, reason = (texts[0], "\n".join(texts)) if texts else ("ann", "it is time")
    machine.apply(
        NAME, partial(ladder.ask, to="soft", percent=0, who=by, reason=reason, policy=Policy())
    )
    machine.apply(NAME, partial(_judged, by=by, reason=reason, texts=texts))
    return stores


def _judged(
    state: State, now_ms: int, *, by: str, reason: str, texts: Sequence[str]
) -> tuple[State, None]:
    names = [*texts, "long × greater_than × both × exact", "long × greater_than × row × union"]
    strata = tuple(Stratum(name, 7 + 40 * at) for at, name in enumerate(names))
    entry = RolloutEntry(now_ms, "tripped", "on", "off", 0, by, reason)
    rollout = replace(
        state.rollout,
        entries=(*state.rollout.entries, entry),
        quarantine=tuple(texts),
        evidence=Evidence(parts=130, runs=4, days=2, strata=strata, filters=2, rows=900),
    )
    return step(state, now_ms, rollout=rollout), None


def pages_of(stores: Stores, *, knows: bool = True) -> ConsolePages:
    """Return the pages; `knows`: any filter of the form `n > number` may be asked."""
    settings = Settings()
    return ConsolePages(stores, settings, Analyst(stores, settings, understood if knows else None))
