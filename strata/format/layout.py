"""The self-description of a part file: its columns and its footer.

The footer's key-value metadata are texts under `strata.*`; docs/reference/format.md lists them. Two
numbers guard the future. `format_version`: a reader that does not know it must refuse the part.
`migration`: the generation of code that wrote `k_s` and `v_s`; a reader ignores those columns if
that generation is known to have written them wrongly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

import pyarrow as pa

import strata
from strata.errors import Corrupt, InvalidRequest
from strata.format.columns import K_S, V_S, D, K, T, V, child
from strata.format.encodings import arrow_type
from strata.model.schema import Column, Relation
from strata.model.spec import LAYOUTS
from strata.model.types import ColumnType

Stored: TypeAlias = tuple[tuple[int, ColumnType], ...]  # id and type of columns
FORMAT_VERSION: Final = 1
MIGRATION: Final = 1  # written now
IGNORED_MIGRATIONS: Final = frozenset({0})  # their k_s and v_s must not be trusted
EMPTY_CHILD: Final = "_"  # a struct without columns has this one child, boolean, always null
EXTENSION: Final = b"ARROW:extension:name"


@dataclass(frozen=True, slots=True)
class Description:
    """The batch that a part was written for."""

    lower: int  # inclusive
    upper: int  # exclusive
    since: int  # stored times were advanced to it; MIN_TIME if never


@dataclass(frozen=True, slots=True)
class Footer:
    """The part's own account of how it was written."""

    layout: str  # one of LAYOUTS
    relation_version: int
    description: Description
    rows: int  # Parquet's own footer has no checksum: this count reveals a lost row group
    migration: int = MIGRATION
    writer: str = f"strata {strata.__version__}"

    @property
    def has_rows(self) -> bool:
        """Return whether the part holds the row codec's bytes."""
        return self.layout != "structured"

    @property
    def has_columns(self) -> bool:
        """Return whether the part holds structured columns that can be trusted."""
        return self.layout != "row" and self.migration not in IGNORED_MIGRATIONS

    def metadata(self) -> dict[str, str]:
        """Return this footer as key-value metadata."""
        return {
            "strata.format_version": str(FORMAT_VERSION),
            "strata.migration": str(self.migration),
            "strata.layout": self.layout,
            "strata.relation_version": str(self.relation_version),
            "strata.lower": str(self.description.lower),
            "strata.upper": str(self.description.upper),
            "strata.since": str(self.description.since),
            "strata.rows": str(self.rows),
            "strata.writer": self.writer,
        }


def parse_footer(metadata: Mapping[bytes, bytes] | None) -> Footer:
    """Return the footer that a file's key-value metadata describe.

    Raises: Corrupt for anything missing, malformed, or of a version this code does not know.
    """
    found = {
        k.decode(errors="replace"): v.decode(errors="replace") for k, v in (metadata or {}).items()
    }
    version = _number(found, "strata.format_version")
    if version != FORMAT_VERSION:
        raise Corrupt(
            "a part has an unknown format version",
            version=version,
            known=FORMAT_VERSION,
            cure="read it with the version that wrote it",
        )
    migration = _number(found, "strata.migration")
    if not 0 <= migration <= MIGRATION:
        raise Corrupt("a part has an unknown migration number", migration=migration)
    layout = found.get("strata.layout", "")
    if layout not in LAYOUTS:
        raise Corrupt("a part has an unknown layout", layout=layout)
    bounds = (_number(found, f"strata.{name}") for name in ("lower", "upper", "since"))
    return Footer(
        layout,
        _number(found, "strata.relation_version"),
        Description(*bounds),
        _number(found, "strata.rows"),
        migration,
        found.get("strata.writer", ""),
    )


def _number(found: Mapping[str, str], key: str) -> int:
    try:
        return int(found[key])
    except (KeyError, ValueError) as error:
        raise Corrupt("a part's footer is damaged", key=key, value=found.get(key)) from error


def check_layout(layout: str) -> str:
    """Return `layout` if parts can be written in it.

    Raises: InvalidRequest.
    """
    if layout not in LAYOUTS:
        raise InvalidRequest("unknown layout", layout=layout, cure=f"one of {', '.join(LAYOUTS)}")
    return layout


def part_schema(relation: Relation, footer: Footer) -> pa.Schema:
    """Return the schema of a part file.

    Shape: k, v (row layouts), t, d, k_s, v_s (column layouts); only t and d are never null.
    """
    return layout_schema(relation, footer.layout).with_metadata(footer.metadata())


def layout_schema(relation: Relation, layout: str) -> pa.Schema:
    """Return the schema of part files in a layout, without the footer's metadata."""
    return _layout_schema(_stored(relation.key_columns), _stored(relation.value_columns), layout)


def _stored(columns: Sequence[Column]) -> Stored:
    return tuple((column.id, column.type) for column in columns)


@lru_cache(maxsize=64)  # readers of small parts ask once per part
def _layout_schema(key: Stored, value: Stored, layout: str) -> pa.Schema:
    rows = [pa.field(K, pa.binary()), pa.field(V, pa.binary())]
    times = [pa.field(T, pa.int64(), nullable=False), pa.field(D, pa.int64(), nullable=False)]
    columns = [
        pa.field(K_S, struct_type(key)),
        pa.field(V_S, struct_type(value)),
    ]
    fields = {
        "row": [*rows, *times],
        "both": [*rows, *times, *columns],
        "structured": [*times, *columns],
    }[layout]
    return pa.schema(fields)


def struct_type(columns: Stored) -> pa.StructType:
    """Return the type of k_s or v_s: a nullable child for each column, named by id."""
    fields = [
        pa.field(child(number), arrow_type(kind), metadata={EXTENSION: extension_name(kind)})
        for number, kind in columns
    ]
    return pa.struct(fields or [pa.field(EMPTY_CHILD, pa.bool_())])


def extension_name(kind: ColumnType) -> str:
    """Return the Arrow extension name under which the encoding of a type is known.

    The kind, without parameters; spaces in a kind's name become underscores.
    """
    return f"strata.{kind.kind.replace(' ', '_')}.v1"
