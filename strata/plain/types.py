"""Name the types whose columns a plain filter may compare: scalar ones."""

from typing import Final

from strata.format.encodings import spark_ddl
from strata.model.types import ColumnType

WHOLE: Final = ("byte", "short", "integer", "long")  # narrowest first
_NAMES: Final = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
_SCALARS: Final = frozenset(
    {*WHOLE, "boolean", "double", "float", "string", "date", "timestamp", "timestamp_ntz"}
)


def comparable_type(column_type: ColumnType) -> str | None:
    """Return Spark's name of a scalar type, as `strata.expr.nodes` spells it; None for others."""
    ddl = spark_ddl(column_type).lower().replace(" ", "")
    name = _NAMES.get(ddl, ddl)
    return name if name in _SCALARS or name.startswith("decimal(") else None
