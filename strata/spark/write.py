"""The rows of a DataFrame as one batch of a shard.

    write(df, "visits", lower=..., upper=...)

Executors check, sort, encode and store the rows in place, as they do with files; the driver only
commits. Rejected rows go to the quarantine of the shard.
"""

import os
import pickle
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from strata.config.settings import load_settings
from strata.errors import InvalidRequest, StrataError
from strata.ingest.readers.rejects import SHOWN
from strata.ingest.tables import Rows, check_row_names, commit_tables, open_batch, table_task
from strata.ingest.task import IngestReport, IngestTask, TaskResult
from strata.model.settings import Settings
from strata.model.spec import given_token
from strata.spark.carried import packed_up
from strata.spark.runner import spark_runner
from strata.store.open import open_stores


def write(  # noqa: PLR0913  the questions of a write; all but the interval have an answer
    rows: DataFrame,
    shard: str,
    *,
    lower: int,
    upper: int,
    token: str | None = None,
    envelope: str = "append",
    time_column: str | None = None,
    diff_column: str | None = None,
    deleted_column: str | None = None,
    config: str | Settings | None = None,
) -> IngestReport:
    """Append the rows of a DataFrame as the batch [lower, upper), exactly once.

    The columns are the declared ones by name, in the form that readers see. `token` names the
    write, so that a repetition changes nothing and reports that; None derives it from the interval.
    `envelope`: "append", "diff" (with `diff_column`) or "upsert" (with `deleted_column` for
    tombstones; several rows of a key count in the order of the DataFrame). Times are `lower`, or
    come from `time_column`, under the shard's late and early policy. `config` is a settings file;
    None takes the environment's.

    Units: milliseconds since 1970.
    Raises: InvalidRequest for undeclared columns, for an interval that is already written with
    another token, and for too many rejected rows; Conflict when the shard has moved on: write
    again.
    Cost: runs the DataFrame once; makes a run for each `ingest.task_bytes` of a partition.
    """
    settings = config if isinstance(config, Settings) else load_settings(config, os.environ)
    stores = open_stores(settings.store)
    named = given_token(token)
    wanted = Rows(lower, upper, named, envelope, time_column, diff_column, deleted_column)
    opened = open_batch(stores, settings, shard, wanted)
    if opened.report is not None:
        return opened.report
    check_row_names(opened.task, rows.columns)
    _check_fields(rows.schema)
    task, table_bytes = opened.task, settings.ingest.task_bytes

    def stored(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        found = _attempt(task, batches, partition, table_bytes)
        yield pa.record_batch([pa.array(found, pa.binary())], ["result"])

    rows_of_results = packed_up(rows).mapInArrow(stored, "result binary").collect()
    results: list[TaskResult] = []
    for row in rows_of_results:
        result = pickle.loads(row["result"])
        if isinstance(result, StrataError):
            raise result
        results.append(result)
    results.sort(key=lambda result: result.number)
    runner = spark_runner(rows.sparkSession)
    return commit_tables(stores, settings, opened, results, runner)


def _check_fields(schema: StructType) -> None:
    """Refuse a column that Spark cannot hand over, and does not name. Raises: InvalidRequest."""
    for column in schema:
        if _has_twins(column.dataType):
            raise InvalidRequest(
                "a struct in the frame has two fields of one name",
                column=column.name,
                type=column.dataType.simpleString()[:SHOWN],
                cure="give each field its own name",
            )


def _has_twins(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _has_twins(kind.elementType)
    if isinstance(kind, MapType):
        return _has_twins(kind.keyType) or _has_twins(kind.valueType)
    if not isinstance(kind, StructType):
        return False
    return len({*kind.names}) < len(kind.names) or any(_has_twins(f.dataType) for f in kind)


def _attempt(
    task: IngestTask, batches: Iterable[pa.RecordBatch], partition: int, table_bytes: int
) -> list[bytes]:
    """Return the results, or the engine's error, which Spark would wrap in a page of Java."""
    try:
        return [pickle.dumps(r) for r in table_task(task, batches, partition, table_bytes)]
    except StrataError as error:
        return [pickle.dumps(error)]
