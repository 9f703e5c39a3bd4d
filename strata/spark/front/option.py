"""The option `where` of the data source: a filter, and the conditions under which it is valid.

One session analyses the filter once, for the columns that the shard has at that time. Its meaning
changes with the zone, with ANSI mode and with the version of the relation. So the option carries
all of these, and they are compared where it is used: the relation when the read is planned, the
session in the tasks, which are the first to know it. An option that does not match chooses no
parts.

The clock of the query is later than that of the option, and Spark executes a plan repeatedly for
queries of one `load()`. So the clock may have any value from the option's clock on.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Final

import pyspark
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from strata.errors import InvalidRequest
from strata.expr.exprjson import dump_filter, load_filter
from strata.expr.filter import Filter
from strata.format.columns import D, T
from strata.format.values.view import view_type
from strata.model.schema import Relation
from strata.spark.front.tree import column_id

_log: Final = logging.getLogger(__name__)
ZONE: Final = "spark.sql.session.timeZone"
APPLICATION: Final = "spark.app.id"
_EXECUTION: Final = "spark.sql.execution.id"  # local property of the tasks of a query
# Settings that change what a filter means, or the order in which it is evaluated.
MEANING: Final = (
    ZONE, "spark.sql.ansi.", "spark.sql.legacy.", "spark.sql.caseSensitive", "spark.sql.optimizer.",
    "spark.sql.codegen.", "spark.sql.subexpressionElimination.", "spark.sql.timestampType",
    "spark.sql.constraintPropagation.", "spark.sql.columnNameOfCorruptRecord",
    "spark.sql.mapKeyDedupPolicy", "spark.sql.json", "spark.sql.datetime", "spark.sql.decimal",
    "spark.sql.collation.", "spark.sql.preserveCharVarcharTypeInfo", "spark.sql.function.",
    "spark.sql.parser.", "spark.sql.variable.", "spark.sql.analyzer.", "spark.sql.icu.",
    "spark.sql.charAsVarchar",
)  # fmt: skip
LAST_MICRO: Final = 253_402_300_799_999_999  # the end of the year 9999
CURE: Final = "make it anew with strata.spark.where_option, in the session of the query"


@dataclass(frozen=True)
class AnalysedFilter:
    """An analysed filter, and the conditions of its analysis."""

    filter: Filter
    shard: str
    relation: str
    session: Mapping[str, str]

    @classmethod
    def of(
        cls, spark: SparkSession, shard: str, relation: Relation, filter: Filter
    ) -> "AnalysedFilter":
        """Return the option for a filter that a session has analysed."""
        return cls(filter, shard, relation_mark(relation), meaning(spark.conf.getAll))

    def text(self) -> str:
        """Return the text that `question` reads back."""
        document = {
            "filter": json.loads(dump_filter(self.filter)),
            "shard": self.shard,
            "relation": self.relation,
            "session": dict(self.session),
        }
        return json.dumps(document, separators=(",", ":"))

    def later(self) -> Filter:
        """Return the filter at any time from now on."""
        return replace(self.filter, now_high=max(self.filter.now_high, LAST_MICRO))

    def differs(self, shard: str, relation: Relation) -> str:
        """Return why the option does not match a read of this relation; empty if it does."""
        if shard != self.shard:
            return f"it was made for the shard {self.shard}"
        return "" if self.relation == relation_mark(relation) else "the columns have changed since"


def question(text: str) -> AnalysedFilter:
    """Return the option in `text`.

    Raises: InvalidRequest for anything that `AnalysedFilter.text` has not written.
    """
    try:
        document: dict[str, Any] = json.loads(text)
        filter = load_filter(json.dumps(document["filter"]))
        session = {str(key): str(value) for key, value in document["session"].items()}
        return AnalysedFilter(filter, str(document["shard"]), str(document["relation"]), session)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidRequest("not an analysed filter", value=text[:80], cure=CURE) from error


def relation_mark(relation: Relation) -> str:
    """Return a fingerprint of a relation."""
    return blake2b(repr(relation).encode(), digest_size=16).hexdigest()


def meaning(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the session settings that a filter's meaning depends on.

    If no zone is set, it is that of the JVM, which is fixed only within one application.
    """
    found = {key: value for key, value in settings.items() if key.startswith(MEANING)}
    if ZONE not in found:
        found[APPLICATION] = settings.get(APPLICATION, "")
    return {**found, "version": pyspark.__version__}


def given_filter(
    asked: AnalysedFilter | None, shard: str, relation: Relation, schema: StructType
) -> Filter | None:
    """Return the filter of a read of this relation and schema; None, with a warning, if it is not.

    The caller filters rows all the same, so without it only more is read.
    """
    if asked is None or not reads_alike(relation, schema):
        return None
    if differs := asked.differs(shard, relation):
        warn(f"the option `where` is another question: {differs}")
        return None
    return asked.later()


def reads_alike(relation: Relation, schema: StructType) -> bool:
    """Return whether a user's schema reads each column as what it is; warn if it does not."""
    if other := retyped(relation, schema):
        warn(f"the schema reads columns as something else: {', '.join(other)}")
    return not other


def warn(why: str) -> None:
    """Log that the filter of an option chooses no parts."""
    _log.warning("%s: it is ignored, and all parts are read; %s", why, CURE)


def fits_task(session: Mapping[str, str]) -> bool:
    """Return whether the session of this task has these settings; warn if it does not."""
    if differs := other_settings(session):
        warn(f"the option `where` was made by a session of other settings ({differs})")
    return not differs


def other_settings(
    session: Mapping[str, str], chosen: Callable[[Mapping[str, str]], Mapping[str, str]] = meaning
) -> str:
    """Return how the session of this task differs from these settings; empty if it does not.

    `chosen` takes the settings that matter from all of them.
    """
    context = TaskContext.get()
    if context is None:
        return "this is no task of a query"
    return differences(session, chosen(context._localProperties or {}))


def shows_settings() -> bool:
    """Return whether this task belongs to a query, and so sees the settings of its session."""
    context = TaskContext.get()
    return context is not None and _EXECUTION in (context._localProperties or {})


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return the settings that differ, each with both values; empty if none does."""
    names = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    pairs = ((name, before.get(name, "not set"), now.get(name, "not set")) for name in names)
    return ", ".join(f"{name} was {old}, is {new}" for name, old, new in pairs)


def retyped(relation: Relation, schema: StructType) -> tuple[str, ...]:
    """Return the columns that a user's schema reads as something else; t and d are longs.

    That is another type, or a promise of no nulls that the relation does not make: Spark believes
    the promise, and fails on a null. Every row that is read may fail so, whether or not the filter
    looks at the column.
    """
    return tuple(field.name for field in schema if _is_other(relation, field))


def check_unaltered(
    before: Relation, relation: Relation, schema: StructType, *, shard: str, cure: str
) -> None:
    """Refuse to read columns by a schema that was made for another relation, `before`.

    Values of another type would be rounded, or fail; those of another column are not meant.
    Raises: InvalidRequest, naming the columns.
    """
    both = before.ids.keys() & relation.ids.keys() & {*schema.fieldNames()}
    altered = {name for name in both if before.ids[name] != relation.ids[name]}
    altered |= {*retyped(relation, schema)}.difference(retyped(before, schema))
    if altered:
        raise InvalidRequest(
            "columns of the shard have another type than when this query began, or the names of "
            "others",
            shard=shard,
            columns=sorted(altered),
            cure=cure,
        )


def _is_other(relation: Relation, field: StructField) -> bool:
    number = column_id(relation, field.name)
    if number is None:
        return field.name in (T, D) and field.dataType.simpleString() != "bigint"
    column = relation.by_id[number]
    own = from_arrow_type(view_type(column.type), prefer_timestamp_ntz=True)
    promises = (not field.nullable and column.nullable) or _promises(field.dataType)
    return promises or own.simpleString() != field.dataType.simpleString()


def _promises(kind: DataType) -> bool:
    """Return whether a type promises no nulls inside its values."""
    match kind:
        case ArrayType():
            return not kind.containsNull or _promises(kind.elementType)
        case MapType():
            return not kind.valueContainsNull or _promises(kind.valueType)
        case StructType():
            return any(not field.nullable or _promises(field.dataType) for field in kind.fields)
    return False
