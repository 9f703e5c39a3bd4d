"""Turns of a change stream: from where on it shows that a column came, went or was renamed.

A shard's columns change by command, and those of the source table at some place of the stream. Rows
from before that place differ from the shard, and are taken: they lack what came, have what went, or
have the former name. A row from behind it that differs so again says that the table has changed
once more, which only a person can follow. So the ledger keeps the first place that shows a turn.

The end of the first snapshot is a turn as well, in a stream without positions: a row of a snapshot
behind it is of another one.

A place is that in the database's log if there is one; redelivered rows have their own. Otherwise it
is that in the batch, and all of a batch that was committed comes before it.

Of several tables that fill one shard, each has turns of its own: they are altered one by one. That
changes of a table come at all is kept as one, too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from strata.errors import InvalidRequest
from strata.ingest.readers.stream_tables import check_tables

COMMITTED: Final = 0  # the place of a turn in a stream without positions


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn, as some rows show it."""

    column: str  # by its name in the source; SNAPSHOT: the end of the first one
    gone: bool  # the shard dropped the column
    done: int | None  # the least place of a row that shows it; None: none does
    undone: int | None  # the greatest place of a row that does not
    placed: bool  # by the database's log
    file: str = ""  # where that is
    line: int | None = None
    table: str | None = None  # of several that fill the shard

    def plus(self, other: "Turn") -> "Turn":
        """Return the turn as the rows of both show it."""
        later = other if (other.undone or -1) > (self.undone or -1) else self
        known = [one.done for one in (self, other) if one.done is not None]
        return replace(later, done=min(known, default=None))


Turns = Mapping[str, Turn]  # by column and name; of several tables, by table as well
SNAPSHOT: Final = ""  # also the key of its turn
TABLE: Final = "\n"  # begins the key of a table whose changes came; its place: 1 with positions
NO_TURNS: Final[Turns] = MappingProxyType({})


def all_turns(some: Iterable[Turns]) -> Turns:
    """Return the turns that all rows together show."""
    found: dict[str, Turn] = {}
    for turns in some:
        for key, turn in turns.items():
            found[key] = found[key].plus(turn) if key in found else turn
    return found


def done_turns(known: Mapping[str, int], turns: Turns) -> Mapping[str, int]:
    """Return the first place of each turn after a batch; `known`: those before it."""
    found = dict(known)
    for key, turn in turns.items():
        if turn.done is not None:
            place = turn.done if turn.placed else COMMITTED
            found[key] = min(found.get(key, place), place)
    return found


def table_turns(tables: Iterable[str], *, placed: bool) -> Turns:
    """Return the turns by which changes of these tables come; `placed`: they have positions."""
    return {f"{TABLE}{name}": Turn(name, False, int(placed), None, True) for name in tables}


def of_tables(turns: Turns) -> Turns:
    """Return those of the turns that name a table."""
    return {key: turn for key, turn in turns.items() if key.startswith(TABLE)}


def check_turns(known: Mapping[str, int], turns: Turns, declared: Sequence[str]) -> None:
    """Refuse a batch with a row that is from behind a turn and does not show it.

    And one with changes of another table than came before, if it is not `declared`.
    Raises: InvalidRequest, naming file, line and column.
    """
    came = {key: place for key, place in known.items() if key.startswith(TABLE)}
    shown = of_tables(turns)
    check_tables(
        [turn.column for turn in shown.values()],
        declared,
        before=[key.removeprefix(TABLE) for key in came],
        placed=any(came.values()) or any(turn.done for turn in shown.values()),
    )
    for key, turn in turns.items():
        places = [place for place in (known.get(key), turn.done) if place is not None]
        if turn.undone is not None and places and turn.undone > min(places):
            if turn.column == SNAPSHOT:
                raise InvalidRequest(
                    "another snapshot of the table begins, and this connector has no positions by "
                    "which it could replace what is there",
                    file=turn.file,
                    line=turn.line,
                    table=turn.table,
                    cure="take the topic in from this snapshot on, into a new shard; or "
                    "source.snapshots: merge (rows that were deleted meanwhile stay)",
                )
            raise InvalidRequest(
                "the source table has a column again that it had lost, and the shard dropped"
                if turn.gone
                else "the source table lacks a column that it had before",
                file=turn.file,
                line=turn.line,
                column=turn.column,
                table=turn.table,
                cure=f"strata schema {'add' if turn.gone else 'drop'}, then run again (if a column "
                "goes and comes within a file, cut the file there first); or declare "
                "source.schema_changes: report (what is not declared is left out, what lacks is "
                "null or the default)",
            )
