"""A shard's relation: columns with ids that are never reused, split into key and value.

Parquet children, statistics and filters refer to a column by id, so a name that is dropped and
added again is a different column. `Relation` is one version; a part records the version it was
written with.
"""

from dataclasses import dataclass
from functools import cached_property

from strata.errors import InvalidRequest
from strata.model.near import one_of
from strata.model.types import ColumnType


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a relation version."""

    id: int  # from 1; unique in the shard for ever
    name: str
    type: ColumnType
    nullable: bool = True
    default: object = None  # for parts older than the column: a JSON value; None means null


@dataclass(frozen=True)
class Relation:
    """One version of a shard's columns.

    Shape: `columns` in declared order; `key` and `order` are column ids; every column that is
    not in `key` is a value column.
    """

    version: int  # from 0; grows with each change
    columns: tuple[Column, ...]
    key: tuple[int, ...]
    order: tuple[int, ...]  # as declared; see `sort_ids` for the complete order

    def __post_init__(self) -> None:
        """Refuse relations that contradict themselves."""
        ids = [column.id for column in self.columns]
        names = [column.name.lower() for column in self.columns]  # Spark ignores case
        if len(set(ids)) != len(ids) or len(set(names)) != len(names):
            raise InvalidRequest("a column is declared twice", columns=names)
        if not self.columns:
            raise InvalidRequest("a shard needs at least one column")
        unknown = [i for i in (*self.key, *self.order) if i not in ids]
        if unknown:
            raise InvalidRequest("key or order names an unknown column", ids=unknown)

    @property
    def highest_id(self) -> int:
        """Return the highest column id of this version."""
        return max(column.id for column in self.columns)

    @cached_property
    def by_id(self) -> dict[int, Column]:
        """Return the columns by their id."""
        return {column.id: column for column in self.columns}

    @cached_property
    def by_name(self) -> dict[str, Column]:
        """Return the columns by their name."""
        return {column.name: column for column in self.columns}

    @cached_property
    def ids(self) -> dict[str, int]:
        """Return the ids of the columns by their name."""
        return {column.name: column.id for column in self.columns}

    @cached_property
    def key_columns(self) -> tuple[Column, ...]:
        """Return the key columns in key order."""
        return tuple(self.by_id[i] for i in self.key)

    @cached_property
    def value_columns(self) -> tuple[Column, ...]:
        """Return the value columns in declared order."""
        key = set(self.key)
        return tuple(column for column in self.columns if column.id not in key)

    @cached_property
    def sort_ids(self) -> tuple[int, ...]:
        """Return the complete sort order: declared order, then the rest of key and value.

        The time `t` follows as the last criterion.
        """
        rest = (c.id for c in (*self.key_columns, *self.value_columns))
        return tuple(dict.fromkeys((*self.order, *rest)))

    def column(self, name: str) -> Column:
        """Return the column called `name`.

        Raises: InvalidRequest, naming the columns that exist.
        """
        try:
            return self.by_name[name]
        except KeyError as error:
            cure = one_of(name, self.by_name)
            raise InvalidRequest("no such column", column=name, cure=cure) from error
