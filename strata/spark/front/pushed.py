"""The filters that Spark pushes into a data source, as typed expressions.

Spark passes them as Python objects, without a JVM: comparisons of a column with a value of its
type. Unknown filters are left out, which keeps more parts. IS NOT NULL is left out, too, because
Spark evaluates it after conditions that it does not push and that may fail.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

from pyspark.sql import datasource as ds
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, StructType

from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.format.encodings import spark_ddl
from strata.format.values.view import view_type
from strata.model.schema import Relation
from strata.spark.front.constants import YEAR_MONTH, is_plain
from strata.spark.front.tree import column_id

_COMPARISONS: Final[Mapping[type[ds.Filter], str]] = MappingProxyType(
    {
        ds.EqualTo: "equal_to",
        ds.EqualNullSafe: "equal_null_safe",
        ds.GreaterThan: "greater_than",
        ds.GreaterThanOrEqual: "greater_than_or_equal",
        ds.LessThan: "less_than",
        ds.LessThanOrEqual: "less_than_or_equal",
        ds.StringStartsWith: "starts_with",
        ds.StringEndsWith: "ends_with",
        ds.StringContains: "contains",
    }
)
# Types whose DDL name differs from the name in expressions.
_DDL: Final = MappingProxyType({"smallint": "short", "int": "integer", "bigint": "long"})
_EPOCH_DAY: Final = date(1970, 1, 1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO: Final = timedelta(microseconds=1)


def pushed_filter(filters: Iterable[ds.Filter], relation: Relation) -> Filter | None:
    """Return the conjunction of the known filters; None if there is none.

    No filter reads the clock, since Spark has folded it already.
    """
    conjuncts = tuple(e for f in filters if (e := _expr(f, relation)) is not None)
    if not conjuncts:
        return None
    expr = conjuncts[0] if len(conjuncts) == 1 else Call("and", conjuncts, "boolean")
    return Filter(expr, "pushed by Spark", 0, 0)


def _expr(filter: ds.Filter, relation: Relation) -> Expr | None:
    if _tests_for_null(filter):
        return None
    if isinstance(filter, ds.Not):
        inner = _expr(filter.child, relation)
        return None if inner is None else Call("not", (inner,), "boolean")
    column = _column(getattr(filter, "attribute", ()), relation)
    if column is None:
        return None
    if isinstance(filter, ds.IsNull):
        return Call("is_null", (column,), "boolean")
    if isinstance(filter, ds.In):
        items = tuple(_literal(value, column.type) for value in filter.value)
        known = tuple(item for item in items if item is not None)
        return Call("in", (column, *known), "boolean") if len(known) == len(items) else None
    function = _COMPARISONS.get(type(filter))
    value = _literal(getattr(filter, "value", None), column.type)
    if function is None or value is None:
        return None
    return Call(function, (column, value), "boolean")


def _tests_for_null(filter: ds.Filter) -> bool:
    """Return whether a filter is IS NOT NULL, which Spark evaluates after unpushed conditions."""
    negated = isinstance(filter, ds.Not) and isinstance(filter.child, ds.IsNull)
    return negated or isinstance(filter, ds.IsNotNull)


def _column(path: tuple[str, ...], relation: Relation) -> Column | Call | None:
    """Return a column, or a field of one, as in an analysed filter."""
    number = column_id(relation, path[0]) if path else None
    if number is None:
        return None
    column = relation.by_id[number]
    ddl = spark_ddl(column.type)
    if len(path) == 1:
        return Column(number, column.name, _DDL.get(ddl, ddl), column.nullable)
    if YEAR_MONTH in ddl:  # the source shows months where the statistics know intervals
        return None
    kind = from_arrow_type(view_type(column.type), prefer_timestamp_ntz=True)
    expr: Column | Call = Column(number, column.name, _type_name(kind), column.nullable)
    for name in path[1:]:
        if not isinstance(kind, StructType) or name not in kind.names:
            return None
        ordinal = kind.names.index(name)
        kind = kind.fields[ordinal].dataType
        args = (expr, Literal(ordinal, "integer"))
        expr = Call("get_struct_field", args, _type_name(kind))
    return expr


def _type_name(kind: DataType) -> str:
    """Return the name of a type as `strata.spark.front.tree.type_name` does, without a JVM."""
    name = kind.jsonValue()
    return name if isinstance(name, str) else kind.simpleString()


def _literal(value: Any, kind: str) -> Literal | None:
    """Return a value of the column's type; None when it is not of that type, or not exact."""
    if value is None:
        return Literal(None, kind)
    convert = _VALUES.get(kind.split("(", maxsplit=1)[0])
    plain = convert(value) if convert is not None else None
    return Literal(plain, kind) if plain is not None and is_plain(plain) else None


def _days(value: Any) -> int | None:
    # A datetime is a date, too, in Python.
    plain = isinstance(value, date) and not isinstance(value, datetime)
    return (value - _EPOCH_DAY).days if plain else None


def _micros(value: Any) -> int | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - _EPOCH) // _MICRO


def _micros_ntz(value: Any) -> int | None:
    if not isinstance(value, datetime) or value.tzinfo is not None:
        return None
    return (value.replace(tzinfo=UTC) - _EPOCH) // _MICRO


def _only(kind: type) -> Callable[[Any], Any]:
    # bool is an int in Python; the type must match exactly.
    return lambda value: value if type(value) is kind else None


_VALUES: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        **dict.fromkeys(("byte", "short", "integer", "long"), _only(int)),
        **dict.fromkeys(("float", "double"), _only(float)),
        "boolean": _only(bool),
        "decimal": _only(Decimal),
        "string": _only(str),
        "binary": lambda v: bytes(v) if isinstance(v, bytes | bytearray) else None,
        "date": _days,
        "timestamp": _micros,
        "timestamp_ntz": _micros_ntz,
    }
)
