"""Operators for other people's DAGs: one job on the stores of a connection each.

They extend `strata_airflow.spark.StrataJobOperator`: the job's counts come back in XCom and in the
assets' events, and a failure that another try cannot cure is not retried. `shard` is a name, names
with spaces between, or a list; empty: all shards. All arguments are templates but `dry_run` and
other switches.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException

from strata_airflow.assets import shard_asset
from strata_airflow.hooks import DEFAULT
from strata_airflow.spark import POLICY, StrataJobOperator

# The run's own interval; a run without one, or with an empty one, fails and says so.
FROM: Final = "{{ data_interval_start | ts if data_interval_start is defined else '' }}"
TO: Final = "{{ data_interval_end | ts if data_interval_end is defined else '' }}"
Shards = str | Sequence[str]


class _StoreOperator(StrataJobOperator):
    """A job on the shards of a connection's stores."""

    makes_rows = False  # its outlets are the assets of its shards, unless others are given

    def __init__(
        self,
        *,
        job: str,
        shard: Shards,
        arguments: Mapping[str, str],
        strata_conn_id: str = DEFAULT,
        command: Sequence[str] = (),
        outlets: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        names = shard.split() if isinstance(shard, str) and "{" not in shard else shard
        listed = list(names) if not isinstance(names, str) else []
        if outlets is None and self.makes_rows:
            outlets = [shard_asset(one, strata_conn_id) for one in listed if "{" not in one]
        super().__init__(
            job=job,
            command=command,
            arguments={
                "--shard": names if isinstance(names, str) else " ".join(names),
                **arguments,
            },
            strata_conn_id=strata_conn_id,
            outlets=list(outlets or ()),
            **{"retry_policy": POLICY, **kwargs},
        )


class StrataIngestOperator(_StoreOperator):
    """Commit the files of an interval as batches: all of it becomes readable, or nothing.

    `every`: length of a batch, ISO 8601. Repeating an interval changes nothing.
    """

    makes_rows = True

    def __init__(
        self,
        *,
        shard: Shards = "",
        from_time: str = FROM,
        to_time: str = TO,
        every: str = "",
        write_format: str = "",
        dry_run: bool = False,
        **kwargs: Any,
    ) -> None:
        """Take the shards and the interval, whose end is exclusive."""
        arguments = {
            "--from-time": from_time,
            "--to-time": to_time,
            "--every": every,
            "--write-format": write_format,
            "--dry-run": str(dry_run),
        }
        super().__init__(job="ingest", shard=shard, arguments=arguments, **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Submit the job. Raises: AirflowFailException for a run without an interval."""
        begin, end = self.arguments["--from-time"].strip(), self.arguments["--to-time"].strip()
        if not begin or not end or begin == end:
            raise AirflowFailException(
                f"no interval to ingest: from {begin!r} to {end!r} (cure: from_time and to_time)"
            )
        return super().execute(context)


class StrataCompactOperator(_StoreOperator):
    """Merge the runs that are due; readers see the same rows before and after."""

    def __init__(
        self,
        *,
        shard: Shards = "",
        full: bool = False,
        migrate: bool = False,
        dry_run: bool = False,
        **kwargs: Any,
    ) -> None:
        """`full`: everything into one run; `migrate`: also old sort orders and layouts."""
        arguments = {"--full": str(full), "--migrate": str(migrate), "--plan": str(dry_run)}
        super().__init__(job="compact", shard=shard, arguments=arguments, **kwargs)


class StrataCollectGarbageOperator(_StoreOperator):
    """Delete blobs that can never be needed again."""

    def __init__(self, *, shard: Shards = "", dry_run: bool = False, **kwargs: Any) -> None:
        """Take the shards; a dry run names the blobs and deletes nothing."""
        super().__init__(
            job="compact",
            shard=shard,
            arguments={"--sweep": "True", "--plan": str(dry_run)},
            **kwargs,
        )


class StrataStatsBackfillOperator(_StoreOperator):
    """Collect missing statistics of stored parts, without rewriting the parts."""

    def __init__(  # noqa: PLR0913  what selects parts
        self,
        *,
        shard: Shards = "",
        from_time: str = "",
        to_time: str = "",
        columns: Shards = "",
        max_parts: int | None = None,
        again: bool = False,
        dry_run: bool = False,
        **kwargs: Any,
    ) -> None:
        """Take the shards and, if not all, the interval, columns and number of parts."""
        arguments = {
            "--from-time": from_time,
            "--to-time": to_time,
            "--column": columns if isinstance(columns, str) else " ".join(columns),
            "--max-parts": str(max_parts),
            "--again": str(again),
            "--dry-run": str(dry_run),
        }
        super().__init__(
            job="stats", shard=shard, arguments=arguments, command=["backfill"], **kwargs
        )


class StrataStatsTrimOperator(_StoreOperator):
    """Bring the statistics of parts down to a budget."""

    def __init__(
        self,
        *,
        shard: Shards = "",
        budget_bytes: int | None = None,
        dry_run: bool = False,
        **kwargs: Any,
    ) -> None:
        """`budget_bytes`: of a part; None: as each shard declares."""
        arguments = {"--budget": str(budget_bytes), "--dry-run": str(dry_run)}
        super().__init__(job="stats", shard=shard, arguments=arguments, command=["trim"], **kwargs)


class StrataValidateOperator(_StoreOperator):
    """Evaluate filters softly, check formats, write verdicts and the report.

    A mismatch sets the shard's mode back and fails the task for good.
    """

    def __init__(
        self,
        *,
        shard: Shards = "",
        filters: Shards = "",
        now: str = "",
        percent: int | None = None,
        budget_bytes: int | None = None,
        **kwargs: Any,
    ) -> None:
        """`filters`: names of registered ones; empty: all, and those that readers used."""
        arguments = {
            "--filter": filters if isinstance(filters, str) else " ".join(filters),
            "--now": now,
            "--percent": str(percent),
            "--budget-bytes": str(budget_bytes),
            "--run": "{{ run_id | replace(' ', '_') }}",
        }
        super().__init__(job="validate", shard=shard, arguments=arguments, **kwargs)
