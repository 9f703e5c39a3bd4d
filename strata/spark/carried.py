"""Carry year-month intervals through Python as whole months, because PySpark cannot convert them.

PySpark's Arrow conversion supports every type that readers see except `interval year to month`
(UNSUPPORTED_DATA_TYPE_FOR_ARROW_CONVERSION in 4.3.0, also inside other types, in both directions).
So such values travel as int: a cast after `mapInArrow` makes them intervals, a cast before
`toArrow` makes them int again. A Python data source has no place for that cast, so it shows months.
"""

import re
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    MapType,
    StructField,
    StructType,
    YearMonthIntervalType,
)

from strata.format.encodings import spark_ddl
from strata.model.types import ColumnType

_NAME_OR_INTERVAL: Final = re.compile(r"`(?:[^`]|``)*`|interval year to month")


def carried_type(column_type: ColumnType) -> str:
    """Return the Spark DDL type of a declared type's values when they leave Python.

    >>> from strata.model.types import parse_type
    >>> carried_type(parse_type("list<interval year to month>"))
    'array<int>'
    """
    return _NAME_OR_INTERVAL.sub(
        lambda found: found[0] if found[0].startswith("`") else "int", spark_ddl(column_type)
    )


def arrived(name: str, column_type: ColumnType) -> Column:
    """Return the carried column `name` (quoted as in SQL) in the form that readers see."""
    seen = spark_ddl(column_type)
    column = fn.col(name)
    if carried_type(column_type) == seen:
        return column
    return column.cast(seen).alias(_unquoted(name))


def packed_up(rows: DataFrame) -> DataFrame:
    """Return rows with every year-month interval as int, as `toArrow` and `collect` need it."""
    columns = []
    for field in rows.schema.fields:
        column = fn.col("`" + field.name.replace("`", "``") + "`")
        carried = _carried(field.dataType)
        columns.append(
            column if carried == field.dataType else column.cast(carried).alias(field.name)
        )
    return rows.select(*columns)


def _carried(kind: DataType) -> DataType:
    if isinstance(kind, YearMonthIntervalType):
        return IntegerType()
    if isinstance(kind, ArrayType):
        return ArrayType(_carried(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _carried(kind.valueType), kind.valueContainsNull)
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, _carried(f.dataType), f.nullable) for f in kind])
    return kind


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
