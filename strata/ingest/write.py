"""Write Arrow rows of a program as one batch, exactly once and without Spark.

`strata.spark.write` does the same for a DataFrame, on its executors.
"""

import os
from dataclasses import replace
from typing import Any, Final, TypeAlias

import pyarrow as pa

from strata.config.settings import load_settings
from strata.errors import InvalidRequest
from strata.ingest.tables import Rows, check_row_names, commit_tables, open_batch, table_task
from strata.ingest.task import SENT_BYTES, IngestReport
from strata.model.runner import threads
from strata.model.settings import Settings
from strata.model.spec import given_token
from strata.store.open import open_stores

TASKS: Final = 2  # threads that settle an upsert
# Also anything that offers an Arrow stream: DataFrames of Polars, relations of DuckDB.
ArrowRows: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader | Any


def write(  # noqa: PLR0913 - the questions of a write; all but the interval have an answer
    rows: ArrowRows,
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
    """Append Arrow rows as the batch [lower, upper), exactly once.

    The columns are the declared ones by name, in the form that readers see. `token` names the
    write, so that a repetition changes nothing and reports that; None derives it from the interval.
    `envelope`: "append", "diff" (with `diff_column`) or "upsert" (with `deleted_column` for
    tombstones; several rows of a key count in their order). Times are `lower`, or come from
    `time_column`, under the shard's late and early policy. `config` is a settings file; None takes
    the environment's.

    Units: milliseconds since 1970.
    Raises: InvalidRequest for undeclared columns, for an interval that is already written with
    another token, and for too many rejected rows; Conflict when the shard has moved on: write
    again.
    Cost: reads the rows once; holds `ingest.task_bytes` of them at a time.
    """
    settings = config if isinstance(config, Settings) else load_settings(config, os.environ)
    batches = _batches(rows)
    stores = open_stores(settings.store)
    named = given_token(token)
    wanted = Rows(lower, upper, named, envelope, time_column, diff_column, deleted_column)
    opened = open_batch(stores, settings, shard, wanted)
    opened = replace(opened, task=replace(opened.task, hand_over=SENT_BYTES))
    if opened.report is not None:
        return opened.report
    check_row_names(opened.task, batches.schema.names)
    stored = table_task(opened.task, batches, 0, settings.ingest.task_bytes, stores.blob)
    return commit_tables(stores, settings, opened, list(stored), threads(TASKS))


def _batches(rows: ArrowRows) -> pa.RecordBatchReader:
    """Return rows as batches. Raises: InvalidRequest for what is no Arrow stream."""
    if isinstance(rows, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(rows.schema, [rows])
    if hasattr(rows, "__arrow_c_stream__"):
        try:
            return pa.RecordBatchReader.from_stream(rows)
        except pa.ArrowException as error:
            raise InvalidRequest(
                "Arrow cannot take these rows",
                type=type(rows).__name__,
                reason=str(error),
                cure="cast the column to a type of Arrow, as Int128 of Polars to Decimal(38, 0)",
            ) from error
    raise InvalidRequest(
        "these rows offer no Arrow stream",
        type=type(rows).__name__,
        cure="a pyarrow Table or RecordBatchReader, a Polars DataFrame, a DuckDB relation",
    )
