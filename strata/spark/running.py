"""Settings that Spark reads only while it runs a filter, after parts were chosen for it.

Names, types, zone and ANSI mode are fixed when a filter is analysed. Some functions ask for their
settings later: a pattern of times means something else under `spark.sql.legacy.timeParserPolicy`,
a map with equal keys under `spark.sql.mapKeyDedupPolicy`. If such a setting changes between
`snapshot` and the action, parts may be missing that the filter would now accept. Tasks see the
settings of the action, so they compare, and refuse to answer. Only below `DataFrame.rdd` does Spark
show its Python tasks no settings; there nothing can be compared.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from strata.decide.read_plan import ReadPlan
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.spark.front.legacy import ELSEWHERE
from strata.spark.front.option import other_settings, shows_settings
from strata.spark.tasks import Tasks

# Settings below these names are asked for by functions while they run.
READ_LATE: Final = (
    "spark.sql.legacy.",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.json",
    "spark.sql.datetime",
    "spark.sql.decimal",
    "spark.sql.icu.",
    "spark.sql.function.",
    "spark.sql.collation.",
    "spark.sql.charAsVarchar",
    "spark.sql.preserveCharVarcharTypeInfo",
)
# Words in front of an opening bracket that call nothing.
_NO_CALLS: Final = frozenset({"and", "or", "not", "in", "between", "when", "then", "else"})
# A comment may stand between a name and its bracket.
_CALLS: Final = re.compile(r"(\w+|`)\s*\(|::|--|/\*")


def read_late(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings among these that functions read while they run."""
    return {
        key: value
        for key, value in settings.items()
        if key.startswith(READ_LATE) and not key.startswith(ELSEWHERE)
    }


def is_guarded(plan: ReadPlan, filter: Filter | None) -> bool:
    """Return whether a read must find the settings as they are now when it runs.

    That is a read that leaves something out for a filter that calls a function. A function of
    constants counts: its value stands in the tree, and Spark computes it again.
    """
    if filter is None or not (plan.left_out or plan.dropped or plan.groups):
        return False
    return any(m[1] is None or m[1].lower() not in _NO_CALLS for m in _CALLS.finditer(filter.sql))


@dataclass(frozen=True)
class SameSettings:
    """The function of a Spark task that first compares the settings; picklable."""

    function: Tasks
    shard: str
    settings: Mapping[str, str]  # that are read late, as they were when parts were chosen

    @classmethod
    def now(cls, spark: SparkSession, shard: str, function: Tasks) -> "SameSettings":
        """Return the function, guarded by the settings of the session as they are now."""
        return cls(function, shard, read_late(spark.conf.getAll))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the function.

        Raises: InvalidRequest if a setting has changed since parts were chosen.
        """
        changed = other_settings(self.settings, read_late)
        if changed and shows_settings():
            raise InvalidRequest(
                "a setting has changed since snapshot() chose the parts",
                shard=self.shard,
                setting=changed,
                cure="call snapshot() again, or set it before",
            )
        return self.function(batches)
