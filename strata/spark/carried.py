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

MONTHS: Final = YearMonthIntervalType()  # from year to month
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
    """Return rows with every year-month interval as int, in months, as Python and Arrow need it."""
    if all(_carried(field.dataType, IntegerType()) == field.dataType for field in rows.schema):
        return rows
    return rows.select(*map(_packed, rows.schema))


def _packed(field: StructField) -> Column:
    column = fn.col("`" + field.name.replace("`", "``") + "`")
    carried = _carried(field.dataType, IntegerType())
    if carried == field.dataType:
        return column
    # An interval of years alone would become a number of years.
    return column.cast(_carried(field.dataType, MONTHS)).cast(carried).alias(field.name)


def _carried(kind: DataType, interval: DataType) -> DataType:
    """Return a type with `interval` in the place of every year-month interval."""
    if isinstance(kind, YearMonthIntervalType):
        return interval
    if isinstance(kind, ArrayType):
        return ArrayType(_carried(kind.elementType, interval), kind.containsNull)
    if isinstance(kind, MapType):
        value = _carried(kind.valueType, interval)
        return MapType(_carried(kind.keyType, interval), value, kind.valueContainsNull)
    if isinstance(kind, StructType):
        return StructType(
            [StructField(f.name, _carried(f.dataType, interval), f.nullable) for f in kind]
        )
    return kind


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
