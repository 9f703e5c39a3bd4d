"""What the tasks of a read yield, as a DataFrame.

A small read runs at once, in the driver: a job of one Python task takes longer than such a read.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.serializers import ArrowStreamSerializer

from strata.decide.read_plan import ReadPlan
from strata.format.columns import D, T
from strata.session.session import check_executors
from strata.spark.front.java import spark_sql

Tasks: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]  # mapInArrow's
# Of a small read: the JVM takes 2.5 MiB of rows in the time in which a job of Python tasks begins.
SMALL_PARTS: Final = 64
SMALL_BYTES: Final = 2 << 20  # encoded
SMALL_OUT: Final = 5 << 19  # decoded
CELL_BYTES: Final = 8  # of a value, by rule of thumb: what is read in vain costs a fifth of a read
# With this setting the JVM reads what is sent by offsets of other lengths, and may die of it.
LARGE_TYPES: Final = "spark.sql.execution.arrow.useLargeVarTypes"


def is_small(plan: ReadPlan, columns: int) -> bool:
    """Return whether a plan shows that a read of some columns is worth no job of Spark."""
    if plan.parts_fetched > SMALL_PARTS or plan.bytes_read > SMALL_BYTES:
        return False
    rows = sum(ref.rows for ref in plan.fetched) * plan.bytes_read // max(plan.bytes_fetched, 1)
    return rows * (columns + len((T, D))) * CELL_BYTES <= SMALL_OUT


def task_rows(
    spark: SparkSession,
    work: Tasks,
    tasks: int,
    ddl: str,
    wrapped_by: Callable[[Tasks], Tasks] | None = None,
    *,
    small: bool = False,
) -> DataFrame:
    """Return the rows of `work`, whose input rows are the numbers of tasks, from 0.

    Shape: the columns of `ddl`. `wrapped_by` may wrap `work`.
    Cost: lazy, but for one look at the executors of an application. If `small`, `work` runs at
    once, and its rows are kept; unless they are larger than `SMALL_OUT` in memory.
    Raises: what `work` raises, if `small`; InvalidRequest for executors that cannot run it.
    """
    function = wrapped_by(work) if wrapped_by else work
    small = small and str(spark.conf.get(LARGE_TYPES, "false")).lower() != "true"
    found = _small_rows(function, tasks) if small else None
    if found is not None:
        with suppress(OSError):  # a full disk, or a folder that a cleaner removed: tasks need none
            return _frame(spark, found, ddl)
    check_executors(spark.sparkContext)
    return spark.range(0, tasks, 1, tasks).mapInArrow(function, ddl)


def _frame(spark: SparkSession, rows: Sequence[pa.RecordBatch], ddl: str) -> DataFrame:
    """Return rows as a DataFrame, sent as PySpark sends a large one: by a file that is gone then.

    `createDataFrame` would build each nested column anew, and fails on slices.
    """
    if not rows:
        return spark.createDataFrame([], ddl)
    inside = spark_sql(spark, "api.python.PythonSQLUtils")
    batches = spark.sparkContext._serialize_to_jvm(
        rows,
        ArrowStreamSerializer(),
        inside.readArrowStreamFromFile,
        spark_sql(spark, "api.python.ArrowIteratorServer"),  # where files have to be encrypted
    )
    schema = spark_sql(spark, "types.StructType.fromDDL")(ddl).json()
    return DataFrame(inside.toDataFrame(batches, schema, spark._jsparkSession), spark)


def _small_rows(work: Tasks, tasks: int) -> list[pa.RecordBatch] | None:
    """Return all rows; None, and reads no more, if they are larger than `SMALL_OUT`."""
    numbers = pa.RecordBatch.from_pydict({"id": pa.array(range(tasks), pa.int64())})
    found, size = [], 0
    for batch in work(iter([numbers])):
        size += batch.nbytes
        if size > SMALL_OUT:
            return None
        found.append(batch)
    return found
