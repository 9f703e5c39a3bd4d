"""The names that a source has for columns, where the shard calls them otherwise.

A declaration pairs them: `source.names: {t: t_}`. A column without a pair has one name in both.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from strata.errors import InvalidRequest
from strata.model.near import one_of

Pairs = Sequence[Sequence[str]]  # (the source's name, the shard's)


def check_source_names(
    shard: str, pairs: Pairs, columns: Iterable[str], others: Mapping[str, str]
) -> None:
    """Refuse pairs of names by which two columns are one in the source, or none in the shard.

    `others`: further names that the source has, each with the setting that names it.
    Raises: InvalidRequest.
    """
    where = {"shard": shard, "setting": "source.names"}
    columns = tuple(columns)
    for pair in pairs:
        if len(pair) != 2:
            cure = "source.names: {NAME_IN_THE_SOURCE: COLUMN}"
            raise InvalidRequest("a pair needs two names", **where, value=list(pair), cure=cure)
    of_column = {column: name for name, column in pairs}
    of_source = {name: column for name, column in pairs}
    for name, column in pairs:
        details = {**where, "name": name, "column": column}
        if column not in columns:
            cure = one_of(column, columns)
            raise InvalidRequest("a name is for a declared column", **details, cure=cure)
        if of_column[column] != name or of_source[name] != column:
            raise InvalidRequest(
                "a column has one name in the source", **details, cure="leave one pair out"
            )
        if name in others:
            raise InvalidRequest(
                "this name of the source has another meaning",
                **details,
                other=others[name],
                cure=f"a column that is stored is not what {others[name]} names",
            )
    check_read_once(shard, of_column, columns)


def check_read_once(shard: str, of_column: Mapping[str, str], columns: Iterable[str]) -> None:
    """Refuse two columns that are read from one name of the source.

    `of_column`: the source's name of each column that has a pair.
    Raises: InvalidRequest.
    """
    seen: dict[str, str] = {}
    for column in columns:
        name = of_column.get(column, column)
        if name in seen:
            raise InvalidRequest(
                "two columns are read from one column of the source",
                shard=shard,
                setting="source.names",
                name=name,
                columns=[seen[name], column],
                cure="say under which name the source has the other one, or call it otherwise",
            )
        seen[name] = column


def as_pair(name: str, column: str) -> str:
    """Return how a declaration says that the source calls a column by this name.

    >>> as_pair("t", "t_")
    'source.names: {"t": "t_"}'
    """
    return f"source.names: {{{json.dumps(name)}: {json.dumps(column)}}}"


def followed(
    pairs: Pairs, columns: Iterable[str], former: str | None = None, name: str = ""
) -> tuple[tuple[str, ...], ...]:
    """Return the pairs of the `columns` that are there; the one that was called `former` is `name`.

    A column that is called as in the source has no pair.
    """
    there = frozenset(columns)
    now = ((source, name if column == former else column) for source, column in pairs)
    return tuple((one, column) for one, column in now if column in there and one != column)
