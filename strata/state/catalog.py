"""The collections of a shard: many small logical shards in one, distinguished by a leading column.

A collection is a name. Its rows have the name in the catalog's column, which leads the sort order,
so the rows of a collection are adjacent. The catalog is one small immutable blob that the state
points to: a thousand names do not make a commit more expensive.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from shlex import quote
from typing import Any, Final

import orjson

from strata.errors import Conflict, Corrupt, Fenced, InvalidRequest
from strata.model.spec import check_name
from strata.model.types import Kind
from strata.state.state import State
from strata.state.step import step

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Collection:
    """One collection."""

    name: str
    created_ms: int
    note: str = ""  # for people


@dataclass(frozen=True)
class Catalog:
    """All collections of a shard."""

    column: int  # id of the text column that holds the name
    # Of the state that introduced this catalog, so that no two catalogs have equal bytes
    seqno: int
    collections: tuple[Collection, ...]  # sorted by name, without duplicates

    @cached_property
    def by_name(self) -> dict[str, Collection]:
        """Return the collections by name."""
        return {one.name: one for one in self.collections}


def check_column(state: State, column: int) -> None:
    """Refuse a column that cannot distinguish collections.

    Raises: InvalidRequest.
    """
    found = state.relation.by_id[column]
    where: dict[str, Any] = {"shard": state.name, "column": found.name}
    if found.type.kind is not Kind.STRING or found.nullable:
        raise InvalidRequest(
            "the column of collections is a text that is never null",
            **where,
            type=str(found.type),
            nullable=found.nullable,
        )
    if state.relation.sort_ids[0] != column:
        raise InvalidRequest(
            "the column of collections must lead the sort order",
            **where,
            cure=f"strata schema sort {state.name} {quote(found.name)}",
        )


def with_collections(
    known: Catalog | None, state: State, now_ms: int, names: Sequence[str], note: str = ""
) -> Catalog:
    """Return the catalog with more names; existing names stay unchanged.

    The column is the one that leads the sort order when the first collection is made.
    Raises: InvalidRequest for a name or a column that cannot be used.
    """
    catalog = known or Catalog(state.relation.sort_ids[0], 0, ())
    check_column(state, catalog.column)
    new = {name: Collection(check_name(name), now_ms, note) for name in names}
    merged = new | catalog.by_name
    if len(merged) == len(catalog.collections):
        return catalog
    return replace(
        catalog, seqno=state.seqno + 1, collections=tuple(merged[name] for name in sorted(merged))
    )


def set_catalog(
    state: State, now_ms: int, *, expected: str | None, key: str, generation: int
) -> tuple[State, bool]:
    """Point to another catalog, which was written in `generation`.

    Raises: Conflict when the current catalog is not the expected one; Fenced for a catalog that was
    written too long ago.
    """
    if state.catalog == key:
        return state, True
    if state.catalog != expected:
        raise Conflict("the collections were changed meanwhile", shard=state.name)
    if generation < state.fence:
        raise Fenced("this was written too long ago: it may have been collected", key=key)
    return step(state, now_ms, catalog=key), False


def encode_catalog(catalog: Catalog) -> bytes:
    """Return the bytes of a catalog's blob."""
    return orjson.dumps({"format": FORMAT, **asdict(catalog)}, option=orjson.OPT_SORT_KEYS)


def decode_catalog(data: bytes) -> Catalog:
    """Return the catalog that `encode_catalog` wrote.

    Raises: Corrupt.
    """
    try:
        raw = orjson.loads(data)
        if raw.pop("format") != FORMAT:
            raise Corrupt("a catalog has an unknown format")
        items = tuple(Collection(**item) for item in raw.pop("collections"))
        return Catalog(collections=items, **raw)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Corrupt("a catalog of collections is damaged", reason=str(error)) from error
