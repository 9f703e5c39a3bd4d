"""The columns that the files of a source have."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from strata.ingest.readers.change import SOURCE_TIME
from strata.model.schema import Relation
from strata.model.spec import ShardSpec, SourceSpec
from strata.model.types import ColumnType, Kind

INT64: Final = ColumnType(Kind.INT64)
NONE_RENAMED: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """The columns that a source file has, by its own names, and what its rows represent."""

    relation: Relation
    source: SourceSpec
    names: tuple[str, ...]  # the declared ones, then those of the envelope and the time
    optional: tuple[str, ...]  # columns that a file, or a row of JSON, may lack
    # other names that the shard has or had for them, each with this one
    others: Mapping[str, str] = field(default_factory=dict)
    former: Mapping[str, str] = field(default_factory=dict)  # of these: from before a rename

    @staticmethod
    def of(
        spec: ShardSpec, relation: Relation, renamed: Mapping[str, str] = NONE_RENAMED
    ) -> "SourceColumns":
        """Return the columns of a shard's source.

        `renamed`: former names of the shard's columns, each with the present one.
        """
        source, called = spec.source, spec.source.names_of_source
        optional = [column.name for column in relation.columns if column.default is not None]
        if source.envelope == "upsert" and source.deleted_column:
            optional.append(source.deleted_column)
        names = [called.get(name, name) for name in source_names(spec, relation)]
        former = {old: called.get(now, now) for old, now in renamed.items() if old not in names}
        return SourceColumns(
            named_by_source(relation, called),
            source,
            tuple(names),
            tuple(called.get(name, name) for name in optional),
            {**former, **{c: name for c, name in called.items() if c not in called.values()}},
            former,
        )

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """Return the types of the columns, as far as they are declared."""
        types = {column.name: column.type for column in self.relation.columns}
        return types | ({self.source.diff_column: INT64} if self.source.envelope == "diff" else {})


class NamedBySource(Relation):
    """A relation with the names of a source, which case alone may distinguish."""

    def __post_init__(self) -> None:
        """Refuse nothing: the relation of the shard was checked, and the pairs of names."""


def named_by_source(relation: Relation, called: Mapping[str, str]) -> Relation:
    """Return a relation whose columns have the source's names; `called`: see `names_of_source`."""
    if not called:
        return relation
    columns = (
        replace(column, name=called.get(column.name, column.name)) for column in relation.columns
    )
    return NamedBySource(relation.version, tuple(columns), relation.key, relation.order)


def source_names(spec: ShardSpec, relation: Relation) -> list[str]:
    """Return the columns to read, by the shard's names; columns with a default may be missing."""
    names = [column.name for column in relation.columns]
    if spec.source.envelope == "diff":
        names.append(spec.source.diff_column)
    if spec.source.envelope == "upsert" and spec.source.deleted_column:
        names.append(spec.source.deleted_column)
    if spec.time.origin != "interval" and time_column(spec) not in names:
        names.append(time_column(spec))
    return names


def time_column(spec: ShardSpec) -> str:
    """Return the source column that holds the time."""
    return spec.time.column or SOURCE_TIME
