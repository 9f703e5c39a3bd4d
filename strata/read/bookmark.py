"""Where a sink is: whose changes it has, which rows and columns, and up to which time."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Final

from strata.errors import Corrupt, InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr
from strata.plain.rows import filter_columns
from strata.state.state import State

SHOWN_CHARS: Final = 200  # of a text that is no bookmark, and of what was asked for
BOOKMARK_KEY: Final = b"strata.bookmark"  # of the metadata of a Parquet file of a delivery
_ANEW: Final = "begin anew with a new consumer and a new sink"


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Where a sink is: whose changes it has, all of them before a time.

    A shard that was restored, or created again under its name, may have other changes before that
    time: then they were committed at another moment.
    """

    position: int
    shard: str
    consumer: str
    commit_ms: int = 0  # when the changes just before the position were committed; 0: unknown
    wanted: str = ""  # identity of the filter and the columns; empty: unknown
    asked: str = ""  # the same as it was asked for, for people

    def to_text(self) -> str:
        """Return it as sinks store it."""
        return json.dumps(asdict(self))

    @staticmethod
    def of(text: str) -> "Bookmark":
        """Return what a sink has stored. Raises: Corrupt."""
        try:
            found = Bookmark(**json.loads(text))
            texts = (found.shard, found.consumer, found.wanted, found.asked)
            types = {*map(type, (found.position, found.commit_ms))}, {*map(type, texts)}
            if types != ({int}, {str}) or type(_parts(found)[1]) is not dict:
                raise TypeError
        except (TypeError, ValueError, RecursionError) as error:
            shown = text[:SHOWN_CHARS]
            raise Corrupt("a sink has no bookmark but another text", found=shown) from error
        return found


def what_is_wanted(
    state: State, columns: Sequence[str] | None, filter: Filter | None
) -> tuple[str, str]:
    """Return the identity of what is wanted, and how it was asked for.

    The identity has two halves: one stays when columns get other names, one when they are widened.
    Behind them are the ids of the columns, by name.
    """
    ids = None if columns is None else [state.relation.column(name).id for name in columns]
    names = None if columns is None else [*columns]
    tree = None if filter is None else repr(_nameless(filter.expr))
    text = None if filter is None else filter.sql
    halves = [json.dumps(one).encode() for one in ([ids, tree], [names, text])]
    rows = "all rows" if filter is None else f"rows where {filter.sql}"
    asked = f"{rows}, {'all columns' if columns is None else ', '.join(columns)}"
    digests = (blake2b(half, digest_size=8).hexdigest() for half in halves)
    known = json.dumps(wanted_ids(state, columns, filter))
    return ".".join((*digests, known)), asked[:SHOWN_CHARS]


def wanted_ids(
    state: State, columns: Sequence[str] | None, filter: Filter | None
) -> dict[str, int]:
    """Return the ids of the columns that are read, by name."""
    relation = state.relation
    read = () if filter is None else filter_columns(filter.expr)
    chosen = relation.columns if columns is None else map(relation.column, columns)
    return {column.name: column.id for column in (*chosen, *read)}


def joined_ids(had: dict[str, int], now: dict[str, int], cure: str) -> dict[str, int]:
    """Return the ids of columns by all names that they ever had.

    Raises: InvalidRequest for a name that another column had: its values would be mixed.
    """
    other = next((name for name, id in now.items() if had.get(name, id) != id), None)
    if other is not None:
        raise InvalidRequest(
            "another column had this name before",
            column=other,
            id=now[other],
            id_before=had[other],
            cure=cure,
        )
    return {**had, **now}


def _nameless(expr: Expr) -> Expr:
    """Return an expression without the names of its columns."""
    match expr:
        case Column():
            return replace(expr, name="", nullable=True)
        case Call():
            return replace(expr, args=tuple(map(_nameless, expr.args)))
        case _:
            return expr


def check_same_wish(there: Bookmark, mine: Bookmark) -> Bookmark:
    """Refuse a sink that has something else than is wanted now.

    Return the new bookmark with the columns that the sink knows: a name may go and come again.
    Raises: InvalidRequest for changes of another consumer, for other rows or columns, and for a
    column that has the name of another one, which the sink has.
    """
    if (there.shard, there.consumer) != (mine.shard, mine.consumer):
        raise InvalidRequest(
            "this sink has the changes of another consumer",
            shard=there.shard,
            consumer=there.consumer,
            cure="give each consumer of each shard a sink of its own",
        )
    (had, had_ids), (now, now_ids) = _parts(there), _parts(mine)
    if had and not any(one == other for one, other in zip(had, now, strict=True)):
        raise InvalidRequest(
            "this sink has other rows or columns than are wanted now",
            there=there.asked,
            wanted=mine.asked,
            cure=f"ask for what is there, or {_ANEW}",
        )
    ids = joined_ids(had_ids, now_ids, _ANEW)
    return replace(mine, wanted=".".join((*now, json.dumps(ids)))) if now else mine


def _parts(mark: Bookmark) -> tuple[list[str], dict[str, int]]:
    """Return the halves of what is wanted, and the ids of columns; sinks of before lack either."""
    *halves, ids = [*mark.wanted.split(".", 2), "", "", ""][:3]
    return (halves if mark.wanted else []), json.loads(ids or "{}")
