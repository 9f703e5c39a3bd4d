"""Whether a shard holds these sums, and of this source."""

from dataclasses import asdict
from hashlib import blake2b
from typing import Final

from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.machine.ledger import commits_after
from strata.model.time import MIN_TIME
from strata.plain.parse import plain_filter
from strata.plain.rows import filter_columns
from strata.state.consumers import consumers_of
from strata.state.state import State
from strata.store.open import Stores
from strata.sums.table import SumsTable
from strata.sums.wish import SumsWish

PREFIX: Final = "sums:"  # of tokens; no token that a user gives has a colon
CONSUMER: Final = "sums-"  # of the consumer that keeps the source's history


def sums_filter(source: State, wish: SumsWish) -> Filter | None:
    """Return the filter of the rows that count; None for all."""
    return None if wish.where is None else plain_filter(source.relation, wish.where)


def sums_token(wish: SumsWish, table: SumsTable, source: State) -> str:
    """Return the begin of the tokens of these sums."""
    filter = sums_filter(source, wish)
    chosen = [] if filter is None else sorted({c.id for c in filter_columns(filter.expr)})
    said = repr((wish.by, wish.sums, wish.where, table.ids, chosen, wish.least, wish.greatest))
    return f"{PREFIX}{wish.source}:{blake2b(said.encode(), digest_size=8).hexdigest()}:"


def check_target(
    stores: Stores, target: State, source: State, wish: SumsWish, table: SumsTable
) -> None:
    """Refuse a target that holds something else than these sums."""
    wanted = table.declaration(wish).relation()
    have = [(c.name, c.type, c.id in target.relation.key) for c in target.relation.columns]
    if have != [(c.name, c.type, c.id in wanted.key) for c in wanted.columns]:
        raise InvalidRequest(
            "this shard has other columns than these sums",
            shard=target.name,
            columns=[f"{c.name}: {c.type}" for c in wanted.columns],
            cure="a new shard; the first run makes it",
        )
    if target.spec.sums != wish.declared:
        raise InvalidRequest(
            "this shard is declared to hold something else, or sums of other columns or rows",
            shard=target.name,
            sums=asdict(target.spec.sums),
            cure="the same --sum, --min, --max and --where as before, or a new shard",
        )
    if target.upper == MIN_TIME:
        return
    begin = sums_token(wish, table, source)
    last = next(iter(commits_after(stores.blob, target, target.upper - 1)), None)
    if last is None or not last.token.startswith(begin):
        raise InvalidRequest(
            "this shard holds something else, or sums of other columns, groups or rows",
            shard=target.name,
            last_token=None if last is None else last.token,
            cure="the same --by, --sum and --where as before, or a new shard",
        )


def check_known(source: State, target: State) -> None:
    """Refuse a source that is not the one whose changes the target has, by its consumers."""
    name = CONSUMER + target.name
    if target.upper > MIN_TIME and all(c.name != name for c in consumers_of(source)):
        raise InvalidRequest(
            "the source does not know these sums: it was made anew or restored, or the consumer"
            " was removed",
            shard=source.name,
            consumer=name,
            cure="sums in a new shard",
        )
